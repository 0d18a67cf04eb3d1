"""The log of a home that several machines keep: one stream of records, to which only the owner appends.

The log keeps an earlier owner from writing. An append names the number of the message before it, and the servers take
only one message for each number. A new owner first appends its epoch, which takes the number that the old owner would
use. Each owner writes to its own subject, and an append also names the subject of the message before it: servers
that were restored from an older copy have other subjects there, and refuse it.

A stream may end: its last record names the next stream. A forgotten text leaves the servers when its stream is removed,
see `files`.
"""

import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from honeybadger_host.cluster.records import (
    CHAIN_HEADER,
    EPOCH_HEADER,
    NEXT_HEADER,
    PART_BYTES,
    PART_HEADER,
    SCHEMA_HEADER,
    Message,
    Position,
    Record,
    Statement,
    diverged,
    dump_statements,
    name_of,
    read_kept,
    whole_record,
    write_position,
)
from honeybadger_host.cluster.servers import (
    EXPECTED_HEADER,
    EXPECTED_OF_SUBJECT_HEADER,
    EXPECTED_SUBJECT_HEADER,
    NET_SECONDS,
    PAUSE_SECONDS,
    Servers,
    Unreachable,
    WrongSequence,
)
from honeybadger_host.errors import JournalError, SettingsError, StorageFailed
from honeybadger_host.journal.schema import SCHEMA_VERSION, reading
from honeybadger_host.journal.transfer import is_shared
from honeybadger_host.log import log

# A commit waits this long for the servers to agree, as while they choose a leader. Then the host ends; the next start
# serves the requests without an answer.
UNCLEAR_SECONDS = 15.0
# A log that ends before this journal is taken for lost after this time. Until then it may be a server that was cut off,
# shows an old end, and has not noticed yet that it is not the leader any more.
LOST_SECONDS = 30.0
ALL_LOGS = "hb.*.log.>"  # subjects of the logs of all homes


class NotOurs(Exception):
    """Another machine's message has the number that ours was to have."""


class Names(NamedTuple):
    """Names of a home on the servers.

    Args:
        first: see `Position.stream`.
    """

    identity: str
    first: int = 0

    @property
    def stream(self) -> str:
        return f"HB_{self.identity}_{self.first}" if self.first else f"HB_{self.identity}"

    @property
    def subjects(self) -> str:
        """Subject of the log: a new one each time that a machine begins to own the home."""
        return f"hb.{self.identity}.log.{self.first}.*" if self.first else f"hb.{self.identity}.log.*"

    def subject(self, kind: str) -> str:
        """Return a subject of the home: `ask` (requests), `who`, `move`, `owner` (the lease), `places`, `machine`."""
        return f"hb.{self.identity}.{kind}"

    @property
    def machines(self) -> str:
        """Stream with the names of the machines that ran lately."""
        return f"HBM_{self.identity}"

    @property
    def snapshots(self) -> str:
        return f"HBS_{self.identity}_"


def read_place(journal: Path) -> tuple[Names, Position, str]:
    """Return the home of a journal, its position, and the name of this machine among those that keep it.

    Raises SettingsError if it is of one machine; JournalError.
    """
    if not (journal.exists() and is_shared(journal)):
        raise SettingsError(
            f"{journal.parent.parent} is of one machine: run `honeybadger-host cluster init` there, or "
            "`honeybadger-host cluster join` with the identity that `init` printed on another machine; or leave "
            "cluster.servers empty"
        )
    with reading(journal) as connection:
        kept = read_kept(connection)
    return Names(kept.identity, kept.position.stream), kept.position, name_of(journal.parent.parent, kept.node)


def make_log(servers: Servers, names: Names) -> None:
    """Make the stream of a log that is not there. Raises Unreachable."""
    servers.make_stream(names.stream, names.subjects, first=names.first)


def logs_of(servers: Servers, names: Names) -> dict[str, int]:
    """Return the first number of each stream of a home's log, including ended ones, by name; see `Position.stream`.

    Raises Unreachable.
    """
    first = Names(names.identity).stream
    found = servers.streams(first, names.subject(">"))
    return {name: int(name.removeprefix(first).lstrip("_") or 0) for name in found}


def snapshots_of(servers: Servers, names: Names) -> dict[str, int]:
    """Return the streams of a home's snapshots: name -> the number of the log it ends with. Raises Unreachable."""
    return {name: int(name.rpartition("_")[2]) for name in servers.streams(names.snapshots, names.subject(">"))}


