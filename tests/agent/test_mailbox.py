"""Names, ids and publishing: what a mailbox promises without a host."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent.exchange import Exchange, StreamTail
from honeybadger_agent.mailbox import FOLDERS, BadName, Mailbox, new_id
from honeybadger_agent.wire import StreamLine

BAD_IDS = ["", ".", "..", ".x", "-x", "_x", "a/b", "../x", "/x", "a b", "a\n", "a\0", "é", "x" * 101]


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_what_is_sent_is_synced_unless_it_is_a_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox, synced = Mailbox(tmp_path), list[int]()
    mailbox.create()
    monkeypatch.setattr(os, "fsync", synced.append)
    for is_query in (True, False):
        Exchange(mailbox, "r1", 1.0, is_query=is_query).publish(b"{}")
        assert len(synced) == (not is_query)


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


LINES = st.builds(
    StreamLine,
    kind=st.sampled_from(["began", "text", "tool_began", "tool_ended"]),
    text=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    step=st.none() | st.integers(1, 9),
)


def dumped(line: StreamLine) -> bytes:
    return orjson.dumps(line.model_dump(exclude_none=True), option=orjson.OPT_APPEND_NEWLINE)


def text(piece: str) -> bytes:
    return dumped(StreamLine(kind="text", text=piece, step=1))


def texts(tail: StreamTail) -> list[str | None]:
    return [line.text for line in tail.read()]


@given(st.lists(st.lists(LINES | st.binary(max_size=30), max_size=6), max_size=4), st.data())
def test_a_new_stream_repeats_and_loses_no_line(attempts: list[list[StreamLine | bytes]], data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, closing(StreamTail(Path(folder) / "a.stream")) as tail:
        assert tail.read() == []
        for parts in attempts:
            fd = os.open(f"{folder}/a.stream", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            seen = []
            for part in parts:
                whole = dumped(part) if isinstance(part, StreamLine) else b"\0" + part.replace(b"\n", b"") + b"\n"
                torn = data.draw(st.integers(0, len(whole)))
                os.write(fd, whole[:torn])
                seen += tail.read()
                os.write(fd, whole[torn:])
                seen += tail.read() if data.draw(st.booleans()) else []
            os.write(fd, b'{"kind":"te' if data.draw(st.booleans()) else b"")  # a kill in the middle of a line
            os.close(fd)
            assert seen + tail.read() == [part for part in parts if isinstance(part, StreamLine)]
            os.unlink(f"{folder}/a.stream")
            assert tail.read() == []


@pytest.mark.parametrize("what", ["a link", "a FIFO", "a folder"])
def test_what_is_no_file_blocks_nobody(tmp_path: Path, what: str) -> None:
    path, other = tmp_path / "a.stream", tmp_path / "other"
    other.write_bytes(text("secret"))
    match what:
        case "a link":
            path.symlink_to(other)
        case "a FIFO":
            os.mkfifo(path)
        case _:
            path.mkdir()
    with closing(StreamTail(path)) as tail:
        assert tail.read() == []
        path.rmdir() if what == "a folder" else path.unlink()
        path.write_bytes(text("here"))
        assert texts(tail) == ["here"]
