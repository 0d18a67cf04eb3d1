"""Who wrote each line, and what a file held at any moment: the journal against a ledger kept apart from it."""

import random

import pytest

from honeybadger_host.documents.history import (
    BEFORE,
    NOT_KEPT,
    NOT_YET,
    Origin,
    Past,
    blame_lines,
    read_past,
    version_at,
)
from honeybadger_host.documents.merge import as_written
from honeybadger_host.handlers.undo import put_back, undone_change
from honeybadger_host.journal.changes import ABSENT, FileWritten, fingerprint
from honeybadger_host.journal.edits import Edit, EditReader, digest_of, edit_of, is_edit
from honeybadger_host.journal.line_hunks import hunks_between, lines_of, signed_lines
from honeybadger_host.journal.schema import Row
from tests.host.documents.recorded import Recorded
from tests.host.documents.world import MEMORY, World


def name(origin: Origin) -> int | str:
    """Return whose something is: the number of a change, or of a save, which may be two edits."""
    if isinstance(origin, str):
        return origin
    return edit_of(origin).event if is_edit(origin) else origin.seq


@pytest.fixture
def recorded(world: World) -> Recorded:
    return Recorded(world)


class Life:
    """Agents and people write into MEMORY.md, and the operator undoes; `ledger` says whose each line is.

    No two lines are the same, but for blank ones, of which nobody can tell whose they are.
    """

    def __init__(self, recorded: Recorded, rng: random.Random) -> None:
        self.recorded, self.world, self.rng = recorded, recorded.world, rng
        self.ledger: list[tuple[bytes, int | str]] = []
        self.moments: list[tuple[int, bytes]] = []
        self.before_edit: list[tuple[bytes, int | str]] | None = None
        self.came_since: list[tuple[bytes, int | str]] = []
        self.edit = 0
        self.count = 0

    @property
    def text(self) -> bytes:
        return b"".join(line for line, _ in self.ledger)

    def new(self, what: str) -> bytes:
        self.count += 1
        return f"{what} {self.count}".encode()

    def append(self) -> None:
        seq = self.world.journal.next_seq
        data = b"\n## Notes (%b, 2026-11-21 06:05)\n- %b\n" % (self.new("agent"), self.new("text"))
        self.world.projections.write(self.world.commit_data(MEMORY, data))
        added: list[tuple[bytes, int | str]] = [(line, seq) for line in lines_of(data)]
        self.ledger += added
        self.came_since += added

    def write(self) -> None:
        self.world.checkpoint()
        self.world.passed += 7200  # all that is there was read
        before = [*self.ledger]
        for _ in range(self.rng.randint(1, 3)):
            at = self.rng.randint(0, len(self.ledger))
            match self.rng.choice(["insert", "delete", "change"]):
                case "insert":
                    self.ledger.insert(at, (self.new("person") + b"\n", "mine"))
                case "delete" if at < len(self.ledger):
                    del self.ledger[at : at + self.rng.randint(1, 4)]
                case "change" if at < len(self.ledger):
                    self.ledger[at] = (self.new("changed") + b"\n", "mine")
        if self.text == b"".join(line for line, _ in before) or self.text != as_written(self.text):
            self.ledger = before  # a heading and a blank line above a bullet is how formatters lay out a note
            return
        self.recorded.write(self.text, MEMORY)
        self.recorded.record()
        self.edit = edit_of(self.recorded.edits[-1]).event
        self.ledger = [(line, self.edit if whose == "mine" else whose) for line, whose in self.ledger]
        self.before_edit, self.came_since = before, []

    def undo(self) -> None:
        """Undo the newest save, which may be two edits; notes that came since stay."""
        if self.before_edit is None:
            return
        self.world.checkpoint()
        journal = self.world.journal.path
        edits = self.recorded.edits
        newest = [each for each in reversed(edits) if edit_of(each).event == edit_of(edits[-1]).event]
        if not any(line.strip() for edit in newest for _, line in signed_lines(edit_of(edit).hunks or ())):
            return  # a blank line may be there again with the next note
        for edit in newest:
            held = self.world.read()
            change, _ = put_back(undone_change(journal, edit), held)
            with self.world.decided(change):
                pass
        wanted = [each for each in (*self.before_edit, *self.came_since) if each[0].strip()]
        lines = lines_of(self.world.read())
        assert [line for line in lines if line.strip()] == [line for line, _ in wanted]
        self.ledger = [wanted.pop(0) if line.strip() else (line, 0) for line in lines]
        self.before_edit = None

    def check(self) -> None:
        """See that the file, the blame of it and all earlier moments are as they should be."""
        self.recorded.record()
        assert self.world.read() == self.text
        past = read_past(self.world.journal.path, MEMORY)
        blamed = [(line, name(origin)) for line, origin in blame_lines(past, self.text) if line.strip()]
        assert blamed == [(line, whose) for line, whose in self.ledger if line.strip()]
        self.moments.append((self.world.journal.next_seq - 1, self.text))
        for seq, text in self.rng.sample(self.moments, min(5, len(self.moments))):
            version = version_at(past, seq)
            assert (version.is_known, version.text) == (True, text), seq


