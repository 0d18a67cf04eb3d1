"""The doctor's checks of a home, and of its agents, models, prompts and coding tools: functions of the home folder."""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from honeybadger_agent.hooks.tools import states
from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME, OPERATOR
from honeybadger_agent.models import split_name
from honeybadger_agent.wording import MAX_NAMED, count_of, in_words, listed
from honeybadger_host import __version__
from honeybadger_host.agents import agent_files, load_agent
from honeybadger_host.configuration import check_targets, load_settings, model_key, values
from honeybadger_host.curation.asking import NAMES, check_directives, directive_file
from honeybadger_host.errors import FileProblem, HostError, JournalError, SettingsError, WorldFailed
from honeybadger_host.files.home import (
    AGENTS_FOLDER,
    GROUP_FILES,
    JOURNAL_FILE,
    check_home,
    groups_in,
    has_journal,
    is_served,
    read_holder,
)
from honeybadger_host.files.safe_files import names_in, printable
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.opening import DAMAGED_NOW_WHAT, check_journal
from honeybadger_host.memory.entries.entry import memory_folder, parse_entry, unused_members
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.peoples_files import check_groups
from honeybadger_host.models import what_is_missing
from honeybadger_host.observe import read_status
from honeybadger_host.ops.findings import Finding, faults_in
from honeybadger_host.settings import Settings
from honeybadger_host.spool.senders import load_senders
from honeybadger_host.work.times import dream_times

_LOOKED_AT = ("agents", "journal")  # parts of the status whose files are checked, too


def home_folder(home: Path) -> Iterator[Finding]:
    try:
        check_home(home, may_make=False)
        check_groups(home)
    except HostError as error:
        yield Finding("home", "problem", str(error), "see the message")
        return
    yield Finding("home", "ok", f"{home} can be served by uid {os.geteuid()}")
    for name in ("data", "groups", "config"):
        folder = home / name
        if folder.is_dir() and folder.stat().st_mode & 0o022:
            yield Finding("permissions", "warning", f"others may write into {folder}", f"chmod go-w {folder}")


def settings(home: Path) -> Iterator[Finding]:
    try:
        loaded = load_settings(home)
        dream_times(loaded.settings.dream)
        check_targets(home, loaded.settings)
        senders = load_senders(home) if loaded.settings.ipc.closed else {}
    except SettingsError as error:
        yield Finding("settings", "problem", str(error), "correct it; the host does not start with it")
        return
    changed = [name for name, origin in loaded.origins.items() if origin != "default"]
    yield Finding("settings", "ok", f"{len(changed)} changed: {', '.join(changed) or 'all defaults'}")
    here = dict(values(loaded.settings))
    if others := [f"{name} = {value}" for name, value in values(settings_of(home)) if value != here[name]]:
        yield Finding(
            "settings",
            "warning",
            f"the running host was started with other values: {listed(others)}",
            "start it again if it should have those of here; the checks below use its own settings",
        )
    if loaded.settings.ipc.closed:
        yield Finding(
            "senders",
            "ok" if senders else "warning",
            f"closed mode serves {count_of(len(senders), 'sender')}",
            "" if senders else "honeybadger-host sender add <group> <sender>",
        )
        agents = {loaded.settings.turns.agent, *(Path(file).stem for file in agent_files(home))}
        for box in sorted((home / "data" / "ipc").glob("*/*")):
            group, sender = box.parent.name, box.name
            is_known = (group, sender) in senders or sender == OPERATOR or sender in agents
            if not is_known and (waiting := names_in(box / "requests")):
                yield Finding(
                    "senders",
                    "warning",
                    f"closed mode does not serve {group}/{sender}, which sent {count_of(len(waiting), 'request')}",
                    f"honeybadger-host sender add {group} {sender}",
                )


def lock(home: Path) -> Iterator[Finding]:
    yield Finding("lock", "ok", f"served by {read_holder(home)}" if is_served(home) else "not served")


