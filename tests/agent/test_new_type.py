"""A request type is written once: one class, and every way to ask knows it."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from honeybadger_agent import Client, SyncClient, wire
from honeybadger_agent.models.model import ToolCall
from honeybadger_agent.schemas import STUB, main, row_of, schemas, stub
from honeybadger_agent.turn.dispatch import Memory
from honeybadger_agent.turn.toolbox import MemoryTools
from tests.conftest import HostFactory
from tests.hosting import run_agent

ROOT = Path(__file__).parents[2]
TYPE = '''
from typing import Annotated
from pydantic import Field, StringConstraints
from honeybadger_agent.wire import Request, Result

class EchoResult(Result):
    said: str = Field(description="The same, louder.")
    sender: str

class EchoText(Request[EchoResult]):
    """Say it again. Use this to hear yourself."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=20)] = Field(description="What is said.")
    times: Annotated[int, Field(ge=1, le=3)] | None = None
'''
HANDLER = """
from honeybadger_host import compose
from honeybadger_host.handler_kinds import QueryHandler

def answer(asked, now):
    return {"said": asked.payload.text.upper() * (asked.payload.times or 1), "sender": asked.sender}

build_table = compose.build_table
def build_table_with_echo(*args, **more):
    return {**build_table(*args, **more), "echo_text": QueryHandler(answer)}
compose.build_table = build_table_with_echo
"""


@pytest.fixture
def echo() -> Iterator[type[wire.Request[Any]]]:
    """The new type, for as long as the test runs."""
    exec(compile(TYPE, "echo.py", "exec", dont_inherit=True), {"__name__": "echo"})
    yield wire.REQUEST_TYPES["echo_text"]
    del wire.REQUEST_TYPES["echo_text"]


async def test_a_new_type_is_available_in_every_client(echo: Any, make_host: HostFactory, home: Path) -> None:
    from mcp import Client as McpClient  # it takes a second, in every worker that collects this file
    from mcp import types

    from honeybadger_agent.mcp_server import made_server

    make_host(source=TYPE + HANDLER).start()
    client = SyncClient(home, "main", "researcher")

    assert client(echo(text="a", times=2)).said == "AA"  # the client
    assert (await Client(home, "main", "other")(echo(text="a"))).sender == "other"

    tools = MemoryTools(Client(home, "main", "agent"), "turn")  # a tool of an agent
    [spec] = [spec for spec in tools.specs if spec.name == "echo_text"]
    assert spec.description == "Say it again. Use this to hear yourself."
    assert spec.schema["properties"]["times"] == {"type": "integer", "minimum": 1, "maximum": 3}
    answered = await tools.run(ToolCall("1", "echo_text", '{"text": "hey"}'), "1")
    assert (answered.ok, answered.content) == (True, "said: HEY\nsender: agent")

    memory = Memory(Client(home, "main", "claude"))
    async with McpClient(made_server(lambda: memory, "all")) as mcp:  # a tool over MCP
        assert "echo_text" in [tool.name for tool in (await mcp.list_tools()).tools]
        said = await mcp.call_tool("echo_text", {"text": "ho"})
        assert said.structured_content == {"said": "HO", "sender": "claude"}
        refused = await mcp.call_tool("echo_text", {"text": "x" * 21})
        assert isinstance(refused.content[0], types.TextContent)
        assert refused.content[0].text == "too_large: payload.text has 21 characters, the limit is 20: send less"

    ran = await anyio.to_thread.run_sync(functools.partial(run_agent, "call", "echo_text", '{"text": "hi"}', home=home))
    assert orjson.loads(ran.stdout)["result"] == {"said": "HI", "sender": "user"}  # the command

    assert orjson.loads(schemas()["echo_text.result.json"])["required"] == ["said", "sender"]  # schema, page, stub
    assert row_of(echo) == "| `echo_text` | `text` (1-20 characters), `times`? (1-3) | `said`, `sender` |\n"
    assert "    def echo_text(self, text: str, times: int | None = None) -> wire.EchoResult: ..." in stub()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def test_what_is_generated_from_the_types_is_of_today(tmp_path: Path) -> None:
    """`make schemas` makes it so."""
    page = tmp_path / "protocol.md"
    page.write_text((ROOT / "docs/protocol.md").read_text())
    (tmp_path / "schemas").mkdir()
    before = STUB.read_text()
    main(str(tmp_path / "schemas"))
    with pytest.raises(SystemExit, match="usage"):
        main("--help")
    assert page.read_text() == (ROOT / "docs/protocol.md").read_text()
    assert STUB.read_text() == before
    assert files_of(tmp_path / "schemas") == files_of(ROOT / "docs/schemas")
