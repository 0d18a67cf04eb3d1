"""Budgets: history under a token budget, notes under a share, shares under a whole. Pure."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import TypeVar

from honeybadger_host.memory.markdown.notes import PREFACE, NoteBook
from honeybadger_host.memory.markdown.notes_together import NotesInContext, Together, alone, together
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import Turn

Name = TypeVar("Name")

SHORTENED = " [... shortened]\n"
ABOVE = "[... text above left out]\n"
# A file with more characters for each token of the share cannot fit: a token is about 4 characters, and notes below a
# common heading may take half the tokens.
_CHARACTERS_PER_TOKEN = 8
_MIN_SHARE = 40  # smallest share of an author in tokens: about one short note


@dataclass(frozen=True, slots=True)
class History:
    """The part of a conversation that fits.

    Args:
        text: lines `[sender]: content`, oldest first.
        turns: the same turns, oldest first; a suffix of the given ones.
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
    used = 0
    first = len(turns)
    for turn in reversed(turns):
        if budget_tokens and used + turn.line_tokens > budget_tokens:
            break
        used += turn.line_tokens
        first -= 1
    kept = turns[first:]
    if kept or not turns:
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
    lengths = range(1, min(len(text), budget_tokens * 4 + 3) + 1)
    return text[: bisect_right(lengths, budget_tokens, key=lambda length: estimate_tokens(text[:length]))]


@dataclass(frozen=True, slots=True)
class CutNotes:
    """The part of a MEMORY.md that fits: the newest notes of each author.

    Args:
        text: ready for the context; begins with a line that says how much was left out.
        left_out: number of notes; 0: all are in.
        is_shortened: a note, or the text above the notes, was cut and marked.
        has_lost_text: the text above the notes is not in, or only a part of it.
        why_together: see `Together.why`.
    """

    text: str
    left_out: int
    is_shortened: bool = False
    has_lost_text: bool = False
    why_together: str | None = None


