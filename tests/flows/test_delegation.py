"""A router and its specialists on a real host: each task is done once, and whatever happens to it is an answer."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Conflict, Forbidden, NotFound
from honeybadger_agent.wire import ChatResult
from tests.conftest import HostFactory
from tests.flows.test_agents import agent
from tests.hosting import PATIENCE, RawSender, assert_refused, request, turns_of, wait_for


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def delegate(to: str, task: str = "do it", **more: Any) -> dict[str, Any]:
    return call("delegate_to_agent", agent=to, task=task, **more)


def plays(home: Path, name: str, *answers: Mapping[str, Any], delegates_to: tuple[str, ...] = (), **more: Any) -> None:
    """Save an agent that gives these answers to every message."""
    script = {"turns": [{"answers": answers}], **more}
    (home / f"{name}.json").write_bytes(orjson.dumps(script))
    members = {"delegates_to": list(delegates_to)} if delegates_to else {}
    agent(home, name, description=f"It is {name}.", model=f"scripted:{name}.json", **members)


def said(home: Path, session: str) -> list[tuple[str, str]]:
    """Return (speaker, text) of a session's log."""
    return [(turn["sender"], turn["content"]) for turn in turns_of(home, session)]


def delegations(home: Path) -> list[str]:
    """Return the names of the sessions that specialists were asked in."""
    return sorted(path.stem for path in (home / "data/sessions/main").glob("delegation:*.jsonl"))


def ask(home: Path, content: str = "plan it", **more: Any) -> ChatResult:
    client = SyncClient(home, "main", "user", timeout_seconds=PATIENCE)
    return client.chat(content, agent="router", timeout_seconds=2 * PATIENCE, **more)


def test_a_router_asks_two_specialists_and_gives_one_answer(make_host: HostFactory, home: Path) -> None:
    plays(
        home,
        "router",
        {"calls": [delegate("cook", "a menu", context="for six"), delegate("buyer", "a list")]},
        {"text": "All planned."},
        delegates_to=("cook", "buyer", "ghost"),
    )
    plays(home, "cook", {"calls": [call("update_memory", content="Six come to eat")]}, {"text": "Soup, cake."})
    plays(home, "buyer", {"text": "Flour, leeks.", "input_tokens": 70, "output_tokens": 7})
    (home / "groups/main/MEMORY.md").write_text("## Notes (user, 2026-11-22 09:00)\n- Ann eats no nuts\n")
    host = make_host({"turns.at_once": 1}).start()
    result = ask(home)
    assert (result.content, result.stopped_by) == ("All planned.", None)
    assert [(tool.name, tool.ok, tool.summary) for tool in result.tools] == [
        ("delegate_to_agent", True, "cook, done: Soup, cake."),
        ("delegate_to_agent", True, "buyer, done: Flour, leeks."),
    ]
    assert said(home, "main") == [("user", "plan it"), ("router", "All planned.")]
    told = sorted(said(home, session) for session in delegations(home))
    assert told == [
        [("router", "a list"), ("buyer", "Flour, leeks.")],
        [("router", "a menu\n\nContext:\nfor six"), ("cook", "Soup, cake.")],
    ]
    assert "(cook, " in (home / "groups/main/MEMORY.md").read_text()  # its own tools, under its own name
    ran = {line["agent"]: line for line in host.events("turn.ran")}
    assert set(ran) == {"router", "cook", "buyer"}
    assert ran["cook"]["session"].startswith("delegation:")
    context = SyncClient(home, "main", "router").get_context("x").system
    assert "## Available Specialist Agents\n- `cook` (cook): It is cook.\n- `buyer`" in context
    assert "ghost" not in context
    assert "Specialist" not in SyncClient(home, "main", "cook").get_context("x").system


def test_only_routers_are_offered_delegation(make_host: HostFactory, home: Path) -> None:
    plays(home, "router", {"text": "Hello."}, delegates_to=("cook",))
    plays(home, "cook", {"calls": [delegate("router")]}, {"text": "I cannot."})
    agent(home, "narrow", tools=["search_memory", "delegate_to_agent"])
    make_host().start()
    router, cook, stranger = (SyncClient(home, "main", name) for name in ("router", "cook", "stranger"))
    listed = router.list_available_agents().agents
    assert [(one.agent, one.name, one.description) for one in listed] == [("cook", "cook", "It is cook.")]
    tools = router.ping().tools or []
    assert {"delegate_to_agent", "list_available_agents", "search_memory", "stop_turn"} <= set(tools)
    assert SyncClient(home, "main", "narrow").ping().tools == ["search_memory"]
    for client in (cook, stranger):
        assert client.ping().tools is None
        for refused in (lambda: client.list_available_agents(), lambda: client.delegate_to_agent("cook", "x")):  # noqa: B023  called here
            with pytest.raises(Forbidden, match="no delegates_to in config/agents/"):
                refused()
    result = SyncClient(home, "main", "user", timeout_seconds=PATIENCE).chat("hi", agent="cook")
    assert [(one.ok, one.summary[:40]) for one in result.tools] == [(False, "invalid: there is no tool 'delegate_to_a")]


