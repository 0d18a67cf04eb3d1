"""The doctor's checks of agents, their models, tasks, prompts and coding tools: functions of the home folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from honeybadger_agent.hooks.tools import states
from honeybadger_agent.models import split_name
from honeybadger_agent.models.model import DEFAULT_URLS, ModelFailed
from honeybadger_agent.wording import count_of, in_words
from honeybadger_host.agents import AGENTS_FOLDER, Agent, agent_files, load_agent, unknown_agent
from honeybadger_host.configuration import host_zone, model_key
from honeybadger_host.curation.asking import NAMES, check_directives, directive_file
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.home import groups_in
from honeybadger_host.handlers.tasks import why_without_model
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.models import missing_extra
from honeybadger_host.ops.doctor.home_checks import settings_of
from honeybadger_host.ops.findings import Finding, ok, problem, warning
from honeybadger_host.settings import Model, Settings
from honeybadger_host.work.task_files import WrongSchedule, check_id, parse_task, schedule_of, task_file, tasks_of

_MODEL_TIMEOUT_SECONDS: Final = 3.0  # for the server of a model to answer


def agents(home: Path) -> Iterator[Finding]:
    """Check the files of agents and their models. A local server is asked, a provider is not. Raises SettingsError."""
    loaded = settings_of(home)
    models = {loaded.model.name: "model.name"}
    files = [name.removesuffix(".json") for name in agent_files(home)]
    for agent_id in files:
        agent = load_agent(home, agent_id)
        if isinstance(agent, str):
            yield warning("agents", f"{AGENTS_FOLDER}/{agent_id}.json: {agent}", "mend it; it counts at once")
            continue
        if agent.model is not None:
            models.setdefault(agent.model, f"agent {agent_id}")
        if missing := [name for name in agent.delegates_to if name not in (*files, loaded.turns.agent)]:
            yield warning(
                "agents",
                f"{AGENTS_FOLDER}/{agent_id}.json: delegates_to names {', '.join(missing)}, and there is no such agent",
                f"write {AGENTS_FOLDER}/{missing[0]}.json, or mend the name",
            )
    yield ok("agents", f"{loaded.turns.agent} answers; {count_of(len(files), 'file')} in {AGENTS_FOLDER}/")
    for name, wanted_by in models.items():
        yield _model(home, name, wanted_by, loaded)


def tasks(home: Path) -> Iterator[Finding]:
    """Check the files of tasks, and that the agent of each has a language model. Raises SettingsError."""
    loaded = settings_of(home)
    good = 0
    for group in groups_in(home):
        for task in tasks_of(home, group):
            try:
                _check_task(home, group, task, loaded)
                good += 1
            except WrongSchedule as error:
                why = f"{task_file(group, task)}: {error.member} {error}"
                yield warning("tasks", why, "mend it; until then it does not run")
            except (ValueError, WorldFailed) as error:
                yield warning("tasks", f"{task_file(group, task)}: {error}", "mend it; until then it does not run")
    if good:
        yield ok("tasks", f"{count_of(good, 'file')} can be read")


def _check_task(home: Path, group: str, task_id: str, loaded: Settings) -> None:
    """Raise ValueError, WorldFailed if a task cannot run."""
    check_id(task_id)
    task = parse_task(read_whole(home / task_file(group, task_id)) or b"")
    schedule_of(task, datetime.now(UTC), host_zone(), loaded.tasks.least_seconds)
    agent = task.agent or loaded.turns.agent
    there = {name.removesuffix(".json") for name in agent_files(home)} | {loaded.turns.agent}
    if agent not in there:
        raise ValueError(unknown_agent(agent, there))
    known = load_agent(home, agent)
    own_model = known.model if isinstance(known, Agent) else None
    if (why := why_without_model(agent, own_model or loaded.model.name)) is not None:
        raise ValueError(why)


def directives(home: Path) -> Iterator[Finding]:
    """Check the home's own prompts for curation."""
    wrong = list(check_directives(home))
    for file, why in wrong:
        yield warning("directives", f"{file} {why}", "mend it; until then the built-in prompt is used")
    if not wrong and (own := [name for name in NAMES if (home / directive_file(name)).exists()]):
        yield ok("directives", f"{', '.join(own)}: of this home")


def coding_tools(home: Path) -> Iterator[Finding]:
    """Check the coding tools that `honeybadger-agent install` connected: whether their hooks run and keep turns."""
    for state in states(home):
        name = state.tool.name
        for trouble in state.troubles:
            why, _, now_what = trouble.rpartition(": ")
            yield warning(name, why, now_what)
        if not state.is_there:
            yield warning(name, f"`{state.tool.program}` is not on the PATH", f"or honeybadger-agent uninstall {name}")
        if state.troubles:
            continue
        who = f"{state.sender} in the group {state.group}"
        if state.heartbeat is None:
            now_what = state.tool.then or f"start a new session of {name}"
            yield warning(name, f"{who}: no hook has run since it was installed", now_what)
            continue
        kept = f"turns were kept {_ago(state.kept)}" if state.kept else "no turn was kept yet"
        yield ok(name, f"{who}: a hook ran {_ago(state.heartbeat)}, {kept}")


def _ago(moment: float) -> str:
    return f"{in_words(max(0.0, time.time() - moment))} ago"


def _model(home: Path, name: str, wanted_by: str, loaded: Settings) -> Finding:
    what = f"{name} ({wanted_by})"
    try:
        kind, rest = split_name(name)
    except ModelFailed as error:
        return problem("model", f"{wanted_by}: {error}", "correct the name; see docs/models.md")
    match kind:
        case "offline":
            return ok("model", f"{what}: remembers and recalls, and is not a language model; see docs/models.md")
        case "scripted":
            if (home / rest).is_file():
                return ok("model", what)
            return problem("model", f"{what}: there is no such file", "correct the name")
        case "openai" | "anthropic" | "ollama":
            if (missing := missing_extra(name)) is not None:
                return problem("model", f"{wanted_by}: {missing}", "install it, or choose another model")
            is_own = kind == loaded.model.name.partition(":")[0]
            key, key_name = model_key(kind, is_own=is_own)
            server = _own_server(name, loaded.model)
            if not key and not server:
                return warning("model", f"{what} has no key in this environment", f"set {key_name} for the host")
            if server and (why := _why_silent(server)) is not None:
                advice = "start it, or correct model.base_url"
                return problem("model", f"{what}: its server at {server} cannot be asked: {why}", advice)
            return ok("model", f"{what}, served at {server}" if server else f"{what}, which is not asked here")


def _own_server(name: str, settings: Model) -> str:
    """Return the address of a model's server if it is configured or on this machine, else an empty text."""
    kind, _ = split_name(name)
    if kind == settings.name.partition(":")[0] and settings.base_url:
        return settings.base_url
    return DEFAULT_URLS["ollama"] if kind == "ollama" else ""


def _why_silent(url: str) -> str | None:
    """Return why a model's server does not list its models, or None if it does."""
    try:
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        with closing(kind(parts.hostname or "", parts.port, timeout=_MODEL_TIMEOUT_SECONDS)) as connection:
            connection.request("GET", f"{parts.path.rstrip('/')}/models")
            status = connection.getresponse().status
    except (OSError, HTTPException, ValueError) as error:
        return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return f"it answers with status {status}" if status >= 500 else None
