"""A session whose files somebody damaged goes on: what is valid of its log is served, and the last good document."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Unavailable
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import Turn
from tests.commands import cli_text
from tests.conftest import HostFactory, MakeClient
from tests.hosting import status_of, wait_for

Damage = Callable[[bytes], bytes]


def with_member(name: str, value: object) -> Damage:
    """Return a damage that gives a member of the second line another value."""

    def damage(log: bytes) -> bytes:
        lines = log.splitlines(keepends=True)
        lines[1] = orjson.dumps({**orjson.loads(lines[1]), name: value}) + b"\n"
        return b"".join(lines)

    return damage


def last_line(new: bytes) -> Damage:
    return lambda log: log + new


AT = datetime(2026, 11, 20, 6, 5, 59, tzinfo=UTC)
KEEPS_ALL = ["one", "two", "three"]
LOSES_TWO = ["one", "three"]
# Each kind once: `tests/host/memory/test_turn_log.py` has more lines that are none.
DAMAGES: list[tuple[str, Damage, list[str]]] = [
    ("a torn last line", last_line(b'{"turn":4,"at":"2026-11-2'), KEEPS_ALL),
    ("binary garbage", last_line(bytes(range(256)) * 40 + b"\n"), KEEPS_ALL),
    ("zeros of a power cut", last_line(bytes(8192)), KEEPS_ALL),
    ("a line of 16 MiB", lambda log: log + b"x" * (16 << 20) + b"\n", KEEPS_ALL),
    ("invalid UTF-8", lambda log: log.replace(b'"content":"two"', b'"content":"t\xffwo"'), LOSES_TWO),
    ("an empty file", lambda log: b"", []),
    ("UTF-16", lambda log: log.decode().encode("utf-16"), []),
    ("the same turn twice", lambda log: log + log.splitlines(keepends=True)[1], [*KEEPS_ALL, "two"]),
    ("a number beyond all", with_member("turn", 2**53 - 1), LOSES_TWO),
    ("a count as text", with_member("token_count", "many"), LOSES_TWO),
    ("tools that are lists", with_member("tools_used", [["search"]]), LOSES_TWO),
    ("the last of all times", with_member("at", "9999-12-31T23:59:59-14:00"), LOSES_TWO),
    ("a member of another program", with_member("mood", {"glad": True}), KEEPS_ALL),
]


def log_of(session: str, contents: list[str]) -> bytes:
    """Return a session's log as the host writes it."""
    turns = [
        Turn(number, AT, "user", "user", "front", content, estimate_tokens(content))
        for number, content in enumerate(contents, 1)
    ]
    return b"".join(dump_turn(turn, f"{session}-{turn.number}") for turn in turns)


def said(client: SyncClient) -> list[str]:
    return [message.content for message in client.get_history(budget_tokens=0).messages]


def test_a_damaged_log_serves_what_is_valid(home: Path, make_host: HostFactory, client: MakeClient) -> None:
    logs = home / "data/sessions/main"
    logs.mkdir(parents=True)
    damaged: dict[str, bytes] = {}
    for what, damage, _ in DAMAGES:
        session = what.replace(" ", "-")
        damaged[session] = damage(log_of(session, KEEPS_ALL))
        (logs / f"{session}.jsonl").write_bytes(damaged[session])
    host = make_host({"memory.session_document_store.WRITE_OUT_SECONDS": 0.1}).start()
    for session, (_, _, kept) in zip(damaged, DAMAGES, strict=True):
        agent = client(session=session)
        assert said(agent) == kept, session
        answered = agent.append_turn("assistant", "the session goes on")
        assert answered.turn > len(set(kept)), session
        assert said(agent) == [*kept, "the session goes on"], session
        document = agent.load_session()
        assert [entry.content for entry in document.recent_history] == said(agent), session
        assert document.token_usage.by_session >= 0, session
        assert agent.update_session(add_facts=["still here"]).facts == 1, session
        agent.get_context("go on")
        now = (logs / f"{session}.jsonl").read_bytes()
        assert now.startswith(damaged[session]), f"{session}: the log lost what a person may want to mend"
    listed = agent.list_sessions(limit=200)
    assert listed.total == len(DAMAGES)
    torn = "a-torn-last-line"
    fault = f"at byte {len(log_of(torn, KEEPS_ALL))}: it is not JSON"
    told = {event["file"]: (event["lines"], event["newest"]) for event in host.events("conversation.skipped")}
    lines, newest = told[f"data/sessions/main/{torn}.jsonl"]
    assert (lines, newest[: len(fault)]) == (1, fault)
    assert fault in str(next(row.problem for row in listed.sessions if row.session == torn))
    assert agent.search_memory("session goes", scope="turns", limit=50).hits
    assert host.events("pipeline.failed") == []
    host.restart()
    for session, (_, _, kept) in zip(damaged, DAMAGES, strict=True):
        assert said(client(session=session)) == [*kept, "the session goes on"], session


def test_a_wrong_member_waits_for_whoever_mends_it(make_host: HostFactory, client: MakeClient) -> None:
    home = make_host({"ops.status.STATUS_SECONDS": 0.1}).start().home
    damages: list[dict[str, Any]] = [{"facts": ["known", 5]}, {"long_term_summary": []}, {"active_tasks": [None]}]
    for number, damage in enumerate(damages):
        agent, file = client(session=f"s{number}"), f"data/context/main/s{number}.json"
        document = home / file
        agent.append_turn("user", "Hello")
        agent.update_session(add_facts=["known"], active_tasks=[{"id": "t", "description": "Watch"}])
        edited = {**orjson.loads(document.read_bytes()), "system_state": {"edited": True}, "mine": "kept"}
        document.write_bytes(orjson.dumps({**edited, **damage}))
        assert agent.append_turn("assistant", "Hi").turn == 2
        agent.update_session(add_facts=["another"])
        loaded = agent.load_session()
        assert (loaded.facts, loaded.system_state) == (["known", "another"], {})
        assert [entry.content for entry in loaded.recent_history] == ["Hello", "Hi"]
        wait_for(lambda: file in str(status_of(home)))  # noqa: B023
        assert f"cannot be read: its last good version, if any, is served: {file}" in cli_text("status", home=home)
        with pytest.raises(Unavailable, match=f"{file} cannot be read: .* nothing was changed"):
            agent.delete_session()
        document.write_bytes(orjson.dumps(edited))
        wait_for(lambda: agent.load_session().system_state == {"edited": True})  # noqa: B023
        loaded = agent.load_session()
        assert sorted(loaded.facts) == ["another", "known"]
        assert [entry.content for entry in loaded.recent_history] == ["Hello", "Hi"]
        wait_for(lambda: orjson.loads(document.read_bytes())["facts"] == loaded.facts)  # noqa: B023
        assert orjson.loads(document.read_bytes())["mine"] == "kept"
