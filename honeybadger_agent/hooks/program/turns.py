"""Turns handed over to the host: a mark for each session, batches in the inbox, and what became of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import time

from honeybadger_agent.hooks.program.box import MARKS, Box, dumped, new_id
from honeybadger_agent.hooks.program.transcripts import READERS, await_answer, turn_of, turns_of, typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_REQUEST_BYTES = 200_000  # a host takes 262,144
MAX_TURNS = 200  # turns of one request, as the protocol allows
SESSION = re.compile(r"(?!\.+\Z)[A-Za-z0-9._:-]{1,100}")
PASSING = ("rate_limited", "unavailable", "internal")  # errors after which the same request may succeed


class Mark:
    """The position up to which a session's transcript was handed over; locked, since two of its hooks may run at once.

    A torn mark counts as empty: the host knows the turns that are handed over again.
    """

    def __init__(self, box: Box, session: str) -> None:
        self.path = os.path.join(box.root, MARKS, f"{session}.json")
        self.offset = 0  # byte after the last turn that is in the inbox or was served
        self.stamp = 0  # of the newest request, so that a clock that is set back changes no order
        self.shown = 0  # turns since the session began or was compacted: those that the model still sees
        self.kept = 0.0  # when turns were handed over last, in seconds since the epoch
        self.waiting: dict[str, tuple[int, list[str]]] = {}  # request without a reply -> its offset and keys
        self.refused: list[str] = []  # keys of turns that the host refuses, e.g. for a credential
        self.nameless = False  # whether the user's name is another sender's: turns go without it
        self.asked: list[str | None] = []  # key, text and time of a prompt without a transcript that has it

    def __enter__(self) -> Mark:  # noqa: PYI034  Python 3.9 has no Self
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            value = json.loads(os.pread(self._fd, os.fstat(self._fd).st_size, 0))
            waiting = {str(name): (int(start), list(keys)) for name, (start, keys) in value["waiting"].items()}
            read = {name: type(member)(value[name]) for name, member in self.members().items()}
            vars(self).update(read, waiting=waiting)
        return self

    def members(self) -> dict[str, Any]:
        """Return what is kept in the file."""
        return {name: member for name, member in vars(self).items() if name != "path" and not name.startswith("_")}

    def __exit__(self, *_: object) -> None:
        """Save the mark, also after an error: published requests stay published."""
        try:
            self.save()
        finally:
            os.close(self._fd)

    def save(self) -> None:
        data = json.dumps(self.members()).encode()
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))


def hand_over(box: Box, tool: str, session: str, mark: Mark, event: Mapping[str, Any], meaning: str) -> None:
    """Hand over the turns since the mark, oldest first. Raises OSError."""
    settle(box, mark)
    path = event.get("transcript_path")
    if not isinstance(path, str) or not os.path.isfile(path):
        turns = iter(turns_of_events(tool, mark, event, meaning))
    else:
        mark.asked = []
        said = event.get("last_assistant_message") or event.get("prompt_response")
        if meaning == "end" and isinstance(said, str):
            await_answer(path, said)
        is_complete = not (meaning == "start" and event.get("source") == "compact")
        turns = turns_of(READERS[tool], path, mark.offset, is_complete=is_complete)
    batch: list[tuple[dict[str, Any], int]] = []
    size = 0
    for turn, end in turns:
        if turn["key"] in mark.refused:
            continue
        length = len(dumped(turn))
        if length > MAX_REQUEST_BYTES:
            whole = len(turn["content"])
            turn["content"] = f"{turn['content'][: MAX_REQUEST_BYTES // 7]}\n[cut here: {whole:,} characters in all]"
            length = len(dumped(turn))
        if batch and (size + length > MAX_REQUEST_BYTES or len(batch) == MAX_TURNS):
            send(box, session, mark, batch)
            batch, size = [], 0
        batch.append((turn, end))
        size += length
    if batch:
        send(box, session, mark, batch)


def send(box: Box, session: str, mark: Mark, batch: list[tuple[dict[str, Any], int]]) -> None:
    mark.stamp = max(time.time_ns() // 1_000, mark.stamp + 1)
    request_id = new_id(mark.stamp)
    speakers = {"assistant": box.sender}
    if not mark.nameless:
        speakers["user"] = login_name()
    turns = [{**turn, "sender": speakers.get(turn["role"])} for turn, _ in batch]
    box.publish(request_id, "append_turns", session, {"turns": turns}, is_durable=True)
    mark.waiting[request_id] = (mark.offset, [turn["key"] for turn in turns])
    mark.offset = batch[-1][1]
    mark.shown += len(batch)
    mark.kept = time.time()
    mark.save()  # now: a long transcript may take longer than the tool waits


def login_name() -> str:
    """Return the name of the current user: several people may share a home."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without an entry
        return "user"


def settle(box: Box, mark: Mark) -> None:
    """Read the replies that came. Turns of a refused request are handed over again, without the wrong one."""
    for request_id, (start, keys) in list(mark.waiting.items()):
        data = box.reply(request_id)
        if data is None:
            if not os.path.exists(box.path("requests", request_id)) and box.reply(request_id) is None:
                del mark.waiting[request_id]
                mark.offset = min(mark.offset, start)  # its reply has expired: it may have been refused
            continue
        del mark.waiting[request_id]
        error = json.loads(data).get("error")
        if error:
            mark.offset = min(mark.offset, start)
            wrong = re.fullmatch(r"payload\.turns\.(\d+)(\..*)?", str(error.get("field")))
            if wrong and wrong.group(2) == ".sender" and not mark.nameless:
                mark.nameless = True
            elif error.get("code") not in PASSING:
                one = int(wrong.group(1)) if wrong else len(keys)
                mark.refused += [keys[one]] if one < len(keys) else keys
        box.discard(request_id)


def turns_of_events(tool: str, mark: Mark, event: Mapping[str, Any], meaning: str) -> list[tuple[dict[str, Any], int]]:
    """Return the turns of a session without a transcript; a prompt waits in the mark for its answer."""
    key = event.get("turn_id") or event.get("prompt_id")
    said = event.get("last_assistant_message")
    prompt = typed(str(event.get("prompt") or ""))
    turns: list[tuple[dict[str, Any], int]] = []
    if mark.asked and (meaning != "prompt" or key != mark.asked[0]):
        turns.append((turn_of(f"{mark.asked[0]}-user", "user", str(mark.asked[1]), mark.asked[2]), 0))
        mark.asked = []
    if meaning == "prompt" and key and prompt.strip() and event.get("source", "user") in ("user", "sdk"):
        mark.asked = [str(key), prompt, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())]
    if meaning == "end" and key and isinstance(said, str) and said.strip():
        turns.append((turn_of(f"{key}-assistant", "assistant", said, None), 0))
    return turns
