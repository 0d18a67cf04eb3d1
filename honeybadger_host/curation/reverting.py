"""Takes back what a proposal changed: memory, the summary, and the session's watermark.

The journal knows what each file held. What somebody changed since stays as it is, and is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, cast

from honeybadger_agent.mailbox import CONSOLIDATOR
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
from honeybadger_host.memory.archive import archive_standing, bring_back_notes
from honeybadger_host.memory.file_history import held_before
from honeybadger_host.memory.watermarks import Watermark, dump_watermark, parse_watermark
from honeybadger_host.storage.atomic_files import ABSENT, WHOLE_KINDS, WholeFiles, fingerprint
from honeybadger_host.storage.journal_reader import read_requests_of
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.revised import NotePlace, revision_of

_KEPT: Final = ("history", "proposal", "archived", "note_archived")
"""Kinds of changes that stay: HISTORY.md only grows, an archive loses nothing."""


class Prepared(NamedTuple):
    """What a proposal changed.

    Args:
        added, removed: notes.
        whole: the changes of each file, newest first, and what the file held before all of them.
    """

    added: Sequence[bytes]
    removed: Sequence[NotePlace]
    whole: Sequence[tuple[Sequence[Row], bytes | None]]


@dataclass(frozen=True, slots=True)
class Reverting:
    """One proposal that is taken back; its `file` holds what was `kept`."""

    journal: Path
    files: WholeFiles
    proposal: Proposal
    file: str
    kept: bytes

    @property
    def handler(self) -> ChangeHandler[Prepared]:
        return ChangeHandler(self.decide, self.prepare)

    def prepare(self, asked: Asked) -> Prepared:
        """Find what was changed. Raises Refusal: the journal does not know it any more."""
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
        """Return what a file held before a change; None: there was none. Raises Refusal: nobody knows."""
        if row.kind.endswith(REMOVED):
            return row.data
        before = None if row.offset == ABSENT else held_before(self.journal, row)
        if before is None and row.offset != ABSENT:
            raise _changed(f"{row.file} held what a person had written, which the journal does not have")
        return before

    def decide(self, asked: Asked, prepared: Prepared, now: datetime) -> Outcome:
        """Decide the opposite of each change. Raises Refusal: a file was changed since; nothing is changed then."""
        group = self.proposal.group
        if self.files.view(self.file) != self.kept:
            raise _changed(f"proposal {self.proposal.id} was changed meanwhile")
        changes = [*self._notes(prepared.added, prepared.removed, now)]
        changes += [self._whole(rows, before) for rows, before in prepared.whole]
        if self.proposal.session is not None:
            span = f"{self.proposal.first_turn}-{self.proposal.last_turn}"
            said = f"[{now:%Y-%m-%d %H:%M}] (taken back: what was told of turns {span} of {self.proposal.session})\n\n"
            changes.append(Added.of("history", group, said.encode()))
        return decided(self.proposal, {each.n: "struck" for each in self.proposal.operations}, self.kept, changes)

    def _notes(self, added: Sequence[bytes], removed: Sequence[NotePlace], now: datetime) -> Sequence[Change]:
        """Return the changes that archive added notes and bring removed ones back."""
        group = self.proposal.group
        held = self.files.view(f"groups/{group}/{MEMORY}")
        why = f"proposal {self.proposal.id} was taken back"
        if retired := archive_standing(group, held, added, why, CONSOLIDATOR, now):
            return [*retired, *(Added.of("note", group, b"\n" + note.data.strip(b"\r\n") + b"\n") for note in removed)]
        return bring_back_notes(group, held, self.files.view(f"groups/{group}/{ARCHIVE}"), removed) if removed else ()

    def _whole(self, rows: Sequence[Row], before: bytes | None) -> Change:
        """Return the change that gives a file back what it held before its changes, given newest first."""
        newest, file, group = rows[0], rows[0].file, self.proposal.group
        held, kind = self.files.view(file), cast(WholeKind, newest.kind.removesuffix(REMOVED))
        if held != (None if newest.kind.endswith(REMOVED) else newest.data):
            was = "is there again" if newest.kind.endswith(REMOVED) else "is gone" if held is None else "was changed"
            raise _changed(f"{file} {was} since")
        if any(later.offset != fingerprint(earlier.data) for later, earlier in pairwise(rows)):
            raise _changed(f"{file} was changed by somebody between two operations of this proposal")
        if kind == "watermark" and held is not None:
            return FileWritten(group, kind, file, _moved_back(held, before), held)
        if before is not None:
            return FileWritten(group, kind, file, before, held)
        return FileRemoved(group, kind, file, held or b"")


def _moved_back(held: bytes, before: bytes | None) -> bytes:
    """Return a watermark as it was, which still counts its passes: the next one is another."""
    mark, then = parse_watermark(held), parse_watermark(before)
    assert mark is not None  # noqa: S101
    return dump_watermark((then or Watermark(turn=0)).model_copy(update={"passes": mark.passes + 1}))


def _changed(why: str) -> Refusal:
    return Refusal("conflict", f"{why}; nothing was changed", field="payload.proposal")