class Purged(Exception):
    """The log does not go back as far as this journal: begin with the newest snapshot."""


class Log:
    """The end of the log, as this machine knows it. One thread at a time.

    Args:
        position: how far this machine's journal has come.
        last: the last message that was seen; greater than `position.seq` where an owner left a record unfinished.
        end: where the log ended when it was asked last, at most a second ago while it is read.
        epoch: with which this machine owns the home; 0: it does not.
    """

    servers: Servers  # set by each new connection

    def __init__(self, names: Names, position: Position, lost: Callable[[str], None] = lambda why: None) -> None:
        self.names, self.position = names, position
        self.last = self.end = position.seq
        self.epoch = 0
        self._token = secrets.token_hex(8)
        self._behind = ""  # the subject of the last message; empty: it is gone
        self.failed = ""  # why nothing more may be appended
        self._lost = lost
        self._parts: list[Message] = []
        self._lock = threading.Lock()
        self._looked_at = time.monotonic()
        self._short_since: float | None = None  # since when the log has ended before this journal, as servers say

    @property
    def subject(self) -> str:
        """Subject of what this machine appends."""
        return self.names.subjects.replace("*", self._token)

    # ----------------------------------------------------------------------------------------------------- reading

    def read(self) -> list[Record]:
        """Return the next records, oldest first; none yet: an empty list. Raises Unreachable, Purged, JournalError."""
        if time.monotonic() - self._looked_at >= NET_SECONDS:
            self._looked_at = time.monotonic()
            self._end()
        records: list[Record] = []
        for message in self.servers.fetch(self.names.stream, self.last):
            if message.seq != self.last + 1:  # it did not arrive, or was purged
                if not records:  # else an error here would lose them; the next call comes here again
                    self._end()
                break
            self.last = message.seq
            if (record := whole_record(message, self._parts)) is not None:
                records.append(record)
                if record.following:
                    self.names = self.names._replace(first=record.following)
                    break
        return records

    def read_to_end(self) -> Iterator[list[Record]]:
        """Yield all records up to the end of the log as its leader has it, some at a time. Raises as `read`."""
        while self._end() > self.last:
            yield self.read()

    def _end(self) -> int:
        """Return the number of the last message. Raises Unreachable, Purged, JournalError."""
        end, now = self.servers.end_of(self.names.stream), time.monotonic()
        first = max(logs_of(self.servers, self.names).values(), default=0) if end is None else end[0]
        if first > self.last + 1:
            raise Purged
        if end is not None and end[1] >= self.last:
            self._short_since, self.end = None, end[1]
            return self.end
        self._short_since = self._short_since or now
        said = f"there is no log of the home {self.names.identity}" if end is None else f"the log ends at {end[1]}"
        if now - self._short_since < LOST_SECONDS:
            raise Unreachable(f"{said} there")
        raise JournalError(
            f"{said} on the servers, this journal has {self.last}: the log was restarted, or they lost what they had "
            "taken; take this machine out with `honeybadger-host cluster leave`, see docs/machines.md"
        )

    # --------------------------------------------------------------------------------------------------- appending

    def own(self, node: str) -> bool:
        """Make this machine the owner, if the log ends where this machine thinks; return whether it does.

        Raises Unreachable, StorageFailed; JournalError: another log ends there.
        """
        ours = self.servers.message(self.names.stream, seq=self.position.seq) if self.position.seq else None
        if ours is not None and ours.headers[CHAIN_HEADER] != self.position.chain:
            raise diverged(self.position.seq)
        last = self.servers.message(self.names.stream, seq=self.last) if self.last else None
        self._behind = last.subject if last else ""
        try:
            self._append(orjson.dumps(node))
        except NotOurs:
            return False
        self.epoch = self.last
        return True

    def append(self, data: bytes, *, is_last: bool = False) -> Position:
        """Append a record; return the position after it once a quorum has it durably.

        Args:
            is_last: the record ends its stream; the next record begins another.
        Raises StorageFailed if another machine owns the home, or nobody knows whether it is there.
        """
        with self._lock:
            if self.failed:
                raise StorageFailed(self.failed)
            try:
                return self._append(data, is_last=is_last)
            except NotOurs as error:
                raise self.fail(f"another machine owns this home now ({error}): this one follows it") from None
            except Unreachable as error:
                raise self.fail(
                    f"the servers of the cluster did not agree for {UNCLEAR_SECONDS:g} s ({error}): requests "
                    "without a reply are repeated"
                ) from None

    def fail(self, why: str) -> StorageFailed:
        """Refuse all further appends; return the error to raise."""
        if not self.failed:
            self.failed = why
            self._lost(why)
        return StorageFailed(self.failed)

    def _append(self, data: bytes, *, is_last: bool = False) -> Position:
        parts = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
        last, names = self.last, self.names
        following = last + len(parts) + 1 if is_last else 0
        if following:
            names = names._replace(first=following)
            make_log(self.servers, names)
        behind = self.position.behind(last + len(parts), data, following)
        for number, part in enumerate(parts, 1):
            headers = {
                EXPECTED_HEADER: str(last),
                EPOCH_HEADER: str(self.epoch),
                SCHEMA_HEADER: str(SCHEMA_VERSION),
                CHAIN_HEADER: behind.chain,
                PART_HEADER: f"{number}/{len(parts)}",
            }
            if following:
                headers[NEXT_HEADER] = str(following)
            if self._behind:
                headers |= {EXPECTED_OF_SUBJECT_HEADER: str(last), EXPECTED_SUBJECT_HEADER: self._behind}
            self._put(Message(last + 1, self.subject, headers, part))
            last, self._behind = last + 1, self.subject
        if following:
            self.names, self._behind = names, ""  # the new stream has no message yet
        self.last, self.position = last, behind
        return behind

    def _put(self, message: Message) -> None:
        """Publish a message until the log has it under its number. Raises NotOurs; Unreachable: nobody knows."""
        until, why = time.monotonic() + UNCLEAR_SECONDS, ""
        while True:
            try:
                if self.servers.publish(message.subject, message.data, message.headers) == message.seq:
                    return
            except (WrongSequence, Unreachable) as error:
                why = str(error)
                log.debug("cluster.unclear", seq=message.seq, error=why)
            try:
                if self._has(message):
                    return
            except Unreachable:
                if time.monotonic() > until:
                    raise
            if self.failed or time.monotonic() > until:
                raise Unreachable(f"no message is taken: {why}")
            time.sleep(PAUSE_SECONDS)

    def _has(self, message: Message) -> bool:
        """Return whether the log has a message under its number, or nothing. Raises NotOurs, Unreachable."""
        found = self.servers.message(self.names.stream, seq=message.seq)
        if found is None:
            end = self.servers.end_of(self.names.stream)
            if end is not None and end[1] < message.seq:
                return False
            found = self.servers.message(self.names.stream, seq=message.seq)  # it may have arrived meanwhile
        if found is None or not is_same(found, message):
            raise NotOurs(f"message {message.seq} is gone or another")
        return True


