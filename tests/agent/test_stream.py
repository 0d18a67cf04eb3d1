"""The stream of an answer, read while it is written: torn lines, restarts, and what is not a stream at all."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent.exchange import StreamTail
from honeybadger_agent.wire import StreamLine

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
def test_a_restarted_stream_repeats_and_loses_no_line(
    attempts: list[list[StreamLine | bytes]], data: st.DataObject
) -> None:
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
