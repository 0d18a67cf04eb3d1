"""A group's memory as it was at an earlier moment, from the journal: what a context is made of.

Each class answers as its counterpart of today does. What people did to their files is noticed a little later than it
is done, so of a file there are several texts that a reader may have found; a digest that was kept says which.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.documents.merge import merge
from honeybadger_host.domain import MEMORY, REMOVED, Turn
from honeybadger_host.errors import FileProblem, WorldFailed
from honeybadger_host.memory.edited_notes import edited_notes, with_typed
from honeybadger_host.memory.entry import memory_folder
from honeybadger_host.memory.file_events import read_past
from honeybadger_host.memory.file_history import version_at
from honeybadger_host.memory.group_files import GroupText, text_of
from honeybadger_host.memory.notes import NOT_EDITED, EditedBy
from honeybadger_host.memory.peoples_files import group_of
from honeybadger_host.memory.session_document import SessionDocument, empty_document, parse_document
from honeybadger_host.memory.session_files import deleted_file, parse_deletion, session_file
from honeybadger_host.memory.turn_log import Window, is_withdrawn, parse_mark, parse_turn, turns_file
from honeybadger_host.memory.watermarks import Watermark, parse_watermark, watermark_file
from honeybadger_host.memory.working_memory import Inventory, inventory, parse_own, session_folder
from honeybadger_host.storage.atomic_files import read_whole
from honeybadger_host.storage.edits import Edit, EditReader
from honeybadger_host.storage.journal_connection import read_rows
from honeybadger_host.storage.journal_reader import read_last
from honeybadger_host.storage.journal_schema import LAST_SEQ
from honeybadger_host.storage.line_hunks import Hunk, apply_hunks

Data = TypeVar("Data", bytes, bytes | None)
Value = TypeVar("Value")
_MAX_LATER: Final = 8  # edits that may have been made before a moment and noticed after it
_MAX_EARLIER: Final = 3
_MAX_RECORDED: Final = 2  # edits that may have been recorded while a context was made
_BELOW: Final = "SELECT file, kind, data FROM changes WHERE substr(file, 1, ?) = ? AND seq <= ? ORDER BY seq"
_MARKS: Final = (
    "SELECT data FROM changes WHERE file = ? AND kind IN ('turns_withdrawn', 'turns_restored') AND seq <= ? "
    "ORDER BY seq DESC"
)
_TURNS: Final = "SELECT data FROM changes WHERE file = ? AND kind = 'turn' AND seq <= ? ORDER BY seq DESC LIMIT ?"
_OF_ENTRY: Final = (
    "SELECT file, seq FROM changes WHERE substr(file, -length(?1)) = ?1 "
    "UNION SELECT file, seq FROM edits WHERE substr(file, -length(?1)) = ?1 ORDER BY seq DESC"
)


class PastJournal:
    """Reads what a journal, which a host may have open, had up to a change. Raises JournalError.

    Args:
        seq: the last change that counts.
    """

    def __init__(self, home: Path, path: Path, seq: int) -> None:
        self._home = home
        self.path = path
        self.seq = seq

    def last(self, file: str) -> bytes | None:
        """Return what a whole file was given last; None: nothing, or it was removed."""
        return read_last(self.path, file, self.seq)

    def last_below(self, folder: str) -> dict[str, bytes]:
        """Return file -> what it was given last, of the whole files in a folder that were there."""
        found: dict[str, bytes] = {}
        for file, kind, data in self._rows(_BELOW, (len(folder) + 1, f"{folder}/", self.seq)):
            found.pop(file, None)
            if not kind.endswith(REMOVED):
                found[file] = data
        return found

    def turns(self, group: str, session: str, most: int) -> list[Turn]:
        """Return the newest turns of a session, oldest first, without those that were withdrawn."""
        file = turns_file(group, session)
        marks = [mark for (data,) in self._rows(_MARKS, (file, self.seq)) if (mark := parse_mark(data)) is not None]
        hidden = sum(last - first + 1 for mark in marks if mark.is_withdrawal for first, last in mark.ranges)
        rows = self._rows(_TURNS, (file, self.seq, most + hidden))
        turns = [turn for (data,) in rows[::-1] if (turn := _read(parse_turn, data)) is not None]
        return [turn for turn in turns if not is_withdrawn(turn.number, marks)][-most:]

    def last_number(self, group: str, session: str) -> int:
        """Return the number of the newest turn of a session, withdrawn or not; 0: there is none."""
        rows = self._rows(_TURNS, (turns_file(group, session), self.seq, 1))
        turns = [turn for (data,) in rows if (turn := _read(parse_turn, data)) is not None]
        return turns[0].number if turns else 0

    def turn_lines(self, group: str, session: str) -> bytes:
        """Return all turns of a session as lines of its log, the newest first."""
        return b"".join(data for (data,) in self._rows(_TURNS, (turns_file(group, session), self.seq, -1)))

    def files_of_entry(self, group: str, entry: str) -> list[str]:
        """Return the files that an entry ever had, the newest first."""
        rows = self._rows(_OF_ENTRY, (f"/{entry}.json",))
        folders = tuple(f"{memory_folder(one)}/" for one in (group, GLOBAL_GROUP))
        return [file for file in dict.fromkeys(file for file, _ in rows) if file.startswith(folders)]

    def found_in(self, file: str) -> Iterator[bytes | None]:
        """Yield what a reader may have found in a file: what it has now, then see `texts_of`, and what it had before.

        The index is told of an edit a little later than of a change.
        """
        with contextlib.suppress(WorldFailed):
            yield read_whole(self._home / file)
        if group_of(file) is None:
            return
        yield from self.texts_of(file)
        past = read_past(self.path, file)
        for event in [event for event in past.events if event.seq <= self.seq][: -_MAX_EARLIER - 1 : -1]:
            version = version_at(past, event.seq - 1)
            if version.is_known:
                yield version.text

    def texts_of(self, file: str) -> Iterator[bytes | None]:
        """Yield what a person's file may have had, the likeliest first; None: there was none."""
        past = read_past(self.path, file)
        version = version_at(past, self.seq)
        lines = version.lines
        if version.is_known:
            yield version.text if version.is_there else None
        later = [event for event in past.events if event.seq > self.seq and isinstance(event, Edit)]
        text = version.text if version.is_known and version.is_there else b""
        for edit in later[:_MAX_LATER]:
            before, after = version_at(past, edit.seq - 1), version_at(past, edit.seq)
            if before.is_known and after.is_known:  # a reader got the save before the notes that came until it was one
                text = merge(before.text, text, after.text)
                yield text
            if edit.after is None:
                yield None
            hunks = [one for one in edit.hunks or () if _stands(one, lines)]  # others are about what came since
            if hunks and hunks[-1].at == len(lines):
                yield b"".join(apply_hunks(lines, hunks[:-1]))
            lines = apply_hunks(lines, hunks)
            yield b"".join(lines)

    def typed_lines(self, file: str) -> list[Mapping[str, EditedBy]]:
        """Return what may have been known of who typed lines of a file, the likeliest first."""
        reader = EditReader(self.path)
        found = [with_typed(NOT_EDITED, reader.edits_of([file], 0, self.seq))]
        for edit in reader.edits_of([file], self.seq, LAST_SEQ)[:_MAX_RECORDED]:
            found.append(with_typed(found[-1], [edit]))
        return [*found, NOT_EDITED]

    def _rows(self, query: str, values: tuple[object, ...]) -> list[Any]:
        return list(read_rows(self.path, query, values))


