"""Applies the operations of a proposal: one commit with what they change, the watermark and the proposal's file.

What is taken up goes to the archive, never away. An operation whose sources changed since they were read becomes stale;
the others are applied all the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from honeybadger_agent.mailbox import CONSOLIDATOR
from honeybadger_agent.wire import Refusal
from honeybadger_host.curation.consolidation import history_entry
from honeybadger_host.curation.notes import NOTE_ID, NotePlace, notes_of
from honeybadger_host.curation.proposal import (
    REPLACED,
    RETIRED,
    TAKEN,
    Operation,
    OperationState,
    Proposal,
    counts_of,
    dump_proposal,
)
from honeybadger_host.curation.proposal_files import proposal_file
from honeybadger_host.domain import (
    MEMORY,
    SUMMARY,
    Added,
    Asked,
    Change,
    ChangeHandler,
    FileWritten,
    Outcome,
)
from honeybadger_host.memory.archive import Retired, archive_entry, archive_notes, archived_file
from honeybadger_host.memory.entry import Entry, dump_entry, entry_file, entry_id, name_in, parse_entry
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.labels import each_once, folded
from honeybadger_host.memory.origin import Origin
from honeybadger_host.memory.standing import Standing
from honeybadger_host.memory.summary_parts import digest_of, part_of, with_part
from honeybadger_host.memory.watermarks import (
    Watermark,
    dreamt_file,
    dump_watermark,
    inferred_file,
    parse_watermark,
    watermark_file,
)
from honeybadger_host.storage.atomic_files import WholeFiles
from honeybadger_host.text.neutralise import neutralise, render_note
from honeybadger_host.text.time_stamps import to_milliseconds

SECTION: Final = "Notes"
MERGED: Final = "merged"
"""Member of an entry's metadata: how many merges it is made of, one upon the other."""
_READ_FILES: Final[Mapping[str, Callable[[str], str]]] = {"preferences": inferred_file, "dream": dreamt_file}
"""Kind -> the file that says up to when a group was looked at for it."""
_PLACES: Final = 4
"""Files looked at for a new entry: the first of them that is free is its own."""


@dataclass(slots=True)
class Prepared:
    """What is loaded for a proposal.

    Args:
        entries: id -> its file; none for an id that has no file, or several.
        free: number of an operation -> files that its new entry may have.
        memory: bytes of MEMORY.md; None: there is none, or no operation takes up a note.
        notes: those of it.
    """

    entries: Mapping[str, str]
    free: Mapping[int, Sequence[str]]
    memory: bytes | None
    notes: Mapping[str, NotePlace]


