"""Consolidation: turns older than a window go to HISTORY.md, summary.md and notes (AB1, AB2, AB4).

A model gets numbered notes, the summary so far and the turns with numbered sentences. It answers with numbers or with
texts. Texts that people said word for word are found as their sentences; all others count as written by the model.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated

import anyio.to_thread
from pydantic import Field, StringConstraints

from honeybadger_agent.wire import MAX_LINE_CHARACTERS
from honeybadger_host.curation.asking import Answer, Answered, Question, WrongAnswer, read_answer, read_directive
from honeybadger_host.curation.gates import Known
from honeybadger_host.curation.passes import MAX_TOKENS_MORE, PassDependencies, protected_notes, taken
from honeybadger_host.curation.proposal import MAX_TEXT, ONLY_A_PERSON, Op, Operation, Proposal, counts_of
from honeybadger_host.curation.proposal_files import readable
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
    sentences_of,
)
from honeybadger_host.log import log
from honeybadger_host.memory.edited import Edited
from honeybadger_host.memory.markdown.notes import SIGNED
from honeybadger_host.memory.turn_log_store import begins_after, kept_turns
from honeybadger_host.search.notes import NotePlace
from honeybadger_host.text.phrases import FORGOTTEN
from honeybadger_host.text.turn import Turn

ATTEMPTS = 3  # wrong answers about a session, after which it is consolidated without a model
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
# Sections that a model may choose in addition to the group's own.
SECTIONS = ("Notes", "Preferences", "People", "Projects", "Decisions", "Dates")
MAX_FACTS = 20  # turns that become notes in a pass at most: a model that names all turns must not fill MEMORY.md
_DATED = re.compile(r"^\[\d{4}-\d\d-\d\d[^\]]*\]\s*")
_BULLET = re.compile(r"\A[-*+] +")
_FACT_BEGINS = re.compile(r"^(?=#|[-*+] +)|^[ \t]*$", re.MULTILINE)
_QUOTES = " \"'“”„«»‚‘’「」『』.。．"


class Consolidations:
    """Consolidates sessions. Event loop."""

    def __init__(self, uses: PassDependencies) -> None:
        self._uses = uses
        self.done = 0  # since the start
        # (group, session) -> number of wrong answers since its last consolidation
        self._wrong: Counter[tuple[str, str]] = Counter()

    async def consolidate(self, group: str, session: str, *, at_once: bool = False) -> bool:
        """Consolidate the turns of a session that are due; return whether there are more.

        Args:
            at_once: consolidate all turns except the newest that always stay, even if they are few.
        Raises OverBudget, ModelFailed, WrongAnswer, WorldFailed: nothing was changed.
        """
        plan = await anyio.to_thread.run_sync(self._plan, group, session, at_once)
        if plan is None:
            return False
        material, has_more = plan
        system = read_directive(self._uses.files, "consolidation")
        if self._uses.settings.curation.prose:
            system += f"\n\n{read_directive(self._uses.files, 'prose')}"
        text = request_text(material)
        if self._wrong[group, session] >= ATTEMPTS:
            log.error("curation.given_up", group=group, session=session, now_what="it is done without a model")
            text = ""
        try:
            made = await self._uses.make(
                Question(group, _named(session), "consolidation", system, text),
                Known(
                    texts={note: place.text for note, place in material.notes.items()},
                    turns=material.by_place,
                    is_person=self._uses.is_person,
                    protected=protected_notes(material.notes),
                    group_size=len(material.notes),
                ),
                partial(_proposed, material, prose=self._uses.settings.curation.prose),
                until=material.turns[-1].at,
                earlier=material.proposals,
                session=session,
                first_turn=material.turns[0].number,
                last_turn=material.turns[-1].number,
            )
        except WrongAnswer:
            self._wrong[group, session] += 1
            raise
        del self._wrong[group, session]
        self.done += 1
        return has_more and (made is None or counts_of(made.operations)["applied"] > 0)

    def _plan(self, group: str, session: str, at_once: bool) -> tuple[Material, bool] | None:
        """Return the turns to consolidate and whether there are more, or None if there are none. Raises WorldFailed."""
        uses = self._uses
        uses.give_way()
        mark = uses.watermarks.read(group, session)
        begun_again = uses.documents.deletion(group, session).context_begins_after
        window = uses.turn_logs.window(group, session)
        known = uses.turn_logs.since(group, session, begun_again, window=window)
        after = begins_after(window.last_number, mark, uses.memory_window)
        turns = [turn for turn in known if turn.number > after]
        again = next((span for span in (() if mark is None else mark.again) if span[0] > begun_again), None)
        due = turns[: -kept_turns(uses.memory_window)]
        now = due[: taken(due)]
        if again is not None:
            due = now = [turn for turn in known if again[0] <= turn.number <= again[1]]
        is_long = 0 < uses.settings.history.budget_tokens < sum(turn.line_tokens for turn in turns)
        is_due = at_once or again is not None or is_long or len(turns) > uses.memory_window
        if not due or not is_due:
            return None
        earlier = [each for each in readable(uses.home, group, _named(session)) if each.session == session]
        if uses.settings.curation.apply == "review" and any(counts_of(each.operations)["waiting"] for each in earlier):
            return None
        is_forgotten = uses.forgotten_in(group)
        known = [replace(turn, content=FORGOTTEN) if is_forgotten(turn.content) else turn for turn in known]
        before = [turn for turn in known if turn.number < now[0].number]
        now = [turn for turn in known if now[0].number <= turn.number <= now[-1].number]
        last = [one for each in earlier if mark and each.id == mark.proposal for one in each.operations]
        told = {quote.turn for operation in last if operation.op == "write_summary" for quote in operation.evidence}
        summary = [turn for turn in before if turn.number in told]
        material = Material(session, now, before, summary, uses.notes_in(group), uses.is_person, earlier)
        return material, again is not None or len(now) < len(due)


def _named(session: str) -> str:
    """Return the prefix of the names of a session's consolidations; another session may share it."""
    return f"consolidation-{_NO_NAME.sub('-', session[:24])}-"


