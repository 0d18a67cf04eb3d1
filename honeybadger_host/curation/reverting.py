"""Reverts the changes of a proposal: memory, the summary, and the session's watermark.

The journal has the earlier content of each file. Later changes are merged with it; where they conflict, the later
change stays and its file is named. If the pass is not the session's newest, its turns are marked to be consolidated
again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeGuard, cast

from honeybadger_agent.wire import Refusal
from honeybadger_host.curation.proposal import OperationState, Proposal
from honeybadger_host.curation.proposal_files import decided
from honeybadger_host.documents.history import Removal, removal_of, remove_notes, text_before
from honeybadger_host.documents.in_use import merged_as
from honeybadger_host.documents.merge import merge, values_in
from honeybadger_host.files.home import ARCHIVE, MEMORY
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.journal.changes import (
    ABSENT,
    NOTE_REMOVED,
    REMOVED,
    WHOLE_KINDS,
    Added,
    Change,
    FileRemoved,
    FileWritten,
    WholeFiles,
    WholeKind,
)
from honeybadger_host.journal.reader import read_requests_of
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.entries.entry import name_in
from honeybadger_host.memory.markdown.archive import bring_back_notes, leave_archive, standing_span
from honeybadger_host.memory.markdown.summary_parts import part_of, with_part
from honeybadger_host.memory.turn_log_store import Watermark, dump_watermark, parse_watermark, watermark_file

# Kinds of changes that are not reverted: HISTORY.md only grows, and returning notes leave the archive by themselves.
_KEPT: Final = ("history", "proposal", "note_archived")


class Prepared(NamedTuple):
    """The changes of a proposal.

    Args:
        added, removed: notes.
        whole: the changes of each file, newest first, each with the content before it.
    """

    added: Sequence[bytes]
    removed: Sequence[Removal]
    whole: Sequence[Sequence[tuple[Row, bytes | None]]]


@dataclass(frozen=True, slots=True)
class Reverting:
    """Reverts one proposal; `kept` is the content of its `file`."""

    journal: Path
    files: WholeFiles
    proposal: Proposal
    file: str
    kept: bytes

    def prepare(self, asked: Asked) -> Prepared:
        """Find the changes. Raises Refusal if the journal no longer has them."""
        if not any(each.state == "applied" for each in self.proposal.operations):
            raise Refusal("conflict", f"nothing of proposal {self.proposal.id} is applied", field="payload.proposal")
        kept = _KEPT if self.proposal.session is not None else (*_KEPT, "watermark")
        rows = [row for row in read_requests_of(self.journal, self.file)[::-1] if row.kind not in kept]
        if not rows:
            raise _unknown(f"the journal does not know any more what proposal {self.proposal.id} changed")
        by_file: defaultdict[str, list[tuple[Row, bytes | None]]] = defaultdict(list)
        for file in (self.file, *(f"groups/{self.proposal.group}/{name}" for name in (MEMORY, ARCHIVE))):
            self.files.load(file)
        for row in rows:
            self.files.load(row.file)
            if row.kind in WHOLE_KINDS:
                by_file[row.file].append((row, self._before(row)))
        return Prepared(
            [row.data for row in rows if row.kind == "note"],
            [removal_of(self.journal, row) for row in rows if row.kind == NOTE_REMOVED],
            [*by_file.values()],
        )

    def _before(self, row: Row) -> bytes | None:
        """Return the content of a file before a change, or None if there was none. Raises Refusal if it is unknown."""
        if row.kind.endswith(REMOVED):
            return row.data
        before = None if row.offset == ABSENT else text_before(self.journal, row)
        if before is None and row.offset != ABSENT:
            raise _unknown(f"{row.file} held what a person had written, which the journal does not have")
        return before

    def decide(self, asked: Asked, prepared: Prepared, now: datetime) -> Outcome:
        """Return the opposite of each change; later changes stay and are named in the result. Raises Refusal."""
        group = self.proposal.group
        if self.files.view(self.file) != self.kept:
            raise Refusal("conflict", f"proposal {self.proposal.id} was changed meanwhile; nothing was changed")
        changes, kept = self._notes(prepared.added, prepared.removed)
        for rows in prepared.whole:
            (newest, _), (_, before) = rows[0], rows[-1]
            if self.proposal.session is not None and newest.kind == "watermark":
                changes += self._mark(newest.file, before)
                continue
            is_part = self.proposal.session is not None and newest.kind == "summary"
            held = self.files.view(newest.file)
            text, is_whole = self._summary(newest, before, held) if is_part else _undone(rows, held)
            kept += [] if is_whole else [newest.file]
            kind = cast(WholeKind, newest.kind.removesuffix(REMOVED))
            if text is not None and text != held:
                changes.append(FileWritten(group, kind, newest.file, text, held))
            elif text is None and held is not None:
                changes.append(FileRemoved(group, kind, newest.file, held))
        # An entry that was moved and changed since is not restored to its old place, too.
        stays = {name_in(file) for file in kept if f"groups/{group}/memory/" in file}
        changes = [each for each in changes if not (_restores(each) and name_in(each.file) in stays)]
        if self.proposal.session is not None:
            span = f"{self.proposal.first_turn}-{self.proposal.last_turn}"
            said = f"[{now:%Y-%m-%d %H:%M}] (taken back: what was told of turns {span} of {self.proposal.session})\n\n"
            changes.append(Added.of("history", group, said.encode()))
        states: dict[int, OperationState] = {each.n: "struck" for each in self.proposal.operations}
        outcome = decided(self.proposal, states, self.kept, changes)
        return replace(outcome, result={**outcome.result, "kept": kept})

    def _notes(self, added: Sequence[bytes], removed: Sequence[Removal]) -> tuple[list[Change], list[str]]:
        """Return the changes that remove added notes and restore removed ones, and MEMORY.md if it conflicts."""
        group = self.proposal.group
        file = f"groups/{group}/{MEMORY}"
        held, archive = self.files.view(file) or b"", self.files.view(f"groups/{group}/{ARCHIVE}")
        found = [standing_span(held, note) for note in added]
        has_changed = any(span is None and _heading(note) in held for note, span in zip(added, found, strict=True))
        kept = [file] if has_changed else []
        spans = {span for span in found if span is not None}
        gone = [note for removal in removed for note in removal.notes]
        if not spans:
            return [*(bring_back_notes(group, held, archive, removed, gone) if removed else ())], kept
        back = (Added.of("note", group, b"\n" + note.strip(b"\r\n") + b"\n") for note in gone)
        left = leave_archive(group, archive, gone)
        return [remove_notes(group, file, held, sorted(spans)), *back, *left], kept

    @property
    def _is_newest(self) -> bool:
        """Return whether no later pass consolidated the session."""
        mark = self._marked()
        return mark is None or mark.proposal == self.proposal.id

    def _marked(self) -> Watermark | None:
        try:
            return parse_watermark(self.files.view(watermark_file(self.proposal.group, self.proposal.session or "")))
        except ValueError:
            return None

    def _summary(self, newest: Row, before: bytes | None, held: bytes | None) -> tuple[bytes | None, bool]:
        """Return `_undone` of summary.md: only the session's part goes back, unless a later pass wrote it."""
        session = self.proposal.session or ""
        now, then, ours = ((data or b"").decode(errors="replace") for data in (held, before, newest.data))
        part, written, earlier = (part_of(text, session) for text in (now, ours, then))
        if part == written:
            data = with_part(now, session, earlier).encode()
            return (None if before is None and not data.strip() else data), True
        if part is None or written is None or not self._is_newest:
            return held, not self._is_newest
        merged = merge(*(f"{text or ''}\n".encode() for text in (written, part, earlier))).decode().strip("\n")
        return with_part(now, session, merged or None).encode(), False

    def _mark(self, file: str, before: bytes | None) -> Sequence[Change]:
        """Return the change that moves the watermark back, or marks the turns to be consolidated again."""
        held, mark, group = self.files.view(file), self._marked(), self.proposal.group
        if held is None or mark is None:  # a person removed it: all turns are consolidated again
            return ()
        if self._is_newest:
            then = parse_watermark(before) or Watermark(turn=0)
            moved = then.model_copy(update={"passes": mark.passes + 1, "again": mark.again})
        else:
            span = (self.proposal.first_turn or 0, self.proposal.last_turn or 0)
            moved = mark.model_copy(update={"again": tuple(sorted({*mark.again, span}))})
        return [FileWritten(group, "watermark", file, dump_watermark(moved), held)]


def _undone(rows: Sequence[tuple[Row, bytes | None]], held: bytes | None) -> tuple[bytes | None, bool]:
    """Return the content of a file without some changes (None: no file), and whether no later change conflicts.

    Args:
        rows: the changes with the content before each, newest first.
        held: its present content.
    """
    is_whole = True
    for row, before in rows:
        after = None if row.kind.endswith(REMOVED) else row.data
        if held == after:
            held = before
        elif held is not None and after is not None and before is not None:
            # Merging both ways gives the same unless both sides changed one member: then the later change stays.
            merged = merged_as(row.file, after, before, held)
            is_whole = is_whole and values_in(merged) == values_in(merged_as(row.file, after, held, before))
            held = merged
        else:
            is_whole = is_whole and held == before
    return held, is_whole


def _restores(change: Change) -> TypeGuard[FileWritten]:
    return isinstance(change, FileWritten) and change.kind == "entry" and change.replaces is None


def _heading(note: bytes) -> bytes:
    """Return the first line of a note, with its signature."""
    return note.strip(b"\r\n").partition(b"\n")[0]


def _unknown(why: str) -> Refusal:
    return Refusal("conflict", f"{why}; nothing was changed", field="payload.proposal")
