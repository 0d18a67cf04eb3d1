"""What is kept of a file is trusted only while a later save would show."""

from __future__ import annotations

from pathlib import Path

import pytest

from honeybadger_host.files.file_cache import NEVER_SEEN, is_young, signature_of, trusted
from honeybadger_host.files.safe_files import Signature

TICK_NS = 20_000_000


@pytest.mark.parametrize(("mtime_ns", "ctime_ns"), [(TICK_NS, 0), (0, TICK_NS)])
def test_a_file_with_old_stamps_is_trusted(mtime_ns: int, ctime_ns: int) -> None:
    signature = Signature(1, 2, mtime_ns, ctime_ns)
    assert is_young(signature, 2 * TICK_NS - 1)
    assert trusted(signature, 2 * TICK_NS - 1) == NEVER_SEEN
    assert trusted(signature, 2 * TICK_NS) == signature


def test_a_file_that_is_not_there_is_not_young(tmp_path: Path) -> None:
    assert signature_of(tmp_path / "none") is None
    assert trusted(None, 0) is None
    (tmp_path / "one").write_bytes(b"one")
    there = signature_of(tmp_path / "one")
    assert there is not None
    assert there != NEVER_SEEN