# -------------------------------------------------------------------------------------------------------- the question


@dataclass(frozen=True)
class Material:
    """The material of a consolidation.

    Args:
        session: the session of the turns.
        turns: the turns to consolidate, oldest first.
        earlier: the turns of the session before them that the log still has, oldest first.
        summary: the turns of the summary so far, oldest first.
        notes: id -> note of the group.
        proposals: the earlier proposals of the session.
    """

    session: str
    turns: Sequence[Turn]
    earlier: Sequence[Turn]
    summary: Sequence[Turn]
    notes: Mapping[str, NotePlace]
    is_person: Callable[[Turn], bool]
    proposals: Sequence[Proposal] = ()

    @cached_property
    def by_place(self) -> Turns:
        return {(self.session, turn.number): turn for turn in (*self.earlier, *self.turns)}

    @property
    def sections(self) -> Sequence[str]:
        """The sections that a fact may go to, the group's own first."""
        own = (note.section[:MAX_LINE_CHARACTERS].strip() for note in self.notes.values())
        return list(dict.fromkeys((*filter(None, own), *SECTIONS)))

    @cached_property
    def given(self) -> Mapping[str, str]:
        """Number (`N1`) -> id of the notes in the question: the newest for which there is room."""
        lines = [_note_line("N1", name, note) for name, note in self.notes.items()]
        shown = newest_lines(lines, MAX_TOKENS_MORE)
        return {f"N{n}": name for n, name in enumerate([*self.notes][len(lines) - len(shown) :], 1)}

    @cached_property
    def sentences(self) -> Mapping[str, str]:
        """Words of the sentences and whole turns of people -> their numbers."""
        refs: dict[str, str] = {}
        for _, turn in self.said((*self.earlier, *self.turns)):
            for number, (begin, end) in enumerate(sentences_of(turn.content), 1):
                refs[_key(turn.content[begin:end])] = f"{turn.number}.{number}"
            refs[_key(turn.content)] = f"{turn.number}"
        return refs

    def said(self, turns: Iterable[Turn]) -> list[tuple[str, Turn]]:
        return [(self.session, turn) for turn in turns if self.is_person(turn)]

    def picked(self, refs: Iterable[str]) -> list[Pick]:
        """Return the picks that refs name, in the order of the turns; the gates refuse facts that no person said."""
        return picked(refs, self.by_place, self.session)


class Fact(Edited):
    """Sentences to remember, their section, and the notes that they change."""

    take: Refs
    section: str = ""
    changes: Refs = ()


Prose = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEXT)]


