"""The journal's events of a file: the host's changes and people's edits, in their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from honeybadger_host.storage.atomic_files import WHOLE_KINDS, fingerprint
from honeybadger_host.storage.changes import REMOVED
from honeybadger_host.storage.edits import Edit, EditReader, Seen, fingerprint_of
from honeybadger_host.storage.journal_schema import LAST_SEQ, Row

Event: TypeAlias = Row | Edit
# Kinds of rows behind which there is no such file.
GONE: Final = frozenset(kind for kind in WHOLE_KINDS if kind.endswith(REMOVED))
_FILES_AT_ONCE: Final = 200


class Past(NamedTuple):
    """The events of a file.

    Args:
        events: oldest first.
        seen: how it was looked at last; None: it was not, or it is gone since.
        texts: seq -> what it held right before that change wrote it as a whole.
    """

    file: str
    events: Sequence[Event]
    seen: Seen | None
    texts: Mapping[int, bytes] = MappingProxyType({})


def read_past(journal: Path, file: str) -> Past:
    """Return what a journal that a host may have open has of a file. Raises JournalError."""
    return next(read_pasts(journal, [file]))


def read_pasts(journal: Path, files: Sequence[str]) -> Iterator[Past]:
    """Yield what a journal that a host may have open has of files, in their order. Raises JournalError."""
    reader = EditReader(journal)
    for start in range(0, len(files), _FILES_AT_ONCE):
        some = files[start : start + _FILES_AT_ONCE]
        seen, events = reader.seen(some), defaultdict[str, list[Event]](list)
        every: list[Event] = [*reader.changes(0, LAST_SEQ, some), *reader.edits_of(some, 0, LAST_SEQ)]
        for event in every:
            events[event.file].append(event)
        texts = reader.texts(some)
        for file in some:
            before = {seq: text for (name, seq), text in texts.items() if name == file}
            yield Past(file, _as_they_came(sorted(events[file], key=lambda event: event.seq)), seen.get(file), before)


def _as_they_came(events: Sequence[Event]) -> list[Event]:
    """Put edits that the host replaced before it looked at them, and so numbered later, before what replaced them."""
    ordered, early, held = list[Event](), set[int](), None
    for number, event in enumerate(events):
        if number in early:
            continue
        if isinstance(event, Row) and event.kind in WHOLE_KINDS and held not in (None, event.offset):
            for at in range(number + 1, len(events)):
                later = events[at]
                if isinstance(later, Edit) and later.hunks is not None and fingerprint_of(later.before) == held:
                    if fingerprint_of(later.after) == event.offset:
                        ordered.append(later)
                        early.add(at)
                    break
        ordered.append(event)
        if isinstance(event, Edit):
            held = fingerprint_of(event.after)
        else:
            held = None if event.kind not in WHOLE_KINDS else fingerprint(None if event.kind in GONE else event.data)
    return ordered
