"""Snapshots of a journal on the servers, for a machine that joins or was away for long.

Each is a separate stream, which is removed as a whole.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from honeybadger_host.cluster.log import Names, snapshots_of
from honeybadger_host.cluster.records import PART_BYTES, PART_HEADER, SCHEMA_HEADER, Message, Position, read_kept
from honeybadger_host.cluster.servers import EXPECTED_HEADER, Servers
from honeybadger_host.journal.opening import copy_journal
from honeybadger_host.journal.schema import SCHEMA_VERSION, Marks

DIGEST_HEADER = "Hb-Digest"  # of the whole file; in its last message, as the schema is


def publish_snapshot(servers: Servers, names: Names, journal: Path) -> Position:
    """Put a copy of a journal, which a host may have open, on the servers; return its position. Raises Unreachable."""
    copy = journal.with_name("snapshot.tmp")
    copy.unlink(missing_ok=True)
    try:
        copy_journal(journal, copy, marks=Marks(0, {}))
        with closing(sqlite3.connect(copy)) as connection:
            kept = read_kept(connection)
            position = kept.position
            if kept.clean != position.stream:
                connection.execute("VACUUM")  # the host here has not removed forgotten texts from the file yet
        stream = f"{names.snapshots}{position.seq}"
        subject = f"hb.{names.identity}.snapshot.{position.seq}"
        servers.remove_stream(stream)  # left by an unfinished one
        servers.make_stream(stream, subject)
        count = -(-copy.stat().st_size // PART_BYTES)
        digest = hashlib.sha256()
        with copy.open("rb") as file:
            for number in range(1, count + 1):
                part = file.read(PART_BYTES)
                digest.update(part)
                headers = {PART_HEADER: f"{number}/{count}", EXPECTED_HEADER: str(number - 1)}
                if number == count:
                    headers |= {DIGEST_HEADER: digest.hexdigest(), SCHEMA_HEADER: str(SCHEMA_VERSION)}
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
    newest = next(finished_snapshots(servers, names), None)
    return newest is not None and newest[1].headers.get(SCHEMA_HEADER) == str(SCHEMA_VERSION)


def finished_snapshots(servers: Servers, names: Names) -> Iterator[tuple[str, Message]]:
    """Yield the complete snapshots, the newest first, each with its last message."""
    for stream, seq in sorted(snapshots_of(servers, names).items(), key=lambda one: -one[1]):
        end = servers.message(stream, newest=f"hb.{names.identity}.snapshot.{seq}")
        if end is not None and DIGEST_HEADER in end.headers:
            yield stream, end
