"""Tells a person's edit of a file from the host's changes since the last look. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from honeybadger_agent.mailbox import HUMAN
from honeybadger_host.domain import NOTE_RESTORED, REMOVED
from honeybadger_host.memory.archive import standing_span
from honeybadger_host.memory.peoples_files import MOST_BYTES, PeoplesFile, group_of, name_of
from honeybadger_host.storage.atomic_files import WHOLE_KINDS, fingerprint
from honeybadger_host.storage.edits import Edit, Seen, digest_of, fingerprint_of
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.line_hunks import Hunk, hunks_between, lines_of
from honeybadger_host.storage.revised import LINE_KINDS, REVISED_KINDS, new_text, revision_of


@dataclass(slots=True)
class HostChanges:
    """The host's changes of a file since the last look, in few bytes however many there were.

    All that it added in a row is one change, and so is what replaced just what it had written before. Of a file to
    which more was added than is kept of any, only the size is known.
    """

    count: int = 0
    added: int = 0
    """Bytes that were added."""
    kept: int = 0
    """Bytes that `rows` take."""
    is_revised: bool = False
    _rows: list[Row] = field(default_factory=list)
    _run: list[bytes] = field(default_factory=list)
    """Return the text added behind them, the last of it by `_adding`."""
    _adding: Row | None = None

    @classmethod
    def of(cls, rows: Iterable[Row]) -> HostChanges:
        changes = cls()
        for row in rows:
            changes.add(row)
        return changes

    def add(self, row: Row) -> None:
        """Take in the next change."""
        self.count += 1
        self.kept += len(row.data)
        if row.kind in WHOLE_KINDS:
            last = self._rows[-1] if self._rows else None
            is_removed = row.kind.endswith(REMOVED)
            if last is not None and last.kind == row.kind and not is_removed and fingerprint(last.data) == row.offset:
                self.kept -= len(last.data)
                self._rows[-1] = row._replace(offset=last.offset)
            else:
                self._rows.append(row)
        elif row.kind in REVISED_KINDS:
            self.is_revised = True
            self._rows = [*self.rows, row]
        else:
            self.added += len(row.data)
            self._run.append(row.data)
            self._adding = row
            if self.added > MOST_BYTES:
                self._rows, self._run, self.kept = [], [], 0

    @property
    def rows(self) -> list[Row]:
        """Them, oldest first."""
        if self._run and self._adding is not None:
            self._rows.append(self._adding._replace(data=b"".join(self._run)))
            self._run = []
        return self._rows

    @property
    def is_whole(self) -> bool:
        return bool(self._rows) and self._rows[0].kind in WHOLE_KINDS


def is_as_left(known: Seen | None, changes: HostChanges, found: PeoplesFile | None) -> bool:
    """Return whether a file that the host adds to holds what it held and what was added, as far as can be told."""
    if found is None:
        return False
    if changes.is_revised:
        return found.data is None  # of a large file the text is not known
    size = 0 if known is None else known.size
    if found.size != size + changes.added or (known is not None and found.prefix != known.digest):
        return False
    return found.data is None or found.data[size:] == b"".join(row.data for row in changes.rows)


def compare_text(file: str, known: Seen | None, changes: HostChanges, found: PeoplesFile | None) -> list[Edit]:
    """Return what people changed in a file that the host adds to, takes notes out of, or never writes."""
    if is_as_left(known, changes, found):
        return []
    text = b"" if known is None else known.text
    expected = None if text is None or changes.added > MOST_BYTES else with_changes(text, changes.rows)
    before: bytes | None = None
    if expected is not None and (known is not None or changes.count):
        before = digest_of(expected)
    elif known is not None:
        before = known.digest
    return _edited(file, before, expected, found)


def compare_whole(
    file: str,
    known: Seen | None,
    changes: HostChanges,
    found: PeoplesFile | None,
    replaced: Mapping[int, bytes] = MappingProxyType({}),
) -> list[Edit]:
    """Return what people changed in a file that the host writes as a whole, also between its own changes.

    Args:
        replaced: fingerprint -> a text that the host replaced, as far as it is still at hand.
    """
    edits: list[Edit] = []
    held = None if known is None else known.digest
    text = b"" if known is None else known.text
    for row in changes.rows:
        is_removed = row.kind.endswith(REMOVED)
        if fingerprint_of(held) != row.offset:  # somebody edited it, and the host replaced that
            left = row.data if is_removed else replaced.get(row.offset)
            after = (row.offset << 1).to_bytes(8) if row.offset >= 0 else None
            if left is not None:
                after = digest_of(left)
            hunks = hunks_of(text, left) if text is not None and left is not None else None
            edits.append(Edit(0, 0, group_of(file) or "", HUMAN, 0, file, held, after, hunks))
        text = b"" if is_removed else row.data
        held = None if is_removed else digest_of(row.data)
    return edits + _edited(file, held, text, found)


def _edited(file: str, before: bytes | None, text: bytes | None, found: PeoplesFile | None) -> list[Edit]:
    """Return what a person did to a file.

    Args:
        text: what it held before; None: not known.
    """
    after = None if found is None else found.digest
    if before == after:
        return []
    data = b"" if found is None else found.data
    hunks = None if text is None or data is None else hunks_of(text, data)
    author = HUMAN if found is None else name_of(found.uid)
    return [Edit(0, 0, group_of(file) or "", author, 0, file, before, after, hunks)]


def is_kept(edit: Edit, seen: Seen | None) -> bool:
    """Return whether what an edit left of a file is kept."""
    return edit.after is None if seen is None else edit.after == seen.digest and seen.packed is not None


def with_changes(text: bytes | None, rows: Sequence[Row]) -> bytes | None:
    """Return what the host's own changes make of a text. None: it is not known."""
    for row in rows:
        if text is None and row.kind not in WHOLE_KINDS:
            return None
        if row.kind in WHOLE_KINDS:
            text = b"" if row.kind.endswith(REMOVED) else row.data
        elif row.kind in REVISED_KINDS:
            text = _revised(text or b"", row)
        else:
            text = (text or b"") + row.data
    return text


def _revised(text: bytes, row: Row) -> bytes:
    """Return a text after notes were taken out or put back, wherever they stand in it."""
    if fingerprint(text) == row.offset:
        return new_text(text, row)
    if row.kind in LINE_KINDS:
        return _undone_nearby(text, revision_of(row.data).hunks)
    for note in revision_of(row.data).notes:
        span = standing_span(text, note.data)
        if row.kind == NOTE_RESTORED and span is None:
            text += note.data
        elif row.kind != NOTE_RESTORED and span is not None:
            text = text[: span[0]] + text[span[1] :]
    return text


def hunks_of(before: bytes, after: bytes) -> list[Hunk]:
    return hunks_between(lines_of(before), lines_of(after))


def _undone_nearby(text: bytes, hunks: Sequence[Hunk]) -> bytes:
    """Return a text in which lines took the place of others, wherever these stand in it; others stay as they are."""
    lines = lines_of(text)
    for hunk in reversed(hunks):
        size = len(hunk.removed)
        places = [at for at in range(len(lines) - size + 1) if lines[at : at + size] == list(hunk.removed)]
        if places:
            at = min(places, key=lambda at: abs(at - hunk.at))
            lines[at : at + size] = hunk.added
    return b"".join(lines)
