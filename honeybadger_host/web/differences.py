"""The lines that one change removed and added, for a page."""

from collections.abc import Sequence
from typing import NamedTuple

from honeybadger_host.errors import NotFound
from honeybadger_host.journal.changes import ABSENT, WHOLE_KINDS, fingerprint
from honeybadger_host.journal.edits import LINE_KINDS, edit_of
from honeybadger_host.journal.line_hunks import hunks_between, lines_of, signed_lines
from honeybadger_host.journal.reader import read_change, read_last
from honeybadger_host.journal.schema import Row
from honeybadger_host.web.visits import Home


class Difference(NamedTuple):
    """The lines that a change removed and added.

    Args:
        lines: sign and text of each line.
        unknown: why lines are missing; empty: none is.
    """

    row: Row
    lines: Sequence[tuple[str, str]]
    unknown: str


def difference_of(home: Home, seq: int) -> Difference:
    """Return the difference that one change made. Raises NotFound, JournalError."""
    row = read_change(home.journal, seq) if home.journal.exists() else None
    if row is None:
        raise NotFound(f"there is no change {seq}")
    if row.kind in LINE_KINDS:
        hunks = edit_of(row).hunks
        if hunks is None:
            return Difference(row, (), "The text of this edit was not kept.")
        return _told(row, signed_lines(hunks))
    if row.kind not in WHOLE_KINDS:
        return _told(row, [("+", line) for line in lines_of(row.data)])
    if row.kind.endswith("_removed"):
        return _told(row, [("-", line) for line in lines_of(row.data)])
    before = None if row.offset == ABSENT else read_last(home.journal, row.file, row.seq - 1)
    if fingerprint(before) != row.offset:
        signed = [(" ", line) for line in lines_of(row.data)]
        return _told(row, signed, "The earlier text is not in the change before; this is the new text.")
    return _told(row, signed_lines(hunks_between(lines_of(before or b""), lines_of(row.data))))


def _told(row: Row, signed: Sequence[tuple[str, bytes]], unknown: str = "") -> Difference:
    lines = [(sign, text.decode("utf-8", "replace").rstrip("\r\n")) for sign, text in signed]
    return Difference(row, lines, unknown)
