"""A snapshot of a group's entries and notes for a pass: their texts, versions and protection."""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

from honeybadger_agent.mailbox import HUMAN
from honeybadger_agent.wire import STORE
from honeybadger_host.curation.candidates import Item
from honeybadger_host.curation.gates import Known
from honeybadger_host.curation.notes import A_PERSON, PINNED, NotePlace, notes_of, protected_notes
from honeybadger_host.curation.passes import MAX_TURNS, PassDependencies
from honeybadger_host.curation.proposal import Operation, Proposal
from honeybadger_host.curation.proposal_files import stored
from honeybadger_host.curation.said import Turns
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.memory.entries.entry import Entry, entry_file, entry_id, name_in, show_time
from honeybadger_host.memory.turn_log import turns_file
from honeybadger_host.search.sources import sources
from honeybadger_host.text.labels import folded

MAX_ENTRIES: Final = 1000  # entries of a pass, last changed first (RB14)
_REINFORCED: Final = 5  # an entry that was saved again this often is only retired by a person (docs/curation.md)
_SESSIONS: Final = 20  # last changed sessions that are read: a question has room for 4,000 tokens of people's turns
_SESSION: Final = re.compile(r"[\w.:-]+")
_NAMES: Final = ("dream-", "preferences-")
_RETIRED_WITHIN: Final = timedelta(days=30)  # the month of the gate `too_much`
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Snapshot:
    """The memory that a pass reads, without entries whose id is not unique.

    Args:
        entries: id -> entry, oldest first.
        notes: id -> note, in the order of MEMORY.md.
        digests: id -> SHA-256 of an entry's file as it was read.
        earlier: the earlier dreams of the group.
        changed_lately: number of ids that passes retired in the last 30 days.
        left_out: number of entries of the group that are not in it.
    """

    group: str
    entries: Mapping[str, Entry]
    notes: Mapping[str, NotePlace]
    digests: Mapping[str, str]
    earlier: Sequence[Proposal]
    changed_lately: int
    left_out: int

    @property
    def size(self) -> int:
        return len(self.entries) + len(self.notes) + self.left_out

    @cached_property
    def items(self) -> Sequence[Item]:
        """The entries, then the notes."""
        entries = (Item(name, entry.content) for name, entry in self.entries.items())
        return [*entries, *(Item(name, note.text) for name, note in self.notes.items())]

    @cached_property
    def texts(self) -> Mapping[str, str]:
        return {item.id: item.text for item in self.items}

    @cached_property
    def protected(self) -> Mapping[str, str]:
        """Id -> why only a person may change it."""
        whys = {name: _why_protected(entry) for name, entry in self.entries.items()}
        return {name: why for name, why in whys.items() if why} | protected_notes(self.notes)

    @cached_property
    def categories(self) -> Sequence[str]:
        """The categories of the entries, in order."""
        return sorted({entry.category for entry in self.entries.values()})

    @cached_property
    def tags(self) -> Sequence[str]:
        """The tags of the entries, in order."""
        return sorted({tag for entry in self.entries.values() for tag in entry.tags})

    @staticmethod
    def age(entry: Entry) -> tuple[datetime, str]:
        """Return the sort key of entries, oldest first."""
        return entry.created or _BEGINNING, entry.id

    def known(self, turns: Turns, uses: PassDependencies) -> Known:
        """Return the snapshot as the gates need it. Raises JournalError."""
        return Known(
            texts=self.texts,
            turns=turns,
            is_person=uses.is_person,
            protected=self.protected,
            group_size=self.size,
            changed_lately=self.changed_lately,
            is_forgotten=uses.forgotten_in(self.group),
        )


