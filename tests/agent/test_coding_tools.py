"""The real programs of coding tools, from nothing to a recalled fact: `make coding-tools` installs them and runs this.

They ask a server of the test on loopback, which keeps what would have reached a model.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.hooks.program.turns import login_name
from honeybadger_agent.hooks.tools import packages_folder
from honeybadger_agent.models.model import ModelSaid
from tests.commands import finished
from tests.endpoint import Answer, Asked, Endpoint, anthropic, served
from tests.hosting import AGENT, PLAIN, HostProcess, turns_of, wait_for

BIN = Path(__file__).parent / "coding_tools" / "node_modules" / ".bin"
ANSWER = "Noted, captain."
SECONDS = 400.0  # what a call of a program may take on a busy machine

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(not BIN.is_dir(), reason="the programs are not installed: make coding-tools"),
    pytest.mark.timeout(2400),
]


def answer(asked: Asked) -> Answer:
    """Answer in the protocol that the path belongs to: Anthropic's, OpenAI's responses, or Gemini's."""
    path = asked.path.partition("?")[0]
    if path.endswith("/messages"):
        return anthropic(ModelSaid(ANSWER))
    if path.endswith("/responses"):
        text = {"type": "output_text", "text": ANSWER, "annotations": []}
        item = {"type": "message", "id": f"m{time.time_ns()}", "role": "assistant", "content": [text]}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events = [
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": usage}},
        ]
        return Answer(body=b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in events))
    if path.endswith("streamGenerateContent"):
        content = {"role": "model", "parts": [{"text": ANSWER}]}
        chunk = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}
        return Answer(body=b"data: %b\n\n" % json.dumps(chunk).encode())
    return Answer(404, {"Content-Type": "application/json"}, b"{}")


class Desk:
    """A user's desk: programs, a folder of their own, a repository, and a server in the place of the models."""

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        self.folder, self.endpoint = folder, endpoint
        self.repository = folder / "work"
        self.repository.mkdir(parents=True)
        codex = folder / ".codex" / "config.toml"
        codex.parent.mkdir()
        codex.write_text(
            'model = "test"\nmodel_provider = "test"\n[model_providers.test]\nname = "test"\n'
            f'base_url = "{endpoint.url}/v1"\nwire_api = "responses"\n'
        )
        gemini = folder / ".gemini" / "settings.json"
        gemini.parent.mkdir()
        gemini.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))

    @property
    def environment(self) -> dict[str, str]:
        """An environment in which every program asks the endpoint and nobody else."""
        return {
            "ANTHROPIC_API_KEY": "test",
            "ANTHROPIC_BASE_URL": self.endpoint.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "GEMINI_API_KEY": "test",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": self.endpoint.url,
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "MCP_TIMEOUT": "300000",
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
            "XDG_DATA_HOME": str(self.folder / ".local/share"),
        }

    def run(self, *command: str) -> str:
        """Return what a program prints. Fails when it fails."""
        where: dict[str, Any] = {"cwd": self.repository, "env": self.environment, "stdin": subprocess.DEVNULL}
        done = finished(command, timeout=SECONDS, **where)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def says(self, tool: str, prompt: str) -> str:
        """Say something to a tool in a new session; return all that reached its model."""
        before = len(self.endpoint.asked)
        command = {
            "claude-code": ("claude", "-p", prompt, "--model", "claude-sonnet-4-5"),
            "codex": ("codex", "exec", "--skip-git-repo-check", prompt),
            "gemini": ("gemini", "-m", "gemini-2.5-flash", "-p", prompt),
        }[tool]
        assert ANSWER in self.run(*command)
        return "\n".join(text for asked in self.endpoint.asked[before:] for text in texts_in(asked.body))

    def trust_hooks_of_codex(self) -> None:
        """Do what a person does with /hooks: the hash that Codex shows goes into its settings."""
        with subprocess.Popen(
            ["codex", "app-server"],
            cwd=self.repository,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:

            def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n")
                process.stdin.flush()
                found: dict[str, Any] = {}
                while found.get("id") != number:
                    found = json.loads(process.stdout.readline())
                result: dict[str, Any] = found["result"]
                return result

            ask(1, "initialize", {"clientInfo": {"name": "test", "version": "1"}})
            (listed,) = ask(2, "hooks/list", {"cwds": [str(self.repository)]})["data"]
            assert {hook["trustStatus"] for hook in listed["hooks"]} == {"untrusted"}
            trusted = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in listed["hooks"]}
            edit = {"keyPath": "hooks.state", "value": trusted, "mergeStrategy": "upsert"}
            assert ask(3, "config/batchWrite", {"edits": [edit]})["status"] == "ok"
            process.kill()


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text of a request but the descriptions of tools."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            if name != "tools":
                yield from texts_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from texts_in(member)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with served(answer) as endpoint:
        made = Desk(tmp_path / "user", endpoint)
        monkeypatch.setenv("XDG_DATA_HOME", str(made.folder / ".local/share"))
        yield made


