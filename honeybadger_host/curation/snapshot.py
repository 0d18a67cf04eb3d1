"""A group's entries and notes as they are now, for a pass over them: what they say, and what may be done with them."""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from honeybadger_agent.mailbox import CONSOLIDATOR, HUMAN
from honeybadger_host.curation.applying import merges_of
from honeybadger_host.curation.candidates import Item
from honeybadger_host.curation.gates import MAX_MERGE_DEPTH, Known
from honeybadger_host.curation.notes import A_PERSON, PINNED, NotePlace, digests_of, notes_of, protected_notes
from honeybadger_host.curation.passes import PassDependencies
from honeybadger_host.curation.proposal import TAKEN, Operation, Proposal
from honeybadger_host.curation.proposal_files import stored
from honeybadger_host.domain import Turn
from honeybadger_host.memory.entry import Entry, entry_file, entry_id, name_in, show_time
from honeybadger_host.memory.labels import folded
from honeybadger_host.memory.turn_log import turns_file
from honeybadger_host.search.sources import sources
from honeybadger_host.storage.atomic_files import read_whole

MOST_ENTRIES: Final = 1000
"""Entries that a pass looks at: those that changed last (RB14)."""
_REINFORCED: Final = 5
_LOOKED_BACK: Final = 5000
"""Turns of a session in which a quote may stand."""
_SESSIONS: Final = 20
_SESSION: Final = re.compile(r"[\w.-]+")
_NAMES: Final = ("dream-", "preferences-")
LATELY: Final = timedelta(days=30)
FOLDED: Final = "the same text, byte for byte"
"""Why rules merge; only they may say it. Such a merge changes nothing that could be recalled."""


