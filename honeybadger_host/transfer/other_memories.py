"""Importers for mem0's JSON and for the graph of the MCP memory server."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from honeybadger_host.transfer.json_elements import Kinds, read_lines
from honeybadger_host.transfer.records import Fact, Found, Skipped, SourceFile, time_of

MEM0 = "mem0"
MCP = "mcp-memory"


def _memories(value: Mapping[str, Any], where: str, file: SourceFile) -> Iterator[Found]:
    """Yield the memories in the result of mem0's `get_all`, or in an export of mem0."""
    rows = value.get("results", value.get("memories"))
    for number, row in enumerate(rows if isinstance(rows, list) else [value], 1):
        at = f"{where}.{number}" if isinstance(rows, list) else where
        text = row.get("memory") or row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str) or not text.strip():
            yield Skipped(at, "it has no text (memory)")
            continue
        created = time_of(row.get("created_at")) or file.modified
        metadata, categories = row.get("metadata"), row.get("categories")
        own = {name: row[name] for name in ("user_id", "agent_id", "app_id", "run_id") if row.get(name)}
        yield Fact(
            place=str(row.get("id") or row.get("hash") or text),
            where=at,
            content=text,
            category=MEM0,
            tags=tuple(tag for tag in categories if isinstance(tag, str)) if isinstance(categories, list) else (),
            metadata=metadata | own if isinstance(metadata, dict) else own,
            created=created,
            updated=time_of(row.get("updated_at")) or created,
        )


MEM0S_FILES: Kinds = {re.compile(r".*\.json"): ("memory", _memories)}


def read_mcp_memory(file: SourceFile) -> Iterator[Found]:
    """Yield a fact for each entity of a graph, with its observations and relations."""
    if not file.name.endswith((".jsonl", ".json")):
        return
    entities: dict[str, tuple[str, list[str], str]] = {}
    for number, value in read_lines(file):
        where = f"{file.name}, line {number}"
        match value:
            case {"type": "entity", "name": str(name), "observations": [*said], **rest}:
                held = entities.setdefault(name, ("", [], where))[1]
                lines = [*held, *(f"- {text}" for text in said)]
                entities[name] = (str(rest.get("entityType") or ""), lines, where)
            case {"type": "relation", "from": str(name), "to": str(to), "relationType": str(kind)}:
                entities.setdefault(name, ("", [], where))[1].append(f"- {kind}: {to}")
            case Skipped():
                yield value
            case _:
                yield Skipped(where, "it is neither an entity nor a relation")
    for name, (kind, lines, where) in entities.items():
        yield Fact(
            place=name,
            where=where,
            content="\n".join([name, *lines]),
            category=MCP,
            title=name,
            tags=(kind,) if kind else (),
            created=file.modified,
        )