def take(uses: PassDependencies, group: str, now: datetime) -> Snapshot:
    """Return a snapshot of a group. Raises WorldFailed, FileProblem."""
    files = [
        (signature.mtime_ns, source.file)
        for source, signature in sources(uses.home, group, set())
        if source.kind == "entry" and f"/memory/{STORE}" not in source.file.lower()
    ]
    ids = Counter(name_in(file) for _, file in files)
    entries: list[Entry] = []
    digests: dict[str, str] = {}
    for _, file in heapq.nlargest(MAX_ENTRIES, files):
        data = read_whole(uses.home / file) if ids[name_in(file)] == 1 else None
        if data is not None:
            with contextlib.suppress(ValueError):  # it was logged
                entries.append(uses.entry_files.parse(file, data))
                digests[entries[-1].id] = hashlib.sha256(data).hexdigest()
    entries.sort(key=Snapshot.age)
    memory = uses.files.memory(group)
    notes = notes_of(group, b"" if memory is None or memory.unread else memory.text.encode())
    return Snapshot(
        group,
        {entry.id: entry for entry in entries},
        notes,
        digests,
        *decided_before(uses.home, group, now),
        len(files) - len(entries),
    )


def _why_protected(entry: Entry) -> str | None:
    if entry.by is None or entry.by == HUMAN:
        return A_PERSON
    if entry.pinned:
        return PINNED
    if entry.standing.valid_until is not None:
        return f"it is valid until {show_time(entry.standing.valid_until)}"
    if entry.name is not None:
        return f"it is the document {entry.name}"
    return f"it was said again {entry.reinforced} times" if entry.reinforced >= _REINFORCED else None


def standing(home: Path, group: str, operations: Iterable[Operation]) -> dict[str, str]:
    """Return id -> text of proposed entries that exist already, even outside of a snapshot."""
    found: dict[str, str] = {}
    for each in operations:
        if each.op == "add" and each.category is not None and each.result is not None:
            name = entry_id(each.category, folded(each.result))
            data = read_whole(home / entry_file(group, each.category, name))
            if data is not None and folded(each.result) in folded(data.decode(errors="replace")):
                found[name] = each.result
    return found


# ---------------------------------------------------------------------------------------------------------- proposals


def decided_before(home: Path, group: str, now: datetime) -> tuple[list[Proposal], int]:
    """Return the dreams of a group, and the number of ids that its passes retired in the last 30 days.

    Merges do not count, because their text remains. A file that is not a proposal is left out.
    """
    since = (now - _RETIRED_WITHIN).timestamp()
    dreams: list[Proposal] = []
    touched: set[str] = set()
    for _, proposal, _, changed_at in stored(home, group, lambda name, at: at >= since or name.startswith(_NAMES)):
        if proposal is None:  # `review` names it
            continue
        if proposal.kind in ("dream", "preferences"):
            dreams.append(proposal)
        if changed_at >= since:
            for each in proposal.operations:
                if each.state == "applied" and each.op == "retire":
                    touched |= {*each.sources}
    return dreams, len(touched)


# --------------------------------------------------------------------------------------------------------------- turns


def turns_of(uses: PassDependencies, group: str, wanted: Iterable[tuple[str, int]]) -> Turns:
    """Return (session, number) -> turn, at least for the wanted turns that exist. Raises WorldFailed."""
    first: dict[str, int] = {}
    for session, number in wanted:
        first[session] = min(number, first.get(session, number))
    return {
        (session, turn.number): turn
        for session, number in first.items()
        if _SESSION.fullmatch(session) and (uses.home / turns_file(group, session)).is_file()
        for turn in uses.turn_logs.since(group, session, number - 1, MAX_TURNS)
    }


def newest_turns(uses: PassDependencies, group: str) -> Turns:
    """Return the newest turns of people in the sessions that changed last. Raises WorldFailed."""
    return {
        (session, turn.number): turn
        for _, session in newest_sessions(uses.home, group, _SESSIONS)
        for turn in uses.turn_logs.since(group, session, 0, MAX_TURNS)
        if uses.is_person(turn)
    }


def newest_sessions(home: Path, group: str, most: int) -> list[tuple[str, str]]:
    """Return (group, session) of the logs that changed last, newest first.

    Args:
        group: `*` for all groups.
    """
    found: list[tuple[float, str, str]] = []
    for path in (home / "data" / "sessions").glob(f"{group}/*.jsonl"):
        with contextlib.suppress(OSError):  # it was removed meanwhile
            found.append((path.stat().st_mtime, path.parent.name, path.stem))
    return [(group, session) for _, group, session in sorted(found, reverse=True)[:most]]
