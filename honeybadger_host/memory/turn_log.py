"""The log of a session: its turns, and the window over the newest of them (AM1, AB5).

The log `data/sessions/<group>/<session>.jsonl` is kept whole; the window is read from its end, so a long log costs no
more than a short one. A line that is not a turn never hides the others: it is skipped.
"""

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO

import orjson
from pydantic import Field

from honeybadger_agent.wire import MAX_NUMBER, Role
from honeybadger_host.files.safe_files import open_plain
from honeybadger_host.memory.edited import Count, Edited, Texts, Time, checked, read_json
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.text.turn import Turn

_BLOCK = 16 * 1024
_MAX_KEPT_LENGTH = 2048  # bytes of a line; a longer one is parsed each time, which takes 10 us


def lines_back(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file from the last to the first, each with the place where it begins."""
    start = size
    parts: list[bytes] = []  # of a line that begins before `start`, the last part first
    while start > 0:
        block = os.pread(fd, min(_BLOCK, start), max(0, start - _BLOCK))
        start = max(0, start - _BLOCK)
        head, *lines = block.split(b"\n")
        byte = start + len(block)
        for part in reversed(lines):
            byte -= len(part)
            parts.append(part)
            yield byte, b"".join(reversed(parts))
            byte -= 1
            parts = []
        parts.append(head)
    yield 0, b"".join(reversed(parts))


_KEYED = re.compile(rb'"key":"([^"]*)"')  # quotes within a text are escaped: only a member begins so
_IMPORTED = re.compile(rb'"request":"(import-[0-9a-f]{24})"\}\s*\Z')  # end of the line of an imported turn
_NUMBERED = re.compile(rb'{"turn":(\d{1,16}),')  # beginning of a line that the host wrote


def turns_file(group: str, session: str) -> str:
    return f"data/sessions/{group}/{session}.jsonl"


def session_of(file: str) -> str:
    """Return the session of a log of turns below the home folder; empty for any other file."""
    return file.rpartition("/")[2].removesuffix(".jsonl") if file.startswith("data/sessions/") else ""


def dump_turn(turn: Turn, request_id: str) -> bytes:
    members = {
        "turn": turn.number,
        "at": time_stamp(turn.at, "milliseconds"),
        "role": turn.role,
        "sender": turn.sender,
        "by": turn.by,
        "content": turn.content,
        "token_count": turn.token_count,
        "tools_used": turn.tools_used or None,
        "input_tokens": turn.input_tokens,
        "output_tokens": turn.output_tokens,
        "context": turn.context,
        "key": turn.key,
        "data": turn.data,
        "request": request_id,
    }
    line = {name: value for name, value in members.items() if value is not None}
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


class _Line(Edited):
    turn: Annotated[int, Field(ge=1, lt=MAX_NUMBER)]
    at: Time
    role: Role
    sender: str
    by: str
    content: str
    token_count: Count
    tools_used: Texts = ()
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    key: str | None = None


def parse_turn(line: bytes) -> Turn:
    """Return the turn of one line without its data; a time without a zone is UTC.

    Raises ValueError: names the fault.
    """
    said = checked(_Line, read_json(line))
    return Turn(
        said.turn,
        said.at,
        said.role,
        said.sender,
        said.by,
        said.content,
        said.token_count,
        said.tools_used,
        said.input_tokens,
        said.output_tokens,
        key=said.key,
    )


# Each request reads the window again, and nearly all of its lines were there before. 4 MiB at most.
_kept = lru_cache(maxsize=1024)(parse_turn)


def data_in(line: bytes) -> str | None:
    """Return the data of a turn's line as it was sent, or None if it has none, or the data was forgotten."""
    data = orjson.loads(line).get("data")
    try:
        orjson.loads(data)
    except (TypeError, ValueError):
        return None
    return str(data)


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of a log that withdraws turns before it, or restores them.

    Args:
        ranges: first and last number of each run of turns.
    """

    is_withdrawal: bool
    ranges: tuple[tuple[int, int], ...]

    def names(self, number: int) -> bool:
        """Return whether it is about a turn."""
        return any(first <= number <= last for first, last in self.ranges)


_MARKS = (b'{"withdrawn":', b'{"restored":')  # beginnings of marks' lines


def dump_mark(mark: Mark, at: datetime, by: str, request_id: str) -> bytes:
    member = "withdrawn" if mark.is_withdrawal else "restored"
    return orjson.dumps(
        {member: mark.ranges, "at": time_stamp(at, "milliseconds"), "by": by, "request": request_id},
        option=orjson.OPT_APPEND_NEWLINE,
    )


def parse_mark(line: bytes) -> Mark | None:
    """Return the mark on a line, or None if it is not a mark."""
    if not line.startswith(_MARKS):
        return None
    try:
        member, ranges = next(iter(orjson.loads(line).items()))
        return Mark(member == "withdrawn", tuple((int(first), int(last)) for first, last in ranges))
    except (ValueError, TypeError):
        return None


def is_withdrawn(number: int, marks: Sequence[Mark]) -> bool:
    """Return whether a turn is withdrawn.

    Args:
        marks: the newest first.
    """
    return next((mark.is_withdrawal for mark in marks if mark.names(number)), False)


def ranges_of(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the first and the last of each run of consecutive numbers.

    Args:
        numbers: in ascending order.
    """
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)