def is_same(found: Message, message: Message) -> bool:
    """Return whether a found message is ours. A copy of this machine uses the same subject, so bytes count, too."""
    return found.subject == message.subject and found.data == message.data


def newest_epoch(servers: Servers, names: Names) -> int:
    """Return the epoch of the log's owner, as its newest message says; 0: the log is empty."""
    found = servers.message(names.stream, newest=names.subjects)
    if found is None:
        return 0
    return int(found.headers[EPOCH_HEADER]) or found.seq


_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")  # statements that other machines run again


class _Recorded:
    """A connection, as far as transactions use one, that remembers what writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.statements: list[Statement] = []

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        if not sql.startswith("SELECT"):
            self._keep(sql, [tuple(values)])
        return self._connection.execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> sqlite3.Cursor:
        kept = [tuple(row) for row in rows]
        if kept:
            self._keep(sql, kept)
        return self._connection.executemany(sql, kept)

    def _keep(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        assert sql.startswith(_WRITES), f"other machines cannot run it again: {sql}"  # noqa: S101  a bug here
        self.statements.append((sql, rows))


class Committing:
    """See `SharedLog`. The writer's thread."""

    def __init__(self, log: Log, settle: Callable[[], list[tuple[str, str]]]) -> None:
        self._log = log
        self.settle = settle
        self._recorded: _Recorded | None = None

    def record(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        self._recorded = _Recorded(connection)
        return cast(sqlite3.Connection, self._recorded)

    def commit(self, connection: sqlite3.Connection, *, is_last: bool) -> None:
        statements = [] if self._recorded is None else self._recorded.statements
        if not statements:
            connection.execute("COMMIT")
            return
        position = self._log.append(dump_statements(statements), is_last=is_last)
        try:
            write_position(connection, position)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._log.fail(
                f"the journal here did not take what the shared log has ({error}): see that its disk has room; the "
                "next start reads it there"
            ) from error
