"""Files that change as a whole: what was acknowledged is written once, and whoever edits them wins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.errors import WorldFailed
from honeybadger_host.journal.atomic_files import ABSENT, WholeFiles, bring_up, fingerprint, make_room
from honeybadger_host.journal.schema import Row

FILE = "groups/main/memory/general/k3v9x2m4q7p1.json"


def rows_of(states: Sequence[bytes | None]) -> list[Row]:
    """Return the rows that lead from the first state to the last."""
    return [
        Row(
            seq,
            1,
            "main",
            "bee",
            f"r{seq}",
            "entry" if after is not None else "entry_removed",
            FILE,
            fingerprint(before),
            after if after is not None else before or b"",
        )
        for seq, (before, after) in enumerate(pairwise(states), 1)
    ]


def put(path: Path, data: bytes | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if data is not None:
        path.write_bytes(data)


def held(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


contents = st.none() | st.sampled_from([b"one\n", b"two\n", b"two\nthree\n", b"\0\0", b""])


@given(states=st.lists(contents, min_size=2, max_size=5), reached=st.integers(0, 4))
def test_any_file_reaches_its_last_state(
    tmp_path_factory: pytest.TempPathFactory, states: list[bytes | None], reached: int
) -> None:
    path = tmp_path_factory.mktemp("home") / FILE
    put(path, states[min(reached, len(states) - 1)])
    bring_up(path, FILE, rows_of(states))
    assert held(path) == states[-1]
    assert not bring_up(path, FILE, rows_of(states))


@pytest.mark.parametrize("states", [[None, b"old", b"new"], [b"old", b"new"], [b"old", None]])
def test_an_edit_the_host_has_not_seen_stays(tmp_path: Path, states: list[bytes | None]) -> None:
    put(tmp_path / FILE, b"a person's own words")
    assert not bring_up(tmp_path / FILE, FILE, rows_of(states))
    assert held(tmp_path / FILE) == b"a person's own words"


def test_a_removed_file_stays_away_until_renewed(tmp_path: Path) -> None:
    (tmp_path / FILE).parent.mkdir(parents=True)
    assert not bring_up(tmp_path / FILE, FILE, rows_of([b"old", b"new"]))
    assert held(tmp_path / FILE) is None
    assert bring_up(tmp_path / FILE, FILE, rows_of([None, b"new"]))
    assert held(tmp_path / FILE) == b"new"


@pytest.mark.parametrize("torn", [b"", b"n", b"ne\0\0\0", b"\0\0\0\0\0"])
def test_a_file_torn_by_a_power_cut_is_completed(tmp_path: Path, torn: bytes) -> None:
    put(tmp_path / FILE, torn)
    assert bring_up(tmp_path / FILE, FILE, rows_of([b"old", b"new"]))
    assert held(tmp_path / FILE) == b"new"


def test_the_mode_an_owner_gave_a_file_stays(tmp_path: Path) -> None:
    put(tmp_path / FILE, b"old")
    (tmp_path / FILE).chmod(0o640)
    bring_up(tmp_path / FILE, FILE, rows_of([b"old", b"new"]))
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o640
    bring_up(tmp_path / "groups/main/memory/x.json", "groups/main/memory/x.json", rows_of([None, b"new"]))
    assert (tmp_path / "groups/main/memory/x.json").stat().st_mode & 0o777 == 0o600
    assert not list((tmp_path / FILE).parent.glob(".*"))


def test_an_irregular_file_is_refused_before_writing(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir(parents=True)
    with pytest.raises(WorldFailed, match="is a folder where the host needs a file: move it away"):
        make_room(tmp_path / FILE)
    with pytest.raises(WorldFailed, match="is a folder where the host needs a file"):
        bring_up(tmp_path / FILE, FILE, rows_of([None, b"new"]))
    (tmp_path / FILE).rmdir()
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(WorldFailed, match="is a FIFO where the host needs a file"):
        WholeFiles(tmp_path).load(FILE)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to("/etc/passwd")
    with pytest.raises(WorldFailed, match="is a link where the host needs a file"):
        WholeFiles(tmp_path).load(FILE)
    put(tmp_path / "groups/main/memory/file", b"a file where a folder belongs")
    with pytest.raises(WorldFailed, match="cannot write"):
        make_room(tmp_path / "groups/main/memory/file/x.json")


def test_a_save_in_place_is_not_taken_for_torn(tmp_path: Path) -> None:
    path = tmp_path / FILE
    put(path, b"one")
    with path.open("wb") as editor:
        with pytest.raises(WorldFailed, match="is being saved by another program"):
            bring_up(path, FILE, rows_of([b"one", b"two"]))
        editor.write(b"theirs")
    assert not bring_up(path, FILE, rows_of([b"one", b"two"]))
    assert held(path) == b"theirs"
    put(path, b"")  # what a power cut leaves
    assert bring_up(path, FILE, rows_of([b"one", b"two"]))
    assert held(path) == b"two"


def test_no_file_has_a_fingerprint_of_its_own() -> None:
    assert fingerprint(None) == ABSENT
    assert fingerprint(b"") >= 0
    assert fingerprint(b"a") != fingerprint(b"b")
