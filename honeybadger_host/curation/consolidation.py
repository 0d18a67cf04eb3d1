"""Consolidation: what a model is asked, and what its answer becomes. Pure (AB2).

A model gets the notes, the summary so far and the turns; it answers with JSON: `history_entry`, `memory_update`, which
is the whole MEMORY.md as it should be, and `conversation_summary`. The last two may be missing. An update of MEMORY.md
never replaces it: it is compared with the notes that were given, and becomes operations on single notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from honeybadger_host.curation.notes import NotePlace
from honeybadger_host.curation.proposal import Evidence, Operation
from honeybadger_host.domain import Turn
from honeybadger_host.memory.edited import Edited
from honeybadger_host.memory.labels import folded
from honeybadger_host.memory.notes import SIGNED
from honeybadger_host.search.language.analyzer import document_terms

MOST_SUMMARY_WORDS: Final = 500
_MOST_HISTORY_CHARACTERS: Final = 8_000
"""2 to 5 sentences are asked for."""
_DATED: Final = re.compile(r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d\]|\d{4}-\d\d-\d\d")
_BULLET: Final = re.compile(r"[-*+] +")
_LEAST_SHARED: Final = 0.6
"""Of a new fact's content words, how many must stand in the turn that it is said to come from."""
_ALIKE: Final = 0.5
"""Of the content words of a note that is gone, how many a new line shares that replaces it."""


def _is_short(summary: str) -> str:
    words = len(summary.split())
    if words > 2 * MOST_SUMMARY_WORDS:
        raise PydanticCustomError("must_be", "at most 500 words, it has {words} words", {"words": words})
    return summary.strip()


class Consolidated(Edited):
    """A model's answer: what happened, the whole MEMORY.md as it should be, a summary; None: it stays as it is."""

    history_entry: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_MOST_HISTORY_CHARACTERS)
    ]
    memory_update: str | None = None
    conversation_summary: Annotated[str, AfterValidator(_is_short)] | None = None


_EMPTY: Final = "(empty)"
_MEMORY: Final = "## Current Long-term Memory\n"
_SUMMARY: Final = "\n\n## Conversation Summary So Far\n"


def request_text(memory: str, summary: str | None, turns: Sequence[Turn]) -> str:
    """Return what a model is asked: MEMORY.md, the session's part of summary.md, and turns, oldest first."""
    return (
        f"{_MEMORY}{memory.strip() or _EMPTY}{_SUMMARY}{(summary or '').strip() or '(none)'}\n\n"
        f"## Conversation to Process\n{''.join(map(turn_line, turns))}"
    )


def memory_in(request: str) -> str:
    """Return the MEMORY.md that a model was given."""
    memory = request.removeprefix(_MEMORY).partition(_SUMMARY)[0]
    return "" if memory == _EMPTY else f"{memory}\n"


def turn_line(turn: Turn) -> str:
    """Return a turn as a model reads it: `[2026-05-07 18:03] USER [tools: a, b]: text`. Source: AB2."""
    tools = f" [tools: {', '.join(turn.tools_used)}]" if turn.tools_used else ""
    speaker = "" if turn.sender in (turn.role, turn.by) else f"{turn.shown_name}: "
    content = turn.content.strip().replace("\n", "\n  ")
    return f"[{turn.at.astimezone(UTC):%Y-%m-%d %H:%M}] {turn.role.upper()}{tools}: {speaker}{content}\n"


def history_entry(text: str, until: datetime) -> str:
    """Return an entry as HISTORY.md has it: one paragraph with a time, else that of the newest turn, `until`."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if not _DATED.match(lines[0]):
        lines[0] = f"[{until.astimezone(UTC):%Y-%m-%d %H:%M}] {lines[0]}"
    return "\n".join(lines)


def memory_operations(
    memory: str, given: Mapping[str, NotePlace], session: str, turns: Sequence[Turn]
) -> list[Operation]:
    """Return what an update of MEMORY.md means for single notes.

    Args:
        memory: the whole of it as it should be; blank: as it is.
        given: the notes that the model was given, by their ids.
        turns: the consolidated ones, of `session`.
    """
    if not memory.strip():
        return []
    wanted = list(_facts(memory))
    known = {_folded(note.text) for note in given.values()}
    kept = {_folded(text) for _, text in wanted}
    added = [(section, text) for section, text in wanted if _folded(text) not in known and _folded(text)]
    gone = {note: place.text for note, place in given.items() if not _is_kept(place, kept)}
    operations: list[Operation] = []
    for section, text in added:
        evidence = evidence_for(text, session, turns)
        replaced = next((note for note, old in gone.items() if _shares(old, text) >= _ALIKE), None)
        if replaced is not None:
            del gone[replaced]
        operations.append(
            Operation(
                n=1,
                op="add" if replaced is None else "supersede",
                sources=() if replaced is None else (replaced,),
                result=text,
                title=section[:80] or None,
                evidence=evidence,
                why="the model adds it" if replaced is None else "the model writes this instead",
            )
        )
    return operations + [
        # what it says is listed as lost, so that it waits for a person
        Operation(n=1, op="retire", sources=(note,), lost=(old,), why="the model leaves it out")
        for note, old in gone.items()
    ]


def evidence_for(text: str, session: str, turns: Sequence[Turn]) -> tuple[Evidence, ...]:
    """Return the turn of a person that says what a text says: most of its content words stand there."""
    people = [turn for turn in turns if turn.role == "user"]
    best = max(people, key=lambda turn: (_shares(text, turn.content), -turn.number), default=None)
    if best is None or _shares(text, best.content) < _LEAST_SHARED:
        return ()
    return (Evidence(session=session, turn=best.number, quote=best.content[:2000]),)


def _facts(memory: str) -> Iterator[tuple[str, str]]:
    """Yield section and text of each fact in a MEMORY.md that a model wrote: a bullet, or a paragraph."""
    section = ""
    fact: list[str] = []
    for line in [*memory.split("\n"), ""]:
        bullet = _BULLET.match(line)
        is_heading = line.startswith("#")
        if fact and (bullet or is_heading or not line.strip()):
            yield section, " ".join(fact)
            fact = []
        if is_heading:
            signed = SIGNED.fullmatch(line)
            section = signed["section"] if signed else line.lstrip("#").strip()
        elif line.strip():
            fact.append(line[bullet.end() if bullet else 0 :].strip())


def _is_kept(note: NotePlace, kept: set[str]) -> bool:
    """Return whether all that a note says is in an update; a person's note may have several bullets, or none."""
    is_heading = note.text == note.section
    return is_heading or _folded(note.text) in kept or all(_folded(text) in kept for _, text in _facts(note.text))


def _folded(text: str) -> str:
    return folded(text).rstrip(".")


def _shares(old: str, new: str) -> float:
    words = {*document_terms(old)}
    return len(words & {*document_terms(new)}) / len(words) if words else 0.0
