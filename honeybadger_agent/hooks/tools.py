"""The coding tools that Honeybadger can be installed in, and whether their hooks work."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from honeybadger_agent.hooks.program.box import HEARTBEAT, MARKS
from honeybadger_agent.hooks.program.settings import Refused, settings_file, settings_of

PLUGIN = "honeybadger@honeybadger"
_SKILL = ("skills/memory/SKILL.md",)
PROGRAM = "honeybadger_agent/hooks"  # where a package has the folder `program`, so that its imports are found
_PARTS = ("__init__", "events", "turns", "transcripts", "box", "settings")
_HOOK = ("hook.py", *(f"program/{part}.py" for part in _PARTS), *_SKILL)


@dataclass(frozen=True, slots=True)
class Tool:
    """A coding tool, and how our package is installed in it.

    Args:
        name: also the name of the sender, unless another one is chosen.
        program: empty: it has no single program.
        files: names of the package's files in this folder; there they lose the prefix `folder`, and `program/` is below
            `PROGRAM`.
        add: arguments of the program, one list for each call; {package} is the folder that was written.
        remove: the same for removing it; a call fails if there is nothing to remove.
        settings: the file that its program changes: the variable with its folder, the default folder below the user's,
            and the name of the file.
        then: what the person must do afterwards; empty: nothing.
    """

    name: str
    program: str
    files: tuple[str, ...]
    add: tuple[tuple[str, ...], ...] = ()
    remove: tuple[tuple[str, ...], ...] = ()
    folder: str = ""
    settings: tuple[str, ...] = ()
    then: str = ""

    @property
    def settings_file(self) -> Path:
        """The file below the folder that an environment variable names, else below the user's."""
        variable, folder, name = self.settings
        named = os.environ.get(variable)
        return (Path(named) if named else Path.home() / folder) / name


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            name="claude-code",
            program="claude",
            files=(
                ".claude-plugin/marketplace.json",
                ".claude-plugin/plugin.json",
                ".mcp.json",
                "hooks/hooks.json",
                *_HOOK,
            ),
            add=(("plugin", "marketplace", "add", "{package}"), ("plugin", "install", PLUGIN)),
            remove=(("plugin", "uninstall", PLUGIN), ("plugin", "marketplace", "remove", "honeybadger")),
            settings=("CLAUDE_CONFIG_DIR", ".claude", "settings.json"),
        ),
        Tool(
            name="codex",
            program="codex",
            files=(
                ".claude-plugin/marketplace.json",  # Codex reads the same one
                ".codex-plugin/plugin.json",
                ".codex-plugin/mcp.json",
                "hooks/codex.json",
                *_HOOK,
            ),
            add=(("plugin", "marketplace", "add", "{package}"), ("plugin", "add", PLUGIN)),
            remove=(("plugin", "remove", PLUGIN), ("plugin", "marketplace", "remove", "honeybadger")),
            settings=("CODEX_HOME", ".codex", "config.toml"),
            then="Codex runs no hook that you have not trusted, and does not say so. Start `codex`, enter /hooks and "
            "trust the four of honeybadger; again when they are new. Until then nothing is kept or recalled.",
        ),
        Tool(
            name="gemini",
            program="gemini",
            files=("gemini/gemini-extension.json", "gemini/hooks/hooks.json", *_HOOK),
            add=(("extensions", "install", "--consent", "{package}"),),
            remove=(("extensions", "uninstall", "honeybadger"),),
            folder="gemini/",
            settings=("GEMINI_CLI_HOME", "", ".gemini/settings.json"),
        ),
        Tool(
            name="agent-plugin",
            program="",
            files=("plugin.json", "mcp.json", *_SKILL),
            then="Give that folder to your tool as a plugin (Agent Plugins 1.0). It has the tools of the memory and a "
            "skill; without hooks nothing is kept automatically.",
        ),
    )
}


def packages_folder() -> Path:
    """Return the folder below which the packages are written."""
    data = os.environ.get("XDG_DATA_HOME", "")
    return Path(data if data.startswith("/") else Path.home() / ".local" / "share") / "honeybadger"


# --------------------------------------------------------------------------------------------------------------- state