def journal(home: Path) -> Iterator[Finding]:
    path = home / JOURNAL_FILE
    try:
        if has_journal(home):
            yield Finding("journal", "ok", f"{count_of(check_journal(path), 'change')}, {path.stat().st_size} bytes")
    except JournalError as error:
        yield Finding(
            "journal", "problem", str(error), DAMAGED_NOW_WHAT if path.exists() else "do not start a host before"
        )


def settings_of(home: Path) -> Settings:
    """Return the settings of the running host, else those that one would be started with here. Raises SettingsError."""
    status = _status_of(home)
    return Settings.model_validate(status["settings"]) if status else load_settings(home).settings


def _status_of(home: Path) -> Mapping[str, Any]:
    """Return the status of the running host; empty: none runs, or none of this version has written one yet."""
    said = read_status(home)
    return said if said.get("version") == __version__ else {}


def running(home: Path) -> Iterator[Finding]:
    """Check the status that a running host writes."""
    said = _status_of(home)
    yield from faults_in({part: said[part] for part in said if part not in _LOOKED_AT})


def group_files(home: Path) -> Iterator[Finding]:
    files = GroupFiles(home)
    good = 0
    for path in sorted((home / "groups").iterdir()) if (home / "groups").is_dir() else ():
        if path.is_dir() and not path.name.startswith(".") and not NAME.fullmatch(path.name):
            yield Finding(
                "group files",
                "warning",
                f"{printable(str(path))} is not a group's name: nothing in it is served",
                "rename it: at most 64 characters of A-Z a-z 0-9 - _",
            )
    for group in groups_in(home):
        for name in GROUP_FILES:
            try:
                good += files.read(f"groups/{group}/{name}") is not None
            except FileProblem as error:
                yield Finding(
                    "group files", "problem", str(error), "until then its last good version is served, if any"
                )
    yield Finding("group files", "ok", f"{good} can be served")


def entries(home: Path) -> Iterator[Finding]:
    """Find files that are not entries, which the host skips, and members of entries that it does not use."""
    good, bad, unused = 0, list[str](), list[str]()
    for group in groups_in(home):
        for path in sorted((home / memory_folder(group)).rglob("*.json")):
            file = str(path.relative_to(home))
            if "/." in file:
                continue
            try:
                entry = parse_entry(read_whole(path) or b"", file)
                good += 1
                unused += [printable(f"{file}: {what}: it is not used") for what in unused_members(entry)]
            except (ValueError, WorldFailed) as error:
                bad.append(printable(f"{file}: {error}"))
    for what in bad[:MAX_NAMED]:
        yield Finding("entries", "warning", what, "mend, move or remove it")
    for what in unused[:MAX_NAMED]:
        yield Finding("entries", "warning", what, "mend it, or give a member of your own another name")
    yield Finding("entries", "ok", f"{good} can be served, {len(bad)} cannot")


def inboxes(home: Path) -> Iterator[Finding]:
    count = 0
    ipc = home / "data" / "ipc"
    for path in sorted([*ipc.glob("*"), *ipc.glob("*/*")]):
        what = "group" if path.parent == ipc else "sender"
        if path.is_symlink() or not path.is_dir() or not NAME.fullmatch(path.name) or path.name == GLOBAL_GROUP:
            yield Finding(
                "boxes", "warning", f"{path} is not a {what}'s folder and is not served", "rename or remove it"
            )
        elif what == "sender":
            count += 1
            for folder in path.iterdir():
                if folder.is_symlink():
                    yield Finding("boxes", "problem", f"{folder} is a link: the box is not served", "remove the link")
            if others := [name for name in names_in(path / "requests") if not name.endswith(".json")]:
                yield Finding(
                    "boxes",
                    "warning",
                    f"{path / 'requests'} has {count_of(len(others), 'file')} never served: {others[0]!r} first",
                    "a request's name is its id and .json: rename or remove it",
                )
    yield Finding("boxes", "ok", count_of(count, "box", "boxes"))


