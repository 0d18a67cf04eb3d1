"""Random lives of a MEMORY.md: agents append, people read, wait, change and save, hosts are killed."""

import hashlib
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from honeybadger_host.documents.saves import Saves
from honeybadger_host.journal.changes import Added
from tests.host.documents.world import LAYOUTS, World, note

LIVES = 500 if os.environ.get("HB_CRASH_LONG") else 20
HOUR = 3600.0
SAVED_AGAIN_SECONDS = 60.0
_IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


@dataclass
class Editor:
    """A person with a text open.

    Args:
        buffer: None: nothing is open.
        read: what was read into it.
        seen: the things in it when it was read, and those typed since.
        deleted: those taken out since.
    """

    buffer: bytes | None = None
    read: bytes = b""
    read_at: float = 0.0
    seen: set[bytes] = field(default_factory=set)
    deleted: set[bytes] = field(default_factory=set)
    typed: set[bytes] = field(default_factory=set)
    deleted_at: float = 0.0
    saved_at: float = 0.0


def things_in(text: bytes) -> Counter[bytes]:
    """Return notes and typed lines, by their unique lines."""
    return Counter(line for line in text.split(b"\n") if line.startswith((b"- n", b"t:")))


def places_of(wanted: set[bytes], text: bytes, other: bytes) -> set[int]:
    """Return how many lines that both texts have are above each of some lines."""
    shared = {*filter(bytes.strip, other.split(b"\n"))} - wanted
    places, above = set(), 0
    for line in text.split(b"\n"):
        above += line in shared
        if line in wanted:
            places.add(above)
    return places


