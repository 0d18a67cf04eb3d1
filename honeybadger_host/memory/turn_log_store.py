"""The newest turns of the sessions in use, kept in memory while their logs do not change (AM1, AB5); watermarks (AB1).

`data/consolidated/<group>/<session>.json` is the watermark: the turns up to it are in HISTORY.md and summary.md; they
stay in the log. Later turns are replayed, so there is no gap between a summary and the turns below it.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final, Literal

import orjson
import structlog
from pydantic import Field

from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import NEVER_SEEN, KeptFiles, signature_of
from honeybadger_host.files.safe_files import NotRegular, names_in
from honeybadger_host.journal.changes import Change, TurnAdded, TurnsMarked, read_whole
from honeybadger_host.memory.edited import Count, Edited, Stamp, checked, read_json
from honeybadger_host.memory.turn_log import (
    LoggedTurn,
    Window,
    keyed_turns,
    read_window,
    stored_turns,
    turns_file,
)
from honeybadger_host.text.turn import Turn

log = structlog.get_logger()

IDLE_SECONDS = 3600.0  # a session that was not used for this long is dropped from memory; its log stays
MAX_SESSIONS = 1024  # sessions in memory; above it the least recently used are dropped
# A session used within this time is never dropped: a request between loading and decision needs it.
_IN_USE_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Session:
    window: Window
    used: float
    ahead: list[Turn] = field(default_factory=list)
    """Turns decided in the batch that is not committed yet."""
    marked: list[TurnsMarked] = field(default_factory=list)
    """Withdrawals and restorations of turns that were decided in this batch."""


class TurnLogs:
    """The sessions in memory.

    `load` may run on any thread; `next_number`, `last_at`, `apply` and `end_batch` belong to the event loop.

    Args:
        window_turns: turns kept of each session.
        idle_seconds: a session that was not used for this long is dropped from memory.
        max_sessions: above it the least recently used sessions are dropped.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        home: Path,
        *,
        window_turns: int,
        clock: Callable[[], float],
        idle_seconds: float = IDLE_SECONDS,
        max_sessions: int = MAX_SESSIONS,
    ) -> None:
        self.home = home
        self._window_turns = window_turns
        self._idle_seconds = idle_seconds
        self._max_sessions = max_sessions
        self.clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[tuple[str, str], _Session] = OrderedDict()
        self._ahead: set[tuple[str, str]] = set()
        """Sessions with turns that are not written yet."""

    def __len__(self) -> int:
        return len(self._sessions)

    def load(self, group: str, session: str, *, is_kept: bool = True) -> Window:
        """Return the window; the log is read if it is not in memory or somebody else has changed it.

        Args:
            is_kept: keep the session in memory; a pass over a hundred sessions does not.
        Raises WorldFailed if the log is not a plain file.
        """
        key = (group, session)
        path = f"{self.home}/{turns_file(group, session)}"
        with self._lock:
            held = self._sessions.get(key)
            if held is not None and not held.window.is_young and held.window.signature == signature_of(path):
                self._use(key, held)
                return held.window
            window = self._read(group, session, self._window_turns)
            if held is None and not is_kept:
                return window
            if window.skipped and (held is None or held.window.fault != window.fault):
                file = turns_file(group, session)
                log.warning("conversation.skipped", file=file, lines=window.skipped, newest=window.fault)
            if held is None:
                self._sessions[key] = held = _Session(window, 0.0)
            held.window = window
            self._use(key, held)
            if len(self._sessions) > self._max_sessions:
                self._evict()
            return window

    def _use(self, key: tuple[str, str], held: _Session) -> None:
        held.used = self.clock()
        self._sessions.move_to_end(key)

    def since(self, group: str, session: str, after: int, most: int, *, window: Window | None = None) -> Sequence[Turn]:
        """Return the turns with a higher number than `after`, the newest `most`, oldest first. Raises WorldFailed.

        Args:
            window: the window, where it was loaded just now.
        """
        if window is None:
            window = self.load(group, session)
        wanted = min(window.last_number - after, most)
        if wanted > len(window.turns) == self._window_turns:
            window = self._read(group, session, wanted)
        return [turn for turn in window.turns[-most:] if turn.number > after]

    def _read(self, group: str, session: str, size: int) -> Window:
        """Return the newest turns of a log. Raises WorldFailed."""
        with self._log_of(group, session) as path:
            return read_window(path, size)

    @contextlib.contextmanager
    def _log_of(self, group: str, session: str) -> Iterator[Path]:
        """Yield the path of a log. Raises WorldFailed instead of OSError and NotRegular."""
        path = self.home / turns_file(group, session)
        try:
            yield path
        except NotRegular as error:
            raise WorldFailed(f"{path} is {error} where the host needs a file: move it away") from None
        except OSError as error:
            raise WorldFailed(f"{path} cannot be read ({error.strerror}): the host needs a plain file there") from error

    def next_number(self, group: str, session: str) -> int:
        """Return the number of the next turn. The session must be loaded."""
        held = self._sessions[group, session]
        return held.window.last_number + len(held.ahead) + 1

    def newest(self, group: str, session: str) -> int | None:
        """Return the number of the newest turn, decided or written; None: the session is not in memory. Any thread."""
        held = self._sessions.get((group, session))
        return None if held is None else held.window.last_number + len(held.ahead)

    def last_at(self, group: str, session: str) -> datetime | None:
        """Return the time of the newest turn, or None if there is none. The session must be loaded."""
        held = self._sessions[group, session]
        newest = held.ahead[-1:] or held.window.turns[-1:]
        return newest[0].at if newest else None

    def keyed(self, group: str, session: str, keys: Collection[str]) -> dict[str, Turn]:
        """Return key -> its turn, for those of `keys` that the log has. Raises WorldFailed."""
        with self._log_of(group, session) as path:
            return keyed_turns(path, keys)

    def stored(self, group: str, session: str, *, after: int, before: int, newest_first: bool) -> Iterator[LoggedTurn]:
        """Yield the turns between two numbers. Raises WorldFailed."""
        with self._log_of(group, session) as path:
            yield from stored_turns(path, after=after, before=before, newest_first=newest_first)

    def decided(self, group: str, session: str) -> Sequence[Turn]:
        """Return the turns decided in this batch, which no log has yet. The session must be loaded."""
        return self._sessions[group, session].ahead

    def marked(self, group: str, session: str) -> Sequence[TurnsMarked]:
        """Return the marks on turns that were decided in this batch. The session must be loaded."""
        return self._sessions[group, session].marked

    def apply(self, change: Change) -> None:
        """Note a turn, or a mark on turns, that was decided and is not written yet."""
        if isinstance(change, TurnAdded | TurnsMarked):
            key = (change.group, change.session)
            held = self._sessions[key]
            if isinstance(change, TurnAdded):
                held.ahead.append(change.turn)
            else:
                held.marked.append(change)
            self._ahead.add(key)

    def end_batch(self, written: Iterable[Change]) -> None:
        """Drop applied changes and note the written ones."""
        with self._lock:
            for key in self._ahead:
                held = self._sessions[key]
                held.ahead.clear()
                held.marked.clear()
            self._ahead.clear()
            marked: set[tuple[str, str]] = set()
            by_session: dict[tuple[str, str], list[TurnAdded]] = {}
            for change in written:
                if isinstance(change, TurnAdded):
                    by_session.setdefault((change.group, change.session), []).append(change)
                elif isinstance(change, TurnsMarked):
                    marked.add((change.group, change.session))
            for key, changes in by_session.items():
                held = self._sessions[key]
                held.window = self._grown(held.window, changes)
                self._use(key, held)
            for key in marked:
                held = self._sessions[key]
                held.window = replace(held.window, signature=NEVER_SEEN)  # the next `load` reads it

    def _grown(self, window: Window, changes: Sequence[TurnAdded]) -> Window:
        """Return the window with turns that were just appended to its log."""
        # a query may have read the log since they were written to it
        turns = [change.turn for change in changes if change.turn.number > window.last_number]
        last_number = max(window.last_number, changes[-1].turn.number)
        signature = signature_of(self.home / changes[0].file)
        if signature is not None and window.signature is not None:
            expected = window.signature.size + sum(len(change.data) for change in changes)
            may_be_torn = window.is_young and window.skipped  # it was read while the last line was written
            if signature.inode != window.signature.inode or signature.size > expected or may_be_torn:
                signature = NEVER_SEEN  # somebody else has changed it: the next `load` reads it
        turns = [*window.turns, *turns][-self._window_turns :]
        return Window(tuple(turns), last_number, window.skipped, signature, window.fault)

    def evict(self) -> int:
        """Drop sessions that were idle too long, and the least recently used ones over the limit; return how many."""
        with self._lock:
            return self._evict()

    def _evict(self) -> int:
        now = self.clock()
        over = len(self._sessions) - self._max_sessions
        gone: list[tuple[str, str]] = []
        for key, held in self._sessions.items():  # the least recently used first
            unused = now - held.used
            if unused < _IN_USE_SECONDS or (unused <= self._idle_seconds and len(gone) >= over):
                break
            if not held.ahead:
                gone.append(key)
        for key in gone:
            del self._sessions[key]
        return len(gone)