class Consolidated(Answered):
    """A model's answer: numbers or texts. Code chooses the content of a missing history or summary."""

    facts: Annotated[tuple[Fact, ...], Field(strict=False)] = ()
    history: Refs = ()
    summary: Refs = ()
    history_entry: Prose | None = None
    memory_update: str | None = None
    conversation_summary: Prose | None = None


def request_text(material: Material) -> str:
    """Return the text of the question: numbered notes, sections, the summary so far, and the turns, oldest first."""
    notes = [_note_line(number, name, material.notes[name]) for number, name in material.given.items()]
    summary = [numbered_turn(each, f"{each.number}", is_person=True) for each in material.summary]
    turns = [numbered_turn(each, f"{each.number}", is_person=material.is_person(each)) for each in material.turns]
    return (
        f"## Current Long-term Memory\n{''.join(notes) or '(empty)'}"
        f"\n## Sections\n{', '.join(material.sections)}\n"
        f"\n## Conversation Summary So Far\n{''.join(summary) or '(none)'}"
        f"\n## Conversation to Process\n{''.join(turns)}"
    )


def _note_line(number: str, name: str, note: NotePlace) -> str:
    text = note.text.strip().replace("\n", "\n  ")
    return f"{number} [{name}] {note.section}, by {note.author or 'a person'}: {text}\n"


def _proposed(material: Material, answer: Answer | None, *, prose: bool) -> Sequence[Operation]:
    """Return the operations of an answer; of its texts, one of each kind waits. Raises WrongAnswer."""
    said, model = Consolidated(history=()), ""  # chooses nothing: the newest turns of people are taken
    if answer is not None:
        said, model = read_answer(answer.text, Consolidated), answer.model
    before = (each for proposal in material.proposals for each in proposal.operations)
    waiting = {each.op for each in before if each.by and each.state == "waiting"} - {"add"}
    operations = operations_of(said, material, model, prose=prose)
    return [each for each in operations if not (each.waits and each.op in waiting)]


def operations_of(answer: Consolidated, material: Material, model: str, *, prose: bool) -> list[Operation]:
    """Return the operations of an answer: a history, a summary, then its facts.

    Args:
        prose: whether a history and a summary in a model's own words are applied, marked as the model's.
    """
    known = (*material.earlier, *material.turns)
    return [
        *_minutes("write_history", answer.history, answer.history_entry, material, material.turns, model, prose),
        *_minutes("write_summary", answer.summary, answer.conversation_summary, material, known, model, prose),
        *_facts(answer, material, model),
    ]


def _minutes(
    op: Op, refs: Refs, text: str | None, material: Material, fill: Sequence[Turn], model: str, prose: bool
) -> Iterator[Operation]:
    """Yield a history or a summary: of the chosen sentences, else of the newest turns.

    A text in the model's own words waits for a person, or is used instead if `prose` is set.

    Args:
        fill: turns; the newest of them fill the rest of a summary.
    """
    picks = [pick for pick in material.picked(refs) if material.is_person(pick.turn)]
    if not picks and text is not None:
        said, others = said_in(text, material.sentences)
        picks = material.picked(said)
        if others:
            yield Operation(
                n=1,
                op=op,
                result=text,
                by=model,
                waits="" if prose else _nobody_said(model),
                why=f"written by {model}, unchecked",
            )
            if prose:
                return
            picks = []
    evidence = chosen_minutes(picks, material.said(fill) if op == "write_summary" or not picks else [])
    if evidence:
        yield Operation(
            n=1,
            op=op,
            result=minutes(evidence),
            evidence=tuple(evidence),
            why="sentences that the model chose" if picks else "what people said, the newest that has room",
        )


def _facts(answer: Consolidated, material: Material, model: str) -> Iterator[Operation]:
    facts, waiting = [*answer.facts], list[Operation]()
    if answer.memory_update is not None and answer.memory_update.strip():
        told, waiting = _update(answer.memory_update, material, model)
        facts += told
    sections: dict[int, str] = {}  # by turn, like the changed notes
    changed: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for each in facts:
        numbers = (f"N{ref.lstrip('Nn ')}" for ref in each.changes)
        changes = [material.given[number] for number in numbers if number in material.given]
        for pick in material.picked(each.take):
            sections.setdefault(pick.turn.number, each.section)
            changed[pick.turn.number].update(dict.fromkeys(changes))
    for pick in material.picked(ref for each in facts for ref in each.take)[:MAX_FACTS]:
        yield from _fact(pick, sections[pick.turn.number], tuple(changed[pick.turn.number]), material)
    yield from waiting


