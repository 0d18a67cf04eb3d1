"""The shelves on real files: what people do to them counts at once, and what has expired goes."""

from __future__ import annotations

import math
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.working_memory import Label, WorkingEntry, dump_working, session_folder, working_file
from honeybadger_host.memory.working_memory_store import WorkingMemoryStore
from honeybadger_host.storage.atomic_files import WholeFiles
from tests.host.indexes import held

NOW = datetime(2026, 11, 21, 6, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=6)


def data_of(key: str, session: str = "main", *, minutes: float = 5) -> bytes:
    expires_at = NOW + timedelta(minutes=minutes)
    return dump_working(WorkingEntry(Label(key, None, (), NOW, expires_at, "bee", 1), "x"), session, "r1")


def put(home: Path, key: str, session: str = "main", *, minutes: float = 5) -> Path:
    path = home / working_file("main", session, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data_of(key, session, minutes=minutes))
    return path


def age(path: Path) -> None:
    """Wait until the host trusts what it has read of a file."""
    while time.time_ns() - path.stat().st_ctime_ns < 25_000_000:
        time.sleep(0.005)


def keys(working_memory: WorkingMemoryStore, session: str = "main") -> list[str]:
    return sorted(label.key for label in working_memory.look("main", session).labels.values())


def test_what_a_person_adds_edits_or_deletes_counts_at_once(tmp_path: Path) -> None:
    working_memory = WorkingMemoryStore(tmp_path)
    assert keys(working_memory) == []
    path = put(tmp_path, "one")
    assert keys(working_memory) == ["one"]
    age(path)
    assert keys(working_memory) == ["one"]
    path.write_bytes(data_of("one", minutes=9))
    (label,) = working_memory.look("main", "main").labels.values()
    assert label.expires_at == NOW + timedelta(minutes=9)
    path.unlink()
    assert keys(working_memory) == []


def test_a_save_within_the_same_tick_of_the_clock_is_seen(tmp_path: Path) -> None:
    path = put(tmp_path, "one", minutes=5)
    working_memory = WorkingMemoryStore(tmp_path, wall_ns=lambda: path.stat().st_ctime_ns)
    for minutes in (6, 7, 8, 9):
        working_memory.look("main", "main")
        path.write_bytes(data_of("one", minutes=minutes))
        (label,) = working_memory.look("main", "main").labels.values()
        assert label.expires_at == NOW + timedelta(minutes=minutes)


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    age(put(tmp_path, "one"))
    working_memory = WorkingMemoryStore(tmp_path)
    assert keys(working_memory) == ["one"]
    monkeypatch.setattr("honeybadger_host.memory.working_memory_store.read_whole", None)
    assert keys(working_memory) == ["one"]


@pytest.mark.parametrize("damage", ["bytes", "copy", "link", "folder"])
def test_a_damaged_file_is_skipped_and_said_once_and_hides_no_other(tmp_path: Path, damage: str) -> None:
    put(tmp_path, "good")
    bad = put(tmp_path, "bad")
    if damage == "bytes":
        bad.write_bytes(b"{")
    elif damage == "copy":
        bad.write_bytes(data_of("good"))
    else:
        bad.unlink()
        bad.mkdir() if damage == "folder" else bad.symlink_to(tmp_path / working_file("main", "main", "good"))
    working_memory = WorkingMemoryStore(tmp_path)
    with capture_logs() as logs:
        assert keys(working_memory) == ["good"]
        assert working_memory.look("main", "main").skipped == 1
    assert [(line["event"], line["file"]) for line in logs] == [
        ("working.skipped", working_file("main", "main", "bad"))
    ]
    with pytest.raises(WorldFailed):
        working_memory.read("main", "main", "bad")
    assert [entry.label.key for entry in working_memory.read_all("main", "main", NOW)] == ["good"]


