"""`append_turns`, which a program may send again, and `withdraw_turns`, which takes them back but for the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Conflict, NotFound
from honeybadger_agent.mailbox import new_id
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory
from tests.flows.test_export import new_home
from tests.hosting import PATIENCE, HostProcess, RawSender, request, turns_of, wait_for


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


SAID = ["We meet in the aviary", "Noted", "We meet in the terrarium", "Noted, too"]


def say(agent: SyncClient, said: list[str], first: int = 1) -> None:
    turns = [
        {"key": f"k{n}", "role": "user" if n % 2 else "assistant", "content": text}
        for n, text in enumerate(said, first)
    ]
    agent.append_turns(turns)


def standing(agent: SyncClient) -> list[int]:
    numbers = [turn.turn for turn in agent.get_turns().turns]
    assert numbers[::-1] == [turn.turn for turn in agent.get_turns(newest_first=True).turns]
    assert numbers == [message.turn for message in agent.get_history(budget_tokens=0).messages]
    assert len(numbers) == len(agent.load_session().recent_history)
    return numbers


def withdrawal(home: Path) -> str:
    return str(cli_json("log", "main", "--kind", "turns_withdrawn", home=home)[0]["seq"])


def test_withdrawn_turns_stay_only_in_the_log_until_undone(make_host: HostFactory, home: Path) -> None:
    host = make_host().start()
    agent = SyncClient(home, "main", "ann", timeout_seconds=PATIENCE)
    say(agent, SAID)
    assert agent.search_memory("terrarium").hits
    agent.update_session(add_facts=["we meet"])  # the document's file has the turns by now
    assert agent.withdraw_turns(3).withdrawn == 2
    for again in range(2):
        assert standing(agent) == [1, 2]
        assert not agent.search_memory("terrarium").hits
        assert agent.search_memory("aviary").hits
        system = agent.get_context("Where do we meet?").system
        assert ("aviary" in system, "terrarium" in system) == (True, False)
        with pytest.raises(NotFound):
            agent.get_memory("main#3")
        if not again:
            host.kill()
            host.start()
    whole = agent.get_turns(whole=True).turns
    assert [(turn.content, turn.withdrawn) for turn in whole] == list(
        zip(SAID, [False, False, True, True], strict=True)
    )
    lines = (home / "data/sessions/main/main.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["content"] for line in lines[:4]] == SAID
    assert orjson.loads(lines[4])["withdrawn"] == [[3, 4]]
    assert "turns 3-4" in cli_text("log", "main", home=home)
    assert "terrarium" not in cli_text("undo", withdrawal(home), home=home)
    assert standing(agent) == [1, 2, 3, 4]
    assert [entry.content for entry in agent.load_session().recent_history] == SAID
    assert agent.search_memory("terrarium").hits[0].id == "main#3"
    cli_error("undo", withdrawal(home), home=home)
    (restored,) = cli_json("log", "main", "--kind", "turns_restored", home=home)
    cli_json("undo", str(restored["seq"]), home=home)
    assert standing(agent) == [1, 2]
    assert not agent.search_memory("terrarium").hits


def test_later_turns_continue_after_a_withdrawal(host: HostProcess, home: Path) -> None:
    agent = SyncClient(home, "main", "ann", timeout_seconds=PATIENCE)
    say(agent, SAID)
    agent.withdraw_turns(4)
    say(agent, ["We meet in the vivarium"], first=5)
    assert standing(agent) == [1, 2, 3, 5]
    assert agent.withdraw_turns(2).withdrawn == 3
    assert agent.withdraw_turns(2).withdrawn == 0
    assert standing(agent) == [1]
    cli_json("undo", withdrawal(home), home=home)
    assert standing(agent) == [1, 2, 3, 5], "what was withdrawn before stays withdrawn"
    again = agent.append_turns([{"key": "k4", "role": "assistant", "content": SAID[3]}])
    assert (again.known, again.turns) == (1, [4]), "a withdrawn turn keeps its key"
    with pytest.raises(NotFound, match="nothing was said in it"):
        SyncClient(home, "main", "ann", session="other", timeout_seconds=PATIENCE).withdraw_turns(1)


def test_withdrawn_turns_are_exported_forgotten_and_not_in_markdown(
    make_host: HostFactory, home: Path, tmp_path: Path
) -> None:
    host = make_host().start()
    agent = SyncClient(home, "main", "ann", timeout_seconds=PATIENCE)
    say(agent, SAID)
    agent.withdraw_turns(3)
    cli_text("export", "main", "--to", tmp_path / "main.tar.gz", home=home)
    cli_text("export", "main", "--markdown", "--to", tmp_path / "pages", home=home)
    pages = "".join(path.read_text() for path in (tmp_path / "pages").rglob("*.md"))
    assert ("aviary" in pages, "terrarium" in pages) == (True, False)
    cli_json("forget", "main", "--text", "terrarium", home=home)
    assert b"terrarium" not in (home / "data/sessions/main/main.jsonl").read_bytes()
    assert agent.append_turns([{"key": "k3", "role": "user", "content": SAID[2]}]).known == 1
    assert standing(agent) == [1, 2]
    host.stop()
    other = new_home(tmp_path / "other")
    cli_text("import", "main", tmp_path / "main.tar.gz", home=other)
    with HostProcess(other) as elsewhere:
        elsewhere.start()
        there = SyncClient(other, "main", "ann", timeout_seconds=PATIENCE)
        assert standing(there) == [1, 2]
        wait_for(lambda: there.search_memory("aviary").hits, what="the index")
        assert not there.search_memory("terrarium").hits
        cli_json("undo", withdrawal(other), home=other)
        assert standing(there) == [1, 2, 3, 4]