def test_circles_long_chains_and_unknown_agents_are_refused(make_host: HostFactory, home: Path) -> None:
    everyone = ("router", "a", "b", "c", "d")
    calls = [delegate("router"), delegate("ghost"), delegate("a")]
    plays(home, "router", {"calls": calls}, {"text": "Done."}, delegates_to=(*everyone, "ghost"))
    plays(home, "a", {"calls": [delegate("router"), delegate("b")]}, {"text": "a is done"}, delegates_to=everyone)
    plays(home, "b", {"calls": [delegate("a"), delegate("c")]}, {"text": "b is done"}, delegates_to=everyone)
    plays(home, "c", {"calls": [delegate("d")]}, {"text": "c is done"}, delegates_to=everyone)
    plays(home, "d", {"text": "d is done"})
    host = make_host({"handlers.delegation.AT_ONCE": 1}).start()  # nobody waits for a place that a waiting one holds
    result = ask(home)
    assert result.content == "Done."
    assert [(tool.ok, tool.summary) for tool in result.tools] == [
        (False, "conflict: router cannot be asked: it waits for this answer (router → router); do it yourself"),
        (False, "not_found: router cannot give tasks to ghost; it can to: router, a, b, c, d"),
        (True, "a, done: a is done"),
    ]
    refused = [line for line in host.events("request.answered") if line["type"] == "delegate_to_agent" and line["why"]]
    assert [line["why"] for line in refused][2:] == [
        "router cannot be asked: it waits for this answer (router → a → router); do it yourself",
        "a cannot be asked: it waits for this answer (router → a → b → a); do it yourself",
        "router → a → b → c is as long as such a chain may be: do it yourself, with what you know",
    ]


def test_a_failing_or_hanging_specialist_is_an_answer(make_host: HostFactory, home: Path) -> None:
    calls = [delegate("broken"), delegate("slow", timeout_seconds=1), delegate("silent", timeout_seconds=1)]
    plays(
        home,
        "router",
        {"calls": [*calls, delegate("lost")]},
        {"text": "I did it myself."},
        delegates_to=("broken", "slow", "silent", "lost"),
    )
    plays(home, "broken", {"text": "I look.", "calls": [call("search_memory")]}, {"fails": "overloaded"})
    plays(home, "slow", {"text": "Word for word. " * 100}, delay_seconds=0.1)
    plays(home, "silent", {"calls": [call("search_memory")]}, {"text": "x"}, delay_seconds=30)
    agent(home, "lost", model="scripted:nowhere.json")
    make_host().start()
    result = ask(home)
    assert result.content == "I did it myself."
    broken, slow, silent, lost = [tool.summary for tool in result.tools]
    assert all(tool.ok for tool in result.tools)
    assert broken.startswith("broken, failed: I look. (Stopped here: scripted:")
    assert broken.endswith("overloaded.)")
    assert slow.startswith(("slow, timed out: Word for word.", "slow, timed out: (Stopped before"))  # if it is busy
    assert silent == "silent, timed out: (Stopped before the first word: the limit of 1 seconds is reached.)"
    assert lost.startswith("lost, failed: (Stopped before the first word: ")
    assert len(delegations(home)) == 4  # each can be read there


def test_a_turn_reserves_time_to_answer(make_host: HostFactory, home: Path) -> None:
    plays(
        home,
        "router",
        {"calls": [delegate("slow"), delegate("cook")], "input_tokens": 100, "output_tokens": 0},
        {"text": "Here is what I have.", "input_tokens": 1, "output_tokens": 1},
        delegates_to=("slow", "cook"),
    )
    plays(home, "slow", {"text": "Word for word. " * 100}, delay_seconds=0.1)
    plays(home, "cook", {"text": "Soup.", "input_tokens": 500, "output_tokens": 0})
    host = make_host({"turns.seconds": 8}).start()
    result = ask(home)
    assert result.content == "Here is what I have."
    slow, cook = [tool.summary for tool in result.tools]
    assert slow.startswith(("slow, timed out: Word for word.", "slow, timed out: (Stopped before"))  # if it is busy
    assert cook.startswith("unavailable: this turn ends in ")
    assert cook.endswith("too soon to ask anybody: answer with what you have")

    plays(
        home,
        "router",
        {"calls": [delegate("cook")], "input_tokens": 100, "output_tokens": 0},
        {"text": "never asked"},
        delegates_to=("cook",),
    )
    host.settings |= {"turns.seconds": 300, "turns.total_tokens": 550}
    host.restart()
    result = ask(home, "again")
    assert result.stopped_by == "the limit of 550 tokens is reached"
    assert [tool.summary for tool in result.tools] == ["cook, done: Soup."]