# --------------------------------------------------------------------------------------------- agents and their models


def agents(home: Path) -> Iterator[Finding]:
    """Check the files of agents and their models; no model is asked. Raises SettingsError."""
    loaded = settings_of(home)
    models = {loaded.model.name: "model.name"}
    files = [name.removesuffix(".json") for name in agent_files(home)]
    for agent_id in files:
        try:
            agent = load_agent(home, agent_id)
        except ValueError as error:
            yield Finding(
                "agents", "warning", f"{AGENTS_FOLDER}/{agent_id}.json: {error}", "mend it; it counts at once"
            )
            continue
        if agent.model is not None:
            models.setdefault(agent.model, f"agent {agent_id}")
        if missing := [name for name in agent.delegates_to if name not in (*files, loaded.turns.agent)]:
            yield Finding(
                "agents",
                "warning",
                f"{AGENTS_FOLDER}/{agent_id}.json: delegates_to names {', '.join(missing)}, and there is no such agent",
                f"write {AGENTS_FOLDER}/{missing[0]}.json, or mend the name",
            )
    yield Finding("agents", "ok", f"{loaded.turns.agent} answers; {count_of(len(files), 'file')} in {AGENTS_FOLDER}/")
    for name, wanted_by in models.items():
        yield _model(home, name, wanted_by, loaded)


def directives(home: Path) -> Iterator[Finding]:
    """Check the home's own prompts for curation."""
    wrong = list(check_directives(home))
    for file, why in wrong:
        yield Finding("directives", "warning", f"{file} {why}", "mend it; until then the built-in prompt is used")
    if not wrong and (own := [name for name in NAMES if (home / directive_file(name)).exists()]):
        yield Finding("directives", "ok", f"{', '.join(own)}: of this home")


def coding_tools(home: Path) -> Iterator[Finding]:
    """Check the coding tools that `honeybadger-agent install` connected: whether their hooks run and keep turns."""
    for state in states(home):
        name = state.tool.name
        for trouble in state.troubles:
            why, _, now_what = trouble.rpartition(": ")
            yield Finding(name, "warning", why, now_what)
        if not state.is_there:
            yield Finding(
                name, "warning", f"`{state.tool.program}` is not on the PATH", f"or honeybadger-agent uninstall {name}"
            )
        if state.troubles:
            continue
        who = f"{state.sender} in the group {state.group}"
        if state.heartbeat is None:
            yield Finding(
                name,
                "warning",
                f"{who}: no hook has run since it was installed",
                state.tool.then or f"start a new session of {name}",
            )
            continue
        kept = f"turns were kept {_ago(state.kept)}" if state.kept else "no turn was kept yet"
        yield Finding(name, "ok", f"{who}: a hook ran {_ago(state.heartbeat)}, {kept}")


def _ago(moment: float) -> str:
    return f"{in_words(max(0.0, time.time() - moment))} ago"


def _model(home: Path, name: str, wanted_by: str, loaded: Settings) -> Finding:
    what = f"{name} ({wanted_by})"
    if (missing := what_is_missing(name, loaded.model)) is not None:
        return Finding(
            "model", "problem", f"{wanted_by}: {missing}", "mend that, or choose another model; see docs/models.md"
        )
    kind, rest = split_name(name)
    if kind == "offline":
        return Finding("model", "ok", f"{what}: remembers and recalls, and is not a language model; see docs/models.md")
    if kind == "scripted" and not (home / rest).is_file():
        return Finding("model", "problem", f"{what}: there is no such file", "correct the name")
    is_own = kind == loaded.model.name.partition(":")[0]
    key, key_name = model_key(kind, is_own=is_own)
    if kind in ("openai", "anthropic") and not key and not (is_own and loaded.model.base_url):
        return Finding("model", "warning", f"{what} has no key in this environment", f"set {key_name} for the host")
    return Finding("model", "ok", f"{what}, which is not asked here")
