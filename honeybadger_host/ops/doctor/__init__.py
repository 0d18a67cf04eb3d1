"""The doctor: checks of a home, each a function from the home folder to findings.

Reading order: `home_checks` and `agent_checks`.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from honeybadger_host.errors import SettingsError
from honeybadger_host.ops.doctor import agent_checks, home_checks
from honeybadger_host.ops.findings import Finding, dead_letters, disk

CHECKS: Final[tuple[Callable[[Path], Iterator[Finding]], ...]] = (
    home_checks.home_folder,
    home_checks.settings,
    home_checks.lock,
    home_checks.journal,
    disk,
    home_checks.group_files,
    home_checks.entries,
    home_checks.inboxes,
    home_checks.running,
    dead_letters,
    agent_checks.agents,
    agent_checks.directives,
    agent_checks.coding_tools,
)


def examine(
    home: Path,
    more: Sequence[Callable[[Path], Iterator[Finding]]] = (),
) -> Iterator[Finding]:
    """Run every check and yield each finding at once, since one check may take minutes (with a million entries).

    A check that cannot read something yields a finding about it. One that needs the settings is left out while they are
    wrong.

    Args:
        more: additional checks.
    """
    for check in (*CHECKS, *more):
        try:
            yield from check(home)
        except SettingsError:
            pass  # `settings` names what is wrong with them
        except OSError as error:
            yield Finding(check.__name__, "problem", f"cannot be checked: {error}", "see the message")
