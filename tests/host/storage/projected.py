"""A journal and the files it is projected to, with a clock that tests move."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from honeybadger_host.domain import Change, FileRemoved, FileWritten, NotesRevised
from honeybadger_host.storage.atomic_files import row_offset
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.journal_schema import Receipt, Row
from honeybadger_host.storage.projections import Projections

MEMORY = "groups/main/MEMORY.md"
TURNS = "data/sessions/main/main.jsonl"
SETTLE = 2.0
LOOKS = 1.0
"""Seconds from one look to the next."""


def note(text: str) -> bytes:
    return f"\n## Notes (researcher, 2026-11-21 06:05)\n- {text}\n".encode()


def turn(number: int, text: str = "hello") -> bytes:
    return b'{"turn":%d,"content":"%s"}\n' % (number, text.encode())


class World:
    """A journal and the files it is projected to, from one start of the host to the next."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "data").mkdir(exist_ok=True)
        self.now = 1000.0
        self.changed: list[str] = []
        self.start()

    def start(self) -> None:
        self.journal = Journal.open(self.home / "data" / "journal.db")
        self.journal._writer.execute("PRAGMA synchronous = OFF")  # no power is cut here
        self.project_anew()

    def project_anew(self) -> None:
        self.projections = Projections(
            self.home,
            settle_seconds=SETTLE,
            count_projected=self.journal.count_projected,
            changed=self.changed.append,
        )
        self.projections.written_seq = self.journal.committed_seq

    def recover(self) -> None:
        """As at a start: bring the files up to date with what was committed and not marked projected."""
        self.project_anew()
        self.projections.recover(self.journal.unprojected(), self.now)

    def restart(self) -> None:
        """End without settling anything, as a killed process, start again and settle."""
        self.journal.close()
        self.start()
        self.recover()
        self.settle()

    def rows(self, file: str, entries: Sequence[bytes], offsets: Sequence[int]) -> list[Row]:
        first, self.journal.next_seq = self.journal.next_seq, self.journal.next_seq + len(entries)
        return [
            Row(seq, 1, "main", "user", f"r{seq}", "note", file, offset, data)
            for seq, (data, offset) in enumerate(zip(entries, offsets, strict=True), first)
        ]

    @contextlib.contextmanager
    def committed(self, file: str, *entries: bytes) -> Iterator[None]:
        """Place and commit entries; the body runs before they are written."""
        batch = self.projections.batch(self.now)
        target = batch.target(file)
        rows = self.rows(file, entries, [target.place(len(data)) for data in entries])
        last = rows[-1].seq
        self.journal.commit(rows, [Receipt(last, 1, "main", "user", f"r{last}", b"", b"")])
        yield
        batch.project(rows, self.now)

    def add(self, file: str, *entries: bytes) -> None:
        with self.committed(file, *entries):
            pass

    @contextlib.contextmanager
    def decided(self, *changes: Change) -> Iterator[None]:
        """Take changes of one request as the pipeline does; the body runs between the commit and the files."""
        batch = self.projections.batch(self.now)
        rows: list[Row] = []
        first, self.journal.next_seq = self.journal.next_seq, self.journal.next_seq + len(changes)
        for seq, change in enumerate(changes, first):
            if isinstance(change, NotesRevised):
                batch.check_base(change.file, change.base)
                offset = row_offset(change)
                batch.target(change.file).end = len(change.text)
            elif isinstance(change, FileWritten | FileRemoved):
                batch.make_room(change.file)
                offset = row_offset(change)
            else:
                offset = batch.target(change.file).place(len(change.data))
            rows.append(Row(seq, 1, "main", "operator", "r", change.row_kind, change.file, offset, change.data))
        self.journal.commit(rows, [])
        yield
        batch.project(rows, self.now)

    def settle(self) -> None:
        """Let time pass until everything is settled: a change is noticed, made good, looked at again."""
        for _ in range(6):
            self.now += LOOKS
            self.look()

    def look(self, *, is_final: bool = False) -> None:
        """As the checkpoint does, every second."""
        paths, unsettled = self.projections.settle(self.now, is_final=is_final)
        self.projections.sync(paths)
        self.journal.mark_projected(self.journal.committed_seq, unsettled)

    def unsettled_from(self) -> int:
        """Return the number of the oldest note that is not settled, as the journal has it."""
        return self.journal.marks.first_unsettled(MEMORY)

    def read(self, file: str = MEMORY) -> bytes:
        return (self.home / file).read_bytes()

    def write(self, data: bytes, file: str = MEMORY) -> None:
        (self.home / file).write_bytes(data)

    def save_as_an_editor(self, data: bytes, file: str = MEMORY) -> None:
        """A new file under the old name."""
        path = self.home / file
        path.with_name("saved.tmp").write_bytes(data)
        path.with_name("saved.tmp").rename(path)
