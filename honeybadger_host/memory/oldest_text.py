"""The oldest text of a file from which its history is known: the newest, followed back through changes and edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from honeybadger_host.domain import NOTE_REMOVED, NOTE_RESTORED
from honeybadger_host.memory.file_events import GONE, Event, Past
from honeybadger_host.storage.atomic_files import ABSENT, WHOLE_KINDS, fingerprint
from honeybadger_host.storage.edits import FORGOTTEN_DIGEST, Edit, digest_of
from honeybadger_host.storage.journal_schema import FORGOTTEN_BASE, Row
from honeybadger_host.storage.line_hunks import Hunk, apply_hunks, lines_of, reversed_hunks
from honeybadger_host.storage.revised import LINE_KINDS, REVISED_KINDS, new_text, revision_of

_NOT_APPENDED: Final = WHOLE_KINDS | REVISED_KINDS


def oldest_known(past: Past) -> tuple[int, bytes | None]:
    """Return where the text is known from: the number of events before that moment, and the text then.

    From there it can be followed to the newest. -1: the newest is not known.
    """
    events = past.events
    seen = past.seen if past.seen is not None and past.seen.text is not None else None
    last, text = len(events), None if seen is None else seen.text
    if text is None:
        whole = [number for number, event in enumerate(events) if event.kind in (*WHOLE_KINDS, "edit_removed")]
        if not whole:
            return -1, None
        last, event = whole[-1] + 1, events[whole[-1]]
        text = event.data if isinstance(event, Row) and event.kind not in GONE else b""
    end = len(text)
    for number in range(last - 1, -1, -1):
        event = events[number]
        if last == len(events) and seen is not None and isinstance(event, Row) and event.seq > seen.seq:
            continue
        if isinstance(event, Row) and event.kind not in _NOT_APPENDED:
            is_more = number == 0 and is_first(event) and end > len(event.data)
            if is_more or not text.endswith(event.data, 0, end):
                return number + 1, text[:end]
            end -= len(event.data)  # without a copy for each of 10,000 notes
            continue
        before = _before(text[:end], event, past)
        if before is None:
            return number + 1, text[:end]
        text, end = before, len(before)
    return 0, text[:end]


def is_first(event: Event) -> bool:
    """Return whether there was no such file before a change, or an empty one."""
    if isinstance(event, Edit):
        return event.before is None
    if event.kind in REVISED_KINDS:
        return False
    return event.offset == (ABSENT if event.kind in WHOLE_KINDS else 0)


def _before(text: bytes, event: Event, past: Past) -> bytes | None:
    """Return what a text was made of; None: that is not known."""
    if isinstance(event, Edit):
        if event.hunks is None or event.after not in (None, FORGOTTEN_DIGEST, digest_of(text)):
            return None
        before = _without(text, event.hunks)
        return None if before is None or event.before not in (None, FORGOTTEN_DIGEST, digest_of(before)) else before
    if event.kind in WHOLE_KINDS:
        return b"" if event.offset == ABSENT else past.texts.get(event.seq)
    revision = revision_of(event.data)
    if event.offset == FORGOTTEN_BASE and event.kind not in LINE_KINDS:
        return None  # where the notes stood is not known any more
    if event.kind in LINE_KINDS:
        before = _without(text, revision.hunks)
    else:
        other = NOTE_REMOVED if event.kind == NOTE_RESTORED else NOTE_RESTORED
        before = new_text(text, event._replace(kind=other))
    return None if before is None or event.offset not in (FORGOTTEN_BASE, fingerprint(before)) else before


def _without(text: bytes, hunks: Sequence[Hunk]) -> bytes | None:
    """Return the text that hunks were applied to; None: this is not what they made of it."""
    try:
        return b"".join(apply_hunks(lines_of(text), reversed_hunks(hunks)))
    except ValueError:
        return None
