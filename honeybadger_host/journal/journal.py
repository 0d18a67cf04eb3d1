"""The journal: one log of what changed, with the receipts of who asked for it (docs/decisions/001-journal.md).

SQLite in WAL mode with synchronous=FULL. One transaction takes a batch of changes and their receipts; when it
returns, the requests of the batch are done, whatever happens afterwards.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_agent.wording import MAX_NAMED
from honeybadger_host.errors import JournalError, StorageFailed, may_clear
from honeybadger_host.files.safe_files import identity_of, make_file
from honeybadger_host.journal.edits import ADOPTED, ADOPTED_KINDS, LOOKED_AT, Looked, write_looked
from honeybadger_host.journal.opening import DAMAGED_NOW_WHAT, damaged_rows, gone, make_or_check
from honeybadger_host.journal.schema import (
    DAMAGED,
    IS_EDIT,
    ROWS_AT_ONCE,
    UNPROJECTED,
    BegunTurn,
    Marks,
    Receipt,
    Row,
    SharedLog,
    Spent,
    TurnKey,
    connect,
    insert_changes,
    read_marks,
    read_meta,
    read_rows,
    transaction,
    translating,
    vacuum,
    write_marks,
)
from honeybadger_host.log import log

ResultT = TypeVar("ResultT")

# Request ids of imported entries begin with it. Their receipts are never pruned.
IMPORTED_REQUEST = "imported-"
LONG_WAL = 4096  # pages, 16 MiB


@dataclass(slots=True)
class Journal:
    """The open journal. What writes (`commit`, the turns, `mark_projected`, `prune_receipts`, `begin_wal`) is called by
    one thread at a time; `receipts_of` by one other, and `checkpoint` by a third; all may run at once.

    Args:
        next_seq: number for the next change; see `Pipeline._order`.
        committed_seq: number of the last change that is durable.
        marks: how much of it is in the files.
    """

    path: Path
    identity: str
    next_seq: int
    committed_seq: int
    last_at: int
    marks: Marks
    _writer: sqlite3.Connection
    # For one statement at a time: beside another that is not read to its end, one sees what that one saw.
    _reader: sqlite3.Connection
    _folder: sqlite3.Connection
    # The identity of the open database, its WAL and the groups' folder, see `identity_of`.
    _files: Mapping[str, tuple[int, int, int] | None]
    _reading: threading.Lock = field(default_factory=threading.Lock)
    newest_of: dict[str, int] = field(default_factory=dict)  # group -> its newest durable change since the start
    _shared: SharedLog | None = None  # with several machines: takes each transaction before it is committed
    damaged: Sequence[str] = ()  # rows that changed by themselves, as far as that is known
    _pruned_seq: int = 0  # pruning has passed all receipts up to this one; those that are left, as of imports, stay

    @classmethod
    def open(cls, path: Path, *, expected_identity: str | None = None, shared: SharedLog | None = None) -> Journal:
        """Open the journal, making it when this home never had one.

        Args:
            expected_identity: identity of the journal this home had before; then it must be there.
            shared: the log of a journal that several machines keep.
        Raises:
            JournalError: it is missing, damaged, another home's, of another version, or cannot be opened.
            StorageFailed: it cannot be opened now.
        """
        is_shared = shared is not None
        try:
            if expected_identity is not None and not path.exists():
                raise gone(path, "is missing", expected_identity)
            if not is_shared:  # else it is there, and another thread may have it open to read: see `make_file`
                make_file(path)
            with translating(path), ExitStack() as opened:
                writer = opened.enter_context(closing(connect(path, is_shared=is_shared)))
                identity = make_or_check(writer, path, expected_identity=expected_identity, is_shared=is_shared)
                newest = "SELECT seq, at FROM changes ORDER BY seq DESC LIMIT 1"
                last_seq, last_at = writer.execute(newest).fetchone() or (0, 0)
                (last_receipt,) = writer.execute("SELECT coalesce(max(seq), 0) FROM receipts").fetchone()
                next_seq, marks = max(last_seq, last_receipt) + 1, read_marks(writer)
                reader, folder = (opened.enter_context(closing(connect(path))) for _ in range(2))
                groups = f"{path.parent.parent}/groups/"  # the slash: if it is a link, its target
                files = {file: identity_of(file) for file in (str(path), f"{path}-wal", groups) if os.path.exists(file)}
                journal = cls(path, identity, next_seq, last_seq, last_at, marks, writer, reader, folder, files)
                journal._shared = shared
                numbers = range(max(1, next_seq - ROWS_AT_ONCE), next_seq + 1)
                known = orjson.loads(read_meta(path, DAMAGED) or "[]")
                journal._tell_damaged(sorted({*known, *damaged_rows(path, numbers)}))
                opened.pop_all()
                return journal
        except OSError as error:
            if may_clear(error):
                raise StorageFailed(
                    f"{path} cannot be opened: {error.strerror}; see `honeybadger-host doctor`"
                ) from error
            raise JournalError(
                f"{path} cannot be opened ({error.strerror}): the host needs a plain file there"
            ) from None

    @property
    def projected_seq(self) -> int:
        """Every change up to it is durable in its file."""
        return self.marks.projected_seq

    def close(self) -> None:
        """Fold the WAL into the database and close."""
        self._reader.close()
        self._folder.close()
        try:
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            pass  # the WAL stays and is read at the next start
        finally:
            self._writer.close()

    def commit(
        self,
        changes: Sequence[Row],
        receipts: Sequence[Receipt],
        ended: Sequence[TurnKey] = (),
    ) -> None:
        """Make changes and receipts durable, all or none.

        Args:
            ended: turns that are answered by this, or that nobody will try again.
        Raises:
            WorldFailed: no space; nothing was written, the same call may succeed later.
            StorageFailed: the disk failed, or somebody removed the journal; nothing more may be acknowledged.
        """
        with self._transaction() as connection:
            insert_changes(connection, changes, receipts)
            if ended:
                connection.executemany("DELETE FROM turns WHERE grp=? AND sender=? AND request=?", ended)
        self.check_files()
        self.newest_of.update({row.group: row.seq for row in changes})
        if changes:
            self.committed_seq = changes[-1].seq

    def keep_receipt(self, receipt: Receipt, also: Callable[[sqlite3.Connection], None]) -> None:
        """Make the receipt of a request without changes durable, and something with it. Raises as `commit`.

        Args:
            receipt: its number belongs to no change; the time is set here. An existing one stays.
        """
        at = self.last_at = max(self.last_at, time.time_ns() // 1_000_000)
        with self._transaction() as connection:
            also(connection)
            connection.execute("INSERT OR IGNORE INTO receipts VALUES (?,?,?,?,?,?,?)", receipt._replace(at=at))
        self.check_files()

    def check_files(self) -> None:
        """Raise StorageFailed if a file of the journal, or `groups/`, was removed, replaced, moved or unmounted.

        What is committed then would be lost, and people's files would seem to be deleted. Any thread.
        """
        for file, identity in self._files.items():
            if identity_of(file) != identity:
                raise StorageFailed(f"{file} was removed or replaced while the host used it: nothing more is saved")

    def mark_projected(self, seq: int, unsettled: Mapping[str, int] | None = None) -> None:
        """Record the changes that are durable in their files: recovery begins behind them.

        Args:
            seq: every change up to it, but for those of the files in `unsettled`.
            unsettled: file -> its oldest change that does not, or may still be dropped by an editor; see `Marks`.
        """
        seq = min(seq, self.committed_seq)  # a number decided and not committed is given again after a restart
        marks = Marks(seq, {file: first for file, first in (unsettled or {}).items() if first <= seq})
        if seq < self.marks.settled_seq or marks == self.marks:
            return
        with self._of_this_machine() as connection:
            write_marks(connection, marks)
        self.marks = marks

    def receipts_of(self, group: str, sender: str, requests: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """Return request id -> (digest, reply) for those of `requests` (at most 512) that are done."""
        marks = ",".join("?" * len(requests))
        query = f"SELECT request, digest, reply FROM receipts WHERE grp=? AND sender=? AND request IN ({marks})"  # noqa: S608  only question marks
        return {row[0]: (row[1], row[2]) for row in self.rows(query, (group, sender, *requests))}

    def unprojected(self) -> Iterator[Row]:
        """Return the host's changes that may be missing in their files, oldest first."""
        query = f"SELECT changes.* {UNPROJECTED} ORDER BY seq"
        with translating(self.path):
            yield from map(Row._make, self._writer.execute(query, (self.projected_seq, self.marks.settled_seq)))

    def prune_receipts(self, up_to: int, *, most: int = 5000) -> int:
        """Forget some of the oldest receipts of changes up to one, and turns begun before; return how many receipts.

        Receipts of imported entries stay, so that nothing is imported twice.
        """
        oldest = (
            "SELECT seq FROM receipts WHERE seq > ? AND seq <= ? AND NOT (sender = ? AND request GLOB ? || '*') "
            "ORDER BY seq LIMIT ?"
        )
        values = (self._pruned_seq, up_to, OPERATOR, IMPORTED_REQUEST, most)
        with self._transaction() as connection:
            connection.execute("DELETE FROM turns WHERE seq <= ?", (up_to,))
            pruned = connection.execute(f"DELETE FROM receipts WHERE seq IN ({oldest})", values).rowcount  # noqa: S608  a constant
        if pruned < most:
            self._pruned_seq = max(self._pruned_seq, min(up_to, self.committed_seq))
        return pruned

    def begin_turn(self, turn: TurnKey, digest: bytes) -> BegunTurn:
        """Count the beginning of a turn; return what an attempt before left. Raises as `commit`.

        Args:
            digest: SHA-256 of the request; records of other bytes under the same id are dropped.
        """
        with self._transaction() as connection:
            of_turn = "grp=? AND sender=? AND request=?"
            connection.execute(f"DELETE FROM turns WHERE {of_turn} AND digest != ?", (*turn, digest))  # noqa: S608  a constant
            connection.execute(
                "INSERT INTO turns VALUES (?,?,?,?,?,1,x'') ON CONFLICT DO UPDATE SET attempts = attempts + 1",
                (*turn, digest, self.committed_seq),
            )
            query = f"SELECT attempts, steps FROM turns WHERE {of_turn}"  # noqa: S608  a constant
            attempts, steps = connection.execute(query, turn).fetchone()
        return BegunTurn(attempts, steps.splitlines())

    def keep_step(self, turn: TurnKey, step: bytes, spent: Spent | None = None) -> None:
        """Keep one more answer of the model, one line of JSON, before its tools run. Raises as `commit`.

        Args:
            spent: booked with it.
        """
        with self._transaction() as connection:
            if spent is not None:
                connection.execute(
                    "INSERT INTO spent VALUES (?,?,?,?) "
                    "ON CONFLICT DO UPDATE SET tokens = max(0, tokens + excluded.tokens)",
                    spent,
                )
            connection.execute(
                "UPDATE turns SET steps = CAST(steps || ? AS BLOB) WHERE grp=? AND sender=? AND request=?",
                (step + b"\n", *turn),
            )

    def spent(self, day: str) -> list[Spent]:
        """Return the cost of models on a day, by group and kind; see `Spent`. Any thread."""
        return list(map(Spent._make, self.rows("SELECT * FROM spent WHERE day = ?", (day,))))

    def unfinished(self, sender: str) -> list[TurnKey]:
        """Return the turns of a sender that were begun and are not answered. Any thread."""
        return [*map(TurnKey._make, self.rows("SELECT grp, sender, request FROM turns WHERE sender = ?", (sender,)))]

    def give_up_turn(self, turn: TurnKey) -> None:
        """Count no attempt of a turn that ended in order without an answer; asked again it goes on. Raises as `commit`.

        The changes of an attempt stay: its steps are kept as long as a receipt would be.
        """
        with self._transaction() as connection:
            connection.execute("UPDATE turns SET attempts = 0 WHERE grp=? AND sender=? AND request=?", turn)

    def keep_looked(self, looked: Looked) -> None:
        """Keep what people changed in their files, all or nothing. Raises as `commit`."""
        with self._transaction() as connection:
            write_looked(connection, looked)
        if looked.edits:
            self.last_at = max(self.last_at, looked.edits[-1].at)
            self.committed_seq = looked.edits[-1].seq

    def expired(self, is_over: Callable[[bytes], bool]) -> list[int]:
        """Return the numbers of changes whose entries of working memory `is_over` is true of. Any thread."""
        query = "SELECT seq, data FROM changes WHERE kind = 'working'"
        return [seq for seq, data in read_rows(self.path, query) if is_over(data)]

    def expire(self, seqs: Sequence[int]) -> None:
        """Keep nothing of entries of working memory that have expired. Raises as `commit`."""
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE changes SET kind = 'working_removed', data = x'' WHERE seq = ?", [(seq,) for seq in seqs]
            )

    def forget_files(self, files: Sequence[str]) -> None:
        """Forget how files were that are over, and what people made of them. Raises as `commit`."""
        names = [(file,) for file in files]
        emptied = f"UPDATE changes SET kind = 'working_removed', data = x'' WHERE {IS_EDIT} AND file = ?"  # noqa: S608  a constant
        with self._transaction() as connection:
            for table in ("seen", "saved", "texts"):
                connection.executemany(f"DELETE FROM {table} WHERE file = ?", names)  # noqa: S608  a constant
            connection.executemany(emptied, names)

    @property
    def has_adopted(self) -> bool:
        """Whether `keep_adopted` was called by a host with these kinds of documents."""
        return bool(read_meta(self.path, ADOPTED) == ADOPTED_KINDS)

    def keep_adopted(self) -> None:
        """Keep that all documents that were there before this host are known. Raises as `commit`."""
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (LOOKED_AT, self.committed_seq))
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (ADOPTED, ADOPTED_KINDS))

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Any thread."""
        with self._reading, translating(self.path):
            return self._reader.execute(query, values).fetchall()

    def task_records(self) -> list[tuple[str, bytes]]:
        """Return (group, newest record) of every task there ever was."""
        return [
            (group, data) for group, data in self.rows("SELECT tasks.grp, data FROM tasks JOIN changes USING (seq)")
        ]

    def kept_ages(self) -> list[float]:
        """Return the ages that `keep_ages` kept last; none if it never did."""
        return [float(number) for number in (read_meta(self.path, "ages") or "").split()]

    def keep_ages(self, numbers: Sequence[float]) -> None:
        """Keep how long hosts served this home; see `clock.Ages`."""
        with self._of_this_machine() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('ages', ?)", (" ".join(map(repr, numbers)),))

    def keep_damaged(self, rows: Sequence[str]) -> None:
        """Tell which rows changed by themselves, see `damaged_rows`, and keep that for the next start to tell."""
        self._tell_damaged(rows)
        with self._of_this_machine() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (DAMAGED, orjson.dumps(rows).decode()))

    def _tell_damaged(self, rows: Sequence[str]) -> None:
        self.damaged = rows
        if rows:
            log.error(
                "journal.damaged",
                file=self.path,
                rows=rows[:MAX_NAMED],
                count=len(rows),
                now_what=DAMAGED_NOW_WHAT,
            )

    def pushed(self) -> dict[str, dict[str, int]]:
        """Return the places that `keep_pushed` kept last; none if it never did."""
        places: dict[str, dict[str, int]] = orjson.loads(read_meta(self.path, "pushed") or "{}")
        return places

    def keep_pushed(self, places: Mapping[str, Mapping[str, int]]) -> None:
        """Keep how far messages were pushed: target -> group -> number of the last one. Raises as `commit`."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('pushed', ?)", (orjson.dumps(places).decode(),))

    def change_past(self, change: Callable[[sqlite3.Connection], ResultT], *, is_buried: bool = False) -> ResultT:
        """Change records of the past, all or nothing; return the result of `change`. Raises as `commit`.

        Args:
            is_buried: what other machines were told before is not to be kept, either; see `settle_elsewhere`.
        """
        with transaction(self._writer, self.path, self._shared, is_last=is_buried) as connection:
            return change(connection)

    def settle_elsewhere(self) -> list[tuple[str, str]]:
        """Return places on other machines where forgotten text is left, each with its form.

        Machines that do not say so are among them. Takes a minute at most; any thread.
        """
        return [] if self._shared is None else self._shared.settle()

    def vacuum(self) -> None:
        """Rewrite the database, so that nothing deleted is left in it. Commits wait meanwhile.

        Raises WorldFailed: no space, it takes as much again; or a reader stood in the way.
        """
        vacuum(self._writer, self.path)

    def checkpoint(self) -> bool:
        """Checkpoint the WAL while commits go on; return whether `begin_wal` is due.

        That is when it is long and there was a commit meanwhile: only a fully checkpointed WAL starts over.
        """
        with translating(self.path):
            _, pages, folded = self._folder.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return bool(folded < pages > LONG_WAL)

    def begin_wal(self) -> None:
        """Checkpoint the rest of the WAL, so that the next commit starts it over. Commits wait meanwhile."""
        with translating(self.path):
            self._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()

    def _transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self._writer, self.path, self._shared)

    def _of_this_machine(self) -> AbstractContextManager[sqlite3.Connection]:
        """Begin a transaction about this machine's files and hours, which others have no use for."""
        return transaction(self._writer, self.path)
