"""A box on real folders: opened, answered, its requests removed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.host.places import Place

# ---------------------------------------------------------------------------------------------------- opening, replying


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


# ------------------------------------------------------------------------------------------------------------- removing


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