def _opened(path: Path) -> BinaryIO:
    """Return a log, open to read; that of an unknown session is empty. Raises OSError."""
    try:
        return open(open_plain(path)[0], "rb")
    except FileNotFoundError:
        return open(os.devnull, "rb")


@dataclass(frozen=True, slots=True)
class Window:
    """The newest turns of a session.

    Args:
        turns: oldest first, without withdrawn ones.
        last_number: number of the newest turn of the log, withdrawn or not; 0 when it has none.
        skipped: number of read lines that are not turns.
        fault: place and fault of the newest of those lines.
    """

    turns: tuple[Turn, ...]
    last_number: int
    skipped: int
    fault: str = ""


def read_window(path: Path, size: int) -> Window:
    """Return the newest `size` turns of a log; an unknown session is empty. Raises OSError."""
    with _opened(path) as file:
        turns: list[Turn] = []
        marks: list[Mark] = []
        fault = ""
        skipped = last = 0
        for byte, line in lines_back(file.fileno(), os.fstat(file.fileno()).st_size):
            if len(turns) == size:
                break
            if not line.strip():
                continue
            if (mark := parse_mark(line)) is not None:
                marks.append(mark)
                continue
            try:
                turn = _kept(line) if len(line) <= _MAX_KEPT_LENGTH else parse_turn(line)
                last = max(last, turn.number)
                if not is_withdrawn(turn.number, marks):
                    turns.append(turn)
            except ValueError as error:
                skipped += 1
                fault = fault or f"at byte {byte}: {error}"
    return Window(tuple(turns[::-1]), last, skipped, fault)


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    """A turn as its log has it."""

    turn: Turn
    line: bytes
    is_withdrawn: bool


def stored_turns(path: Path, *, after: int, before: int, newest_first: bool) -> Iterator[LoggedTurn]:
    """Yield the turns of a log between two numbers; other lines are skipped.

    Raises OSError.
    """
    with _opened(path) as file:
        lines: Iterable[bytes] = file
        marks: list[Mark] = []
        if newest_first:
            lines = (line for _, line in lines_back(file.fileno(), os.fstat(file.fileno()).st_size))
        else:
            marks = [mark for line in file if (mark := parse_mark(line)) is not None][::-1]
            file.seek(0)
        for line in lines:
            if newest_first and (mark := parse_mark(line)) is not None:
                marks.append(mark)
                continue
            numbered = _NUMBERED.match(line)  # 0.3 us; parsing takes 10
            if numbered is not None and not after < int(numbered[1]) < before:
                continue
            try:
                turn = parse_turn(line)
            except ValueError:
                continue
            if after < turn.number < before:
                yield LoggedTurn(turn, line, is_withdrawn(turn.number, marks))


def keyed_turns(path: Path, keys: Collection[str], unwritten: Sequence[bytes]) -> dict[str, Turn]:
    """Return key -> its turn with its data, for those of `keys` that a log has. It reads the whole log.

    Args:
        unwritten: lines that the log lacks.
    Raises OSError.
    """
    found: dict[str, Turn] = {}
    wanted = {key.encode() for key in keys}
    with _opened(path) as file:
        for line in chain(file, unwritten):
            keyed = _KEYED.search(line)
            if keyed is None or keyed[1] not in wanted:
                continue
            with contextlib.suppress(ValueError):  # a line that people damaged is no turn; `read_window` says so
                turn = replace(parse_turn(line), data=orjson.loads(line).get("data"))
                found[turn.key or ""] = turn
    return found


def imported_turns(path: Path, unwritten: Sequence[bytes] = ()) -> set[str]:
    """Return the ids of the turns of other programs that a log has. It reads the whole log. Raises OSError."""
    with _opened(path) as file:
        found = (_IMPORTED.search(line, len(line) - 64) for line in chain(file, unwritten))
        return {each[1].decode() for each in found if each is not None}
