"""Appends to files that people edit meanwhile: nothing acknowledged is missing, nothing stands twice, people win."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from honeybadger_host.errors import WorldFailed
from honeybadger_host.storage.journal_schema import Marks
from tests.host.storage.projected import MEMORY, SETTLE, TURNS, World, note, turn

# ------------------------------------------------------------------------------------------------------------ appending


def test_entries_are_appended_in_order_and_the_files_are_private(world: World) -> None:
    before = os.umask(0)
    try:
        world.add(MEMORY, note("one"), note("two"))
        world.add(TURNS, turn(1))
        world.add(MEMORY, note("three"))
    finally:
        os.umask(before)
    assert world.read() == note("one") + note("two") + note("three")
    assert world.read(TURNS) == turn(1)
    assert (world.home / MEMORY).stat().st_mode & 0o777 == 0o600
    assert (world.home / "groups" / "main").stat().st_mode & 0o777 == 0o700
    assert world.changed == [MEMORY, TURNS, MEMORY]


def test_what_people_wrote_stays_as_it_is(world: World) -> None:
    (world.home / "groups/main").mkdir(parents=True)
    world.write("# Ours\r\nköpt by hand, no line end".encode())
    (world.home / MEMORY).chmod(0o640)
    world.add(MEMORY, note("one"))
    assert world.read() == "# Ours\r\nköpt by hand, no line end".encode() + note("one")
    assert (world.home / MEMORY).stat().st_mode & 0o777 == 0o640


def test_a_settled_entry_is_forgotten_and_its_files_synced_once(world: World) -> None:
    world.add(MEMORY, note("one"))
    assert world.projections.settle(world.now).unsettled == {MEMORY: 1}
    world.now += SETTLE
    paths, unsettled = world.projections.settle(world.now)
    assert unsettled == {}
    assert set(paths) == {world.home / MEMORY, world.home / "groups/main", world.home / "groups"}
    world.projections.sync(paths)
    assert world.projections.settle(world.now) == ([], {})


# -------------------------------------------------------------------------------------------------------- people edit


def test_an_editor_that_replaced_the_file_just_before_the_write_keeps_its_text_and_gets_the_note(world: World) -> None:
    world.add(MEMORY, note("one"))
    with world.committed(MEMORY, note("two")):
        world.save_as_an_editor(note("one, edited"))
    assert world.read() == note("one, edited") + note("one") + note("two")  # "one" was not settled: it is not lost


def test_an_editor_that_removed_the_file_just_before_the_write_gets_the_note_in_a_new_one(world: World) -> None:
    world.add(MEMORY, note("one"))
    world.settle()
    with world.committed(MEMORY, note("two")):
        (world.home / MEMORY).unlink()
    assert world.read() == note("two")


def test_an_editor_that_saves_windows_line_ends_doubles_nothing(world: World) -> None:
    world.add(MEMORY, note("one"), note("two\n  more"))
    saved = world.read().replace(b"\n", b"\r\n")
    world.write(saved)
    world.settle()
    assert world.read() == saved


def test_an_entry_deleted_after_it_was_settled_stays_deleted_whatever_becomes_of_other_files(world: World) -> None:
    with capture_logs():
        with world.committed(TURNS, turn(1)):
            (world.home / TURNS).unlink()
            (world.home / TURNS).mkdir()  # it cannot be written, for as long as this lasts
        world.add(MEMORY, note("secret"), note("two"))
        world.settle()
        world.add(MEMORY, note("three"))
        world.save_as_an_editor(note("two"))  # read before "three" came
        world.restart()
        assert world.read() == note("two") + note("three")
        world.save_as_an_editor(note("three"))
        for _ in range(2):
            world.restart()
        assert world.read() == note("three")
        (world.home / TURNS).rmdir()
        world.restart()
    assert world.read(TURNS) == turn(1)
    assert world.read() == note("three")
    assert world.journal.marks == Marks(4, {})


def test_what_was_just_written_before_a_stop_is_looked_at_by_the_next_start(world: World) -> None:
    world.add(MEMORY, note("one"))
    world.now += SETTLE
    world.add(MEMORY, note("two"))
    world.save_as_an_editor(note("one"))
    with capture_logs():
        world.look(is_final=True)
        assert world.read() == note("one") + note("two")
        assert world.journal.marks == Marks(2, {MEMORY: 1})  # what was put back begins anew, with all the others
        world.save_as_an_editor(b"A person's line.\n" + note("one"))  # an editor that was open before "two" came
        world.restart()
    assert world.read() == b"A person's line.\n" + note("one") + note("two")
    assert world.journal.marks == Marks(2, {})


# ------------------------------------------------------------------------------------------------------- the disk fails


@contextlib.contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process may grow past `size` bytes: a write there is short, the next one fails."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_a_short_write_is_cut_back_and_made_good_in_order(world: World) -> None:
    world.add(MEMORY, note("one"))
    size = len(note("one"))
    with capture_logs() as logs, contextlib.ExitStack() as limits:
        with world.committed(MEMORY, note("two")):
            limits.enter_context(room_for(size + 20))
        assert world.read() == note("one")
        assert world.projections.behind == [MEMORY]
        limits.close()
        with world.committed(MEMORY, note("three"), note("four")):
            limits.enter_context(room_for(size + 20))
        limits.close()
        world.now += SETTLE
        limits.enter_context(room_for(size + 20))
        assert world.projections.settle(world.now).unsettled == {MEMORY: 1}
        limits.close()
        world.settle()
    assert world.read() == note("one") + note("two") + note("three") + note("four")
    assert world.projections.behind == []
    assert logs[0]["event"] == "projection.failed"
    assert "projection.caught_up" in [line["event"] for line in logs]


def test_nothing_that_failed_is_marked_projected(world: World) -> None:
    world.add(MEMORY, note("one"))
    with capture_logs(), contextlib.ExitStack() as limits:
        with world.committed(MEMORY, note("two")):
            limits.enter_context(room_for(10))
        limits.close()
        world.now += SETTLE
        limits.enter_context(room_for(10))
        oldest = world.projections.settle(world.now).unsettled[MEMORY]
    assert oldest <= 2
    world.restart()
    assert world.read() == note("one") + note("two")


def test_a_folder_in_the_way_before_the_commit_changes_nothing(world: World) -> None:
    (world.home / MEMORY).mkdir(parents=True)
    batch = world.projections.batch(world.now)
    with pytest.raises(WorldFailed, match=r"MEMORY\.md is a folder where the host needs a file: move it away"):
        batch.target(MEMORY)
    assert world.projections.behind == []


def test_a_folder_in_the_way_after_the_commit_is_waited_for(world: World) -> None:
    world.add(MEMORY, note("one"))
    with capture_logs() as logs:
        with world.committed(MEMORY, note("two")):
            (world.home / MEMORY).unlink()
            (world.home / MEMORY).mkdir()
        assert world.projections.behind == [MEMORY]
        world.add(TURNS, turn(1))  # other files go on
        for _ in range(3):
            world.settle()
        (world.home / MEMORY).rmdir()
        world.settle()
    assert world.read() == note("one") + note("two")
    assert world.read(TURNS) == turn(1)
    assert [line["event"] for line in logs if line["event"] == "projection.failed"] == ["projection.failed"]
    assert world.journal.projected_seq == world.journal.committed_seq


# -------------------------------------------------------------------------------------------------------------- crashes

BEFORE = note("settled")
ENTRIES = {MEMORY: (BEFORE, [note("one"), note("two")]), TURNS: (turn(1), [turn(2), turn(3)])}


@pytest.fixture(params=[MEMORY, TURNS])
def crashed(world: World, request: pytest.FixtureRequest) -> World:
    """A world whose last batch was committed and not written."""
    before, entries = ENTRIES[request.param]
    world.add(request.param, before)
    world.settle()
    with contextlib.suppress(InterruptedError), world.committed(request.param, *entries):
        raise InterruptedError
    return world


@pytest.mark.parametrize("filler", [b"", b"\0"], ids=["cut", "zeros"])
def test_a_tail_torn_at_any_byte_is_completed(crashed: World, filler: bytes) -> None:
    file = next(crashed.journal.unprojected()).file
    before, entries = ENTRIES[file]
    whole = before + b"".join(entries)
    for cut in range(len(before), len(whole) + 1):
        for zeros in {len(whole) - cut, (len(whole) - cut) // 2}:
            crashed.write(whole[:cut] + filler * zeros, file)
            for _ in range(2):
                crashed.recover()
                assert crashed.read(file) == whole, (cut, zeros)


@pytest.mark.parametrize(
    "text", [b"", b"A person's words.\n", note("one") + note("two")[:20]], ids=["lost", "cut", "torn"]
)
def test_what_was_written_again_is_not_looked_for_in_the_whole_journal_once_more(world: World, text: bytes) -> None:
    world.add(MEMORY, note("one"), note("two"), note("three"))
    world.write(text)
    with capture_logs():
        world.recover()
        whole = world.read()
        assert whole == text.removesuffix(note("two")[:20]).removesuffix(note("one")) + b"".join(
            map(note, ("one", "two", "three"))
        )
        world.projections._count_projected = pytest.fail  # type: ignore[assignment]
        world.settle()
    assert world.read() == whole
    assert world.journal.marks == Marks(3, {})


def test_a_start_names_the_files_that_it_cannot_write_and_no_others(world: World) -> None:
    world.add(MEMORY, note("one"))
    with capture_logs() as logs:
        world.recover()
        assert logs == []
        (world.home / MEMORY).unlink()
        (world.home / MEMORY).mkdir()
        world.recover()
        (world.home / MEMORY).rmdir()
        world.settle()
    assert [line["event"] for line in logs] == ["projection.failed", "projection.caught_up"]
    assert world.read() == note("one")


def test_an_entry_written_where_a_lost_one_stood_does_not_pass_for_it(world: World) -> None:
    world.add(MEMORY, note("same"), note("one"))
    world.write(b"")
    world.add(MEMORY, note("same"), note("one\n  and more"))
    assert world.read() == note("same") + note("one\n  and more")
    world.settle()
    assert world.read() == note("same") + note("one\n  and more") + note("same") + note("one")


def test_what_was_placed_and_never_committed_is_not_waited_for(world: World) -> None:
    world.add(MEMORY, note("one"))
    world.settle()
    with (world.home / MEMORY).open("ab"):  # somebody saves it
        world.projections.batch(world.now).target(MEMORY)
    assert world.projections.settled.unsettled == {}
