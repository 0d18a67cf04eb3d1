"""Dead letters as the operator handles them."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.spool.dead_letter_files import drop_dead, find_dead, list_dead, retry_dead
from honeybadger_host.spool.dead_letters import DeadLetters
from honeybadger_host.spool.inbox import Inbox
from tests.hosting import wait_for

is_root = os.geteuid() == 0


def _bury(home: Path, name: str, data: bytes | None = b'{"v":1}', size: int | None = None) -> None:
    dead_letters = DeadLetters(home / "data" / "dead")
    dead_letters.bury(Inbox("main", "alice", "/nowhere"), name, data, "because", size=size)


@pytest.fixture
def requests(home: Path) -> Path:
    """The requests folder of main/alice."""
    folder = home / "data" / "ipc" / "main" / "alice" / "requests"
    folder.mkdir(parents=True)
    return folder


def test_dead_letters_are_listed_found_and_dropped(home: Path) -> None:
    _bury(home, "b.json")
    _bury(home, "a.json", None)
    assert [(letter.name, letter.data) for letter in list_dead(home)] == [
        ("main/alice/a", None),
        ("main/alice/b", b'{"v":1}'),
    ]
    drop_dead(find_dead(home, "main/alice/b"))
    assert [letter.name for letter in list_dead(home)] == ["main/alice/a"]
    assert os.listdir(home / "data" / "dead" / "main" / "alice") == ["a.reason.json"]


@pytest.mark.parametrize("name", ["", "a", "main/alice/nobody", "../../etc/passwd", "main/alice/../alice/a", "main//a"])
def test_a_name_that_is_no_dead_letter_is_unknown(home: Path, name: str) -> None:
    _bury(home, "a.json")
    with pytest.raises(NotFound, match="dead list"):
        find_dead(home, name)


def test_a_retried_letter_returns_under_its_name(home: Path, requests: Path) -> None:
    _bury(home, "a.json", b"first")
    _bury(home, "a.json", b"second")
    for letter in list(list_dead(home)):
        retry_dead(home, letter)
        assert (requests / "a.json").read_bytes() == letter.data
    assert list(list_dead(home)) == []
    assert os.listdir(requests) == ["a.json"]


def test_a_letter_that_fails_again_at_once_is_kept(home: Path, requests: Path) -> None:
    dead_letters, inbox = DeadLetters(home / "data" / "dead"), Inbox("main", "alice", str(requests.parent))
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            with contextlib.suppress(FileNotFoundError):
                data = (requests / "a.json").read_bytes()
                dead_letters.bury(inbox, "a.json", data, "because")
                (requests / "a.json").unlink()

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        _bury(home, "a.json", b"first")
        for _ in range(300):
            retry_dead(home, find_dead(home, "main/alice/a"))
            wait_for(lambda: not os.listdir(requests), what="it was served")
            assert [letter.data for letter in list_dead(home)] == [b"first"]
    finally:
        is_over.set()
        serving.join()
    assert sorted(os.listdir(home / "data" / "dead" / "main" / "alice")) == ["a.json", "a.reason.json"]


@pytest.mark.parametrize(
    ("name", "data", "size"), [("a.json", None, None), ("no id.json", b"{}", None), ("a.json", b"{}", 100)]
)
def test_what_cannot_be_a_request_is_not_retried(
    home: Path, requests: Path, name: str, data: bytes | None, size: int | None
) -> None:
    _bury(home, name, data, size)
    (letter,) = list_dead(home)
    with pytest.raises(HostError, match="cannot be tried again"):
        retry_dead(home, letter)
    assert len(list(list_dead(home))) == 1
    assert os.listdir(requests) == []


@pytest.mark.parametrize("what", ["requests", "box"])
def test_a_retry_follows_no_link_of_its_sender(home: Path, requests: Path, tmp_path: Path, what: str) -> None:
    _bury(home, "a.json")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "requests").mkdir(parents=True)
    if what == "requests":
        requests.rmdir()
        requests.symlink_to(elsewhere / "requests")
    else:
        requests.parent.rename(tmp_path / "away")
        requests.parent.symlink_to(elsewhere)
    with pytest.raises(HostError, match="cannot put main/alice/a back"):
        retry_dead(home, find_dead(home, "main/alice/a"))
    assert os.listdir(elsewhere / "requests") == []
    assert find_dead(home, "main/alice/a").data is not None


def test_a_retry_writes_nothing_into_the_senders_tmp(home: Path, requests: Path) -> None:
    tmp = requests.parent / "tmp"
    tmp.symlink_to("/nowhere")
    _bury(home, "a.json")
    retry_dead(home, find_dead(home, "main/alice/a"))
    assert os.listdir(requests) == ["a.json"]


@pytest.mark.skipif(not is_root, reason="only root can give a file away")
def test_a_retried_letter_belongs_to_the_boxs_owner(home: Path, requests: Path) -> None:
    os.chown(requests, 4711, -1)
    _bury(home, "a.json")
    retry_dead(home, find_dead(home, "main/alice/a"))
    assert (requests / "a.json").stat().st_uid == 4711


@pytest.mark.parametrize("damage", [b"", b"[]", b"not json", b"7"])
def test_a_damaged_reason_hides_no_letter(home: Path, damage: bytes) -> None:
    _bury(home, "a.json")
    _bury(home, "b.json")
    (home / "data" / "dead" / "main" / "alice" / "a.reason.json").write_bytes(damage)
    first, second = list_dead(home)
    assert "damaged" in first.reason["reason"]
    assert first.data == second.data == b'{"v":1}'
