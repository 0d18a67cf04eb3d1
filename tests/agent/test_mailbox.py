"""Names, ids and publishing: what a mailbox promises without a host."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from honeybadger_agent.mailbox import FOLDERS, BadName, Mailbox, new_id

BAD_IDS = ["", ".", "..", ".x", "-x", "_x", "a/b", "../x", "/x", "a b", "a\n", "a\0", "é", "x" * 101]


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_ids_are_unique_and_rise_in_each_thread() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: [new_id() for _ in range(10_000)], range(8)))
    assert all(ids == sorted(ids) for ids in made)
    assert len({one for ids in made for one in ids}) == 80_000


def test_ids_keep_rising_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = new_id()
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)
    later = [new_id() for _ in range(5_000)]
    assert [before, *later] == sorted([before, *later])
    assert len(set(later)) == 5_000


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "-a", "_a", "a.b", "a b", "é", "a\n", "a\0", "x" * 65])
def test_bad_names_are_refused_with_what_is_allowed(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadName, match=r"^group .* is not a name: 1-64 characters"):
        Mailbox.of(tmp_path, name, "researcher")
    with pytest.raises(BadName, match=r"^sender .* is not a name: 1-64 characters"):
        Mailbox.of(tmp_path, "main", name)
    with pytest.raises(BadName, match="'global' is reserved"):
        Mailbox.of(tmp_path, "global", "researcher")


def test_made_folders_are_closed_to_others_parents_too(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        mailbox = Mailbox.of(tmp_path / "home", "main", "researcher")
        mailbox.create()
    finally:
        os.umask(old)
    made = [mailbox.root / name for name in FOLDERS]
    made += [parent for parent in mailbox.root.parents if parent.is_relative_to(tmp_path / "home")]
    assert {path.stat().st_mode & 0o777 for path in [mailbox.root, *made]} == {0o700}


@pytest.mark.parametrize("request_id", BAD_IDS)
def test_a_bad_id_is_refused_and_nothing_is_written(mailbox: Mailbox, request_id: str) -> None:
    with pytest.raises(BadName, match="1-100 characters"):
        mailbox.publish(request_id, b"{}")
    assert [names_in(mailbox.root / name) for name in FOLDERS] == [[], [], [], []]


def test_no_reader_sees_part_of_a_request_sent_twice(mailbox: Mailbox) -> None:
    whole = {bytes([letter]) * 50_000 for letter in b"abcd"}
    done = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not done.is_set():
            for path in (mailbox.root / "requests").iterdir():
                seen.add(path.read_bytes())

    def publish(data: bytes) -> None:
        for _ in range(25):
            mailbox.publish("same", data)

    with ThreadPoolExecutor(5) as threads:
        reading = threads.submit(read)
        writing = [threads.submit(publish, data) for data in whole]
        try:
            for one in writing:
                one.result()
        finally:
            done.set()
        reading.result()
    assert seen
    assert seen <= whole
    assert names_in(mailbox.root / "tmp") == []


def test_a_turn_begun_during_its_withdrawal_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox, unlink = Mailbox(tmp_path), Path.unlink
    mailbox.create()

    def unlink_and_begin(path: Path) -> None:
        unlink(path)
        mailbox.stream_path("a").touch()

    monkeypatch.setattr(Path, "unlink", unlink_and_begin)
    mailbox.publish("a", b"{}", "turns")
    assert not mailbox.withdraw("a")
    assert mailbox.waiting("a", "turns") == b"{}"