@pytest.mark.parametrize(
    "seed",
    [0, 1, 2, 136388985, 206097368, 259866152, 647892322, 4118708712, *(random.randrange(1 << 32) for _ in range(2))],
)
def test_every_line_has_its_author_at_every_moment(recorded: Recorded, seed: int) -> None:
    rng = random.Random(seed)
    life = Life(recorded, rng)
    life.append()
    for _ in range(25):
        rng.choice([life.append, life.append, life.write, life.write, life.undo])()
        if rng.random() < 0.6:
            life.check()
    life.check()


def test_lines_older_than_the_journal_are_marked(recorded: Recorded) -> None:
    recorded.kill()  # a home in which nothing was looked at yet has no edits
    recorded.write(b"# Ours\nBe brief.\n")
    recorded.record()
    file = "groups/main/CLAUDE.md"
    (edit,) = recorded.edits
    recorded.write(b"# Ours\nBe kind.\nBe brief.\n")
    past = read_past(recorded.world.journal.path, file)
    blamed = blame_lines(past, b"# Ours\nBe kind.\nBe brief.\n")
    assert [name(origin) for _, origin in blamed] == [edit.seq, NOT_YET, edit.seq]
    without = past._replace(rows=())
    assert {name(origin) for _, origin in blame_lines(without, b"# Ours\nBe brief.\n")} == {BEFORE}


FILE = "groups/main/MEMORY.md"


def row(seq: int, data: bytes, offset: int, kind: str = "note", sender: str = "ann") -> Row:
    return Row(seq, seq, "main", sender, f"r{seq}", kind, FILE, offset, data)


def edit(seq: int, before: bytes, after: bytes) -> Row:
    made = Edit(seq, digest_of(before), digest_of(after), hunks_between(lines_of(before), lines_of(after)))
    return made.row(seq, seq, "main", "human", FILE)


def told(held: bytes, *rows: Row) -> list[tuple[bytes, object]]:
    return [(text, name(origin)) for text, origin in blame_lines(Past(FILE, rows), held) if text.strip()]


def test_a_note_late_in_a_save_is_its_signers() -> None:
    note = b"\n## Notes (ann, 2026-11-22 06:00)\n- tea\n"
    events = [row(1, note, 0), edit(2, note, b"Mine.\n"), edit(3, b"Mine.\n", b"Mine.\nToo.\n" + note)]
    assert [whose for _, whose in told(b"Mine.\nToo.\n" + note, *events)] == [2, 3, 1, 1]
    copied = edit(4, b"Mine.\nToo.\n" + note, b"Mine.\nToo.\n" + note + note)
    assert [whose for _, whose in told(b"Mine.\nToo.\n" + note + note, *events, copied)] == [2, 3, 1, 1, 1, 1]
    other = note.replace(b"tea", b"cake")  # of the same minute
    rest, back = other + b"One.\n", note + other + b"Two.\n"
    events = [row(1, note, 0), row(2, other, len(note)), edit(3, note + other, rest), edit(4, rest, back)]
    assert [whose for _, whose in told(back, *events)] == [1, 1, 2, 2, 4]


def test_undone_edits_of_working_memory_expire(world: World) -> None:
    file = "data/working/main/main/plan.json"
    with world.decided(FileWritten("main", "working", file, b'{"data": 1}', None)):
        pass
    world.look(file)
    world.save(b'{"data": 2}', file=file)
    world.look(file)
    (edit,) = EditReader(world.journal.path).edits_of([file])
    change, _ = put_back(undone_change(world.journal.path, edit), world.read(file))
    assert (change.row_kind, change.data) == ("working", b'{"data": 1}')


def test_text_saved_just_before_a_write_is_nobodys() -> None:
    first, second = b"One.\n", b"One.\nMine.\nTwo.\n"
    events = [
        row(1, first, ABSENT, "summary", "consolidator"),
        row(2, second, fingerprint(b"One.\nMine.\n"), "summary", "consolidator"),
    ]
    assert told(second, *events) == [(b"One.\n", 1), (b"Mine.\n", NOT_KEPT), (b"Two.\n", NOT_KEPT)]
    events[1] = events[1]._replace(offset=fingerprint(first))
    assert told(second, *events) == [(b"One.\n", 1), (b"Mine.\n", 2), (b"Two.\n", 2)]
