"""Hand the turns of a transcript to the host, each once, whatever is killed when.

The inbox is the queue: a request that lies there is served when a host runs. A mark with the inbox says how far the
transcript was handed over. Killed before the mark is written, the next hook hands the same turns over again, and the
host knows their keys.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from honeybadger_agent.hooks.transcript import Said, turns_of
from honeybadger_agent.mailbox import Mailbox, new_id

FOLDER: Final = "hooks"
MAX_TURNS: Final = 200
"""Most turns of one request, as the protocol has it."""
MAX_TURN_CHARACTERS: Final = 16_000
"""A longer text is cut, and says so: it is output that somebody pasted."""
MAX_REQUEST_CHARACTERS: Final = 16_000
"""With one more turn a request stays below 256 KiB, even where each character is six bytes of JSON."""
_PASSING: Final = ("rate_limited", "unavailable", "internal")


@dataclass(slots=True)
class Mark:
    """How far a transcript was handed over.

    Args:
        offset: byte behind the last turn that lies in the inbox or was served.
        waiting: id of a request without a reply yet -> where its turns begin, and their keys.
        refused: keys of turns that the host does not take, such as one with a credential where those are refused.
    """

    offset: int = 0
    waiting: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)


def hand_over(mailbox: Mailbox, session: str, transcript: Path, *, is_complete: bool) -> list[str]:
    """Hand over what a transcript has behind its mark; return the ids of the requests, oldest first. Raises OSError.

    Args:
        is_complete: the model has finished its answer.
    """
    with _held(mailbox.root / FOLDER / f"{session}.json") as fd:
        mark = _read(fd)
        _settle(mailbox, mark)
        before = set(mark.waiting)
        batch: list[Said] = []
        for said in turns_of(transcript, mark.offset, is_complete=is_complete):
            if said.key in mark.refused:
                continue
            batch.append(said)
            characters = sum(min(len(each.content), MAX_TURN_CHARACTERS) for each in batch)
            if len(batch) == MAX_TURNS or characters >= MAX_REQUEST_CHARACTERS:
                _send(mailbox, session, mark, batch)
                batch = []
        if batch:
            _send(mailbox, session, mark, batch)
        _write(fd, mark)
        return [request_id for request_id in mark.waiting if request_id not in before]


def settle(mailbox: Mailbox, session: str) -> None:
    """Take the replies that came to a session's requests. Raises OSError."""
    with _held(mailbox.root / FOLDER / f"{session}.json") as fd:
        mark = _read(fd)
        _settle(mailbox, mark)
        _write(fd, mark)


def _settle(mailbox: Mailbox, mark: Mark) -> None:
    """Take the replies that came. What was refused is handed over again, without the turn that was wrong."""
    for request_id, (start, keys) in list(mark.waiting.items()):
        data = mailbox.reply(request_id)
        if data is None:
            if not mailbox.is_waiting(request_id) and mailbox.reply(request_id) is None:
                del mark.waiting[request_id]  # served, and its reply has expired
            continue
        del mark.waiting[request_id]
        error = json.loads(data).get("error")
        if error:
            mark.offset = min(mark.offset, start)
            if error.get("code") not in _PASSING:
                mark.refused += _wrong_ones(str(error.get("field")), keys)
        mailbox.discard_reply(request_id)


def _wrong_ones(field_name: str, keys: list[str]) -> list[str]:
    """Return the keys of the turns that a refusal names; all of them when it names none."""
    parts = field_name.split(".")
    if parts[:2] == ["payload", "turns"] and len(parts) > 2 and parts[2].isdecimal() and int(parts[2]) < len(keys):
        return [keys[int(parts[2])]]
    return keys


def _send(mailbox: Mailbox, session: str, mark: Mark, batch: list[Said]) -> None:
    turns: list[dict[str, Any]] = []
    for said in batch:
        content = said.content
        if len(content) > MAX_TURN_CHARACTERS:
            content = f"{content[:MAX_TURN_CHARACTERS]}\n[cut here: {len(said.content):,} characters in all]"
        turn = {"key": said.key, "role": said.role, "content": content}
        if said.at is not None:
            turn["at"] = said.at
        turns.append(turn)
    request_id = new_id()
    request = {"v": 1, "id": request_id, "type": "append_turns", "session": session, "payload": {"turns": turns}}
    mailbox.publish(request_id, json.dumps(request, ensure_ascii=False).encode())
    mark.waiting[request_id] = (mark.offset, [said.key for said in batch])
    mark.offset = batch[-1].end


@contextmanager
def _held(path: Path) -> Iterator[int]:
    """Give a session's mark, locked: two hooks of one session may run at the same time."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _read(fd: int) -> Mark:
    """Return a mark; an empty or torn one is a new one, since the host knows the turns that it forgot."""
    try:
        value = json.loads(os.pread(fd, os.fstat(fd).st_size, 0))
        waiting = {str(name): (int(start), list(keys)) for name, (start, keys) in value["waiting"].items()}
        return Mark(int(value["offset"]), waiting, list(value["refused"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Mark()


def _write(fd: int, mark: Mark) -> None:
    data = json.dumps(asdict(mark)).encode()
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))
