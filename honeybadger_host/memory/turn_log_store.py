"""The logs of all sessions, with the turns of a batch that are decided and not written (AM1, AB5); watermarks (AB1).

`data/consolidated/<group>/<session>.json` is the watermark: the turns up to it are in HISTORY.md and summary.md; they
stay in the log. Later turns are replayed, so there is no gap between a summary and the turns below it.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import Field

from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import KeptFiles
from honeybadger_host.files.safe_files import names_in, needed
from honeybadger_host.journal.changes import MARKED, Change, TurnAdded, read_whole
from honeybadger_host.log import log
from honeybadger_host.memory.edited import Count, Edited, Stamp, checked, read_json
from honeybadger_host.memory.turn_log import (
    LoggedTurn,
    Mark,
    Window,
    imported_turns,
    is_withdrawn,
    keyed_turns,
    parse_mark,
    parse_turn,
    read_window,
    session_of,
    stored_turns,
    turns_file,
)
from honeybadger_host.text.turn import Turn

# Newest turns of a session that are replayed, folded into its document, or read by a pass.
MAX_READ = 2000


@dataclass(slots=True)
class BatchSession:
    """A session in a batch.

    Args:
        window: as the log was when the batch began.
        ahead: turns decided in this batch; `marked`: withdrawals and restorations of turns, the newest first.
    """

    window: Window
    ahead: list[Turn] = field(default_factory=list)
    marked: list[Mark] = field(default_factory=list)

    @property
    def newest(self) -> int:
        """Return the number of the newest turn, decided or written."""
        return self.window.last_number + len(self.ahead)


class TurnLogs:
    """The logs of all sessions. For a batch see `journal.changes`; other reads may run on any thread.

    Args:
        window_turns: turns in the window of each session.
        clock: monotonic seconds.
        unwritten: returns the lines that the journal has and a log lacks, because it could not be written.
    """

    def __init__(
        self,
        home: Path,
        *,
        window_turns: int,
        clock: Callable[[], float],
        unwritten: Callable[[str], Sequence[bytes]] = lambda file: (),
    ) -> None:
        self.home = home
        self._window_turns = window_turns
        self.clock = clock
        self._unwritten = unwritten
        self._batch: dict[tuple[str, str], BatchSession] = {}
        self._told: dict[str, str] = {}  # log -> the fault in it that was logged last

    # ------------------------------------------------------------------------------------------------------- one batch

    def view(self, group: str, session: str) -> BatchSession:
        """Return a session with everything decided so far. Raises WorldFailed if its log is not a plain file."""
        if (group, session) not in self._batch:
            self._batch[group, session] = BatchSession(self.window(group, session))
        return self._batch[group, session]

    def next_number(self, group: str, session: str) -> int:
        """Return the number of the next turn. Raises as `view`."""
        return self.view(group, session).newest + 1

    def last_at(self, group: str, session: str) -> datetime | None:
        """Return the time of the newest turn, or None if there is none. Raises as `view`."""
        held = self.view(group, session)
        newest = held.ahead[-1:] or held.window.turns[-1:]
        return newest[0].at if newest else None

    def decided_since(self, group: str, session: str, after: int) -> Sequence[Turn]:
        """Return what `since` returns, with everything decided in this batch. Raises as `view`."""
        held = self.view(group, session)
        turns = [*self.since(group, session, after, window=held.window), *held.ahead]
        first = bisect_right(turns, after, key=attrgetter("number"))
        return [turn for turn in turns[first:] if not (held.marked and is_withdrawn(turn.number, held.marked))]

    def apply(self, change: Change) -> None:
        """Note a turn, or a mark on turns, that was decided and is not written yet."""
        if isinstance(change, TurnAdded):
            self._batch[change.group, change.session].ahead.append(change.turn)
        elif change.row_kind in MARKED and (mark := parse_mark(change.data)) is not None:
            self._batch[change.group, session_of(change.file)].marked.insert(0, mark)

    def end_batch(self, written: Sequence[Change]) -> None:
        """Drop everything: the logs have what was written."""
        self._batch.clear()

    # --------------------------------------------------------------------------------------------------------- reading

    def window(self, group: str, session: str) -> Window:
        """Return the newest turns. Raises WorldFailed if the log is not a plain file."""
        return self._read(group, session, self._window_turns)

    def newest(self, group: str, session: str) -> int | None:
        """Return the number of the newest turn, decided or written; None: the session is in no batch."""
        held = self._batch.get((group, session))
        return None if held is None else held.newest

    def since(self, group: str, session: str, after: int, *, window: Window | None = None) -> Sequence[Turn]:
        """Return the turns with a higher number than `after`, the newest `MAX_READ`, oldest first. Raises WorldFailed.

        Args:
            window: the window, where it was read just now.
        """
        if window is None:
            window = self.window(group, session)
        wanted = min(window.last_number - after, MAX_READ)
        if wanted > len(window.turns) == self._window_turns:
            window = self._read(group, session, wanted)
        return [turn for turn in window.turns if turn.number > after]

    def keyed(self, group: str, session: str, keys: Collection[str]) -> dict[str, Turn]:
        """Return key -> its turn, for `keys` that the log has or this batch has decided. Raises WorldFailed."""
        with needed(path := self._log_of(group, session)):
            known = keyed_turns(path, keys, self._unwritten(turns_file(group, session)))
        return known | {turn.key: turn for turn in self.view(group, session).ahead if turn.key is not None}

    def imported(self, group: str, session: str) -> set[str]:
        """Return the ids of imported turns, with everything decided in this batch. Raises WorldFailed."""
        with needed(path := self._log_of(group, session)):
            known = imported_turns(path, self._unwritten(turns_file(group, session)))
        return known | {turn.key for turn in self.view(group, session).ahead if turn.key is not None}

    def stored(self, group: str, session: str, *, after: int, before: int, newest_first: bool) -> Iterator[LoggedTurn]:
        """Yield the turns between two numbers. Raises WorldFailed."""
        with needed(path := self._log_of(group, session)):
            yield from stored_turns(path, after=after, before=before, newest_first=newest_first)

    def _read(self, group: str, session: str, size: int) -> Window:
        """Return the newest turns of a log, with those that could not be written. Raises WorldFailed."""
        file = turns_file(group, session)
        unwritten = self._unwritten(file)  # before the log: it may be written to just now
        with needed(path := self._log_of(group, session)):
            window = read_window(path, size)
        if window.fault and window.fault != self._told.get(file):
            self._told[file] = window.fault
            log.warning("conversation.skipped", file=file, lines=window.skipped, newest=window.fault)
        for line in unwritten:
            if parse_mark(line) is None and (turn := parse_turn(line)).number > window.last_number:
                window = replace(window, turns=(*window.turns, turn)[-size:], last_number=turn.number)
        return window

    def _log_of(self, group: str, session: str) -> Path:
        return self.home / turns_file(group, session)


MIN_KEPT = 2  # turns that stay at least when older ones are consolidated (AB1)
# Turns that stay at most when older ones are consolidated, and that are replayed at most without consolidation (AB1).
MAX_KEPT = 10


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
    return None if data is None else checked(Watermark, read_json(data))


def mark_in(data: bytes | None) -> Watermark:
    """Return the content of a file; that of none if there is no file, or it cannot be read."""
    try:
        return parse_watermark(data) or Watermark(turn=0)
    except ValueError:
        return Watermark(turn=0)


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
        folder = self._kept.home / "data/consolidated" / group
        return frozenset(name.removesuffix(".json") for name in names_in(folder))


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