@dataclass(slots=True)
class _Made:
    """What is decided so far.

    Args:
        standing: the notes of MEMORY.md as it is.
    """

    standing: Mapping[str, NotePlace]
    changes: list[Change] = field(default_factory=list)
    retired: list[Retired] = field(default_factory=list)
    notes: list[Added] = field(default_factory=list)
    states: dict[int, OperationState] = field(default_factory=dict)
    part: str | None = None
    used: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Applying:
    """One proposal on its way into the journal.

    Args:
        proposal: its gates are checked.
        applies: which of its waiting operations are applied; the others wait, or are refused already.
        until: when the newest of the turns was said that were consolidated, or read for preferences; of a dream, when
            it was made.
        kept: bytes of the proposal's file; None: it is new.
    """

    files: WholeFiles
    entries: EntryFiles
    proposal: Proposal
    applies: Callable[[Operation], bool]
    until: datetime
    kept: bytes | None = None

    @property
    def handler(self) -> ChangeHandler[Prepared]:
        return ChangeHandler(self.decide, self.prepare)

    def prepare(self, asked: Asked) -> Prepared:
        """Load all that the operations are about. Raises WorldFailed."""
        proposal, group, load = self.proposal, self.proposal.group, self.files.load
        load(proposal_file(group, proposal.id))
        if proposal.session is not None:
            load(watermark_file(group, proposal.session))
            load(f"groups/{group}/{SUMMARY}")
        if (read := _READ_FILES.get(proposal.kind)) is not None:
            load(read(group))
        entries: dict[str, str] = {}
        free: dict[int, Sequence[str]] = {}
        chosen = [operation for operation in proposal.operations if self.applies(operation)]
        takes_notes = any(source.startswith(NOTE_ID) for operation in chosen for source in operation.sources)
        memory = load(f"groups/{group}/{MEMORY}") if takes_notes else None
        for operation in chosen:
            for source in operation.sources:
                found = [] if source.startswith(NOTE_ID) else self.entries.find(group, source)
                for file in found:
                    load(file)
                    load(archived_file(file))
                if len(found) == 1:
                    entries[source] = found[0]
            if operation.result is not None and operation.category is not None:
                category = self.entries.place(group, operation.category)
                text = folded(operation.result)
                places = [entry_file(group, category, entry_id(category, text, salt)) for salt in range(_PLACES)]
                for file in places:
                    load(file)
                free[operation.n] = places
        return Prepared(entries, free, memory, notes_of(group, memory or b""))

    def decide(self, asked: Asked, prepared: Prepared, now: datetime) -> Outcome:
        """Decide what changes. Raises Refusal: somebody consolidated the session meanwhile."""
        proposal, group = self.proposal, self.proposal.group
        file = proposal_file(group, proposal.id)
        if self.files.view(file) != self.kept:
            raise Refusal("conflict", f"proposal {proposal.id} was changed meanwhile: look at it again")
        chosen = [each for each in proposal.operations if each.state == "waiting" and self.applies(each)]
        mark = self._mark() if proposal.session is not None and chosen else None
        memory = self.files.view(f"groups/{group}/{MEMORY}") if prepared.memory is not None else None
        made = _Made(prepared.notes if memory == prepared.memory else notes_of(group, memory or b""))
        for operation in chosen:
            made.states[operation.n] = self._apply(operation, prepared, mark, now, made)
        changes: list[Change] = []
        if made.retired:
            assert memory is not None  # noqa: S101  the notes were found in it
            changes += archive_notes(group, memory, made.retired, CONSOLIDATOR, now)
        changes += [*made.notes, *made.changes]
        operations = tuple(
            each.model_copy(update={"state": made.states.get(each.n, each.state)}) for each in proposal.operations
        )
        if proposal.session is not None and any(state == "applied" for state in made.states.values()):
            moved = self._moved_mark(mark, made.part, now)
            if moved != mark:
                changes.append(self._marked(watermark_file(group, proposal.session), moved))
        if (read := _READ_FILES.get(proposal.kind)) is not None and self.kept is None:
            changes.append(self._marked(read(group), Watermark(turn=0, at=self.until, proposal=proposal.id)))
        if operations:
            data = dump_proposal(proposal.model_copy(update={"operations": operations}))
            changes.append(FileWritten(group, "proposal", file, data, self.kept))
        return Outcome({"proposal": proposal.id, **counts_of(operations)}, tuple(changes))

    def _apply(
        self, operation: Operation, prepared: Prepared, mark: Watermark | None, now: datetime, made: _Made
    ) -> OperationState:
        """Add to `made` what an operation changes; return what becomes of it."""
        group = self.proposal.group
        if made.used & {*operation.sources}:
            return "stale"
        if operation.op == "write_summary":
            return self._write_summary(operation, mark, made)
        if operation.op == "write_history":
            text = neutralise(history_entry(operation.result or "", self.until)).text
            made.changes.append(Added("history", group, f"{text}\n\n".encode()))
            return "applied"
        return self._apply_to_entries(operation, prepared, now, made)

    def _write_summary(self, operation: Operation, mark: Watermark | None, made: _Made) -> OperationState:
        """Give the session another part of summary.md, unless a person edited it; then that waits for a person."""
        group, session = self.proposal.group, self.proposal.session
        assert session is not None  # noqa: S101  the model has checked it
        file = f"groups/{group}/{SUMMARY}"
        held = self.files.view(file)
        try:
            text = "" if held is None else held.decode()
        except UnicodeDecodeError:
            return "waiting"
        standing = part_of(text, session)
        if standing is not None and (mark is None or digest_of(standing) != mark.part) and self.kept is None:
            return "waiting"
        body = neutralise(operation.result or "").text
        made.part = digest_of(body)
        made.changes.append(FileWritten(group, "summary", file, with_part(text, session, body).encode(), held))
        return "applied"

    def _apply_to_entries(self, operation: Operation, prepared: Prepared, now: datetime, made: _Made) -> OperationState:
        """Retire the sources of an operation, and write its result."""
        group = self.proposal.group
        notes = [source for source in operation.sources if source.startswith(NOTE_ID)]
        if any(note not in made.standing for note in notes):
            return "stale"
        sources: list[tuple[str, Entry, bytes]] = []
        for source in operation.sources:
            if source.startswith(NOTE_ID):
                continue
            found = self._entry(source, prepared)
            if found is None:
                return "stale"
            sources.append(found)
        replaced_by: str | None = None
        if operation.result is not None:
            section = made.standing[notes[0]].section if notes else operation.title or SECTION
            if operation.category is not None:
                written = self._new_entry(operation, prepared, [entry for _, entry, _ in sources], now, made)
                if written is None:
                    return "stale"
                made.changes.append(written)
                replaced_by = name_in(written.file) if operation.op == "supersede" else None
            else:
                made.notes.append(Added("note", group, render_note(operation.result, section, CONSOLIDATOR, now).data))
        if operation.op in RETIRED:
            why = f"{operation.op} by proposal {self.proposal.id}"
            made.retired += [Retired(made.standing[note].span, why) for note in notes]
            for file, entry, data in sources:
                made.changes += archive_entry(
                    group, file, entry, data, self.files.view(archived_file(file)), by=replaced_by
                )
        if operation.op in TAKEN:
            made.used |= {*operation.sources}
        return "applied"

    def _entry(self, source: str, prepared: Prepared) -> tuple[str, Entry, bytes] | None:
        """Return an entry that is as it was read: its file, what it says, its bytes; None: it is not."""
        file = prepared.entries.get(source)
        data = None if file is None else self.files.view(file)
        if file is None or data is None or hashlib.sha256(data).hexdigest() != self.proposal.base.get(source):
            return None
        try:
            return file, parse_entry(data, file), data
        except ValueError:
            return None

    def _new_entry(
        self, operation: Operation, prepared: Prepared, sources: Collection[Entry], now: datetime, made: _Made
    ) -> FileWritten | None:
        """Return the entry that an operation makes; None: its places are taken. A merge has the earliest `created`."""
        group, is_merge = self.proposal.group, operation.op in ("merge", "promote")
        now = to_milliseconds(now)
        for file in prepared.free.get(operation.n, ()):
            if self.files.view(file) is None and file not in made.taken:
                break
        else:
            return None
        made.taken.add(file)
        heirs = sorted(sources, key=lambda entry: entry.created or now) if operation.op in REPLACED else []
        title, *aliases = each_once((operation.title or "", *(entry.title or "" for entry in heirs))) or ("",)
        metadata = {name: value for entry in heirs[::-1] for name, value in entry.metadata.items()}
        if operation.op == "merge" and {entry.content for entry in heirs} != {operation.result}:
            metadata[MERGED] = 1 + max((merges_of(entry) for entry in heirs), default=0)
        entry = Entry(
            id=name_in(file),
            category=file.split("/", 3)[3].rpartition("/")[0],
            content=operation.result or "",
            tags=each_once((*operation.tags, *(tag for entry in heirs for tag in entry.tags))),
            created=min((entry.created for entry in heirs if is_merge and entry.created is not None), default=now),
            updated=now,
            metadata={**metadata, **operation.metadata, "proposal": self.proposal.id},
            by=CONSOLIDATOR,
            title=title or None,
            aliases=each_once((*(alias for entry in heirs for alias in entry.aliases), *aliases)),
            reinforced=sum(entry.reinforced for entry in heirs) if is_merge else 0,
            more={name: value for entry in heirs[::-1] for name, value in entry.more.items()},
            standing=Standing(tuple(entry.id for entry in heirs) if operation.op == "supersede" else ()),
            origin=_shared_origin(heirs) if is_merge else Origin("inferred"),
        )
        return FileWritten(group, "entry", file, dump_entry(entry), None)

    def _mark(self) -> Watermark | None:
        """Return the watermark as it is. Raises Refusal."""
        proposal = self.proposal
        assert proposal.session is not None  # noqa: S101
        try:
            mark = parse_watermark(self.files.view(watermark_file(proposal.group, proposal.session)))
        except ValueError:
            mark = None
        if mark is not None and mark.turn >= (proposal.last_turn or 0) > 0 and mark.proposal != proposal.id:
            raise Refusal(
                "conflict", f"session {proposal.session} is consolidated up to turn {mark.turn} by {mark.proposal}"
            )
        return mark

    def _moved_mark(self, mark: Watermark | None, part: str | None, now: datetime) -> Watermark:
        """Return the watermark behind the proposal; the same when a part of it was applied before and moved it."""
        proposal, before = self.proposal, mark or Watermark(turn=0)
        if before.proposal == proposal.id and part is None:
            return before
        return Watermark(
            turn=max(proposal.last_turn or 0, before.turn),
            at=now,
            proposal=proposal.id,
            part=part or before.part,
            passes=before.passes + 1,
        )

    def _marked(self, file: str, mark: Watermark) -> FileWritten:
        return FileWritten(self.proposal.group, "watermark", file, dump_watermark(mark), self.files.view(file))


def _shared_origin(heirs: Collection[Entry]) -> Origin | None:
    """Return the origin that merged entries have in common; a host's guess if they have none in common."""
    origins = {entry.known_origin for entry in heirs}
    return origins.pop() if len(origins) == 1 else Origin("inferred")


def merges_of(entry: Entry) -> int:
    """Return how many merges an entry is made of, one upon the other."""
    count = entry.metadata.get(MERGED)
    return count if isinstance(count, int) and count > 0 else 0
