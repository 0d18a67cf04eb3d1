"""The shelves on real files: what people do to them counts at once, and what has expired goes."""

import math
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_host.errors import WorldFailed
from honeybadger_host.journal.changes import FileWritten
from honeybadger_host.memory.working_memory import dump_working, is_over, live, session_folder, working_file
from honeybadger_host.memory.working_memory_store import WorkingMemoryStore
from tests.host.documents.world import World
from tests.host.memory.test_working_memory import NOW, entry

LATER = NOW + timedelta(minutes=6)


def data_of(key: str, session: str = "main", *, minutes: float = 5) -> bytes:
    return dump_working(entry(key, ttl=timedelta(minutes=minutes), session=session))


def put(home: Path, key: str, session: str = "main", *, minutes: float = 5) -> Path:
    path = home / working_file("main", session, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data_of(key, session, minutes=minutes))
    return path


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / session_folder("main", "main")
    folder.parent.mkdir(parents=True)
    folder.write_text("")
    with pytest.raises(WorldFailed, match="cannot be read"):
        WorkingMemoryStore(tmp_path).look("main", "main")
    with capture_logs() as logs:
        assert WorkingMemoryStore(tmp_path).inventory("main", "main", NOW) is None
    assert [line["event"] for line in logs] == ["working.refused"]


def saved(world: World, key: str, *, minutes: float = 5, session: str = "main") -> Path:
    """Save an entry as a request does."""
    file = working_file("main", session, key)
    data = data_of(key, session, minutes=minutes)
    change = FileWritten("main", "working", file, data, world.projections.saves.current(file))
    world.projections.write(world.commit(change))
    return world.home / file


def swept(world: World, now: datetime, *, watched_seconds: float = math.inf) -> int:
    over = partial(is_over, now=now, was_watched_for=lambda seconds: seconds <= watched_seconds)
    count = world.projections.expire(WorkingMemoryStore(world.home).over(over), over)
    world.journal.expire(world.journal.expired(over))
    return count


def kept(world: World, text: bytes) -> bool:
    world.journal.checkpoint()
    return any(text in path.read_bytes() for path in (world.home / "data").glob("journal.db*"))


def test_expired_items_go_from_disk_and_journal(world: World) -> None:
    gone, stays = saved(world, "gone"), saved(world, "stays", minutes=60)
    alone = saved(world, "alone", session="other")
    bad = put(world.home, "bad")
    bad.write_bytes(b"{")  # no entry: it stays
    name = working_file("main", "other", "alone")
    world.save(alone.read_bytes().replace(b'"x"', b'"typed by a person"'), file=name)
    assert len(world.look(name)) == 1
    assert swept(world, NOW) == 0
    assert kept(world, b'"key": "gone"')
    assert swept(world, LATER) == 2
    world.journal.vacuum()
    assert [path.exists() for path in (gone, stays, bad, alone.parent)] == [False, True, True, False]
    assert [kept(world, b'"key": "%s"' % key) for key in (b"gone", b"alone", b"stays")] == [False, False, True]
    assert not kept(world, b"typed by a person")
    world.kill()
    assert world.look(working_file("main", "main", "gone")) == []
    assert saved(world, "gone").read_bytes() == data_of("gone")


@pytest.mark.parametrize("clock", [timedelta(days=365), timedelta(days=-365)])
def test_a_set_clock_shortens_no_life(world: World, clock: timedelta) -> None:
    path = saved(world, "one", minutes=5)
    assert swept(world, NOW + clock, watched_seconds=299) == 0
    assert path.exists()
    entries, _ = WorkingMemoryStore(world.home).look("main", "main")
    assert [len(live(entries, now)) for now in (NOW + clock, NOW)] == [0, 1]
    assert swept(world, NOW + clock, watched_seconds=300) == 1
    assert not path.exists()


def test_an_entry_that_was_saved_again_is_not_swept(world: World) -> None:
    saved(world, "one")
    over = partial(is_over, now=LATER, was_watched_for=lambda seconds: True)
    due = WorkingMemoryStore(world.home).over(over)
    path = saved(world, "one", minutes=60)
    assert world.projections.expire(due, over) == 0
    assert path.exists()
