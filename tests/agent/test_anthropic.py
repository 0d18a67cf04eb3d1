"""An agent on the SDK of Anthropic, unchanged: its tool runner, and its own tool on a folder to compare ours with."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from honeybadger_agent import SyncClient
from tests import endpoint
from tests.conftest import HostFactory, MakeClient
from tests.endpoint import Answer, Asked
from tests.hosting import HostProcess, RawSender, at_once

if TYPE_CHECKING:  # two seconds, for which nobody waits who runs other tests
    from honeybadger_agent.integrations.anthropic_memory import GroupMemory

pytestmark = pytest.mark.skipif(find_spec("anthropic") is None, reason="the extra `anthropic` is not installed")

ROOT = Path(__file__).parents[2]


@dataclass
class ScriptedClaude:
    """A scripted model: a command for every answer, then a last word. Keeps what it was sent."""

    commands: Sequence[dict[str, Any]]
    met: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.met.append(request)
        step = len(self.met) - 1
        content: list[dict[str, Any]] = [{"type": "text", "text": "I remember."}]
        if step < len(self.commands):
            content = [{"type": "tool_use", "id": f"toolu_{step}", "name": "memory", "input": self.commands[step]}]
        return {
            "id": f"msg_{step}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": content,
            "stop_reason": "tool_use" if step < len(self.commands) else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    @property
    def results(self) -> list[tuple[bool, str]]:
        """(is an error, text) of every tool result it was sent, in order."""
        blocks = [request["messages"][-1]["content"][0] for request in self.met[1:]]
        assert [block["tool_use_id"] for block in blocks] == [f"toolu_{number}" for number in range(len(blocks))]
        return [(block.get("is_error", False), _text(block["content"])) for block in blocks]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@contextlib.contextmanager
def messages_api(claude: ScriptedClaude) -> Iterator[str]:
    """Serve the Messages API on loopback; gives its address."""

    def answering(asked: Asked) -> Answer:
        assert asked.path.partition("?")[0] == "/v1/messages"
        return Answer(headers={"Content-Type": "application/json"}, body=json.dumps(claude.answer(asked.body)).encode())

    with endpoint.served(answering) as api:
        yield api.url


# What the tool says of each command is compared with the SDK's own below; here it goes through the runner.
STORY: list[dict[str, Any]] = [
    {"command": "create", "path": "/memories/preferences.md", "file_text": "- likes dark mode\n"},
    {"command": "view", "path": "/memories/preferences.md", "view_range": None},
    {"command": "delete", "path": "/memories/../../etc/passwd"},
    {"command": "forget", "path": "/memories/user"},
]
TOLD: list[tuple[bool, str]] = [
    (False, "File created successfully at: /memories/preferences.md"),
    (False, "Here's the content of /memories/preferences.md with line numbers:\n     1\t- likes dark mode\n     2\t"),
    (True, "Path must start with /memories and stay below it, got: /memories/../../etc/passwd"),
    (True, "NotImplementedError('Unknown command: forget')"),
]


def check(claude: ScriptedClaude) -> None:
    assert len(claude.met) == len(STORY) + 1
    assert claude.met[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    assert claude.results == TOLD


def group_memory(client: SyncClient, **more: Any) -> GroupMemory:
    from honeybadger_agent.integrations.anthropic_memory import GroupMemory

    return GroupMemory(client, **more)


class Agent:
    """A model that uses the tool."""

    def __init__(self, client: SyncClient) -> None:
        self.tool = group_memory(client)

    def __call__(self, command: str, path: str | None = None, **members: Any) -> str:
        return cast("str", self.tool.call({"command": command, **({"path": path} if path else {}), **members}))

    def refused(self, command: str, path: str | None = None, **members: Any) -> str:
        from anthropic.lib.tools import ToolError

        with pytest.raises(ToolError) as caught:
            self(command, path, **members)
        return str(caught.value)

    def text(self, path: str) -> str:
        """Return a file's text, from its view."""
        return "\n".join(line.partition("\t")[2] for line in self("view", path).split("\n")[1:])

    def listed(self, path: str = "/memories") -> list[str]:
        return [row.partition("\t")[2].removeprefix(f"{path}/") for row in self("view", path).split("\n")[2:]]


