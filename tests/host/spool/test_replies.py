"""Replies nobody took: which go, and which stay."""

import os
import stat
import time
from pathlib import Path

import pytest

from honeybadger_host.spool import rate_limits
from tests.host.places import Place


def _age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def _expire(place: Place, watched_seconds: float = 10**6) -> int:
    return place.replies.expire(lambda seconds: seconds <= watched_seconds, time.time())


def test_old_replies_and_temporary_files_expire(place: Place, tmp_path: Path) -> None:
    root = place.sender("main", "alice", "waiting.json")
    precious = tmp_path / "precious"
    precious.write_text("x")
    for folder in ("replies", "tmp"):
        (root / folder / "old").write_text("x")
        (root / folder / "young").write_text("x")
        (root / folder / "folder").mkdir()
        (root / folder / "link").symlink_to(precious)
        for name in ("old", "folder", "link"):
            _age(root / folder / name, 4000)
    _age(root / "requests" / "waiting.json", 10**6)
    _age(precious, 10**6)
    place.sweep()
    assert _expire(place) == 2
    assert sorted(os.listdir(root / "replies")) == sorted(os.listdir(root / "tmp")) == ["folder", "link", "young"]
    assert precious.exists()
    assert os.listdir(root / "requests") == ["waiting.json"]


def test_a_stream_stays_with_its_turn_then_expires(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    root = place.sender("main", "alice")
    (root / "turns").mkdir(exist_ok=True)
    (root / "turns" / "a1.json").write_text("{}")
    for name in ("a1.stream", "a2.stream", *(f"b{number}.json" for number in range(6))):
        (root / "replies" / name).write_text("x")
        _age(root / "replies" / name, 4000)
    place.sweep()
    assert _expire(place) == 7
    assert os.listdir(root / "replies") == ["a1.stream"]
    for number in range(6):
        (root / "replies" / f"b{number}.json").write_text("x")
    (root / "replies" / ".b7.json.tmp").write_text("x")  # a reply that is being written
    monkeypatch.setattr(rate_limits, "KEPT_REPLIES", 4)
    assert _expire(place, 0) == 0
    assert place.replies.trimmed == 3
    assert {"a1.stream", ".b7.json.tmp"} <= {*os.listdir(root / "replies")}


def test_expiry_follows_no_link(place: Place, tmp_path: Path) -> None:
    root = place.sender("main", "mallory")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "old").write_text("x")
    _age(elsewhere / "old", 10**6)
    place.sweep()
    for folder in ("replies", "tmp"):
        (root / folder).rmdir()
        (root / folder).symlink_to(elsewhere)
    assert _expire(place) == 0
    assert (elsewhere / "old").exists()


def test_a_leftover_temporary_file_blocks_no_reply(place: Place) -> None:
    root = place.sender("main", "alice")
    (box,) = place.sweep()
    opened = place.open(box)
    (root / "replies" / "a.json").mkdir()
    with pytest.raises(OSError):
        opened.reply("a.json", b"in the way")
    assert len(os.listdir(root / "replies")) == 2
    (root / "replies" / "a.json").rmdir()
    opened.reply("a.json", b"now")
    opened.close()
    assert (root / "replies" / "a.json").read_bytes() == b"now"
    assert os.listdir(root / "replies") == ["a.json"]


def test_only_an_empty_folder_is_removed(place: Place) -> None:
    root = place.sender("main", "alice")
    (root / "requests" / "empty.json").mkdir()
    (root / "requests" / "full.json").mkdir()
    (root / "requests" / "full.json" / "kept").write_text("x")
    (box,) = place.sweep()
    place.take()
    opened = place.open(box)
    assert [opened.remove(name) for name in ("empty.json", "full.json", "gone.json")] == [True, False, True]
    assert os.listdir(root / "requests") == ["full.json"]
    assert os.listdir(root / "requests" / "full.json") == ["kept"]
    assert box.stuck == {"full.json"}
    (root / "requests" / "full.json" / "kept").unlink()
    assert opened.remove("full.json")
    opened.close()
    assert os.listdir(root / "requests") == []
    assert not box.stuck


def test_a_reply_that_stays_the_hosts_is_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, uid: int, gid: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    place = Place(tmp_path, senders={("main", "alice"): os.geteuid() + 1})
    root = place.sender("main", "alice")
    (box,) = place.sweep()
    opened = place.open(box)
    monkeypatch.setattr(os, "fchown", refuse)
    opened.reply("x.json", b"{}")
    opened.close()
    assert stat.S_IMODE((root / "replies" / "x.json").stat().st_mode) == 0o644
