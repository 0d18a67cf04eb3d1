"""Three texts made one: what a person saved, the version it was made from, and the newest one. Pure.

Texts are compared by units: a line is one, and so is a signed note with its heading, so that no note ever comes to
stand below another's heading. JSON objects are merged by member.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, reduce
from itertools import pairwise
from operator import or_
from typing import Any, NamedTuple

import orjson

from honeybadger_host.journal.line_hunks import Hunk, alike, hunks_between, lines_of
from honeybadger_host.text.json_values import BOM, object_in

_SIGNED = rb"## [^\n]*\([^(),\n]+, \d{4}-\d\d-\d\d \d\d:\d\d\)"  # the first line of a note that the host wrote

_HEADINGS = re.compile(rb"^## ", re.MULTILINE)
# A note: its heading, its item, lines indented below it, and why it was archived.
_NOTE = re.compile(
    _SIGNED + rb"[^\S\n]*"
    rb"(?:\n- [^\n]*(?:\n(?:[^\S\n]*\n)*  [^\n]*\S[^\n]*)*(?:\n> Archived [^\n]*)?)?(?:\n|\Z)"
)
# A note of one line with blank lines below it, as nearly all are: 5,000 of them take 8 ms, line by line 45.
_SIMPLE = re.compile(rb"(" + _SIGNED + rb"[^\S\n]*\n- [^\n]*\n)(\n*)")

# The beginning of a note as formatters of Markdown lay it out: a blank line below the heading, another bullet.
_LAID_OUT = re.compile(rb"^(" + _SIGNED + rb")[^\S\n]*\n(?!- \S)(?:[^\S\n]*\n)*[-*+][ \t]+", re.MULTILINE)


@lru_cache(maxsize=4)  # one save asks for the same three texts again and again: 10 ms each for 1 MiB
def units_of(text: bytes) -> tuple[bytes, ...]:
    """Return the units of a text in order; joined they are the text again."""
    starts = [0, *(found.start() for found in _HEADINGS.finditer(text)), len(text)]
    units: list[bytes] = []
    for start, end in pairwise(starts):
        if simple := _SIMPLE.fullmatch(text, start, end):
            units += [simple[1], *[b"\n"] * len(simple[2])]
            continue
        if note := _NOTE.match(text, start, end):
            units.append(note[0])
            start = note.end()
        units += lines_of(text[start:end])
    return tuple(units)


def as_written(saved: bytes) -> bytes:
    """Return a saved text whose lines end and whose notes begin as the host writes them, whatever an editor made.

    Else every line would be the person's, and no note its author's.
    """
    return _LAID_OUT.sub(rb"\1\n- ", saved.removeprefix(BOM).replace(b"\r\n", b"\n"))


def notes_in(text: bytes) -> list[bytes]:
    """Return the units of a text that are notes, as the host signed them."""
    return [unit for unit in units_of(text) if re.match(_SIGNED, unit)]


def merge(base: bytes, newest: bytes, saved: bytes) -> bytes:
    """Return the newest text with what a person changed between `base` and `saved`.

    A change of one side is taken. If both changed the same units, the person's come first, then the new ones of the
    other side. Units of the base that the saved text lacks are deleted; units that came after the base stay.
    """
    if saved in (base, newest):
        return newest
    if newest == base:
        return saved
    units = units_of(base)
    theirs, ours = hunks_between(units, units_of(newest)), hunks_between(units, units_of(saved))
    both = Counter(unit.strip() for hunk in ours for unit in hunk.added if unit.strip())
    both.subtract(unit.strip() for hunk in ours for unit in hunk.removed)  # it was only moved
    theirs = [hunk._replace(added=_unknown(hunk.added, both, keep_blank_end=True)) for hunk in theirs]
    merged: list[bytes] = []
    at = 0
    for piece in _pieces(theirs, ours):
        merged += units[at : piece.start]
        resolved = [*_resolved(units, piece)]
        if piece.theirs and resolved and resolved[0].startswith(b"## ") and merged and merged[-1].strip():
            merged.append(b"\n")  # a note that came keeps its blank line
        merged += resolved
        at = piece.end
    return _joined([*merged, *units[at:]])


class Overlapping(ValueError):
    """Both sides changed the same lines.

    Args:
        line: the first of them, from 0, in the base.
    """

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line + 1} is not as it was")
        self.line = line


def merge_lines(base: bytes, newest: bytes, saved: bytes) -> bytes:
    """Return the newest text with what makes `saved` of `base`, line by line. Raises Overlapping."""
    # a note may have been written below a last line without an end
    if base and not base.endswith(b"\n") and newest.startswith(base + b"\n"):
        base, saved = base + b"\n", saved if saved.endswith(b"\n") else saved + b"\n"
    try:
        return _merged_apart(lines_of(base), lines_of(newest), lines_of(saved))
    except Overlapping:
        with suppress(Overlapping):  # notes of one minute have equal headings: as lines they look interleaved
            return _merged_apart(units_of(base), units_of(newest), units_of(saved))
        raise


def _merged_apart(lines: Sequence[bytes], theirs: Sequence[bytes], ours: Sequence[bytes]) -> bytes:
    """Return lines, or units, with the changes of both sides. Raises Overlapping."""
    merged: list[bytes] = []
    at = 0
    for piece in _pieces(hunks_between(lines, theirs), hunks_between(lines, ours)):
        mine, other = _side(lines, piece, piece.ours), _side(lines, piece, piece.theirs)
        merged += lines[at : piece.start]
        if not (piece.ours and piece.theirs):
            merged += mine if piece.ours else other
        elif mine == other:
            merged += other
        elif piece.start == piece.end:
            merged += other if other[: len(mine)] == mine else mine + other  # it may have been restored already
        else:
            raise Overlapping(max(piece.ours[0].at, piece.theirs[0].at))
        at = piece.end
    return _joined([*merged, *lines[at:]])


class _Piece(NamedTuple):
    """Units of the base that somebody changed, `start` to `end`, and the hunks of both sides in them."""

    start: int
    end: int
    theirs: list[Hunk]
    ours: list[Hunk]


def _pieces(theirs: Sequence[Hunk], ours: Sequence[Hunk]) -> Iterator[_Piece]:
    """Yield pieces in order; hunks that overlap, or insert at the same place, are in one piece."""
    left = [(hunk.at, len(hunk.removed), side, hunk) for side, some in enumerate((ours, theirs)) for hunk in some]
    piece: _Piece | None = None
    for start, size, is_theirs, hunk in sorted(left, key=lambda one: one[:3]):
        if piece is None:
            piece = _Piece(start, start, [], [])
        elif start >= piece.end and not (start == piece.start == piece.end and not size):
            yield piece
            piece = _Piece(start, start, [], [])
        (piece.theirs if is_theirs else piece.ours).append(hunk)
        piece = piece._replace(end=max(piece.end, start + size))
    if piece is not None:
        yield piece


def _resolved(units: Sequence[bytes], piece: _Piece) -> Iterable[bytes]:
    """Return the units that replace a piece."""
    ours, theirs = _side(units, piece, piece.ours), _side(units, piece, piece.theirs)
    if not piece.ours:
        return theirs
    known = Counter(unit.strip() for unit in units[piece.start : piece.end]) | Counter(unit.strip() for unit in ours)
    return [*ours, *_unknown(theirs, known)]


def _unknown(units: Sequence[bytes], known: Counter[bytes], *, keep_blank_end: bool = False) -> list[bytes]:
    """Return the units that are not known, each with the blank lines above it.

    Args:
        known: how often each is known, without its white space; it is counted down.
    """
    found: list[bytes] = []
    blank: list[bytes] = []
    for unit in units:
        if not (bare := unit.strip()):
            blank.append(unit)
            continue
        if known[bare] > 0:
            known[bare] -= 1
        else:
            found += [*blank, unit]
        blank = []
    return [*found, *blank] if keep_blank_end else found


def _side(units: Sequence[bytes], piece: _Piece, hunks: Sequence[Hunk]) -> list[bytes]:
    """Return the units that one side has in place of a piece."""
    found: list[bytes] = []
    at = piece.start
    for hunk in hunks:
        found += [*units[at : hunk.at], *hunk.added]
        at = hunk.at + len(hunk.removed)
    return [*found, *units[at : piece.end]]


def _joined(units: Sequence[bytes]) -> bytes:
    """Return a text of units; none is glued to one whose line end is missing."""
    if all(unit.endswith(b"\n") for unit in units[:-1]):
        return b"".join(units)
    parts: list[bytes] = []
    for unit in units:
        if parts and not parts[-1].endswith(b"\n") and not unit.startswith(b"\n"):
            parts.append(b"\n")
        parts.append(unit)
    return b"".join(parts)


_MISSING = object()


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


def nearest_json(
    candidates: Sequence[bytes], earlier: Sequence[bytes], before_edit: bytes, newest: bytes, saved: bytes
) -> bytes:
    """Return the candidate that a save was most likely made from; empty if none is an object.

    Values that other versions have were read there, not typed, so the best candidate has most of them. Of several it is
    one of `candidates`, then the one whose merge takes the fewest values out of the newest version, then the one that
    has the fewest values that the save lacks, then the first. A text in a list that the last save brought and this one
    has in other words should go.

    Args:
        earlier: further candidates, from before the file was removed the last time.
        before_edit: the version before the newest one if that is a person's, else the newest.
    """
    mine, now = values_in(saved), values_in(newest)
    values = {one: values_in(one) for one in (*candidates, *earlier) if object_in(one) is not None}
    known: Counter[tuple[str, bytes]] = reduce(or_, values.values(), Counter())
    read = mine & known
    lost, typed = _texts_in_lists(now - values_in(before_edit) - mine), _texts_in_lists(mine - known)
    reworded = Counter(old for old, new in zip(lost, typed, strict=False) if _is_rewording(old, new))

    def distance(candidate: bytes) -> tuple[int, bool, int, int]:
        was = values[candidate]
        gone = now - values_in(merge_json(candidate, newest, saved))
        wrong = (gone - reworded) + (reworded - gone)
        return (read - was).total(), candidate not in candidates, wrong.total(), (was - mine).total()

    return min(values, key=distance, default=b"")


def _texts_in_lists(values: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    return [(place, value) for place, value in values if value.startswith(b'"') and place.endswith(value.decode())]


def _is_rewording(old: tuple[str, bytes], new: tuple[str, bytes]) -> bool:
    """Return whether a text is most likely one of the same list in other words."""
    (place, text), (new_place, words) = old, new
    is_same_list = place.removesuffix(text.decode()) == new_place.removesuffix(words.decode())
    return is_same_list and 4 * alike(text, words) > 3 * min(len(text), len(words))


def values_in(data: bytes) -> Counter[tuple[str, bytes]]:
    """Return the values of an object with their places: the members, and ids in lists, that lead to each.

    An element of a list without ids has its own place, which ends with it.
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