@pytest.fixture
def agent(member: MakeClient) -> Agent:
    """An agent in a fresh group of a host that serves the whole module."""
    return Agent(member("claude"))


@pytest.mark.parametrize("thread", [None, False], ids=["the API keeps the conversation", "the agent sends it"])
def test_an_sdk_agent_remembers_through_its_tool_runner(
    served: HostProcess, asker: RawSender, thread: Literal[False] | None
) -> None:
    from anthropic import Anthropic, DefaultHttpxClient

    claude = ScriptedClaude(STORY)
    with messages_api(claude) as address, DefaultHttpxClient(trust_env=False) as http:
        runner = Anthropic(api_key="test", base_url=address, http_client=http, max_retries=0).beta.messages.tool_runner(
            model="claude-test",
            max_tokens=100,
            messages=[{"role": "user", "content": "Remember that I like dark mode"}],
            tools=[group_memory(SyncClient(served.home, asker.group, "claude"))],
            thread=thread,
        )
        last = runner.until_done()
    assert group_memory(SyncClient(served.home), cache_control={"type": "ephemeral"}).to_dict()["cache_control"]
    assert [block.text for block in last.content if block.type == "text"] == ["I remember."]
    check(claude)


async def test_so_does_one_on_the_sdk_for_asyncio(served: HostProcess, asker: RawSender) -> None:
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

    from honeybadger_agent.integrations.anthropic_memory import AsyncGroupMemory

    claude = ScriptedClaude(STORY)
    with messages_api(claude) as address:
        async with DefaultAsyncHttpxClient(trust_env=False) as http:
            anthropic = AsyncAnthropic(api_key="test", base_url=address, http_client=http, max_retries=0)
            runner = anthropic.beta.messages.tool_runner(
                model="claude-test",
                max_tokens=100,
                messages=[{"role": "user", "content": "Remember that I like dark mode"}],
                tools=[AsyncGroupMemory(SyncClient(served.home, asker.group, "claude"))],
            )
            await runner.until_done()
    check(claude)


