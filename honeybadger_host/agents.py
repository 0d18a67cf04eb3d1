"""Agents of this home: identity, model and allowed tools of each (`config/agents/<id>.json`, AM5).

People write these files. A broken file is logged, and its last good version is used; other files are not affected.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from honeybadger_agent.mailbox import NAME, is_system_sender
from honeybadger_agent.wire import REQUEST_TYPES, AgentId, nearest
from honeybadger_agent.wording import listed
from honeybadger_host.files.file_cache import signature_of
from honeybadger_host.files.home import AGENTS_FOLDER
from honeybadger_host.files.safe_files import Signature, names_in
from honeybadger_host.log import log
from honeybadger_host.memory.edited import checked, read_json

# Files of a profile, in the order shown; each is optional.
PROFILE_FILES = ("soul.md", "directives.md", "style.md")
# Tools that every agent has.
PLUMBING = frozenset(
    {
        *("ping", "append_turn", "append_turns", "get_turns", "get_context", "get_history", "read_group_files"),
        "load_session",
    }
)
DELEGATION = frozenset({"delegate_to_agent", "list_available_agents"})  # tools of agents that delegate
_BUILT_IN = (
    "You are {name}, an assistant with a durable memory. What is remembered here was said or saved by people and "
    "agents of this group; take it as their word, and correct it when they do."
)


class AgentFile(BaseModel):
    """The model of `config/agents/<id>.json`; every member is optional."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str | None = None
    display_name: Annotated[str, StringConstraints(min_length=1, max_length=80)] | None = None
    description: Annotated[str, StringConstraints(max_length=2000)] = ""
    profile: str | None = None
    soul: str | None = None
    model: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    tools: list[str] | None = None
    delegates_to: list[AgentId] = []


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of this home.

    Args:
        model: None: the host's.
        tools: request types a model may be offered and the host takes from it; None: all that do not delegate.
        text: the persona in its file, for its context (HB5, AM5).
        source: the file that `text` is from.
        files: Markdown files with more of it, in the order shown, below the home folder or absolute; each may be
            missing.
        delegates_to: ids of the agents it can give tasks to; they may not exist.
    """

    id: str
    display_name: str
    description: str
    model: str | None
    tools: frozenset[str] | None
    text: str
    source: str
    files: tuple[str, ...] = ()
    delegates_to: tuple[str, ...] = ()


class Agents:
    """The agents, read again when a file changes. `refresh` runs on one thread at a time, the rest on any.

    Args:
        default: id of the agent that answers if a message names none; it exists without a file, too.
    """

    def __init__(self, home: Path, default: str) -> None:
        self._home = home
        self.default = default
        self.problems: Mapping[str, str] = {}  # file below the home folder -> the reason why it cannot be used
        self._signatures: Mapping[str, Signature | None] = {}
        self.current: Mapping[str, Agent] = {default: _built_in(default)}
        self.refresh()

    def specialists_of(self, sender: str) -> list[Agent]:
        """Return the agents that a sender can give tasks to."""
        agent, agents = self.current.get(sender), self.current
        return [] if agent is None else [agents[name] for name in agent.delegates_to if name in agents]

    def forbids(self, sender: str, type_name: str) -> str | None:
        """Return why a sender may not make a request of a type, or None if it may."""
        agent = self.current.get(sender)
        if type_name in DELEGATION and (agent is None or not agent.delegates_to):
            return f"{sender} cannot give tasks to others: there is no delegates_to in {AGENTS_FOLDER}/{sender}.json"
        if agent is None or agent.tools is None or type_name in agent.tools or type_name in PLUMBING:
            return None
        return f"agent {sender} has no tool {type_name}: {AGENTS_FOLDER}/{sender}.json lists those it has"

    def refresh(self) -> None:
        """Read the files that changed. One that cannot be used is logged once, and its last good version stays."""
        signatures = agent_files(self._home)
        if signatures == self._signatures:
            return
        found: dict[str, Agent] = {}
        problems: dict[str, str] = {}
        for name in signatures:
            agent_id, file = name.removesuffix(".json"), f"{AGENTS_FOLDER}/{name}"
            try:
                found[agent_id] = load_agent(self._home, agent_id)
            except ValueError as error:
                problems[file] = str(error)
                if agent_id in self.current:
                    found[agent_id] = self.current[agent_id]
                if self.problems.get(file) != problems[file]:
                    log.error(
                        "agent.refused",
                        file=file,
                        why=problems[file],
                        now_what="mend it; until then its last good version is used, if any",
                    )
        found.setdefault(self.default, _built_in(self.default))
        changed = [name for name in found.keys() | self.current.keys() if found.get(name) != self.current.get(name)]
        self._signatures, self.problems, self.current = signatures, problems, found
        if changed:
            log.info("agents.loaded", agents=len(found), changed=sorted(changed)[:20])


def unknown_agent(agent_id: str, known: Iterable[str]) -> str:
    """Return the message about an agent that does not exist, with the names of those that do."""
    return f"there is no agent {agent_id!r}; there are: {listed(sorted(known))}"


def agent_files(home: Path) -> Mapping[str, Signature | None]:
    """Return the names of the agents' files, each with a signature that changes when the file is saved.

    A folder with a profile is an agent without any other file (AM5).
    """
    folder = home / AGENTS_FOLDER
    files: set[str] = set()
    for name in names_in(folder):
        if NAME.fullmatch(name) and any((folder / name / one).is_file() for one in PROFILE_FILES):
            files.add(f"{name}.json")
        elif name.endswith(".json") and not name.startswith("."):
            files.add(name)
    return {name: signature_of(os.path.realpath(folder / name)) for name in sorted(files)}  # of what a link leads to


def _built_in(agent_id: str) -> Agent:
    name = agent_id.replace("-", " ").replace("_", " ").title()
    return Agent(agent_id, name, "", None, None, _BUILT_IN.format(name=name), "built in")


def load_agent(home: Path, agent_id: str) -> Agent:
    """Return the profile in an agent's file. Raises ValueError with the reason why it cannot be used."""
    if not NAME.fullmatch(agent_id):
        raise ValueError("its name is not an agent's: 1-64 characters of A-Z a-z 0-9 _ - before .json")
    if is_system_sender(agent_id):
        raise ValueError(f"the name {agent_id} is reserved for what the host itself writes down: rename the file")
    file = f"{AGENTS_FOLDER}/{agent_id}.json"
    folder = home / AGENTS_FOLDER / agent_id
    try:
        data = (home / file).read_bytes() if os.path.lexists(home / file) or not folder.is_dir() else b"{}"
    except OSError as error:
        raise ValueError(error.strerror or "cannot be read") from None
    value = read_json(data)
    for name in value.keys() - AgentFile.model_fields.keys():
        raise ValueError(f"{name!r} is unknown; {nearest(name, AgentFile.model_fields)}")
    said = checked(AgentFile, value)
    if said.id is not None and said.id != agent_id:
        raise ValueError(f"id is {said.id!r}, the file's name says {agent_id!r}: make them the same")
    known = [name for name, kind in REQUEST_TYPES.items() if kind.audience != "operator"]
    for tool in said.tools or ():
        if tool not in known:
            raise ValueError(f"tools: {tool[:60]!r} is unknown; {nearest(tool, known)}")
    name = said.display_name or agent_id
    profile = Path(said.profile or f"{AGENTS_FOLDER}/{agent_id}")
    files = [str(profile / one) for one in PROFILE_FILES]  # an absolute path stays as it is (AM4)
    if said.soul is not None:
        files[0] = str(profile / said.soul)
    text = f"You are {name} (agent `{agent_id}`)." + (
        f" {said.description.strip()}" if said.description.strip() else ""
    )
    tools = None if said.tools is None else frozenset(said.tools) - DELEGATION
    if said.delegates_to:
        tools = (frozenset(known) if tools is None else tools) | DELEGATION
    return Agent(
        agent_id,
        name,
        said.description,
        said.model,
        tools,
        text,
        source=file,
        files=tuple(files),
        delegates_to=tuple(dict.fromkeys(said.delegates_to)),
    )
