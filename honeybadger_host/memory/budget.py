"""What fits: history under a token budget, notes under a share, shares under a whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from honeybadger_host.domain import Turn
from honeybadger_host.memory.notes import NoteBook
from honeybadger_host.text.neutralise import estimate_tokens

SHORTENED: Final = " [... shortened]\n"


@dataclass(frozen=True, slots=True)
class History:
    """The part of a conversation that fits.

    Args:
        text: lines `[sender]: content`, oldest first.
        turns: the same turns, oldest first; a suffix of what was given.
        dropped: how many older ones did not fit.
        is_shortened: the newest turn alone was over the budget; its line was cut and marked.
    """

    text: str
    turns: Sequence[Turn]
    tokens: int
    dropped: int
    is_shortened: bool = False


def format_history(turns: Sequence[Turn], budget_tokens: int) -> History:
    """Return the newest turns that fit the budget, oldest first.

    Args:
        turns: oldest first; may be empty.
        budget_tokens: estimate summed over the lines, see `estimate_tokens`; 0 means no limit.
    Returns:
        A suffix of `turns`. Its tokens never exceed the budget; it is empty only when `turns` is.
    Source: HB6.
    """
    if not turns:
        return History("", (), 0, 0)
    used = 0
    first = len(turns)
    for turn in reversed(turns):
        if budget_tokens and used + turn.line_tokens > budget_tokens:
            break
        used += turn.line_tokens
        first -= 1
    kept = turns[first:]
    if kept:
        return History("".join(turn.line for turn in kept), kept, used, first)
    line = shorten(turns[-1].line, budget_tokens)
    return History(line, turns[-1:], estimate_tokens(line), len(turns) - 1, is_shortened=True)


def shorten(line: str, budget_tokens: int) -> str:
    """Return the beginning of a line with the mark `[... shortened]` that fits the budget; at least some of it."""
    room = budget_tokens - estimate_tokens(SHORTENED) - 1  # rounding of the two parts costs at most one
    if room < 1:
        return _prefix(line.rstrip("\n"), budget_tokens)
    return _prefix(line.rstrip("\n"), room).rstrip() + SHORTENED


def _prefix(text: str, budget_tokens: int) -> str:
    """Return the longest prefix whose estimate is within the budget."""
    low, high = 0, min(len(text), budget_tokens * 4 + 3)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle]) <= budget_tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]


@dataclass(frozen=True, slots=True)
class CutNotes:
    """The newest notes of a MEMORY.md.

    Args:
        text: ready for the context; says at its top how many notes were left out.
        left_out: number of notes, 0 when everything is in.
        is_shortened: even the newest note was too large and was cut and marked.
    """

    text: str
    left_out: int
    is_shortened: bool = False


def cut_notes(book: NoteBook, share_tokens: int) -> CutNotes:
    """Return the newest notes, whole, that fit a share; the text before the first heading comes last.

    Args:
        share_tokens: estimate; at least 1.
    Source: HB5; users of peers lose facts when the head of MEMORY.md is kept and its tail is cut.
    """
    if not book.notes:
        return CutNotes(_newest_lines(book.preface, share_tokens), 0, is_shortened=True)
    room = share_tokens - estimate_tokens(_left_out(len(book.notes))) - 1
    first = len(book.notes)
    while first and (cost := estimate_tokens(book.notes[first - 1]) + 1) <= room:
        room -= cost
        first -= 1
    if first == len(book.notes):
        newest = book.notes[-1].strip("\n") + "\n"
        mark = _left_out(first - 1) if first > 1 else ""
        if 2 * estimate_tokens(mark) > share_tokens:
            mark = ""  # the note comes first
        text = mark + shorten(newest, max(1, share_tokens - estimate_tokens(mark) - 1))
        return CutNotes(text, first - 1, is_shortened=True)
    kept = "".join(book.notes[first:])
    preface = book.preface if first == 0 and estimate_tokens(book.preface) <= room else ""
    mark = _left_out(first) if first else "" if preface or not book.preface.strip() else "[... text above left out]\n"
    return CutNotes(preface + mark + kept.lstrip("\n"), first)


def _left_out(count: int) -> str:
    return f"[... {count} older {'note' if count == 1 else 'notes'} left out, see MEMORY.md]\n"


def _newest_lines(text: str, share_tokens: int) -> str:
    """Return the last whole lines that fit, else the beginning of the last one."""
    mark = "[... text above left out]\n"
    room = share_tokens - estimate_tokens(mark) - 1
    kept: list[str] = []
    lines = text.rstrip("\n").splitlines(keepends=True)
    for line in reversed(lines):
        if (cost := estimate_tokens(line) + 1) > room:
            break
        room -= cost
        kept.append(line)
    return mark + "".join(reversed(kept)) if kept else shorten("".join(lines[-1:]), share_tokens)


def first_lines(text: str, share_tokens: int) -> str:
    """Return the first whole lines that fit, with a mark below them; a summary says the most important first."""
    mark = "[... text below left out]\n"
    room = share_tokens - estimate_tokens(mark) - 1
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        if (cost := estimate_tokens(line) + 1) > room:
            break
        room -= cost
        kept.append(line)
    if not kept:
        return shorten(text, share_tokens)
    return "".join(kept).rstrip("\n") + "\n" + mark


def divide(room: int, needs: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, int]:
    """Share `room` tokens: nobody gets more than it needs, what one leaves goes to the others by weight.

    Returns:
        name -> tokens, their sum at most `room`; every need in full when all fit.
    """
    given = dict.fromkeys(needs, 0)
    open_names = [name for name in needs if needs[name] > 0]
    room = max(0, room)
    while open_names and room > 0:
        total = sum(weights[name] for name in open_names)
        do_all_fit = sum(needs[name] for name in open_names) <= room  # asked apart: a product of floats may fall short
        satisfied = [name for name in open_names if do_all_fit or needs[name] <= room * weights[name] / total]
        if not satisfied:
            for name in open_names:
                given[name] = int(room * weights[name] / total)
            break
        for name in satisfied:
            given[name] = needs[name]
            room -= needs[name]
            open_names.remove(name)
    return given
