"""The last consolidated turn of each session, and the turns that contexts replay (AB1, AB5).

`data/consolidated/<group>/<session>.json` is the watermark: the turns up to it are in HISTORY.md and summary.md; they
stay in the log. Later turns are replayed, so there is no gap between a summary and the turns below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import orjson
import structlog
from pydantic import Field

from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import KeptFiles
from honeybadger_host.files.safe_files import names_in
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.memory.edited import Count, Edited, Stamp, checked, read_json
from honeybadger_host.text.turn import Turn

log = structlog.get_logger()

MIN_KEPT: Final = 2  # turns that stay at least when older ones are consolidated (AB1)
# Turns that stay at most when older ones are consolidated, and that are replayed at most without consolidation (AB1).
MAX_KEPT: Final = 10


class Watermark(Edited):
    """The last consolidated turn of a session, and its passes.

    Args:
        turn: number of the last consolidated turn; 0: none.
        at: when it was consolidated.
        proposal: id of the proposal that did it.
        part: SHA-256 of the session's part of summary.md as it was written; any other was edited by a person.
        passes: how often it was consolidated, reverted passes included.
        again: first and last number of turns to consolidate again: their pass was reverted, later ones were not.
    """

    v: Literal[1] = 1
    turn: Count
    at: Stamp | None = None
    proposal: str = ""
    part: str | None = None
    passes: Annotated[Count, Field(default=0)] = 0
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
            return self._kept.value(file, lambda: parse_watermark(read_whole(self._kept.home / file)))
        except (ValueError, WorldFailed) as error:
            log.warning("watermark.refused", file=file, why=str(error), now_what="remove the file: it is made again")
            return None

    def sessions(self, group: str) -> frozenset[str]:
        """Return the sessions of a group that have a watermark."""
        names = names_in(self._kept.home / "data" / "consolidated" / group)
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
    open_turns = sum(turn.number > after for turn in turns)
    return turns[-max(least, open_turns) :]
