"""One person and agents: an ordinary day with a MEMORY.md, often."""

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.host.documents.world import World

DAYS = 100 if os.environ.get("HB_CRASH_LONG") else 6
SAVES = 25
WORDS = ("milk", "grandma", "bell", "tea", "printer", "key", "cellar", "boat", "garden", "dentist", "school", "bus")


def things_in(text: bytes) -> Counter[bytes]:
    """Return the lines of notes and the typed lines; each is unique."""
    return Counter(line for line in text.split(b"\n") if line.startswith((b"- n", b"t")))


class Day:
    """A person who types, rewords, replaces and deletes lines of their own.

    Args:
        reads_again: the editor reads the file again after each save; else it goes on with what it has.
    """

    def __init__(self, world: World, seed: int, *, reads_again: bool) -> None:
        self.world, self.reads_again = world, reads_again
        self.chance = random.Random(seed)
        self.wanted: set[bytes] = set()
        self.back: list[bytes] = []
        for _ in range(3):
            self.agent_notes()
        world.look()
        self.opened_at, self.buffer = world.wall(), world.text

    def words(self) -> str:
        return f"{next(self.world.numbers)} {' '.join(self.chance.sample(WORDS, 4))}"

    def agent_notes(self) -> None:
        note = f"n{self.words()}"
        self.world.add(note)
        self.wanted.add(f"- {note}".encode())

    def waits(self, *seconds: float) -> None:
        self.world.passed += self.chance.choice(seconds)
        if self.chance.random() < 0.5:
            self.agent_notes()

    def changes(self) -> set[bytes]:
        """Change a line of the buffer; return the line that went."""
        lines = self.buffer.split(b"\n")
        own = [place for place, line in enumerate(lines) if line.startswith(b"t")][-3:]
        line, gone = f"t{self.words()}".encode(), b""
        match self.chance.choice(["add", "add", *(["reword", "replace", "delete"] if own else [])]):
            case "add":
                place = self.chance.randrange(len(lines) + 1)
                place += lines[place : place + 1] != [] and lines[place].startswith(b"- n")
                lines[place:place] = [line]
            case "reword":
                gone, place = lines[own[-1]], own[-1]
                line = b"%s %s too" % (line.split()[0], b" ".join(gone.split()[1:4]))
                lines[place] = line
            case "replace":
                gone = lines[own[0]]
                lines[own[0]] = line
            case "delete":
                gone, line = lines.pop(own[0]), b""
        self.buffer = b"\n".join(lines)
        self.wanted = (self.wanted | {line}) - {gone, b""}
        return {gone} - {b""}

    def saves(self) -> int:
        """Change the file and save it: nothing that is wanted goes; return how many lines were taken out."""
        if self.reads_again or self.world.wall() - self.opened_at > 3000:
            self.opened_at, self.buffer = self.world.wall(), self.world.text
        self.waits(2, 10, 60, 300)
        before = self.buffer
        gone = set.union(*(self.changes() for _ in range(self.chance.choice([1, 1, 1, 2]))))
        if self.buffer == before:
            return 0
        self.world.save(self.buffer)
        self.world.look()
        there = things_in(self.world.text)
        assert self.wanted <= there.keys()
        assert set(there.values()) <= {1}
        self.back += gone & there.keys()
        self.waits(3, 20, 90, 400)
        return len(gone)


@pytest.mark.parametrize("reads_again", [True, False])
def test_a_person_may_change_their_mind_beside_agents(tmp_path: Path, *, reads_again: bool) -> None:
    gone, back = 0, 0
    for seed in range(DAYS):
        world = World(tmp_path / str(seed))
        day = Day(world, seed, reads_again=reads_again)
        gone += sum(day.saves() for _ in range(SAVES))
        back += len(day.back)
        world.journal.close()
    rare = 40 if reads_again else 8
    assert back * rare < gone, "see guarantees.md: what a save alone cannot tell"
