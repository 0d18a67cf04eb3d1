"""Enriches what agents save: a model names sentences of a long entry that are facts of their own (RB8).

Each fact becomes an entry in the words of the saved one, with its author and a link to it; the saved entry stays as it
is. Entries that wait to be looked at are questions in the journal, so a restart forgets none of them, except those that
were saved in the last second before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final, NamedTuple

import anyio.to_thread
import structlog
from pydantic import Field

from honeybadger_agent.mailbox import CONSOLIDATOR
from honeybadger_agent.wire.labels import is_store
from honeybadger_host.curation.answers import WrongAnswer, read_answer
from honeybadger_host.curation.asking import Answer, Asker, Question
from honeybadger_host.curation.consolidation import MAX_FACTS
from honeybadger_host.curation.dream import PART_OF
from honeybadger_host.curation.gates import Known
from honeybadger_host.curation.passes import PassDependencies, proposed
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.curation.said import CUT, Refs, numbered_turn, picked
from honeybadger_host.curation.sentences import sentences_of
from honeybadger_host.curation.snapshot import standing
from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.edited import Edited
from honeybadger_host.memory.entries.entry import Entry, name_in
from honeybadger_host.storage.atomic_files import read_whole
from honeybadger_host.storage.changes import Change, FileWritten
from honeybadger_host.text.turn import Turn

log = structlog.get_logger()

_NAMED: Final = "enrichment-"
_MAX_ID_CHARACTERS: Final = 40
_MIN_CHARACTERS: Final = 200
_MIN_SENTENCES: Final = 3


class _Answer(Edited):
    sentences: Annotated[tuple[Refs, ...], Field(strict=False, max_length=MAX_FACTS)]


class _Source(NamedTuple):
    """An entry, the SHA-256 of its file, and the question to a model."""

    entry: Entry
    digest: str
    asked: str


class Saved(NamedTuple):
    """An entry that was saved."""

    group: str
    id: str


def enrichment_of(entry_id: str) -> str:
    """Return the name of the question, and of the proposal, about an entry."""
    return f"{_NAMED}{entry_id}"


def saved_in(written: Iterable[Change]) -> Iterator[Saved]:
    """Yield the new entries of a batch that are long enough for several facts."""
    for change in written:
        if isinstance(change, FileWritten) and change.kind == "entry" and change.replaces is None:
            name = name_in(change.file)
            if len(change.data) >= _MIN_CHARACTERS and len(name) <= _MAX_ID_CHARACTERS:
                yield Saved(change.group, name)


@dataclass(frozen=True, slots=True)
class Enrichment:
    """Looks at saved entries, one at a time. Event loop.

    Args:
        keeper: keeps the entries that wait in the journal; asks a model only if `uses` has it as its asker.
    """

    uses: PassDependencies
    keeper: Asker

    async def note(self, saved: Collection[Saved]) -> set[str]:
        """Keep entries that have to be looked at, and return their groups; one that cannot be kept is passed over."""
        groups: set[str] = set()
        for group, entry_id in saved:
            try:
                if await anyio.to_thread.run_sync(self._source, group, entry_id) is not None:
                    await self.keeper.note(self._question(group, enrichment_of(entry_id), ""))
                    groups.add(group)
            except WorldFailed as error:
                log.warning("enrichment.refused", group=group, entry=entry_id, why=str(error))
        return groups

    async def groups(self) -> set[str]:
        """Return the groups with entries that wait."""
        try:
            return {key.group for key in await self.keeper.begun(_NAMED)}
        except WorldFailed as error:
            log.warning("enrichment.refused", why=str(error))  # they are made after the next entry that is saved
            return set()

    async def make(self, group: str) -> bool:
        """Look at one entry; return whether there are more. Raises OverBudget, ModelFailed, WorldFailed."""
        name = await self.keeper.unfinished(group, _NAMED)
        if name is None:
            return False
        source = await anyio.to_thread.run_sync(self._source, group, name.removeprefix(_NAMED))
        question = self._question(group, name, "" if source is None else source.asked)
        if source is None:
            await self.keeper.forget(question)
            return True
        try:
            if await self.uses.make(question, partial(self._propose, question, source)) is None:
                await self.keeper.forget(question)
        except WrongAnswer as error:  # the saved entry is kept: it is not worth a second question
            log.warning("enrichment.refused", group=group, entry=source.entry.id, why=str(error))
        return True

    def _question(self, group: str, name: str, text: str) -> Question:
        return Question(group, name, "enrichment", self.uses.directives.read("enrichment"), text)

    def _source(self, group: str, entry_id: str) -> _Source | None:
        """Return an entry that may hold several facts; None when it is gone or does not qualify. Raises WorldFailed."""
        files = self.uses.entry_files.find(group, entry_id)
        data = read_whole(self.uses.home / files[0]) if len(files) == 1 else None
        if data is None:
            return None
        try:
            entry = self.uses.entry_files.parse(files[0], data)
        except ValueError:  # it was logged
            return None
        text = entry.content.strip()
        is_long = len(text) >= _MIN_CHARACTERS and len(sentences_of(text)) >= _MIN_SENTENCES
        is_imported = entry.known_origin is not None and entry.known_origin.kind == "imported"
        is_ours = entry.by == CONSOLIDATOR or "proposal" in entry.metadata or is_store(entry.category)
        if not is_long or is_ours or entry.name is not None or is_imported or self.uses.asker is None:
            return None
        asked = f"## Saved Text\n[{entry.id}] {entry.category}\n{numbered_turn(_as_turn(entry), '1', is_person=True)}"
        return _Source(entry, hashlib.sha256(data).hexdigest(), asked)

    def _propose(self, question: Question, source: _Source, answer: Answer | None) -> Proposal | None:
        """Return the proposal of an answer, with its gates checked; None when it has none. Raises WrongAnswer."""
        entry = source.entry
        operations = _operations(source, answer)
        if not operations:
            return None
        known = Known(
            texts={entry.id: entry.content, **standing(self.uses.home, question.group, operations)},
            digests={entry.id: source.digest},
            is_person=self.uses.is_person,
            is_forgotten=self.uses.forgotten_in(question.group),
        )
        is_as_read = answer is None or source.asked == answer.asked  # else the entry changed before a restart
        base = {entry.id: source.digest if is_as_read else "0" * 64}
        return proposed(question, answer, operations, known, made_at=datetime.now(UTC), base=base)


def _as_turn(entry: Entry) -> Turn:
    """Return an entry as a turn, so that its sentences have numbers."""
    at = entry.created or datetime.min.replace(tzinfo=UTC)
    return Turn(1, at, "user", entry.by or "a person", entry.by or "", entry.content, 0)


def _operations(source: _Source, answer: Answer | None) -> list[Operation]:
    """Return an `add` for each fact that an answer names; none without an answer. Raises WrongAnswer."""
    entry, found = source.entry, dict[str, None]()
    for refs in () if answer is None else read_answer(answer.text, _Answer).sentences:
        for pick in picked(refs, {("", 1): _as_turn(entry)}):
            if len(pick.sentences) < len(sentences_of(entry.content)):
                found[f"{CUT} ".join(pick.runs())] = None
    return [
        Operation(
            n=1,
            op="add",
            sources=(entry.id,),
            result=text,
            category=entry.category,
            tags=entry.tags,
            metadata={PART_OF: entry.id},
            why=f"a fact of {entry.id}, in its words",
        )
        for text in found
    ]
