"""Bytes in, reply out: the host as the daemon builds it, on a home of its own, driven by hand.

No daemon, no watcher, no other thread: what a request file's bytes do is the same each time, so a fuzzer can follow it.
"""

import contextlib
import os
import re
import shutil
import time
from pathlib import Path
from typing import Self, get_args

import anyio
import orjson

from honeybadger_agent.mailbox import NAME
from honeybadger_agent.wire import ErrorCode, Reply
from honeybadger_host.compose import build
from honeybadger_host.configuration import load_settings
from honeybadger_host.files.home import make_home
from honeybadger_host.handler_kinds import QueryHandler, WaitingHandler
from honeybadger_host.ops.host import Host
from honeybadger_host.settings import Settings
from honeybadger_host.spool import request
from honeybadger_host.spool.request import Asking, RequestBatch

STEM = "x"
GROUP = "main"
SENDER = "mallory"
# Requests of one home; then a new one, so that files stay small and every run is as fast as the first.
_FRESH_AFTER = 400
_HEADING = re.compile(rb"^## .* \(mallory, \d{4}-\d\d-\d\d \d\d:\d\d\)$", re.MULTILINE)
_MAX_ERROR_LENGTH = 2_000
# What bytes alone may bring about: a bug of the host is none of it, and the world does not fail here.
_GIVEN = frozenset(get_args(ErrorCode)) - {"internal", "unavailable"}


class FuzzedHost:
    """A host that one sender asks, one request at a time.

    Args:
        folder: where homes are made; a file system in memory makes it ten times faster.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings: Settings | None = None
        self._host: Host | None = None
        self._homes = 0
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def host(self) -> Host:
        """The parts of the host, once something was asked."""
        assert self._host is not None
        return self._host

    @property
    def home(self) -> Path:
        return self._folder / f"home-{self._homes}"

    @property
    def box(self) -> Path:
        return self.home / "data" / "ipc" / GROUP / SENDER

    @property
    def memory(self) -> Path:
        return self.home / "groups" / GROUP / "MEMORY.md"

    def close(self) -> None:
        if self._host is not None:
            self._host.close()
            self._host = None
            shutil.rmtree(self.home)
            self._asked = 0

    def ask(self, data: bytes) -> bytes:
        """Return the bytes of the reply to a request file with these bytes. The file is named `x.json`.

        Raises what the host raises, and AssertionError when there is no reply or the request is still there.
        """
        if self._host is None:
            self._open()
        self._asked += 1
        path, reply = self.box / "requests" / f"{STEM}.json", self.box / "replies" / f"{STEM}.json"
        reply.unlink(missing_ok=True)
        path.write_bytes(data)
        pipeline = self.host.pipeline
        self.host.spool.mark(str(path.parent))
        while True:
            with contextlib.closing(RequestBatch()) as received:
                pipeline._receive(received)
                if not received.opened:
                    break
                pipeline._decide(received)
                if not all(isinstance(request.state, Asking) for request in received.requests):
                    pipeline._write(received)
            for one in received.requests:
                match one.state:
                    case Asking(handler=WaitingHandler() as waiting) as asking:
                        anyio.run(pipeline.unbatched.wait, one, asking, waiting)
                    case Asking(handler=QueryHandler() as query) as asking:
                        pipeline.unbatched.answer_query(one, asking, query)
        assert not os.path.lexists(path), "the request is still there"
        return reply.read_bytes()

    def forget_receipts(self) -> None:
        """Make the id free again, as a week does."""
        self.host.journal.prune_receipts(time.time_ns())

    def check(self, data: bytes) -> Reply:
        """Ask, and return the reply; fail unless all holds that any bytes at all must leave alone."""
        if self._asked >= _FRESH_AFTER:
            self.close()
        before = 0 if self._host is None else self._size()
        reply = Reply.model_validate_json(self.ask(data))
        after = self._size()
        assert (reply.v, reply.id) == (1, STEM)
        if reply.ok:
            assert reply.error is None
            assert reply.result is not None
        else:
            assert reply.error is not None
            assert reply.result is None
            assert reply.error.code in _GIVEN, reply.error
            assert reply.error.message.isprintable(), reply.error
            assert 0 < len(reply.error.message) < _MAX_ERROR_LENGTH
            assert reply.seq is None
        added = self._bytes_from(before)
        assert len(_HEADING.findall(added)) == added.count(b"\n#") == (after != before), added
        assert (reply.seq is not None) or after == before
        if reply.seq is not None:
            again = Reply.model_validate_json(self.ask(data))
            assert again == reply  # exactly once: the first reply, and nothing written
            assert self._size() == after
            self.forget_receipts()
        self._check_names()
        return reply

    def _open(self) -> None:
        self.close()
        self._homes += 1
        make_home(self.home)
        for name in ("tmp", "requests", "replies"):
            (self.box / name).mkdir(parents=True)
        if self._settings is None:
            self._settings = load_settings(self.home).settings
            request.UNFINISHED_SECONDS = 0.0
        self._host = build(self.home, self._settings)
        self._host.spool.discover()

    def _size(self) -> int:
        try:
            return self.memory.stat().st_size
        except FileNotFoundError:
            return 0

    def _bytes_from(self, offset: int) -> bytes:
        try:
            with self.memory.open("rb") as file:
                file.seek(offset)
                return file.read()
        except FileNotFoundError:
            return b""

    def _check_names(self) -> None:
        """Fail when the host made a file where no request may make one."""
        groups = [name for name in os.listdir(self.home / "groups") if name != GROUP]
        assert groups == []
        assert sorted(os.listdir(self.box / "replies")) == [f"{STEM}.json"]
        sessions = self.home / "data" / "sessions"
        if sessions.is_dir():
            assert os.listdir(sessions) == [GROUP]
            for name in os.listdir(sessions / GROUP):
                assert re.fullmatch(r"[A-Za-z0-9._:%-]{1,120}\.jsonl", name), name
        for name in os.listdir(self.home / "data" / "ipc"):
            assert NAME.fullmatch(name)


def seeds() -> list[bytes]:
    """Return requests of every kind that are good, for a fuzzer to begin with."""
    envelope = {"v": 1, "id": STEM, "session": "main", "sent_at": "2026-11-21T06:00:00Z", "group": GROUP}
    lines = Path(__file__).with_name("seeds.jsonl").read_bytes().splitlines()
    return [orjson.dumps({**envelope, **orjson.loads(line)}) for line in lines]
