"""The files of a session's document (CM5): the document itself, and the record of its deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from honeybadger_host.memory.edited import Count, Edited, Time, read_json
from honeybadger_host.text.turn import Turn

SESSIONS: Final = "data/context"


def session_file(group: str, session: str) -> str:
    return f"{SESSIONS}/{group}/{session}.json"


def deleted_file(group: str, session: str) -> str:
    """Return the path, below the home, of the record of a deletion."""
    return f"{session_file(group, session)}.deleted"


class Deletion(Edited):
    """The record of the last deletion of a document.

    Args:
        turns: number of the last turn that the document leaves out; 0: nothing was deleted.
        context_begins_after: number of the last turn that contexts leave out, too; `context_begins_at` is when this was
            asked for.
    """

    turns: Count = 0
    context_begins_after: Count = 0
    context_begins_at: Time | None = None

    def left(self, turns: Sequence[Turn]) -> tuple[int, Sequence[Turn]]:
        """Return the number of the last turn that contexts leave out, and the shown turns."""
        return self.context_begins_after, [turn for turn in turns if self.shows(turn)]

    def shows(self, turn: Turn) -> bool:
        """Return whether contexts show a turn. A log that was removed by hand is numbered from 1 again."""
        since = self.context_begins_at
        return since is None or turn.number > self.context_begins_after or turn.at > since


def parse_deletion(data: bytes | None) -> Deletion:
    """Return the deletion that a file records. Raises ValueError."""
    return Deletion() if data is None else Deletion.model_validate(read_json(data))