MIN_KEPT: Final = 2  # turns that stay at least when older ones are consolidated (AB1)
# Turns that stay at most when older ones are consolidated, and that are replayed at most without consolidation (AB1).
MAX_KEPT: Final = 10


class Watermark(Edited):
    """The last consolidated turn of a session, and turns to consolidate again.

    Args:
        turn: number of the last consolidated turn; 0: none.
        at: when it was consolidated.
        proposal: id of the proposal that did it.
        part: SHA-256 of the session's part of summary.md as it was written; any other was edited by a person.
        again: first and last number of turns to consolidate again: their pass was reverted, later ones were not.
    """

    v: Literal[1] = 1
    turn: Count
    at: Stamp | None = None
    proposal: str = ""
    part: str | None = None
    again: Annotated[tuple[Annotated[tuple[Count, Count], Field(strict=False)], ...], Field(strict=False)] = ()


def watermark_file(group: str, session: str) -> str:
    return f"data/consolidated/{group}/{session}.json"


def inferred_file(group: str) -> str:
    """Return the path, below the home folder, of the time up to which a group's turns were read for preferences."""
    return f"data/consolidated/{group}.json"


def dreamt_file(group: str) -> str:
    """Return the path, below the home folder, of the time of a group's last dream."""
    return f"data/consolidated/{group}.dream.json"


