"""`append_turns`: turns that a program may send again, whatever happened in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Conflict
from honeybadger_agent.mailbox import new_id
from tests.commands import cli_json
from tests.conftest import HostFactory
from tests.hosting import PATIENCE, HostProcess, RawSender, request, turns_of


def keyed(key: str, content: str, role: str = "user", **more: str) -> dict[str, str]:
    return {"key": key, "role": role, "content": content, **more}


def contents_of(home: Path) -> list[str]:
    return [turn["content"] for turn in turns_of(home)]


def test_a_key_is_known_after_a_kill(make_host: HostFactory, home: Path) -> None:
    host = make_host().start()
    SyncClient(home, "main", "claude", timeout_seconds=PATIENCE).append_turns([keyed("a", "Hello")])
    host.kill()
    sender = RawSender(home, sender="claude")
    payload = {"turns": [keyed("a", "Hello"), keyed("b", "Hi", "assistant")]}
    ids = [new_id() for _ in range(5)]
    for request_id in ids:  # they wait together, and come in one batch
        sender.drop(request_id, request(request_id, "append_turns", payload=payload))
    host.start()
    replies = [sender.reply(request_id) for request_id in ids]
    assert [reply["result"]["added"] for reply in replies] == [1, 0, 0, 0, 0]
    assert contents_of(home) == ["Hello", "Hi"]


def test_a_key_belongs_to_its_session(host: HostProcess, home: Path) -> None:
    for session in ("one", "two"):
        assert (
            SyncClient(home, "main", "claude", session=session, timeout_seconds=PATIENCE)
            .append_turns([keyed("a", session)])
            .added
            == 1
        )


def test_a_forgotten_turn_keeps_its_key(host: HostProcess, home: Path) -> None:
    agent = SyncClient(home, "main", "claude", timeout_seconds=PATIENCE)
    agent.append_turns([keyed("a", "My locker code is swordfish"), keyed("b", "Noted", "assistant")])
    cli_json("forget", "main", "--text", "swordfish", home=home)
    again = agent.append_turns([keyed("a", "My locker code is swordfish")])
    assert (again.added, again.known) == (0, 1)
    assert "swordfish" not in (home / "data/sessions/main/main.jsonl").read_text()


def test_times_never_go_back_nor_into_the_future(host: HostProcess, home: Path) -> None:
    agent = SyncClient(home, "main", "claude", timeout_seconds=PATIENCE)
    agent.append_turns(
        [
            keyed("a", "Hello", at="2026-01-02T10:00:00Z"),
            keyed("b", "Earlier", at="2026-01-01T10:00:00Z"),
            keyed("c", "Later", at="2999-01-01T10:00:00Z"),
        ]
    )
    first, second, third = (turn["at"] for turn in turns_of(home))
    assert first == second == "2026-01-02T10:00:00.000Z"
    assert "2026-01-02" < third < "2999"


# JSON that any parser would write in another way.
DATA = '{"type": "reasoning",  "n": 1.50, "n": 2, "t": "\\u00e9\u200b\\u0000", "deep": [[[{}]]]}'


def test_data_comes_back_exactly_and_stays_unsearched(host: HostProcess, home: Path) -> None:
    agent = SyncClient(home, "main", "claude", timeout_seconds=PATIENCE)
    turns = [keyed("a", "Hello", data=DATA), keyed("b", "Hi", "assistant", data='"quokka"'), keyed("c", "Bye")]
    assert agent.append_turns(turns).neutralised == {}
    assert agent.append_turns(turns).known == 3
    assert [(turn.key, turn.data) for turn in agent.get_turns().turns] == [("a", DATA), ("b", '"quokka"'), ("c", None)]
    assert "quokka" not in agent.get_context("quokka").system
    assert "quokka" not in agent.get_history().text
    assert not agent.search_memory("quokka").hits
    with pytest.raises(Conflict, match=r"turns.0.key: turn 2"):
        agent.append_turns([keyed("b", "Hi", "assistant", data='"other"')])


def test_turns_are_read_from_either_end_in_pages(host: HostProcess, home: Path) -> None:
    agent = SyncClient(home, "main", "claude", timeout_seconds=PATIENCE)
    agent.append_turns([keyed(str(n), f"turn {n}") for n in range(1, 121)])

    def numbers(**asked: Any) -> tuple[list[int], bool]:
        found = agent.get_turns(**asked)
        return [turn.turn for turn in found.turns], found.has_more

    assert numbers() == (list(range(1, 101)), True)
    assert numbers(after=100) == (list(range(101, 121)), False)
    assert numbers(newest_first=True, limit=2) == ([120, 119], True)
    assert numbers(newest_first=True, before=3) == ([2, 1], False)
    assert numbers(after=5, before=7) == ([6], False)
    assert numbers(after=500) == ([], False)
    first = agent.get_turns(limit=1).turns[0]
    assert (first.key, first.role, first.content, first.sender, first.by) == ("1", "user", "turn 1", "user", "claude")
    assert SyncClient(home, "main", "claude", session="other", timeout_seconds=PATIENCE).get_turns().turns == []
