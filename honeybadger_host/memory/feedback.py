"""Feedback on answers, in a log of the group (RB13): neither searched nor shown, only passes over memory read it."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import orjson
from pydantic import Field

from honeybadger_agent.wire import FeedbackKind
from honeybadger_host.files.safe_files import opened_plain
from honeybadger_host.memory.edited import Edited, Stamp, checked_lines
from honeybadger_host.memory.turn_log import lines_back
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import Turn

FEEDBACK_SESSION = "data:feedback"  # the session of feedback that is shown as turns, see `as_turn`


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
    found: dict[tuple[str, str], Feedback] = {}
    with opened_plain(home / feedback_file(group)) as opened:
        if opened is None:
            return []
        fd, size = opened
        lines = (line for _, line in lines_back(fd, size))
        for feedback in checked_lines(Feedback, lines, "feedback.skipped"):
            if feedback.at < since or len(found) == most:
                break
            found.setdefault((feedback.by, feedback.request or str(feedback.at)), feedback)
    return [*found.values()][::-1]


def as_turn(feedback: Feedback) -> Turn:
    """Return feedback as a turn that evidence can name, in the session `FEEDBACK_SESSION`.

    Its number is its time in milliseconds, so it stays the same whatever people delete from the file.
    """
    number = int(feedback.at.timestamp() * 1000)
    tokens = estimate_tokens(feedback.content)
    return Turn(number, feedback.at, "user", feedback.by, feedback.by, feedback.content, tokens)
