"""The sender's folder, in which a hook asks the host."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time

from honeybadger_agent.hooks.program.settings import HOME_MARKS, Refused, group_of, has_host, home_of, settings_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

ANSWER_SECONDS = 1.5  # how long the host may take: a person waits for the prompt
HEARTBEAT = "heartbeat"
MARKS = "hooks"  # folder in the inbox

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
RESERVED = ("global", "human", "consolidator", "curator", "scheduler", "operator")


class Box:
    """The sender's folder in the group of the current repository. Raises Refused, OSError."""

    def __init__(self, tool: str, folder: str) -> None:
        chosen = settings_of(tool)
        self.sender = sender = chosen.get("sender") or tool
        self.group = group_of(folder, chosen.get("group") or "main")
        self.home, self.root = "", os.environ.get("HONEYBADGER_BOX", "")
        for kind, name in (("group", self.group), ("sender", sender)):
            if not NAME.fullmatch(name) or name.lower() in RESERVED:
                raise Refused(f"{kind} {name!r} cannot be a {kind}'s name: nothing was kept or recalled")
        if not self.root:
            self.home = home_of(chosen)
            self.root = os.path.join(self.home, "data", "ipc", self.group, sender)
        is_home = any(os.path.isfile(os.path.join(self.home, name)) for name in HOME_MARKS)
        if not os.path.isdir(self.path("requests")) and self.home and not is_home:
            raise Refused(f"{self.home} is not a Honeybadger home: `honeybadger-host init` makes one")
        for box in ("tmp", "requests", "turns", "replies", MARKS):
            os.makedirs(self.path(box), exist_ok=True)
        with open(os.path.join(self.root, MARKS, HEARTBEAT), "ab") as heartbeat:
            os.utime(heartbeat.fileno())

    def path(self, box: str, request_id: str = "") -> str:
        return os.path.join(self.root, box, f"{request_id}.json" if request_id else "")

    def publish(
        self, request_id: str, type_name: str, session: str, payload: Mapping[str, Any], *, is_durable: bool
    ) -> None:
        """Write a request to `tmp/` and rename it: the host sees all of it or nothing. Raises OSError."""
        request = {"v": 1, "id": request_id, "type": type_name, "session": session, "payload": payload}
        temporary = os.path.join(self.root, "tmp", f"{request_id}.{os.getpid()}")
        try:
            with open(temporary, "xb") as file:
                file.write(dumped(request))
                file.flush()
                if is_durable:
                    os.fsync(file.fileno())
            os.rename(temporary, self.path("requests", request_id))
        except OSError:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise

    def reply(self, request_id: str) -> bytes | None:
        try:
            with open(self.path("replies", request_id), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def discard(self, request_id: str) -> None:
        """Remove a reply; if only the host may remove it, it is removed when it expires."""
        with contextlib.suppress(OSError):
            os.unlink(self.path("replies", request_id))

    def ask(self, type_name: str, session: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a query; empty if no host answers in time. Raises OSError."""
        if self.home and has_host(self.home) is False:
            complain(f"no host serves {self.home}: nothing was recalled. Start it: honeybadger-host run")
            return {}
        request_id = new_id(time.time_ns() // 1_000)
        self.publish(request_id, type_name, session, payload, is_durable=False)
        if not within(lambda: self.reply(request_id) is not None):
            complain(f"no host answered within {ANSWER_SECONDS:g} s: nothing was recalled")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path("requests", request_id))
            return {}
        reply = json.loads(self.reply(request_id) or b"{}")
        self.discard(request_id)
        if not reply.get("ok"):
            complain(f"nothing was recalled: {(reply.get('error') or {}).get('message')}")
        result: dict[str, Any] = reply.get("result") or {}
        return result


def new_id(microseconds: int) -> str:
    """Return a UUIDv7 of a time since the epoch: the host serves the requests of a sender in the order of their ids."""
    milliseconds, rest = divmod(microseconds, 1_000)
    random = int.from_bytes(os.urandom(8), "big")
    value = f"{milliseconds:012x}7{rest * 4:03x}{random & 0x3FFF_FFFF_FFFF_FFFF | 1 << 63:016x}"
    return f"{value[:8]}-{value[8:12]}-{value[12:16]}-{value[16:20]}-{value[20:]}"


def dumped(value: object) -> bytes:
    """Return a value as JSON; half surrogate pairs, which no host takes, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def within(is_so: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within `ANSWER_SECONDS`."""
    deadline, pause = time.monotonic() + ANSWER_SECONDS, 0.001
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    return True


def complain(text: str) -> None:
    sys.stderr.write(f"honeybadger: {text}\n")
