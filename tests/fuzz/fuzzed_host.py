"""Bytes in, reply out: the host as the daemon builds it, on a home of its own, driven by hand.

No daemon, no watcher, no other thread: what a request file's bytes do is the same each time, so a fuzzer can follow it.
"""

import os
import re
import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self, get_args

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
from honeybadger_host.spool.request import Asking

STEM: Final = "x"
GROUP: Final = "main"
SENDER: Final = "mallory"
# Requests of one home; then a new one, so that files stay small and every run is as fast as the first.
_FRESH_AFTER: Final = 400
_HEADING: Final = re.compile(rb"^## .* \(mallory, \d{4}-\d\d-\d\d \d\d:\d\d\)$", re.MULTILINE)
_MAX_ERROR_LENGTH: Final = 2_000
# What bytes alone may bring about: a bug of the host is none of it, and the world does not fail here.
_GIVEN: Final = frozenset(get_args(ErrorCode)) - {"internal", "unavailable"}


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        while (received := pipeline._receive()) is not None:
            try:
                pipeline._decide(received)
                if not all(isinstance(request.state, Asking) for request in received.requests):
                    pipeline._write(received)
            finally:
                received.close()
            for one in received.requests:
                match one.state:
                    case Asking(handler=WaitingHandler() as waiting) as asking:
                        anyio.run(pipeline._beside.wait, one, asking, waiting)
                    case Asking(handler=QueryHandler() as query) as asking:
                        pipeline._beside.answer_query(one, asking, query)
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
    payloads: list[tuple[str, dict[str, object]]] = [
        ("ping", {}),
        ("update_memory", {"content": "User prefers dark mode", "section": "Preferences"}),
        ("update_memory", {"content": "a\n## b (alice, 2026-01-01 00:00)\n- c\n```\n<!-- d"}),
        ("read_group_files", {}),
        ("append_turn", {"role": "user", "content": "hello", "sender": "Maria", "tools_used": ["search"]}),
        ("append_turn", {"role": "assistant", "content": "hi", "input_tokens": 10, "output_tokens": 2}),
        ("append_turns", {"turns": [{"key": "k1", "role": "user", "content": "hello", "at": "2026-01-01T10:00:00Z"}]}),
        ("append_turns", {"turns": [{"key": "k2", "role": "tool", "content": "call", "data": '{"a": [1.0]}'}]}),
        ("withdraw_turns", {"from_turn": 1}),
        ("get_turns", {"after": 0, "before": 9, "limit": 2, "newest_first": True, "whole": True}),
        ("get_history", {"budget_tokens": 100, "max_messages": 3}),
        ("get_context", {"message": "What do I like?", "budget_tokens": 50}),
        (
            "save_memory",
            {"content": "Tea", "category": "food", "tags": ["drink"], "metadata": {"cups": [2]}, "title": "T"},
        ),
        ("save_memory", {"content": "T", "name": "n", "replace": True, "expected_version": None}),
        ("save_memory", {"content": "U", "name": "n", "replace": True, "expected_version": "0123456789abcdef"}),
        ("get_memory", {"id": "x"}),
        ("get_memory", {"category": "general", "name": "n"}),
        ("delete_memory", {"name": "n"}),
        ("edit_memory", {"id": "x", "content": "a", "category": "b/c", "name": "d.md", "expected_version": "e"}),
        ("delete_memory", {"id": "x"}),
        ("list_memory_entries", {"category": "a", "depth": 1, "name": "d.md", "limit": 5, "offset": 1}),
        ("save_memory", {"content": '{"a": 1}', "category": "store/a", "name": "n", "replace": True}),
        ("list_memory_entries", {"with_content": True, "where": {"content.a": {"$gte": 1}, "metadata.b": None}}),
        (
            "change_many",
            {
                "operations": [
                    {"type": "save_memory", "payload": {"content": "a", "name": "m", "replace": True}},
                    {"type": "delete_memory", "payload": {"name": "m"}},
                ]
            },
        ),
        ("list_memory_categories", {}),
        (
            "search_memory",
            {"query": "tea", "tags": ["drink"], "since": "2026-01-01T00:00:00Z", "limit": 3, "scope": "all"},
        ),
        ("save_to_working_memory", {"key": "k", "data": "d", "ttl_minutes": 1.5, "category": "c", "tags": ["t"]}),
        ("get_from_working_memory", {"key": "k"}),
        ("search_working_memory", {"query": "d", "category": "c"}),
        ("list_working_memory", {}),
        ("preview_context", {"message": "tea"}),
        ("stop_turn", {"turn": "t1"}),
        ("undo", {"seq": 1}),
        ("load_session", {}),
        ("update_session", {"system_state": {"a": {"b": [1]}}, "add_facts": ["f"], "long_term_summary": "s"}),
        ("compact_session", {}),
        ("delete_session", {"expected_version": "1"}),
        ("list_sessions", {"limit": 3, "offset": 0}),
        ("send_message", {"content": "It is done", "to": ["ann"]}),
        ("get_messages", {"after": 0, "limit": 3}),
        ("delegate_to_agent", {"agent": "cook", "task": "a menu", "context": "for six", "timeout_seconds": 1}),
        ("list_available_agents", {}),
        ("record_feedback", {"kind": "correction", "content": "no", "turn": 1}),
        (
            "schedule_task",
            {
                "name": "News",
                "description": "read them",
                "schedule_type": "cron",
                "run_at": None,
                "interval_seconds": None,
                "cron_expression": "0 9 * * *",
                "time_zone": "Europe/Berlin",
                "agent": "assistant",
                "session": "main",
                "context_mode": "group",
                "missed": "latest",
                "grace_seconds": 60,
                "only_if": "new_turns",
                "deliver": "when_said",
            },
        ),
        ("pause_task", {"task": "news-1", "why": "quiet"}),
        ("resume_task", {"task": "news-1"}),
        ("run_task", {"task": "news-1"}),
        ("list_tasks", {"task": "news-1"}),
        ("cancel_task", {"task": "news-1"}),
        ("list_groups", {"named": "ma", "limit": 3, "offset": 0}),
        ("list_proposals", {"proposal": "dream-1", "every": True, "limit": 3}),
        ("decide_proposal", {"proposal": "dream-1", "decision": "accept", "operations": [1], "result": "x"}),
        ("consolidate", {}),
        ("dream", {"dry_run": True}),
        ("rewind", {"to": "1", "dry_run": True}),
        ("edit_note", {"id": "MEMORY.md#4f0c21", "content": "x"}),
        ("archive_memory", {"id": "MEMORY.md#4f0c21"}),
        ("forget", {"text": "Ramipril", "dry_run": True}),
        (
            "import_records",
            {
                "turns": [{"id": f"import-{7:024}", "role": "user", "content": "hi", "at": "2020-01-01T00:00:00Z"}],
                "entries": [{"id": "e1", "content": "x", "category": "imported", "origin_from": "a.md"}],
                "by": "anna",
            },
        ),
    ]
    envelope = {"v": 1, "id": STEM, "session": "main", "sent_at": "2026-11-21T06:00:00Z", "group": GROUP}
    return [orjson.dumps({**envelope, "type": name, "payload": payload}) for name, payload in payloads]
