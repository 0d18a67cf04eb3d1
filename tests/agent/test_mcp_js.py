"""The MCP server with a second client, which is not Python: `make mcp-js` installs it and runs this."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.tools import tool_names
from tests.agent.mcp_story import COMMAND, arguments, story
from tests.hosting import HostProcess

CLIENT = Path(__file__).parent / "mcp_client"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(not (CLIENT / "node_modules").is_dir(), reason="its packages are not installed: make mcp-js"),
    pytest.mark.timeout(600),
]


def test_a_javascript_client_calls_every_tool(host: HostProcess, home: Path) -> None:
    """Its library checks structured content against the output schema, once the tools were listed."""
    known = SyncClient(home, "main", "researcher").save_memory("User likes tea", "user-preferences")
    steps = story(known.id)
    asked: list[dict[str, Any]] = [
        {"do": "listTools"},
        *({"do": "callTool", "with": {"name": step.tool, "arguments": step.arguments}} for step in steps),
        {"do": "callTool", "with": {"name": "get_memory", "arguments": {"id": known.id}}},
        {"do": "listResources"},
        {"do": "readResource", "with": {"uri": "honeybadger://memory"}},
        {"do": "readResource", "with": {"uri": "honeybadger://summary"}},
        {"do": "getPrompt", "with": {"name": "remember", "arguments": {"what": "tea"}}},
    ]
    ran = subprocess.run(
        [str(NODE), "client.js", COMMAND[0], *arguments(home, "--tools", "all")],
        cwd=CLIENT,
        input=orjson.dumps(asked),
        capture_output=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    printed = orjson.loads(ran.stdout)
    assert printed["server"]["name"] == "honeybadger"
    listed, *called, gone, resources, memory, summary, prompt = printed["given"]
    assert {tool["name"] for tool in listed["tools"]} == set(tool_names())
    for step, result in zip(steps, called, strict=True):
        assert not result.get("isError"), result
        assert step.says in result["content"][0]["text"], step.tool
        assert {name: result["structuredContent"][name] for name in step.has} == step.has, step.tool
    assert gone["isError"] is True
    assert gone["content"][0]["text"].startswith("not_found: ")
    assert len(resources["resources"]) == 4
    assert "Lunch is at noon" in memory["contents"][0]["text"]
    assert "the group has no summary.md" in summary["error"]["message"]
    assert "Remember this in Honeybadger: tea" in prompt["messages"][0]["content"]["text"]
