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
from honeybadger_host.journal.changes import Change, FileRemoved, FileWritten, TurnAdded, Whole, WholeFiles, read_whole
from honeybadger_host.log import log
from honeybadger_host.memory.compaction import CompactionLimits, Digest, compact, digest, with_left_out
from honeybadger_host.memory.session_document import (
    READABLE,
    Deletion,
    SessionDocument,
    deleted_file,
    dump_document,
    is_document,
    newest_known,
    parse_deletion,
    parse_document,
    session_file,
    with_derived_of,
    with_turns,
)
from honeybadger_host.memory.turn_log import Window, turns_file
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


def _parsed(data: bytes | None, group: str, session: str) -> SessionDocument:
    """Return a version, empty if there is none. Raises WorldFailed: it is no session document."""
    try:
        return parse_document(b"{}" if data is None else data, session)
    except ValueError as error:
        file = session_file(group, session)
        raise WorldFailed(f"{file} cannot be read: {error}: mend it, or move it away") from None


class Sessions:
    """The documents of all sessions.

    `read` and `names` may run on any thread; for a batch see `journal.changes`: its state is that of `files` and
    `turn_logs`. `write_out` is called when nothing waits.

    Args:
        render: writes a file whose derived members changed, see `Projections.render`.
    """

    def __init__(
        self,
        turn_logs: TurnLogs,
        files: WholeFiles,
        limits: CompactionLimits,
        render: Callable[[str], None],
    ) -> None:
        self.limits = limits
        self._turn_logs = turn_logs
        self._files = files
        self._render = render
        self.rules = Rules(is_document, with_derived_of, self.as_file)
        self.compactions = 0  # number of compactions since the start
        # Sessions whose file lacks turns -> when the newest turn came; the oldest first.
        self._lagging: dict[tuple[str, str], float] = {}

    # ------------------------------------------------------------------------------------------------------- any thread

    def read(self, group: str, session: str) -> View:
        """Return a document as it is now. Raises WorldFailed if its file cannot be read."""
        data = self._files.read(session_file(group, session))
        window = self._turn_logs.window(group, session)
        base, behind = self._written(group, _parsed(data, group, session), window)
        return View(self._folded(base, behind), data, window.skipped, window.fault)

    def digest(self, group: str, session: str) -> Digest:
        """Return the facts, tasks and summary of a document, without the later turns. Raises WorldFailed."""
        data = self._files.read(session_file(group, session))
        _parsed(data, group, session)
        return _digest(data or b"{}")

    def as_file(self, file: str, version: bytes) -> bytes:
        """Return the bytes of the file for a version: with the later turns of the log."""
        group, session = _session_of(file)
        try:
            document = parse_document(version, session)
            newest = self._turn_logs.newest(group, session)
            if newest is not None and document.turns == newest:
                return version  # without reading the log, which has just grown by the turns of this batch
            base, behind = self._written(group, document, self._turn_logs.window(group, session))
        except WorldFailed:  # the log cannot be read
            return version
        return dump_document(self._folded(base, behind)) if behind else version

    def deletion(self, group: str, session: str) -> Deletion:
        """Return the record of a document's last deletion. Raises WorldFailed if its file cannot be read."""
        file = deleted_file(group, session)
        return parse_deletion(self._files.read(file), file)

    def _written(self, group: str, document: SessionDocument, window: Window) -> tuple[SessionDocument, Sequence[Turn]]:
        """Return what `_behind` returns, without what is only decided. Raises WorldFailed."""
        since = partial(self._turn_logs.since, group, document.session_id, window=window)
        return self._behind(group, document, self._files.read, window.last_number, since)

    def names(self, group: str) -> list[tuple[str, float]]:
        """Return the sessions of a group that have a document or a log, each with its last change, the newest first.

        Changes are seconds since the epoch.
        """
        found: dict[str, float] = {}
        for folder, end in ((f"data/context/{group}", ".json"), (f"data/sessions/{group}", ".jsonl")):
            for name, changed in _files_in(self._turn_logs.home / folder, end):
                found[name] = max(changed, found.get(name, 0.0))
        return sorted(found.items(), key=lambda item: (-item[1], item[0]))

    # ----------------------------------------------------------------------------------------------------- unit of work

    def view(self, group: str, session: str) -> View:
        """Return a document with everything decided so far. Raises WorldFailed."""
        base, behind = self._decided(group, session)
        return View(self._folded(base, behind), self._files.view(session_file(group, session)))

    def _decided(self, group: str, session: str) -> tuple[SessionDocument, Sequence[Turn]]:
        """Return the newest version with everything decided so far, and the turns after it. Raises WorldFailed."""
        document = _parsed(self._files.view(session_file(group, session)), group, session)
        newest = self._turn_logs.next_number(group, session) - 1
        since = partial(self._turn_logs.decided_since, group, session)
        return self._behind(group, document, self._files.view, newest, since)

    def write(self, group: str, session: str, document: SessionDocument) -> FileWritten:
        """Return the change that writes a document."""
        file = session_file(group, session)
        return FileWritten(
            group, "session", file, dump_document(document), self._files.view(file), turns_file(group, session)
        )

    def after_turns(self, changes: Sequence[TurnAdded], now: datetime) -> tuple[FileWritten, ...]:
        """Return the changes that new turns cause: the first document, or a compacted one if a limit is exceeded.

        Args:
            changes: at least one, all of one session.
        """
        change = changes[-1]
        try:
            base, behind = self._decided(change.group, change.session)
        except WorldFailed as error:  # a turn is kept in the log and does not need the document
            log.warning("session.passed_over", group=change.group, session=change.session, error=str(error))
            return ()
        turns = [*behind, *(added.turn for added in changes)]
        tokens = base.tokens + sum(turn.token_count for turn in turns)
        is_over = len(base.recent_history) + len(turns) > self.limits.max_entries or tokens > self.limits.max_tokens
        if self._files.view(session_file(change.group, change.session)) is not None and not is_over:
            return ()
        document = with_turns(base, turns)
        if is_over:
            document, summarised = compact(document, now, self.limits)
            self.compactions += 1
            log.info(
                "session.compacted",
                group=change.group,
                session=change.session,
                summarised=summarised,
                tokens_before=tokens,
                tokens=document.tokens,
            )
        return (self.write(change.group, change.session, document),)

    def remove(
        self, group: str, session: str, sender: str, now: datetime, *, begins_again: bool
    ) -> tuple[tuple[Whole, ...], int]:
        """Return the changes that delete a document, and the number of the last turn that contexts leave out then.

        The turns so far do not come back into the document. There are no changes if there is nothing to delete. Raises
        WorldFailed if somebody broke the file: it would stay, and count again once it is mended.

        Args:
            begins_again: contexts leave out the turns so far, too.
        """
        file, tombstone_file = session_file(group, session), deleted_file(group, session)
        _parsed(read_whole(self._turn_logs.home / file), group, session)
        view, held = self.view(group, session), self._files.view(tombstone_file)
        turns = view.document.turns or 0
        deletion = parse_deletion(held, tombstone_file)
        if begins_again and turns > deletion.context_begins_after:
            deletion = deletion.model_copy(update={"context_begins_after": turns, "context_begins_at": now})
        elif view.is_new:
            return (), deletion.context_begins_after
        forgotten = {
            "session_id": session,
            "turns": turns,
            "deleted_at": time_stamp(now),
            "by": sender,
            **deletion.model_dump(include={"context_begins_after", "context_begins_at"}),
        }
        data = orjson.dumps(forgotten, option=READABLE)
        tombstone = FileWritten(group, "session", tombstone_file, data, held, turns_file(group, session))
        if view.data is None:
            return (tombstone,), deletion.context_begins_after
        return (tombstone, FileRemoved(group, "session", file, view.data)), deletion.context_begins_after

    def apply(self, change: Change) -> None:
        """Do nothing: what is decided is in the files and the logs of the batch."""

    def end_batch(self, written: Sequence[Change]) -> None:
        """Note which files lack turns: they are written later."""
        now = self._turn_logs.clock()
        for change in written:
            key = _session_of(change.file)
            self._lagging.pop(key, None)
            if change.file.startswith("data/sessions/"):
                self._lagging[key] = now

    def write_out(self, quiet_seconds: float = WRITE_OUT_SECONDS) -> bool:
        """Write the file that has lacked turns for longest, if its session is quiet; return whether one was written.

        Called in the writer's place. It is no change: the journal has the turns already.
        """
        key = next(iter(self._lagging), None)
        if key is None or self._turn_logs.clock() - self._lagging[key] < quiet_seconds:
            return False
        del self._lagging[key]
        with contextlib.suppress(WorldFailed):  # the file cannot be written; the log has every turn
            self._render(session_file(*key))
        return True

    def write_out_all(self) -> None:
        """Write all files that lack turns, before the host ends."""
        while self.write_out(quiet_seconds=0):
            pass

    # ------------------------------------------------------------------------------------------------------------ turns

    def _behind(
        self,
        group: str,
        document: SessionDocument,
        read: Callable[[str], bytes | None],
        newest: int,
        since: Callable[[int], Sequence[Turn]],
    ) -> tuple[SessionDocument, Sequence[Turn]]:
        """Return the document with a mark that fits the log, and the turns after it.

        Args:
            read: returns the newest version of a file.
            newest: number of the newest turn.
            since: returns the turns after one, see `TurnLogs.since`.
        """
        if document.turns is None:  # there is none, or a person wrote it
            logged = since(0) if document.recent_history else ()
            file = deleted_file(group, document.session_id)
            turns = newest_known(document, logged) or parse_deletion(read(file), file).turns
            document = document.up_to(turns)
        covered = document.turns or 0
        if covered > newest:  # the log was removed and began again
            covered = 0
            document = document.up_to(0)
        behind = since(covered) if covered < newest else ()
        return with_left_out(document, newest - covered - MAX_READ, self.limits), behind

    def _folded(self, base: SessionDocument, behind: Sequence[Turn]) -> SessionDocument:
        """Return the document with the turns; compacted if they alone are too many, as in a log without a document."""
        document = with_turns(base, behind)
        if len(behind) > self.limits.max_entries:
            document, _ = compact(document, datetime.now(UTC), self.limits)
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
