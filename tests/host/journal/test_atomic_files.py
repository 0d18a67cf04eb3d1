"""Files that change as a whole: what stands in their place, and what tells what they held."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from honeybadger_host.errors import WorldFailed
from honeybadger_host.journal.changes import ABSENT, fingerprint, make_room, read_whole

FILE = "groups/main/memory/general/k3v9x2m4q7p1.json"


def test_an_irregular_file_is_refused_before_writing(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir(parents=True)
    with pytest.raises(WorldFailed, match="is a folder where the host needs a file: move it away"):
        make_room(tmp_path / FILE)
    (tmp_path / FILE).rmdir()
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(WorldFailed, match="is a FIFO where the host needs a file"):
        read_whole(tmp_path / FILE)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to("/etc/passwd")
    with pytest.raises(WorldFailed, match="is a link where the host needs a file"):
        read_whole(tmp_path / FILE)
    (tmp_path / "groups/main/memory/file").write_bytes(b"a file where a folder belongs")
    with pytest.raises(WorldFailed, match="cannot write"):
        make_room(tmp_path / "groups/main/memory/file/x.json")


def test_no_file_has_a_fingerprint_of_its_own() -> None:
    assert fingerprint(None) == ABSENT
    assert fingerprint(b"") >= 0
    assert fingerprint(b"a") != fingerprint(b"b")
