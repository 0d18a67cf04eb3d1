"""The common part of all passes over memory: what they read, the question to a model, and the writing.

Nothing here writes memory: the result of a pass goes through the pipeline like a request, in one commit.
"""

import contextlib
import hashlib
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import anyio.to_thread
import orjson
from pydantic import ValidationError

from honeybadger_agent.mailbox import CONSOLIDATOR, HUMAN, OPERATOR, is_system_sender
from honeybadger_agent.wire import STORE, Wire
from honeybadger_host.curation.applying import Applying
from honeybadger_host.curation.asking import Answer, Asker, Question, WrongAnswer
from honeybadger_host.curation.gates import Known, applies_itself, check
from honeybadger_host.curation.proposal import Operation, Proposal, Tokens, counts_of, numbered, parse_proposal
from honeybadger_host.curation.proposal_files import proposal_file, readable, unsettled
from honeybadger_host.curation.said import Turns
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.home import JOURNAL_FILE, MEMORY
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.journal.changes import WholeFiles, read_whole
from honeybadger_host.journal.forgetting import read_tombstones
from honeybadger_host.log import log
from honeybadger_host.memory.entries.entry import Entry, entry_file, entry_id, name_in, parse_entry, show_time
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.markdown.notes import NOBODY
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log_store import TurnLogs, Watermarks
from honeybadger_host.search.notes import NotePlace, notes_of
from honeybadger_host.search.sources import sources
from honeybadger_host.settings import Settings
from honeybadger_host.text.labels import folded
from honeybadger_host.text.phrases import FORGOTTEN
from honeybadger_host.text.turn import Turn

