"""The search index: whatever happens to the files, the next search knows it; whatever happens to it, it comes back."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from structlog.testing import capture_logs

from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.index import INDEX_FILE
from honeybadger_host.search.lookups import Found
from honeybadger_host.search.ranking import search
from tests.host.search.indexed import NOW, Indexed, done


class World(Indexed):
    """A home that is searched."""

    def find(self, words: str, group: str = "main") -> list[str]:
        """Return what is found, sorted: an entry's id, a turn's session and number, else the text."""
        return sorted(_called(found) for found in self.found(words, group))

    def found(self, words: str, group: str = "main") -> list[Found]:
        def ask(corpus: Corpus) -> list[int]:
            return [hit.number for hit in search(corpus, words, now=NOW, limit=100) if hit.parts.get("terms", 0) > 0]

        numbers, is_complete = self.index.search(group, ask)
        assert is_complete
        return list(self.index.lookups.show(numbers).values())


def _called(found: Found) -> str:
    return {"entry": found.key, "turn": f"{found.session}#{found.key}"}.get(found.kind, found.text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_nobody_told_of_is_found_after_a_comparison(world: World) -> None:
    assert world.find("badger") == []
    world.put("groups/main/memory/general/e1.json", b'{"content": "badger"}', touch=False)
    assert world.find("badger") == []
    done(world.index.compare_all())
    assert world.find("badger") == ["e1"]
    (world.home / "groups/main/memory/general/e1.json").unlink()
    done(world.index.compare_all())
    assert world.find("badger") == []


def test_two_saves_within_a_time_stamp_are_seen(world: World) -> None:
    file = world.entry("e1", "badger one")
    assert world.find("badger") == ["e1"]
    status = (world.home / file).stat()
    with (world.home / file).open("r+b") as same:  # same inode, size and, on a coarse clock, time
        same.write(orjson.dumps({"content": "weasel one"}))
    os.utime(world.home / file, ns=(status.st_atime_ns, status.st_mtime_ns))
    done(world.index.compare("main"))
    assert world.find("weasel") == ["e1"]


def test_a_new_folder_is_compared_in_the_background(world: World) -> None:
    world.find("anything")
    world.put("groups/main/memory/animals/e1.json", b'{"content": "badger"}', touch=False)
    done(world.index.compare_told())
    assert world.index.folders == []
    world.index.touch_folder("groups/main/memory/animals")
    is_idle = world.index.is_idle
    done(world.index.compare_told())
    assert (is_idle, world.index.is_idle) == (False, True)
    assert "groups/main/memory/animals" in world.index.folders
    done(world.index.work(is_bulk=True))
    assert world.index.status()["documents"] == 0  # one file is left to the search
    assert world.find("badger") == ["e1"]


@pytest.mark.parametrize("name", ["gr\udce4", "our team"])
def test_a_folder_that_is_no_group_hides_no_other(world: World, name: str) -> None:
    world.index.touch_folder(f"groups/{name}")
    done(world.index.compare_told())
    done(world.index.compare_all())
    assert world.index.is_idle


def test_a_search_during_a_comparison_finds_everything(world: World) -> None:
    world.put("groups/main/memory/general/e1.json", b'{"content": "badger"}', touch=False)
    steps = world.index.compare_all()
    next(steps)
    assert world.find("badger") == ["e1"]
    world.put("groups/main/memory/animals/e2.json", b'{"content": "badger"}', touch=False)
    world.index.touch_folder("groups/main/memory/animals")
    done(steps)
    assert world.find("badger") == ["e1", "e2"]


def test_what_was_said_before_a_stop_is_soon_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.entry("e1", "weasel")
    world.turns("main", "weasel")
    assert world.find("weasel") == ["e1", "main#1"]
    monkeypatch.setattr("honeybadger_host.search.index.MAX_COMPARED_NOW", 0)
    world.turns("main", "our badger", first=2)
    world.put("groups/main/MEMORY.md", "## Notes\n- a badger is no weasel\n")
    world.restart()

    def ask(corpus: Corpus) -> list[int]:
        return [hit.number for hit in search(corpus, "badger", now=NOW, limit=9)]

    numbers, is_complete = world.index.search("main", ask)
    found = world.index.lookups.show(numbers).values()
    assert {"- a badger is no weasel", "main#2"} <= set(map(_called, found))
    assert not is_complete  # the entries were not compared yet


def test_a_large_group_is_loaded_before_its_first_search(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("honeybadger_host.search.index.BLOCK_DOCUMENTS", 3)
    for number in range(3):
        world.entry(f"e{number}", "weasel")
    world.entry("s1", "weasel", group="small")
    done(world.index.work())
    assert world.index.status()["resident_bytes"] == 0
    world.index.load_ahead()
    loaded = world.index.status()["resident_bytes"]
    assert loaded > 0
    assert world.find("weasel") == ["e0", "e1", "e2"]
    assert world.index.status()["resident_bytes"] == loaded  # it was this group's


def test_blocks_are_written_while_files_are_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("honeybadger_host.search.index.BLOCK_DOCUMENTS", 200)
    monkeypatch.setattr("honeybadger_host.search.blocks.BLOCK_DOCUMENTS", 200)
    for number in range(2100):
        world.put(f"groups/main/memory/general/e{number}.json", b'{"content": "badger"}', touch=False)
    done(world.index.compare_all())
    done(world.index.work(is_bulk=True))
    with closing(sqlite3.connect(world.home / INDEX_FILE)) as db:
        in_blocks = db.execute("SELECT sum(last - first + 1) FROM blocks").fetchone()
    assert in_blocks == (2000,)  # the first search has less than a block to write
    assert world.index.search("main", len) == (2100, True)


def test_a_malformed_file_leaves_others_searchable(world: World) -> None:
    world.entry("good", "badger")
    with capture_logs() as logs:
        world.put("groups/main/memory/general/bad.json", b'{"content": "badger", ')
        assert world.find("badger") == ["good"]
    assert [row["file"] for row in logs if row["event"] == "index.refused"] == ["groups/main/memory/general/bad.json"]
    world.entry("bad", "badger, mended")
    assert world.find("badger") == ["bad", "good"]


def test_odd_names_and_deep_folders_hide_nothing(world: World) -> None:
    world.entry("good", "badger")
    general = world.home / "groups/main/memory/general"
    Path(os.fsdecode(os.fsencode(general) + b"/\xff.json")).write_bytes(b'{"content": "badger"}')
    world.index.touch("groups/main/memory/general/\udcff.json")
    Path(os.fsdecode(os.fsencode(general) + b"/\xff")).mkdir()
    subprocess.run(["mkdir", "-p", f"{general}/{'a/' * 1500}"], check=True)
    (general / "/".join("a" * 8) / "deep.json").write_bytes(b'{"content": "badger"}')
    try:
        with capture_logs() as logs:
            world.index.touch_folder("groups/main/memory/general")
            assert world.find("badger") == ["good"]
        world.restart()
        done(world.index.compare_all())
        assert world.find("badger") == ["good"]
        refused = next(line for line in logs if line["event"] == "index.refused")
        assert refused["file"] == "groups/main/memory/general/a/a/a/a/a/a/a/a/deep.json"
        assert "up to 8 deep" in refused["why"]
    finally:
        subprocess.run(["rm", "-r", f"{general}/a"], check=True)  # pytest cannot


def test_a_grown_log_is_read_from_its_mark(world: World) -> None:
    file = world.turns("main", "first badger")
    assert world.find("badger") == ["main#1"]
    world.turns("main", "second badger", "third", first=2)
    assert world.find("badger") == ["main#1", "main#2"]
    path = world.home / file
    path.write_bytes(path.read_bytes()[: -len(path.read_bytes().splitlines(keepends=True)[-1])])
    world.index.touch(file)
    assert world.find("third") == []
    path.unlink()
    world.turns("main", "a new log, with a badger", first=7)
    assert world.find("badger") == ["main#7"]


def test_an_overlong_line_hides_no_later_turn(world: World) -> None:
    file = world.turns("main", "first badger")
    with (world.home / file).open("a") as log:
        log.write("x" * (17 << 20) + "\n")
    world.turns("main", "second badger", first=2)
    assert world.find("badger") == ["main#1", "main#2"]


def test_groups_see_themselves_and_the_global_group(world: World) -> None:
    world.entry("mine", "badger", "main")
    world.entry("yours", "badger", "other")
    world.entry("ours", "badger", "global")
    assert world.find("badger", "main") == ["mine", "ours"]
    assert world.find("badger", "other") == ["ours", "yours"]
    world.entry("ours", "weasel", "global")
    assert world.find("badger", "main") == ["mine"]
    assert world.find("weasel", "other") == ["ours"]


def test_a_restart_knows_everything_and_what_changed_meanwhile(world: World) -> None:
    world.entry("kept", "badger kept")
    gone = world.entry("gone", "badger gone")
    world.turns("main", "badger said")
    assert len(world.find("badger")) == 3
    world.index.close()
    (world.home / gone).unlink()
    world.entry("new", "badger new")
    world.turns("main", "badger said again", first=2)
    world.index = world.open()
    assert world.find("badger") == ["kept", "main#1", "main#2", "new"]
    assert world.index.status()["rebuilds"] == 0


def spoil_with_garbage(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def executed(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


def spoil_a_page(path: Path) -> None:
    executed(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


def make_it_old(path: Path) -> None:
    executed(path, "PRAGMA user_version = 1")


def spoil_a_name(path: Path) -> None:
    executed(path, "UPDATE groups SET name = CAST(x'ff' AS TEXT) WHERE number > 0")


def make_it_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil", [spoil_with_garbage, spoil_a_page, spoil_a_name, make_it_old, Path.unlink, make_it_a_folder]
)
def test_a_damaged_old_or_missing_index_is_rebuilt(world: World, spoil: Callable[[Path], None]) -> None:
    for number in range(50):
        world.entry(f"e{number}", f"badger number {number}, " + "padding " * 20)
    assert len(world.find("badger")) == 50
    world.index.close()
    for end in ("-wal", "-shm"):
        (world.home / f"{INDEX_FILE}{end}").unlink(missing_ok=True)
    spoil(world.home / INDEX_FILE)
    with capture_logs() as logs:
        world.index = world.open()
        assert len(world.find("badger")) == 50
    assert [line["event"] for line in logs if line["event"] == "index.rebuilt"] == ["index.rebuilt"]


def test_an_index_removed_at_run_time_is_rebuilt(world: World) -> None:
    world.entry("e1", "badger")
    assert world.find("badger") == ["e1"]
    (world.home / INDEX_FILE).unlink()
    done(world.index.compare_all())
    assert world.find("badger") == ["e1"]
    assert (world.home / INDEX_FILE).exists()


def test_many_new_files_are_read_in_the_background(world: World) -> None:
    for number in range(2100):
        world.put(f"groups/main/memory/general/e{number}.json", b'{"content": "badger"}', touch=False)
    assert world.index.search("main", len) == (0, False)
    assert world.index.waiting == 2100
    world.entry("fresh", "a fresh weasel")
    assert world.index.search("main", len) == (1, False)
    before = world.index.status()["resident_bytes"]
    done(world.index.work())
    assert world.index.status()["resident_bytes"] > before  # what is in memory is told of them without a search
    assert world.index.search("main", len) == (2101, True)
    world.restart()
    assert world.index.search("main", len) == (2101, True)
    assert world.find("weasel") == ["fresh"]


def test_corpora_over_the_limit_leave_memory_and_come_back(tmp_path: Path) -> None:
    world = World(tmp_path, max_memory_bytes=1)
    for group in ("one", "two"):
        world.entry("e", "badger", group)
    for _ in range(2):
        assert world.find("badger", "one") == ["e"]
        assert world.find("badger", "two") == ["e"]
    world.entry("e", "weasel", "one")
    assert world.find("badger", "one") == []


def test_a_long_log_is_read_to_its_end(world: World) -> None:
    world.turns("main", *(f"badger {'padding ' * 100}" for _ in range(1000)), "a weasel at the end")
    assert world.find("weasel") == ["main#1001"]
    assert world.index.status()["documents"] == 1001
    world.turns("main", "another weasel", first=1002)
    assert world.find("weasel") == ["main#1001", "main#1002"]


def test_indexing_does_not_import_numpy(world: World) -> None:
    world.put("groups/main/memory/general/e1.json", b'{"content": "badger"}', touch=False)
    script = """
import sys
from pathlib import Path
from honeybadger_host.search.index import Index
index = Index(Path(HOME), None, max_memory_bytes=1000)
assert [*index.compare_all(), *index.work()] and index.status()["documents"] == 1
index.load_ahead()
before = "numpy" in sys.modules
assert index.search("main", len) == (1, True)
print(before, "numpy" in sys.modules)
index.close()
"""
    program = [sys.executable, "-c", script.replace("HOME", repr(str(world.home)))]  # not forked: it imports for itself
    ran = subprocess.run(program, capture_output=True, text=True, check=True)
    assert (ran.stdout.splitlines()[-1:], ran.stderr) == (["False True"], "")