SLOW = {"text": "Word for word. " * 400}


def at_work(home: Path) -> None:
    """Save a router whose cook takes minutes."""
    plays(home, "router", {"calls": [delegate("cook")]}, {"text": "All planned."}, delegates_to=("cook",))
    plays(
        home,
        "cook",
        {"calls": [call("update_memory", content="Six come")], "input_tokens": 5, "output_tokens": 5},
        SLOW,
        delay_seconds=0.05,
    )


@pytest.fixture
def memory(home: Path) -> Path:
    path = home / "groups/main/MEMORY.md"
    path.write_text("")
    return path


def test_a_stop_of_the_router_reaches_its_specialists(make_host: HostFactory, home: Path, memory: Path) -> None:
    at_work(home)
    make_host().start()
    got: list[ChatResult] = []
    asking = threading.Thread(target=lambda: got.append(ask(home)))
    asking.start()
    wait_for(lambda: "Six come" in (home / "groups/main/MEMORY.md").read_text(), what="the cook's note")
    began = time.monotonic()
    assert SyncClient(home, "main", "user", timeout_seconds=PATIENCE).stop_turn().state == "stopped"
    asking.join(PATIENCE)
    assert got[0].stopped_by == "asked for by user"
    wait_for(lambda: [name for name in delegations(home) if said(home, name)], what="the end of the cook's turn")
    assert time.monotonic() - began < 20
    ((_, (speaker, text)),) = [said(home, session) for session in delegations(home)]
    assert speaker == "cook"
    assert text.endswith("asked for by user.)")
    wait_for(lambda: not list((home / "data/ipc/main/router/requests").iterdir()), what="the answer to its task")


def test_a_program_delegates_too_and_repeats_safely(make_host: HostFactory, home: Path) -> None:
    plays(home, "router", {"text": "unused"}, delegates_to=("cook",))
    plays(home, "cook", {"text": "Soup."})
    host = make_host().start()
    router = RawSender(home, sender="router").make()
    asked = request("d1", "delegate_to_agent", payload={"agent": "cook", "task": "a menu"})
    first = router.ask("d1", asked)
    assert (first["result"]["state"], first["result"]["content"]) == ("done", "Soup.")
    (router.replies / "d1.json").unlink()
    plays(home, "cook", {"fails": "it was asked again"})
    host.restart()
    assert router.ask("d1", asked) == first
    blank = request("d2", "delegate_to_agent", payload={"agent": "cook", "task": "\u200b"})
    assert_refused(router.ask("d2", blank), "invalid", says="payload.task is blank")
    client = SyncClient(home, "main", "router", timeout_seconds=PATIENCE)
    with pytest.raises(NotFound, match="router cannot give tasks to buyer; it can to: cook"):
        client.delegate_to_agent("buyer", "x")
    with pytest.raises(Conflict, match="router → router"):
        client.delegate_to_agent("router", "x")


def test_a_scheduled_run_delegates_and_counts_all_costs(make_host: HostFactory, home: Path) -> None:
    plays(
        home,
        "router",
        {"calls": [delegate("cook")], "input_tokens": 10, "output_tokens": 1},
        {"text": "Soup today.", "input_tokens": 20, "output_tokens": 2},
        delegates_to=("cook",),
    )
    plays(home, "cook", {"text": "Soup.", "input_tokens": 300, "output_tokens": 3})
    plays(home, "buyer", {"text": "Flour."})
    make_host().start()
    router = SyncClient(home, "main", "router", timeout_seconds=PATIENCE)
    with pytest.raises(Forbidden, match="itself and those it delegates to only"):
        router.schedule_task("shop", "buy", "interval", interval_seconds=3600, agent="buyer")
    assert router.schedule_task("soup", "cook it", "interval", interval_seconds=3600, agent="cook").agent == "cook"
    task = router.schedule_task("menu", "plan it", "interval", interval_seconds=3600).id
    router.run_task(task)
    told = router.get_messages(0, wait_seconds=50).messages
    assert [(message.sender, message.content) for message in told] == [("router", "Soup today.")]
    (row,) = router.list_tasks(task).tasks
    assert row.tokens == 336
    assert len(delegations(home)) == 1
