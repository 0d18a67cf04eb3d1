"""SIGKILL at the n-th call that changes the disk, and at named points, while a group is loaded or imported."""

import json
import random
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from honeybadger_host.errors import JournalError
from honeybadger_host.files.home import JOURNAL_FILE, make_home
from honeybadger_host.journal.forgetting import read_forgetting
from honeybadger_host.journal.reader import LogFilter, read_log
from tests.commands import cli_text
from tests.crash.conftest import IS_LONG
from tests.crash.features import SECRET, tell
from tests.crash.hosts import Kill, Nursery, Point, deaths, ended, is_up
from tests.crash.test_kill_points import POINTS
from tests.hosting import Child, wait_for
from tests.people import settle

TURNS = 60
_IN_PIECES = {"spool.pipeline.BATCH_REQUESTS": 1, "transfer.importing.MAX_RECORDS": 10}


def exported(home: Path, group: str, target: Path) -> bytes:
    cli_text("export", group, "--to", target, home=home)
    data = target.read_bytes()
    target.unlink()
    return data


@pytest.fixture(scope="module")
def archive(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of a group with notes, entries and turns; its home is beside it, where one text was forgotten since."""
    home = tmp_path_factory.mktemp("of") / "home"
    make_home(home)
    with nursery.serving(home, {"ops.maintenance.CHECKPOINT_SECONDS": 0.05}):
        tell(home)
        settle(home)
    cli_text("export", "main", "--to", home.parent / "a.tar.gz", home=home)
    cli_text("forget", "main", "--text", SECRET, home=home)
    return home.parent / "a.tar.gz"


def is_killed(nursery: Nursery, home: Path, command: Sequence[object], kill: Kill) -> bool:
    """Run a command that is to be killed at a call; return whether it came to that."""
    child: Child
    with ended(nursery.start(home, command=command, kill=kill, base=_IN_PIECES)) as child:
        code = child.wait()
    assert code in (0, -signal.SIGKILL), child.tail()
    return code != 0


def has_changes(home: Path, group: str) -> bool:
    try:
        return bool(read_log(home / JOURNAL_FILE, LogFilter(group), 1))
    except JournalError:  # killed while it was made
        return False


def test_a_killed_load_brings_the_whole_group_or_nothing(
    nursery: Nursery, archive: Path, tmp_path: Path, rng: random.Random
) -> None:
    whole = archive_of_all(archive, tmp_path)

    def live(home: Path, kill: Kill) -> bool:
        return is_killed(nursery, home, ("import", "main", archive), kill)

    for home, where in deaths(tmp_path, rng, 1 if IS_LONG else 197, make_home, live):
        assert (home / "groups/main").is_dir(), where
        if has_changes(home, "main"):
            cli_text("context", "main", home=home)  # opens the home as a host does
        else:
            cli_text("import", "main", archive, home=home)
        assert exported(home, "main", tmp_path / "b.tar.gz") == whole, where
        assert not [*home.glob("*/.loading")], where


def archive_of_all(archive: Path, folder: Path) -> bytes:
    """Return what an export of a whole load has."""
    home = folder / "whole"
    make_home(home)
    cli_text("import", "main", archive, home=home)
    return exported(home, "main", folder / "whole.tar.gz")


def test_a_killed_load_keeps_forgotten_texts_out(
    nursery: Nursery, archive: Path, tmp_path: Path, rng: random.Random
) -> None:

    def live(home: Path, kill: Kill) -> bool:
        return is_killed(nursery, home, ("import", "twin", archive), kill)

    def begin(home: Path) -> None:
        shutil.copytree(archive.parent / "home", home)

    for home, where in deaths(tmp_path, rng, 3 if IS_LONG else 331, begin, live):
        with nursery.serving(home):
            wait_for(lambda: read_forgetting(home / JOURNAL_FILE) is None, what="it is forgotten")  # noqa: B023
        if not has_changes(home, "twin"):
            cli_text("import", "twin", archive, home=home)
        left = [str(path) for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        assert left == [], where
        memory = (home / "groups/twin/MEMORY.md").read_text()
        assert [memory.count(f"note {number}") for number in range(4)] == [0, 1, 0, 1], f"{where}: {memory}"


def conversations(folder: Path) -> Path:
    """Write two conversations as Claude exports them."""
    told = [
        {
            "uuid": f"c{number}",
            "name": f"About {number}",
            "created_at": "2026-01-15T10:00:00Z",
            "updated_at": "2026-01-15T10:00:00Z",
            "chat_messages": [
                {
                    "uuid": f"m{turn}",
                    "sender": "human" if turn % 2 == 0 else "assistant",
                    "text": f"{number}/{turn} said",
                    "content": [{"type": "text", "text": f"{number}/{turn} said"}],
                    "created_at": "2026-01-15T10:00:00Z",
                }
                for turn in range(TURNS // 2)
            ],
        }
        for number in range(2)
    ]
    path = folder / "conversations.json"
    path.write_text(json.dumps(told))
    return path


def check_imported(home: Path, where: str) -> None:
    """See that each turn is there once and in order."""
    logs = sorted((home / "data/sessions/main").glob("*.jsonl"))
    assert len(logs) == 2, where
    for number, log in enumerate(logs):
        turns = [json.loads(line) for line in log.read_text().splitlines()]
        assert [turn["content"] for turn in turns] == [f"{number}/{turn} said" for turn in range(TURNS // 2)], where
        assert [turn["turn"] for turn in turns] == [*range(1, TURNS // 2 + 1)], where


def test_a_killed_import_continues_without_doubles(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    command = ("import", "main", conversations(tmp_path), "--from", "claude")

    def live(home: Path, kill: Kill) -> bool:
        return is_killed(nursery, home, command, kill)

    for home, where in deaths(tmp_path, rng, 1 if IS_LONG else 251, make_home, live):
        cli_text(*command, home=home)
        check_imported(home, where)


@pytest.mark.parametrize("point", POINTS[:: 1 if IS_LONG else 2])
def test_an_import_continues_after_a_kill(nursery: Nursery, tmp_path: Path, rng: random.Random, point: str) -> None:
    for passage in range(1, 7) if IS_LONG else (rng.randint(1, 5),):
        home = tmp_path / f"{point}-{passage}"
        make_home(home)
        path = conversations(home.parent)
        command = ("import", "main", path, "--from", "claude")
        with ended(nursery.start(home, _IN_PIECES, kill=Point(point, passage))) as host:
            wait_for(lambda: is_up(host, home), what="a host that serves")  # noqa: B023
            importing: Child = nursery.start(home, command=command, base=_IN_PIECES)
            assert host.wait() == -signal.SIGKILL
        with ended(importing):
            assert importing.wait() == 0, importing.tail()  # where no host is, it serves itself
        check_imported(home, f"killed at {point}, passage {passage}")