@dataclass(frozen=True, slots=True)
class State:
    """The visible state of an installed tool.

    Args:
        is_there: its program is on the PATH.
        troubles: why its hooks do not run, each with what to do.
        heartbeat: when a hook ran last, in seconds since the epoch; None: never since it was installed.
        kept: when turns were handed over last.
    """

    tool: Tool
    group: str
    sender: str
    is_there: bool
    troubles: tuple[str, ...]
    heartbeat: float | None
    kept: float | None


def states(home: Path) -> Iterator[State]:
    """Yield what is installed for a home, for the current user."""
    for tool in TOOLS.values():
        try:
            chosen = settings_of(tool.name)
        except Refused as error:
            yield State(tool, "", "", _is_there(tool), (str(error),), None, None)
            continue
        if not chosen or not tool.program or Path(chosen.get("home", "")).absolute() != home.absolute():
            continue
        sender = chosen.get("sender", tool.name)
        heartbeat, kept = _last_signs(home, sender)
        if heartbeat is not None and heartbeat < Path(settings_file(tool.name)).stat().st_mtime:
            heartbeat = None
        troubles = tuple(_TROUBLES[tool.name](tool.settings_file))
        yield State(tool, chosen.get("group", "main"), sender, _is_there(tool), troubles, heartbeat, kept)


def _is_there(tool: Tool) -> bool:
    return shutil.which(tool.program) is not None


def _last_signs(home: Path, sender: str) -> tuple[float | None, float | None]:
    """Return when a hook of a sender ran last, and when it handed turns over, in any group."""
    beats: list[float] = []
    kept: list[float] = []
    for folder in home.glob(f"data/ipc/*/{sender}/{MARKS}"):
        for file in folder.iterdir():
            try:
                if file.name == HEARTBEAT:
                    beats.append(file.stat().st_mtime)
                else:
                    kept.append(float(json.loads(file.read_bytes())["kept"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue  # a mark that is being written
    return max(beats, default=None), max((moment for moment in kept if moment), default=None)


def _claude_troubles(file: Path) -> Iterator[str]:
    settings = _json_of(file)
    if settings.get("disableAllHooks"):
        yield f"{file} switches all hooks off: remove disableAllHooks"
    if not (settings.get("enabledPlugins") or {}).get(PLUGIN):
        yield f"{file} does not enable the plugin: run `claude plugin enable {PLUGIN}`"
    managed = Path("/etc/claude-code/managed-settings.json")
    if _json_of(managed).get("allowManagedHooksOnly"):
        yield f"{managed} allows managed hooks only: ask who manages this machine"


def _codex_troubles(file: Path) -> Iterator[str]:
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        settings = {}
    except (OSError, ValueError) as error:
        yield f"{file} cannot be read ({error}): correct it"
        return
    if (settings.get("features") or {}).get("hooks") is False:
        yield f"{file} switches hooks off: remove `hooks = false` below [features]"
    if not ((settings.get("plugins") or {}).get(PLUGIN) or {}).get("enabled"):
        yield f"{file} does not enable the plugin: run `honeybadger-agent install codex`"
    known = (settings.get("hooks") or {}).get("state") or {}
    ours = {name: value for name, value in known.items() if name.startswith(f"{PLUGIN}:")}
    events = len(_json_of(Path(__file__).parent / "hooks" / "codex.json")["hooks"])
    if sum(bool(value.get("trusted_hash")) for value in ours.values()) < events:
        yield "its hooks are not trusted, so Codex runs none: start `codex`, enter /hooks and trust them"
    if any(value.get("enabled") is False for value in ours.values()):
        yield "some of its hooks are switched off: start `codex`, enter /hooks and switch them on"


def _gemini_troubles(file: Path) -> Iterator[str]:
    if (_json_of(file).get("hooksConfig") or {}).get("enabled") is False:
        yield f"{file} switches hooks off: remove hooksConfig.enabled"
    if not (file.parent / "extensions" / "honeybadger").is_dir():
        yield "the extension is not there: run `honeybadger-agent install gemini`"


_TROUBLES = {"claude-code": _claude_troubles, "codex": _codex_troubles, "gemini": _gemini_troubles}


def _json_of(file: Path) -> dict[str, Any]:
    """Return the content of a settings file; empty if it cannot be read, which its tool reports itself."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
