"""Install and uninstall the hooks in Claude Code: our own entries of its `settings.json`, and the MCP server.

Source: hooks and settings of Claude Code 2.1 (its documentation, "Hooks reference").
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from honeybadger_agent.errors import AgentError
from honeybadger_agent.mailbox import Mailbox

MODULE: Final = "honeybadger_agent.hooks.hook"
EVENTS: Final = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
HOOK_SECONDS: Final = 10
"""What Claude Code waits for a hook; it ends by itself within 4."""
MCP_NAME: Final = "honeybadger"


def install(home: Path, group: str, sender: str, told: Callable[[str], None], *, is_dry: bool) -> None:
    """Enter the hooks for a sender, in place of those that are there, and the MCP server.

    Args:
        told: gets the lines for the person.
        is_dry: change nothing, say what would be.
    Raises `AgentError`: the settings cannot be read or written; BadName.
    """
    Mailbox.of(home, group, sender)
    home = home.absolute()
    command = shlex.join(
        [sys.executable, "-I", "-m", MODULE, "--home", str(home), "--group", group, "--sender", sender]
    )
    settings = _read()
    hooks = _without_ours(settings.get("hooks", {}))
    for event in EVENTS:
        entry = {"hooks": [{"type": "command", "command": command, "timeout": HOOK_SECONDS}]}
        hooks.setdefault(event, []).append(entry)
    told(f"{_file()}: hooks {', '.join(EVENTS)} run {command}")
    server = [sys.executable, "-I", "-m", "honeybadger_agent.cli", "mcp"]
    server += ["--home", str(home), "--group", group, "--sender", sender]
    if not is_dry:
        _write({**settings, "hooks": hooks})
    _claude(["mcp", "remove", "--scope", "user", MCP_NAME], None, is_dry=is_dry)
    _claude(["mcp", "add", "--scope", "user", MCP_NAME, "--", *server], told, is_dry=is_dry)
    told(
        "nothing was changed (--dry-run)"
        if is_dry
        else f"done: the next session remembers as {sender} in the group {group}; a repository chooses another group "
        "with a file .honeybadger that says: group = NAME"
    )


def uninstall(told: Callable[[str], None], *, is_dry: bool) -> None:
    """Remove the hooks and the MCP server; what was remembered stays. Raises `AgentError`."""
    settings = _read()
    hooks = _without_ours(settings.get("hooks", {}))
    told(f"{_file()}: our hooks are removed")
    if not is_dry:
        rest = {name: value for name, value in settings.items() if name != "hooks"}
        _write({**rest, "hooks": hooks} if hooks else rest)
    _claude(["mcp", "remove", "--scope", "user", MCP_NAME], told, is_dry=is_dry)


def _without_ours(hooks: object) -> dict[str, list[Any]]:
    """Return the hooks of others, as they are."""
    if not isinstance(hooks, dict):
        raise AgentError(f"{_file()}: `hooks` is not an object: correct it, then install again")
    kept: dict[str, list[Any]] = {}
    for event, entries in hooks.items():
        others = [entry for entry in entries if MODULE not in json.dumps(entry)]
        if others:
            kept[event] = others
    return kept


def _file() -> Path:
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path.home() / ".claude") / "settings.json"


def _read() -> dict[str, Any]:
    try:
        value = json.loads(_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise AgentError(f"{_file()} cannot be read ({error}): correct it, then install again") from None
    if not isinstance(value, dict):
        raise AgentError(f"{_file()} is not a JSON object: correct it, then install again")
    return value


def _write(settings: dict[str, Any]) -> None:
    """Replace the settings in one step and keep the file that was there. Raises `AgentError`."""
    file = _file()
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if file.exists():
            shutil.copymode(file, temporary)
            shutil.copy2(file, file.with_name(f"{file.name}.before-honeybadger"))
        temporary.replace(file.resolve())
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise AgentError(f"cannot write {file}: {error.strerror}; nothing was changed") from None


def _claude(arguments: list[str], told: Callable[[str], None] | None, *, is_dry: bool) -> None:
    """Run the program `claude`, or tell a person to."""
    program = shutil.which("claude")
    line = shlex.join(["claude", *arguments])
    if told is not None:
        told(line if program else f"`claude` is not found: run this yourself: {line}")
    if program is None or is_dry:
        return
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)  # noqa: S603  our own words
    if done.returncode and told is not None:
        told(f"it failed: {(done.stderr or done.stdout).strip()}")