def _read(parse: Callable[[Data], Value], data: Data) -> Value | None:
    """Return what data says; None: it was forgotten, and is not what it was."""
    try:
        return parse(data)
    except ValueError:
        return None


def _stands(hunk: Hunk, lines: Sequence[bytes]) -> bool:
    return hunk.at <= len(lines) and lines[hunk.at : hunk.at + len(hunk.removed)] == list(hunk.removed)


class PastFiles:
    """See `GroupFiles`.

    Args:
        shown: file -> digest of the text that was shown, see `Served`; of other files it is what the journal has.
    """

    def __init__(self, journal: PastJournal, shown: Mapping[str, str | None]) -> None:
        self._journal = journal
        self._shown = shown
        self.lost: list[str] = []
        """Files whose text of then is not known."""

    def read(self, file: str) -> GroupText | None:
        """Return a file as it was. Raises FileProblem."""
        digest = self._shown.get(file, "?")
        if digest is None:
            raise FileProblem(file, "could not be served then")
        if digest == "":
            return None
        found: list[GroupText | str | None] = []
        is_recorded = group_of(file) is not None
        texts = self._journal.texts_of if digest == "?" and is_recorded else self._journal.found_in
        typed = self._journal.typed_lines(file) if file.endswith(f"/{MEMORY}") else [NOT_EDITED]
        for data in texts(file):
            found.append(None if data is None else text_of(file, data))
            match found[-1]:
                case GroupText() as text:
                    for lines in typed:
                        told = replace(text, edited=edited_notes(text.text, lines))
                        if digest in ("?", told.digest):
                            return told
                case None if digest == "?":
                    return None
        self.lost.append(file)
        match next(iter(found), None):
            case str(problem):
                raise FileProblem(file, problem)
            case likeliest:
                return likeliest


