"""`record_feedback`: feedback on an answer or a tool is kept for the passes over memory (RB13)."""

from __future__ import annotations

from datetime import datetime

from honeybadger_agent.wire import RecordFeedback, Refusal
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.redaction import Screen, with_neutralised
from honeybadger_host.journal.changes import Added
from honeybadger_host.memory.feedback import Feedback, dump_feedback
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.text.neutralise import is_blank, neutralise
from honeybadger_host.text.time_stamps import to_milliseconds


def record_feedback(turn_logs: TurnLogs | None, screen: Screen) -> ChangeHandler[None]:
    """Return the handler of `record_feedback`.

    Args:
        turn_logs: None when no conversation is kept.
    """

    def prepare(asked: Asked) -> None:
        if turn_logs is not None:
            turn_logs.load(asked.group, asked.session)

    def decide(asked: Asked, prepared: None, now: datetime) -> Outcome:
        payload: RecordFeedback = asked.payload
        screen.path("session", asked.session)
        content, changed = screen.text(asked, "payload.content", payload.content or "")
        if payload.kind == "correction" and is_blank(neutralise(content).text):
            why = "payload.content is needed for a correction: say what was wrong, and what to do instead"
            raise Refusal("invalid", why, field="payload.content")
        last = 0 if turn_logs is None else turn_logs.next_number(asked.group, asked.session) - 1
        if payload.turn is not None and payload.turn > last:
            why = f"session {asked.session} has no turn {payload.turn}, its newest is {last}: leave `turn` out for that"
            raise Refusal("not_found", why, field="payload.turn")
        feedback = Feedback(
            at=to_milliseconds(now),
            kind=payload.kind,
            content=content,
            session=asked.session,
            turn=payload.turn or last or None,
            by=asked.sender,
            request=asked.request_id,
        )
        result = with_neutralised({"turn": feedback.turn}, changed)
        return Outcome(result, (Added.of("feedback", asked.group, dump_feedback(feedback)),))

    return ChangeHandler(decide, prepare)
