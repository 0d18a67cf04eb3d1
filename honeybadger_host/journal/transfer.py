"""All that a journal has of one group, out of one home and into another."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from honeybadger_host.journal.edits import LINE_KINDS, Looked, Seen, write_looked
from honeybadger_host.journal.folding import begin_pasts
from honeybadger_host.journal.forgetting import Forgetting, keep_forgetting
from honeybadger_host.journal.schema import (
    FILES_BEHIND,
    IS_EDIT,
    LOG_SEQ,
    ROWS_AT_ONCE,
    UNPROJECTED,
    Marks,
    Receipt,
    Row,
    SharedLog,
    connect,
    insert_changes,
    read_marks,
    read_meta,
    read_rows,
    reading,
    transaction,
    write_marks,
)

# In `meta`: the group whose files are still to be put in their place, after all else of it was taken in.
LOADED = "loaded"

T = TypeVar("T")


class Arriving(NamedTuple):
    """Rows that come into a journal besides changes.

    Args:
        unsettled: oldest change that may be missing in a file, by file.
        forgetting: texts to forget as soon as it is there; None: none.
    """

    receipts: Iterable[Receipt]
    seen: Iterable[Seen]
    unsettled: Mapping[str, int]
    forgetting: Forgetting | None = None


def last_of(path: Path, group: str | None = None) -> tuple[int, int]:
    """Return number and time of the newest change or receipt, of one group or of all; zeros: there is none."""
    where, values = ("", ()) if group is None else ("WHERE grp = ?", (group,))
    query = f"SELECT seq, at FROM {{}} {where} ORDER BY seq DESC LIMIT 1"  # noqa: S608  constants
    with reading(path) as connection:
        found = [connection.execute(query.format(table), values).fetchone() for table in ("changes", "receipts")]
    return max((row for row in found if row is not None), default=(0, 0))


def read_group(path: Path, group: str, up_to: int) -> Iterator[Row]:
    """Yield the changes of a group, oldest first. Raises JournalError."""
    return map(
        Row._make, read_rows(path, "SELECT * FROM changes WHERE grp = ? AND seq <= ? ORDER BY seq", (group, up_to))
    )


def read_receipts(path: Path, group: str, up_to: int) -> Iterator[Receipt]:
    """Yield the receipts of a group, oldest first. Raises JournalError."""
    return map(
        Receipt._make, read_rows(path, "SELECT * FROM receipts WHERE grp = ? AND seq <= ? ORDER BY seq", (group, up_to))
    )


def read_unsettled(path: Path, group: str, up_to: int) -> dict[str, int]:
    """Return file -> its oldest change that is not settled, of those of a group. Raises JournalError."""
    query = f"SELECT file, min(seq) {UNPROJECTED} AND grp = ? AND seq <= ? GROUP BY file"
    with reading(path) as connection:
        marks = read_marks(connection)
        return dict(connection.execute(query, (marks.projected_seq, marks.settled_seq, group, up_to)))


def _in_batches(items: Iterable[T]) -> Iterator[list[T]]:
    left = iter(items)
    while some := list(islice(left, ROWS_AT_ONCE)):
        yield some


def write_events(
    path: Path, group: str, events: Iterable[Row], arriving: Arriving, shared: SharedLog | None = None
) -> None:
    """Take in all of a group that the journal has nothing of, or nothing of it. Nobody else has the journal open.

    Args:
        events: in order; numbers behind all that the journal has.
        shared: the log of a journal that several machines keep. What this machine's files are is not in it: if it has
            the rows and the commit here fails, the mark that they are behind says that the next start makes them.
    Raises WorldFailed, StorageFailed, JournalError; then the journal is as it was.
    """
    with closing(connect(path, is_shared=shared is not None)) as writer:
        if shared is not None:
            with transaction(writer, path) as connection:
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, 1)", (FILES_BEHIND,))
        with transaction(writer, path, shared) as connection:
            last = 0
            files: set[str] = set()
            for some in _in_batches(events):
                insert_changes(connection, some, ())
                files.update(row.file for row in some if row.kind in LINE_KINDS)
                last = some[-1].seq
            insert_changes(connection, (), arriving.receipts)
            for seen in _in_batches(arriving.seen):
                write_looked(connection, Looked(seen=seen))
                files.update(one.file for one in seen)
            begin_pasts(connection, files)
            if arriving.forgetting is not None:
                keep_forgetting(connection, arriving.forgetting)
            _mark(writer, group, last, arriving.unsettled)


def _mark(connection: sqlite3.Connection, group: str, last: int, unsettled: Mapping[str, int]) -> None:
    """Note how far the files are with a group whose own are still to be put in their place."""
    before = read_marks(connection)
    behind = connection.execute(
        f"SELECT file, min(seq) FROM changes WHERE seq > ? AND grp != ? AND NOT {IS_EDIT} GROUP BY file",  # noqa: S608  a constant
        (before.settled_seq, group),
    )
    marks = Marks(max(last, before.settled_seq), {**dict(behind), **before.unsettled, **unsettled})
    write_marks(connection, marks)
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (LOADED, group))
    connection.execute("DELETE FROM meta WHERE key = ?", (FILES_BEHIND,))


def is_shared(path: Path) -> bool:
    """Return whether several machines keep a journal; a write without their log would be on this one only."""
    return read_meta(path, LOG_SEQ) is not None


def are_files_behind(path: Path) -> bool:
    """Return whether another machine owns the home that this journal is of, or did when this one looked last."""
    return path.exists() and read_meta(path, FILES_BEHIND) is not None


def read_loaded(path: Path) -> str | None:
    """Return the group whose files are still to be placed, or None if nothing is left to do. Raises JournalError."""
    value = read_meta(path, LOADED)
    return None if value is None else str(value)


def forget_loaded(path: Path) -> None:
    """Note that the files of a group are in their place."""
    with closing(connect(path)) as writer, transaction(writer, path) as connection:
        connection.execute("DELETE FROM meta WHERE key = ?", (LOADED,))
