"""A backup that is taken while agents write: what is restored from it has everything once."""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from honeybadger_agent import new_id
from honeybadger_host.journal.opening import read_position
from honeybadger_host.ops.archive import unpack
from tests.commands import cli_error
from tests.conftest import HostFactory, MakeClient
from tests.hosting import HostProcess, RawSender, request, run_cli, turns_of, wait_for


class Writer(threading.Thread):
    """Writes numbered notes or turns until it is stopped; knows which were acknowledged."""

    def __init__(self, name: str, write: Callable[[str], object]) -> None:
        super().__init__(name=name)
        self._write = write
        self._stopping = threading.Event()
        self.acknowledged: list[str] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        number = 0
        try:
            while not self._stopping.is_set():
                text = f"{self.name} says {number};"
                self._write(text)
                self.acknowledged.append(text)
                number += 1
        except BaseException as error:  # noqa: BLE001  shown by the test
            self.error = error

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        assert self.error is None, self.error


class Dropper(Writer):
    """A sender that drops without waiting for replies, a few hundred a second."""

    def __init__(self, sender: RawSender) -> None:
        super().__init__(sender.sender, self._drop)
        self.sender = sender.make()
        self.dropped: dict[str, bytes] = {}

    def _drop(self, text: str) -> None:
        self._stopping.wait(0.003)
        stem = new_id()
        data = request(stem, content=text)
        self.sender.drop(stem, data)
        self.dropped[stem] = data


@contextmanager
def writing(writers: list[Writer]) -> Iterator[None]:
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        for writer in writers:
            writer.stop()


def texts_of(home: Path) -> Counter[str]:
    """Count every note of `main` and every turn of its session."""
    lines = (home / "groups/main/MEMORY.md").read_text().splitlines()
    found = Counter(line.removeprefix("- ") for line in lines if line.endswith(";"))
    found.update(turn["content"] for turn in turns_of(home))
    return found


@pytest.mark.timeout(300)
def test_a_backup_under_load_restores_everything_acknowledged_once(
    make_host: HostFactory, home: Path, client: MakeClient, tmp_path: Path
) -> None:
    # so much to copy behind MEMORY.md and the log that the journal calls many changes projected meanwhile
    (home / "groups/zz").mkdir()
    (home / "groups/zz/pictures.bin").write_bytes(os.urandom(16 << 20))
    settings: dict[str, object] = {
        "ops.maintenance.CHECKPOINT_SECONDS": 0.1,
        "log.level": "warning",
    }
    host = make_host(settings).start()
    dropper = Dropper(RawSender(home, sender="dropper"))
    writers: list[Writer] = [
        Writer("ant", client("ant").update_memory),
        Writer("bee", client("bee").update_memory),
        Writer("cat", lambda text: client("cat").append_turn("user", text)),
        dropper,
    ]
    with writing(writers):
        wait_for(lambda: all(len(writer.acknowledged) > 20 for writer in writers), 100, what="everybody writes")
        for number in itertools.count():
            archive = tmp_path / f"backup-{number}.tar.gz"
            before = [text for writer in writers for text in writer.acknowledged]
            dropped_before = dict(dropper.dropped)
            seq_before = read_position(home / "data/journal.db")
            packed = run_cli("backup", archive, home=home)
            assert packed.returncode == 0, packed.stderr
            seq_after = read_position(home / "data/journal.db")
            (tmp_path / f"unpacked-{number}").mkdir()
            manifest = unpack(archive, tmp_path / f"unpacked-{number}")
            assert manifest.journal is not None
            if manifest.journal.seq > seq_before.committed_seq and seq_after.projected_seq > seq_before.projected_seq:
                break  # else nothing was written meanwhile, and this shows nothing
    host.stop()

    copy = tmp_path / "copy"
    restored = run_cli("restore", archive, home=copy)
    assert restored.returncode == 0, restored.stdout + restored.stderr
    again = make_host(settings, home=copy).start()
    sender = RawSender(copy, sender="dropper")
    wait_for(lambda: not os.listdir(sender.requests), 60, what="what waited is served")
    for stem, data in dropped_before.items():  # as a sender does that never saw its reply
        sender.drop(stem, data)
    wait_for(lambda: not os.listdir(sender.requests), 60, what="what was asked again is answered")
    again.stop()

    found = texts_of(copy)
    assert not {text: found[text] for text in before if found[text] != 1}
    assert not {text: count for text, count in found.items() if count != 1}
    with closing(sqlite3.connect(copy / "data/journal.db")) as journal:
        (changes,) = journal.execute("SELECT count(*) FROM changes WHERE kind IN ('note', 'turn')").fetchone()
    assert changes == len(found)


def test_a_backup_has_the_requests_nobody_has_served_yet(
    make_host: HostFactory, home: Path, stranger: RawSender, tmp_path: Path
) -> None:
    stranger.note("waits-1", "dropped before the backup")
    (stranger.requests.parent / "turns").mkdir(exist_ok=True)
    (stranger.requests.parent / "turns/t1.json").write_bytes(b"{}")
    (stranger.replies / "old.json").write_bytes(b"{}")
    (stranger.root / "tmp/half.tmp").write_bytes(b"{")
    assert run_cli("backup", tmp_path / "b.tar.gz", home=home).returncode == 0
    copy = RawSender(tmp_path / "copy")
    assert run_cli("restore", tmp_path / "b.tar.gz", home=copy.home).returncode == 0
    assert (copy.root / "turns/t1.json").read_bytes() == b"{}"
    assert os.listdir(copy.replies) == []
    assert os.listdir(copy.root / "tmp") == []
    make_host(home=copy.home).start()
    assert copy.reply("waits-1")["ok"] is True
    assert copy.memory_text().count("- dropped before the backup\n") == 1


def test_a_home_that_is_served_is_not_restored_over(host: HostProcess, home: Path, tmp_path: Path) -> None:
    assert run_cli("backup", tmp_path / "b.tar.gz", home=home).returncode == 0
    assert "is served by" in cli_error("restore", tmp_path / "b.tar.gz", "--force", home=home, code=5)
    assert sorted(os.listdir(home)) == ["config", "data", "groups"]
