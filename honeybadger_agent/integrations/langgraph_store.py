"""A store of LangGraph in a group's memory: `graph.compile(store=GroupStore(SyncClient(…)))`.

Each item is a document in `store/langgraph/…`, named after its key; nothing recalls or searches it. It imports
`langgraph.store.base`, the extra `langgraph`. Its limits: docs/adapters.md.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from langgraph.store import base

from honeybadger_agent.client import SyncClient
from honeybadger_agent.errors import NotFound, Unavailable
from honeybadger_agent.escaping import escaped, unescaped
from honeybadger_agent.wire import MAX_LISTED, MAX_OPERATIONS, OPERATORS, EntriesResult, EntryResult, EntryRow

_ROOT = "store/langgraph"
_UNKNOWN = "1970-01-01T00:00:00Z"
_INDEXED_WITHIN_SECONDS = 30.0  # for the host to index a large group


class GroupStore(base.BaseStore):  # type: ignore[misc]
    """Items that stay, with their namespaces and keys as they are, signed with the client's sender."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Return the results of operations: all reads come first, then all writes, 100 items in one change.

        Raises `AgentError`. Raises TypeError, ValueError: a value is not JSON; an operator or a label is not possible.
        """
        results: list[base.Result] = []
        puts: dict[tuple[tuple[str, ...], str], base.PutOp] = {}
        for op in ops:
            match op:
                case base.GetOp():
                    results.append(self._get(op))
                case base.SearchOp():
                    results.append(self._search(op))
                case base.ListNamespacesOp():
                    results.append(self._namespaces(op))
                case base.PutOp():
                    puts[op.namespace, op.key] = op  # the last one of a key wins
                    results.append(None)
                case _:
                    raise ValueError(f"Unknown operation type: {type(op)}")
        self._write([_change(op) for op in puts.values()])
        return results

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Do what `batch` does, on a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _get(self, op: base.GetOp) -> base.Item | None:
        try:
            entry = self._client.get_memory(category=_category(op.namespace), name=escaped(op.key))
        except NotFound:
            return None
        return _item(base.Item, entry)

    def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        category, where = _category(op.namespace_prefix), dict(_conditions("content", op.filter or {}))
        found: list[base.SearchItem] = []
        while len(found) < op.limit:
            most = min(op.limit - len(found), MAX_LISTED)
            listed = self._listed(category, where=where, limit=most, offset=op.offset + len(found), with_content=True)
            found += [_item(base.SearchItem, row) for row in listed.entries]
            if not listed.has_more:
                break
        return found

    def _namespaces(self, op: base.ListNamespacesOp) -> list[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        for folder in self._listed(_ROOT, limit=1).folders:
            namespace = _namespace(folder.category)
            if folder.entries and all(_matches(condition, namespace) for condition in op.match_conditions or ()):
                found.add(namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    def _listed(self, category: str, **asked: Any) -> EntriesResult:
        until = time.monotonic() + _INDEXED_WITHIN_SECONDS
        while not (listed := self._client.list_memory_entries(category=category, **asked)).is_complete:
            if time.monotonic() > until:
                raise Unavailable("the files of this memory are still being read: search again in a moment")
            time.sleep(0.1)
        return listed

    def _write(self, changes: list[dict[str, Any]]) -> None:
        while changes:
            try:
                self._client.change_many(changes[:MAX_OPERATIONS])
                del changes[:MAX_OPERATIONS]
            except NotFound as error:  # the item to delete does not exist
                place = (error.field or "").removeprefix("payload.operations.").partition(".")[0]
                del changes[int(place)]


def _category(namespace: tuple[str, ...]) -> str:
    labels = [escaped(label) for label in namespace]
    if any(label.startswith("__") for label in labels):
        raise ValueError(f"a label of {namespace} is too long: 64 characters at most, fewer with others than a-z 0-9 -")
    return "/".join((_ROOT, *labels))


def _namespace(category: str) -> tuple[str, ...]:
    return tuple(unescaped(part) or part for part in category.split("/")[2:])


def _change(op: base.PutOp) -> dict[str, Any]:
    payload: dict[str, Any] = {"category": _category(op.namespace), "name": escaped(op.key)}
    if op.value is None:
        return {"type": "delete_memory", "payload": payload}
    content = json.dumps(op.value, ensure_ascii=False, allow_nan=False)
    payload |= {"content": content, "metadata": {"key": op.key}, "replace": True}
    return {"type": "save_memory", "payload": payload}


def _conditions(path: str, wanted: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the conditions of the protocol for a filter. Raises ValueError."""
    for name, value in wanted.items():
        operators = value.keys() if isinstance(value, Mapping) else ()
        if not any(key.startswith("$") for key in operators):
            yield from _conditions(f"{path}.{name}", value) if operators else [(f"{path}.{name}", value)]
        elif unknown := set(operators).difference(OPERATORS):
            raise ValueError(f"Unsupported operator: {', '.join(unknown)}")
        else:
            yield f"{path}.{name}", value


def _item(kind: Any, entry: EntryRow | EntryResult) -> Any:
    return kind(
        namespace=_namespace(entry.category),
        key=str((entry.metadata or {}).get("key", entry.name)),
        value=json.loads(entry.content or "{}"),
        created_at=datetime.fromisoformat(entry.created or _UNKNOWN),
        updated_at=datetime.fromisoformat(entry.updated or _UNKNOWN),
    )


def _matches(condition: base.MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return len(labels) == len(path) and all(map(lambda label, wanted: wanted in ("*", label), labels, path))
