"""Who wrote each line, and what a file held at any moment: the journal against a ledger kept apart from it."""

from __future__ import annotations

import random
import time

import orjson
import pytest

from honeybadger_agent.wire import Refusal
from honeybadger_host.handlers.undo_edits import put_back, undone_edit
from honeybadger_host.memory import edit_recorder
from honeybadger_host.memory.blame import NOT_YET, blame_lines, blame_members
from honeybadger_host.memory.file_events import Past, read_past
from honeybadger_host.memory.file_history import BEFORE, NOT_KEPT, Origin, version_at
from honeybadger_host.storage import file_cache
from honeybadger_host.storage.atomic_files import ABSENT, fingerprint
from honeybadger_host.storage.edits import Edit, digest_of
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.line_hunks import hunks_between, lines_of
from tests.host.memory.test_edit_recorder import ENTRY, Recorded
from tests.host.storage.projected import MEMORY, World, note


def name(origin: Origin) -> int | str:
    return origin if isinstance(origin, str) else origin.seq


@pytest.fixture
def looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_recorder, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(file_cache, "_GRAIN_NS", 0)
    monkeypatch.setattr(edit_recorder, "_OWN_PAUSE_SECONDS", 0.0)


@pytest.fixture
def recorded(world: World, looked_at_once: None) -> Recorded:
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
        self.world.add(MEMORY, data)
        added: list[tuple[bytes, int | str]] = [(line, seq) for line in lines_of(data)]
        self.ledger += added
        self.came_since += added

    def write(self) -> None:
        self.world.settle()
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
        if self.text == b"".join(line for line, _ in before):
            return
        self.recorded.write(self.text, MEMORY)
        self.recorded.record()
        self.edit = self.recorded.edits[-1].seq
        self.ledger = [(line, self.edit if whose == "mine" else whose) for line, whose in self.ledger]
        self.before_edit, self.came_since = before, []

    def undo(self) -> None:
        """Undo the newest edit; notes that came since stay."""
        if self.before_edit is None:
            return
        self.world.settle()
        journal = self.world.journal.path
        held = self.world.read()
        change, _ = put_back(undone_edit(journal, self.recorded.edits[-1], held), held)
        with self.world.decided(change):
            pass
        self.ledger = [*self.before_edit, *self.came_since]
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


@pytest.mark.parametrize("seed", [*range(3), 206097368, *(random.randrange(1 << 32) for _ in range(2))])
def test_whatever_agents_people_and_the_operator_do_each_line_has_its_author_and_each_moment_its_text(
    recorded: Recorded, seed: int
) -> None:
    rng = random.Random(seed)
    life = Life(recorded, rng)
    life.append()
    for _ in range(25):
        rng.choice([life.append, life.append, life.write, life.write, life.undo])()
        if rng.random() < 0.6:
            life.check()
    life.check()


def test_lines_from_before_the_journal_knew_the_file_are_told_as_such(recorded: Recorded) -> None:
    recorded.kill()  # a home in which nothing was looked at yet has no edits
    recorded.write(b"# Ours\nBe brief.\n")
    recorded.record()
    file = "groups/main/CLAUDE.md"
    (edit,) = recorded.edits
    recorded.write(b"# Ours\nBe kind.\nBe brief.\n")
    past = read_past(recorded.world.journal.path, file)
    blamed = blame_lines(past, b"# Ours\nBe kind.\nBe brief.\n")
    assert [name(origin) for _, origin in blamed] == [edit.seq, NOT_YET, edit.seq]
    without = past._replace(events=(), seen=past.seen)
    assert {name(origin) for _, origin in blame_lines(without, b"# Ours\nBe brief.\n")} == {BEFORE}


@pytest.mark.usefixtures("looked_at_once")
@pytest.mark.parametrize("where", ["above", "between", "below"])
def test_what_was_typed_before_edits_were_recorded_is_in_every_later_moment(world: World, where: str) -> None:
    """As in a home whose older host did not record edits yet."""
    first, second = note("first"), note("second")
    world.add(MEMORY, first, second)
    world.settle()
    typed = b"## Mine\n- typed\n"
    held = {"above": typed + first + second, "between": first + typed + second, "below": first + second + typed}[where]
    world.save_as_an_editor(held)
    world.settle()
    world.add(MEMORY, note("third"))
    world.settle()
    held = world.read()
    recorded = Recorded(world)
    for text in (held, held + b"Later.\n"):
        recorded.write(text, MEMORY)
        recorded.record()
        past = read_past(world.journal.path, MEMORY)
        version = version_at(past, 3)
        assert (version.is_known, version.text) == (True, held)
        blamed = {line.text: name(line.origin) for line in blame_lines(past, text)}
        assert blamed[b"- typed\n"] == NOT_KEPT
        assert [blamed[b"- %b\n" % each] for each in (b"first", b"second", b"third")] == [1, 2, 3]
    assert blamed[b"Later.\n"] == recorded.edits[-1].seq


def test_a_large_file_has_no_known_text_and_none_is_made_up(recorded: Recorded) -> None:
    small, large = b"Small.\n", b"A line of a large file.\n" * 60_000
    file = "groups/main/CLAUDE.md"
    for text in (small, large, small + b"Again.\n"):
        recorded.write(text)
        recorded.record()
    past = read_past(recorded.world.journal.path, file)
    seqs = [event.seq for event in past.events]
    assert [version_at(past, seq).is_known for seq in seqs] == [True, False, True]
    assert version_at(past, seqs[0]).text == small
    assert [name(origin) for _, origin in blame_lines(past, small + b"Again.\n")] == [seqs[0], "not_kept"]
    with pytest.raises(Refusal, match="its text is not kept"):
        undone_edit(recorded.world.journal.path, past.events[1], large)


