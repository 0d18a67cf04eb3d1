"""`install` and `uninstall`: what is written, which programs of tools are run, and what the doctor says of it.

`make coding-tools` does the same with the real programs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.hooks.program.settings import settings_file
from honeybadger_agent.hooks.tools import PLUGIN, TOOLS, packages_folder, states
from honeybadger_host import __version__
from honeybadger_host.ops.doctor.checks import coding_tools
from tests.agent.mcp_story import tool_called
from tests.agent.test_hooks import Transcript, event
from tests.commands import finished
from tests.hosting import HostProcess, run_agent, turns_of, wait_for

# A tool's program that takes notes of how it is called.
PROGRAM = """#!/bin/sh
echo "$@" >>"$CALLS"
[ ! -e "$CALLS.fails" ] || { echo "your settings are damaged" >&2; exit 1; }
"""


class User:
    """A user of coding tools, with a folder of their own.

    Args:
        folder: HOME.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home, self.calls_file = folder, home, folder / "calls"
        for name in ("claude", "codex", "gemini"):
            program = folder / "bin" / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(PROGRAM)
            program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "CALLS": str(self.calls_file),
            "HOME": str(self.folder),
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
            "XDG_DATA_HOME": str(self.folder / ".local/share"),
        }

    def says(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        home = self.home if arguments[0] == "install" else None
        return run_agent(*arguments, home=home, env=self.environment)

    def calls(self) -> list[str]:
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return lines


@pytest.fixture
def user(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    made = User(tmp_path / "user", home)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("tool", ["claude-code", "codex", "gemini"])
def test_the_tools_own_program_installs_and_uninstalls_the_package(tool: str, user: User) -> None:
    package = packages_folder() / tool
    files = []
    for _ in range(2):
        done = user.says("install", tool, "--group", "boats")
        assert done.returncode == 0, done.stderr
        assert "start the host" in done.stdout
        files.append(files_of(package))
        *removed, _, _ = calls = user.calls()
        assert any(str(package) in call for call in calls)
        assert all("remove" in call or "uninstall" in call or "marketplace add" in call for call in removed)
    assert files[0] == files[1]
    chosen = {"home": str(user.home), "group": "boats", "sender": tool}
    assert json.loads(Path(settings_file(tool)).read_text()) == chosen
    assert user.says("install", tool, "--sender", "laptop").returncode == 0
    assert json.loads(Path(settings_file(tool)).read_text())["group"] == "boats"  # what is not named stays
    user.calls()
    assert user.says("uninstall", tool).returncode == 0
    assert len(user.calls()) == len(TOOLS[tool].remove)
    assert not package.exists()
    assert not Path(settings_file(tool)).exists()
    again = user.says("uninstall", tool)
    assert (again.returncode, "removed" in again.stdout) == (0, False)
    assert f"{tool} was not installed" in again.stdout


def test_a_dry_run_lists_steps_and_changes_nothing(user: User) -> None:
    for tool in TOOLS:
        done = user.says("install", tool, "--dry-run")
        assert (done.returncode, "nothing was changed" in done.stdout) == (0, True), done
        assert user.says("uninstall", tool, "--dry-run").returncode == 0
    assert user.calls() == []
    assert not packages_folder().exists()
    assert not Path(settings_file("codex")).exists()


def test_a_missing_or_refusing_tool_changes_nothing(user: User) -> None:
    Path(f"{user.calls_file}.fails").touch()
    done = user.says("install", "claude-code")
    assert done.returncode == 1
    assert "`claude plugin marketplace` failed: your settings are damaged; mend it and install again" in done.stderr
    (user.folder / "bin" / "codex").unlink()
    done = user.says("install", "codex")
    assert (done.returncode, "`codex` is not on the PATH" in done.stderr) == (1, True)
    assert not (packages_folder() / "codex").exists()
    for wrong in (("--sender", "human"), ("--group", "no group"), ("--session", "s")):
        assert user.says("install", "gemini", *wrong).returncode == 2


def test_a_tool_that_refuses_to_remove_it_is_named(user: User) -> None:
    assert user.says("install", "gemini").returncode == 0
    Path(f"{user.calls_file}.fails").touch()
    done = user.says("uninstall", "gemini")
    assert (done.returncode, "it says: your settings are damaged" in done.stdout) == (1, True)
    assert "`gemini` may still run its hooks: mend that and uninstall again" in done.stderr
    assert user.says("uninstall", "gemini").returncode == 0  # nothing of ours is left to go on with


def test_settings_are_copied_before_their_first_change(user: User) -> None:
    settings = user.folder / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{ "model":   "opus" }')
    user.says("install", "claude-code")
    copy = packages_folder() / "claude-code-settings.json.before"
    assert copy.read_text() == '{ "model":   "opus" }'
    settings.write_text(json.dumps({"enabledPlugins": {PLUGIN: True}}))
    user.says("install", "claude-code")
    assert copy.read_text() == '{ "model":   "opus" }'


def commands_in(value: Any) -> list[str]:
    """Return all commands in settings of hooks."""
    if isinstance(value, dict):
        if value.get("type") == "command":
            return [value["command"]]
        value = list(value.values())
    return [command for member in value for command in commands_in(member)] if isinstance(value, list) else []


# Tool -> file of its package with the hooks, how that names its folder, the event that ends a turn, what is said.
_ITEM = {"type": "UserMessage", "id": "i", "content": [{"type": "text", "text": "Hello"}]}
_COMMANDS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "claude-code": (
        "hooks/hooks.json",
        "${CLAUDE_PLUGIN_ROOT}",
        "Stop",
        {"type": "user", "message": {"content": "Hello"}, "uuid": "u"},
    ),
    "codex": (
        "hooks/codex.json",
        "${PLUGIN_ROOT}",
        "Stop",
        {"type": "event_msg", "payload": {"type": "item_completed", "turn_id": "t", "item": _ITEM}},
    ),
    "gemini": (
        "hooks/hooks.json",
        "${extensionPath}",
        "AfterAgent",
        {"type": "user", "id": "u", "content": [{"text": "Hello"}]},
    ),
}


@pytest.mark.parametrize("tool", _COMMANDS)
def test_the_commands_of_an_installed_package_keep_a_turn(user: User, served: HostProcess, tool: str) -> None:
    user.home = served.home
    file, variable, name, said = _COMMANDS[tool]
    user.says("install", tool, "--group", tool)
    package = packages_folder() / tool
    hooks = json.loads((package / file).read_text())["hooks"]
    (command,) = commands_in(hooks[name])
    transcript = Transcript(user.folder / "transcript.jsonl")
    transcript.line(**said)

    def run_command() -> subprocess.CompletedProcess[str]:
        shell = ["sh", "-c", command.replace(variable, str(package))]
        return finished(shell, input=event(transcript, name), env=user.environment)

    done = run_command()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (turn,) = wait_for(lambda: turns_of(user.home, "7b0c2d1e", tool))
    assert (turn["content"], turn["by"]) == ("Hello", tool)
    assert all(finding.check == tool and finding.level == "warning" for finding in coding_tools(user.home))
    (state,) = states(user.home)
    assert None not in (state.heartbeat, state.kept)
    user.says("uninstall", tool)
    assert run_command().returncode == 0  # 2, which Python ends with, would stop a session that goes on


def test_an_agent_plugin_starts_the_server_for_its_sender(served: HostProcess, user: User) -> None:
    user.home = served.home
    done = user.says("install", "agent-plugin", "--sender", "cursor")
    assert done.returncode == 0, done.stderr
    package = packages_folder() / "agent-plugin" / "cursor"
    assert str(package) in done.stdout
    manifest = json.loads((package / "plugin.json").read_text())
    assert manifest["$schema"].endswith("/1.0.0/plugin.schema.json")
    server = json.loads((package / "mcp.json").read_text())["mcpServers"]["honeybadger"]
    assert server["type"] == "stdio"
    (user.folder / "work").mkdir()
    (user.folder / "work" / ".honeybadger").write_text("group = boats\n")
    command = [server["command"], *server["args"]]
    tool_called(command, "save_memory", "The boat lies in Kiel", cwd=user.folder / "work", env=user.environment)
    (hit,) = SyncClient(user.home, "boats", "ann").search_memory("Where does the boat lie?").hits
    assert (hit.text, hit.author) == ("The boat lies in Kiel", "cursor")


def test_the_doctor_says_why_hooks_do_not_run(user: User) -> None:
    def told(tool: str) -> str:
        return "\n".join(f"{each.message} -> {each.now_what}" for each in coding_tools(user.home) if each.check == tool)

    assert list(coding_tools(user.home)) == []
    for tool in ("claude-code", "codex", "gemini"):
        user.says("install", tool)
    files = {name: TOOLS[name].settings_file for name in ("claude-code", "codex", "gemini")}
    for file in files.values():
        file.parent.mkdir(parents=True)
    assert "does not enable the plugin" in told("claude-code")
    files["claude-code"].write_text(json.dumps({"enabledPlugins": {PLUGIN: True}, "disableAllHooks": True}))
    assert "switches all hooks off -> remove disableAllHooks" in told("claude-code")
    files["claude-code"].write_text(json.dumps({"enabledPlugins": {PLUGIN: True}}))
    assert told("claude-code").startswith("claude-code in the group main: no hook has run since it was installed")
    enabled = f'[plugins."{PLUGIN}"]\nenabled = true\n'
    files["codex"].write_text(f"{enabled}[features]\nhooks = false\n")
    assert "switches hooks off" in told("codex")
    assert "not trusted" in told("codex")
    events = ("session_start", "user_prompt_submit", "stop", "session_end")
    states = [f'[hooks.state."{PLUGIN}:hooks/codex.json:{each}:0:0"]\ntrusted_hash = "sha256:0"\n' for each in events]
    files["codex"].write_text(enabled + "".join(states[1:]))
    assert "not trusted" in told("codex")
    files["codex"].write_text(enabled + "".join(states))
    assert "no hook has run since it was installed" in told("codex")
    files["codex"].write_text("[")
    assert "cannot be read" in told("codex")
    assert "the extension is not there" in told("gemini")
    (files["gemini"].parent / "extensions" / "honeybadger").mkdir(parents=True)
    files["gemini"].write_text(json.dumps({"hooksConfig": {"enabled": False}}))
    assert "switches hooks off" in told("gemini")
    (user.folder / "bin" / "gemini").unlink()
    assert "`gemini` is not on the PATH" in told("gemini")
    Path(settings_file("gemini")).write_text("{")
    assert "install gemini` again" in told("gemini")


def test_every_manifest_has_the_version_of_the_package() -> None:
    sources = Path(sys.modules["honeybadger_agent.hooks.tools"].__file__ or "").parent
    manifests = [path for path in sources.rglob("*.json") if path.name in ("plugin.json", "gemini-extension.json")]
    assert len(manifests) == 4
    assert {json.loads(path.read_text())["version"] for path in manifests} == {__version__}
    listed = {str(sources / name) for tool in TOOLS.values() for name in tool.files}
    packed = [path for path in sources.rglob("*") if path.suffix in (".json", ".md")]
    assert {str(path) for path in packed} <= listed
    assert all(os.path.isfile(name) for name in listed)