class PastTurns:
    """See `TurnLogs`."""

    def __init__(self, journal: PastJournal, window_turns: int) -> None:
        self._journal = journal
        self._window_turns = window_turns

    def load(self, group: str, session: str) -> Window:
        turns = self.since(group, session, 0, self._window_turns)
        return Window(tuple(turns), self._journal.last_number(group, session), 0, None)

    def since(self, group: str, session: str, after: int, most: int) -> Sequence[Turn]:
        """Return the turns behind a number, the newest `most` at most, oldest first."""
        return [turn for turn in self._journal.turns(group, session, most) if turn.number > after]


class PastDocuments:
    """See `Sessions`."""

    def __init__(self, journal: PastJournal) -> None:
        self._journal = journal

    def in_context(self, group: str, session: str, turns: Sequence[Turn]) -> tuple[int, Sequence[Turn]]:
        """Return the number of the last turn that contexts leave out, and those of some turns that they show."""
        deletion = _read(parse_deletion, self._journal.last(deleted_file(group, session)))
        return (deletion or parse_deletion(None)).left(turns)

    def standing(self, group: str, session: str) -> SessionDocument:
        data = self._journal.last(session_file(group, session))
        return _read(lambda data: parse_document(data, session), data or b"") or empty_document(session)


class PastMarks:
    """See `Watermarks`."""

    def __init__(self, journal: PastJournal) -> None:
        self._journal = journal

    def read(self, group: str, session: str) -> Watermark | None:
        return _read(parse_watermark, self._journal.last(watermark_file(group, session)))

    def sessions(self, group: str) -> frozenset[str]:
        folder = watermark_file(group, "").rpartition("/")[0]
        return frozenset(Path(file).name.removesuffix(".json") for file in self._journal.last_below(folder))


def past_inventory(journal: PastJournal | None, group: str, session: str, now: datetime) -> Inventory:
    """Return what a context told of a session's working memory; nothing without a journal."""
    folder = session_folder(group, session)
    if journal is None:
        return Inventory(f"{folder}/")
    labels = []
    for file, data in journal.last_below(folder).items():
        with contextlib.suppress(ValueError):
            labels.append(parse_own(data, group, session, file).label)
    return inventory(f"{folder}/", labels, now)
