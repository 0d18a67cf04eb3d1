"""File events make the host quick; the sweep makes it right: losing events costs latency, never a request."""

import contextlib
import itertools
import random
import shutil
import threading
import time
from pathlib import Path

from tests.conftest import HostFactory, MakeClient
from tests.hosting import HostProcess, RawSender, status_of, wait_for


def _ask(sender: RawSender, number: int) -> float:
    """Have a note answered; return the seconds it took."""
    began = time.monotonic()
    stem = f"{sender.sender}-{number:05}"
    sender.do(stem, content=f"{sender.sender} {number}")
    return time.monotonic() - began


def _is_gone(folder: Path) -> bool:
    """Remove a folder; the host may make a replies/ in it meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def test_events_answer_long_before_the_next_sweep(make_host: HostFactory, stranger: RawSender) -> None:
    make_host({"ipc.sweep_seconds": 60, "ops.status.STATUS_SECONDS": 0.1}).start()
    _ask(stranger, 0)
    wait_for(lambda: status_of(stranger.home).get("watcher", {}).get("is_alive"))
    for number in range(1, 9):
        _ask(stranger, number)  # it is not patient until the sweep, which comes after 240 s


def test_without_events_the_sweep_finds_everything(make_host: HostFactory, client: MakeClient) -> None:
    host = make_host({"ipc.watch": False, "ops.status.STATUS_SECONDS": 0.1}).start()
    client("first").update_memory("one")
    client("second", "garden").update_memory("two")
    client("first").append_turn("user", "three")
    assert client("first").get_history().text == "[user]: three\n"
    assert status_of(host.home)["watcher"] == {"is_alive": False, "rebuilds": 0, "folders_without_events": 0}


DYING = """
from pathlib import Path
from honeybadger_host.spool import watcher
was = watcher._Watch.on_event
def on_event(self, event):
    if event.name and event.name.startswith(b"poison"):
        raise RuntimeError("the thread dies, for a test")
    was(self, event)
watcher._Watch.on_event = on_event
import threading
threading.excepthook = lambda _: None
"""


def test_a_dead_watcher_is_replaced_and_nothing_is_lost(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host({"ops.status.STATUS_SECONDS": 0.1}, source=DYING).start()
    _ask(stranger, 0)
    wait_for(lambda: status_of(stranger.home).get("watcher", {}).get("is_alive"))
    numbers = itertools.count(1)
    for number in range(3):

        def died(number: int = number) -> bool:
            (stranger.requests / "poison").write_text("x")  # no request: its name does not end in .json
            (stranger.requests / "poison").unlink()
            _ask(stranger, next(numbers))
            return len(host.events("watch.rebuilt")) > number

        wait_for(died)
        wait_for(lambda: status_of(stranger.home)["watcher"]["is_alive"])

    def answered() -> int:
        return len([line for line in host.events("request.answered") if line["sender"] == "stranger"])

    wait_for(lambda: stranger.memory_text().count("- stranger") == answered())
    wait_for(lambda: status_of(stranger.home)["watcher"]["rebuilds"] >= 3)


def test_folders_deleted_and_remade_are_watched_again(host: HostProcess, stranger: RawSender) -> None:
    for number in range(4):
        _ask(stranger, number)
        folder = (stranger.requests, stranger.replies, stranger.root, stranger.root.parent)[number]
        wait_for(lambda folder=folder: _is_gone(folder))  # type: ignore[misc]
        stranger.make()
    _ask(stranger, 4)
    assert stranger.memory_text().count("- stranger") == 5
    assert host.log_lines()


def test_a_box_turned_upside_down_disturbs_nobody(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host({"ops.status.STATUS_SECONDS": 0.1}).start()
    honest = RawSender(stranger.home, "quiet", "honest").make()
    _ask(honest, 0)
    wait_for(lambda: status_of(stranger.home).get("watcher", {}).get("is_alive"))
    over = threading.Event()
    rng = random.Random(20_240_607)

    def upside_down() -> None:
        places = [stranger.root / name for name in ("tmp", "requests", "replies", "turns", "aside", "requests/sub")]
        while not over.is_set():
            one, other = rng.sample(places, 2)
            with contextlib.suppress(OSError):
                match rng.randrange(6):
                    case 0:
                        one.mkdir()
                    case 1:
                        one.rmdir()
                    case 2:
                        one.rename(other)
                    case 3:
                        one.symlink_to(other)
                    case 4:
                        one.unlink()
                    case 5:
                        (one / f"{rng.randrange(9)}.json").write_bytes(b"[]")

    thread = threading.Thread(target=upside_down)
    thread.start()
    try:
        took = [_ask(honest, number) for number in range(1, 100)]
    finally:
        over.set()
        thread.join()
    assert max(took) < 20
    assert host.events("watch.rebuilt") == []
    assert honest.memory_text().count("- honest") == len(took) + 1
    wait_for(lambda: status_of(stranger.home)["watcher"]["is_alive"])
    wait_for(lambda: _is_gone(stranger.root))
    stranger.make()
    _ask(stranger, 1)
