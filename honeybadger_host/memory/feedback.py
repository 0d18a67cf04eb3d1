"""Feedback of people and agents on answers and tools, one line of JSON each (RB13).

`data/feedback/<group>.jsonl` is a log. It is neither searched nor shown in a context; only the passes over memory read
its new lines. A line that is not feedback is skipped.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import orjson
import structlog
from pydantic import Field

from honeybadger_agent.wire import FeedbackKind
from honeybadger_host.files.safe_files import opened_plain
from honeybadger_host.memory.edited import Edited, Stamp, checked, read_json
from honeybadger_host.memory.turn_log import lines_back
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import Turn

log = structlog.get_logger()

FEEDBACK_SESSION: Final = "data:feedback"  # the session of feedback that is shown as turns, see `as_turn`
_MAX_BYTES: Final = 1 << 20  # bytes read from the end of the file: more than 50 of the longest lines


class Feedback(Edited):
    """One piece of feedback, and its line.

    Args:
        content: empty if only the kind was given.
        turn: number of the turn it is about; None if the session has no turns.
        by: the sender's folder it came from.
        request: id of the request.
    """

    at: Stamp
    kind: FeedbackKind
    content: str = ""
    session: str
    turn: Annotated[int, Field(ge=1)] | None = None
    by: str
    request: str = ""


def feedback_file(group: str) -> str:
    return f"data/feedback/{group}.jsonl"


def dump_feedback(feedback: Feedback) -> bytes:
    return orjson.dumps(feedback.model_dump(exclude_defaults=True), option=orjson.OPT_APPEND_NEWLINE)


def read_feedback(home: Path, group: str, since: datetime, most: int = 50) -> list[Feedback]:
    """Return a group's newest feedback, oldest first, each once. Raises OSError.

    Args:
        since: aware.
    """
    file = feedback_file(group)
    found: dict[tuple[str, str], Feedback] = {}
    with opened_plain(home / file) as opened:
        if opened is None:
            return []
        fd, size = opened
        for byte, line in lines_back(fd, size):
            if len(found) == most or byte < size - _MAX_BYTES:
                break
            if not line.strip():
                continue
            try:
                feedback = checked(Feedback, read_json(line))
            except ValueError as error:
                log.warning("feedback.skipped", file=file, why=str(error))
                continue
            if feedback.at >= since:
                found.setdefault((feedback.by, feedback.request or str(feedback.at)), feedback)
    return [*found.values()][::-1]


def as_turn(feedback: Feedback) -> Turn:
    """Return feedback as a turn that evidence can name, in the session `FEEDBACK_SESSION`.

    Its number is its time in milliseconds, so it stays the same whatever people delete from the file.
    """
    number = int(feedback.at.timestamp() * 1000)
    tokens = estimate_tokens(feedback.content)
    return Turn(number, feedback.at, "user", feedback.by, feedback.by, feedback.content, tokens)