def test_a_file_in_place_of_the_folder_is_said_and_the_context_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / session_folder("main", "main")
    folder.parent.mkdir(parents=True)
    folder.write_text("")
    with pytest.raises(WorldFailed, match="cannot be read"):
        WorkingMemoryStore(tmp_path).look("main", "main")
    with capture_logs() as logs:
        assert "cannot be read" in (WorkingMemoryStore(tmp_path).inventory("main", "main", NOW).problem or "")
    assert [line["event"] for line in logs] == ["working.refused"]


def test_many_sessions_fill_no_memory(tmp_path: Path) -> None:
    working_memory = WorkingMemoryStore(tmp_path)
    held_before = held(Label)
    for number in range(300):
        put(tmp_path, "x", f"s{number}")
        assert keys(working_memory, f"s{number}") == ["x"]
    assert held(Label) - held_before == 256


# ------------------------------------------------------------------------------------------------------------ sweeping


def swept(
    home: Path,
    now: datetime,
    *,
    behind: tuple[str, ...] = (),
    whole_files: WholeFiles | None = None,
    watched_seconds: float = math.inf,
) -> int:
    working_memory = WorkingMemoryStore(home)

    def was_watched_for(seconds: float) -> bool:
        return seconds <= watched_seconds

    due = working_memory.expired(now, was_watched_for)
    return working_memory.sweep(due, whole_files or WholeFiles(home), behind, now, was_watched_for)


def test_what_has_expired_is_removed_with_its_folder_and_the_rest_stays(tmp_path: Path) -> None:
    gone, kept = put(tmp_path, "gone"), put(tmp_path, "kept", minutes=60)
    alone = put(tmp_path, "alone", "other")
    assert swept(tmp_path, NOW) == 0
    assert swept(tmp_path, LATER) == 2
    assert (gone.exists(), kept.exists(), alone.parent.exists()) == (False, True, False)


def test_what_is_no_entry_stays_and_what_a_killed_host_left_half_written_goes(tmp_path: Path) -> None:
    bad = put(tmp_path, "bad")
    bad.write_bytes(b"{")
    temporary = bad.with_name(".one.json.77.tmp")
    temporary.write_bytes(b"half")
    assert swept(tmp_path, LATER) == 0
    assert (bad.exists(), temporary.exists()) == (True, False)


@pytest.mark.parametrize("clock", [timedelta(days=365), timedelta(days=-365)])
def test_what_only_a_set_clock_makes_expire_stays_until_its_life_is_over_by_any_clock(
    tmp_path: Path, clock: timedelta
) -> None:
    path = put(tmp_path, "one", minutes=5)
    assert swept(tmp_path, NOW + clock, watched_seconds=299) == 0
    assert path.exists()
    assert WorkingMemoryStore(tmp_path).read_all("main", "main", NOW + clock) == []
    assert len(WorkingMemoryStore(tmp_path).read_all("main", "main", NOW)) == 1
    assert swept(tmp_path, NOW + clock, watched_seconds=300) == 1
    assert not path.exists()


def test_what_a_decision_has_seen_or_the_journal_has_not_written_is_not_swept(tmp_path: Path) -> None:
    path = put(tmp_path, "one")
    file = working_file("main", "main", "one")
    files = WholeFiles(tmp_path)
    files.load(file)
    assert swept(tmp_path, LATER, whole_files=files) == 0
    files.end_batch(())
    assert swept(tmp_path, LATER, whole_files=files, behind=(file,)) == 0
    assert path.exists()
    assert swept(tmp_path, LATER, whole_files=files) == 1


def test_a_save_between_the_look_and_the_sweep_is_not_removed(tmp_path: Path) -> None:
    path = put(tmp_path, "one")
    working_memory = WorkingMemoryStore(tmp_path)
    due = working_memory.expired(LATER, lambda seconds: True)
    put(tmp_path, "one", minutes=60)
    assert working_memory.sweep(due, WholeFiles(tmp_path), (), LATER, lambda seconds: True) == 0
    assert path.exists()
    assert os.listdir(path.parent) == ["one.json"]