Turns: TypeAlias = dict[tuple[str, int], Turn]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a pass looks at. An id that several entries have is not in it.

    Args:
        items: entries, oldest first, then notes in the order of MEMORY.md.
        entries: id -> entry.
        digests: id -> SHA-256 of the version that was read: of an entry's file, of a note's text.
        size: entries and notes of the group; `left_out` of them are not in it.
    """

    group: str
    items: Sequence[Item]
    entries: Mapping[str, Entry]
    notes: Mapping[str, NotePlace]
    digests: Mapping[str, str]
    protected: Mapping[str, str]
    merge_depth: Mapping[str, int]
    size: int
    left_out: int

    @property
    def texts(self) -> dict[str, str]:
        return {item.id: item.text for item in self.items}

    def known(self, turns: Turns, is_person: Callable[[Turn], bool], changed_lately: int = 0) -> Known:
        """Return what the gates look at."""
        return Known(
            texts=self.texts,
            digests=self.digests,
            turns=turns,
            is_person=is_person,
            protected=self.protected,
            group_size=self.size,
            changed_lately=changed_lately,
            merge_depth=self.merge_depth,
        )


def take(uses: PassDependencies, group: str, decided: Sequence[Proposal]) -> Snapshot:
    """Read what a group remembers. Raises WorldFailed, FileProblem.

    Args:
        decided: earlier proposals: they know which notes a merge has written.
    """
    found: list[tuple[int, str]] = []
    for source, signature in sources(uses.home, group, set()):
        if source.kind == "entry":
            found.append((signature.mtime_ns, source.file))
    entries: dict[str, Entry] = {}
    digests: dict[str, str] = {}
    for _, file in heapq.nlargest(MOST_ENTRIES, found):
        data = read_whole(uses.home / file)
        if data is None:
            continue
        try:
            entry = uses.entry_files.parse(file, data)
        except ValueError:  # it was logged
            continue
        entries[entry.id] = entry
        digests[entry.id] = hashlib.sha256(data).hexdigest()
    ids = Counter(name_in(file) for _, file in found)
    entries = {entry_id: entry for entry_id, entry in entries.items() if ids[entry_id] == 1}
    memory = uses.files.memory(group)
    data = b"" if memory is None or memory.unread else memory.text.encode()
    notes = notes_of(group, data)
    digests |= digests_of(notes)
    return Snapshot(
        group,
        [*_entry_items(entries.values()), *(Item(note, place.text) for note, place in notes.items())],
        entries,
        notes,
        {name: digest for name, digest in digests.items() if name in entries or name in notes},
        dict(_protected_entries(entries.values())) | protected_notes(notes),
        {each.id: merges_of(each) for each in entries.values()} | dict(_merged_notes(notes, decided)),
        len(found) + len(notes),
        len(found) - len(entries),
    )


def _entry_items(entries: Iterable[Entry]) -> list[Item]:
    begun = datetime.min.replace(tzinfo=UTC)
    ordered = sorted(entries, key=lambda entry: (entry.created or begun, entry.id))
    return [Item(entry.id, entry.content, entry.updated or entry.created) for entry in ordered]


def _protected_entries(entries: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        if entry.by is None or entry.by == HUMAN:
            yield entry.id, A_PERSON
        elif entry.pinned:
            yield entry.id, PINNED
        elif entry.standing.valid_until is not None:
            yield entry.id, f"it is valid until {show_time(entry.standing.valid_until)}"
        elif entry.name is not None:
            yield entry.id, f"it is the document {entry.name}"
        elif entry.reinforced >= _REINFORCED:
            yield entry.id, f"it was said again {entry.reinforced} times"


def _merged_notes(notes: Mapping[str, NotePlace], decided: Iterable[Proposal]) -> Iterator[tuple[str, int]]:
    """Yield the notes that a merge has written: a note does not say how often, so it is not merged again."""
    written = {
        folded(operation.result or "")
        for proposal in decided
        for operation in proposal.operations
        if operation.op == "merge" and operation.state == "applied"
    }
    for note, place in notes.items():
        if place.author == CONSOLIDATOR and folded(place.text) in written:
            yield note, MAX_MERGE_DEPTH


def standing(home: Path, group: str, operations: Iterable[Operation]) -> dict[str, str]:
    """Return the entries that already say what is to be added, even if a pass does not look at them."""
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
    """Return the dreams of a group, and how many ids all passes over it touched in the last 30 days.

    Folds of texts that are the same do not count. A file that is not a proposal is left out.
    """
    since = (now - LATELY).timestamp()
    dreams: list[Proposal] = []
    touched: set[str] = set()
    for _, proposal, _, changed_at in stored(home, group, lambda name, at: at >= since or name.startswith(_NAMES)):
        if proposal is None:  # `review` names it
            continue
        if proposal.kind in ("dream", "preferences"):
            dreams.append(proposal)
        if changed_at >= since:
            touched |= {source for each in proposal.operations if _counts(each) for source in each.sources}
    return dreams, len(touched)


def _counts(operation: Operation) -> bool:
    return operation.state == "applied" and operation.op in TAKEN and operation.why != FOLDED


# --------------------------------------------------------------------------------------------------------------- turns


def turns_of(uses: PassDependencies, group: str, wanted: Iterable[tuple[str, int]]) -> Turns:
    """Return turns by session and number; one that is not there is left out. Raises WorldFailed."""
    first: dict[str, int] = {}
    for session, number in wanted:
        first[session] = min(number, first.get(session, number))
    return {
        (session, turn.number): turn
        for session, number in first.items()
        if _SESSION.fullmatch(session) and (uses.home / turns_file(group, session)).is_file()
        for turn in uses.turn_logs.since(group, session, number - 1, _LOOKED_BACK)
    }


def newest_turns(uses: PassDependencies, group: str, most: int) -> Turns:
    """Return the newest turns of each of the sessions that changed last. Raises WorldFailed."""
    logs = (uses.home / "data" / "sessions" / group).glob("*.jsonl")
    newest = sorted(((path.stat().st_mtime, path.stem) for path in logs if path.is_file()), reverse=True)
    return {
        (session, turn.number): turn
        for _, session in newest[:_SESSIONS]
        for turn in uses.turn_logs.since(group, session, 0, most)
    }
