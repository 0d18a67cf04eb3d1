"""`append_turns`, which a program may send again, and `withdraw_turns`, which takes them back but for the log."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Conflict, NotFound
from honeybadger_agent.mailbox import new_id
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import MakeClient
from tests.flows.test_export import new_home
from tests.hosting import AT_ONCE, PATIENCE, HostProcess, RawSender, request, turns_of, wait_for

SERVED_WITH = AT_ONCE  # else `forget` waits for seconds until the notes have settled


def keyed(key: str, content: str, role: str = "user", **more: str) -> dict[str, str]:
    return {"key": key, "role": role, "content": content, **more}


def test_a_key_is_known_after_a_kill(served: HostProcess, asker: RawSender, member: MakeClient) -> None:
    member("asker").append_turns([keyed("a", "Hello")])
    assert member("asker", session="other").append_turns([keyed("a", "Hello")]).added == 1  # a key is of its session
    served.kill()
    payload = {"turns": [keyed("a", "Hello"), keyed("b", "Hi", "assistant")]}
    ids = [new_id() for _ in range(5)]
    for request_id in ids:  # they wait together, and come in one batch
        asker.drop(request_id, request(request_id, "append_turns", payload=payload))
    served.start()
    replies = [asker.reply(request_id) for request_id in ids]
    assert [reply["result"]["added"] for reply in replies] == [1, 0, 0, 0, 0]
    assert [turn["content"] for turn in turns_of(asker.home, group=asker.group)] == ["Hello", "Hi"]


def test_a_forgotten_turn_keeps_its_key(asker: RawSender, member: MakeClient) -> None:
    agent = member()
    agent.append_turns([keyed("a", "My locker code is swordfish"), keyed("b", "Noted", "assistant")])
    cli_json("forget", asker.group, "--text", "swordfish", home=asker.home)
    again = agent.append_turns([keyed("a", "My locker code is swordfish")])
    assert (again.added, again.known) == (0, 1)
    assert "swordfish" not in (asker.home / f"data/sessions/{asker.group}/main.jsonl").read_text()


# JSON that any parser would write in another way.
DATA = '{"type": "reasoning",  "n": 1.50, "n": 2, "t": "\\u00e9\u200b\\u0000", "deep": [[[{}]]]}'


def test_data_comes_back_exactly_and_stays_unsearched(member: MakeClient) -> None:
    agent = member()
    turns = [keyed("a", "Hello", data=DATA), keyed("b", "Hi", "assistant", data='"quokka"'), keyed("c", "Bye")]
    assert agent.append_turns(turns).neutralised == {}
    assert agent.append_turns(turns).known == 3
    assert [(turn.key, turn.data) for turn in agent.get_turns().turns] == [("a", DATA), ("b", '"quokka"'), ("c", None)]
    assert "quokka" not in agent.get_context("quokka").system
    assert "quokka" not in agent.get_history().text
    assert not agent.search_memory("quokka").hits
    with pytest.raises(Conflict, match=r"turns.0.key: turn 2"):
        agent.append_turns([keyed("b", "Hi", "assistant", data='"other"')])


def test_turns_are_read_from_either_end_in_pages(member: MakeClient) -> None:
    agent = member("claude")
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
    assert member("claude", session="other").get_turns().turns == []


SAID = ["We meet in the aviary", "Noted", "We meet in the terrarium", "Noted, too"]


def say(agent: SyncClient, said: list[str], first: int = 1) -> None:
    agent.append_turns([keyed(f"k{n}", text, "user" if n % 2 else "assistant") for n, text in enumerate(said, first)])


def standing(agent: SyncClient) -> list[int]:
    numbers = [turn.turn for turn in agent.get_turns().turns]
    assert numbers[::-1] == [turn.turn for turn in agent.get_turns(newest_first=True).turns]
    assert numbers == [message.turn for message in agent.get_history(budget_tokens=0).messages]
    assert len(numbers) == len(agent.load_session().recent_history)
    return numbers


def withdrawal(home: Path, group: str) -> str:
    return str(cli_json("log", group, "--kind", "turns_withdrawn", home=home)[0]["seq"])


def test_withdrawn_turns_are_only_in_the_log(served: HostProcess, asker: RawSender, member: MakeClient) -> None:
    home, group, agent = asker.home, asker.group, member()
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
            served.kill()
            served.start()
    whole = agent.get_turns(whole=True).turns
    assert [(one.content, one.withdrawn) for one in whole] == list(zip(SAID, [False, False, True, True], strict=True))
    lines = (home / f"data/sessions/{group}/main.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["content"] for line in lines[:4]] == SAID
    assert orjson.loads(lines[4])["withdrawn"] == [[3, 4]]
    assert "turns 3-4" in cli_text("log", group, home=home)
    acknowledged = int(withdrawal(home, group)) + 1  # the session's document is written with the mark
    assert "terrarium" not in cli_text("undo", acknowledged, home=home)
    assert standing(agent) == [1, 2, 3, 4]
    assert [entry.content for entry in agent.load_session().recent_history] == SAID
    assert agent.search_memory("terrarium").hits[0].id == "main#3"
    cli_error("undo", withdrawal(home, group), home=home)
    (restored,) = cli_json("log", group, "--kind", "turns_restored", home=home)
    cli_json("undo", restored["seq"] + 1, home=home)
    assert standing(agent) == [1, 2]
    assert not agent.search_memory("terrarium").hits


def test_later_turns_continue_after_a_withdrawal(asker: RawSender, member: MakeClient) -> None:
    agent = member()
    say(agent, SAID)
    agent.withdraw_turns(4)
    say(agent, ["We meet in the vivarium"], first=5)
    assert standing(agent) == [1, 2, 3, 5]
    assert agent.withdraw_turns(2).withdrawn == 3
    assert agent.withdraw_turns(2).withdrawn == 0
    assert standing(agent) == [1]
    cli_json("undo", withdrawal(asker.home, asker.group), home=asker.home)
    assert standing(agent) == [1, 2, 3, 5], "what was withdrawn before stays withdrawn"
    again = agent.append_turns([{"key": "k4", "role": "assistant", "content": SAID[3]}])
    assert (again.known, again.turns) == (1, [4]), "a withdrawn turn keeps its key"
    with pytest.raises(NotFound, match="nothing was said in it"):
        member(session="other").withdraw_turns(1)


def test_a_repeated_withdrawal_of_nothing_takes_no_later_turn(asker: RawSender, member: MakeClient) -> None:
    agent = member()
    say(agent, SAID[:3])
    agent.withdraw_turns(2)
    sent = request("again", "withdraw_turns", payload={"from_turn": 3})
    assert asker.ask("again", sent)["result"]["withdrawn"] == 0
    say(agent, SAID[3:], first=4)
    assert asker.ask("again", sent)["result"]["withdrawn"] == 0
    assert standing(agent) == [1, 4]


def test_withdrawn_turns_are_exported_but_not_as_markdown(asker: RawSender, member: MakeClient, tmp_path: Path) -> None:
    home, group, agent = asker.home, asker.group, member()
    said = [text.replace("terr", "sol") for text in SAID]  # nothing of it may be in another group
    say(agent, said)
    agent.withdraw_turns(3)
    cli_text("export", group, "--to", tmp_path / "main.tar.gz", home=home)
    cli_text("export", group, "--markdown", "--to", tmp_path / "pages", home=home)
    pages = "".join(path.read_text() for path in (tmp_path / "pages").rglob("*.md"))
    assert ("aviary" in pages, "solarium" in pages) == (True, False)
    cli_json("forget", group, "--text", "solarium", home=home)
    assert b"solarium" not in (home / f"data/sessions/{group}/main.jsonl").read_bytes()
    assert agent.append_turns([{"key": "k3", "role": "user", "content": said[2]}]).known == 1
    assert standing(agent) == [1, 2]
    other = new_home(tmp_path / "other")
    cli_text("import", "main", tmp_path / "main.tar.gz", home=other)
    with HostProcess(other) as elsewhere:
        elsewhere.start()
        there = SyncClient(other, "main", "ann", timeout_seconds=PATIENCE)
        assert standing(there) == [1, 2]
        wait_for(lambda: there.search_memory("aviary").hits, what="the index")
        assert not there.search_memory("solarium").hits
        cli_json("undo", withdrawal(other, "main"), home=other)
        assert standing(there) == [1, 2, 3, 4]
