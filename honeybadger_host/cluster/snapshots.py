"""Snapshots of a journal on the servers: a machine that joins, or was away for long, begins with the newest.

Each is a separate stream, which is removed as a whole.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from honeybadger_host.cluster.files import take_out_lost
from honeybadger_host.cluster.log import Names, snapshots_of
from honeybadger_host.cluster.records import (
    CLEAN,
    NODE,
    PART_BYTES,
    PART_HEADER,
    SCHEMA_HEADER,
    Message,
    Position,
    diverged,
    name_of,
    read_kept,
)
from honeybadger_host.cluster.servers import EXPECTED_HEADER, Servers
from honeybadger_host.errors import JournalError, NotFound
from honeybadger_host.files.safe_files import closing_fd, make_file, sync_folder
from honeybadger_host.journal.forgetting import Forgetting
from honeybadger_host.journal.opening import copy_journal
from honeybadger_host.journal.schema import FILES_BEHIND, SCHEMA_VERSION, Marks, connect, reading

_DIGEST_HEADER: Final = "Hb-Digest"  # of the whole file; in its last message, as the schema is


def publish_snapshot(servers: Servers, names: Names, journal: Path) -> Position:
    """Put a copy of a journal, which a host may have open, on the servers; return its position. Raises Unreachable."""
    copy = journal.with_name("snapshot.tmp")
    copy.unlink(missing_ok=True)
    try:
        copy_journal(journal, copy, marks=Marks(0, {}))
        with closing(sqlite3.connect(copy)) as connection:
            kept = read_kept(connection)
            position = kept.position
            if position is None:
                raise JournalError(f"{journal} is of one machine")
            if kept.clean != position.stream:
                connection.execute("VACUUM")  # the host here has not removed forgotten texts from the file yet
        stream = f"{names.snapshots}{position.seq}"
        subject = f"hb.{names.identity}.snapshot.{position.seq}"
        servers.remove_stream(stream)  # left by an unfinished one
        servers.make_stream(stream, subject)
        size = copy.stat().st_size
        count = -(-size // PART_BYTES)
        digest = hashlib.sha256()
        with copy.open("rb") as file:
            for number in range(1, count + 1):
                part = file.read(PART_BYTES)
                digest.update(part)
                headers = {PART_HEADER: f"{number}/{count}", EXPECTED_HEADER: str(number - 1)}
                if number == count:
                    headers |= {_DIGEST_HEADER: digest.hexdigest(), SCHEMA_HEADER: str(SCHEMA_VERSION)}
                servers.publish(subject, part, headers)
    finally:
        copy.unlink(missing_ok=True)
    for other, seq in snapshots_of(servers, names).items():
        if seq < position.seq:
            servers.remove_stream(other)
    return position


def is_snapshot_current(servers: Servers, names: Names) -> bool:
    """Return whether the newest snapshot is of this schema: a machine that joins follows no other. Raises Unreachable.

    Also an owner that was the first of a new schema may have died before it published one.
    """
    for _, end in _finished(servers, names):
        return end.headers.get(SCHEMA_HEADER) == str(SCHEMA_VERSION)
    return False


def load_snapshot(servers: Servers, names: Names, journal: Path) -> list[Forgetting]:
    """Make the newest snapshot this machine's journal; return the texts forgotten since the previous one.

    All of its files are brought up to date afterwards. Raises NotFound if the servers have none; Unreachable;
    JournalError: it is damaged, or another journal's, and the one that is here stays.
    """
    for stream, end in _finished(servers, names):
        temporary = journal.with_name("joining.tmp")
        temporary.unlink(missing_ok=True)
        digest, last = hashlib.sha256(), 0
        make_file(temporary)
        with temporary.open("wb") as file:
            while last < end.seq:
                for message in servers.fetch(stream, last):
                    digest.update(message.data)
                    file.write(message.data)
                    last = message.seq
        if digest.hexdigest() != end.headers[_DIGEST_HEADER]:
            raise JournalError(
                f"the snapshot {stream} is damaged: `honeybadger-host cluster init` publishes another, where the home "
                "is and no host runs"
            )
        lost: list[Forgetting] = []
        if journal.exists():
            _compare(temporary, journal)
            lost = take_out_lost(journal.parent.parent, journal, temporary)
        _put_in_place(temporary, journal)
        return lost
    raise NotFound(f"the servers have no snapshot of the home {names.identity}: is the identity right?")


def _compare(snapshot: Path, journal: Path) -> None:
    """Raise JournalError if a snapshot does not have the last change of the journal that it replaces."""
    with closing(sqlite3.connect(snapshot)) as taken, reading(journal) as here:
        what = "SELECT seq, at, grp, sender, request, file FROM changes"
        last = here.execute(f"{what} ORDER BY seq DESC LIMIT 1").fetchone()
        if last is not None and taken.execute(f"{what} WHERE seq = ?", last[:1]).fetchone() != last:
            position = read_kept(here).position
            raise diverged(0 if position is None else position.seq)


def _put_in_place(temporary: Path, journal: Path) -> None:
    with closing(connect(temporary)) as connection:
        position, node = read_kept(connection).position, name_of(journal.parent.parent)
        clean = 0 if position is None else position.stream
        if journal.exists():
            with reading(journal) as here:
                kept = read_kept(here)
            clean, node = kept.clean, kept.node
        rows = [(FILES_BEHIND, 1), (CLEAN, clean), (NODE, node)]
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
    with closing_fd(os.open(temporary, os.O_RDONLY)) as fd:
        os.fsync(fd)
    for end in ("-wal", "-shm"):
        journal.with_name(journal.name + end).unlink(missing_ok=True)
    os.rename(temporary, journal)
    sync_folder(journal.parent)


def _finished(servers: Servers, names: Names) -> Iterator[tuple[str, Message]]:
    """Yield the complete snapshots, the newest first, each with its last message."""
    for stream, seq in sorted(snapshots_of(servers, names).items(), key=lambda one: -one[1]):
        end = servers.message(stream, newest=f"hb.{names.identity}.snapshot.{seq}")
        if end is not None and _DIGEST_HEADER in end.headers:
            yield stream, end
