"""The log of a session, and the window over its newest turns (AM1, AB5).

The log `data/sessions/<group>/<session>.jsonl` is kept whole; the window is read from its end, so a long log costs no
more than a short one. A line that is not a turn never hides the others: it is skipped, and `<session>.jsonl.set-aside`
says where it stands and what is wrong with it.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import structlog
from pydantic import Field

from honeybadger_agent.wire import Role
from honeybadger_host.domain import Turn
from honeybadger_host.memory.edited import Count, Edited, Texts, Time, checked, read_json
from honeybadger_host.storage.file_cache import trusted
from honeybadger_host.storage.files import NotRegular, Signature, closing_fd, open_plain
from honeybadger_host.storage.lines_back import LONGEST_LINE, lines_back
from honeybadger_host.text.time_stamps import time_stamp

log = structlog.get_logger()

_LONGEST_TAIL: Final = 256 * 1024 * 1024
"""How far back a window is looked for, 1 s: past that much garbage it is as good as empty."""
_MOST_SET_ASIDE: Final = 100
"""Wrong lines of one window that are described; the others are counted."""
_MOST_SHOWN: Final = 2000
"""Characters of a wrong line that its description holds; the log has all of it."""
_LAST_NUMBER: Final = 10**15
"""No turn has a higher number: those that follow it must be numbers that every JSON reader keeps."""


_NUMBERED: Final = re.compile(rb'{"turn":(\d{1,16}),')
"""How a line of the host begins."""


def turns_file(group: str, session: str) -> str:
    return f"data/sessions/{group}/{session}.jsonl"


def set_aside_file(group: str, session: str) -> str:
    """Return where the wrong lines of a log are described, below the home folder."""
    return f"{turns_file(group, session)}.set-aside"


def dump_turn(turn: Turn, request_id: str) -> bytes:
    line: dict[str, Any] = {
        "turn": turn.number,
        "at": time_stamp(turn.at, "milliseconds"),
        "role": turn.role,
        "sender": turn.sender,
        "by": turn.by,
        "content": turn.content,
        "token_count": turn.token_count,
    }
    if turn.tools_used:
        line["tools_used"] = turn.tools_used
    if turn.input_tokens is not None:
        line["input_tokens"] = turn.input_tokens
    if turn.output_tokens is not None:
        line["output_tokens"] = turn.output_tokens
    if turn.context is not None:
        line["context"] = turn.context
    if turn.key is not None:
        line["key"] = turn.key
    if turn.data is not None:
        line["data"] = turn.data
    line["request"] = request_id
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


class _Line(Edited):
    turn: Annotated[int, Field(ge=1, le=_LAST_NUMBER)]
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

    Raises ValueError: what is wrong with it.
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


def data_in(line: bytes) -> str | None:
    """Return the data of a turn's line as it came; None: it has none, or it was forgotten."""
    data = orjson.loads(line).get("data")
    try:
        orjson.loads(data)
    except (TypeError, ValueError):
        return None
    return str(data)


@dataclass(frozen=True, slots=True)
class WrongLine:
    """A line of a log that is not a turn.

    Args:
        byte: where it begins; `bytes`: how long it is.
        line: its beginning.
    """

    byte: int
    bytes: int
    why: str
    line: str


@dataclass(frozen=True, slots=True)
class Window:
    """The newest turns of a session.

    Args:
        turns: oldest first.
        last_number: number of the newest turn of the log; 0 when it has none.
        skipped: lines among those looked at that are not turns.
        signature: of the log when it was read; None when there is none.
        wrong: the newest of those lines, in their order.
    """

    turns: tuple[Turn, ...]
    last_number: int
    skipped: int
    signature: Signature | None
    wrong: tuple[WrongLine, ...] = ()


def read_window(path: Path, size: int) -> Window:
    """Return the newest `size` turns of a log; an unknown session is empty. Raises OSError."""
    seen_ns = time.time_ns()
    try:
        fd, status = open_plain(path)
    except FileNotFoundError:
        return Window((), 0, 0, None)
    except NotRegular as error:
        raise OSError(errno.EINVAL, f"it is {error}") from None
    with closing_fd(fd):
        turns: list[Turn] = []
        wrong: list[WrongLine] = []
        skipped = 0
        for byte, length, line in lines_back(fd, status.st_size):
            if len(turns) == size or status.st_size - byte > _LONGEST_TAIL:
                break
            if not line.strip():
                continue
            try:
                if length > len(line):
                    raise ValueError(f"it has {length} bytes, a turn has at most {LONGEST_LINE}")
                turns.append(parse_turn(line))
            except ValueError as error:
                skipped += 1
                if len(wrong) < _MOST_SET_ASIDE:
                    shown = line[: 4 * _MOST_SHOWN].decode(errors="replace")[:_MOST_SHOWN]
                    wrong.append(WrongLine(byte, length, str(error), shown))
    turns.reverse()
    last = max((turn.number for turn in turns), default=0)
    return Window(tuple(turns), last, skipped, trusted(Signature.of(status), seen_ns), tuple(reversed(wrong)))


@dataclass(frozen=True, slots=True)
class KeyedLine:
    """A turn of the log that has a key."""

    number: int
    role: str
    content: str
    data: str | None = None


def keyed_turns(path: Path, keys: Collection[str]) -> dict[str, KeyedLine]:
    """Return key -> its turn, for those of `keys` that a log has. It reads the whole log. Raises OSError."""
    try:
        fd, _ = open_plain(path)
    except FileNotFoundError:
        return {}
    except NotRegular as error:
        raise OSError(errno.EINVAL, f"it is {error}") from None
    found: dict[str, KeyedLine] = {}
    with open(fd, "rb") as file:
        for line in file:
            if b'"key":"' not in line:  # quotes within a text are escaped: only a member begins so
                continue
            try:
                value = orjson.loads(line)
                key = value["key"]
                if key in keys:
                    said = str(value["role"]), str(value["content"])
                    found[key] = KeyedLine(int(value["turn"]), *said, value.get("data"))
            except (ValueError, KeyError, TypeError):
                continue  # a line that people damaged; `read_window` says so
    return found


def stored_turns(path: Path, *, after: int, before: int, newest_first: bool) -> Iterator[tuple[Turn, bytes]]:
    """Yield the turns of a log between two numbers, and their lines; what is not a turn is passed over.

    Raises OSError.
    """
    try:
        fd, status = open_plain(path)
    except FileNotFoundError:
        return
    except NotRegular as error:
        raise OSError(errno.EINVAL, f"it is {error}") from None
    with open(fd, "rb") as file:
        lines = (line for _, _, line in lines_back(fd, status.st_size)) if newest_first else file
        for line in lines:
            numbered = _NUMBERED.match(line)  # 0.3 us; parsing takes 10
            if numbered is not None and not after < int(numbered[1]) < before:
                continue
            try:
                turn = parse_turn(line)
            except ValueError:
                continue
            if after < turn.number < before:
                yield turn, line
