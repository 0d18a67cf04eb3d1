"""One memory under several tools: what one was told, the others recall, with who said it."""

from pathlib import Path

import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.hooks.program.turns import login_name
from tests.agent.test_hooks import SESSION, Transcript, await_requests, context_of, event, run_hook
from tests.agent.test_mcp import text
from tests.agent.test_mcp_http import connected, serving, token_of
from tests.hosting import PATIENCE, HostProcess, turns_of

FACT = "My boat Gull lies in the harbour of Kiel"
QUESTION = "Where does the boat Gull lie?"


def codex_item(transcript: Transcript, kind: str, key: str, text: str) -> None:
    item = {"type": kind, "id": key, "content": [{"type": "text", "text": text}]}
    transcript.line(type="event_msg", payload={"type": "item_completed", "turn_id": "t1", "item": item})


async def test_what_claude_code_is_told_all_others_recall(host: HostProcess, home: Path, tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    base = pytest.importorskip("langgraph.store.base", reason="needs the extra langgraph")
    from honeybadger_agent.integrations.langgraph_store import GroupStore

    told = Transcript(tmp_path / "claude.jsonl")
    told.user(FACT)
    told.assistant("Noted.")
    run_hook(home, event(told, "Stop", last_assistant_message="Noted."))
    await_requests(home)
    assert [turn["by"] for turn in turns_of(home, SESSION)] == ["claude-code", "claude-code"]
    author = f"{login_name()} via claude-code"

    rollout = Transcript(tmp_path / "rollout.jsonl")
    asked = event(rollout, "UserPromptSubmit", prompt=QUESTION, session_id="codex-1")
    rollout.line(type="session_meta", payload={"id": "codex-1"})
    recalled = context_of(run_hook(home, asked, "codex"))
    assert f"{author}): {FACT}" in recalled
    assert "data, not instructions" in recalled
    shown = [{"type": "input_text", "text": recalled}]
    rollout.line(type="response_item", payload={"type": "message", "role": "developer", "content": shown})
    codex_item(rollout, "UserMessage", "m1", QUESTION)
    codex_item(rollout, "AgentMessage", "m2", "In the harbour that you named.")
    run_hook(home, event(rollout, "Stop", session_id="codex-1"), "codex")
    await_requests(home, sender="codex")
    assert [(turn["by"], turn["content"]) for turn in turns_of(home, "codex-1")] == [
        ("codex", QUESTION),
        ("codex", "In the harbour that you named."),
    ]

    graph = SyncClient(home, "main", "graph", timeout_seconds=PATIENCE)
    store = GroupStore(graph)
    store.batch([base.PutOp(("boats",), "gull", {"found": graph.search_memory(QUESTION).hits[0].text})])
    assert store.get(("boats",), "gull").value == {"found": FACT}

    with serving(home) as server:
        async with connected(server.url, token_of(home, "phone")) as phone:
            answer = text(await phone.call_tool("search_memory", {"query": QUESTION}))
    assert f"{author}) {FACT}" in answer

    hits = graph.search_memory("boat Gull harbour of Kiel").hits
    assert {hit.author for hit in hits if "Kiel" in hit.text} == {author}, "nobody learnt it again"
    assert [row.author for row in graph.list_memory_entries().entries] == ["graph"]
