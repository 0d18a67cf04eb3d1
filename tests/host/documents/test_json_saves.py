"""Saves of JSON documents are merged by member; a file that is no JSON changes nothing until it is mended."""

import orjson
import pytest

from honeybadger_agent.mailbox import HUMAN
from honeybadger_host.documents.history import blame_of
from honeybadger_host.documents.merge import Overlapping, merge_json, merge_lines
from honeybadger_host.journal.changes import FileRemoved, FileWritten
from honeybadger_host.journal.schema import Row
from tests.host.documents.recorded import ENTRY, write
from tests.host.documents.world import World


def dumped(**members: object) -> bytes:
    return orjson.dumps(members, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


@pytest.mark.parametrize(
    ("base", "newest", "saved", "merged"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, {"a": 1}, {"a": 1, "c": 3}),
        ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 3}),
        ({"a": 1}, {}, {"a": 2}, {"a": 2}),
        ({"m": {"x": 1}}, {"m": {"x": 2}}, {"m": {"x": 1, "y": 1}}, {"m": {"x": 2, "y": 1}}),
        ({"t": ["a"]}, {"t": ["a", "b"]}, {"t": ["c"]}, {"t": ["c", "b"]}),
        (
            {"t": [{"id": "1", "s": 0}]},
            {"t": [{"id": "1", "s": 1}, {"id": "2"}]},
            {"t": [{"id": "1", "s": 0, "n": 1}]},
            {"t": [{"id": "1", "s": 1, "n": 1}, {"id": "2"}]},
        ),
    ],
)
def test_objects_are_merged_by_member(
    base: dict[str, object], newest: dict[str, object], saved: dict[str, object], merged: dict[str, object]
) -> None:
    assert orjson.loads(merge_json(dumped(**base), dumped(**newest), dumped(**saved))) == merged


def test_a_change_decided_upon_a_save_keeps_the_save(world: World) -> None:
    write(world, dumped(content="tea", n=1))
    world.look(ENTRY)
    world.save(dumped(content="green tea", n=1), file=ENTRY)
    write(world, dumped(content="green tea", n=2))
    (edit,) = world.look(ENTRY)
    assert edit.hunks == [(1, [b'  "content": "tea",\n'], [b'  "content": "green tea",\n'])]
    assert orjson.loads(world.read(ENTRY)) == {"content": "green tea", "n": 2}
    members = blame_of(world.journal.path, ENTRY, world.read(ENTRY))
    persons = [name for name, one in members if isinstance(one.origin, Row) and one.origin.sender == HUMAN]
    assert persons == ["content"]


def test_a_removed_file_that_somebody_only_touched_stays_gone(world: World) -> None:
    """A kill between a new file and the removal of its other name left such a file: it came back, empty."""
    write(world, dumped(content="tea"))
    world.look(ENTRY)
    with world.decided(FileRemoved("main", "entry", ENTRY, world.read(ENTRY))):
        (world.home / ENTRY).touch()
    assert (world.look(ENTRY), (world.home / ENTRY).exists()) == ([], False)


def test_a_broken_json_file_serves_its_last_version(world: World) -> None:
    good = dumped(content="tea", n=1)
    write(world, good)
    world.look(ENTRY)
    broken = dumped(content="green tea", n=1)[:-3]
    world.save(broken, file=ENTRY)
    assert not world.look(ENTRY)
    assert world.projections.saves.current(ENTRY) == good
    write(world, dumped(content="tea", n=2))
    world.kill()
    assert (world.look(ENTRY), world.read(ENTRY)) == ([], broken)
    assert world.projections.saves.damaged() == [ENTRY]
    world.save(broken + b"\n}\n", file=ENTRY)
    assert len(world.look(ENTRY)) == 1
    assert orjson.loads(world.read(ENTRY)) == {"content": "green tea", "n": 2}
    assert world.projections.saves.damaged() == []


def test_a_save_in_place_is_not_taken_for_torn(world: World) -> None:
    write(world, dumped(content="tea"))
    world.look(ENTRY)
    world.commit(FileWritten("main", "entry", ENTRY, dumped(content="tea", n=1), world.read(ENTRY)))
    with (world.home / ENTRY).open("wb") as editor:
        world.kill()
        assert world.read(ENTRY) == b""
        editor.write(dumped(content="green tea"))
    world.look(ENTRY)
    assert orjson.loads(world.read(ENTRY)) == {"content": "green tea", "n": 1}


@pytest.mark.parametrize(
    ("base", "newest", "saved", "merged"),
    [
        (b"a\nb\nc\n", b"a\nb\nC\n", b"A\nb\nc\n", b"A\nb\nC\n"),
        (b"a\n", b"a\nnote\n", b"a\nback\n", b"a\nback\nnote\n"),
        (b"a\n", b"a\nback\nnote\n", b"a\nback\n", b"a\nback\nnote\n"),
        (b"a\nlast", b"a\nlast\nnote\n", b"a\n", b"a\nnote\n"),
        (b"", b"\nnote\n", b"\nback\n", b"\nback\n\nnote\n"),
        (b"a\nb\n", b"a\nc\n", b"a\n", None),
        (b"a\nb\n", b"a\n", b"a\nc\n", None),
    ],
)
def test_what_only_one_side_changed_is_taken(base: bytes, newest: bytes, saved: bytes, merged: bytes | None) -> None:
    if merged is not None:
        assert merge_lines(base, newest, saved) == merged
        return
    with pytest.raises(Overlapping) as refused:
        merge_lines(base, newest, saved)
    assert refused.value.line == 1


def test_a_blank_line_is_no_anchor_between_changed_notes() -> None:
    """A typed line is taken out although the note above it went and one came below it."""
    base = b"\n## One\n- a\n\n## Two\n- b\n- typed\n"
    newest = b"\n## One\n- a\n- typed\n\n## Three\n- c\n"
    assert merge_lines(base, newest, base.replace(b"- typed\n", b"")) == newest.replace(b"- typed\n", b"")


@pytest.mark.parametrize(
    ("saves", "wanted"),
    [
        ([dumped(a=1, tags=[], b=2), dumped(tags=[])], {"tags": [], "b": 2}),
        (  # the last is by who has read the second
            [dumped(a=2, tags=["t", "u"]), dumped(tags=["u"]), dumped(tags=["u", "v"], a=3), dumped(tags=[], b=2)],
            {"tags": ["v"], "a": 3, "b": 2},
        ),
        ([dumped(a=1, tags=["t", "mine"]), dumped(a=1, tags=["t", "mine, too"])], {"a": 1, "tags": ["t", "mine, too"]}),
        ([dumped(a=1, tags=["t", "tea"]), dumped(a=1, tags=["t", "cups"])], {"a": 1, "tags": ["t", "cups", "tea"]}),
    ],
)
def test_a_member_that_another_person_wrote_stays(world: World, saves: list[bytes], wanted: dict[str, object]) -> None:
    write(world, dumped(a=1, tags=["t"]))
    world.look(ENTRY)
    for text in saves:
        world.save(text, file=ENTRY)
        world.look(ENTRY)
    assert orjson.loads(world.read(ENTRY)) == wanted
