"""The files of session documents (CM5): the generation that each holds, set right when somebody damaged it, and what a
deletion leaves (docs/decisions/014-session-documents.md)."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson
import structlog

from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.edited import Count, Edited, Time, read_json
from honeybadger_host.memory.session_document import (
    READABLE,
    SessionDocument,
    dump_document,
    empty_document,
    parse_document,
    salvaged,
)
from honeybadger_host.memory.turn_log_store import MAX_SESSIONS
from honeybadger_host.storage import files
from honeybadger_host.storage.atomic_files import WholeFiles, read_whole
from honeybadger_host.storage.file_cache import NEVER_SEEN, signature_of, trusted
from honeybadger_host.storage.files import Signature
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.text.turn import Turn

log = structlog.get_logger()

# A file that cannot be read and is so young may be an editor's, half written: it is looked at again, not moved.
_BEING_SAVED_SECONDS: Final = 2.0


def session_file(group: str, session: str) -> str:
    return f"data/context/{group}/{session}.json"


def deleted_file(group: str, session: str) -> str:
    """Return what a deleted document leaves, below the home folder: up to which turn it is forgotten."""
    return f"{session_file(group, session)}.deleted"


@dataclass(frozen=True, slots=True)
class Generation:
    """A document as its file has it.

    Args:
        data: the file; None: there is none, the document is empty.
        signature: of the file; None when there is none.
        complaint: what is wrong with a file that somebody may still be saving; then the document is the one before.
    """

    data: bytes | None
    document: SessionDocument
    signature: Signature | None
    complaint: str | None = None


class Deletion(Edited):
    """The marker that a deletion leaves.

    Args:
        turns: number of the last turn that the document does not get back; 0: nothing was deleted.
        context_begins_after: likewise, for contexts; `context_begins_at` is when that was said.
    """

    turns: Count = 0
    context_begins_after: Count = 0
    context_begins_at: Time | None = None

    def left(self, turns: Sequence[Turn]) -> tuple[int, Sequence[Turn]]:
        """Return the number of the last turn that contexts leave out, and those that they show."""
        return self.context_begins_after, [turn for turn in turns if self.shows(turn)]

    def shows(self, turn: Turn) -> bool:
        """Return whether contexts show a turn. A log that was removed by hand is numbered from 1 again."""
        since = self.context_begins_at
        return since is None or turn.number > self.context_begins_after or turn.at > since


def parse_deletion(data: bytes | None) -> Deletion:
    """Return what a file of a deletion says. Raises ValueError."""
    return Deletion() if data is None else Deletion.model_validate(read_json(data))


@dataclass(slots=True)
class SessionFiles:
    """The newest generation of each document, kept in memory as long as its file is as it was. Any thread.

    Args:
        _last_written: what the journal gave a file last, None when nothing or when it was removed; for repairs.
        is_behind: whether a file could not be written yet with what the journal has.
        _wall_seconds: since the epoch, the clock of the file system.
    """

    _home: Path
    _files: WholeFiles
    _last_written: Callable[[str], bytes | None]
    is_behind: Callable[[str], bool]
    _wall_seconds: Callable[[], float]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _generations: OrderedDict[tuple[str, str], Generation] = field(default_factory=OrderedDict)

    def read(self, group: str, session: str) -> Generation:
        """Return what the file holds, set right when it cannot be read. Raises WorldFailed."""
        key = (group, session)
        file = session_file(group, session)
        path = self._home / file
        with self._lock:
            if self.is_behind(file):  # what was acknowledged counts, not what a full disk left there
                return self._journaled(group, session)
            held = self._generations.get(key)
            seen_ns = int(self._wall_seconds() * 1e9)
            signature = signature_of(path)
            if held is not None and held.signature == signature:
                self._generations.move_to_end(key)
                return held
            data = read_whole(path)
            if data is None:
                generation = Generation(None, self.empty(group, session), None)
            elif held is not None and held.data == data:
                generation = Generation(data, held.document, trusted(signature, seen_ns))
            else:
                try:
                    document = parse_document(data, session)
                except ValueError as error:
                    return self._restored(key, path, data, str(error), held)
                if document.turns is None and not document.recent_history:
                    document = document.up_to(self.empty(group, session).turns)
                generation = Generation(data, document, trusted(signature, seen_ns))
            self._keep(key, generation)
            return generation

    def _journaled(self, group: str, session: str) -> Generation:
        """Return what the journal gave a file last."""
        data = self._last_written(session_file(group, session))
        if data is not None:
            return Generation(data, parse_document(data, session), NEVER_SEEN)
        tombstone = self._last_written(deleted_file(group, session))
        return Generation(None, empty_document(session, parse_deletion(tombstone).turns), NEVER_SEEN)

    def keep(self, key: tuple[str, str], generation: Generation) -> None:
        """Remember what a file holds now."""
        with self._lock:
            self._keep(key, generation)

    def _keep(self, key: tuple[str, str], generation: Generation) -> None:
        self._generations[key] = generation
        self._generations.move_to_end(key)
        while len(self._generations) > MAX_SESSIONS:
            self._generations.popitem(last=False)

    def _restored(
        self, key: tuple[str, str], path: Path, broken: bytes, why: str, held: Generation | None
    ) -> Generation:
        """Return what is valid in a file that cannot be read, else the last good generation; the file is set aside.

        A file that was saved a moment ago stays where it is: an editor may not have finished.
        """
        good: bytes | None = None
        source = "nothing: no good generation is known"
        if held is not None and held.data is not None and held.signature != NEVER_SEEN:
            good, source = held.data, "what the host had in memory"
        elif (last := self._last_written(session_file(*key))) is not None:
            good, source = last, "the journal"
        document = self.empty(*key) if good is None else parse_document(good, key[1])
        with contextlib.suppress(ValueError):  # it is not even a JSON object
            document = salvaged(broken, key[1], document)
            good, source = dump_document(document), f"its valid members, and for the others {source}"
        try:
            if abs(self._wall_seconds() - path.stat().st_mtime) < _BEING_SAVED_SECONDS:
                return Generation(broken, document, NEVER_SEEN, complaint=f"cannot be read ({why})")
            aside = _set_aside(path, broken, why, source, self._wall_seconds())
            if good is None:
                self._files.discard(session_file(*key), lambda data: data == broken)
            else:
                self._files.refresh(session_file(*key), good, broken)
        except OSError as error:
            raise WorldFailed(f"{path} cannot be read ({why}) and cannot be set aside: {error.strerror}") from error
        log.warning("session.set_aside", file=session_file(*key), to=aside, why=why, restored_from=source)
        generation = Generation(good, document, NEVER_SEEN)
        self._keep(key, generation)
        return generation

    def empty(self, group: str, session: str) -> SessionDocument:
        """Return the document of a session that has no file; after a deletion it begins behind what was forgotten."""
        return empty_document(session, self.deletion(group, session).turns)

    def deletion(self, group: str, session: str) -> Deletion:
        """Return what is forgotten of a session, from the journal when the file that says it is damaged."""
        file = deleted_file(group, session)
        with contextlib.suppress(ValueError):
            return parse_deletion(read_whole(self._home / file))
        with contextlib.suppress(ValueError):
            if (last := self._last_written(file)) is not None:
                return parse_deletion(last)
        log.warning("session.mark_lost", file=file)
        return Deletion()


def _set_aside(path: Path, broken: bytes, why: str, source: str, now: float) -> str:
    """Copy a broken file beside its place, with a reason; return the new name. Raises OSError."""
    at = datetime.fromtimestamp(now, UTC)
    name = f"{path.name}.corrupt-{at:%Y%m%dT%H%M%SZ}"
    aside = path.with_name(name)
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{name}-{number}")
    reason = {
        "file": path.name,
        "why": why,
        "set_aside_at": time_stamp(at),
        "restored_from": source,
        "now_what": f"mend {aside.name} and move it back to {path.name}, or delete it",
    }
    files.replace(aside.with_name(f"{aside.name}.reason"), orjson.dumps(reason, option=READABLE))
    files.replace(aside, broken)
    return aside.name
