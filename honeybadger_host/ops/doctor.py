"""The doctor: a list of checks of things that an operator can mend, each a function of the home folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from honeybadger_host.ops import agent_checks, home_checks, machine_checks
from honeybadger_host.ops.findings import Finding

CHECKS: Final[tuple[Callable[[Path], Iterator[Finding]], ...]] = (
    machine_checks.python_and_sqlite,
    home_checks.home_folder,
    home_checks.settings,
    home_checks.lock,
    home_checks.journal,
    machine_checks.disk,
    machine_checks.file_system,
    machine_checks.open_files,
    machine_checks.inotify,
    machine_checks.hard_links,
    home_checks.group_files,
    home_checks.entries,
    home_checks.inboxes,
    home_checks.running,
    home_checks.dead_letters,
    home_checks.metrics,
    agent_checks.agents,
    agent_checks.tasks,
    agent_checks.directives,
    agent_checks.coding_tools,
    machine_checks.units,
)


def examine(
    home: Path,
    begins: Callable[[str], None] = lambda name: None,
    more: Sequence[Callable[[Path], Iterator[Finding]]] = (),
) -> Iterator[Finding]:
    """Run every check and yield what it finds at once: with a million entries one of them takes minutes.

    A check that fails itself is a finding, too.

    Args:
        begins: called with the name of each check.
        more: checks besides.
    """
    for check in (*CHECKS, *more):
        begins(check.__name__.replace("_", " "))
        try:
            yield from check(home)
        except OSError as error:
            yield Finding(check.__name__, "problem", f"cannot be checked: {error}", "see the message")
