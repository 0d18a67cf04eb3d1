"""Session documents on disk and in memory (CM2, CM5): the written generation, and the turns of the log behind it.

What somebody edits counts from its next use; a file that cannot be read is set aside with a reason, and the last good
generation takes its place (docs/decisions/014-session-documents.md).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson
import structlog

from honeybadger_agent.mailbox import SESSION
from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.compaction import Compacted, CompactionLimits, compact, with_left_out
from honeybadger_host.memory.session_document import (
    READABLE,
    SessionDocument,
    dump_document,
    empty_document,
    parse_document,
    with_turns,
)
from honeybadger_host.memory.session_files import (
    Deletion,
    Generation,
    SessionFiles,
    deleted_file,
    parse_deletion,
    session_file,
)
from honeybadger_host.memory.turn_log import Mark, Window, read_window, turns_file
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.storage.atomic_files import WholeFiles, read_whole
from honeybadger_host.storage.changes import Change, FileRemoved, FileWritten, TurnAdded, TurnsMarked, Whole
from honeybadger_host.storage.file_cache import NEVER_SEEN
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.text.turn import Turn

log = structlog.get_logger()

WRITE_OUT_SECONDS = 2.0  # after the last turn, until the document on disk has it, too
# Turns that are folded into a document at most; a summary has no room for older ones, it counts them.
_MAX_BEHIND: Final = 1000
_LAST_WRITES_SECONDS: Final = 3.0
# A file system may give a file a later time, for which no calendar has a date.
_LAST_SECOND: Final = datetime.max.replace(tzinfo=UTC).timestamp() - 1


@dataclass(frozen=True, slots=True)
class View:
    """A document as it is now, the turns of the log included.

    Args:
        data: the file, which may lack the newest turns; None: there is none.
        skipped: lines of the log's window that are not turns.
    """

    document: SessionDocument
    data: bytes | None
    skipped: int = 0

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever said or kept in the session."""
        return self.data is None and not self.document.recent_history


@dataclass(slots=True)
class _Working:
    """The state of a session during one batch of requests.

    Args:
        base: the file as it will be; the turns in `behind` come after it.
        entries, tokens: of the history with those turns.
        tombstone: what `deleted_file` will hold; `deletion` is what that says.
    """

    base: SessionDocument
    data: bytes | None
    behind: list[Turn]
    entries: int
    tokens: int
    tombstone: bytes | None = None
    deletion: Deletion = field(default_factory=lambda: Deletion())
    is_changed: bool = False
    whole: SessionDocument | None = None
    """Base and turns together, once somebody wanted them."""

    @classmethod
    def of(cls, base: SessionDocument, data: bytes | None, behind: list[Turn]) -> _Working:
        entries = len(base.recent_history) + len(behind)
        return cls(base, data, behind, entries, base.tokens + sum(turn.token_count for turn in behind))


