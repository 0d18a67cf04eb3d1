"""Facts of other memories: mem0's JSON, the graph of the MCP memory server, an agent file of Letta."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from honeybadger_agent.wire import Role
from honeybadger_host.transfer.importing import session_of
from honeybadger_host.transfer.json_elements import read_elements
from honeybadger_host.transfer.records import Fact, Found, SaidTurn, Skipped, SourceFile, time_of

MEM0: Final = "mem0"
MCP: Final = "mcp-memory"
LETTA: Final = "letta"
_ROLES: Final[Mapping[str, Role]] = {"user": "user", "assistant": "assistant"}
_LONGEST_LINE: Final = 64 * 1024 * 1024


def read_mem0(file: SourceFile) -> Iterator[Found]:
    """Yield the memories of what `get_all` or an export of mem0 returned."""
    if file.name.endswith(".json"):
        yield from read_elements(file, "memory", _memories)


def _memories(value: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    rows = value.get("results") or value.get("memories")
    for number, row in enumerate(rows if isinstance(rows, list) else [value], 1):
        at = f"{where}.{number}" if isinstance(rows, list) else where
        text = row.get("memory") or row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str) or not text.strip():
            yield Skipped(at, "it has no text (memory)")
            continue
        created = time_of(row.get("created_at")) or file.modified
        metadata = {**(row.get("metadata") or {})}
        metadata |= {name: row[name] for name in ("user_id", "agent_id", "app_id", "run_id") if row.get(name)}
        tags = tuple(tag for tag in row.get("categories") or () if isinstance(tag, str))
        yield Fact(
            place=str(row.get("id") or row.get("hash") or text),
            where=at,
            content=text,
            category=MEM0,
            tags=tags,
            metadata=metadata,
            created=created,
            updated=time_of(row.get("updated_at")) or created,
        )


def read_mcp_memory(file: SourceFile) -> Iterator[Found]:
    """Yield an entry for each entity of a graph: what was observed of it, and how it relates to others."""
    if file.name.endswith((".jsonl", ".json")):
        yield from _graph(file)


def _graph(file: SourceFile) -> Iterator[Found]:
    entities: dict[str, tuple[str, list[str], str]] = {}
    try:
        with file.open() as opened:
            for number, line in enumerate(iter(lambda: opened.readline(_LONGEST_LINE), b""), 1):
                where = f"{file.name}, line {number}"
                try:
                    match orjson.loads(line) if line.strip() else None:
                        case {"type": "entity", "name": str(name), "observations": [*said], **rest}:
                            held = entities.setdefault(name, ("", [], where))[1]
                            lines = [*held, *(f"- {text}" for text in said)]
                            entities[name] = (str(rest.get("entityType") or ""), lines, where)
                        case {"type": "relation", "from": str(name), "to": str(to), "relationType": str(kind)}:
                            entities.setdefault(name, ("", [], where))[1].append(f"- {kind}: {to}")
                        case None:
                            pass
                        case _:
                            yield Skipped(where, "it is neither an entity nor a relation")
                except orjson.JSONDecodeError:
                    yield Skipped(where, "it is not JSON")
    except OSError as error:
        yield Skipped(file.name, str(error))
    for name, (kind, lines, where) in entities.items():
        text = "\n".join([name, *lines])
        yield Fact(name, where, text, MCP, name, tags=(kind,) if kind else (), created=file.modified)


def read_letta(file: SourceFile) -> Iterator[Found]:
    """Yield the blocks of agents as entries, and what was said with them as turns."""
    if file.name.endswith((".af", ".json")):
        yield from read_elements(file, "agent", _agents)


def _agents(value: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    agents = [agent for agent in value.get("agents") or [value] if isinstance(agent, dict)]
    name = str(agents[0].get("name") or file.stem) if agents else file.stem
    blocks = [*(value.get("blocks") or ()), *(block for agent in agents for block in agent.get("core_memory") or ())]
    for block in blocks:
        text, label = block.get("value"), str(block.get("label"))
        if isinstance(text, str) and text.strip():
            place = f"{name}/{block.get('id') or label}"
            yield Fact(place, where, text, LETTA, f"{name}: {label}", created=time_of(block.get("created_at")))
    for number, agent in enumerate(agents):
        session = session_of(LETTA, str(agent.get("id") or f"{name}-{number}").replace(" ", "-"))
        for at, message in enumerate(agent.get("messages") or (), 1):
            text = _said(message) if isinstance(message, dict) else None
            role = _ROLES.get(str(message.get("role"))) if isinstance(message, dict) else None
            if text and role is not None:
                place, said_at = str(message.get("id") or at), time_of(message.get("created_at"))
                yield SaidTurn(session, place, f"{where}, message {at}", role, text, said_at or file.modified)


def _said(message: Mapping[str, Any]) -> str:
    """Return what a message says: agents say it with a tool, and what users say is packed into JSON."""
    content = message.get("content") or message.get("text") or ""
    parts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        if function.get("name") == "send_message":
            parts = [_unpacked(str(function.get("arguments")))]
    return "\n\n".join(text for part in parts if (text := _unpacked(part).strip()))


def _unpacked(text: str) -> str:
    try:
        value = orjson.loads(text) if text.lstrip().startswith("{") else None
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        return text
    return value["message"] if value.get("type") in (None, "user_message") else ""