def _fact(pick: Pick, section: str, changes: Sequence[str], material: Material) -> Iterator[Operation]:
    """Yield the note of a fact, and a retirement, which waits for a person, of each note that it changes.

    Args:
        changes: ids of the notes that it changes.
    """
    text, evidence = fact(pick, material.by_place.get((pick.session, pick.turn.number - 1)))
    lines = [earlier(material.notes[name].author or "a person", material.notes[name].text) for name in changes]
    yield Operation(
        n=1,
        op="add",
        sources=tuple(changes),
        result="\n".join((text, *lines, f"({pick.session}#{pick.turn.number})")),
        title=section if section in material.sections else SECTIONS[0],
        evidence=tuple(evidence),
        why="a person said it",
    )
    why = f"what a person said in {pick.session}#{pick.turn.number} changes it"
    for name in changes:
        yield Operation(n=1, op="retire", sources=(name,), evidence=tuple(evidence), waits=ONLY_A_PERSON, why=why)


def _update(update: str, material: Material, model: str) -> tuple[list[Fact], list[Operation]]:
    """Return the facts in a model's MEMORY.md that people said, and operations for all other changes, which wait."""
    facts: list[Fact] = []
    waiting: list[Operation] = []
    for section, text in new_lines(update, material.notes.values()):
        said, others = said_in(text, material.sentences)
        if not others:
            facts.append(Fact(take=tuple(said), section=section))
            continue
        waiting.append(
            Operation(
                n=1,
                op="add",
                result=text,
                title=section[:MAX_LINE_CHARACTERS].strip() or SECTIONS[0],
                by=model,
                waits=_nobody_said(model),
                why="the model adds it",
            )
        )
    for name in left_out(update, {name: material.notes[name] for name in material.given.values()}):
        why = "the model leaves it out"
        waiting.append(Operation(n=1, op="retire", sources=(name,), waits=ONLY_A_PERSON, why=why))
    return facts, waiting


def _nobody_said(model: str) -> str:
    return f"written by {model}, nobody said this"


# -------------------------------------------------------------------------------------------------- a model's texts


def said_in(text: str, known: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the numbers of the sentences of a text that people said, and the sentences that nobody said.

    Args:
        known: words of sentences and whole turns of people -> their numbers.
    """
    text = _DATED.sub("", text)
    if _key(text) in known:
        return [known[_key(text)]], []
    sentences = [_key(text[begin:end]) for begin, end in sentences_of(text)]
    others = [each for each in sentences if each and each not in known]
    return [known[each] for each in sentences if each in known], others


def new_lines(update: str, notes: Iterable[NotePlace]) -> list[tuple[str, str]]:
    """Return section and text of the facts in a MEMORY.md by a model that no note has."""
    known = {key for note in notes for key in (_key(note.text), *_keys(note.text))}
    return [(section, text) for section, text in _bullets(update) if _key(text) and _key(text) not in known]


def left_out(update: str, notes: Mapping[str, NotePlace]) -> list[str]:
    """Return the ids of the notes of which a MEMORY.md by a model leaves out at least a part."""
    kept = _keys(update)
    return [name for name, note in notes.items() if not _keys(note.text) <= kept]


def _keys(memory: str) -> set[str]:
    """Return the facts in a MEMORY.md or a note for comparison; a person's note may have several bullets, or none."""
    return {_key(text) for _, text in _bullets(memory)}


def _key(text: str) -> str:
    """Return a sentence for comparison: without extra white space, list mark, quotes around it and final stop."""
    return _BULLET.sub("", " ".join(text.split()), count=1).strip(_QUOTES)


def _bullets(memory: str) -> Iterator[tuple[str, str]]:
    """Yield section and text of each fact in a MEMORY.md: a bullet, or a paragraph."""
    section = ""
    for part in _FACT_BEGINS.split(memory):
        heading, _, rest = part.partition("\n") if part.startswith("#") else ("", "", part)
        if heading:
            signed = SIGNED.fullmatch(heading)
            section = signed["section"] if signed else heading.lstrip("#").strip()
        text = " ".join(_BULLET.sub("", rest, count=1).split())
        if text:
            yield section, text
