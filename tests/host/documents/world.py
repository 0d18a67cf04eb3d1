"""A journal, its documents and their files, with a clock that tests move."""

import contextlib
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from honeybadger_agent.mailbox import HUMAN
from honeybadger_host.documents.in_use import DocumentsInUse
from honeybadger_host.documents.projections import Batch, Projections
from honeybadger_host.documents.saves import Saves
from honeybadger_host.files.unsynced import Unsynced
from honeybadger_host.journal.changes import Added, Change, NotesRevised
from honeybadger_host.journal.edits import Edit, EditReader, edit_of
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import Receipt, Row
from honeybadger_host.memory.peoples_files import document_group
from honeybadger_host.text.json_values import BOM

MEMORY = "groups/main/MEMORY.md"

# What editors and formatters make of a whole text.
LAYOUTS: dict[str, Callable[[bytes], bytes]] = {
    "Windows": lambda text: BOM + text.replace(b"\n", b"\r\n"),
    "Prettier": lambda text: text.replace(b")\n- ", b")\n\n- "),
    "remark": lambda text: text.replace(b")\n- ", b")\n\n*   "),
}


def note(text: str) -> bytes:
    """Return a note; numbered ones, such as `n12 …`, are of different minutes."""
    numbered = re.match(r"n(\d+)", text)
    minute = int(numbered[1]) % 60 if numbered else 5
    return f"\n## Notes (researcher, 2026-11-21 06:{minute:02})\n- {text}\n".encode()


class World:
    """One home, from one start of its host to the next.

    Args:
        saves: the class under test.
    """

    def __init__(self, home: Path, saves: type[Saves] = Saves) -> None:
        self.home = home
        (home / "data").mkdir(exist_ok=True, parents=True)
        self.saves = saves
        self.passed = 0.0
        self.numbers = itertools.count()
        self.start()

    @property
    def path(self) -> Path:
        return self.home / MEMORY

    @property
    def text(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    def wall(self) -> float:
        return time.time() + self.passed

    def start(self) -> None:
        self.journal = Journal.open(self.home / "data" / "journal.db")
        self.journal._writer.execute("PRAGMA synchronous = OFF")  # no power is cut here
        in_use = DocumentsInUse(
            self.home,
            self.journal,
            Unsynced(self.home),
            group_of=document_group,
            author_of=lambda uid: HUMAN,
            wall=self.wall,
            clock=lambda: time.monotonic() + self.passed,
        )
        self.projections = Projections(in_use, saves=self.saves)
        if not self.journal.has_adopted:
            there = [str(path.relative_to(self.home)) for path in (self.home / "groups").rglob("*.*")]
            self.projections.in_use.adopt([file for file in there if self.projections.in_use.covers(file)])
        self.projections.recover(self.journal.unprojected())
        self.projections.written_seq = self.journal.committed_seq

    def kill(self) -> None:
        """End without an end, and start again."""
        self.journal.close()
        self.start()
        self.projections.in_use.touch(MEMORY)

    def commit(self, *changes: Change) -> list[Row]:
        """Decide and commit changes; nothing is written yet."""
        batch = Batch(self.projections)
        rows: list[Row] = []
        for change in changes:
            batch.make_way(change)
            seq, self.journal.next_seq = self.journal.next_seq, self.journal.next_seq + 1
            at = self.journal.last_at = max(self.journal.last_at, int(self.wall() * 1000))
            place = change.file, batch.place(change)
            sender = "operator" if isinstance(change, NotesRevised) else "researcher"
            rows.append(Row(seq, at, "main", sender, f"r{seq}", change.row_kind, *place, change.data))
        last = rows[-1]
        self.journal.commit(rows, [Receipt(last.seq, last.at, "main", "researcher", last.request, b"", b"")])
        return rows

    def commit_data(self, file: str, *entries: bytes) -> list[Row]:
        """Commit entries of any file that is appended to; nothing is written yet."""
        return self.commit(*(Added("note", "main", file, data) for data in entries))

    def add(self, *texts: str) -> None:
        """Append notes."""
        self.projections.write(self.commit(*(Added.of("note", "main", note(text)) for text in texts)))

    def look(self, file: str = MEMORY, *, seconds: float = 1.0) -> list[Edit]:
        """Let time pass, and take in what people saved."""
        edits: list[Row] = []
        for _ in range(2):
            self.passed += seconds
            self.projections.in_use.touch(file)
            edits += self.take_in()
        self.checkpoint()
        return [*map(edit_of, edits)]

    def take_in(self) -> list[Row]:
        found = self.projections.saves.look()
        edits = self.projections.saves.take_in(found, self.journal.next_seq)
        self.journal.next_seq += len(edits)
        return edits

    def checkpoint(self) -> None:
        paths, unsettled = self.projections.look()
        self.projections.sync(paths)
        self.journal.mark_projected(self.journal.committed_seq, unsettled)

    @contextlib.contextmanager
    def decided(self, *changes: Change) -> Iterator[None]:
        """Take changes as the pipeline does; the body runs between the commit and the files."""
        rows = self.commit(*changes)
        yield
        self.projections.write(rows)

    def read(self, file: str = MEMORY) -> bytes:
        return (self.home / file).read_bytes()

    def save(self, text: bytes, *, in_place: bool = False, file: str = MEMORY) -> None:
        """Save as an editor does, at the time of the tests' clock: a new file under the old name, or in place."""
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path if in_place else path.with_name("saved.tmp")
        written.write_bytes(text)
        written.rename(path)
        os.utime(path, (self.wall(), self.wall()))

    def edits(self) -> Iterator[Edit]:
        return map(edit_of, EditReader(self.journal.path).edits_of([MEMORY]))
