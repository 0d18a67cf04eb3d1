"""Consolidation: the question to a model, and the operations that its answer becomes. Pure (AB2).

A model gets numbered notes, the summary so far and the turns with numbered sentences; it answers with numbers. It may
also answer with the texts `history_entry`, `memory_update` and `conversation_summary`, which are taken line by line: a
line that a person said word for word counts as its number, the others wait for a person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from honeybadger_host.curation.answers import Answered
from honeybadger_host.curation.notes import NOTE_ID, NotePlace
from honeybadger_host.curation.proposal import Op, Operation
from honeybadger_host.curation.said import (
    Pick,
    Refs,
    Turns,
    chosen_minutes,
    earlier,
    fact,
    minutes,
    newest_lines,
    numbered_turn,
    picked,
    place_line,
    whole,
)
from honeybadger_host.curation.sentences import sentences_of
from honeybadger_host.memory.edited import Edited
from honeybadger_host.memory.markdown.notes import SIGNED
from honeybadger_host.text.turn import Turn

# Sections that a model may choose besides the group's own.
SECTIONS: Final = ("Notes", "Preferences", "People", "Projects", "Decisions", "Dates")
_DATED: Final = re.compile(r"^\[\d{4}-\d\d-\d\d[^\]]*\]\s*")
_BULLET: Final = re.compile(r"[-*+] +")
_QUOTES: Final = " \"'“”„«»‚‘’「」『』.。．"
_MAX_TEXT: Final = 8_000
_MAX_SECTION: Final = 80
MAX_FACTS: Final = 20  # turns that become notes, or facts of an entry: a model that names all fills no MEMORY.md
_MAX_NOTES_TOKENS: Final = 8_000

Prose = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_MAX_TEXT)]


class Fact(Edited):
    """A sentence to be remembered, the section it goes to, and the notes that it changes."""

    take: Refs
    section: str = ""
    changes: Refs = ()


class Consolidated(Answered):
    """A model's answer: numbers, or texts; code chooses for a member that is missing."""

    facts: Annotated[tuple[Fact, ...], Field(strict=False)] = ()
    history: Refs = ()
    summary: Refs = ()
    history_entry: Prose | None = None
    memory_update: str | None = None
    conversation_summary: Prose | None = None


_EMPTY: Final = "(empty)"
_MEMORY: Final = "## Current Long-term Memory\n"
_SECTIONS: Final = "\n## Sections\n"
_SUMMARY: Final = "\n## Conversation Summary So Far\n"
_NOTE: Final = re.compile(rf"^N(\d+) \[({re.escape(NOTE_ID)}[^\]\s]+)\] ", re.MULTILINE)


@dataclass(frozen=True)
class Material:
    """The material of a consolidation.

    Args:
        session: the session of the turns.
        turns: the turns to consolidate, oldest first.
        earlier: the turns of the session before them that the log still has, oldest first.
        summary: the picks of the summary so far, in the order said.
        notes: id -> note of the group.
    """

    session: str
    turns: Sequence[Turn]
    earlier: Sequence[Turn]
    summary: Sequence[Pick]
    notes: Mapping[str, NotePlace]
    is_person: Callable[[Turn], bool]

    @cached_property
    def by_place(self) -> Turns:
        return {(self.session, turn.number): turn for turn in (*self.earlier, *self.turns)}

    @property
    def sections(self) -> Sequence[str]:
        """The sections that a fact may go to, the group's own first."""
        own = (note.section[:_MAX_SECTION].strip() for note in self.notes.values())
        return list(dict.fromkeys((*filter(None, own), *SECTIONS)))

    def picked(self, refs: Iterable[str]) -> list[Pick]:
        """Return the picks that refs name among people's turns; other turns do not go into minutes."""
        return [pick for pick in picked(refs, self.by_place, self.session) if self.is_person(pick.turn)]

    @cached_property
    def by_words(self) -> Mapping[str, Pick]:
        """Key of each sentence and each whole turn of people -> its pick; see `_key`."""
        found: dict[str, Pick] = {}
        for session, turn in self.said((*self.earlier, *self.turns)):
            for number, (begin, end) in enumerate(sentences_of(turn.content)):
                found[_key(turn.content[begin:end])] = Pick(session, turn, (number,))
            found[_key(turn.content)] = whole(session, turn)
        return found

    def said(self, turns: Iterable[Turn]) -> list[tuple[str, Turn]]:
        return [(self.session, turn) for turn in turns if self.is_person(turn)]


