"""Three JSON objects made one: what a person saved, the version it was made from, and the newest one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

import orjson

from honeybadger_host.files.safe_files import BOM
from honeybadger_host.journal.line_hunks import alike

_MISSING: Final = object()


def object_in(data: bytes) -> dict[str, Any] | None:
    """Return the members of a JSON object, or None if a file holds anything else."""
    try:
        value = orjson.loads(data.removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def merge_json(base: bytes, newest: bytes, saved: bytes) -> bytes:
    """Return the newest object with what a person changed between `base` and `saved`; empty where it is removed.

    Objects are merged by member, lists of objects by their `id`, other lists as sets of their elements. Where both
    sides changed the same value, the person's is taken.
    """
    if saved in (base, newest):
        return newest
    if newest == base:
        return saved
    was, now, mine = (object_in(text) for text in (base, newest, saved))
    if now is None or mine is None:
        return saved
    merged = _merged(was or {}, now, mine)
    if merged in (now, mine):
        return newest if merged == now else saved
    return orjson.dumps(merged, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def nearest_json(candidates: Iterable[bytes], newest: bytes, saved: bytes) -> bytes:
    """Return the candidate that a save was most likely made from; empty if none is an object.

    Values that other versions have were read there, not typed, so the best candidate has most of them. Of several it is
    the one whose merge takes least out of the newest version, then the first. A value that was reworded is not taken
    out.
    """
    now, mine = (values_in(text) for text in (newest, saved))
    values = {one: values_in(one) for one in candidates if object_in(one) is not None}
    read = mine & reduce(or_, values.values(), Counter())
    typed = b"".join(value for _, value in mine - read)
    places = {place for place, _ in mine}
    gone = {place: value for place, value in now if place not in places}
    if alike(typed, b"".join(gone.values())):  # each of many values alone would take too long
        gone = {place: value for place, value in gone.items() if 2 * alike(typed, value) <= len(value)}

    def distance(candidate: bytes) -> tuple[int, int]:
        was = values[candidate]
        return (read - was).total(), len(gone.keys() & {place for place, _ in was})

    return min(values, key=distance, default=b"")


def values_in(data: bytes) -> Counter[tuple[str, bytes]]:
    """Return the values of an object with their places: the members, and ids in lists, that lead to each.

    An element of a list without ids is at a place of its own, which ends with it.
    """
    found: Counter[tuple[str, bytes]] = Counter()
    waiting: list[tuple[str, Any]] = [("", object_in(data) or {})]
    while waiting:
        place, value = waiting.pop()
        members = _by_id(value) if isinstance(value, list) else value
        if isinstance(members, dict):
            waiting += [(f"{place}/{name}", item) for name, item in members.items()]
        elif isinstance(value, list):
            elements = [orjson.dumps(item, option=orjson.OPT_SORT_KEYS) for item in value]
            found.update((f"{place}/{element.decode()}", element) for element in elements)
        else:
            found[place, orjson.dumps(value)] += 1
    return found


def _merged(base: Any, newest: Any, saved: Any) -> Any:
    """Return the merged value of both sides; `_MISSING` means an absent member."""
    if saved in (base, newest):
        return newest
    if newest == base:
        return saved
    if isinstance(newest, dict) and isinstance(saved, dict):
        return _merged_members(base if isinstance(base, dict) else {}, newest, saved)
    if isinstance(newest, list) and isinstance(saved, list):
        was = base if isinstance(base, list) else []
        objects = [one for one in map(_by_id, (was, newest, saved)) if one is not None]
        if len(objects) == 3:
            return [*_merged_members(*objects).values()]
        kept = [one for one in saved if one in newest or one not in was]
        return kept + [one for one in newest if one not in was and one not in kept]
    return saved


def _merged_members(base: dict[str, Any], newest: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name in dict.fromkeys((*saved, *newest)):
        value = _merged(base.get(name, _MISSING), newest.get(name, _MISSING), saved.get(name, _MISSING))
        if value is not _MISSING:
            members[name] = value
    return members


def _by_id(some: Sequence[Any]) -> dict[str, Any] | None:
    """Return the objects of a list by their ids; None: it is not a list of objects that each have one of their own."""
    found = {one["id"]: one for one in some if isinstance(one, dict) and isinstance(one.get("id"), str)}
    return found if len(found) == len(some) else None
