"""Enrichment of saved entries: a model names the sentences of a long entry that are separate facts (RB8).

Each fact becomes an entry in the words of the saved one, with its author and a link to it; the saved entry does not
change. Entries that wait for this are questions in the journal, so a restart forgets none of them, except those saved
in the last second before it.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Annotated

import anyio.to_thread
from pydantic import Field

from honeybadger_agent.mailbox import CONSOLIDATOR
from honeybadger_agent.wire.labels import is_store
from honeybadger_host.curation.asking import Answer, Question, WrongAnswer, read_answer, read_directive
from honeybadger_host.curation.dreams import PART_OF
from honeybadger_host.curation.gates import Known
from honeybadger_host.curation.passes import BEGINNING, PassDependencies
from honeybadger_host.curation.proposal import Operation
from honeybadger_host.curation.proposal_files import proposal_file
from honeybadger_host.curation.said import CUT, Refs, numbered_turn, picked, runs_of, sentences_of
from honeybadger_host.errors import WorldFailed
from honeybadger_host.journal.changes import Change, FileWritten, read_whole
from honeybadger_host.log import log
from honeybadger_host.memory.edited import Edited
from honeybadger_host.memory.entries.entry import Entry, name_in
from honeybadger_host.text.turn import Turn

ENRICHMENT = "enrichment-"  # begins the names of the questions about entries
MIN_CHARACTERS = 200  # search finds shorter texts, and those of two sentences, equally well as a whole
MIN_SENTENCES = 3


class _Answer(Edited):
    sentences: Annotated[tuple[Refs, ...], Field(strict=False)]


def enrichment_of(entry_id: str) -> str:
    """Return the name of the question, and of the proposal, about an entry."""
    return f"{ENRICHMENT}{entry_id}"


def saved_in(written: Iterable[Change]) -> Iterator[tuple[str, str]]:
    """Yield group and id of the new entries of a batch that are long enough for several facts."""
    for change in written:
        is_new = isinstance(change, FileWritten) and change.kind == "entry" and change.replaces is None
        if is_new and len(change.data) >= MIN_CHARACTERS:
            yield change.group, name_in(change.file)


async def note(uses: PassDependencies, group: str, entry_id: str) -> bool:
    """Keep a saved entry if it may hold several facts, and return whether it was; an error is logged."""
    try:
        if await anyio.to_thread.run_sync(_entry, uses, group, entry_id) is None:
            return False
        await uses.asker.note(Question(group, enrichment_of(entry_id), "enrichment", "", ""))
    except WorldFailed as error:
        log.warning("enrichment.refused", group=group, entry=entry_id, why=str(error))
    return True


async def enrich(uses: PassDependencies, group: str) -> bool:
    """Enrich one entry; return whether there was one. Raises OverBudget, ModelFailed, WorldFailed."""
    name = await uses.asker.unfinished(group, ENRICHMENT)
    if name is None:
        return False
    entry_id = name.removeprefix(ENRICHMENT)
    found = await anyio.to_thread.run_sync(_entry, uses, group, entry_id)
    if found is None:
        await uses.asker.forget(Question(group, name, "enrichment", "", ""))
        return True
    entry, digest = found
    text = f"## Saved Text\n{numbered_turn(_as_turn(entry), '1', is_person=True)}"
    question = Question(group, name, "enrichment", read_directive(uses.files, "enrichment"), text)
    try:
        await uses.make(
            question,
            Known({entry.id: entry.content}, uses.is_person, digests={entry.id: digest}),
            partial(_operations, entry),
        )
    except WrongAnswer as error:  # the saved entry stays; a second question is not worth its cost
        log.warning("enrichment.refused", group=group, entry=entry_id, why=str(error))
    return True


def _entry(uses: PassDependencies, group: str, entry_id: str) -> tuple[Entry, str] | None:
    """Return an entry and the SHA-256 of its file, or None if it is gone or cannot hold several facts.

    The same text may have been deleted and saved again, with the same id: it is enriched once. Raises WorldFailed.
    """
    if (uses.home / proposal_file(group, enrichment_of(entry_id))).exists():
        return None
    files = uses.entry_files.find(group, entry_id)
    data = read_whole(uses.home / files[0]) if len(files) == 1 else None
    if data is None:
        return None
    try:
        entry = uses.entry_files.parse(files[0], data)
    except ValueError:  # it was logged
        return None
    text = entry.content.strip()
    is_long = len(text) >= MIN_CHARACTERS and len(sentences_of(text)) >= MIN_SENTENCES
    is_imported = entry.known_origin is not None and entry.known_origin.kind == "imported"
    is_ours = entry.by == CONSOLIDATOR or "proposal" in entry.metadata or is_store(entry.category)
    is_fit = is_long and not is_ours and entry.name is None and not is_imported
    return (entry, hashlib.sha256(data).hexdigest()) if is_fit else None


def _operations(entry: Entry, answer: Answer | None) -> Iterator[Operation]:
    """Yield an `add` for each fact of an entry that an answer names. Raises WrongAnswer."""
    facts = dict[str, None]()
    for refs in read_answer(answer.text, _Answer).sentences if answer is not None else ():
        for pick in picked(refs, {("", 1): _as_turn(entry)}):
            if len(pick.sentences) < len(sentences_of(entry.content)):
                facts[f"{CUT} ".join(runs_of(entry.content, pick.sentences))] = None
    for text in facts:
        yield Operation(
            n=1,
            op="add",
            sources=(entry.id,),
            result=text,
            category=entry.category,
            tags=entry.tags,
            metadata={PART_OF: entry.id},
            why=f"a fact of {entry.id}, in its words",
        )


def _as_turn(entry: Entry) -> Turn:
    """Return an entry as a turn, so that its sentences have numbers."""
    return Turn(1, entry.created or BEGINNING, "user", entry.by or "a person", entry.by or "", entry.content, 0)