# Kind of a pass -> log event of its end; all other kinds log `dream.finished`.
_FINISHED = {"consolidation": "consolidation.finished", "enrichment": "enrichment.finished"}
MAX_TOKENS = 12_000  # tokens of turns or entries in one question: small models read 16,000
MAX_TOKENS_MORE = 4_000  # tokens of notes or people's turns in addition to those
MAX_ENTRIES = 1000  # entries of a pass, last changed first (RB14)
_SESSIONS = 100  # last changed sessions that are looked at; at the start of a host, those of all groups together
# Reasons for protection.
_A_PERSON = "a person wrote it"
_PINNED = "it is pinned"
BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PassDependencies:
    """The dependencies of passes.

    Args:
        change: see `Pipeline.change`.
        waiting_groups: the groups in which no job begins unless a person asks: a turn runs.
        is_agent: whether a name is that of an agent of this home.
        memory_window: see `watermarks`; 0: nothing is consolidated.
        give_way: waits while somebody searches, see `Index.give_way`.
    """

    home: Path
    asker: Asker
    files: GroupFiles
    change: Callable[[Asked, str, ChangeHandler], Awaitable[bytes]]
    waiting_groups: Callable[[], Collection[str]]
    is_agent: Callable[[str], bool]
    turn_logs: TurnLogs
    documents: Sessions
    watermarks: Watermarks
    whole_files: WholeFiles
    entry_files: EntryFiles
    memory_window: int
    settings: Settings
    give_way: Callable[[], None]

    def forgotten_in(self, group: str) -> Callable[[str], bool]:
        """Return a test whether a text repeats something that was forgotten in a group."""
        return read_tombstones(self.home / JOURNAL_FILE, group).knows

    def notes_in(self, group: str) -> Mapping[str, NotePlace]:
        """Return the notes of a group; none if its MEMORY.md is not UTF-8. Raises WorldFailed."""
        return notes_of(group, read_whole(self.home / f"groups/{group}/{MEMORY}") or b"")

    def is_person(self, turn: Turn) -> bool:
        """Return whether a person said a turn that is not forgotten: no agent, and not the host, which gives tasks."""
        if turn.role != "user" or is_system_sender(turn.by) or turn.content == FORGOTTEN:
            return False
        return not self.is_agent(turn.by) and not self.is_agent(turn.sender)

    async def make(
        self,
        question: Question,
        known: Known,
        operations_of: Callable[[Answer | None], Iterable[Operation]],
        *,
        until: datetime | None = None,
        earlier: Iterable[Proposal] = (),
        **more: Any,
    ) -> Proposal | None:
        """Ask a model and write the proposal of its answer; return it as written, or None if nothing is proposed.

        Args:
            question: without a text no model is asked. Its name is a prefix; it gets the name of the group's
                unfinished question with this prefix from before a restart, or a new name.
            known: what the pass has read; what was forgotten, and entries with the text of an operation, are added.
            operations_of: (answer, or None without a model) -> the operations to propose; runs on a thread.
            until: see `Applying`; None: the time of the proposal.
            earlier: proposals whose operations are not proposed again, see `unsettled`.
            more: further members of the proposal.
        Raises OverBudget, ModelFailed, WorldFailed, and WrongAnswer, whose answer is forgotten; nothing was changed.
        """
        kept = await self.asker.unfinished(question.group, question.name)
        question = replace(question, name=kept or f"{question.name}{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"[:-3])
        answer = await self.asker.ask(question)
        try:
            proposal = await anyio.to_thread.run_sync(
                partial(self._proposed, question, answer, known, operations_of, earlier, **more)
            )
        except (WrongAnswer, ValidationError) as error:  # the second: a text is too long
            await self.asker.forget(question)
            raise WrongAnswer(str(error)) from None
        if proposal.operations or proposal.kind != "enrichment":  # that has no watermark to move
            return await self._write(question, proposal, until or proposal.made_at)
        await self.asker.forget(question)
        return None

    async def _write(self, question: Question, proposal: Proposal, until: datetime) -> Proposal | None:
        """Apply the operations that need no person, and keep the proposal; return it with their new states.

        None: it has no operations, only a watermark moved.

        Raises WorldFailed if another change came first, or the disk is full; nothing was changed.
        """
        applies = partial(applies_itself, policy=self.settings.curation.apply)

        def decide(asked: Asked, now: datetime) -> Outcome:
            return Applying(self.whole_files, self.entry_files, proposal, applies, until, asked.sender, now).outcome()

        asked = Asked(proposal.group, CONSOLIDATOR, proposal.id, proposal.session or "main", Wire(), question.digest)
        type_name = "consolidate" if proposal.kind == "consolidation" else "dream"
        reply = orjson.loads(await self.change(asked, type_name, ChangeHandler(decide)))
        if not reply["ok"]:
            raise WorldFailed(f"{reply['error']['message']}")
        data = await anyio.to_thread.run_sync(read_whole, self.home / proposal_file(proposal.group, proposal.id))
        if data is None:
            return None
        written = parse_proposal(data)
        _log(written)
        return written

    def _proposed(
        self,
        question: Question,
        answer: Answer | None,
        known: Known,
        operations_of: Callable[[Answer | None], Iterable[Operation]],
        earlier: Iterable[Proposal],
        **more: Any,
    ) -> Proposal:
        """Return the proposal of an answer, with its gates checked. Arguments and errors as of `make`."""
        self.give_way()
        operations = numbered(operations_of(answer))
        base = {name: known.digests[name] for each in operations for name in each.sources if name in known.digests}
        about = {"id": question.name, "group": question.group, "kind": question.kind, "base": base, **more}
        if answer is not None:
            prompt = hashlib.sha256(question.system.encode()).hexdigest()
            tokens = Tokens(input=answer.input_tokens, output=answer.output_tokens)
            about |= {"by": answer.model, "prompt": prompt, "tokens": tokens}
        texts = {**known.texts, **standing(self.home, question.group, operations)}
        known = replace(known, texts=texts, is_forgotten=self.forgotten_in(question.group))
        made = Proposal(made_at=datetime.now(UTC), operations=operations, **about)
        return unsettled(check(made, known), earlier)


def taken(turns: Iterable[Turn]) -> int:
    """Return how many of the first turns one pass takes: at least one, else as many as `MAX_TOKENS` allows."""
    totals = accumulate(turn.line_tokens for turn in turns)
    return max(1, sum(total <= MAX_TOKENS for total in totals))


def _log(proposal: Proposal) -> None:
    first, last = proposal.first_turn or 0, proposal.last_turn or 0
    span = {"session": proposal.session, "turns": last + 1 - first, "up_to": last} if proposal.session else {}
    log.info(
        _FINISHED.get(proposal.kind, "dream.finished"),
        group=proposal.group,
        kind=proposal.kind,
        **span,
        by=proposal.by,
        proposal=proposal_file(proposal.group, proposal.id),
        **counts_of(proposal.operations),
        tokens=proposal.tokens.input + proposal.tokens.output,
    )


# ------------------------------------------------------------------------------------------------------ what is read


