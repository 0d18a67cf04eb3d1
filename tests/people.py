"""People beside a host: an editor's save, and when the host has seen what was changed."""

import time
from pathlib import Path

from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.journal.edits import EditReader, is_edit
from honeybadger_host.journal.opening import read_position
from honeybadger_host.journal.reader import LogFilter, read_log
from honeybadger_host.journal.schema import Row
from tests.hosting import AT_ONCE, HostProcess, wait_for


def save(path: Path, data: bytes | str) -> None:
    """Save a file as most editors do: beside it, then renamed over it."""
    beside = path.with_name(f".{path.name}.swp")
    beside.write_bytes(data.encode() if isinstance(data, str) else data)
    beside.rename(path)


def settle(home: Path) -> None:
    """Wait until everything stands settled in its file."""

    def is_settled() -> bool:
        position = read_position(home / JOURNAL_FILE)
        return position.marks.projected_seq == position.committed_seq

    wait_for(is_settled, what="everything settled")


def grow_old() -> None:
    """Wait until the notes that are there are old enough to be deleted on purpose, at a host of `AT_ONCE`."""
    time.sleep(float(str(AT_ONCE["documents.saves.DELETED_SECONDS"])) + 0.05)


def wait_until_looked_at(home: Path) -> None:
    """Wait until the first look at a home is over: from then on what changes is an edit."""
    reader = EditReader(home / JOURNAL_FILE)
    wait_for(lambda: reader.looked_at() is not None, what="the first look")


def looking(host: HostProcess) -> HostProcess:
    """Start a host, and wait until its first look at its home is over."""
    host.start()
    wait_until_looked_at(host.home)
    return host


def edits_in(journal: Path, wanted: LogFilter) -> list[Row]:
    """Return the edits by people that match a filter, newest first."""
    return [row for row in read_log(journal, wanted, -1) if is_edit(row)]


def newest_edit(home: Path, file: str, count: int = 1) -> Row:
    """Return the newest edit of a file once there are so many."""
    wanted = LogFilter(file=file)
    return wait_for(
        lambda: (found := edits_in(home / JOURNAL_FILE, wanted))[count - 1 :] and found, what=f"edits of {file}"
    )[0]
