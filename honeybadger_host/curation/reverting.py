"""Reverts the changes of a proposal: memory, the summary, and the session's watermark.

The journal has the earlier content of each file. A proposal is not reverted when one of its files was changed since.
Later passes keep their summary; the turns of an earlier pass are marked to be consolidated again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, cast

from honeybadger_agent.wire import Refusal
from honeybadger_host.curation.proposal import Proposal
from honeybadger_host.curation.proposal_files import decided
from honeybadger_host.domain import (
    ARCHIVE,
    MEMORY,
    NOTE_REMOVED,
    REMOVED,
    Added,
    Asked,
    Change,
    ChangeHandler,
    FileRemoved,
    FileWritten,
    Outcome,
    WholeKind,
)
from honeybadger_host.memory.archive import bring_back_notes, leave_archive, standing_span
from honeybadger_host.memory.file_history import held_before
from honeybadger_host.memory.summary_parts import part_of, with_part
from honeybadger_host.memory.watermarks import Watermark, dump_watermark, parse_watermark, watermark_file
from honeybadger_host.storage.atomic_files import ABSENT, WHOLE_KINDS, WholeFiles, fingerprint
from honeybadger_host.storage.journal_reader import read_requests_of
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.revised import NotePlace, remove_notes, revision_of

# Kinds of changes that are not reverted one by one: HISTORY.md only grows, and notes leave the archive as they return.
_KEPT: Final = ("history", "proposal", "note_archived")


class Prepared(NamedTuple):
    """The changes of a proposal.

    Args:
        added, removed: notes.
        whole: the changes of each file, newest first, and its content before all of them.
    """

    added: Sequence[bytes]
    removed: Sequence[NotePlace]
    whole: Sequence[tuple[Sequence[Row], bytes | None]]


@dataclass(frozen=True, slots=True)
class Reverting:
    """Reverts one proposal; `kept` is the content of its `file`."""

    journal: Path
    files: WholeFiles
    proposal: Proposal
    file: str
    kept: bytes

    @property
    def handler(self) -> ChangeHandler[Prepared]:
        return ChangeHandler(self.decide, self.prepare)

    def prepare(self, asked: Asked) -> Prepared:
        """Find the changes. Raises Refusal: the journal no longer has them."""
        if not any(each.state == "applied" for each in self.proposal.operations):
            raise Refusal("conflict", f"nothing of proposal {self.proposal.id} is applied", field="payload.proposal")
        kept = _KEPT if self.proposal.session is not None else (*_KEPT, "watermark")
        rows = [row for row in read_requests_of(self.journal, self.file)[::-1] if row.kind not in kept]
        if not rows:
            raise _changed(f"the journal does not know any more what proposal {self.proposal.id} changed")
        by_file: defaultdict[str, list[Row]] = defaultdict(list)
        for file in (self.file, *(f"groups/{self.proposal.group}/{name}" for name in (MEMORY, ARCHIVE))):
            self.files.load(file)
        for row in rows:
            self.files.load(row.file)
            if row.kind in WHOLE_KINDS:
                by_file[row.file].append(row)
        return Prepared(
            [row.data for row in rows if row.kind == "note"],
            [note for row in rows if row.kind == NOTE_REMOVED for note in revision_of(row.data).notes],
            [(changes, self._before(changes[-1])) for changes in by_file.values()],
        )

    def _before(self, row: Row) -> bytes | None:
        """Return the content of a file before a change; None when there was none. Raises Refusal: it is not known."""
        if row.kind.endswith(REMOVED):
            return row.data
        before = None if row.offset == ABSENT else held_before(self.journal, row)
        if before is None and row.offset != ABSENT:
            raise _changed(f"{row.file} held what a person had written, which the journal does not have")
        return before

    def decide(self, asked: Asked, prepared: Prepared, now: datetime) -> Outcome:
        """Return the opposite of each change. Raises Refusal: a file was changed since; nothing is changed."""
        group = self.proposal.group
        if self.files.view(self.file) != self.kept:
            raise _changed(f"proposal {self.proposal.id} was changed meanwhile")
        changes = [*self._notes(prepared.added, prepared.removed)]
        for rows, before in prepared.whole:
            kind = rows[0].kind
            if self.proposal.session is not None and kind in ("summary", "watermark"):
                changes += self._summary(rows, before) if kind == "summary" else self._mark(rows[0].file, before)
            else:
                changes.append(self._whole(rows, before))
        if self.proposal.session is not None:
            span = f"{self.proposal.first_turn}-{self.proposal.last_turn}"
            said = f"[{now:%Y-%m-%d %H:%M}] (taken back: what was told of turns {span} of {self.proposal.session})\n\n"
            changes.append(Added.of("history", group, said.encode()))
        return decided(self.proposal, {each.n: "struck" for each in self.proposal.operations}, self.kept, changes)

    def _notes(self, added: Sequence[bytes], removed: Sequence[NotePlace]) -> Sequence[Change]:
        """Return the changes that remove added notes and restore removed ones."""
        group = self.proposal.group
        file = f"groups/{group}/{MEMORY}"
        held, archive = self.files.view(file), self.files.view(f"groups/{group}/{ARCHIVE}")
        spans = {span for note in added if (span := standing_span(held or b"", note)) is not None}
        if not spans:
            return bring_back_notes(group, held, archive, removed) if removed else ()
        back = (Added.of("note", group, b"\n" + note.data.strip(b"\r\n") + b"\n") for note in removed)
        left = leave_archive(group, archive, [note.data for note in removed])
        return [remove_notes(group, file, held or b"", sorted(spans)), *back, *left]

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

    def _summary(self, rows: Sequence[Row], before: bytes | None) -> Sequence[Change]:
        """Return the change that restores the session's part of summary.md; none when a later pass wrote it."""
        file, session, held = rows[0].file, self.proposal.session or "", self.files.view(rows[0].file)
        now, then, ours = ((data or b"").decode(errors="replace") for data in (held, before, rows[0].data))
        if part_of(now, session) != part_of(ours, session):
            if self._is_newest:
                raise _changed(f"{file} was changed since")
            return ()
        data = with_part(now, session, part_of(then, session)).encode()
        if before is None and not data.strip() and held is not None:
            return [FileRemoved(self.proposal.group, "summary", file, held)]
        return [FileWritten(self.proposal.group, "summary", file, data, held)]

    def _mark(self, file: str, before: bytes | None) -> Sequence[Change]:
        """Return the change that moves the watermark back, or marks the turns of an earlier pass."""
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

    def _whole(self, rows: Sequence[Row], before: bytes | None) -> Change:
        """Return the change that restores the content of a file before its changes, given newest first."""
        newest, file, group = rows[0], rows[0].file, self.proposal.group
        held, kind = self.files.view(file), cast(WholeKind, newest.kind.removesuffix(REMOVED))
        if held != (None if newest.kind.endswith(REMOVED) else newest.data):
            was = "is there again" if newest.kind.endswith(REMOVED) else "is gone" if held is None else "was changed"
            raise _changed(f"{file} {was} since")
        if any(later.offset != fingerprint(earlier.data) for later, earlier in pairwise(rows)):
            raise _changed(f"{file} was changed by somebody between two operations of this proposal")
        if before is not None:
            return FileWritten(group, kind, file, before, held)
        return FileRemoved(group, kind, file, held or b"")


def _changed(why: str) -> Refusal:
    return Refusal("conflict", f"{why}; nothing was changed", field="payload.proposal")
