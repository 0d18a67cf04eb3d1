"""The text of a file at any moment, and the author of each of its lines, from the journal.

The newest known text is followed back to the oldest, and from there forward, change by change. Each recorded edit
says what the file held before and after it, so what cannot be known is noticed, and said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_host.documents.versions import is_append, text_after
from honeybadger_host.memory.file_events import GONE, Event, Past, read_past
from honeybadger_host.memory.oldest_text import is_first, oldest_known
from honeybadger_host.storage.atomic_files import ABSENT, WHOLE_KINDS, fingerprint
from honeybadger_host.storage.changes import NOTE_RESTORED
from honeybadger_host.storage.edits import FORGOTTEN_DIGEST, Edit, digest_of, fingerprint_of
from honeybadger_host.storage.journal_reader import read_earlier
from honeybadger_host.storage.journal_schema import FORGOTTEN_BASE, Row
from honeybadger_host.storage.line_hunks import Hunk, hunks_between, lines_of

BEFORE: Final = "before"  # whose a line is that stood there before the journal knew the file
NOT_KEPT: Final = "not_kept"  # whose a line is that came with a change of which the journal has no text
Origin: TypeAlias = Event | str
_MAX_MEANWHILE: Final = 50  # rows that may come while an edit is looked at, which takes milliseconds


@dataclass(slots=True)
class Version:
    """A file at one moment.

    Args:
        lines: with their ends.
        origins: whose each line is.
        is_known: else the text is not, and `lines` are those that were known last.
        is_there: there is such a file.
    """

    lines: list[bytes] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    is_known: bool = False
    is_there: bool = False
    replaced: int | None = None
    """Fingerprint of what the last change of the host that wrote it as a whole took away."""
    appended: list[Row] = field(default_factory=list)
    """The host's last additions, a few rows."""
    signed: defaultdict[bytes, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """Heading of a note -> the rows that added such a note."""

    @property
    def text(self) -> bytes:
        return b"".join(self.lines)


def versions(past: Past, until: int | None = None) -> Iterator[tuple[Event | None, Version]]:
    """Yield the file before its first event, and after each. It is the same object each time.

    Args:
        until: the seq of the last event that is wanted.
    """
    events = [*past.events]
    wanted = [number for number, event in enumerate(events) if until is None or event.seq <= until]
    known_from, text = oldest_known(past)
    now = Version(is_known=known_from == 0)
    if events and is_first(events[0]):
        now.is_known = True
    elif known_from == 0:
        now.lines, now.is_there = lines_of(text or b""), True
        now.origins = [BEFORE] * len(now.lines)
    yield None, now
    gone: defaultdict[bytes, list[Origin]] = defaultdict(list)
    for number, event in enumerate(events[: max(wanted, default=-1) + 1]):
        _take(now, event, gone)
        if known_from == number + 1 and not (now.is_known and now.text == text):  # nobody recorded what is different
            _set_lines(now, lines_of(text or b""), NOT_KEPT, gone)
            now.is_known = True
        if not now.is_known and number == len(events) - 1 and past.seen is not None and past.seen.text is not None:
            rows = [row for row in events if isinstance(row, Row) and row.seq > past.seen.seq]
            _set_lines(now, lines_of(text_after(past.seen.text, rows) or b""), NOT_KEPT, gone)
            now.is_known = True
        yield event, now


def held_before(journal: Path, row: Row) -> bytes | None:
    """Return what a file held before a change that replaced it; None: nobody knows. Raises JournalError."""
    found = read_earlier(journal, row, lambda data: fingerprint(data) == row.offset)
    if found is None:
        before = right_before(read_past(journal, row.file), row.seq)
        found = before.text if before.is_known and fingerprint(before.text) == row.offset else None
    return found


def right_before(past: Past, seq: int) -> Version:
    """Return the file as it was right before a change or an edit, whose number may be greater than that of the next."""
    return _after(past, _place_of(past, seq))


def right_after(past: Past, seq: int) -> Version:
    """Return the file as it was right after a change or an edit, see `right_before`."""
    return _after(past, _place_of(past, seq) + 1)


def _place_of(past: Past, seq: int) -> int:
    return next(place for place, event in enumerate(past.events) if event.seq == seq)


def _after(past: Past, count: int) -> Version:
    """Return the file after so many of its events."""
    return next(islice(versions(past), count, None))[1]


def version_at(past: Past, seq: int) -> Version:
    """Return the file as it was right after a change."""
    *_, (_, version) = versions(past, seq)
    return version


# -------------------------------------------------------------------------------------------------------------- forward


def _take(now: Version, event: Event, gone: defaultdict[bytes, list[Origin]]) -> None:
    """Make a version the next one."""
    is_there = event.kind not in GONE and event.kind != "edit_removed"
    if isinstance(event, Edit):
        is_removed = event.after is None and event.before == digest_of(now.text)
        if now.replaced == fingerprint_of(event.after) and not is_removed:
            return  # the host replaced it before it was looked at
        later = _came_meanwhile(now, event)
        is_as_it_was = later is not None
        if event.before is None and not (now.is_known and now.lines):
            now.lines, now.origins, is_as_it_was = [], [], True
        now.is_known = is_as_it_was and event.hunks is not None
        if now.is_known:
            _replace(now, event, event.hunks or (), gone)
            for row in later or ():
                _append(now, row, gone)
    elif is_append(event):
        if event.offset == 0 and not now.is_known:
            now.lines, now.origins, now.is_known = [], [], True
        _append(now, event, gone)
        now.appended = [*now.appended, event][-_MAX_MEANWHILE:]
    else:
        is_whole = event.kind in WHOLE_KINDS
        text = text_after(now.text, [event]) if is_whole or now.is_known else None
        held = fingerprint(now.text) if now.is_known else None
        is_whole_of_another = is_whole and event.offset not in (ABSENT, FORGOTTEN_BASE, held)
        if text is not None:
            _set_lines(now, lines_of(text), NOT_KEPT if is_whole_of_another else event, gone)
        now.is_known = text is not None
        now.replaced = event.offset if is_whole else now.replaced
    if not is_append(event):
        now.appended = []
    now.is_there = is_there


def _came_meanwhile(now: Version, edit: Edit) -> list[Row] | None:
    """Return the rows that came while an edit was looked at: it has a later number, and does not know of them.

    They are taken out of the version. None: it is not what was edited, as far as is known.
    """
    text = now.text
    if edit.before == FORGOTTEN_DIGEST:
        return [] if now.is_known else None
    for count in range(len(now.appended) + 1):
        if digest_of(text) == edit.before:
            kept = len(lines_of(text))
            del now.lines[kept:], now.origins[kept:]
            return now.appended[len(now.appended) - count :]
        data = now.appended[-1 - count].data if count < len(now.appended) else b""
        if not text.endswith(data) or not text[: -len(data) or None].endswith(b"\n"):
            return None
        text = text[: len(text) - len(data)]
    return None


def _append(now: Version, row: Row, gone: defaultdict[bytes, list[Origin]]) -> None:
    data = row.data
    if now.lines and not now.lines[-1].endswith(b"\n"):
        rest, end, data = data.partition(b"\n")
        if rest:
            now.origins[-1] = row
        now.lines[-1] += rest + end
    added = lines_of(data)
    if len(added) > 1 and added[0] == b"\n":
        now.signed[added[1]].append(row)
    now.lines += added
    now.origins += _whose(added, row, gone)


def _set_lines(now: Version, lines: list[bytes], origin: Origin, gone: defaultdict[bytes, list[Origin]]) -> None:
    _replace(now, origin, hunks_between(now.lines, lines), gone)


def _replace(now: Version, origin: Origin, hunks: Sequence[Hunk], gone: defaultdict[bytes, list[Origin]]) -> None:
    """Let lines take the place of others. One that was moved, or only got another end, stays whose it was."""
    moved: defaultdict[bytes, list[Origin]] = defaultdict(list)
    for hunk in hunks:
        before = now.origins[hunk.at : hunk.at + len(hunk.removed)]
        for line, whose in zip(hunk.removed, before, strict=True):
            moved[line.rstrip(b"\r\n")].append(whose)
    for hunk in reversed(hunks):
        end = hunk.at + len(hunk.removed)
        for line, whose in zip(hunk.removed, now.origins[hunk.at : end], strict=True):
            gone[line].append(whose)
    for hunk in reversed(hunks):
        added = _whose(hunk.added, origin, gone)
        if isinstance(origin, Edit):
            _give_back(now.signed, hunk.added, added)
        for number, line in reversed([*enumerate(hunk.added)]):
            if line.strip() and moved[line.rstrip(b"\r\n")]:
                added[number] = moved[line.rstrip(b"\r\n")].pop()
        end = hunk.at + len(hunk.removed)
        now.lines[hunk.at : end] = hunk.added
        now.origins[hunk.at : end] = added


def _give_back(signed: Mapping[bytes, Sequence[Row]], lines: Sequence[bytes], whose: list[Origin]) -> None:
    """Leave notes that came with an edit to who signed them: the host put them back, or a person copied them."""
    for number, line in enumerate(lines):
        if (rows := signed.get(line)) is None:
            continue
        whose[number] = rows[-1]
        for row in rows:
            note = lines_of(row.data)[1:]
            if list(lines[number : number + len(note)]) == note:
                whose[number : number + len(note)] = [row] * len(note)


def _whose(lines: Sequence[bytes], origin: Origin, gone: defaultdict[bytes, list[Origin]]) -> list[Origin]:
    """Return whose lines are that come; what the operator puts back is whose it was."""
    if not isinstance(origin, Row) or (origin.sender != OPERATOR and origin.kind != NOTE_RESTORED):
        return [origin] * len(lines)
    return [gone[line].pop() if gone[line] else origin for line in reversed(lines)][::-1]