class Sessions:
    """The documents of all sessions.

    `read`, `peek` and `names` may run on any thread; for a batch see `unit_of_work`; `write_out` when nothing waits.

    Args:
        last_written, is_behind, wall_seconds: see `SessionFiles`.
    """

    def __init__(
        self,
        files: WholeFiles,
        turn_logs: TurnLogs,
        limits: CompactionLimits,
        *,
        last_written: Callable[[str], bytes | None],
        is_behind: Callable[[str], bool] = lambda file: False,
        wall_seconds: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits
        self._home = turn_logs.home
        self._files = files
        self._turn_logs = turn_logs
        self._session_files = SessionFiles(turn_logs.home, files, last_written, is_behind, wall_seconds)
        self._wall_seconds = wall_seconds
        self._clock = turn_logs.clock
        self.compactions = 0
        """Since the start."""
        self._working: dict[tuple[str, str], _Working] = {}
        self._decided: dict[str, tuple[_Working, bytes | None, SessionDocument]] = {}
        """File -> what it will be, between a decision and its `apply`; spares reading our own JSON."""
        self._lagging: OrderedDict[tuple[str, str], float] = OrderedDict()
        """Sessions whose file lacks turns -> when the newest came; the longest quiet first."""

    # ------------------------------------------------------------------------------------------------------- any thread

    def read(self, group: str, session: str) -> View:
        """Return a document as it is. Raises WorldFailed: something that is not a file is in its place."""
        generation = self._session_files.read(group, session)
        base, behind = self._behind(group, session, generation.document)
        return View(self._folded(base, behind), generation.data)

    def peek(self, group: str, session: str) -> View:
        """Return the same for a list, keeping and mending nothing. Also raises ValueError if it cannot be read."""
        data = read_whole(self._home / session_file(group, session))
        document = self._session_files.empty(group, session) if data is None else parse_document(data, session)
        base, behind = self._behind(group, session, document)
        return View(self._folded(base, behind), data, self._turn_logs.load(group, session).skipped)

    def standing(self, group: str, session: str) -> SessionDocument:
        """Return a document as it was written last: turns add nothing to its facts, tasks and summary."""
        return self._session_files.read(group, session).document

    def in_context(self, group: str, session: str, turns: Sequence[Turn]) -> tuple[int, Sequence[Turn]]:
        """Return `begins_after`, and those of a session's turns that contexts show. Raises WorldFailed."""
        return self._session_files.deletion(group, session).left(turns)

    def deletion(self, group: str, session: str) -> Deletion:
        """Return what the last deletion of a document left. Raises WorldFailed."""
        return self._session_files.deletion(group, session)

    def begins_after(self, group: str, session: str) -> int:
        """Return the number of the turn behind which contexts begin afresh; 0: they never did. Raises WorldFailed."""
        return self._session_files.deletion(group, session).context_begins_after

    def names(self, group: str) -> list[tuple[str, float]]:
        """Return the sessions of a group that have a document or a log, each with its last change, the newest first.

        Changes are seconds since the epoch.
        """
        found: dict[str, float] = {}
        for folder, end in ((f"data/context/{group}", ".json"), (f"data/sessions/{group}", ".jsonl")):
            for name, changed in _files_in(self._home / folder, end):
                found[name] = max(changed, found.get(name, 0.0))
        return sorted(found.items(), key=lambda item: (-item[1], item[0]))

    # ----------------------------------------------------------------------------------------------------- unit of work

    def load(self, group: str, session: str) -> None:
        """Load what a decision about a session needs. Raises WorldFailed."""
        if (group, session) not in self._working:
            generation = self._session_files.read(group, session)
            if generation.complaint is not None:
                raise WorldFailed(f"{session_file(group, session)} {generation.complaint}: somebody may be saving it")
            base, behind = self._behind(group, session, generation.document)
            self._working[group, session] = _Working.of(base, generation.data, behind)

    def load_removal(self, group: str, session: str) -> None:
        """Return the same for `remove`. Raises WorldFailed."""
        self.load(group, session)
        working = self._working[group, session]
        working.tombstone = read_whole(self._home / deleted_file(group, session))
        working.deletion = self._session_files.deletion(group, session)

    def view(self, group: str, session: str) -> View:
        """Return a document with everything decided so far. It must be loaded."""
        working = self._working[group, session]
        if working.whole is None:
            working.whole = self._folded(working.base, working.behind)
        return View(working.whole, working.data)

    def write(self, group: str, session: str, document: SessionDocument) -> FileWritten:
        """Return the change that makes a document the file."""
        working = self._working[group, session]
        file, data = session_file(group, session), dump_document(document)
        self._decided[file] = (working, data, document)
        return FileWritten(group, "session", file, data, working.data, turns_file(group, session))

    def after_turns(self, changes: Sequence[TurnAdded], now: datetime) -> tuple[FileWritten, ...]:
        """Return what follows from more turns of a session: the document, compacted, when it is over a limit.

        Args:
            changes: one at least, all of one session.
        """
        change = changes[-1]
        working = self._working.get((change.group, change.session))
        tokens = sum(added.turn.token_count for added in changes)
        if working is None or not self.limits.are_passed(working.entries + len(changes), working.tokens + tokens):
            return ()
        document = with_turns(working.base, [*working.behind, *(added.turn for added in changes)])
        compacted = self.compacted(change.group, change.session, document, now).document
        return (self.write(change.group, change.session, compacted),)

    def compacted(self, group: str, session: str, document: SessionDocument, now: datetime) -> Compacted:
        """Return a document within its limits; when that changed it, it is counted and said."""
        compacted = compact(document, now, self.limits)
        if compacted.is_changed:
            self.compactions += 1
            log.info(
                "session.compacted",
                group=group,
                session=session,
                summarised=compacted.summarised,
                tokens_before=document.tokens,
                tokens=compacted.document.tokens,
            )
        return compacted

    def remove(
        self, group: str, session: str, sender: str, now: datetime, *, begins_again: bool
    ) -> tuple[tuple[Whole, ...], int]:
        """Return the changes that delete a document, so that no turn of before comes back, and the number of the last
        turn that contexts leave out from now on.

        Args:
            begins_again: contexts leave out what was said so far.
        Returns:
            No changes when there is nothing to delete.
        """
        working = self._working[group, session]
        turns = self.view(group, session).document.turns or 0
        after, since = working.deletion.context_begins_after, working.deletion.context_begins_at
        is_later = begins_again and turns > after
        if is_later:
            after, since = turns, now
        if working.data is None and not working.behind and not is_later:
            return (), after
        forgotten = {
            "session_id": session,
            "turns": turns,
            "deleted_at": time_stamp(now),
            "by": sender,
            "context_begins_after": after,
            "context_begins_at": None if since is None else time_stamp(since, "milliseconds"),
        }
        file = deleted_file(group, session)
        self._decided[file] = (working, None, empty_document(session, turns))
        data, upon = orjson.dumps(forgotten, option=READABLE), turns_file(group, session)
        tombstone = FileWritten(group, "session", file, data, working.tombstone, upon)
        if working.data is None:
            return (tombstone,), after
        return (tombstone, FileRemoved(group, "session", session_file(group, session), working.data)), after

    def apply(self, change: Change) -> None:
        if isinstance(change, TurnAdded):
            held = self._working.get((change.group, change.session))
            if held is not None:
                held.behind.append(change.turn)
                held.entries += 1
                held.tokens += change.turn.token_count
                held.whole = None
        elif isinstance(change, TurnsMarked):
            held = self._working.get((change.group, change.session))
            if held is not None and change.row_kind == "turns_withdrawn":
                mark = Mark(True, change.ranges)
                left = [turn for turn in held.behind if not mark.names(turn.number)]
                self._working[change.group, change.session] = replace(
                    _Working.of(held.base, held.data, left), tombstone=held.tombstone, deletion=held.deletion
                )
        elif (decided := self._decided.pop(change.file, None)) is not None:
            working, data, document = decided
            if data is None:
                working.tombstone, working.deletion = change.data, parse_deletion(change.data)
            working.base, working.data, working.behind = document, data, []
            working.entries, working.tokens = len(document.recent_history), document.tokens
            working.is_changed, working.whole = True, document

    def end_batch(self, written: Sequence[Change]) -> None:
        """Forget what was applied; files that lack turns are written out later."""
        now = self._clock()
        for key, working in self._working.items():
            if working.is_changed:
                # read again with the next use, not parsed again if it is what was decided
                self._session_files.keep(key, Generation(working.data, working.base, NEVER_SEEN))
            if working.behind:
                self._lagging[key] = now
                self._lagging.move_to_end(key)
            else:
                self._lagging.pop(key, None)
        self._working.clear()
        self._decided.clear()

    def write_out(self) -> bool:
        """Bring the file up to date that lags behind its log the longest, if its session is quiet; return whether.

        Not through the journal, which has the turns already. It is durable at once: a change that replaces it must find
        it after a power cut.
        """
        key = next(iter(self._lagging), None)
        if key is None or self._clock() - self._lagging[key] < WRITE_OUT_SECONDS:
            return False
        return self._write_out(key)

    def write_out_all(self) -> None:
        """Bring the files up to date, as the last thing before the end, for a few seconds; the logs have the rest."""
        until = self._clock() + _LAST_WRITES_SECONDS
        for key in list(self._lagging):
            if self._clock() > until:
                log.warning("session.write_failed", waiting=len(self._lagging), error="no time left")
                return
            self._write_out(key)

    def _write_out(self, key: tuple[str, str]) -> bool:
        del self._lagging[key]
        file = session_file(*key)
        try:
            generation = self._session_files.read(*key)
            base, behind = self._behind(*key, generation.document)
            if not behind or generation.complaint is not None or self._session_files.is_behind(file):
                return False
            document = self._folded(base, behind)
            data = dump_document(document)
            if not self._files.refresh(file, data, generation.data):
                return False  # somebody saves it just now
        except (OSError, WorldFailed) as error:
            log.warning("session.write_failed", file=file, error=str(error), now_what="the log has every turn")
            return False
        self._session_files.keep(key, Generation(data, document, NEVER_SEEN))
        return True

    # ------------------------------------------------------------------------------------------------------------ turns

    def _behind(self, group: str, session: str, document: SessionDocument) -> tuple[SessionDocument, list[Turn]]:
        """Return the document with a mark that fits the log, and the turns that come after it."""
        window = self._turn_logs.load(group, session)
        covered = _covered(document, window)
        base = document if document.turns == covered else document.up_to(covered)
        missing = window.last_number - covered
        if missing <= 0:
            return base, []
        turns: Sequence[Turn] = window.turns
        if missing > len(turns):
            with contextlib.suppress(OSError):  # the window was read from it a moment ago
                turns = read_window(self._home / turns_file(group, session), min(missing, _MAX_BEHIND)).turns
        behind = [turn for turn in turns if turn.number > covered]
        return with_left_out(base, missing - len(behind), self.limits) if missing > _MAX_BEHIND else base, behind

    def _folded(self, base: SessionDocument, behind: Sequence[Turn]) -> SessionDocument:
        """Return both together; compacted when the turns alone are too many, as in a log older than its document."""
        document = with_turns(base, behind)
        if len(behind) > self.limits.max_entries:
            now = datetime.fromtimestamp(self._wall_seconds(), UTC)
            document = compact(document, now, self.limits).document
        return document


def _covered(document: SessionDocument, window: Window) -> int:
    """Return up to which turn of its log a document goes.

    When the file does not say, because a person wrote it, or says more than the log has, because the log was deleted,
    the time of its newest message tells.
    """
    if document.turns is not None and document.turns <= window.last_number:
        return document.turns
    if not document.recent_history:
        return 0
    newest = document.recent_history[-1].timestamp
    later = [turn.number for turn in window.turns if int(turn.at.timestamp()) > newest]
    return min(later) - 1 if later else window.last_number


def _files_in(folder: Path, end: str) -> Iterator[tuple[str, float]]:
    """Yield (name without end, seconds since the epoch of its last change) of the plain files of a folder."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.removesuffix(end)
            if name != entry.name and SESSION.fullmatch(name) and entry.is_file(follow_symlinks=False):
                yield name, min(max(entry.stat(follow_symlinks=False).st_mtime, 0.0), _LAST_SECOND)
