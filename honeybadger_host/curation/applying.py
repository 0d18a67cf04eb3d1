"""Applies the operations of a proposal: one commit with their changes, the watermark and the proposal's file.

Replaced and retired sources go to the archive; nothing is deleted. An operation whose sources have changed since they
were read becomes stale; the others are applied nevertheless.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from honeybadger_agent.mailbox import CONSOLIDATOR
from honeybadger_agent.wire import Refusal
from honeybadger_host.curation.notes import NOTE_ID, notes_of
from honeybadger_host.curation.proposal import (
    RETIRED,
    RULES,
    TAKEN,
    Operation,
    OperationState,
    Proposal,
)
from honeybadger_host.curation.proposal_files import check_kept, decided, proposal_file
from honeybadger_host.curation.said import uncopied
from honeybadger_host.files.home import MEMORY, SUMMARY
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.journal.changes import Added, Change, FileRemoved, FileWritten, WholeFiles
from honeybadger_host.memory.entries.entry import (
    Entry,
    Origin,
    dump_entry,
    entry_file,
    entry_id,
    name_in,
    parse_entry,
    show_time,
)
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.archive import Retired, archive_entry, archive_notes, archived_file
from honeybadger_host.memory.markdown.summary_parts import digest_of, part_of, with_part
from honeybadger_host.memory.turn_log_store import (
    Watermark,
    dreamt_file,
    dump_watermark,
    inferred_file,
    parse_watermark,
    watermark_file,
)
from honeybadger_host.text.labels import each_once, folded
from honeybadger_host.text.neutralise import neutralise, one_line, render_note
from honeybadger_host.text.time_stamps import to_milliseconds

SECTION: Final = "Notes"
# Member of a merged entry's metadata: id, author, category and times of each of its sources.
MADE_OF: Final = "made_of"
_UNSIGNABLE: Final = str.maketrans("(),", "   ")  # a signature cannot hold these characters
# Possible files of a new entry, of which the first free one is taken: a merge of equal texts takes the second, since
# one of its sources has the first.
_PLACES: Final = 4


@dataclass(frozen=True, slots=True)
class Prepared:
    """The files loaded for a proposal.

    Args:
        entries: id -> its file; an id that has no file or several is left out.
        free: number of an operation -> possible files of its new entry.
    """

    entries: Mapping[str, str]
    free: Mapping[int, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Applying:
    """One proposal on its way into the journal.

    Args:
        proposal: with its gates checked.
        applies: whether a waiting operation is applied now; the others keep waiting.
        until: time of the newest turn that was consolidated or read for preferences; for a dream its own time.
        kept: bytes of the proposal's file; None when it is new.
    """

    files: WholeFiles
    entries: EntryFiles
    proposal: Proposal
    applies: Callable[[Operation], bool]
    until: datetime
    kept: bytes | None = None

    @property
    def chosen(self) -> Sequence[Operation]:
        return [each for each in self.proposal.operations if each.state == "waiting" and self.applies(each)]

    def prepare(self, asked: Asked) -> Prepared:
        """Load the files of all operations. Raises WorldFailed."""
        group, load = self.proposal.group, self.files.load
        load(proposal_file(group, self.proposal.id))
        load(f"groups/{group}/{SUMMARY}")
        if (mark := _mark_file(self.proposal)) is not None:
            load(mark)
        entries: dict[str, str] = {}
        free: dict[int, Sequence[str]] = {}
        for operation in self.chosen:
            for source in operation.sources:
                found = [] if source.startswith(NOTE_ID) else self.entries.find(group, source)
                for file in found:
                    load(file)
                    load(archived_file(file))
                if len(found) == 1:
                    entries[source] = found[0]
                    if operation.op == "refine" and operation.category is not None:
                        load(entry_file(group, operation.category, source))
            if operation.result is not None and operation.category is not None:
                category, text = self.entries.place(group, operation.category), folded(operation.result)
                free[operation.n] = [entry_file(group, category, entry_id(category, text, n)) for n in range(_PLACES)]
                for file in free[operation.n]:
                    load(file)
        load(f"groups/{group}/{MEMORY}")
        return Prepared(entries, free)

    def decide(self, asked: Asked, prepared: Prepared, now: datetime) -> Outcome:
        """Return all changes. Raises Refusal if another proposal consolidated the session meanwhile."""
        check_kept(self.files, self.proposal, self.kept)
        return _Decision(self, prepared, asked.sender, now).outcome()


class _Decision:
    """The decision about a proposal: collects the changes of its operations, one after the other."""

    def __init__(self, applying: Applying, prepared: Prepared, decider: str, now: datetime) -> None:
        self._applying = applying
        self._decider = decider
        self._proposal = applying.proposal
        self._group = applying.proposal.group
        self._view = applying.files.view
        self._prepared = prepared
        self._now = now
        self._memory = self._view(f"groups/{self._group}/{MEMORY}")
        self._notes = notes_of(self._group, self._memory or b"")
        self._changes: list[Change] = []
        self._retired: list[Retired] = []
        self._added: list[Added] = []
        self._is_overtaken = False  # another proposal has consolidated the session as far
        self._used: set[str] = set()  # ids that operations changed or retired so far, and files that they wrote

    def outcome(self) -> Outcome:
        """Return all changes. Raises Refusal."""
        before = self._mark()
        mark, states = before, dict[int, OperationState]()
        for operation in self._applying.chosen:
            if self._used & {*operation.sources}:
                states[operation.n] = "stale"
            elif operation.op == "write_history":
                text = f"{self._history_head(operation)}\n{self._told(operation)}\n\n"
                self._changes.append(Added.of("history", self._group, text.encode()))
                states[operation.n] = "applied"
            elif operation.op == "write_summary" and self._is_overtaken:
                states[operation.n] = "stale"  # it would replace the summary of later turns
            elif operation.op == "write_summary":
                part = self._write_summary(operation, before.part)
                mark = mark if part is None else mark.model_copy(update={"part": part})
                states[operation.n] = "waiting" if part is None else "applied"
            else:
                states[operation.n] = "applied" if self._apply(operation) else "stale"
        retired = archive_notes(self._group, self._memory or b"", self._retired, CONSOLIDATOR, self._now)
        changes = [*(retired if self._retired else ()), *self._added, *self._changes]
        left = {states.get(each.n, each.state) for each in self._proposal.operations}
        is_over = self._applying.kept is None and "waiting" not in left  # all operations are refused: none is left
        if "applied" in states.values() or self._proposal.session is None or is_over:
            changes += self._moved(before, mark)
        return decided(self._proposal, states, self._applying.kept, changes)

    def _write_summary(self, operation: Operation, ours: str | None) -> str | None:
        """Replace the session's part of summary.md and return its digest; None when a person edited it.

        Args:
            ours: digest of the part that the host wrote last.
        """
        session, file = self._proposal.session or "", f"groups/{self._group}/{SUMMARY}"
        held = self._view(file)
        try:
            text = (held or b"").decode()
        except UnicodeDecodeError:
            return None
        standing = part_of(text, session)
        if standing is not None and digest_of(standing) != ours and self._applying.kept is None:
            return None
        body = f"({self._source_of(operation)})\n{self._told(operation)}"
        data = with_part(text, session, body).encode()
        self._changes.append(FileWritten(self._group, "summary", file, data, held))
        return digest_of(body)

    def _history_head(self, operation: Operation) -> str:
        """Return the first line of an entry of HISTORY.md: its time, its turns and the author of its text."""
        asked, until = self._proposal, f"{self._applying.until.astimezone(UTC):%Y-%m-%d %H:%M}"
        turns = f"session {asked.session}, turns {asked.first_turn}-{asked.last_turn}"
        return f"[{until}] {turns} ({self._source_of(operation)})"

    def _told(self, operation: Operation) -> str:
        """Return a history or a summary as one paragraph; a model's text is indented, to look like nobody's words."""
        text = neutralise(operation.result or "").text
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        if not self._is_copied(operation):
            lines = [f"  {line.lstrip()}" for line in lines]
        return "\n".join(lines)

    def _source_of(self, operation: Operation) -> str:
        """Return a phrase that names the author of a text."""
        if not self._is_copied(operation):
            accepted = "unchecked" if self._decider == CONSOLIDATOR else f"accepted by {self._decider}"
            return f"written by {self._writer(operation)}, {accepted}"
        chosen = "" if self._proposal.by == RULES else f", chosen by {self._proposal.by}"
        return f"in people's words{chosen}"

    def _is_copied(self, operation: Operation) -> bool:
        """Return whether a text copies what people said, also after an edit of the proposal."""
        quotes = [each.quote for each in operation.evidence]
        return bool(quotes) and not operation.by and not uncopied(operation.result or "", quotes)

    def _writer(self, operation: Operation) -> str:
        """Return the author of a text that is not a copy: a model, or the person who edited a copy."""
        is_edited = any(each.by for each in operation.evidence)
        return operation.by or (self._decider if is_edited else self._proposal.by)

    def _author(self, operation: Operation) -> str:
        """Return the author of an operation's result: the speaker, or the model and the person who accepted it."""
        if self._is_copied(operation):
            name = f"{operation.evidence[0].by} via {CONSOLIDATOR}" if operation.evidence[0].by else CONSOLIDATOR
        else:
            writer = self._writer(operation)
            name = writer if writer == self._decider else f"{writer} accepted by {self._decider}"
        return one_line(name.translate(_UNSIGNABLE)).text

    def _apply(self, operation: Operation) -> bool:
        """Retire the sources of an operation and write its result; False when a source changed or no file is free."""
        notes = [source for source in operation.sources if source.startswith(NOTE_ID)]
        found = [self._entry(source) for source in operation.sources if not source.startswith(NOTE_ID)]
        entries = [each for each in found if each is not None]
        is_gone = len(entries) < len(found) or any(note not in self._notes for note in notes)
        if is_gone and (operation.op != "add" or found):
            return False
        if operation.op == "refine":
            return len(entries) == 1 and self._refine(operation, *entries[0])
        if operation.category is not None and operation.result is not None:
            written = self._new_entry(operation, [entry for _, entry, _ in entries])
            if written is None:
                return False
            self._changes.append(written)
        elif operation.result is not None:
            section = operation.title or next(
                (self._notes[note].section for note in notes if note in self._notes), SECTION
            )
            at = operation.evidence[0].at if self._is_copied(operation) else None
            note = render_note(operation.result, section, self._author(operation), at or self._now)
            self._added.append(Added.of("note", self._group, note.data))
        if operation.op in RETIRED:
            why = f"{operation.op} by proposal {self._proposal.id}"
            self._retired += [Retired(self._notes[note].span, why) for note in notes]
            for file, entry, data in entries:
                archived = self._view(archived_file(file))
                self._changes += archive_entry(self._group, file, entry, data, archived, by=None)
        if operation.op in TAKEN:
            self._used |= {*operation.sources}
        return True

    def _refine(self, operation: Operation, file: str, entry: Entry, data: bytes) -> bool:
        """Change an entry's labels and category; return False when its file there is taken."""
        category = operation.category or entry.category
        to = entry_file(self._group, category, entry.id)
        if to != file and (self._view(to) is not None or to in self._used):
            return False
        self._used |= {entry.id, to}
        refined = replace(entry, category=category, tags=operation.tags, aliases=operation.aliases)
        self._changes.append(FileWritten(self._group, "entry", to, dump_entry(refined), data if to == file else None))
        if to != file:
            self._changes.append(FileRemoved(self._group, "entry", file, data))
        return True

    def _entry(self, source: str) -> tuple[str, Entry, bytes] | None:
        """Return the file, the entry and the bytes of an unchanged source, or None if it changed or is gone."""
        file = self._prepared.entries.get(source)
        data = None if file is None else self._view(file)
        if file is None or data is None or hashlib.sha256(data).hexdigest() != self._proposal.base.get(source):
            return None
        try:
            return file, parse_entry(data, file), data
        except ValueError:
            return None

    def _new_entry(self, operation: Operation, sources: Collection[Entry]) -> FileWritten | None:
        """Return the new entry of an operation; None when no file is free. A merge has the earliest `created`."""
        is_merge, is_part = operation.op == "merge", operation.op == "add" and bool(sources)
        now = to_milliseconds(self._now)
        places = self._prepared.free.get(operation.n, ())
        file = next((each for each in places if self._view(each) is None and each not in self._used), None)
        if file is None:
            return None
        self._used.add(file)
        heirs = sorted(sources, key=lambda entry: entry.created or now) if is_merge else []
        title, *aliases = each_once((operation.title or "", *(entry.title or "" for entry in heirs))) or ("",)
        metadata = {name: value for entry in heirs[::-1] for name, value in entry.metadata.items()}
        if is_merge:
            metadata[MADE_OF] = [each for entry in heirs for each in _made_of(entry)]
        entry = Entry(
            id=name_in(file),
            category=file.split("/", 3)[3].rpartition("/")[0],
            content=operation.result or "",
            tags=each_once((*operation.tags, *(tag for entry in heirs for tag in entry.tags))),
            created=min((entry.created for entry in heirs if entry.created is not None), default=now),
            updated=now,
            metadata={**metadata, **operation.metadata, "proposal": self._proposal.id},
            by=heirs[0].by if is_merge else next(iter(sources)).by if is_part else self._author(operation),
            title=title or None,
            aliases=each_once((*(alias for entry in heirs for alias in entry.aliases), *aliases)),
            reinforced=sum(entry.reinforced for entry in heirs),
            more={name: value for entry in heirs[::-1] for name, value in entry.more.items()},
            origin=_shared_origin(heirs),
        )
        return FileWritten(self._group, "entry", file, dump_entry(entry), None)

    def _mark(self) -> Watermark:
        """Return the session's present watermark.

        Raises:
            Refusal: another proposal has moved it as far, and nothing is left to apply.
        """
        proposal, nowhere = self._proposal, Watermark(turn=0)
        if proposal.session is None:
            return nowhere
        try:
            mark = parse_watermark(self._view(watermark_file(self._group, proposal.session))) or nowhere
        except ValueError:
            return nowhere
        is_as_far = mark.turn >= (proposal.last_turn or 0) > 0 and mark.proposal != proposal.id
        chosen = self._applying.chosen
        is_late = self._applying.kept is None or all(each.op == "write_summary" for each in chosen)
        self._is_overtaken = is_as_far and (proposal.first_turn, proposal.last_turn) not in mark.again
        if self._is_overtaken and is_late and chosen:
            done = f"session {proposal.session} is consolidated up to turn {mark.turn} by {mark.proposal}"
            raise Refusal("conflict", f"{done}: this summary would replace a newer one; strike it")
        return mark

    def _moved(self, before: Watermark, mark: Watermark) -> Sequence[Change]:
        """Return the change that moves the watermark behind the proposal; none when it is there already."""
        proposal, file = self._proposal, _mark_file(self._proposal)
        if file is None or (proposal.session is None and self._applying.kept is not None):
            return ()
        span = (proposal.first_turn, proposal.last_turn)
        is_late = before.turn >= (proposal.last_turn or 0) > 0 and before.proposal != proposal.id
        if (before.proposal == proposal.id and mark == before) or (is_late and span not in before.again):
            return ()
        at = self._applying.until if proposal.session is None else self._now
        passes = 0 if proposal.session is None else before.passes + 1
        turn = max(proposal.last_turn or 0, before.turn)
        changed: dict[str, Any] = {"turn": turn, "at": at, "passes": passes}
        if span in before.again:
            changed["again"] = tuple(each for each in before.again if each != span)
        elif turn > before.turn or proposal.session is None:
            changed["proposal"] = proposal.id
        mark = mark.model_copy(update=changed)
        return [FileWritten(self._group, "watermark", file, dump_watermark(mark), self._view(file))]


def _mark_file(proposal: Proposal) -> str | None:
    """Return the file of the watermark that a proposal moves; None when its kind has none."""
    if proposal.session is not None:
        return watermark_file(proposal.group, proposal.session)
    file = {"preferences": inferred_file, "dream": dreamt_file}.get(proposal.kind)
    return None if file is None else file(proposal.group)


def _shared_origin(heirs: Collection[Entry]) -> Origin | None:
    """Return the common origin of merged entries; `inferred` when they have none in common."""
    origins = {entry.known_origin for entry in heirs}
    return origins.pop() if len(origins) == 1 else Origin("inferred")


def _made_of(entry: Entry) -> list[dict[str, Any]]:
    """Return the `made_of` rows for one source of a merged entry; one that was merged itself passes on its rows."""
    if isinstance(kept := entry.metadata.get(MADE_OF), list):
        return [{**each} for each in kept if isinstance(each, dict)]
    times = {name: show_time(at) for name, at in (("created", entry.created), ("updated", entry.updated)) if at}
    return [{"id": entry.id, "by": entry.by or "a person", "category": entry.category, **times}]
