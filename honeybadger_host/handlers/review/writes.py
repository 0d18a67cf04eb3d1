"""Writes that wait for a decision, in a group whose `memory.writes` is `review`.

An ordinary write waits as a proposal. It is tried at once, so that its sender gets its errors, but its changes are not
made. The proposal keeps the request itself, without credentials. Accepting it decides it with the same handler, signed
by the sender who asked for it (docs/decisions/032-what-a-save-meets.md).
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_agent.wire import (
    REQUEST_TYPES,
    Refusal,
    SaveMemory,
    Wire,
    parse_members,
)
from honeybadger_host.curation.proposal import Operation, OperationState, Proposal, WriteAsked, dump_proposal
from honeybadger_host.curation.proposal_files import decided, proposal_file
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.journal.changes import Change, FileWritten
from honeybadger_host.memory.entries.entry import name_in


def reviewed(deps: Dependencies, handler: ChangeHandler, groups: Collection[str]) -> ChangeHandler:
    """Return a handler whose changes wait in these groups, unless the operator asks."""

    def decide(asked: Asked, now: datetime) -> Outcome:
        outcome = handler.decide(asked, now)
        if asked.group not in groups or asked.sender == OPERATOR:
            return outcome
        texts = deps.texts(asked)
        payload = texts.tree("payload", asked.payload.model_dump(mode="json", exclude_none=True))
        if asked.payload.type_name == "update_memory":
            section, payload["content"] = texts.note(payload.get("section", ""), payload["content"])
            payload |= {"section": section} if section else {}
        return _proposed(deps, asked, payload, outcome, now)

    return ChangeHandler(decide)


def _proposed(deps: Dependencies, asked: Asked, payload: dict[str, Any], trial: Outcome, now: datetime) -> Outcome:
    """Return the proposal that a write becomes.

    Args:
        payload: its payload without credentials.
        trial: what it would do now.
    """
    content = payload.pop("content", None)  # a person edits it in `result` alone
    if content is not None:
        content = trial.result.get("content", content)  # screened below its title, too
    sources = _sources_of(asked.payload, trial.changes)
    digest = hashlib.sha256(f"{asked.group}\0{asked.sender}\0{asked.request_id}".encode()).hexdigest()
    operation = Operation(
        n=1,
        op="write",
        sources=sources,
        result=content,
        write=WriteAsked(type=asked.payload.type_name, session=asked.session, payload=payload),
        why=f"{asked.payload.type_name} by {asked.sender}",
    )
    proposal = Proposal(
        id=f"write-{digest[:16]}",  # the same whenever it is sent
        group=asked.group,
        kind="write",
        made_at=now,
        by=asked.sender,
        base=_digests(deps, asked.group, sources),
        operations=(operation,),
    )
    file = proposal_file(asked.group, proposal.id)
    change = FileWritten(asked.group, "proposal", file, dump_proposal(proposal), deps.whole_files.view(file))
    return Outcome({**trial.result, "proposal": proposal.id}, (change,))


def accepted(
    deps: Dependencies,
    handlers: Mapping[str, ChangeHandler],
    asked: Asked,
    now: datetime,
    proposal: Proposal,
    chosen: Collection[int],
) -> Outcome:
    """Decide the writes of a proposal. Raises Refusal if one is no longer valid, which stays pending; WorldFailed.

    Args:
        handlers: request type -> its handler.
        chosen: numbers of the operations.
    """
    changes: list[Change] = []
    states: dict[int, OperationState] = {}
    for operation in proposal.operations:
        if operation.n not in chosen or operation.write is None:
            continue
        base = {source: proposal.base[source] for source in operation.sources if source in proposal.base}
        if _digests(deps, asked.group, operation.sources) != base:
            states[operation.n] = "stale"
            continue
        write = _asked(asked, proposal, operation, operation.write)
        changes += handlers[operation.write.type].decide(write, now).changes
        states[operation.n] = "applied"
    return decided(proposal, states, deps.whole_files.view(proposal_file(proposal.group, proposal.id)), changes)


def _asked(asked: Asked, proposal: Proposal, operation: Operation, write: WriteAsked) -> Asked:
    """Return a write as it was asked, with the text that the proposal has now. Raises Refusal."""
    payload = write.payload | ({} if operation.result is None else {"content": operation.result})
    try:
        model = parse_members(REQUEST_TYPES[write.type], payload)
    except Refusal as refusal:
        raise Refusal(
            "conflict",
            f"operation {operation.n} of {proposal.id}: {refusal.message}; edit it, or strike it",
            field="payload.operations",
        ) from None
    return replace(asked, sender=proposal.by, session=write.session, payload=model)


def _sources_of(payload: Wire, changes: Sequence[Change]) -> tuple[str, ...]:
    """Return the ids of the entries that a write changes or archives, each once.

    Args:
        changes: those of its trial. An entry of the same text is no source: whatever it is then, it is reinforced.
    """
    is_new = isinstance(payload, SaveMemory) and not payload.replace
    kinds = ("entry_removed",) if is_new else ("entry", "entry_removed")
    return tuple(dict.fromkeys(name_in(change.file) for change in changes if change.row_kind in kinds))


def _digests(deps: Dependencies, group: str, ids: Collection[str]) -> dict[str, str]:
    """Return id -> SHA-256 of the entry's file; missing entries are left out."""
    digests: dict[str, str] = {}
    for id_ in ids:
        for file in deps.entry_files.standing(deps.whole_files, group, id_):
            digests[id_] = hashlib.sha256(deps.whole_files.view(file) or b"").hexdigest()
    return digests
