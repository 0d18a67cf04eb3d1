"""The doctor: `checks` of a home, each a function from the home folder to findings."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from honeybadger_host.errors import SettingsError
from honeybadger_host.ops.doctor import checks
from honeybadger_host.ops.findings import Finding, dead_letters, disk

CHECKS: tuple[Callable[[Path], Iterator[Finding]], ...] = (
    checks.home_folder,
    checks.settings,
    checks.lock,
    checks.journal,
    disk,
    checks.group_files,
    checks.entries,
    checks.inboxes,
    checks.running,
    dead_letters,
    checks.agents,
    checks.directives,
    checks.coding_tools,
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
