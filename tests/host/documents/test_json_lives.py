"""Random lives of JSON documents: agents change members, people read, wait, change and save, hosts are killed."""

import hashlib
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from honeybadger_host.documents.saves import Saves
from honeybadger_host.journal.changes import FileRemoved, FileWritten
from tests.host.documents.test_lives import HOUR, LIVES, MergesNothing, live
from tests.host.documents.world import World

FILES = ("groups/main/memory/food/tea.json", "groups/main/tasks/news.json", "groups/main/proposals/p1.json")
MEMBERS = tuple("abcdef")
Value = dict[str, Any]


@dataclass
class Editor:
    """A person with an object open; None: nothing is open.

    Args:
        changed: members that they wrote since, or took out, which is None.
        came, went: elements of the list `tags` that they added and took out.
        deleted_at: when they saved a deletion last.
    """

    value: Value | None = None
    read_at: float = 0.0
    changed: dict[str, str | None] = field(default_factory=dict)
    came: list[str] = field(default_factory=list)
    went: list[str] = field(default_factory=list)
    deleted_at: float = 0.0


def dumped(value: Value) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


class JsonLives(RuleBasedStateMachine):
    """An object is what agents made of it, with all that people changed since they read it."""

    saves = Saves
    young_seconds = HOUR
    """What is younger may come back once, when it is deleted together with another edit."""

    def __init__(self) -> None:
        super().__init__()
        self.born: dict[str, float] = {}
        self.unseen: set[str] = set()  # saved since the host looked last
        self.deleted: dict[str, float] = {}  # how long the host had known each when somebody took it out
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.TemporaryDirectory(dir=memory)
        self.world = World(Path(self.folder.name), self.saves)
        self.editors = [Editor(), Editor()]
        self.wanted: Value = {}
        self.is_there = False
        self.is_saved = False
        self.versions: set[bytes] = set()

    def teardown(self) -> None:
        self.world.journal.close()
        self.folder.cleanup()

    @initialize(file=st.sampled_from(FILES))
    def begin(self, file: str) -> None:
        self.file, self.path = file, self.world.home / file
        self.write("a", how="written")

    def _new(self) -> str:
        thing = hashlib.sha256(str(next(self.world.numbers)).encode()).hexdigest()[:24]  # like no other
        self.born[thing] = self.world.wall()
        return thing

    @rule(member=st.sampled_from(MEMBERS), how=st.sampled_from(["written", "late", "torn", "killed"]))
    def write(self, member: str, how: str) -> None:
        """An agent changes a member, and one of the tags; the host may be killed before, while or after it writes."""
        how = "written" if self.is_saved else how
        held = self.world.projections.saves.current(self.file)
        value = {} if held is None else orjson.loads(held)
        value[member] = self.wanted[member] = self._new()
        self.wanted.setdefault("tags", []).append(tag := self._new())
        value.setdefault("tags", []).append(tag)
        rows = self.world.commit(FileWritten("main", "entry", self.file, dumped(value), held))
        self.is_there = True
        if how in ("written", "late"):
            self.world.projections.write(rows)
        elif how == "torn":
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(rows[0].data[:20])
        if how in ("late", "torn", "killed"):
            self.world.kill()
        if self.path.exists() and self.path.read_bytes().endswith(b"}\n"):
            self._look()

    @rule(by_agent=st.booleans(), luck=st.integers(0, 7))
    def remove(self, by_agent: bool, luck: int) -> None:
        """An agent removes the object, or a person the file."""
        if luck or self.is_saved or (held := self.world.projections.saves.current(self.file)) is None:
            return
        if by_agent:
            self.world.projections.write(self.world.commit(FileRemoved("main", "entry", self.file, held)))
        else:
            self.path.unlink()
        self._look()
        self.wanted, self.is_there = {}, False
        self.editors = [Editor(), Editor()]
        assert self.world.projections.saves.current(self.file) is None

    @rule(seconds=st.sampled_from([0.5, 60.0, 900.0, 24 * HOUR]))
    def wait(self, seconds: float) -> None:
        self.world.passed += seconds
        for editor in self.editors:
            if self.world.wall() - editor.read_at > HOUR - 60:
                editor.value = None

    @rule(who=st.integers(0, 1))
    def open(self, who: int) -> None:
        self._look()
        value = orjson.loads(self.path.read_bytes()) if self.path.exists() else None
        self.editors[who] = Editor(value, self.world.wall())

    @rule(who=st.integers(0, 1), member=st.sampled_from((*MEMBERS, "mine", "theirs")), is_deleted=st.booleans())
    def edit(self, who: int, member: str, is_deleted: bool) -> None:
        editor = self.editors[who]
        if editor.value is None:
            self.open(who)
            editor = self.editors[who]
        if editor.value is None:
            return
        if is_deleted and member in editor.value:
            del editor.value[member]
            editor.changed[member] = None
        else:
            editor.value[member] = editor.changed[member] = self._new()
        tags = editor.value.setdefault("tags", [])
        if is_deleted and tags:
            tag = tags.pop(0)
            editor.came.remove(tag) if tag in editor.came else editor.went.append(tag)
        else:
            tags.append(self._new())
            editor.came.append(tags[-1])

    @rule(who=st.integers(0, 1), how=st.sampled_from(["rename", "in place", "broken"]))
    def save(self, who: int, how: str) -> None:
        editor = self.editors[who]
        if editor.value is None or not editor.changed:
            return
        if self.is_saved:
            self._look()
        data = dumped(editor.value)
        if how == "broken" and self.is_there:  # a brace is missing: the last good version is served
            self.world.save(data[:-3], file=self.file)
            self.world.look(self.file)
            self._check(self.world.projections.saves.current(self.file) or b"{}")
            self.is_saved = True
            self.write("a", "written")
        self.world.save(data, in_place=how == "in place", file=self.file)
        self.is_saved = True
        has_deleted = bool(editor.went) or None in editor.changed.values()
        is_crossed = has_deleted and self.editors[1 - who].deleted_at > editor.read_at
        if has_deleted:
            editor.deleted_at = self.world.wall()
        if data in self.versions or is_crossed:  # who of two people took out what cannot be told
            self._look()
            self._take(self.path.read_bytes())
        else:
            self._want(editor)
        editor.changed, editor.came, editor.went = {}, [], []

    def _want(self, editor: Editor) -> None:
        self.is_there = True
        gone = list(editor.went)
        for member, value in editor.changed.items():
            if member in self.wanted:
                gone.append(self.wanted.pop(member))
            if value is not None:
                self.wanted[member] = value
        for thing in gone:
            self.deleted[thing] = self.world.wall() - self.born[thing]
        self.unseen |= {*editor.came, *filter(None, editor.changed.values())}
        tags = self.wanted.setdefault("tags", [])
        self.wanted["tags"] = [tag for tag in [*tags, *editor.came] if tag not in editor.went]

    def _take(self, data: bytes) -> None:
        self.wanted = orjson.loads(data)
        self.editors = [Editor(), Editor()]

    @rule()
    def kill(self) -> None:
        self.world.kill()
        self._look()

    @rule()
    def look(self) -> None:
        self._look()

    def _look(self) -> None:
        self.world.look(self.file)
        self.born |= dict.fromkeys(self.unseen, self.world.wall())
        self.unseen, self.is_saved = set(), False
        if self.path.exists():
            self.versions.add(self.path.read_bytes())

    @invariant()
    def all_is_there_once(self) -> None:
        if self.is_saved:
            return
        assert self.path.exists() == self.is_there
        if not self.is_there:
            return
        assert self.world.projections.saves.current(self.file) == self.path.read_bytes()
        self._check(self.path.read_bytes())

    def _check(self, data: bytes) -> None:
        found = orjson.loads(data)
        tags: Counter[str] = Counter(found.pop("tags", []))
        wanted: Counter[str] = Counter(self.wanted.get("tags", []))
        members = {name: value for name, value in self.wanted.items() if name != "tags"}
        assert not wanted - tags, f"lost: {wanted - tags}"
        assert all(found.get(name) == value for name, value in members.items()), f"lost: {members} {found}"
        assert max(tags.values(), default=1) == 1, f"doubled: {tags}"
        risen = {*tags - wanted, *(value for name, value in found.items() if members.get(name) != value)}
        assert all(thing in self.deleted for thing in risen), f"never there: {risen - self.deleted.keys()}"
        assert all(self.deleted[thing] <= self.young_seconds for thing in risen), f"came back: {risen}"
        if risen:
            self._take(data)


@pytest.mark.timeout(3600)
def test_in_random_lives_no_member_is_lost() -> None:
    live(JsonLives, LIVES)


class DeletesNothing(Saves):
    """Members that a save lacks stay."""

    def _compare(self, file, signature, author, data):  # type: ignore[no-untyped-def]
        found = super()._compare(file, signature, author, data)
        if not (found.merged and found.newest):
            return found
        return found._replace(merged=dumped(orjson.loads(found.newest) | orjson.loads(found.merged)))


@pytest.mark.parametrize("control", [MergesNothing, DeletesNothing])
def test_json_lives_notice_merges_that_do_nothing(control: type[Saves]) -> None:
    class Broken(JsonLives):
        saves = control
        young_seconds = 0.0

    with pytest.raises(AssertionError, match="lost" if control is MergesNothing else "came back"):
        live(Broken, 1000, is_broken=True)
