"""Conditions on what entries hold: `where` of `list_memory_entries`. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from honeybadger_host.memory.entries.entry import Entry

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def holds(where: Mapping[str, Any], entry: Entry) -> bool:
    """Return whether all conditions hold for an entry. What is not there is null."""
    held: dict[str, Any] = {"metadata": entry.metadata, "content": _json_of(entry.content)}
    for path, condition in where.items():
        value: Any = held
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        operators = condition if isinstance(condition, Mapping) else {"$eq": condition}
        if not all(_compared(value, name, wanted) for name, wanted in operators.items()):
            return False
    return True


def _json_of(content: str) -> Any:
    """Return the JSON that a text is; None: it is not."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _compared(value: Any, name: str, wanted: Any) -> bool:
    """Return whether a value compares to another. Only numbers and numbers, or texts and texts, have an order."""
    if name in ("$eq", "$ne"):
        is_same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
        return is_same == (name == "$eq")
    for kind in (str, int | float):
        if isinstance(value, kind) and isinstance(wanted, kind) and not isinstance(value, bool):
            return _COMPARISONS[name](value, wanted)
    return False
