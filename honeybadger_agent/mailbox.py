"""The boxes of one sender: names, sortable ids, atomic publishing. Standard library only.

A mailbox is a folder `<group>/<sender>/` with `tmp/ requests/ turns/ replies/` in it (docs/protocol.md, "Boxes").
The folder determines the sender, so no file in it states an identity.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from honeybadger_agent.errors import NoMailbox

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # groups and senders; match with `fullmatch`
REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SESSION = re.compile(r"(?!\.+\Z)[A-Za-z0-9._:-]{1,100}")
GLOBAL_GROUP = "global"  # reserved: every group may read it, and nobody sends from it
# Reserved: the sender of the commands of `honeybadger-host`; its requests must belong to the host's user.
OPERATOR = "operator"

HUMAN = "human"
CONSOLIDATOR = "consolidator"
SCHEDULER = "scheduler"
# Reserved, also with capital letters: authors of changes that nobody sent, such as people's edits and the host's own.
SYSTEM_SENDERS = frozenset((HUMAN, CONSOLIDATOR, "curator", SCHEDULER))

Box = Literal["requests", "turns"]
TMP = "tmp"
REQUESTS: Final = "requests"
TURNS: Final = "turns"
REPLIES: Final = "replies"
FOLDERS = (TMP, REQUESTS, TURNS, REPLIES)


class BadName(NoMailbox, ValueError):
    """A group, a sender, a session or an id that the protocol does not allow."""


def _checked(text: str, pattern: re.Pattern[str], kind: str, rule: str) -> str:
    if not pattern.fullmatch(text):
        raise BadName(f"{kind} {text[:100]!r} is not a name: {rule}")
    return text


def checked_name(kind: str, name: str) -> str:
    """Return `name` if it may name a group or sender, else raise `BadName` with the rule."""
    example = "kitchen" if kind == "group" else "researcher"
    rule = f"1-64 characters of A-Z a-z 0-9 _ -, beginning with a letter or digit, as {example}"
    return _checked(name, NAME, kind, rule)


def is_system_sender(name: str) -> bool:
    """Return whether a name is reserved for changes that no sender asked for."""
    return name.lower() in SYSTEM_SENDERS


def checked_id(request_id: str) -> str:
    """Return `request_id` if it may name a request, else raise `BadName` with the rule."""
    rule = "1-100 characters of A-Z a-z 0-9 . _ -, beginning with a letter or digit, as note-1"
    return _checked(request_id, REQUEST_ID, "request id", rule)


def checked_session(session: str) -> str:
    """Return `session` if it may name a conversation, else raise `BadName` with the rule."""
    rule = "1-100 characters of A-Z a-z 0-9 . _ : -, not only dots (example: main)"
    return _checked(session, SESSION, "session", rule)


_id_lock = threading.Lock()
_last_stamp = 0


def new_id() -> str:
    """Return a UUIDv7 that sorts after every id this process made before (RFC 9562, method 3: 12 bits below the ms).

    The host serves a group in the order of file names, so ids of one process are served in the order they were made.
    """
    global _last_stamp
    with _id_lock:
        stamp = (time.time_ns() << 12) // 1_000_000  # milliseconds with 12 binary places
        stamp = _last_stamp = max(stamp, _last_stamp + 1)
    milliseconds, fraction = stamp >> 12, stamp & 0xFFF
    return uuid7_at(milliseconds, fraction.to_bytes(2, "big") + os.urandom(8))


def uuid7_at(milliseconds: int, rest: bytes) -> str:
    """Return the UUIDv7 of a time since the epoch.

    Args:
        rest: 10 bytes, of which 74 bits are used: the low 12 of the first two, then 62.
    """
    fraction = int.from_bytes(rest[:2], "big") & 0xFFF
    tail = int.from_bytes(rest[2:], "big") & 0x3FFF_FFFF_FFFF_FFFF
    return str(uuid.UUID(int=(milliseconds << 80) | (7 << 76) | (fraction << 64) | (2 << 62) | tail))


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One sender's folder, wherever it is mounted.

    Args:
        root: the sender's folder. In a container this is often the only thing mounted.
    """

    root: Path

    @classmethod
    def of(cls, home: str | os.PathLike[str], group: str, sender: str) -> Mailbox:
        """Return the mailbox of `sender` in `group` below a home folder. Raises `BadName`."""
        checked_name("group", group)
        checked_name("sender", sender)
        if group == GLOBAL_GROUP:
            raise BadName(f"group {GLOBAL_GROUP!r} is reserved for what every group may read; choose another")
        if is_system_sender(sender):
            raise BadName(f"sender {sender!r} is reserved for what the host itself writes down; choose another")
        return cls(Path(home) / "data" / "ipc" / group / sender)

    def create(self) -> None:
        """Make the folders that are missing (0700), parents too. In closed mode the operator has made them already.

        Raises OSError if something else has the name of a folder, or the folder above may not be written.
        """
        for name in FOLDERS:
            _make_folder(self.root / name)

    def path(self, box: str, request_id: str) -> Path:
        return self.root / box / f"{request_id}.json"

    def publish(
        self, request_id: str, data: bytes, box: Box | Literal["replies"] = REQUESTS, *, is_durable: bool = True
    ) -> None:
        """Write `data` to `tmp/`, fsync it and rename it into `box`: the host sees all of it or nothing.

        Args:
            is_durable: False: it is not synced, because it may be lost in a power cut: a query, or what is sent again.
        Raises:
            BadName: the id cannot name a request.
            OSError: nothing was published; the temporary file is gone.
        """
        checked_id(request_id)
        temporary = self.root / TMP / f"{new_id()}.tmp"  # unique: the same request may be published twice at once
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                if is_durable:
                    os.fsync(fd)
            os.rename(temporary, self.path(box, request_id))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def reply(self, request_id: str) -> bytes | None:
        """Return the bytes of the reply, or None while there is none. An existing reply is complete.

        Raises OSError if it exists and cannot be read.
        """
        return self.waiting(request_id, REPLIES)

    def discard_reply(self, request_id: str) -> None:
        """Remove a reply; if only the host may remove it, it is removed when it expires."""
        with contextlib.suppress(OSError):
            self.path(REPLIES, request_id).unlink()

    def waiting(self, request_id: str, box: str = REQUESTS) -> bytes | None:
        """Return the bytes of a request that is still in the box, or None if there is none.

        Raises OSError if it exists and cannot be read.
        """
        try:
            return self.path(box, request_id).read_bytes()
        except FileNotFoundError:
            return None

    def stream_path(self, request_id: str) -> Path:
        """Return the path of a turn's stream, which exists from the beginning of the turn until its reply."""
        return self.root / REPLIES / f"{request_id}.stream"

    def withdraw(self, request_id: str) -> bool:
        """Take back a turn that has not begun; return whether that worked. Such a turn is never answered.

        The host makes the stream before it checks for the last time whether the turn still exists: if there is no
        stream after the removal, the turn had not begun. A turn that has begun continues.
        Raises OSError if it cannot be read or removed.
        """
        if self._has_begun(request_id) or (data := self.waiting(request_id, TURNS)) is None:
            return False
        try:
            self.path(TURNS, request_id).unlink()
        except FileNotFoundError:
            return False
        if not self._has_begun(request_id):
            return True
        if not self.path(REPLIES, request_id).exists():
            self.publish(request_id, data, TURNS)
        return False

    def _has_begun(self, request_id: str) -> bool:
        return os.path.lexists(self.stream_path(request_id)) or self.path(REPLIES, request_id).exists()

    def is_waiting(self, request_id: str, box: str = REQUESTS) -> bool:
        """Return whether the request is still in the box, that is, whether no host has answered it."""
        return self.path(box, request_id).exists()


def _make_folder(path: Path) -> None:
    """Make a folder with its parents, each with mode 0700."""
    if path.is_dir():
        return
    if not path.parent.is_dir():
        _make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
