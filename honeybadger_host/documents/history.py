"""The text of a file at any moment, the authors of its lines and members, and notes that leave a file or return to it.

A fold over the changes of a file in the journal (docs/decisions/026-removing-notes.md).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import orjson

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_host.documents.merge import Overlapping, merge_lines, notes_in, units_of
from honeybadger_host.journal.changes import (
    ABSENT,
    NOTE_EDITED,
    NOTE_REMOVED,
    NOTE_RESTORED,
    REMOVED,
    WHOLE_KINDS,
    NotesRevised,
    RevisedKind,
    fingerprint,
)
from honeybadger_host.journal.edits import (
    FILES_AT_ONCE,
    LINE_KINDS,
    EditReader,
    Seen,
    edit_of,
    is_append,
    is_edit,
    is_first,
    packed_hunks,
    place_of,
)
from honeybadger_host.journal.line_hunks import Hunk, hunks_between, lines_of, reversed_hunks, text_with
from honeybadger_host.journal.reader import read_request
from honeybadger_host.journal.schema import FORGOTTEN_BASE, LAST_SEQ, Row
from honeybadger_host.text.json_values import object_in

BEFORE = "before"  # whose a line is that stood there before the journal knew the file
NOT_KEPT = "not_kept"  # author of a line from a change whose text the journal does not have
Origin: TypeAlias = Row | str
NOT_YET = "not_recorded"  # origin of a line that somebody saved and that is not recorded yet


# Origin without an author -> why nobody is named.
UNKNOWN_WHY = {
    BEFORE: "stood there before the journal knew the file",
    NOT_KEPT: "came with a change of which the journal has no text",
    NOT_YET: "saved just now, or while no host runs",
}
# Kinds of changes behind which there is no such file.
_GONE = frozenset(("edit_removed", *(kind for kind in WHOLE_KINDS if kind.endswith(REMOVED))))


class Blamed(NamedTuple):
    """A line, or a member as JSON, and its origin."""

    text: bytes
    origin: Origin

    @property
    def shown(self) -> str:
        """Its text without the line end."""
        return self.text.decode("utf-8", "replace").rstrip("\r\n")

    @property
    def why(self) -> str:
        """Why nobody is named; empty: somebody is."""
        return UNKNOWN_WHY[self.origin] if isinstance(self.origin, str) else ""


class Past(NamedTuple):
    """The changes of a file.

    Args:
        rows: oldest first, see `place_of`.
        seen: how it was looked at last; None: it was not, or it is gone since.
        begun: number and text of each place where the past begins with a text, oldest first.
    """

    file: str
    rows: Sequence[Row]
    seen: Seen | None = None
    begun: Sequence[tuple[int, bytes]] = ()


def read_past(journal: Path, file: str) -> Past:
    """Return the past of a file, from a journal that a host may have open. Raises JournalError."""
    return next(read_pasts(journal, [file]))


def read_pasts(journal: Path, files: Sequence[str]) -> Iterator[Past]:
    """Yield what a journal that a host may have open has of files, in their order. Raises JournalError."""
    reader = EditReader(journal)
    for start in range(0, len(files), FILES_AT_ONCE):
        some = files[start : start + FILES_AT_ONCE]
        seen, rows = reader.seen(some), defaultdict[str, list[Row]](list)
        for row in reader.changes(0, LAST_SEQ, some):
            rows[row.file].append(row)
        begun = defaultdict[str, list[tuple[int, bytes]]](list)
        for file, seq, text in reader.texts(some):
            begun[file].append((seq, text))
        for file in some:
            yield Past(file, sorted(rows[file], key=place_of), seen.get(file), begun[file])


@dataclass(slots=True)
class Version:
    """A file at one moment.

    Args:
        lines: with their ends.
        is_known: whether the text is known; else `lines` are the last known ones.
        is_there: there is such a file.
    """

    lines: list[Blamed] = field(default_factory=list)
    is_known: bool = False
    is_there: bool = False
    # Line that was taken out -> whose it was each time.
    gone: defaultdict[bytes, list[Origin]] = field(default_factory=lambda: defaultdict(list))
    # The first two lines of a note, its heading and item -> the changes that added such a note.
    signed: defaultdict[bytes, list[Row]] = field(default_factory=lambda: defaultdict(list))

    @property
    def text(self) -> bytes:
        return b"".join(line.text for line in self.lines)


def versions(past: Past, until: int = LAST_SEQ) -> Iterator[tuple[Row | None, Version]]:
    """Yield the file before its first change, and after each. It is the same object each time.

    Args:
        until: the seq of the last change that is wanted.
    """
    rows, begun = past.rows, [*past.begun]
    now = Version(is_known=bool(rows) and is_first(rows[0]))
    if begun and not (rows and rows[0].seq < begun[0][0]):
        now.lines = [Blamed(line, BEFORE) for line in lines_of(begun.pop(0)[1])]
        now.is_known = now.is_there = True
    yield None, now
    count = max((number for number, row in enumerate(rows, 1) if row.seq <= until), default=0)
    for number, row in enumerate(rows[:count], 1):
        _take(now, row)
        while begun and (number == len(rows) or begun[0][0] <= rows[number].seq):
            _begin(now, begun.pop(0)[1])
        yield row, now


def version_at(past: Past, seq: int) -> Version:
    """Return the file as it was right after a change."""
    *_, (_, version) = versions(past, seq)
    return version


def around(past: Past, seq: int) -> tuple[Version, Version]:
    """Return the file as it was right before and right after a change of it."""
    place = next(number for number, row in enumerate(past.rows) if row.seq == seq)
    some = islice(versions(past), place, place + 2)
    _, now = next(some)
    before = Version([*now.lines], now.is_known, now.is_there)
    return before, next(some)[1]


def text_before(journal: Path, row: Row) -> bytes | None:
    """Return the content of a file just before a change, or None if it is unknown. Raises JournalError."""
    before, _ = around(read_past(journal, row.file), row.seq)
    return before.text if before.is_known and fingerprint(before.text) == row.offset else None


# -------------------------------------------------------------------------------------------------------------- forward


def _begin(now: Version, text: bytes) -> None:
    """Go on with a text that no change tells of."""
    if not (now.is_known and now.text == text):
        _replace(now, NOT_KEPT, _hunks_to(now, text))
        now.is_known = now.is_there = True


def _take(now: Version, row: Row) -> None:
    """Make a version the next one."""
    now.is_there = row.kind not in _GONE
    if row.kind == "edit_new" or (is_append(row) and row.offset == 0 and not now.is_known):
        now.lines, now.is_known = [], True
    if is_append(row):
        _append(now, row)
        return
    origin: Origin = row
    if row.kind in LINE_KINDS:  # only the lines of its hunks are compared: a file may have thousands of edits
        edit = edit_of(row)
        hunks: list[Hunk] = []
        for hunk in edit.hunks or ():  # without the lines that stay: the host replaces whole notes
            hunks += [one._replace(at=hunk.at + one.at) for one in hunks_between(hunk.removed, hunk.added)]
        now.is_known = now.is_known and edit.hunks is not None
    else:
        held = now.text if now.is_known else None
        if row.offset not in (ABSENT, FORGOTTEN_BASE, fingerprint(held)):
            origin = NOT_KEPT  # somebody saved it just before the host wrote it, and that is not in the journal
        hunks, now.is_known = _hunks_to(now, b"" if row.kind in _GONE else row.data), True
    if now.is_known:
        _replace(now, origin, hunks)


def _append(now: Version, row: Row) -> None:
    data = row.data
    if now.lines and not now.lines[-1].text.endswith(b"\n"):
        rest, end, data = data.partition(b"\n")
        text, origin = now.lines[-1]
        now.lines[-1] = Blamed(text + rest + end, row if rest else origin)
    added = lines_of(data)
    if len(added) > 1 and added[0] == b"\n":
        now.signed[b"".join(added[1:3])].append(row)
    now.lines += _blamed(added, row, now.gone)


def _hunks_to(now: Version, text: bytes) -> list[Hunk]:
    """Return the difference between a version and a text."""
    return hunks_between([line.text for line in now.lines], lines_of(text))


def _replace(now: Version, origin: Origin, hunks: Sequence[Hunk]) -> None:
    """Replace lines. A line that was moved, or got another end only, keeps its author."""
    moved: defaultdict[bytes, list[Origin]] = defaultdict(list)
    for hunk in hunks:
        there = now.lines[hunk.at : hunk.at + len(hunk.removed)]
        if [line.text for line in there] != [*hunk.removed]:
            now.is_known = False
            return
        for line in there:
            moved[line.text.rstrip(b"\r\n")].append(line.origin)
            now.gone[line.text].append(line.origin)
    for hunk in reversed(hunks):
        end = hunk.at + len(hunk.added)
        now.lines[hunk.at : hunk.at + len(hunk.removed)] = _blamed(hunk.added, origin, now.gone)
        if isinstance(origin, Row) and is_edit(origin):
            # from the line above on: between notes with one heading, the heading that came may be that of the next
            _give_back(now, range(max(0, hunk.at - 1), end))
        for number in reversed(range(hunk.at, end)):
            line = now.lines[number]
            if line.text.strip() and moved[line.text.rstrip(b"\r\n")]:
                now.lines[number] = line._replace(origin=moved[line.text.rstrip(b"\r\n")].pop())


def _blamed(lines: Sequence[bytes], origin: Origin, gone: defaultdict[bytes, list[Origin]]) -> list[Blamed]:
    """Return lines that come with their origins; what the operator puts back is whose it was."""
    if not isinstance(origin, Row) or (origin.sender != OPERATOR and origin.kind != NOTE_RESTORED):
        return [Blamed(line, origin) for line in lines]
    return [Blamed(line, gone[line].pop() if gone[line] else origin) for line in reversed(lines)][::-1]


def _give_back(now: Version, places: Iterable[int]) -> None:
    """Leave notes that begin at some lines to who signed them: a merge put them back, or a person copied them."""
    for number in places:
        start = b"".join(line.text for line in now.lines[number : number + 2])
        for row in now.signed.get(start, ()):
            note = lines_of(row.data)[1:]
            if [line.text for line in now.lines[number : number + len(note)]] == note:
                now.lines[number : number + len(note)] = [Blamed(each, row) for each in note]


def revise(group: str, file: str, base: bytes, text: bytes, kind: RevisedKind) -> NotesRevised:
    """Return the change that gives a file another text, note by note.

    Args:
        base: what the file holds.
    """
    units = units_of(base)
    firsts = [*accumulate((unit.count(b"\n") for unit in units), initial=0)]
    hunks = [
        Hunk(firsts[at], lines_of(b"".join(removed)), lines_of(b"".join(added)))
        for at, removed, added in hunks_between(units, units_of(text))
    ]
    return NotesRevised(group, file, base, text, orjson.dumps({"hunks": packed_hunks(hunks)}), kind)


def remove_notes(group: str, file: str, base: bytes, spans: Sequence[tuple[int, int]]) -> NotesRevised:
    """Return the change that takes notes out of a file.

    Args:
        spans: begin and end of each note, in order, each apart from the others.
    """
    text = base
    for begin, end in reversed(spans):
        text = text[:begin] + text[end:]
    return revise(group, file, base, text, NOTE_REMOVED)


def edit_note(group: str, file: str, base: bytes, span: tuple[int, int], note: bytes) -> NotesRevised:
    """Return the change that gives a note another text, in its place and with the blank lines around it.

    Args:
        span: of the note in `base`, see `remove_notes`.
        note: as it would be appended.
    """
    begin, end = span
    made = base[begin:end].replace(base[begin:end].strip(b"\r\n"), note.strip(b"\n"), 1)
    return revise(group, file, base, base[:begin] + made + base[end:], NOTE_EDITED)


class Removal(NamedTuple):
    """A change that took notes out of a file.

    Args:
        after: the file right after it; None: that is not known.
    """

    hunks: Sequence[Hunk]
    after: bytes | None

    @property
    def notes(self) -> list[bytes]:
        return [note for hunk in self.hunks for note in notes_in(b"".join(hunk.removed))]

    def undone(self, held: bytes, gone: Sequence[bytes]) -> bytes:
        """Return a text with some of its notes again: at their places, or at the end where these are not as they were.

        Args:
            gone: the notes that are to come back.
        """
        if self.after is not None and len(gone) == len(self.notes):
            with suppress(Overlapping):
                return merge_lines(self.after, held, text_with(self.after, reversed_hunks(self.hunks)))
        return held + b"".join(b"\n" + note.strip(b"\r\n") + b"\n" for note in gone)


def removal_of(journal: Path, row: Row) -> Removal:
    """Return the lines that a change removed from its file. Raises JournalError."""
    _, after = around(read_past(journal, row.file), row.seq)
    return Removal(edit_of(row).hunks or (), after.text if after.is_known else None)


def blame_of(journal: Path, file: str, held: bytes | None) -> list[tuple[str, Blamed]]:
    """Return the origin of each line of a file, by its number, or of each member of an entry, by its name.

    That of a member is known also from before the entry was moved.

    Args:
        held: the content of the file now.
    Raises JournalError.
    """
    if file.endswith(".json"):
        members = _members(journal, file, LAST_SEQ)
        return [*_changed(members, object_in(held or b"") or {}, NOT_YET, defaultdict(list)).items()]
    return [(str(number), one) for number, one in enumerate(blame_lines(read_past(journal, file), held), 1)]


def blame_lines(past: Past, held: bytes | None) -> list[Blamed]:
    """Return the lines of a file with their origins.

    Args:
        held: the content of the file now.
    """
    *_, (_, now) = versions(past)
    lines = now.lines
    later: Origin = NOT_YET if now.is_known else NOT_KEPT if past.rows else BEFORE
    for hunk in reversed(_hunks_to(now, held or b"")):
        lines[hunk.at : hunk.at + len(hunk.removed)] = [Blamed(line, later) for line in hunk.added]
    return lines


def _members(journal: Path, file: str, until: int) -> dict[str, Blamed]:
    past = read_past(journal, file)
    gone: defaultdict[tuple[str, bytes], list[Origin]] = defaultdict(list)
    members: dict[str, Blamed] = {}
    is_lost = False
    for event, now in versions(past, until):
        if not now.is_known:
            is_lost = True
            continue
        if event is not None and not members and (moved := _moved_from(journal, event)) is not None:
            members = _members(journal, moved.file, moved.seq - 1)
        origin: Origin = NOT_KEPT if is_lost and event is not past.rows[0] else event or BEFORE
        members = _changed(members, object_in(now.text) or {}, origin, gone)
        is_lost = False
    return members


def _moved_from(journal: Path, row: Row) -> Row | None:
    """Return the change that took an entry from its earlier place, or None if a change did not move one."""
    name = row.file.rpartition("/")[2]
    others = read_request(journal, row) if not row.kind.endswith(REMOVED) else ()
    return next((each for each in others if each.kind.endswith(REMOVED) and each.file.endswith(f"/{name}")), None)


def _changed(
    members: Mapping[str, Blamed],
    value: Mapping[str, Any],
    origin: Origin,
    gone: defaultdict[tuple[str, bytes], list[Origin]],
) -> dict[str, Blamed]:
    """Return the members after a change; a value that the operator restores has its earlier origin."""
    texts = {name: orjson.dumps(each) for name, each in value.items()}
    for name, before in members.items():
        if texts.get(name) != before.text:
            gone[name, before.text].append(before.origin)
    is_back = isinstance(origin, Row) and origin.sender == OPERATOR
    found: dict[str, Blamed] = {}
    for name, text in texts.items():
        known = members.get(name)
        if known is not None and known.text == text:
            found[name] = known
        else:
            found[name] = Blamed(text, gone[name, text].pop() if is_back and gone[name, text] else origin)
    return found