def request_text(material: Material) -> str:
    """Return the question to a model: numbered notes, sections, the summary so far, and the turns, oldest first.

    When there are too many notes, the newest are shown.
    """
    notes = [_note_line(n, name, note) for n, (name, note) in enumerate(material.notes.items(), 1)]
    shown = newest_lines(notes, _MAX_NOTES_TOKENS)
    summary = [numbered_turn(pick.turn, f"{pick.turn.number}", is_person=True) for pick in material.summary]
    turns = [numbered_turn(each, f"{each.number}", is_person=material.is_person(each)) for each in material.turns]
    return (
        f"{_MEMORY}{''.join(shown) or _EMPTY}{_SECTIONS}{', '.join(material.sections)}\n"
        f"{_SUMMARY}{''.join(summary) or '(none)'}\n## Conversation to Process\n{''.join(turns)}"
    )


def _note_line(number: int, name: str, note: NotePlace) -> str:
    text = note.text.strip().replace("\n", "\n  ")
    return f"N{number} [{name}] {note.section}, by {note.author or 'a person'}: {text}\n"


def notes_in(request: str) -> dict[str, str]:
    """Return number -> id of the notes in a request."""
    return dict(_NOTE.findall(request.partition(_SECTIONS)[0]))


def operations_of(
    answer: Consolidated, material: Material, given: Mapping[str, str], model: str, *, prose: bool
) -> list[Operation]:
    """Return the operations of an answer: a history, a summary, then its facts.

    Args:
        given: see `notes_in`.
        prose: whether a model's own history and summary are taken, marked as the model's.
    """
    known = (*material.earlier, *material.turns)
    return [
        *_minutes("write_history", answer.history, answer.history_entry, material, material.turns, model, prose),
        *_minutes("write_summary", answer.summary, answer.conversation_summary, material, known, model, prose),
        *_facts(answer, material, given, model),
    ]


def without_model(material: Material) -> list[Operation]:
    """Return a history and a summary of people's newest turns that have room, in the order said."""
    return operations_of(Consolidated(history=()), material, {}, "", prose=False)


# ------------------------------------------------------------------------------------------------ history and summary


def _minutes(
    op: Op, refs: Refs, text: str | None, material: Material, fill: Sequence[Turn], model: str, prose: bool
) -> Iterator[Operation]:
    """Yield a history or a summary of what a model chose, else of the newest turns; prose waits, unless it is taken.

    Args:
        fill: turns of which a summary has the newest, while there is room.
    """
    picks, others = material.picked(refs), list[str]()
    if not picks and text is not None:
        picks, others = _as_picks(_DATED.sub("", text), material)
    if others:
        yield _written(op, text or "", model, prose)
        if prose:
            return
        picks = []
    evidence = chosen_minutes(picks, material.said(fill) if op == "write_summary" or not picks else [])
    if evidence:
        why = "sentences that the model chose" if picks else "what people said, the newest that has room"
        yield Operation(n=1, op=op, result=minutes(evidence), evidence=tuple(evidence), why=why)


def _written(op: Op, text: str, model: str, prose: bool) -> Operation:
    """Return an operation with the words of a model."""
    waits = "" if prose else _nobody_said(model)
    return Operation(n=1, op=op, result=text, by=model, waits=waits, why=f"written by {model}, unchecked")


def _nobody_said(model: str) -> str:
    return f"written by {model}, nobody said this"


# --------------------------------------------------------------------------------------------------------- the notes


def _facts(answer: Consolidated, material: Material, given: Mapping[str, str], model: str) -> list[Operation]:
    wanted: list[tuple[Pick, str, tuple[str, ...]]] = []
    for each in answer.facts:
        changed = [given.get(ref.lstrip("Nn "), "") for ref in each.changes]
        known = tuple(dict.fromkeys(name for name in changed if name in material.notes))
        wanted += [(pick, each.section, known) for pick in picked(each.take, material.by_place, material.session)]
    waiting: list[Operation] = []
    if answer.memory_update is not None and answer.memory_update.strip():
        told, waiting = _update(answer.memory_update, material, given, model)
        wanted += told
    by_turn: dict[tuple[str, int], tuple[Pick, str, tuple[str, ...]]] = {}
    for pick, section, changed_notes in wanted:
        if pick.place not in by_turn and len(by_turn) == MAX_FACTS:
            continue
        if pick.place in by_turn:
            first, kept, earlier_notes = by_turn[pick.place]
            pick = replace(first, sentences=tuple(sorted({*first.sentences, *pick.sentences})))
            section, changed_notes = kept, tuple(dict.fromkeys((*earlier_notes, *changed_notes)))
        by_turn[pick.place] = pick, section, changed_notes
    operations: list[Operation] = []
    for pick, section, changed_notes in by_turn.values():
        operations += _fact(pick, section if section in material.sections else SECTIONS[0], changed_notes, material)
    return operations + waiting


