"""The doctor's checks of agents, their models, prompts and coding tools: functions of the home folder."""

import time
from collections.abc import Iterator
from pathlib import Path

from honeybadger_agent.hooks.tools import states
from honeybadger_agent.models import split_name
from honeybadger_agent.wording import count_of, in_words
from honeybadger_host.agents import agent_files, load_agent
from honeybadger_host.configuration import model_key
from honeybadger_host.curation.asking import NAMES, check_directives, directive_file
from honeybadger_host.files.home import AGENTS_FOLDER
from honeybadger_host.models import what_is_missing
from honeybadger_host.ops.doctor.home_checks import settings_of
from honeybadger_host.ops.findings import Finding
from honeybadger_host.settings import Settings


def agents(home: Path) -> Iterator[Finding]:
    """Check the files of agents and their models; no model is asked. Raises SettingsError."""
    loaded = settings_of(home)
    models = {loaded.model.name: "model.name"}
    files = [name.removesuffix(".json") for name in agent_files(home)]
    for agent_id in files:
        try:
            agent = load_agent(home, agent_id)
        except ValueError as error:
            why = f"{AGENTS_FOLDER}/{agent_id}.json: {error}"
            yield Finding("agents", "warning", why, "mend it; it counts at once")
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
            now_what = state.tool.then or f"start a new session of {name}"
            yield Finding(name, "warning", f"{who}: no hook has run since it was installed", now_what)
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
