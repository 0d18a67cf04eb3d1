"""The oldest text of a file from which its history is known: the newest, followed back through changes and edits."""

from __future__ import annotations

from honeybadger_host.documents.versions import before, is_append
from honeybadger_host.memory.file_events import GONE, Event, Past
from honeybadger_host.storage.atomic_files import ABSENT, WHOLE_KINDS, fingerprint
from honeybadger_host.storage.edits import FORGOTTEN_DIGEST, Edit, digest_of
from honeybadger_host.storage.journal_schema import FORGOTTEN_BASE, Row
from honeybadger_host.storage.revised import LINE_KINDS, REVISED_KINDS


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
        if is_append(event):
            is_more = number == 0 and is_first(event) and end > len(event.data)
            if is_more or not text.endswith(event.data, 0, end):
                return number + 1, text[:end]
            end -= len(event.data)  # without a copy for each of 10,000 notes
            continue
        earlier = _before(text[:end], event, past)
        if earlier is None:
            return number + 1, text[:end]
        text, end = earlier, len(earlier)
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
    if isinstance(event, Row) and event.kind in WHOLE_KINDS:
        return b"" if event.offset == ABSENT else past.texts.get(event.seq)
    is_emptied = isinstance(event, Row) and event.offset == FORGOTTEN_BASE
    if is_emptied and event.kind not in LINE_KINDS:
        return None  # where the notes stood is not known any more
    try:
        found = before(text, event)
    except ValueError:
        return None
    if isinstance(event, Row):
        return found if is_emptied or event.offset == fingerprint(found) else None
    is_it = all(
        digest in (None, FORGOTTEN_DIGEST, digest_of(side))
        for digest, side in ((event.before, found), (event.after, text))
    )
    return found if is_it else None