def parse_watermark(data: bytes | None) -> Watermark | None:
    """Return the content of a file, or None if it does not exist. Raises ValueError: names the fault."""
    if data is None:
        return None
    return checked(Watermark, read_json(data))


def dump_watermark(mark: Watermark) -> bytes:
    return orjson.dumps(mark.model_dump(exclude_none=True), option=orjson.OPT_APPEND_NEWLINE)


class Watermarks:
    """Reads watermarks. Any thread."""

    def __init__(self, kept: KeptFiles) -> None:
        self._kept = kept

    def read(self, group: str, session: str) -> Watermark | None:
        """Return a session's watermark, or None if it has none. An unreadable one is logged and counts as none."""
        return self.of(watermark_file(group, session))

    def of(self, file: str) -> Watermark | None:
        """Return the watermark in a file; see `read`."""
        try:
            return self._kept.value(file, lambda _: parse_watermark(read_whole(self._kept.home / file)))
        except (ValueError, WorldFailed) as error:
            log.warning("watermark.refused", file=file, why=str(error), now_what="remove the file: it is made again")
            return None

    def sessions(self, group: str) -> frozenset[str]:
        """Return the sessions of a group that have a watermark."""
        names = names_in(f"{self._kept.home}/data/consolidated/{group}")
        return frozenset(name.removesuffix(".json") for name in names)


def begins_after(last_number: int, mark: Watermark | None, memory_window: int) -> int:
    """Return the number of the last turn before a session's active window.

    In a log without a watermark the window begins with the newest turns, so that no model is paid to read a long past.

    Args:
        last_number: number of the newest turn.
    """
    if mark is not None and mark.turn <= last_number:  # else the log was removed and began again
        return mark.turn
    return last_number - memory_window if last_number > 2 * max(memory_window, MAX_KEPT) else 0


def kept_turns(memory_window: int) -> int:
    """Return how many of the newest turns stay when the older ones are consolidated. Source: AB1."""
    return min(MAX_KEPT, max(MIN_KEPT, memory_window // 2))


def replayed(turns: Sequence[Turn], after: int, least: int, memory_window: int) -> Sequence[Turn]:
    """Return the turns that a context replays: all that are not consolidated, and at least the newest ones.

    Args:
        turns: oldest first.
        after: see `begins_after`.
        least: minimum number of turns to replay, consolidated or not.
        memory_window: 0: nothing is consolidated, and the newest ten are replayed at most.
    """
    if not memory_window:
        return turns[-min(least, MAX_KEPT) :]
    open_turns = len(turns) - bisect_right(turns, after, key=attrgetter("number"))
    return turns[-max(least, open_turns) :]