class Lives(RuleBasedStateMachine):
    """All of this must be there: acknowledged notes, and saved lines that nobody who had read them took out."""

    saves = Saves
    young_seconds = HOUR
    """What is younger may come back once, when it is deleted together with another edit."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=_IN_MEMORY)
        self.world = World(Path(self.folder.name), self.saves)
        self.editors = [Editor(), Editor()]
        self.born: dict[bytes, float] = {}
        self.unseen: set[bytes] = set()
        """Saved since the host looked last."""
        self.wanted: set[bytes] = set()
        self.deleted: dict[bytes, float] = {}
        """Thing -> how long the host had known it when it was taken out."""
        self.versions: list[bytes] = [b""]
        self.prefixes: set[bytes] = {b""}
        """Versions, and what they were before their newest notes."""
        self.is_saved = False
        self.saved: dict[bytes, float] = {}
        """Time of the last save by text: the same editor may save a text again, a minute later it goes back to it."""

    def teardown(self) -> None:
        self.world.journal.close()
        self.folder.cleanup()

    def now(self) -> float:
        return self.world.wall()

    def _new(self, begin: str) -> bytes:
        number = next(self.world.numbers)
        words = hashlib.sha256(str(number).encode()).hexdigest()[:24]  # nobody goes on with a line of another
        thing = f"{begin}{number} {words}".encode()
        self.born[thing] = self.now()
        return thing

    @initialize()
    def begin(self) -> None:
        self.add(2)

    @rule(count=st.integers(1, 3))
    def add(self, count: int) -> None:
        things = [self._new("- n") for _ in range(count)]
        self.world.add(*(thing[2:].decode() for thing in things))
        self.wanted |= {*things}
        self._keep_version() if not self.is_saved else None

    @rule(is_written=st.booleans(), torn=st.integers(0, 60))
    def killed_behind_a_commit(self, is_written: bool, torn: int) -> None:
        """The host is killed before, while or after it writes a note."""
        thing = self._new("- n")
        was_there = self.world.path.exists()
        rows = self.world.commit(Added.of("note", "main", note(thing[2:].decode())))
        self.prefixes.add(bytes(self.world.projections.in_use.load("groups/main/MEMORY.md").text) + rows[0].data)
        self.wanted.add(thing)
        if is_written:
            self.world.projections.write(rows)
        elif not self.is_saved and was_there:
            with self.world.path.open("ab") as file:
                file.write(rows[0].data[:torn])
        self.world.kill()
        self._look()

    @rule(seconds=st.sampled_from([0.5, 5.0, 90.0, 900.0]))
    def wait(self, seconds: float) -> None:
        self.world.passed += seconds
        for editor in self.editors:
            if self.now() - editor.read_at > HOUR - 60:
                editor.buffer = None

    @rule()
    def a_day_passes(self) -> None:
        self._look()
        self.wait(24 * HOUR)

    @rule(who=st.integers(0, 1))
    def open(self, who: int) -> None:
        self._look()
        text = self.world.text
        deleted_at, saved_at = self.editors[who].deleted_at, self.editors[who].saved_at
        self.editors[who] = Editor(text, text, self.now(), {*things_in(text)}, deleted_at=deleted_at, saved_at=saved_at)

    def _opened(self, who: int) -> Editor:
        if self.editors[who].buffer is None:
            self.open(who)
        return self.editors[who]

    @rule(who=st.integers(0, 1), at=st.integers(0, 200))
    def type(self, who: int, at: int) -> None:
        editor = self._opened(who)
        assert editor.buffer is not None
        line = self._new("t:")
        lines = editor.buffer.split(b"\n")
        at %= len(lines)
        if lines[at].startswith(b"- n"):  # above a note's text it would be the note's
            at += 1
        editor.buffer = b"\n".join([*lines[:at], line, *lines[at:]])
        editor.typed.add(line)

    @rule(who=st.integers(0, 1), at=st.integers(0, 200))
    def delete(self, who: int, at: int) -> None:
        editor = self._opened(who)
        if editor.buffer is None or not (things := sorted(things_in(editor.buffer))):
            return
        thing = things[at % len(things)]
        block = note(thing[2:].decode()) if thing.startswith(b"- ") else thing + b"\n"
        if b"\n" + block not in editor.buffer:
            block = thing + b"\n"
        editor.buffer = editor.buffer.replace(block, b"", 1)
        editor.typed.discard(thing)
        if thing in editor.seen and thing not in editor.buffer:
            editor.deleted.add(thing)

    @rule(who=st.integers(0, 1), how=st.sampled_from(["rename", "in place", "slowly", *LAYOUTS]))
    def save(self, who: int, how: str) -> None:
        editor = self.editors[who]
        if editor.buffer is None or (self.is_saved and not self._looked()):
            return
        self._replace_at_the_same_place(editor.buffer, editor.typed)
        if how == "slowly":
            with self.world.path.open("wb", buffering=0) as file:
                file.write(editor.buffer[: len(editor.buffer) // 2])
                os.utime(file.fileno(), (self.now(), self.now()))
                self.world.look()
                file.write(editor.buffer[len(editor.buffer) // 2 :])
        laid_out = LAYOUTS.get(how, bytes)(editor.buffer)
        self.world.save(laid_out, in_place=how != "rename")
        self.is_saved = True
        is_older = editor.buffer in self.prefixes and editor.buffer != self.versions[-1]
        is_older = is_older or self.now() - self.saved.get(editor.buffer, self.now()) >= SAVED_AGAIN_SECONDS
        self.saved[editor.buffer] = self.now()
        if self.now() - self.editors[1 - who].deleted_at <= SAVED_AGAIN_SECONDS:  # as if this editor undid it
            self.deleted |= dict.fromkeys(self.deleted.keys() & things_in(editor.buffer).keys(), 0.0)
        is_crossed = editor.deleted and self.editors[1 - who].deleted_at > editor.read_at
        if is_older or is_crossed:  # who of two people took out what cannot be told
            self._look()
            if is_crossed:
                notes = {thing for thing in self.wanted - editor.deleted if thing.startswith(b"- n")}
                assert is_older or notes <= things_in(self.world.text).keys()
            self._take_as_it_is()
        else:
            for thing in editor.deleted:
                self.deleted.setdefault(thing, self.now() - self.born[thing])
            self.wanted = (self.wanted | editor.typed) - editor.deleted
        editor.saved_at = self.now()
        if editor.deleted:
            editor.deleted_at = self.now()
        editor.seen |= editor.typed
        self.unseen |= editor.typed
        editor.typed, editor.deleted = set(), set()

    def _replace_at_the_same_place(self, buffer: bytes, typed: set[bytes]) -> None:
        """Let go of lines that another person typed where this one types: one person may have replaced them."""
        newest = self.world.text
        mine = places_of(typed, buffer, newest)
        for line in self.wanted - things_in(buffer).keys():
            if line.startswith(b"t:") and not mine.isdisjoint(places_of({line}, newest, buffer)):
                self.wanted.remove(line)
                self.deleted[line] = 0.0

    @rule(at=st.integers(0, 50))
    def check_out(self, at: int) -> None:
        """An older text takes the place of the file, which is unlinked before."""
        self._look()
        old = self.versions[at % len(self.versions)]
        have_both_saved = all(self.now() - editor.saved_at < HOUR for editor in self.editors)
        if not self.world.path.exists() or not old or old in self.saved or have_both_saved:
            return  # or one of them may take back a save of their own
        self.saved[old] = self.now()
        self.world.path.unlink()
        late = self._new("- n")
        self.world.add(late[2:].decode())
        self.world.save(old)
        self._look()
        assert self.world.text.startswith(old)
        assert things_in(self.world.text)[late] == 1
        self._take_as_it_is()

    @rule()
    def kill(self) -> None:
        self.world.kill()
        self._look()

    def _take_as_it_is(self) -> None:
        there = {*things_in(self.world.text)}
        self.deleted |= dict.fromkeys(self.wanted - there, 0.0)
        for thing in there:
            self.deleted.pop(thing, None)
        self.wanted = there
        for editor in self.editors:  # whoever read before that has another past by now
            editor.buffer = None

    def _looked(self) -> bool:
        self._look()
        return True

    def _look(self) -> None:
        self.world.look()
        self.born |= dict.fromkeys(self.unseen, self.now())
        self.unseen, self.is_saved = set(), False
        self._keep_version()

    def _keep_version(self) -> None:
        if self.world.text != self.versions[-1]:
            self.versions.append(self.world.text)
        text = bytes(self.world.projections.in_use.load("groups/main/MEMORY.md").text)
        while text:
            self.prefixes.add(text)
            text = text[: max(text.rfind(b"\n\n## "), 0) + 1] if text.rfind(b"\n\n## ") > 0 else b""

    @rule()
    def look(self) -> None:
        self._look()

    @invariant()
    def all_is_there_once(self) -> None:
        if self.is_saved:
            return
        there = things_in(self.world.text)
        lost = self.wanted - there.keys()
        assert not lost, f"lost: {lost}"
        assert all(count == 1 for count in there.values()), f"doubled: {there}"
        risen = {thing for thing in self.deleted if there[thing]}
        assert not {thing for thing in risen if self.deleted[thing] > self.young_seconds}, f"came back: {risen}"
        for thing in risen:
            del self.deleted[thing]
            self.wanted.add(thing)
        assert self.world.projections.saves.current("groups/main/MEMORY.md") in (self.world.text, None)


def live(machine: type[RuleBasedStateMachine], lives: int, *, is_broken: bool = False) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=lives,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            derandomize=LIVES == 20,
            report_multiple_bugs=False,
            phases=[Phase.generate, *([] if is_broken else [Phase.shrink])],
        ),
    )


@pytest.mark.timeout(3600)
def test_random_lives_lose_and_double_nothing() -> None:
    live(Lives, LIVES)


class MergesNothing(Saves):
    """The newest save is the newest version."""

    def _compare(self, file, signature, author, data):  # type: ignore[no-untyped-def]
        merged = self._in_use.as_version(file, data or b"", b"")
        return super()._compare(file, signature, author, data)._replace(merged=merged)


class DeletesNothing(Saves):
    """Lines that a save lacks stay."""

    def _compare(self, file, signature, author, data):  # type: ignore[no-untyped-def]
        found = super()._compare(file, signature, author, data)
        lacking = [line for line in found.newest.split(b"\n") if line and line not in found.merged]
        return found._replace(merged=found.merged + b"".join(line + b"\n" for line in lacking))


@pytest.mark.parametrize("control", [MergesNothing, DeletesNothing])
def test_lives_notice_a_merge_that_merges_or_deletes_nothing(control: type[Saves]) -> None:
    class Broken(Lives):
        saves = control
        young_seconds = 0.0

    with pytest.raises(AssertionError):
        live(Broken, 1000, is_broken=True)
