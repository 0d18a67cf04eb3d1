"""Files that change as a whole: what was acknowledged is written once, and whoever edits them wins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.errors import WorldFailed
from honeybadger_host.storage.atomic_files import ABSENT, WholeFiles, bring_up, fingerprint, make_room
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.projections import Projections

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
def test_from_any_state_it_was_in_the_file_comes_to_the_last(
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


def test_a_file_a_person_removed_stays_away_and_a_new_one_comes(tmp_path: Path) -> None:
    (tmp_path / FILE).parent.mkdir(parents=True)
    assert not bring_up(tmp_path / FILE, FILE, rows_of([b"old", b"new"]))
    assert held(tmp_path / FILE) is None
    assert bring_up(tmp_path / FILE, FILE, rows_of([None, b"new"]))
    assert held(tmp_path / FILE) == b"new"


@pytest.mark.parametrize("torn", [b"", b"n", b"ne\0\0\0", b"\0\0\0\0\0"])
def test_what_a_power_cut_left_of_a_file_is_made_whole(tmp_path: Path, torn: bytes) -> None:
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


def test_what_is_no_file_is_refused_before_anything_is_written(tmp_path: Path) -> None:
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


def projections_of(journal: Journal, changed: Callable[[str], None] = lambda file: None) -> Projections:
    home = journal.path.parent.parent
    return Projections(home, settle_seconds=2.0, count_projected=journal.count_projected, changed=changed)


def commit(journal: Journal, projections: Projections, rows: Sequence[Row], *, is_written: bool) -> None:
    batch = projections.batch(0.0)
    for row in rows:
        batch.make_room(row.file)
    journal.commit(rows, [])
    if is_written:
        batch.project(rows, 0.0)


def test_a_file_that_a_person_is_saving_in_place_is_not_taken_for_a_torn_one(tmp_path: Path) -> None:
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


def test_what_a_kill_left_of_replacing_a_file_is_removed_at_the_next_start(journal: Journal, tmp_path: Path) -> None:
    projections = projections_of(journal)
    commit(journal, projections, rows_of([None, b"one", b"two"]), is_written=False)
    file = tmp_path / FILE
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        left, kept = (file.with_name(f".{name}.{gone.pid}.tmp") for name in (file.name, "other.json"))
    put(left, b"tw")
    put(kept, b"of no file that was being written")
    projections.recover(journal.unprojected(), 0.0)
    assert held(file) == b"two"
    assert (left.exists(), kept.exists()) == (False, True)


@pytest.mark.parametrize("is_written", [True, False])
def test_after_a_kill_behind_the_commit_the_next_start_writes_it(
    journal: Journal, tmp_path: Path, is_written: bool
) -> None:
    changed: list[str] = []
    rows = rows_of([None, b"one", b"two"])
    commit(journal, projections_of(journal, changed.append), rows, is_written=is_written)
    assert changed == ([FILE] if is_written else [])
    projections = projections_of(journal)
    assert projections.recover(journal.unprojected(), 0.0) == 2
    assert held(tmp_path / FILE) == b"two"
    (tmp_path / FILE).write_bytes(b"edited")
    paths, unsettled = projections.settle(10.0)
    assert held(tmp_path / FILE) == b"edited"
    assert unsettled == {}
    assert {tmp_path / FILE, (tmp_path / FILE).parent, tmp_path / "groups"} <= set(paths)
    projections.sync(paths)


def test_a_file_that_cannot_be_written_is_behind_until_it_can(journal: Journal, tmp_path: Path) -> None:
    projections = projections_of(journal)
    commit(journal, projections, rows_of([None, b"one"]), is_written=True)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    rows = [row._replace(seq=row.seq + 1) for row in rows_of([b"one", b"two"])]
    batch = projections.batch(0.0)
    journal.commit(rows, [])
    batch.project(rows, 0.0)
    assert projections.behind == [FILE]
    (tmp_path / FILE).rmdir()
    put(tmp_path / FILE, b"one")
    projections.settle(10.0)
    assert not projections.behind
    assert held(tmp_path / FILE) == b"two"


def test_what_was_written_just_before_a_stop_is_settled_as_whoever_saves_it_has_the_last_word(
    journal: Journal, tmp_path: Path
) -> None:
    projections = projections_of(journal)
    commit(journal, projections, rows_of([None, b"one"]), is_written=True)
    assert projections.settle(1.0).unsettled == {FILE: 1}
    paths, unsettled = projections.settle(1.0, is_final=True)
    assert (tmp_path / FILE in paths, unsettled) == (True, {})


def test_no_file_has_a_fingerprint_of_its_own() -> None:
    assert fingerprint(None) == ABSENT
    assert fingerprint(b"") >= 0
    assert fingerprint(b"a") != fingerprint(b"b")
