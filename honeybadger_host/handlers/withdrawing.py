"""`withdraw_turns`: the last turns of a conversation are taken back, and `undo` restores them; the log keeps all."""

from collections.abc import Sequence
from datetime import datetime

from honeybadger_agent.wire import MAX_NUMBER, Refusal, WithdrawTurns
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.journal.changes import Added, Change, MarkedKind
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.session_document import with_restored, without_turns
from honeybadger_host.memory.turn_log import (
    LoggedTurn,
    Mark,
    dump_mark,
    is_withdrawn,
    parse_mark,
    ranges_of,
    session_of,
    turns_file,
)
from honeybadger_host.text.turn import Turn


def withdraw_turns(deps: Dependencies, asked: Asked[WithdrawTurns], now: datetime) -> Outcome:
    """Withdraw the turns from a number on. Raises Refusal."""
    logs, group, session, first = deps.turn_logs, asked.group, asked.session, asked.payload.from_turn
    last = logs.next_number(group, session) - 1
    if first > last:
        what = f"its last turn is {last}" if last else "nothing was said in it"
        raise Refusal("not_found", f"session {session} has no turn {first}: {what}", field="payload.from_turn")
    decided = logs.view(group, session)
    if not all(mark.is_withdrawal for mark in decided.marked):
        raise Refusal("conflict", "turns were restored meanwhile: nothing was withdrawn, send it again")
    standing = [each.turn for each in _logged(deps, group, session, first, MAX_NUMBER) if not each.is_withdrawn]
    later = [turn for turn in decided.ahead if turn.number >= first]
    turns = [turn for turn in (*standing, *later) if not is_withdrawn(turn.number, decided.marked)]
    consolidated = deps.watermarks.read(group, session)
    told = 0 if consolidated is None else consolidated.turn
    result = {"withdrawn": len(turns), "told": sum(turn.number <= told for turn in turns)}
    return Outcome(result, _marked(deps, asked, session, "turns_withdrawn", turns, now) if turns else ())


def _logged(deps: Dependencies, group: str, session: str, first: int, last: int) -> list[LoggedTurn]:
    """Return what the log of a session has of some turns. Raises WorldFailed."""
    return list(deps.turn_logs.stored(group, session, after=first - 1, before=last + 1, newest_first=True))[::-1]


def _marked(
    deps: Dependencies, asked: Asked, session: str, kind: MarkedKind, turns: Sequence[Turn], now: datetime
) -> tuple[Change, ...]:
    """Return the changes that mark turns in the log, and take them out of its document or restore them."""
    group = asked.group
    mark = Mark(kind == "turns_withdrawn", ranges_of([turn.number for turn in turns]))
    line = dump_mark(mark, now, asked.sender, asked.request_id)
    changes: tuple[Change, ...] = (Added(kind, group, turns_file(group, session), line),)
    view = deps.sessions.view(group, session)
    document = (without_turns if mark.is_withdrawal else with_restored)(view.document, turns)
    if view.data is None or document == view.document:
        return changes
    return (*changes, deps.sessions.write(group, session, document))


def undone_mark(deps: Dependencies, asked: Asked, row: Row, now: datetime) -> Sequence[tuple[Change, str]]:
    """Return the changes that undo a withdrawal, or a restoration. Raises Refusal, WorldFailed.

    Args:
        row: a change of kind `MarkedKind`.
    """
    session = session_of(row.file)
    mark = parse_mark(row.data)
    assert mark is not None  # noqa: S101  the host wrote it
    first, last = min(start for start, _ in mark.ranges), max(end for _, end in mark.ranges)
    logged = [each for each in _logged(deps, row.group, session, first, last) if mark.names(each.turn.number)]
    turns = [each.turn for each in logged if each.is_withdrawn == mark.is_withdrawal]
    if not turns or deps.turn_logs.view(asked.group, session).marked:
        what = "stands again" if mark.is_withdrawal else "is withdrawn again"
        raise Refusal(
            "conflict",
            f"what change {row.seq} marked {what}, or just changed; nothing was changed",
            field="payload.seq",
        )
    kind: MarkedKind = "turns_restored" if mark.is_withdrawal else "turns_withdrawn"
    did = "restored" if mark.is_withdrawal else "removed"
    return [(change, did) for change in _marked(deps, asked, session, kind, turns, now)]
