"""What a router is told and offered: "delegate_to_agent" and "list_available_agents", from the files of a home."""

from __future__ import annotations

import hashlib
from pathlib import Path

import orjson

from honeybadger_agent.tools import tool_names
from honeybadger_agent.wire import ListAvailableAgents
from honeybadger_host.agents import DELEGATION, NOBODY, PLUMBING, Agents
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.handlers.delegation import list_available_agents
from honeybadger_host.handlers.redaction import Screen
from tests.flows.test_agents import agent
from tests.host.handlers.room import NOW

ASKED = Asked("main", "router", "r1", "main", ListAvailableAgents())


def test_a_router_has_the_agents_and_delegation_tools(tmp_path: Path) -> None:
    agent(tmp_path, "router", delegates_to=["cook", "ghost", "cook"], tools=["search_memory"])
    agent(tmp_path, "cook", description="Knows\nsoup.", tools=["search_memory", "delegate_to_agent"])
    agents = Agents(tmp_path, "assistant")
    answer = list_available_agents(agents).ask(ASKED, NOW).result
    assert answer == {"agents": [{"agent": "cook", "name": "cook", "description": "Knows\nsoup."}]}
    first, rest = agents.identity_of("router").specialists.split("\n")
    assert first == "- `cook` (cook): Knows soup."
    assert "delegate_to_agent" in rest
    assert agents.identity_of("cook").specialists == agents.identity_of("nobody").specialists == ""
    assert agents.identity_of("nobody") == NOBODY
    assert tool_names(allowed=agents.tools_of("router")) == ["search_memory", *sorted(DELEGATION)]
    assert agents.tools_of("cook") == frozenset({"search_memory"})
    for name in DELEGATION:
        assert agents.forbids("router", name) is None
        for sender in ("cook", "assistant", "nobody"):
            assert "no delegates_to" in (agents.forbids(sender, name) or "")
    assert not DELEGATION & PLUMBING


def test_a_router_without_a_tool_list_has_all_tools(tmp_path: Path) -> None:
    agent(tmp_path, "router", delegates_to=["cook"])
    offered = tool_names(allowed=Agents(tmp_path, "assistant").tools_of("router"))
    assert set(offered) == {*tool_names("default"), *tool_names()} - {"memory_search", "memory_get"} | DELEGATION


def test_an_impossible_id_in_delegates_to_is_reported(tmp_path: Path) -> None:
    agent(tmp_path, "router", delegates_to=["../cook"])
    agents = Agents(tmp_path, "assistant")
    assert "delegates_to" in orjson.dumps(dict(agents.problems)).decode()


def test_no_session_of_a_delegation_looks_like_a_credential() -> None:
    for number in range(3000):
        digest = hashlib.sha256(str(number).encode()).hexdigest()[:12]
        Screen("refuse").path("session", f"delegation:{digest}")