@dataclass(frozen=True)
class Snapshot:
    """The memory that a pass reads, without entries whose id is not unique.

    Args:
        entries: id -> entry, oldest first.
        notes: id -> note, in the order of MEMORY.md.
        digests: id -> SHA-256 of an entry's file as it was read.
        earlier: the earlier proposals of the group.
        left_out: number of entries of the group that are not in it.
    """

    group: str
    entries: Mapping[str, Entry]
    notes: Mapping[str, NotePlace]
    digests: Mapping[str, str]
    earlier: Sequence[Proposal]
    left_out: int

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Id -> text of the entries, then of the notes."""
        entries = {name: entry.content for name, entry in self.entries.items()}
        return entries | {name: note.text for name, note in self.notes.items()}

    @cached_property
    def protected(self) -> Mapping[str, str]:
        """Id -> why only a person may change it."""
        whys = {name: _why_protected(entry) for name, entry in self.entries.items()}
        return {name: why for name, why in whys.items() if why} | protected_notes(self.notes)

    @cached_property
    def categories(self) -> Sequence[str]:
        """The categories of the entries, in order."""
        return sorted({entry.category for entry in self.entries.values()})

    @cached_property
    def tags(self) -> Sequence[str]:
        """The tags of the entries, in order."""
        return sorted({tag for entry in self.entries.values() for tag in entry.tags})

    def known(self, turns: Turns, is_person: Callable[[Turn], bool]) -> Known:
        """Return the snapshot as the gates need it."""
        return Known(
            texts=self.texts,
            turns=turns,
            is_person=is_person,
            protected=self.protected,
            group_size=len(self.texts) + self.left_out,
            digests=self.digests,
        )


def take(uses: PassDependencies, group: str) -> Snapshot:
    """Return a snapshot of a group. Raises WorldFailed, FileProblem."""
    files = [
        (signature.mtime_ns, source.file)
        for source, signature in sources(uses.home, group, set())
        if source.kind == "entry" and f"/memory/{STORE}" not in source.file.lower()
    ]
    ids = Counter(name_in(file) for _, file in files)
    entries: list[Entry] = []
    digests: dict[str, str] = {}
    for _, file in heapq.nlargest(MAX_ENTRIES, files):
        data = read_whole(uses.home / file) if ids[name_in(file)] == 1 else None
        if data is not None:
            with contextlib.suppress(ValueError):  # it was logged
                entries.append(uses.entry_files.parse(file, data))
                digests[entries[-1].id] = hashlib.sha256(data).hexdigest()
    entries.sort(key=lambda entry: (entry.created or BEGINNING, entry.id))
    return Snapshot(
        group,
        entries={entry.id: entry for entry in entries},
        notes=uses.notes_in(group),
        digests=digests,
        earlier=readable(uses.home, group),
        left_out=len(files) - len(entries),
    )


def _why_protected(entry: Entry) -> str | None:
    """Return why only a person may change an entry, or None."""
    if entry.by is None or entry.by == HUMAN:
        return _A_PERSON
    if entry.pinned:
        return _PINNED
    if entry.valid_until is not None:
        return f"it is valid until {show_time(entry.valid_until)}"
    return None if entry.name is None else f"it is the document {entry.name}"


def protected_notes(notes: Mapping[str, NotePlace]) -> dict[str, str]:
    """Return id -> why only a person may change it: a person wrote it, or it is pinned."""
    peoples = {note: _A_PERSON for note, place in notes.items() if place.author in (NOBODY, HUMAN, OPERATOR)}
    return {note: _PINNED for note, place in notes.items() if place.is_pinned} | peoples


def standing(home: Path, group: str, operations: Iterable[Operation]) -> dict[str, str]:
    """Return id -> text of proposed entries that exist already, even outside of a snapshot."""
    found: dict[str, str] = {}
    for each in operations:
        if each.op == "add" and each.category is not None and each.result is not None:
            name = entry_id(each.category, folded(each.result))
            file = entry_file(group, each.category, name)
            data = read_whole(home / file)
            with contextlib.suppress(ValueError):  # it is not an entry
                if data is not None and folded(parse_entry(data, file).content) == folded(each.result):
                    found[name] = each.result
    return found


# --------------------------------------------------------------------------------------------------------------- turns


def newest_turns(uses: PassDependencies, group: str) -> Turns:
    """Return the newest turns of people in the sessions that changed last. Raises WorldFailed."""
    found: dict[tuple[str, int], Turn] = {}
    for _, session in newest_sessions(uses.home, group):
        turns = uses.turn_logs.since(group, session, 0, window=uses.turn_logs.window(group, session))
        found |= {(session, turn.number): turn for turn in turns if uses.is_person(turn)}
    return found


def newest_sessions(home: Path, group: str) -> list[tuple[str, str]]:
    """Return (group, session) of the logs that changed last, newest first.

    Args:
        group: `*` for all groups.
    """
    found: list[tuple[float, str, str]] = []
    for path in (home / "data" / "sessions").glob(f"{group}/*.jsonl"):
        with contextlib.suppress(OSError):  # it was removed meanwhile
            found.append((path.stat().st_mtime, path.parent.name, path.stem))
    return [(group, session) for _, group, session in sorted(found, reverse=True)[:_SESSIONS]]