def _fact(pick: Pick, section: str, changed: Sequence[str], material: Material) -> Iterator[Operation]:
    """Yield the note of a fact, and a retirement of each note that it changes; these wait for a person."""
    text, evidence = fact(pick, material.by_place.get((pick.session, pick.turn.number - 1)))
    lines = [earlier(material.notes[name].author or "a person", material.notes[name].text) for name in changed]
    yield Operation(
        n=1,
        op="add",
        sources=tuple(changed),
        result="\n".join((text, *lines, place_line(pick))),
        title=section,
        evidence=tuple(evidence),
        why="a person said it",
    )
    for name in changed:
        why = f"what a person said in {pick.session}#{pick.turn.number} changes it"
        yield Operation(
            n=1, op="retire", sources=(name,), evidence=tuple(evidence), waits="only a person retires", why=why
        )


def _update(
    update: str, material: Material, given: Mapping[str, str], model: str
) -> tuple[list[tuple[Pick, str, tuple[str, ...]]], list[Operation]]:
    """Return the facts that people said in a model's MEMORY.md, and operations for its other changes, which wait."""
    wanted = [(section, text) for section, text in _bullets(update) if _key(text)]
    known = {_key(text) for note in material.notes.values() for _, text in (("", note.text), *_bullets(note.text))}
    kept = {_key(text) for _, text in wanted}
    facts: list[tuple[Pick, str, tuple[str, ...]]] = []
    waiting: list[Operation] = []
    for section, text in wanted:
        picks, others = _as_picks(text, material)
        if _key(text) in known:
            continue
        facts += [(pick, section, ()) for pick in picks if not others]
        if others:
            title = section[:_MAX_SECTION].strip() or SECTIONS[0]
            waiting.append(
                Operation(
                    n=1,
                    op="add",
                    result=text,
                    title=title,
                    by=model,
                    waits=_nobody_said(model),
                    why="the model adds it",
                )
            )
    for name in given.values():
        note = material.notes.get(name)
        if note is not None and not _is_kept(note, kept):
            why = "the model leaves it out"
            waiting.append(Operation(n=1, op="retire", sources=(name,), waits="only a person retires", why=why))
    return facts, waiting


def _as_picks(text: str, material: Material) -> tuple[list[Pick], list[str]]:
    """Return the sentences of a text that people said, as picks, and the sentences that nobody said."""
    said = material.by_words
    if _key(text) in said:
        return [said[_key(text)]], []
    sentences = [_key(text[begin:end]) for begin, end in sentences_of(text)]
    found = [said[each] for each in sentences if each in said]
    merged: dict[tuple[str, int], Pick] = {}
    for pick in found:
        before = merged.get(pick.place)
        both = {*pick.sentences, *(before.sentences if before else ())}
        merged[pick.place] = replace(pick, sentences=tuple(sorted(both)))
    picks = sorted(merged.values(), key=lambda pick: (pick.turn.at, pick.place))
    return picks, [each for each in sentences if each and each not in said]


def _key(text: str) -> str:
    """Return a sentence for comparison: without extra white space, list mark, quotes around it and final stop."""
    return _BULLET.sub("", " ".join(text.split()), count=1).strip(_QUOTES)


def _bullets(memory: str) -> Iterator[tuple[str, str]]:
    """Yield section and text of each fact in a MEMORY.md: a bullet, or a paragraph."""
    section = ""
    text: list[str] = []
    for line in [*memory.split("\n"), ""]:
        bullet = _BULLET.match(line)
        is_heading = line.startswith("#")
        if text and (bullet or is_heading or not line.strip()):
            yield section, " ".join(text)
            text = []
        if is_heading:
            signed = SIGNED.fullmatch(line)
            section = signed["section"] if signed else line.lstrip("#").strip()
        elif line.strip():
            text.append(line[bullet.end() if bullet else 0 :].strip())


def _is_kept(note: NotePlace, kept: set[str]) -> bool:
    """Return whether an update keeps all of a note; a person's note may have several bullets, or none."""
    is_heading = note.text == note.section
    return is_heading or _key(note.text) in kept or all(_key(text) in kept for _, text in _bullets(note.text))
