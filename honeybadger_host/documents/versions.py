"""Earlier texts of a document: its changes, followed back from a text, and notes that a save took out.

An older text saved back, or the newest notes deleted together with something else: their author may not have read them.
They are reported with the `undo` that brings them back.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import NamedTuple

from honeybadger_host.documents.merge import merge, notes_in, units_of
from honeybadger_host.journal.changes import WHOLE_KINDS, read_whole
from honeybadger_host.journal.edits import (
    EditReader,
    SavedText,
    edit_of,
    is_append,
    is_edit,
    place_of,
    text_after,
    text_before,
)
from honeybadger_host.journal.line_hunks import alike, lines_of
from honeybadger_host.journal.schema import IS_EDIT, Row

MAX_CANDIDATES = 64


def read_events(reader: EditReader, file: str, since: int, last: int) -> list[Row]:
    """Return the changes of a file since a time (milliseconds since the epoch), see `place_of`, and one before.

    Args:
        last: number of its newest change that counts.
    Raises JournalError.
    """

    def time_of(number: int) -> int:
        query = "SELECT at FROM changes WHERE seq >= ? ORDER BY seq LIMIT 1"
        return next((at for (at,) in reader.rows(query, (number,))), since)

    low = bisect_left(range(last + 1), since, key=time_of)  # times never fall
    events = [row for row in reader.changes(low, last, [file]) if row.at >= since]
    query = f"SELECT * FROM changes WHERE seq < ? AND file = ? AND NOT {IS_EDIT} ORDER BY seq DESC LIMIT 1"  # noqa: S608  a constant
    if events and (events[0].kind in WHOLE_KINDS or file.endswith(".json")):  # else it is followed back
        written = [*map(Row._make, reader.rows(query, (events[0].seq, file)))]
        edits = reader.edits_of([file], written[0].seq if written else 0)
        events[:0] = [*written, *(edit for edit in edits if edit.seq < events[0].seq)]
    return sorted(events, key=place_of)


class EarlierText(NamedTuple):
    """A text of a file.

    Args:
        run: the appends in a row, oldest first, that it ends with.
        end: how many events it is after.
    """

    text: bytes
    run: Sequence[Row]
    end: int


def versions_back(newest: bytes, events: Sequence[Row]) -> Iterator[EarlierText]:
    """Yield texts of a file, the newest first, until one is not known.

    Args:
        events: of the file, oldest first; `newest` is after the last of them.
    """
    at, text = len(events), newest
    while True:
        count = at
        while at > 0 and is_append(events[at - 1]):
            at -= 1
        run = events[at:count]
        yield EarlierText(text, run, count)
        if at == 0 or not text.endswith(added := b"".join(row.data for row in run)):
            return
        text = text[: len(text) - len(added)]
        at -= 1
        try:
            is_whole = events[at].kind in WHOLE_KINDS
            text = _before_whole(events[:at]) if is_whole else text_before(text, events[at])
        except ValueError:
            return


def _before_whole(events: Sequence[Row]) -> bytes:
    """Return the content of a file before it was replaced. Raises ValueError if that is unknown."""
    for at in range(len(events) - 1, -1, -1):
        if events[at].kind in WHOLE_KINDS or events[at].kind == "edit_new":
            return reduce(text_after, events[at:], b"")
    raise ValueError("the text before is not known")


def taken_back(
    text: bytes, came: int, versions: Sequence[EarlierText], events: Sequence[Row], recent: Sequence[SavedText]
) -> bytes | None:
    """Return the later text that a person takes back who saves an earlier one; None: nothing says that they do.

    Their editor was open all the time: the later text has no note that came since the earlier one, and all lines of
    that one that are still there. Of several it is the newest.

    Args:
        came: when a person saved the earlier text, in milliseconds; 0: nobody did within the last hour.
        versions: of the file, the newest first.
        events: of the file within the last hour, oldest first.
        recent: texts that people saved in that time.
    """
    later = [(one.at, one.text) for one in recent]
    merged_at = {one.at for one in recent}  # what a save was merged into was in nobody's editor
    for version in versions:
        before_run = _without(version.text, [row.data for row in version.run])
        edit = version.end - len(version.run) - 1
        at = events[edit].at if edit >= 0 else 0
        if text.startswith(before_run) and version.text.startswith(text):
            came = max([came, at, *(row.at for row in version.run if row.data.strip() in text)])
            break
        if at not in merged_at:
            later.append((at, before_run))
    notes, there = _headings_in(text), _headings_in(versions[0].text)
    last = next(reversed(notes), b"")  # who lacks it has an older text open
    stayed = {*filter(bytes.strip, lines_of(text))} & {*lines_of(versions[0].text)}
    for at, one in sorted(later, reverse=True):
        read = _headings_in(one)
        is_read = read <= notes & there and read[last] == notes[last] and stayed <= {*lines_of(one)}
        if at > came and one != text and is_read:
            return one
    return None


def _headings_in(text: bytes) -> Counter[bytes]:
    """Return the headings of the notes of a text: a reworded note keeps its heading."""
    return Counter(map(_heading, notes_in(text)))


class Saved:
    """A text that a person saved, to be compared with versions.

    Args:
        newest: the newest version.
    """

    def __init__(self, text: bytes, newest: bytes) -> None:
        self.text = text
        units = units_of(text)
        self._newest = newest
        self._units = Counter(unit.strip() for unit in units if unit.strip())
        self._typed = [*self._units.keys() - {unit.strip() for unit in units_of(newest)}]

    @cached_property
    def _lines(self) -> Counter[bytes]:
        return Counter(lines_of(self.text))

    @cached_property
    def _newest_lines(self) -> Counter[bytes]:
        return Counter(lines_of(self._newest))

    def candidates(
        self, versions: Sequence[EarlierText], events: Sequence[Row], recent: Sequence[SavedText], undone_since: int
    ) -> Iterator[bytes]:
        """Yield the texts that this one may have been made from, the newest first.

        Its author had read all up to the last event that it shows, and nothing that was appended since.

        Args:
            versions: of the file, the newest first.
            events: of the file within the last hour, oldest first.
            recent: texts that people saved in that time.
            undone_since: a deletion since then, in milliseconds, that the text lacks was undone by its author.
        """
        typed = [unit for unit in self._typed if not any(_has_unit(version.text, unit) for version in versions)]
        has_edits = any(map(is_edit, events))
        old_lines = Counter(lines_of(versions[-1].text) if has_edits else ())
        read, unread = 0, list[bytes]()
        is_last = True
        above = Counter(unit.strip() for unit in units_of(self._newest) if unit.strip())
        lacking = {unit for unit in above if unit not in self._units}
        for number in range(len(events), 0, -1):
            event = events[number - 1]
            if is_edit(event):
                is_read = self._shows(event, old_lines)
                if is_last and not is_read:
                    unread_by_both, is_older = self._lacking(events[: number - 1], event, recent)
                    is_read = not is_older and self._revises(event, typed, unread, recent)
                    unread += unread_by_both if is_read else []
                is_last = False
                if event.at >= undone_since and self._undoes(event):  # or it is the text of who has not read it
                    unread += [b"".join(hunk.removed) for hunk in edit_of(event).hunks or ()]
            elif is_append(event):
                units = [unit.strip() for unit in units_of(event.data) if unit.strip()]
                above.subtract(units)
                is_read = self._has(units, typed, above, lacking)
                unread += [] if is_read else [event.data]
            else:
                continue
            if is_read:
                read = number
                break
        for text, run, count in versions:
            if count >= read and (text or run):  # nobody opens a file that is not there, but before its first note
                yield _without(text, unread)
        last = events[read - 1] if read else None
        for one in recent:
            if last is None or (one.at >= last.at and (is_edit(last) or last.data.strip() in one.text)):
                yield one.text

    def _lacking(self, events: Sequence[Row], edit: Row, recent: Sequence[SavedText]) -> tuple[list[bytes], bool]:
        """Return the notes before an edit that neither its author nor the author of this text had read.

        And whether this text lacks the note before those, which the author of the edit had read. Earlier edits and
        notes that were deleted or reworded say nothing of that.
        """
        texts = [one.text for one in recent if one.at >= edit.at]
        unread: list[bytes] = []
        for row in reversed(events):
            note = row.data.strip()
            if not is_append(row) or note not in self._newest:
                continue
            if note in self.text:
                break
            if all(note in text for text in texts):
                return unread, True
            unread.append(row.data)
        return unread, False

    def _shows(self, row: Row, old_lines: Counter[bytes]) -> bool:
        """Return whether the text has lines that came with an edit."""
        came: Counter[bytes] = Counter()
        for hunk in edit_of(row).hunks or ():
            came.update(line for line in hunk.added if line.strip())
            came.subtract(line for line in hunk.removed if line.strip())  # it may only have moved
        return bool((+came - old_lines) & self._lines)

    def _revises(self, row: Row, typed: Iterable[bytes], unread: Iterable[bytes], recent: Sequence[SavedText]) -> bool:
        """Return whether the text's author revised what an edit brought, so that nothing of it is left.

        The text lacks lines that the edit replaced as well, has typed lines in the place of the new ones, or is the
        newest version without them.

        Args:
            row: the newest edit.
            typed: units that no version has.
            unread: what came after the edit, and the text lacks because its author had not read it.
            recent: texts that people saved.
        """
        saved = (one.text for one in recent if one.at >= row.at)
        change = min(self._distance(text) for text in (self._newest, *saved))
        if any(0 < 3 * self._distance(one.text) < change for one in recent if one.at < row.at):
            return False  # another person goes on with a text of their own
        hunks = edit_of(row).hunks or ()
        if any(hunk.added and not self._lines.keys() >= {*filter(bytes.strip, hunk.removed)} for hunk in hunks):
            return True
        came = {line for hunk in hunks for line in hunk.added if line.strip()}
        if not any(map(bytes.strip, self._lines.keys() - self._newest_lines.keys())):
            gone = {*filter(bytes.strip, self._newest_lines.keys() - self._lines.keys())}
            return gone <= came | {line for part in unread for line in lines_of(part)}
        lines = {line for unit in typed for line in lines_of(unit + b"\n") if line.strip()}
        last = sum(line in self._newest_lines for line in filter(bytes.strip, lines_of(self.text)))
        places = _places(self.text, lines, self._newest_lines)
        places -= {0, last}  # at both ends another person is likely to type as well
        replaced = _places(self._newest, came, self._lines)
        return bool(replaced) and replaced <= places  # who replaces one of two lines keeps the other

    def _undoes(self, row: Row) -> bool:
        """Return whether an edit only deleted, and the text has all of that again."""
        hunks = edit_of(row).hunks or ()
        removed = Counter(line for hunk in hunks for line in hunk.removed if line.strip())
        is_deletion = not any(hunk.added for hunk in hunks)
        return is_deletion and removed <= self._lines and bool(removed - self._newest_lines)

    def nearest(self, candidates: Iterable[bytes]) -> bytes:
        """Return the candidate that differs from the text in the fewest characters; of several the first.

        Not in lines: a person who goes on with a line they saved a minute ago has not saved an older text. What the
        newest version lacks as well counts for nothing.
        """
        found = [*candidates]
        return found[0] if len(found) == 1 else min(found, key=self._distance, default=b"")

    def _distance(self, text: bytes) -> int:
        one, other = _trimmed(text, self.text)
        lines, others = Counter(lines_of(one)), Counter(lines_of(other))
        gone, new, shared = (lines - others) & self._newest_lines, others - lines, lines & others
        removed, added = b"".join(gone.elements()), b"".join(new.elements())
        is_reworked = _places(one, gone, shared) <= _places(other, new, shared)
        return len(removed) + len(added) - (2 * alike(removed, added) if is_reworked else 0)

    def _has(
        self, units: Sequence[bytes], typed: Sequence[bytes], above: Counter[bytes], lacking: Collection[bytes]
    ) -> bool:
        """Return whether the text contains an append, possibly reworded or under another heading.

        Args:
            typed: units that no version has.
            above: units above it; `lacking` are units of the newest version that the text lacks.
        """
        if all(self._units[unit] for unit in units):
            return not any(0 < self._units[unit] <= above[unit] for unit in units)
        for part in {part for unit in units for part in unit.split(b"\n", 1)}:
            if count := sum(part in unit.split(b"\n", 1) for unit in typed):  # else of an earlier one just like it
                return count > sum(above[unit] for unit in lacking if part in unit.split(b"\n", 1))
        return False


def _places(text: bytes, wanted: Collection[bytes], shared: Collection[bytes]) -> set[int]:
    """Return, for each wanted line, the number of shared lines above it."""
    places: set[int] = set()
    above = 0
    for line in lines_of(text):
        if line in shared:
            above += bool(line.strip())
        elif line in wanted:
            places.add(above)
    return places


def _has_unit(text: bytes, unit: bytes) -> bool:
    """Return whether a text has a unit; a heading that is left of a note is not the heading of a whole one."""
    if not unit.startswith(b"## ") or b"\n" in unit:
        return unit in text
    return re.search(rb"%s[ \t\r]*(?:\n(?!- )|\Z)" % re.escape(unit), text) is not None


def _without(text: bytes, parts: Sequence[bytes]) -> bytes:
    """Return a text without the last of each of some parts."""
    for part in parts:
        at = text.rfind(part)
        if at >= 0:
            text = text[:at] + text[at + len(part) :]
    return text


def _trimmed(one: bytes, other: bytes) -> tuple[bytes, bytes]:
    """Return two texts without the lines that both begin with and both end with."""
    start = _common(one, other)
    start = one.rfind(b"\n", 0, start) + 1
    one, other = one[start:], other[start:]
    shorter = min(len(one), len(other))
    end = _common(one[len(one) - shorter :][::-1], other[len(other) - shorter :][::-1])
    end = max(0, end - 1 - one[len(one) - end :].find(b"\n")) if b"\n" in one[len(one) - end :] else 0
    return one[: len(one) - end], other[: len(other) - end]


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


_TOLD_DAYS = 3  # over a weekend; `log` says it for good


def unread_notes(newest: bytes, merged: bytes, saved: bytes) -> list[bytes]:
    """Return the newest notes that a save lacks and that are gone, newest first; empty when it is only one.

    Args:
        newest: version before the save.
        merged: version after it.
    """
    notes, read, stays = map(notes_in, (newest, saved, merged))
    has_read, has_stayed = ({note.strip() for note in some} for some in (read, stays))
    headings = _headings_in(newest)
    headings.subtract(_headings_in(saved))
    kept = set(lines_of(saved)) - {b"\n"}
    unread: list[bytes] = []
    for note in reversed(notes):
        is_there = note.strip() in has_read or headings[_heading(note)] <= 0  # perhaps in other words
        if is_there or not kept.isdisjoint(lines_of(note)[1:]):  # who keeps a line of a note has read it
            break
        headings[_heading(note)] -= 1
        if note.strip() not in has_stayed:
            unread.append(note)
    return unread if len(unread) > 1 else []


def with_unread(newest: bytes, merged: bytes, unread: list[bytes]) -> bytes:
    """Return the result of a save if the unread notes had stayed."""
    left = [*units_of(newest)]
    for note in unread:
        at = max(number for number, unit in enumerate(left) if unit == note)
        has_blank = at > 0 and not left[at - 1].strip()
        del left[at - has_blank : at + 1]
    return merge(b"".join(left), newest, merged)


def removed_unread(home: Path, journal: Path, now: float) -> list[Row]:
    """Return the edits of the last days that took unread notes, newest first, but for those whose notes are back.

    A note that several took is that of the newest: the others' `undo` came before it was taken again.

    Args:
        now: seconds since the epoch.
    Raises:
        JournalError, WorldFailed.
    """
    if not journal.exists():
        return []
    since = round((now - _TOLD_DAYS * 86_400) * 1000)
    found: list[Row] = []
    known: dict[str, set[bytes]] = {}  # file -> notes in it, and those that a newer edit took
    for row in EditReader(journal).unread(since):
        if row.file not in known:
            known[row.file] = {*map(bytes.strip, notes_in(read_whole(home / row.file) or b""))}
        removed = b"".join(line for hunk in edit_of(row).hunks or () for line in hunk.removed)
        gone = {*map(bytes.strip, notes_in(removed))}
        if not gone <= known[row.file]:
            found.append(row)
        known[row.file] |= gone
    return found


def _heading(unit: bytes) -> bytes:
    return unit.partition(b"\n")[0].replace(b" (pinned)", b"")  # whoever pins a note has read it
