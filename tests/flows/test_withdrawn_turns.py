"""`withdraw_turns`: the last turns are taken back everywhere but in the log, and `undo` restores them."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import NotFound
from honeybadger_agent.mailbox import new_id
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory
from tests.flows.test_export import new_home
from tests.hosting import PATIENCE, HostProcess, RawSender, request, turns_of, wait_for

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


def test_a_withdrawal_happens_once_despite_kills(make_host: HostFactory, home: Path) -> None:
    host = make_host().start()
    agent = SyncClient(home, "main", "ann", timeout_seconds=PATIENCE)
    say(agent, SAID)
    host.kill()
    sender = RawSender(home, sender="ann")
    appended = {"turns": [{"key": "k5", "role": "user", "content": "We meet in the vivarium"}]}
    asked = [
        ("append_turns", appended),
        ("withdraw_turns", {"from_turn": 4}),
        ("append_turns", {"turns": [{"key": "k6", "role": "user", "content": "We do not meet"}]}),
        ("withdraw_turns", {"from_turn": 3}),
        ("append_turns", appended),
    ]
    ids = [new_id() for _ in asked]
    for request_id, (name, payload) in zip(ids, asked, strict=True):  # they come in one batch
        sender.drop(request_id, request(request_id, name, payload=payload))
    host.start()
    results = [sender.reply(request_id)["result"] for request_id in ids]
    assert [one.get("withdrawn", one.get("turns")) for one in results] == [[5], 2, [6], 2, [5]]
    assert standing(agent) == [1, 2]
    host.kill()
    host.start()
    assert standing(agent) == [1, 2]
    assert len(turns_of(home)) == 8


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
