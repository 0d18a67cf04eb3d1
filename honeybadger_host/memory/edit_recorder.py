"""Finds what people changed in their files, beside the host's own changes (docs/decisions/027-edits.md).

A file is compared with how it was looked at last and what the host itself did to it since. What remains is a person's.
Nothing here is on the path of a request: a look reads on a thread of its own, and what it found is kept in one short
transaction in the writer's place.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from honeybadger_host.documents.projections import Projections
from honeybadger_host.domain import ROOT_GLOBAL_FILE, Change, FileWritten
from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.edits_found import HostChanges, compare_text, compare_whole, hunks_of, is_as_left, is_kept
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.memory.group_places import groups_in
from honeybadger_host.memory.peoples_files import TEXTS, Later, group_of, read_file
from honeybadger_host.storage.atomic_files import fingerprint
from honeybadger_host.storage.edits import Edit, EditReader, Looked, Seen, digest_of
from honeybadger_host.storage.file_cache import NEVER_SEEN, signature_of
from honeybadger_host.storage.files import names_in
from honeybadger_host.storage.journal_schema import LAST_SEQ

QUIET_SECONDS = 0.5  # files that are saved one after the other within this time are one event, as of a `git checkout`
_MAX_KEPT_BYTES: Final = 16 << 20  # of the lines of one event
_MAX_QUIET_SECONDS: Final = 5.0  # then what was found is looked at, though files are still being saved
_MAX_SAVE_SECONDS: Final = 30.0
_MAX_REPLACED_BYTES: Final = 4 << 20  # of texts that the host replaced: some seconds of many changes
_MAX_LOADED_BYTES: Final = 16 << 20  # of what the host did since the last look, in one look
_FILES_AT_ONCE: Final = 256
_LOOK_SECONDS: Final = 0.05
_PAUSE: Final = 50  # so many times as long as a look at a file kept the processor busy, the next one waits
_OWN_PAUSE_SECONDS = 5.0  # A file that only the host changed is not looked at again before
_KEEP_AFTER_SECONDS: Final = 30.0  # how files are that only the host changed is kept this often
_KEEP_AFTER_BYTES: Final = 4 << 20
_AGENTS: Final = "config/agents"


class EditRecorder:
    """Records people's edits. `touch` on any thread; the others on one at a time.

    Told of what is decided (see `unit_of_work`), it has a text that somebody saved just before the host replaced it.

    What a home holds before its first look is over was there before anything was recorded.

    Args:
        journal: path of the journal.
    """

    def __init__(self, home: Path, journal: Path, projections: Projections, entries: EntryFiles) -> None:
        self._home = home
        self._reader = EditReader(journal)
        self._projections = projections
        self.documents = projections.documents
        self._entries = entries
        self._touched: dict[str, float] = {}
        """File -> when it was heard of first, monotonic."""
        self._touched_at = 0.0
        self._not_before: dict[str, float] = {}
        self._folders: dict[str, int | None] = {}
        """Folder of entries -> its stamp when it was listed last."""
        self._own: dict[str, int] = {}
        """File -> the host's first change of it since the last look."""
        self._kept: dict[str, Seen | None] = {}
        """Files that were looked at and are not in the journal yet; None: the file is gone."""
        self._kept_at = time.monotonic()
        looked_at = self._reader.looked_at()
        self._up_to = projections.written_seq if looked_at is None else looked_at
        """The host's changes up to it are in `_own`."""
        self._unknown: set[str] | None = set() if looked_at is None else None
        """Before the first look at all of a home is over: files it has still to take as they are."""
        self._is_swept = False
        self._event = 0
        """Number of the event that goes on with the next look; 0: none does."""
        self._has_more = False
        self._replaced: dict[str, list[bytes]] = {}
        """File -> what changes of the host replaced lately."""
        self._replaced_bytes = 0
        self._replacing = threading.Lock()

    # ------------------------------------------------------------------------------------------------------ hearing

    def apply(self, change: Change) -> None:
        """Keep what a change replaces, for a while. Event loop."""
        if isinstance(change, FileWritten) and change.replaces and group_of(change.file) is not None:
            with self._replacing:
                self._replaced.setdefault(change.file, []).append(change.replaces)
                self._replaced_bytes += len(change.replaces)
                while self._replaced_bytes > _MAX_REPLACED_BYTES:
                    self._replaced_bytes -= sum(map(len, self._replaced.pop(next(iter(self._replaced)))))

    def end_batch(self, written: Sequence[Change]) -> None:
        """Keep it: a look comes later."""

    def keep_soon(self) -> None:
        """Let the next look return what is to be kept."""
        self._kept_at = 0.0

    def drop_replaced(self) -> None:
        """Forget texts that the host replaced: something of them may be to be forgotten. Any thread."""
        with self._replacing:
            self._replaced.clear()
            self._replaced_bytes = 0

    def touch(self, file: str) -> None:
        """Say that a file below the home folder may have changed."""
        if group_of(file) is not None:
            if self.documents.covers(file):
                self.documents.touch(file)
                return
            self._touched.setdefault(file, time.monotonic())
            self._touched_at = time.monotonic()

    def touch_folder(self, folder: str) -> None:
        """Say that a folder below the home is watched from now on: the next comparison looks at every file in it."""
        self._folders.pop(folder, None)
        self._not_before.pop(folder, None)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to look at, or to keep."""
        is_first = self._unknown is not None and self._is_swept
        is_behind = self._up_to < self._projections.written_seq
        return bool(self._touched or self._kept) or is_behind or self.documents.unkept is not None or is_first

    def sweep_changed(self) -> Iterator[None]:
        """Find the Markdown files that changed, and what came or went in folders of entries; yield now and then."""
        groups = groups_in(self._home)
        files = [ROOT_GLOBAL_FILE, *(f"groups/{group}/{name}" for group in groups for name in TEXTS)]
        for agent in names_in(self._home / _AGENTS):
            files += (f"{_AGENTS}/{agent}/{name}" for name in names_in(self._home / _AGENTS / agent))
        for start in range(0, len(files), _FILES_AT_ONCE):
            self._compare(files[start : start + _FILES_AT_ONCE])
        yield
        now = time.monotonic()
        for group in groups:
            for folder in self._entries.folders(group):
                if self._not_before.get(folder, 0.0) <= now and self._folders.get(folder) != self._stamp_of(folder):
                    yield from self._compare_folder(folder)
                    self._not_before[folder] = now + _PAUSE * (time.monotonic() - now)

    def sweep(self) -> Iterator[None]:
        """Find everything that changed, and yield now and then."""
        self._folders.clear()
        self._not_before.clear()
        yield from self.sweep_changed()
        last = ""
        while names := self._reader.names(last, _FILES_AT_ONCE):
            for file in names:
                if not os.path.lexists(self._home / file):
                    self.touch(file)
            last = names[-1]
            yield
        if not self._is_swept and self._unknown is not None:
            self._unknown |= {*self._touched, *self.documents.touched}
        self._is_swept = True

    def _compare_folder(self, folder: str) -> Iterator[None]:
        """Touch those entries of a folder that are not as they were looked at last."""
        self._folders[folder] = self._stamp_of(folder)
        names = [f"{folder}/{name}" for name in names_in(self._home / folder)]
        for start in range(0, len(names), _FILES_AT_ONCE):
            self._compare(names[start : start + _FILES_AT_ONCE])
            yield

    def _stamp_of(self, folder: str) -> int | None:
        """Return what changes when a file comes into a folder, or goes."""
        stamp = signature_of(self._home / folder)
        return None if stamp is None else stamp.mtime_ns

    def _compare(self, files: Sequence[str]) -> None:
        """Touch those of some files that are not as they were looked at last."""
        files = [file for file in files if group_of(file) is not None]
        stamps = self._reader.stamps(files)
        for file in files:
            seen = self._kept.get(file)
            stamp = stamps.get(file) if file not in self._kept else seen and seen.signature
            if (left := self.documents.signature(file)) != NEVER_SEEN:
                stamp = left
            if stamp != signature_of(self._home / file):
                self.touch(file)

    # ------------------------------------------------------------------------------------------------------ looking

    def look(self) -> Looked | None:
        """Look at what may have changed; return what is to be kept now, if anything. Then call `kept`."""
        now = time.monotonic()
        up_to = self._projections.written_seq
        if up_to > self._up_to:
            for file, first in self._reader.changed(self._up_to + 1, up_to).items():
                if self.documents.covers(file):
                    with contextlib.suppress(WorldFailed):
                        self.documents.load(file)
                elif group_of(file) is not None:
                    self._own.setdefault(file, first)
                    self._touched.setdefault(file, now)
            self._up_to = up_to
        edits: list[Edit] = []
        oldest = min([*self._touched.values()], default=now)
        if now - self._touched_at >= QUIET_SECONDS or now - oldest >= _MAX_QUIET_SECONDS:
            edits = self._look_at_some(now, up_to)
        touched = {*self._touched, *self.documents.touched}
        if self._unknown is not None and self._is_swept and self._unknown.isdisjoint(touched):
            self._unknown = None
            self.documents.is_new_home = False
            self._kept_at = 0.0
        size = sum(len(seen.packed or b"") for seen in self._kept.values() if seen is not None)
        if not edits and now - self._kept_at < _KEEP_AFTER_SECONDS and size < _KEEP_AFTER_BYTES:
            return None
        snapshots, removed = self.documents.snapshots()
        firsts = [*self._own.values(), self._up_to + 1]
        if (unkept := self.documents.unkept_besides(snapshots, removed)) is not None:
            firsts.append(unkept)
        looked_at = None if self._unknown is not None else min(firsts) - 1
        seen = [one for one in self._kept.values() if one is not None]
        gone = [file for file, one in self._kept.items() if one is None]
        return Looked(edits, [*seen, *snapshots], [*gone, *removed], looked_at)

    def revise(self, revised: Callable[[Seen], Seen]) -> None:
        """Change how files were looked at, where that is not in the journal yet."""
        self._kept = {file: None if seen is None else revised(seen) for file, seen in self._kept.items()}

    def kept(self, looked: Looked, first: int) -> None:
        """Take in that what `look` returned is in the journal, its edits from the number `first` on; 0: it has none."""
        self._kept.clear()
        self.documents.kept(looked.seen, looked.gone)
        self._kept_at = time.monotonic()
        self._event = (self._event or first) if self._has_more else 0

    def _look_at_some(self, now: float, up_to: int) -> list[Edit]:
        """Look at a few files, those first that the host has not changed itself."""
        waiting = [file for file in list(self._touched) if self._not_before.get(file, 0.0) <= now]
        files = [file for file in waiting if file not in self._own][:_FILES_AT_ONCE]
        files += [file for file in waiting if file in self._own][: _FILES_AT_ONCE - len(files)]
        if not files:
            return []
        own = {file: self._own[file] for file in files if file in self._own}
        known: dict[str, Seen | None] = {**self._reader.seen([file for file in files if file not in self._kept])}
        known |= {file: self._kept[file] for file in files if file in self._kept}
        changes = self._changes_of(own, known, up_to)
        files = [file for file in files if file not in own or file in changes]
        found: dict[str, tuple[list[Edit], Seen | None]] = {}
        self._has_more = len(waiting) > len(files) and files[-1] not in self._own
        touched: dict[str, float] = {}
        started = time.monotonic()
        for file in files:
            begun = time.monotonic()
            if begun - started > _LOOK_SECONDS:
                self._has_more = file not in own
                break
            since = touched[file] = self._touched.pop(file)  # what is heard of from here on is looked at again
            is_patient = begun - since < _MAX_SAVE_SECONDS
            with contextlib.suppress(Later):
                busy = time.thread_time()
                found[file] = self._look_at(
                    file, known.get(file), changes.get(file, HostChanges()), up_to, is_patient=is_patient
                )
                pause = _PAUSE * (time.thread_time() - busy)
                if file in own and not found[file][0]:
                    pause = max(pause, _OWN_PAUSE_SECONDS)
                if pause > 1:
                    self._not_before[file] = begun + pause
        for file in self._reader.changed(up_to + 1, LAST_SEQ):  # the host changed it meanwhile
            found.pop(file, None)
        for file in touched.keys() - found:
            self._touched[file] = touched[file]
        return self._taken(found)

    def _changes_of(
        self, own: Mapping[str, int], known: Mapping[str, Seen | None], up_to: int
    ) -> dict[str, HostChanges]:
        """Return what the host did to some files since they were looked at; not of all, when that is much at once."""
        changes = {file: HostChanges() for file in own}
        kept = 0
        for row in self._reader.changes(min(own.values()), up_to, own) if own else ():
            seen, some = known.get(row.file), changes.get(row.file)
            if some is None or (seen is not None and row.seq <= seen.seq):
                continue
            kept -= some.kept
            some.add(row)
            kept += some.kept
            while kept > _MAX_LOADED_BYTES and len(changes) > 1:
                kept -= changes.popitem()[1].kept
        return changes

    def _taken(self, found: Mapping[str, tuple[list[Edit], Seen | None]]) -> list[Edit]:
        """Take in how files are by now; return the edits, with as much of their text as is kept."""
        lacking = {
            file: edit.before
            for file, (some, seen) in found.items()
            for edit in some
            if edit.hunks is None and edit.before is not None and self._left_by(edit, seen) is not None
        }
        texts = self._reader.written_as(lacking)
        edits: list[Edit] = []
        room = _MAX_KEPT_BYTES
        for file, (some, seen) in found.items():
            self._own.pop(file, None)
            self._kept[file] = seen
            for edit in some:
                hunks = edit.hunks
                if hunks is None and file in texts and (left := self._left_by(edit, seen)) is not None:
                    hunks = hunks_of(texts[file], left)
                room -= sum(len(line) for hunk in hunks or () for line in (*hunk.removed, *hunk.added))
                edits.append(edit._replace(event=self._event, hunks=hunks if room >= 0 else None))
        return edits

    def _left_by(self, edit: Edit, seen: Seen | None) -> bytes | None:
        """Return what an edit left of a file, where that is still known."""
        if is_kept(edit, seen):
            return (seen and seen.text) or b""
        return next((data for data in self._replaced.get(edit.file, ()) if digest_of(data) == edit.after), None)

    def _look_at(
        self, file: str, known: Seen | None, changes: HostChanges, up_to: int, *, is_patient: bool
    ) -> tuple[list[Edit], Seen | None]:
        """Return what people changed in a file, and how it is now; None: it is not there. Raises Later."""
        is_behind = self._projections.is_behind(file)
        found = read_file(
            self._home, file, known, lambda signature: not is_behind, has_rows=changes.count > 0, is_patient=is_patient
        )
        edits: list[Edit] = []
        if known is not None or self._unknown is None or (self._is_swept and file not in self._unknown):
            if changes.is_whole:
                replaced = {fingerprint(data): data for data in self._replaced.get(file, ())}
                edits = compare_whole(file, known, changes, found, replaced)
            elif not is_as_left(known, changes, found):
                if changes.count and file in self._reader.changed(up_to + 1, LAST_SEQ):
                    raise Later  # and nobody compares what is out of date
                edits = compare_text(file, known, changes, found)
        if found is None:
            return edits, None
        if known is not None and found.digest == known.digest:
            return edits, replace(known, seq=up_to, signature=found.signature)
        packed = None
        if found.data is not None and (edits or not file.endswith(".json")):  # else the journal has it anyway
            packed = zlib.compress(found.data, 1)
        return edits, Seen(file, up_to, found.signature, found.size, found.digest, packed)
