"""Session documents (CM2, CM5): the newest version of each, with the later turns of its log.

A version has the members that requests and people set; messages and counts come from the log
(docs/decisions/014-session-documents.md).
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path

import orjson

from honeybadger_agent.mailbox import SESSION
from honeybadger_host.documents.in_use import Rules
from honeybadger_host.errors import WorldFailed
from honeybadger_host.journal.changes import Change, FileRemoved, FileWritten, TurnAdded, TurnsMarked, Whole
from honeybadger_host.log import log
from honeybadger_host.memory.compaction import CompactionLimits, Digest, compact, digest, with_left_out
from honeybadger_host.memory.session_document import (
    READABLE,
    Deletion,
    SessionDocument,
    deleted_file,
    dump_document,
    empty_document,
    is_document,
    newest_known,
    parse_deletion,
    parse_document,
    session_file,
    with_derived_of,
    with_turns,
)
from honeybadger_host.memory.turn_log import Mark, Window, is_withdrawn, turns_file
from honeybadger_host.memory.turn_log_store import MAX_READ, TurnLogs
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.text.turn import Turn

WRITE_OUT_SECONDS = 2.0  # seconds after the last turn until the file has it, too


@dataclass(frozen=True, slots=True)
class View:
    """A document as it is now, with all turns of the log.

    Args:
        data: its newest version, which may lack the newest turns; None: there is none.
        skipped: lines of the log's window that are not turns.
        fault: place and fault of the newest of them.
    """

    document: SessionDocument
    data: bytes | None
    skipped: int = 0
    fault: str = ""

    @property
    def is_new(self) -> bool:
        """Whether the session has neither a document nor a message."""
        return self.data is None and not self.document.recent_history


@lru_cache(maxsize=64)
def _digest(data: bytes) -> Digest:
    return digest(parse_document(data, ""))


@dataclass(slots=True)
class _Working:
    """The state of a session during one batch of requests.

    Args:
        base: the newest version with everything decided so far; the turns in `behind` come after it.
        data: the bytes of that version; None: there is none.
        tombstone: the content of `deleted_file` after this batch, where it is loaded.
    """

    base: SessionDocument
    data: bytes | None
    behind: list[Turn]
    tombstone: bytes | None = None


class Sessions:
    """The documents of all sessions.

    `read` and `names` may run on any thread; for a batch see `journal.changes`; `write_out` is called when nothing
    waits.

    Args:
        current: returns the newest version of a file, see `Projections.current`.
        render: writes a file whose derived members changed, see `Projections.render`.
    """

    def __init__(
        self,
        turn_logs: TurnLogs,
        limits: CompactionLimits,
        *,
        current: Callable[[str], bytes | None],
        render: Callable[[str], None],
    ) -> None:
        self.limits = limits
        self._home = turn_logs.home
        self._turn_logs = turn_logs
        self._current = current
        self._render = render
        self._clock = turn_logs.clock
        self.rules = Rules(is_document, with_derived_of, self.as_file)
        self.compactions = 0  # number of compactions since the start
        self._working: dict[tuple[str, str], _Working] = {}
        # Sessions whose file lacks turns -> when the newest turn came; the oldest first.
        self._lagging: dict[tuple[str, str], float] = {}

    # ------------------------------------------------------------------------------------------------------- any thread

    def read(self, group: str, session: str) -> View:
        """Return a document as it is now. Raises WorldFailed if its file cannot be read."""
        base, data = self._version(group, session)
        window = self._turn_logs.window(group, session)
        base, behind = self._behind(group, session, base, window)
        return View(self._folded(base, behind), data, window.skipped, window.fault)

    def digest(self, group: str, session: str) -> Digest:
        """Return the facts, tasks and summary of a document, without the later turns. Raises WorldFailed."""
        _, data = self._version(group, session)
        return _digest(data or b"{}")

    def as_file(self, file: str, version: bytes) -> bytes:
        """Return the bytes of the file for a version: with the later turns of the log."""
        group, session = _session_of(file)
        try:
            document = parse_document(version, session)
            newest = self._turn_logs.newest(group, session)
            if newest is not None and document.turns == newest:
                return version  # without reading the log, which has just grown by the turns of this batch
            base, behind = self._behind(group, session, document, self._turn_logs.window(group, session))
        except WorldFailed:  # the log cannot be read
            return version
        return dump_document(self._folded(base, behind)) if behind else version

    def _version(self, group: str, session: str) -> tuple[SessionDocument, bytes | None]:
        """Return the newest version, parsed and as bytes; None: there is none, it is empty. Raises WorldFailed."""
        file = session_file(group, session)
        data = self._current(file)
        try:
            return parse_document(b"{}" if data is None else data, session), data
        except ValueError as error:
            raise WorldFailed(f"{file} cannot be read: {error}: mend it, or move it away") from None

    def deletion(self, group: str, session: str) -> Deletion:
        """Return the record of a document's last deletion. Raises WorldFailed if its file cannot be read."""
        file = deleted_file(group, session)
        return parse_deletion(self._current(file), file)

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
        """Load a session for decisions about it. Raises WorldFailed."""
        if (group, session) not in self._working:
            document, data = self._version(group, session)
            base, behind = self._behind(group, session, document, self._turn_logs.load(group, session))
            self._working[group, session] = _Working(base, data, behind)

    def load_removal(self, group: str, session: str) -> None:
        """Load a session and its last deletion for `remove`. Raises WorldFailed."""
        self.load(group, session)
        self._working[group, session].tombstone = self._current(deleted_file(group, session))

    def view(self, group: str, session: str) -> View:
        """Return a document with everything decided so far. It must be loaded."""
        working = self._working[group, session]
        return View(self._folded(working.base, working.behind), working.data)

    def write(self, group: str, session: str, document: SessionDocument) -> FileWritten:
        """Return the change that writes a document."""
        working = self._working[group, session]
        file, data = session_file(group, session), dump_document(document)
        return FileWritten(group, "session", file, data, working.data, turns_file(group, session))

    def after_turns(self, changes: Sequence[TurnAdded], now: datetime) -> tuple[FileWritten, ...]:
        """Return the changes that new turns cause: the first document, or a compacted one if a limit is exceeded.

        Args:
            changes: at least one, all of one session.
        """
        change = changes[-1]
        working = self._working.get((change.group, change.session))
        if working is None:
            return ()
        turns = [*working.behind, *(added.turn for added in changes)]
        tokens = working.base.tokens + sum(turn.token_count for turn in turns)
        is_over = self.limits.are_passed(len(working.base.recent_history) + len(turns), tokens)
        if working.data is not None and not is_over:
            return ()
        document = with_turns(working.base, turns)
        if is_over:
            compacted = compact(document, now, self.limits)
            self.compactions += 1
            log.info(
                "session.compacted",
                group=change.group,
                session=change.session,
                summarised=compacted.summarised,
                tokens_before=document.tokens,
                tokens=compacted.document.tokens,
            )
            document = compacted.document
        return (self.write(change.group, change.session, document),)

    def remove(
        self, group: str, session: str, sender: str, now: datetime, *, begins_again: bool
    ) -> tuple[tuple[Whole, ...], int]:
        """Return the changes that delete a document, and the number of the last turn that contexts leave out then.

        The turns so far do not come back into the document. There are no changes if there is nothing to delete.

        Args:
            begins_again: contexts leave out the turns so far, too.
        """
        working = self._working[group, session]
        turns = self.view(group, session).document.turns or 0
        file = deleted_file(group, session)
        deletion = parse_deletion(working.tombstone, file)
        after, since = deletion.context_begins_after, deletion.context_begins_at
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
        data, upon = orjson.dumps(forgotten, option=READABLE), turns_file(group, session)
        tombstone = FileWritten(group, "session", file, data, working.tombstone, upon)
        if working.data is None:
            return (tombstone,), after
        return (tombstone, FileRemoved(group, "session", session_file(group, session), working.data)), after

    def apply(self, change: Change) -> None:
        if (held := self._working.get(_session_of(change.file))) is None:
            return
        if isinstance(change, TurnAdded):
            held.behind.append(change.turn)
        elif isinstance(change, TurnsMarked):
            mark = Mark(change.row_kind == "turns_withdrawn", change.ranges)
            held.behind = [turn for turn in held.behind if not is_withdrawn(turn.number, [mark])]
        else:
            if isinstance(change, FileWritten) and change.file.endswith(".deleted"):
                held.tombstone, turns = change.data, parse_deletion(change.data, change.file).turns
                held.base = empty_document(held.base.session_id, turns)
            elif isinstance(change, FileWritten):
                held.base, held.data = parse_document(change.data, held.base.session_id), change.data
            else:
                held.data = None
            held.behind = []

    def end_batch(self, written: Sequence[Change]) -> None:
        """Drop applied changes; files that lack turns are written later."""
        now = self._clock()
        for key, working in self._working.items():
            self._lagging.pop(key, None)
            if working.behind:
                self._lagging[key] = now
        self._working.clear()

    def write_out(self) -> bool:
        """Write the file that has lacked turns for longest, if its session is quiet; return whether one was written.

        Called in the writer's place. It is no change: the journal has the turns already.
        """
        key = next(iter(self._lagging), None)
        if key is None or self._clock() - self._lagging[key] < WRITE_OUT_SECONDS:
            return False
        self._write_out(key)
        return True

    def write_out_all(self) -> None:
        """Write all files that lack turns, before the host ends."""
        for key in list(self._lagging):
            self._write_out(key)

    def _write_out(self, key: tuple[str, str]) -> None:
        del self._lagging[key]
        with contextlib.suppress(WorldFailed):  # the file cannot be written; the log has every turn
            self._render(session_file(*key))

    # ------------------------------------------------------------------------------------------------------------ turns

    def _behind(
        self, group: str, session: str, document: SessionDocument, window: Window
    ) -> tuple[SessionDocument, list[Turn]]:
        """Return the document with a mark that fits the log, and the turns after it."""
        newest = window.last_number
        since = partial(self._turn_logs.since, group, session, window=window)
        if document.turns is None:  # a person wrote it
            logged = since(0) if document.recent_history else ()
            document = document.up_to(newest_known(document, logged) or self.deletion(group, session).turns)
        covered = document.turns or 0
        if covered > newest:  # the log was removed and began again
            covered = 0
        base = document if document.turns == covered else document.up_to(covered)
        if covered == newest:
            return base, []
        behind = [*since(covered)]
        return with_left_out(base, newest - covered - MAX_READ, self.limits), behind

    def _folded(self, base: SessionDocument, behind: Sequence[Turn]) -> SessionDocument:
        """Return the document with the turns; compacted if they alone are too many, as in a log without a document."""
        document = with_turns(base, behind)
        if len(behind) > self.limits.max_entries:
            document = compact(document, datetime.now(UTC), self.limits).document
        return document


def _session_of(file: str) -> tuple[str, str]:
    """Return group and session of a document, of the record of its deletion or of a log; empty for any other file."""
    match file.split("/"):
        case ["data", "context", group, name]:
            return group, name.removesuffix(".deleted").removesuffix(".json")
        case ["data", "sessions", group, name]:
            return group, name.removesuffix(".jsonl")
        case _:
            return "", ""


def _files_in(folder: Path, end: str) -> Iterator[tuple[str, float]]:
    """Yield (name without end, seconds since the epoch of its last change) of the plain files of a folder."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.removesuffix(end)
            if name != entry.name and SESSION.fullmatch(name) and entry.is_file(follow_symlinks=False):
                yield name, max(entry.stat(follow_symlinks=False).st_mtime, 0.0)
