"""`change_many`: several changes of entries in one commit, all of them or none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

from honeybadger_agent.wire import REQUEST_TYPES, ChangeMany, Refusal, parse_members
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.journal.changes import Change, FileRemoved, FileWritten, WholeFiles

_Handlers: TypeAlias = Mapping[str, ChangeHandler]  # request type -> its handler


def change_many(handlers: _Handlers, files: WholeFiles, asked: Asked[ChangeMany], now: datetime) -> Outcome:
    """Decide each operation as if those before it were done. Raises Refusal, WorldFailed."""
    results: list[Mapping[str, Any]] = []
    changes: list[Change] = []
    with files.trial():
        for place, operation in enumerate(asked.payload.operations):
            try:
                payload: Any = parse_members(REQUEST_TYPES[operation.type], operation.payload)
                outcome = handlers[operation.type].decide(replace(asked, payload=payload), now)
            except Refusal as refusal:
                where = f"payload.operations.{place}"
                raise Refusal(
                    refusal.code,
                    f"{where} ({operation.type}): {refusal.message}; none of the operations was done",
                    field=f"{where}.{refusal.field}" if refusal.field else where,
                ) from None
            for change in outcome.changes:
                files.apply(change)
            results.append(outcome.result)
            changes += outcome.changes
    return Outcome({"results": results}, tuple(_net(changes)))


def _net(changes: Sequence[Change]) -> list[Change]:
    """Return one change for each file, from its content before the first one to its content after the last."""
    first: dict[str, Change] = {}
    last: dict[str, Change] = {}
    for change in changes:
        first.setdefault(change.file, change)
        last[change.file] = change
    net: list[Change] = []
    for file, change in last.items():
        begun = first[file]
        held = begun.replaces if isinstance(begun, FileWritten) else begun.data
        if isinstance(change, FileWritten):
            net.append(replace(change, replaces=held))
        elif isinstance(change, FileRemoved) and held is not None:
            net.append(replace(change, data=held))  # else it was made and removed by the same request
    return net
