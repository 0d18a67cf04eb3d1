"""Dead letters: what is kept of a request that is none, and which give way when there are too many."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.spool import dead_letters
from honeybadger_host.spool.dead_letters import DeadLetters, find_dead, list_dead, retry_dead
from honeybadger_host.spool.inbox import Inbox
from tests.host.places import Place


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    return tmp_path / "dead"


def stems(dead: Path, sender: str) -> list[str]:
    """Return the letters of a sender; each must be whole."""
    names = sorted(os.listdir(dead / "main" / sender))
    found = [name.removesuffix(".reason.json") for name in names if name.endswith(".reason.json")]
    assert names == sorted(f"{stem}{end}" for stem in found for end in (".json", ".reason.json"))
    return found


def test_a_senders_oldest_letters_make_room(dead: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_LETTERS", 10)
    loud, quiet = (Inbox("main", sender, "/nowhere") for sender in ("loud", "quiet"))
    letters = DeadLetters(dead)
    letters.bury(quiet, "old.json", b"x", "because")
    with capture_logs() as logs:
        for number in range(11):
            letters.bury(loud, f"{number:02}.json", b"x", "because")
        assert stems(dead, "loud") == [f"{number:02}" for number in range(2, 11)]
        (dead / "main" / "loud" / "05.json").unlink()
        (dead / "main" / "loud" / "05.reason.json").unlink()
        for number in range(11, 13):  # an operator's dropped letter leaves room for another
            DeadLetters(dead).bury(loud, f"{number}.json", b"x", "because")
    assert stems(dead, "quiet") == ["old"]
    assert len(stems(dead, "loud")) == 10
    assert [(line["event"], line["sender"], line["letters"]) for line in logs] == [("dead.dropped", "loud", 2)]


def _bury(place: Place, name: str, data: bytes | None = b"bytes", why: str = "because", **more: int) -> None:
    place.dead_letters.bury(Inbox("main", "alice", "/nowhere"), name, data, why, **more)


def test_bytes_without_a_reason_are_given_one(place: Place) -> None:
    folder = place.dead / "main" / "alice"
    folder.mkdir(parents=True)
    (folder / "x.json").write_bytes(b"bytes")
    (folder / "torn.json").write_bytes(b"by")
    _bury(place, "x.json")
    assert sorted(os.listdir(folder)) == ["torn.json", "x.json", "x.reason.json"]
    _bury(place, "torn.json")
    _bury(place, "torn.json")
    assert len(place.buried()) == 2
    assert (folder / "torn.json").read_bytes() == b"by"


@pytest.mark.parametrize("name", ["x.reason.json", "x.reason.reason.json", ".reason.json", ".json"])
def test_no_dead_letter_is_taken_for_a_reason(place: Place, name: str) -> None:
    _bury(place, name, b"[]")
    _bury(place, "x.json", b"{}")
    _bury(place, "x.json", None)
    reasons = place.buried()
    assert sorted(reason["name"] for reason in reasons.values()) == sorted([name, "x.json", "x.json"])


@pytest.mark.parametrize(
    "name",
    ["𝔘" * 62, "蜂" * 83, "é" * 125, "a" * 250, "\udcff" * 250, "\n" * 250, "\u202e" * 80, "\\" * 250, "%2f" * 80],
)
def test_a_dead_letter_of_any_name_can_be_kept(place: Place, name: str) -> None:
    assert len(os.fsencode(name)) <= 250
    for data in (b"one", b"two", b"one"):
        _bury(place, name + ".json", data)
    reasons = place.buried()
    assert len(reasons) == 2
    for file, reason in reasons.items():
        assert file.isprintable()
        assert reason["name"].isprintable()


def _bury_in(home: Path, name: str, data: bytes | None = b'{"v":1}', size: int | None = None) -> None:
    letters = DeadLetters(home / "data" / "dead")
    letters.bury(Inbox("main", "alice", "/nowhere"), name, data, "because", size=size)


@pytest.fixture
def requests(home: Path) -> Path:
    """The requests folder of main/alice."""
    folder = home / "data" / "ipc" / "main" / "alice" / "requests"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", ["", "a", "main/alice/nobody", "../../etc/passwd", "main/alice/../alice/a", "main//a"])
def test_a_name_that_is_no_dead_letter_is_unknown(home: Path, name: str) -> None:
    _bury_in(home, "a.json")
    with pytest.raises(NotFound, match="dead list"):
        find_dead(home, name)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", range(1, 3))
def test_a_retry_killed_at_any_step_loses_nothing(
    home: Path, requests: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    steps = itertools.count(1)

    def killed_before(act: Callable[..., object]) -> Callable[..., object]:
        def killed(*args: object, **named: object) -> object:
            if next(steps) == step:
                raise Killed
            return act(*args, **named)

        return killed

    _bury_in(home, "a.json", b"kept")
    for where, name in ((os, "rename"), (dead_letters, "drop_dead")):
        monkeypatch.setattr(where, name, killed_before(getattr(where, name)))
    (letter,) = list_dead(home)
    with pytest.raises(Killed):
        retry_dead(home, letter)
    monkeypatch.undo()
    found = [letter.data for letter in list_dead(home)] + [path.read_bytes() for path in requests.glob("*.json")]
    assert b"kept" in found
    for letter in list_dead(home):
        if letter.data is not None:  # else its reason is left of it
            retry_dead(home, letter)
    assert (requests / "a.json").read_bytes() == b"kept"
    assert [letter.data for letter in list_dead(home)] in ([], [None])


@pytest.mark.parametrize(
    ("name", "data", "size"), [("a.json", None, None), ("no id.json", b"{}", None), ("a.json", b"{}", 100)]
)
def test_what_cannot_be_a_request_is_not_retried(
    home: Path, requests: Path, name: str, data: bytes | None, size: int | None
) -> None:
    _bury_in(home, name, data, size)
    (letter,) = list_dead(home)
    with pytest.raises(HostError, match="cannot be tried again"):
        retry_dead(home, letter)
    assert len(list(list_dead(home))) == 1
    assert os.listdir(requests) == []


@pytest.mark.parametrize("what", ["requests", "box"])
def test_a_retry_follows_no_link_of_its_sender(home: Path, requests: Path, tmp_path: Path, what: str) -> None:
    _bury_in(home, "a.json")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "requests").mkdir(parents=True)
    if what == "requests":
        requests.rmdir()
        requests.symlink_to(elsewhere / "requests")
    else:
        requests.parent.rename(tmp_path / "away")
        requests.parent.symlink_to(elsewhere)
    with pytest.raises(OSError):
        retry_dead(home, find_dead(home, "main/alice/a"))
    assert os.listdir(elsewhere / "requests") == []
    assert find_dead(home, "main/alice/a").data is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_retried_letter_belongs_to_the_boxs_owner(home: Path, requests: Path) -> None:
    os.chown(requests, 4711, -1)
    _bury_in(home, "a.json")
    retry_dead(home, find_dead(home, "main/alice/a"))
    assert (requests / "a.json").stat().st_uid == 4711


@pytest.mark.parametrize("damage", [b"", b"[]", b"not json", b"7"])
def test_a_damaged_reason_hides_no_letter(home: Path, damage: bytes) -> None:
    _bury_in(home, "a.json")
    _bury_in(home, "b.json")
    (home / "data" / "dead" / "main" / "alice" / "a.reason.json").write_bytes(damage)
    first, second = list_dead(home)
    assert "damaged" in first.reason["reason"]
    assert first.data == second.data == b'{"v":1}'
