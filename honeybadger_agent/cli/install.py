"""`install` and `uninstall`: a package for a coding tool, installed and removed by the tool's own program.

Only that program writes the tool's settings. This module writes the package, a copy of `hooks/` with the paths of this
machine, and a file with home, group and sender.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from honeybadger_agent import hooks
from honeybadger_agent.errors import AgentError
from honeybadger_agent.home import find_home
from honeybadger_agent.hooks.program.settings import Refused, group_of, has_host, settings_file, settings_of
from honeybadger_agent.hooks.tools import PROGRAM, TOOLS, Tool, packages_folder
from honeybadger_agent.mailbox import Mailbox
from honeybadger_agent.wording import AGENT_EXTRA

_SOURCES = Path(hooks.__file__).parent


def install(tool: Tool, options: Mapping[str, Any], told: Callable[[str], None]) -> None:
    """Write the package of a tool and let its program install it; installing again changes only the named options.

    Args:
        options: `dry_run`; `home`, `group` and `sender` if they are given.
        told: called with each line for the person.
    Raises `AgentError` if a program is missing or failed; BadName; OSError.
    """
    before = _chosen(tool)
    home = find_home(options.get("home", before.get("home"))).absolute()
    group = options.get("group", before.get("group", "main"))
    sender = options.get("sender", before.get("sender", tool.name))
    Mailbox.of(home, group, sender)
    program = _program(tool)
    package = packages_folder() / tool.name / ("" if tool.program else sender)
    files = _package_of(tool, sender)
    told(f"{package}: {len(files)} files of the package")
    told(f"{settings_file(tool.name)}: {sender} in the group {group} of {home}")
    if not options["dry_run"]:
        shutil.rmtree(package, ignore_errors=True)
        for name, data in files.items():
            _write(package / name, data)
        chosen = {"home": os.fspath(home), "group": group, "sender": sender}
        _write(Path(settings_file(tool.name)), _json(chosen))
        if tool.program:
            _keep_settings(tool, told)
        for call in tool.remove:
            _call(program, call, package)
    for call in tool.add:
        told(shlex.join([tool.program, *(word.format(package=package) for word in call)]))
        if not options["dry_run"] and (why := _call(program, call, package)) is not None:
            raise AgentError(f"`{shlex.join([tool.program, *call[:2]])}` failed: {why}; mend it and install again")
    if options["dry_run"]:
        told("nothing was changed (--dry-run)")
        return
    told(f"done: the next session of {tool.name} uses the memory of the group {group}")
    told("a repository uses another group if its file .honeybadger says: group = NAME")
    if tool.then:
        told(f"still to do: {tool.then}")
    if not _has_server():
        told(f"still to do, if the model should search unasked: {AGENT_EXTRA.format('mcp')}; then install again")
    if has_host(home) is False:
        told(f"still to do: start the host: honeybadger-host run --home {shlex.quote(os.fspath(home))}")


def uninstall(tool: Tool, told: Callable[[str], None], *, is_dry: bool) -> None:
    """Remove the package from a tool and from the disk; memory stays. Raises `AgentError` if it may still run."""
    package, chosen = packages_folder() / tool.name, Path(settings_file(tool.name))
    program = shutil.which(tool.program) if tool.program else None
    found = [str(path) for path in (package, chosen) if path.exists()]
    is_refused = False
    for call in tool.remove:
        line = shlex.join([tool.program, *call])
        told(line if program else f"`{tool.program}` is not on the PATH: run this yourself: {line}")
        if program and not is_dry and (why := _call(program, call, package)) is not None:
            told(f"  it says: {why}")
            is_refused = True
    removed = f"{' and '.join(found)}: removed" if found else f"{tool.name} was not installed"
    told(f"{removed}; what is remembered stays")
    if is_dry:
        told("nothing was changed (--dry-run)")
        return
    shutil.rmtree(package, ignore_errors=True)
    chosen.unlink(missing_ok=True)
    if found and is_refused:
        raise AgentError(f"`{tool.program}` may still run its hooks: mend that and uninstall again")


def place_for(tool: str, folder: Path) -> dict[str, str]:
    """Return home, group and sender of a tool that runs in a folder. Raises `AgentError`."""
    chosen = _chosen(TOOLS[tool])
    try:
        group = group_of(os.fspath(folder), chosen.get("group", "main"))
    except Refused as error:
        raise AgentError(str(error)) from None
    return {"sender": tool, **chosen, "group": group}


def _chosen(tool: Tool) -> dict[str, str]:
    try:
        return settings_of(tool.name)
    except Refused as error:
        raise AgentError(f"{error}, after you removed it") from None


def _program(tool: Tool) -> str:
    """Return the path of a tool's program; empty: it has none. Raises `AgentError`."""
    if not tool.program:
        return ""
    program = shutil.which(tool.program)
    if program is None:
        raise AgentError(
            f"`{tool.program}` is not on the PATH: install {tool.name}, or add its folder to the PATH, and run this "
            "again; nothing was changed"
        )
    return program


def _keep_settings(tool: Tool, told: Callable[[str], None]) -> None:
    """Copy the tool's settings as they were before its program changes them for the first time."""
    file, copy = tool.settings_file, packages_folder() / f"{tool.name}-{tool.settings_file.name}.before"
    if file.is_file() and b"honeybadger" not in file.read_bytes():
        _write(copy, file.read_bytes())
        told(f"{copy}: a copy of {file}, which `{tool.program}` changes")


def _call(program: str, arguments: tuple[str, ...], package: Path) -> str | None:
    """Run a tool's program; return why it failed, or None."""
    words = [word.format(package=package) for word in arguments]
    package.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(  # noqa: S603  our own words
            [program, *words],
            input="y\n",  # Gemini asks whether the folder may be trusted: the package, which is the current folder
            cwd=package,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return None
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr.strip() or done.stdout.strip())
    return said.partition("Stack backtrace")[0].strip() or f"exit code {done.returncode}"


# ------------------------------------------------------------------------------------------------------------- package


def _package_of(tool: Tool, sender: str) -> dict[str, bytes]:
    """Return the files of a tool's package: names below its folder -> contents.

    Their hooks start with the interpreter below this installation: a hook needs only the standard library, so it works
    even after the environment of this command is removed.
    """
    python = json.dumps(shlex.quote(getattr(sys, "_base_executable", None) or sys.executable))[1:-1]
    files: dict[str, bytes] = {}
    for name in tool.files:
        data = (_SOURCES / name).read_bytes()
        if name.endswith(".json"):
            value = json.loads(data.replace(b'"command": "python3 ', f'"command": "{python} '.encode()))
            if isinstance(servers := value.get("mcpServers"), dict):
                is_wanted = _has_server() or not tool.program
                own = _server(servers["honeybadger"], tool, sender)
                value["mcpServers"] = {"honeybadger": own} if is_wanted else {}
            data = _json(value)
        files[f"{PROGRAM}/{name}" if name.startswith("program/") else name.removeprefix(tool.folder)] = data
    return files


def _server(entry: dict[str, Any], tool: Tool, sender: str) -> dict[str, Any]:
    """Return the settings with which a tool starts the MCP server of this installation, whatever its PATH is."""
    who = [] if tool.program else ["--sender", sender]
    words = ["-I", "-m", "honeybadger_agent.cli", *entry["args"], *who]
    return {**entry, "command": sys.executable, "args": words}


def _has_server() -> bool:
    """Return whether the extra of the MCP server is installed."""
    return importlib.util.find_spec("mcp") is not None


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _write(path: Path, data: bytes) -> None:
    """Replace a file in one step. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_bytes(data)
    temporary.replace(path)