def spoken(home: Path) -> dict[str, list[str]]:
    """Return what was kept, by the sender that kept it, the earlier session first."""
    sessions = [turns_of(home, file.stem) for file in (home / "data/sessions/main").glob("*.jsonl")]
    kept: dict[str, list[str]] = {}
    for turns in sorted(filter(None, sessions), key=lambda turns: str(turns[0]["at"])):
        for turn in turns:
            kept.setdefault(turn["by"], []).append(turn["content"])
    return kept


def a_minute() -> float:
    """Return a minute in seconds; a machine that has more to do than its cores can takes as much longer."""
    return 60 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def await_spoken(home: Path, sender: str, said: list[str]) -> None:
    wait_for(lambda: spoken(home).get(sender) == said, what=f"{said} of {sender}")


def test_what_claude_code_hears_every_tool_recalls_with_author(host: HostProcess, home: Path, desk: Desk) -> None:
    told = "My boat Gull lies in the harbour of Kiel"
    SyncClient(home, "main", "ann").update_memory("Ann likes teal", section="Colours")

    began = time.monotonic()
    desk.run(*AGENT, "install", "claude-code", "--home", str(home))
    desk.says("claude-code", told)
    text = desk.says("claude-code", "Where does my boat lie?")
    assert time.monotonic() - began < a_minute()
    assert told in text.partition("Recalled from the memory of the group main")[2]
    assert "Ann likes teal" in text
    await_spoken(home, "claude-code", [told, ANSWER, "Where does my boat lie?", ANSWER])
    assert "Connected" in desk.run("claude", "mcp", "list")
    desk.run("claude", "plugin", "validate", "--strict", str(packages_folder() / "claude-code"))
    manifest = packages_folder() / "claude-code" / ".claude-plugin" / "plugin.json"
    desk.run("claude", "plugin", "validate", "--strict", str(manifest))

    began = time.monotonic()
    assert "/hooks" in desk.run(*AGENT, "install", "codex", "--home", str(home))
    assert told not in desk.says("codex", "In which harbour does my boat lie?")
    assert "codex" not in spoken(home)
    assert "its hooks are not trusted" in desk.run(*PLAIN, "doctor", "--home", str(home))
    desk.trust_hooks_of_codex()
    text = desk.says("codex", "In which harbour does my boat lie?")
    assert time.monotonic() - began < a_minute()
    assert f"{login_name()} via claude-code): {told}" in text
    assert "Ann likes teal" in text
    await_spoken(home, "codex", ["In which harbour does my boat lie?", ANSWER])
    desk.run(*AGENT, "install", "codex", "--home", str(home), "--sender", "laptop")  # the hooks stay trusted
    assert told in desk.says("codex", "In which harbour does my boat lie?")
    await_spoken(home, "laptop", ["In which harbour does my boat lie?", ANSWER])

    desk.run(*AGENT, "install", "gemini", "--home", str(home))
    text = desk.says("gemini", "The harbour where my boat lies?")
    assert f"{login_name()} via claude-code): {told}" in text
    await_spoken(home, "gemini", ["The harbour where my boat lies?", ANSWER])

    doctor = desk.run(*PLAIN, "doctor", "--home", str(home))
    for tool in ("claude-code", "codex", "gemini"):
        assert f"ok        {tool}: " in doctor, doctor
    for tool in ("claude-code", "codex", "gemini"):
        desk.run(*AGENT, "uninstall", tool)
        assert told not in desk.says(tool, "Where does my boat lie?")
