"""The agent's package imports neither the host, nor what the host needs, nor an event loop before one is used."""

import pkgutil
import sys

import pytest

import honeybadger_agent
from tests.commands import finished

MODULES = [
    "honeybadger_agent",
    *(module.name for module in pkgutil.walk_packages(honeybadger_agent.__path__, "honeybadger_agent.")),
]
for name in ("mcp_server", "mcp_stdio", "mcp_http"):
    MODULES.remove(f"honeybadger_agent.{name}")  # for the command `mcp` alone, which needs the extra
for name in ("anthropic_memory", "langgraph_store", "openai_agents", "pydantic_ai_memory", "pydantic_ai_store"):
    MODULES.remove(f"honeybadger_agent.integrations.{name}")  # for programs that have the extra
MODULES.remove("honeybadger_agent.models.providers")  # for models of a provider alone, which need the extra
MODULES.remove("honeybadger_agent.relay")  # for agents on machines without a host, which need the extra
MODULES.remove("honeybadger_agent.cli.__main__")
MODULES.remove("honeybadger_agent.cli.chat")  # for the command `chat` alone, which has an event loop
FOREIGN = [
    *("honeybadger_host", "anyio", "mcp", "structlog", "typer", "watchdog"),
    *("agents", "langgraph", "pydantic_ai", "openai", "anthropic", "httpx2", "prompt_toolkit", "nats", "nkeys"),
]


def run(source: str) -> None:
    """Run Python with warnings as errors; fails with what it printed."""
    done = finished([sys.executable, "-W", "error", "-c", source])
    assert (done.returncode, done.stderr) == (0, "")


def test_the_package_imports_where_the_host_is_not_installed() -> None:
    run(
        "import sys, importlib\n"
        f"sys.modules.update(dict.fromkeys({FOREIGN}))\n"
        f"for name in {MODULES}:\n"
        "    importlib.import_module(name)\n"
        "assert 'asyncio' not in sys.modules, 'asyncio costs 60 ms that a program without a loop should not pay'\n"
    )


@pytest.mark.parametrize("name", ["honeybadger_agent.mailbox", "honeybadger_agent.errors"])
def test_mailbox_and_errors_need_nothing_but_the_standard_library(name: str) -> None:
    """Whoever speaks the protocol without our models can still take names and publishing from here."""
    run(f"import sys; sys.modules.update(dict.fromkeys(['pydantic', 'orjson'])); import {name}")


def test_the_hook_program_starts_without_pydantic_and_orjson() -> None:
    """A person waits for it at each prompt."""
    run(
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['pydantic', 'orjson', 'asyncio']))\n"
        "import honeybadger_agent.hooks.program.events\n"
    )


def test_what_the_package_exports_is_there() -> None:
    assert all(hasattr(honeybadger_agent, name) for name in honeybadger_agent.__all__)


@pytest.mark.parametrize(
    ("extra", "source"),
    [
        ("llm", "from honeybadger_agent.models import open_model\nopen_model('ollama:llama3.2:3b')"),
        ("cluster", "from honeybadger_agent import SyncClient\nSyncClient('0123', server='nats://127.0.0.1:1')"),
    ],
)
def test_what_needs_an_extra_names_it(extra: str, source: str) -> None:
    run(
        f"import sys\nsys.modules.update(dict.fromkeys({FOREIGN}))\n"
        "from honeybadger_agent.errors import AgentError\n"
        "from honeybadger_agent.models.model import ModelFailed\n"
        f"try:\n    exec({source!r})\n"
        "except (AgentError, ModelFailed) as failed:\n"
        f"    assert \"pip install './honeybadger_agent[{extra}]' in\" in str(failed), failed\n"
        "else:\n    raise AssertionError\n"
    )