def test_each_member_of_an_entry_has_its_author(recorded: Recorded) -> None:
    first = {"content": "likes tea", "tags": ["drinks"], "by": "ann"}
    recorded.save(orjson.dumps(first, option=orjson.OPT_INDENT_2))
    recorded.record()
    recorded.write(orjson.dumps(first | {"content": "likes milk"}, option=orjson.OPT_INDENT_2), ENTRY)
    recorded.record()
    third = first | {"content": "likes milk", "pinned": True}
    recorded.save(orjson.dumps(third, option=orjson.OPT_INDENT_2))
    recorded.record()
    held = (recorded.world.home / ENTRY).read_bytes()
    blamed = blame_members(recorded.world.journal.path, ENTRY, held)
    assert {member: name(found.origin) for member, found in blamed.items()} == {
        "content": 2,
        "tags": 1,
        "by": 1,
        "pinned": 3,
    }


def test_each_of_ten_thousand_notes_has_its_author(world: World) -> None:
    world.add(MEMORY, *(b"\n## Notes (ann, 2026-11-21 06:05)\n- note %d\n" % number for number in range(10_000)))
    blamed = blame_lines(read_past(world.journal.path, MEMORY), world.read())
    assert [name(origin) for line, origin in blamed if line.startswith(b"- ")] == [*range(1, 10_001)]


def test_a_note_that_came_while_an_edit_was_looked_at_is_its_authors_and_the_edit_can_be_undone(
    recorded: Recorded,
) -> None:
    world = recorded.world
    world.add(MEMORY, b"\n## Notes (ann, 2026-11-21 06:05)\n- first\n")
    recorded.record()
    before = world.read()
    recorded.write(before + b"Mine.\n", MEMORY)
    looked = None
    while looked is None:
        time.sleep(0.005)
        world.now += 1
        world.look()
        for _ in recorded.recorder.sweep():
            pass
        looked = recorded.recorder.look()
    meanwhile = note("meanwhile")
    world.add(MEMORY, meanwhile)
    first = world.journal.next_seq
    world.journal.next_seq += len(looked.edits)
    world.journal.keep_looked(looked, first)
    recorded.recorder.kept(first)
    recorded.record()
    past = read_past(world.journal.path, MEMORY)
    assert [name(origin) for line, origin in blame_lines(past, world.read()) if line.strip()] == [1, 1, 3, 2, 2]
    (edit,) = recorded.edits
    world.settle()
    held = world.read()
    change, _ = put_back(undone_edit(world.journal.path, edit, held), held)
    with world.decided(change):
        pass
    assert world.read() == before + meanwhile


FILE = "groups/main/MEMORY.md"
TEA, CAKE = (f"\n## Notes (ann, 2026-11-22 06:00)\n- {what}\n".encode() for what in ("tea", "cake"))


def row(seq: int, data: bytes, offset: int, kind: str = "note", sender: str = "ann") -> Row:
    return Row(seq, seq, "main", sender, f"r{seq}", kind, FILE, offset, data)


def edit(seq: int, before: bytes, after: bytes) -> Edit:
    hunks = hunks_between(lines_of(before), lines_of(after))
    return Edit(seq, seq, "main", "human", seq, FILE, digest_of(before), digest_of(after), hunks)


def told(held: bytes, *events: Row | Edit) -> list[tuple[bytes, object]]:
    found = blame_lines(Past(FILE, events, None), held)
    return [
        (line.text, line.origin if isinstance(line.origin, str) else line.origin.seq)
        for line in found
        if line.text.strip()
    ]


def test_what_was_typed_before_the_first_note_and_noticed_after_it_is_the_persons() -> None:
    after = b"Mine.\n" + TEA
    assert told(after, row(1, TEA, 6), edit(2, TEA, after)) == [
        (b"Mine.\n", 2),
        (b"## Notes (ann, 2026-11-22 06:00)\n", 1),
        (b"- tea\n", 1),
    ]


def test_a_note_that_the_host_put_back_before_an_edit_was_noticed_is_its_signers() -> None:
    without = TEA.replace(b"- tea\n", b"Mine.\n")
    for after in (without + TEA, CAKE + without + TEA, without + TEA + CAKE):
        events: list[Row | Edit] = [row(1, TEA, 0), row(2, CAKE, len(TEA)), edit(3, TEA + CAKE, after)]
        assert {origin for text, origin in told(after, *events) if text != b"Mine.\n"} <= {1, 2}, after
        assert (b"Mine.\n", 3) in told(after, *events)


def test_what_stands_in_a_file_that_was_saved_just_before_the_host_wrote_it_is_nobodys() -> None:
    first, second = b"One.\n", b"One.\nMine.\nTwo.\n"
    events = [
        row(1, first, ABSENT, "summary", "consolidator"),
        row(2, second, fingerprint(b"One.\nMine.\n"), "summary", "consolidator"),
    ]
    assert told(second, *events) == [(b"One.\n", 1), (b"Mine.\n", NOT_KEPT), (b"Two.\n", NOT_KEPT)]
    events[1] = events[1]._replace(offset=fingerprint(first))
    assert told(second, *events) == [(b"One.\n", 1), (b"Mine.\n", 2), (b"Two.\n", 2)]