def test_the_sdks_tool_says_the_same_on_a_folder(tmp_path: Path, member: MakeClient) -> None:
    """Commands in a row on both; sizes, and the words of what is refused, are ours."""
    from anthropic.tools import BetaLocalFilesystemMemoryTool

    theirs, ours = BetaLocalFilesystemMemoryTool(str(tmp_path)), group_memory(member("claude"))
    commands: list[dict[str, Any]] = [
        {"command": "view", "path": "/memories/a.md"},
        {"command": "create", "path": "/memories/a.md", "file_text": "one\ntwo\n\nthree"},
        {"command": "create", "path": "/memories/a.md", "file_text": "x"},
        {"command": "create", "path": "/memories/f/g/b.md", "file_text": "x" * 3000},
        {"command": "create", "path": "/memories/f/c.md", "file_text": "Größe"},
        {"command": "view", "path": "/memories/a.md"},
        {"command": "view", "path": "/memories/a.md", "view_range": [2, -1]},
        {"command": "view", "path": "/memories/a.md", "view_range": [0, 99]},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "two", "new_str": "2\n2"},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "2", "new_str": "x"},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "nine", "new_str": "x"},
        {"command": "str_replace", "path": "/memories/no.md", "old_str": "nine", "new_str": "x"},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "three", "new_str": "3"},
        {"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "zero\n"},
        {"command": "insert", "path": "/memories/a.md", "insert_line": 5, "insert_text": "\nlast\n\n"},
        {"command": "insert", "path": "/memories/a.md", "insert_line": 99, "insert_text": "x"},
        {"command": "insert", "path": "/memories/no.md", "insert_line": 0, "insert_text": "x"},
        {"command": "view", "path": "/memories/a.md"},
        {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/f/c.md"},
        {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/h/i/a.txt"},
        {"command": "rename", "old_path": "/memories/f", "new_path": "/memories/h/f"},
        {"command": "view", "path": "/memories"},
        {"command": "view", "path": "/memories/h"},
        {"command": "view", "path": "/memories/h/f/g/b.md"},
        {"command": "delete", "path": "/memories/h/f"},
        {"command": "delete", "path": "/memories/h/f"},
        {"command": "view", "path": "/memories"},
    ]
    for command in commands:
        assert told(ours, command) == told(theirs, command), command


def told(tool: Any, command: dict[str, Any]) -> str:
    """Return the text of a command, without sizes; `refused` for an error."""
    from anthropic.lib.tools import ToolError

    try:
        text = cast("str", tool.call(command))
    except ToolError:
        return "refused"
    is_folder = text.startswith("Here're")
    return "\n".join(row.partition("\t")[2] or row for row in text.split("\n")) if is_folder else text


def test_the_program_of_the_page_remembers(
    asker: RawSender, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = re.findall(r"^```py\n(.*?)^```", (ROOT / "docs/connecting.md").read_text(), re.MULTILINE | re.DOTALL)
    claude = ScriptedClaude(STORY[:1])
    with messages_api(claude) as address:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
        monkeypatch.setenv("HONEYBADGER_HOME", str(asker.home))
        exec(compile(program.replace('group="main"', f'group="{asker.group}"'), "page", "exec", dont_inherit=True), {})
    assert capsys.readouterr().out == "I remember.\n"
    assert claude.results == TOLD[:1]


def test_what_others_wrote_is_seen_found_and_kept(agent: Agent, member: MakeClient) -> None:
    member("cook").save_memory("User drinks tea", "likes", name="drinks.md")
    member("cook").save_memory("The cat is called Ada", "likes")
    agent("create", "/memories/people/Größe 日本.md", file_text="Ann moved to Lisbon in May\n")
    agent("create", "/memories/.hidden", file_text="x")
    assert agent.listed() == ["likes/", "likes/drinks.md", "people/", "people/Größe 日本.md"]
    agent("str_replace", "/memories/likes/drinks.md", old_str="tea", new_str="coffee")
    hit = member().search_memory("Where does Ann live?").hits[0]
    assert (hit.category, hit.author) == ("people", "claude")
    agent("rename", old_path="/memories/likes", new_path="/memories/old/likes")
    refused = (
        agent.refused("create", "/memories/Größe/a.md", file_text="x"),
        agent.refused("rename", old_path="/memories/old", new_path="/memories/Größe"),
    )
    assert refused[0].startswith("The folder /memories/Größe cannot be used. ")
    assert refused[1].startswith("The folder /memories/Größe/likes cannot be used. ")
    agent("delete", "/memories/old")
    assert [row.begins for row in member().list_memory_entries(category="likes").entries] == ["The cat is called Ada"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("./\\%2ef5cE~ a\0\n\u2025\uff0e\uff0f\u202ebcXYZ", max_size=6), max_size=4))
def test_any_path_is_a_file_or_refused(agent: Agent, asker: RawSender, parts: list[str]) -> None:
    from anthropic.lib.tools import ToolError

    path = "/".join(("/memories", *parts))
    group = asker.memory.parent
    with contextlib.suppress(ToolError):
        agent("create", path, file_text="x")
        assert agent.text(path) == "x"
    assert {found.relative_to(group).parts[0] for found in group.rglob("*")} <= {"memory"}
    assert not [found for found in group.rglob("*") if not found.resolve().is_relative_to(group.resolve())]


def test_what_others_changed_meanwhile_is_a_conflict(agent: Agent, member: MakeClient) -> None:
    """Each of two agents repeats what was refused, and no line is lost."""
    agent("create", "/memories/log.md", file_text="log\n")
    refused, written = 0, list[str]()

    def write(sender: str) -> None:
        nonlocal refused
        mine = Agent(member(sender))
        for number in itertools.count():
            while "has been edited" not in told(mine.tool, insert(f"{sender} {number}")):
                refused += 1
            written.append(f"{sender} {number}")
            if refused and number > 6:
                break

    def insert(text: str) -> dict[str, Any]:
        return {"command": "insert", "path": "/memories/log.md", "insert_line": 1, "insert_text": text}

    at_once(*(partial(write, sender) for sender in ("ann", "bob")))
    lines = agent.text("/memories/log.md").split("\n")[1:-1]
    assert sorted(lines) == sorted(written)


def test_a_write_that_waits_for_review_says_so(make_host: HostFactory, client: MakeClient) -> None:
    host = make_host({"memory.writes": "main=review"}).start()
    agent = Agent(client("claude"))
    assert agent("create", "/memories/plan.md", file_text="tea").startswith("It waits for review as write-")
    assert agent.refused("view", "/memories/plan.md")
    host.stop()