def cut_notes(notes: NotesInContext, share_tokens: int, unread: Mapping[str, int] | None = None) -> CutNotes:
    """Return the newest notes of each author that fit a share, in the order of the file.

    All authors have equal shares, and unused parts go to the others, so that nobody crowds out others' notes. Unsigned
    notes count as one author's, and the text above the notes as the oldest of them.

    Args:
        share_tokens: estimate; at least 1.
        unread: author -> notes of the file that are not in the book.
    Source: HB5; users of similar programs lose facts because the end of MEMORY.md is cut off.
    """
    book = notes.book
    may_fit = not unread and len(book.preface) + sum(map(len, book.notes)) <= _CHARACTERS_PER_TOKEN * share_tokens
    if may_fit and estimate_tokens(notes.whole.text) <= share_tokens:
        return all_notes(notes, {})
    mark = estimate_tokens(_left_out(len(book.notes) + sum((unread or {}).values()))) + 1 if book.notes else 0
    above = estimate_tokens(ABOVE) + 1 if book.notes and book.preface.strip() else 0
    # the marks may fill half of the share; if they need more, the newest note comes first
    for_marks = next(tokens for tokens in (mark + above, mark, 0) if 2 * tokens <= share_tokens)
    room = share_tokens - for_marks
    cut = _cut(notes, room, unread or {}, for_marks)
    while (tokens := estimate_tokens(cut.text)) > share_tokens:
        room -= tokens - share_tokens
        cut = _cut(notes, room, unread or {}, for_marks)
    if cut.left_out and 10 * tokens <= 9 * share_tokens:
        # what notes share, as a heading or all of their text, counts with each of them: use the room that this leaves
        more = _cut(notes, room * share_tokens * 19 // (20 * tokens), unread or {}, for_marks)
        if estimate_tokens(more.text) <= share_tokens:
            return more
    return cut


def _cut(notes: NotesInContext, room: int, unread: Mapping[str, int], for_marks: float) -> CutNotes:
    """Return the newest notes of each author that fit the room, below marks that count the omitted notes."""
    book = notes.book
    places: list[int] = []
    shortened: dict[int, str] = {}
    shares, left = newest_of_each({author: notes.costs(author) for author in book.by_author}, room)
    for author, (count, part) in shares.items():
        rest = book.by_author[author][count : count + 1]
        places += book.by_author[author][:count]
        if PREFACE in rest and (part or left > 2 * estimate_tokens(ABOVE)):
            shortened[PREFACE] = _newest_lines(alone(book, PREFACE), (part or left) - bool(book.notes))
        elif part:
            shortened[rest[0]] = shorten(alone(book, rest[0]), part)
    places += shortened
    return _assembled(book, together(book, places, shortened), len({*places} - {PREFACE}), unread, for_marks, shortened)


def all_notes(notes: NotesInContext, unread: Mapping[str, int]) -> CutNotes:
    """Return all notes of a book whose file is longer than what is read; see `cut_notes`."""
    return _assembled(notes.book, notes.whole, notes.book.counts.total(), unread, inf, {})


def newest_of_each(costs: Mapping[str, Iterator[int]], room: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Return author -> (how many of the newest notes fit, room for a part of the next one), and the room that is left.

    The next note is that of the author whose notes then use the fewest tokens. So all have equal shares, and what one
    does not need goes to the others. Only the first note of an author may be cut, to an equal share. If the room is too
    small for a share each, the authors of the oldest notes are left out.

    Args:
        costs: author -> cost of each note, newest first; the author of the newest note first.
    """
    authors = list(costs)[: max(1, room // _MIN_SHARE)]
    share = max(1, room // max(1, len(authors)))
    counts = dict.fromkeys(authors, 0)
    parts: dict[str, int] = {}
    waiting: list[tuple[int, int, str, int]] = []
    for rank, author in enumerate(authors):
        cost = next(costs[author])
        room -= min(cost, share)  # kept for it
        heappush(waiting, (cost, rank, author, cost))
    while waiting:
        used, rank, author, cost = heappop(waiting)
        if not counts[author]:
            room += min(cost, share)
            if cost > room:
                parts[author], room = room, 0
        if cost > room:
            continue
        room -= cost
        counts[author] += 1
        following = next(costs[author], None)
        if following is not None:
            heappush(waiting, (used + following, rank, author, following))
    return {author: (count, parts.get(author, 0)) for author, count in counts.items()}, room


def _assembled(
    book: NoteBook,
    kept: Together,
    count: int,
    unread: Mapping[str, int],
    for_marks: float,
    shortened: Collection[int],
) -> CutNotes:
    """Return the kept notes below marks that count the omitted notes.

    Args:
        count: number of kept notes.
        for_marks: tokens for these marks.
        shortened: places of notes that were cut.
    """
    left_out = book.counts.total() + sum(unread.values()) - count
    has_lost_text = PREFACE in shortened or (bool(book.preface.strip()) and not kept.has_preface)
    top = ""
    for mark in (_left_out(left_out) if left_out else "", ABOVE if has_lost_text and PREFACE not in shortened else ""):
        if estimate_tokens(top + mark) <= for_marks:
            top += mark
    return CutNotes(
        top + kept.text,
        left_out,
        bool(shortened),
        has_lost_text,
        kept.why,
    )


def _left_out(count: int) -> str:
    return f"[... {count} older {'note' if count == 1 else 'notes'} left out, see MEMORY.md]\n"


def _newest_lines(text: str, share_tokens: int) -> str:
    """Return the last whole lines that fit, else the beginning of the last one."""
    lines = text.rstrip("\n").splitlines(keepends=True)
    kept = fitting(reversed(lines), share_tokens - estimate_tokens(ABOVE) - 1)
    return ABOVE + "".join(reversed(kept)) if kept else shorten("".join(lines[-1:]), share_tokens)


def first_lines(text: str, share_tokens: int) -> str:
    """Return the first whole lines that fit, with a mark below them; a summary says the most important first."""
    mark = "[... text below left out]\n"
    kept = fitting(text.splitlines(keepends=True), share_tokens - estimate_tokens(mark) - 1)
    if not kept:
        return shorten(text, share_tokens)
    return "".join(kept).rstrip("\n") + "\n" + mark


def fitting(lines: Iterable[str], room: int) -> list[str]:
    """Return the first lines that fit the room, in tokens."""
    kept: list[str] = []
    for line in lines:
        room -= estimate_tokens(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def divide(room: int, needs: Mapping[Name, int], weights: Mapping[Name, float]) -> dict[Name, int]:
    """Return name -> tokens of `room`, in the order of `needs`: at most its need; the rest goes to others by weight.

    The sum is at most `room`; if all needs fit, all are met in full.
    """
    given = dict.fromkeys(needs, 0)
    open_names = [name for name in needs if needs[name] > 0]
    room = max(0, room)
    while open_names and room > 0:
        total = sum(weights[name] for name in open_names)
        do_all_fit = sum(needs[name] for name in open_names) <= room  # without rounding errors
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
