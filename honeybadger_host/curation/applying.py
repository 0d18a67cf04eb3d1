"""Applies the operations of a proposal: one commit with their changes, the watermark and the proposal's file.

Replaced and retired sources go to the archive; nothing is deleted. An operation whose sources have changed since they
were read becomes stale; the others are applied nevertheless.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from honeybadger_agent.mailbox import CONSOLIDATOR
from honeybadger_agent.wire import Refusal
from honeybadger_host.curation.proposal import (
    RETIRED,
    RULES,
    Operation,
    OperationState,
    Proposal,
)
from honeybadger_host.curation.proposal_files import decided, proposal_file
from honeybadger_host.curation.said import uncopied
from honeybadger_host.files.home import MEMORY, SUMMARY
from honeybadger_host.handler_kinds import Outcome
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
    mark_in,
    watermark_file,
)
from honeybadger_host.search.notes import NOTE_ID, NotePlace, notes_of
from honeybadger_host.text.labels import each_once, folded
from honeybadger_host.text.neutralise import escape_comments, neutralise, one_line, render_note
from honeybadger_host.text.time_stamps import to_milliseconds

# Member of a merged entry's metadata: id, author, category and times of each of its sources.
MADE_OF = "made_of"
_UNSIGNABLE = str.maketrans("(),", "   ")  # a signature cannot hold these characters


@dataclass(slots=True)
class Applying:
    """The decision about a proposal: each operation sees the changes of the ones before it.

    Args:
        proposal: with its gates checked.
        applies: whether a waiting operation is applied now; the others keep waiting.
        until: time of the newest turn that was consolidated or read for preferences; for a dream its own time.
        decider: who decides.
        kept: bytes of the proposal's file; None when it is new.
    """

    files: WholeFiles
    entries: EntryFiles
    proposal: Proposal
    applies: Callable[[Operation], bool]
    until: datetime
    decider: str
    now: datetime
    kept: bytes | None = None
    _notes: dict[str, NotePlace] = field(init=False)
    _mark: Watermark = field(init=False)
    _part: str | None = field(init=False)
    _retired: list[Retired] = field(default_factory=list)
    _changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._notes = notes_of(self._group, self._memory)
        file = _mark_file(self.proposal)
        self._mark = mark_in(None if file is None else self.files.view(file))
        self._part = self._mark.part

    @property
    def _group(self) -> str:
        return self.proposal.group

    @property
    def _memory(self) -> bytes:
        return self.files.view(f"groups/{self._group}/{MEMORY}") or b""

    def outcome(self) -> Outcome:
        """Return all changes. Raises WorldFailed; Refusal if the proposal was changed meanwhile."""
        proposal = self.proposal
        if self.files.view(proposal_file(self._group, proposal.id)) != self.kept:
            raise Refusal("conflict", f"proposal {proposal.id} was changed meanwhile: look at it again")
        with self.files.trial():
            states = {
                each.n: self._state_after(each)
                for each in proposal.operations
                if each.state == "waiting" and self.applies(each)
            }
        changes = [*self._changes]
        if self._retired:  # notes leave before others come
            changes[:0] = archive_notes(self._group, self._memory, self._retired, CONSOLIDATOR, self.now)
        left = {states.get(each.n, each.state) for each in proposal.operations}
        is_over = self.kept is None and "waiting" not in left  # all is refused: nothing is left to decide
        if "applied" in states.values() or proposal.session is None or is_over:
            changes += self._moved()
        return decided(proposal, states, self.kept, changes)

    def _state_after(self, operation: Operation) -> OperationState:
        """Apply an operation and return its new state."""
        match operation.op:
            case "write_history":
                self._changes.append(Added.of("history", self._group, self._history(operation).encode()))
                return "applied"
            case "write_summary":
                return self._write_summary(operation)
            case "refine":
                return "applied" if self._refine(operation) else "stale"
            case _:
                return "applied" if self._apply(operation) else "stale"

    def _change(self, *changes: Change) -> None:
        """Add changes of whole files, which the next operations see."""
        for change in changes:
            self.files.apply(change)
            self._changes.append(change)

    def _write_summary(self, operation: Operation) -> OperationState:
        """Replace the session's part of summary.md, unless a later pass wrote it or a person edited it."""
        session, file = self.proposal.session or "", f"groups/{self._group}/{SUMMARY}"
        if self._mark.turn >= (self.proposal.last_turn or 0) and self._mark.proposal != self.proposal.id:
            return "stale"
        held = self.files.view(file)
        text = (held or b"").decode(errors="surrogateescape")  # bytes that are not UTF-8 stay
        standing = part_of(text, session)
        if standing is not None and digest_of(standing) != self._part and self.kept is None:
            return "waiting"
        body = f"({self._source_of(operation)})\n{self._told(operation)}"
        data = with_part(text, session, body).encode(errors="surrogateescape")
        self._change(FileWritten(self._group, "summary", file, data, held))
        self._part = digest_of(body)
        return "applied"

    def _history(self, operation: Operation) -> str:
        """Return an entry of HISTORY.md: a line with its time, its turns and the author of its text, then the text."""
        asked, until = self.proposal, f"{self.until.astimezone(UTC):%Y-%m-%d %H:%M}"
        turns = f"session {asked.session}, turns {asked.first_turn}-{asked.last_turn}"
        return f"[{until}] {turns} ({self._source_of(operation)})\n{self._told(operation)}\n\n"

    def _told(self, operation: Operation) -> str:
        """Return a history or a summary as one paragraph; a model's text is indented as nobody's words."""
        text, _ = escape_comments(neutralise(operation.result or "").text)
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        if self._writer(operation):
            lines = [f"    {line.lstrip()}" for line in lines]
        return "\n".join(lines)

    def _source_of(self, operation: Operation) -> str:
        """Return a phrase that names the author of a text."""
        match self._writer(operation):
            case "":
                return "in people's words" + ("" if self.proposal.by == RULES else f", chosen by {self.proposal.by}")
            case self.decider:
                return f"written by {self.decider}"
            case writer:
                accepted = "unchecked" if self.decider == CONSOLIDATOR else f"accepted by {self.decider}"
                return f"written by {writer}, {accepted}"

    def _writer(self, operation: Operation) -> str:
        """Return the author of a text that copies nobody: a model, or the person who edited the copy; else ""."""
        quotes = [each.quote for each in operation.evidence]
        if quotes and not operation.by and not uncopied(operation.result or "", quotes):
            return ""
        return operation.by or (self.decider if any(each.by for each in operation.evidence) else self.proposal.by)

    def _author(self, operation: Operation) -> str:
        """Return the author of an operation's result: the speaker, or the model and the person who accepted it."""
        name = self._writer(operation)
        if not name:
            name = f"{operation.evidence[0].by} via {CONSOLIDATOR}" if operation.evidence[0].by else CONSOLIDATOR
        elif name != self.decider:
            name = f"{name} accepted by {self.decider}"
        return one_line(name.translate(_UNSIGNABLE)).text

    def _apply(self, operation: Operation) -> bool:
        """Write an operation's result and retire its sources; False when a source changed or no file is free."""
        notes = [source for source in operation.sources if source.startswith(NOTE_ID)]
        entries = [self._entry(source) for source in operation.sources if not source.startswith(NOTE_ID)]
        sources = [each for each in entries if each is not None]
        is_gone = operation.op in RETIRED and any(note not in self._notes for note in notes)
        if is_gone or len(sources) < len(entries):
            return False
        if operation.result is not None and operation.category is None:
            at = None if self._writer(operation) else operation.evidence[0].at
            note = render_note(operation.result, operation.title or "Notes", self._author(operation), at or self.now)
            self._changes.append(Added.of("note", self._group, note.data))
        elif operation.result is not None and operation.category is not None:
            category, text = self.entries.place(self._group, operation.category), folded(operation.result)
            places = (
                entry_file(self._group, category, entry_id(category, text, n))
                for n in range(1 + len(operation.sources))  # sources may have some of these ids
            )
            file = next((each for each in places if self.files.view(each) is None), None)
            if file is None:
                return False
            entry = self._new_entry(operation, file, [entry for _, entry, _ in sources])
            self._change(FileWritten(self._group, "entry", file, dump_entry(entry), None))
        if operation.op in RETIRED:
            self._retired += [
                Retired(self._notes.pop(note).span, f"{operation.op} by proposal {self.proposal.id}") for note in notes
            ]
            for file, entry, data in sources:
                self._change(
                    *archive_entry(self._group, file, entry, data, self.files.view(archived_file(file)), by=None)
                )
        return True

    def _refine(self, operation: Operation) -> bool:
        """Change an entry's labels and category; return False when it changed or its file there is taken."""
        found = self._entry(operation.sources[0])
        if found is None:
            return False
        file, entry, data = found
        category = operation.category or entry.category
        to = entry_file(self._group, category, entry.id)
        if to != file and self.files.view(to) is not None:
            return False
        refined = dump_entry(replace(entry, category=category, tags=operation.tags, aliases=operation.aliases))
        self._change(FileWritten(self._group, "entry", to, refined, data if to == file else None))
        if to != file:
            self._change(FileRemoved(self._group, "entry", file, data))
        return True

    def _entry(self, source: str) -> tuple[str, Entry, bytes] | None:
        """Return file, entry and bytes of a source; None if it changed, is gone, or has copies."""
        files = self.entries.standing(self.files, self._group, source)
        data = self.files.view(files[0]) if len(files) == 1 else None
        if data is None or hashlib.sha256(data).hexdigest() != self.proposal.base.get(source):
            return None
        return files[0], parse_entry(data, files[0]), data

    def _new_entry(self, operation: Operation, file: str, sources: Sequence[Entry]) -> Entry:
        """Return the new entry of an operation. A merge has the earliest `created`, a part its source's author."""
        now = to_milliseconds(self.now)
        heirs = sorted(sources, key=lambda entry: entry.created or now) if operation.op == "merge" else []
        title, *aliases = each_once((operation.title or "", *(entry.title or "" for entry in heirs))) or ("",)
        metadata = {name: value for entry in heirs[::-1] for name, value in entry.metadata.items()}
        origins = {entry.known_origin for entry in heirs}
        if heirs:
            metadata[MADE_OF] = [each for entry in heirs for each in _made_of(entry)]
        return Entry(
            id=name_in(file),
            category=file.split("/", 3)[3].rpartition("/")[0],
            content=operation.result or "",
            tags=each_once((*operation.tags, *(tag for entry in heirs for tag in entry.tags))),
            created=min((entry.created for entry in heirs if entry.created is not None), default=now),
            updated=now,
            metadata={**metadata, **operation.metadata, "proposal": self.proposal.id},
            by=(heirs or sources)[0].by if sources else self._author(operation),
            title=title or None,
            aliases=each_once((*(alias for entry in heirs for alias in entry.aliases), *aliases)),
            reinforced=sum(entry.reinforced for entry in heirs),
            more={name: value for entry in heirs[::-1] for name, value in entry.more.items()},
            origin=origins.pop() if len(origins) == 1 else Origin("inferred"),
        )

    def _moved(self) -> Sequence[Change]:
        """Return the change that moves the watermark behind the proposal; none when it is there already."""
        proposal, before, file = self.proposal, self._mark, _mark_file(self.proposal)
        mark = before.model_copy(
            update={
                "part": self._part,
                "again": tuple(each for each in before.again if each != (proposal.first_turn, proposal.last_turn)),
            }
        )
        if proposal.session is None and self.kept is None:
            mark = mark.model_copy(update={"at": self.until, "proposal": proposal.id})
        elif (proposal.last_turn or 0) > before.turn:
            mark = mark.model_copy(update={"turn": proposal.last_turn, "at": self.now, "proposal": proposal.id})
        if file is None or mark == before:
            return ()
        return [FileWritten(self._group, "watermark", file, dump_watermark(mark), self.files.view(file))]


def _mark_file(proposal: Proposal) -> str | None:
    """Return the file of the watermark that a proposal moves; None when its kind has none."""
    if proposal.session is not None:
        return watermark_file(proposal.group, proposal.session)
    file = {"preferences": inferred_file, "dream": dreamt_file}.get(proposal.kind)
    return None if file is None else file(proposal.group)


def _made_of(entry: Entry) -> list[dict[str, Any]]:
    """Return the `made_of` rows for one source of a merged entry; one that was merged itself passes on its rows."""
    if isinstance(kept := entry.metadata.get(MADE_OF), list):
        return [{**each} for each in kept if isinstance(each, dict)]
    times = {name: show_time(at) for name, at in (("created", entry.created), ("updated", entry.updated)) if at}
    return [{"id": entry.id, "by": entry.by or "a person", "category": entry.category, **times}]
