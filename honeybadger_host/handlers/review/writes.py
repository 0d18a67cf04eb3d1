"""Writes that wait for a decision, in a group whose `memory.writes` is `review`.

An ordinary write waits as a proposal. It is tried at once, so that its sender gets its errors, but its changes are not
made. The proposal keeps the request itself, without credentials. Accepting it decides it with the same handler, signed
by the sender who asked for it (docs/decisions/032-what-a-save-meets.md).
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_agent.wire import (
    REQUEST_TYPES,
    ChangeMany,
    DeleteMemory,
    EditMemory,
    Refusal,
    SaveMemory,
    Wire,
    parse_members,
)
from honeybadger_host.curation.proposal import Operation, OperationState, Proposal, WriteAsked, dump_proposal
from honeybadger_host.curation.proposal_files import check_kept, decided, proposal_file
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.redaction import Texts
from honeybadger_host.journal.changes import Change, FileWritten, WholeFiles
from honeybadger_host.memory.entries.entry import memory_folder


def reviewed(
    handler: ChangeHandler[Any], files: WholeFiles, texts_of: Callable[[Asked], Texts], groups: Collection[str]
) -> ChangeHandler[Any]:
    """Return a handler whose changes wait in these groups, unless the operator asks."""

    def prepare(asked: Asked) -> Callable[[datetime], Outcome]:
        decide = partial(handler.decide, asked, handler.prepare(asked))
        if asked.group not in groups or asked.sender == OPERATOR:
            return decide
        files.load(proposal_file(asked.group, _id_of(asked)))
        texts = texts_of(asked)
        payload = texts.tree("payload", asked.payload.model_dump(mode="json", exclude_none=True))
        if asked.payload.type_name == "update_memory":
            section, payload["content"] = texts.note(payload.get("section", ""), payload["content"])
            payload |= {"section": section} if section else {}
        return lambda now: _proposed(files, asked, payload, decide(now).result, now)

    return ChangeHandler(lambda asked, decide, now: decide(now), prepare)


def _proposed(
    files: WholeFiles, asked: Asked, payload: dict[str, Any], result: Mapping[str, Any], now: datetime
) -> Outcome:
    """Return the proposal that a write becomes.

    Args:
        payload: its payload without credentials.
        result: the answer of its trial.
    """
    if "content" in payload and "content" in result:
        payload["content"] = result["content"]  # screened below its title, too
    sources = _sources_of(asked.payload, result)
    operation = Operation(
        n=1,
        op="write",
        sources=sources,
        result=payload.get("content"),
        write=WriteAsked(type=asked.payload.type_name, session=asked.session, payload=payload),
        why=f"{asked.payload.type_name} by {asked.sender}",
    )
    proposal = Proposal(
        id=_id_of(asked),
        group=asked.group,
        kind="write",
        made_at=now,
        by=asked.sender,
        base=_digests(files, asked.group, sources),
        operations=(operation,),
    )
    file = proposal_file(asked.group, proposal.id)
    change = FileWritten(asked.group, "proposal", file, dump_proposal(proposal), files.view(file))
    return Outcome({**result, "proposal": proposal.id}, (change,))


@dataclass(frozen=True, slots=True)
class Accepting:
    """Accepted writes.

    Args:
        handlers: request type -> the handler that decides it.
        chosen: numbers of the operations.
        kept: bytes of the proposal's file.
    """

    handlers: Mapping[str, ChangeHandler[Any]]
    files: WholeFiles
    proposal: Proposal
    chosen: Collection[int]
    kept: bytes

    def prepare(self, asked: Asked) -> Sequence[tuple[Operation, Asked, Any]]:
        """Load what the writes need. Raises Refusal, WorldFailed."""
        found = []
        for operation in self.proposal.operations:
            if operation.n in self.chosen and operation.write is not None:
                write = self._asked(asked, operation, operation.write)
                found.append((operation, write, self.handlers[operation.write.type].prepare(write)))
        return found

    def decide(self, asked: Asked, prepared: Sequence[tuple[Operation, Asked, Any]], now: datetime) -> Outcome:
        """Decide the writes. Raises Refusal if one is no longer valid; it stays pending."""
        check_kept(self.files, self.proposal, self.kept)
        changes: list[Change] = []
        states: dict[int, OperationState] = {}
        for operation, write, loaded in prepared:
            base = {source: self.proposal.base[source] for source in operation.sources if source in self.proposal.base}
            if _digests(self.files, asked.group, operation.sources) != base:
                states[operation.n] = "stale"
                continue
            changes += self.handlers[write.payload.type_name].decide(write, loaded, now).changes
            states[operation.n] = "applied"
        return decided(self.proposal, states, self.kept, changes)

    def _asked(self, asked: Asked, operation: Operation, write: WriteAsked) -> Asked:
        """Return a write as it was asked, with the text that the proposal has now. Raises Refusal."""
        payload = write.payload | ({} if operation.result is None else {"content": operation.result})
        try:
            model = parse_members(REQUEST_TYPES[write.type], payload)
        except Refusal as refusal:
            why = f"operation {operation.n} of {self.proposal.id}: {refusal.message}; edit it, or strike it"
            raise Refusal("conflict", why, field="payload.operations") from None
        return replace(asked, sender=self.proposal.by, session=write.session, payload=model)


def _id_of(asked: Asked) -> str:
    """Return the id of the proposal that a request becomes, the same whenever it is sent."""
    what = f"{asked.group}\0{asked.sender}\0{asked.request_id}"
    return f"write-{hashlib.sha256(what.encode()).hexdigest()[:16]}"


def _sources_of(payload: Wire, result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the entries that a write changes or archives, each once.

    Args:
        result: the answer of its trial, which has the id of an entry that the request calls by its name.
    """
    match payload:
        case ChangeMany(operations=operations):
            found: list[str] = []
            for operation, one in zip(operations, result["results"], strict=True):
                found += _sources_of(parse_members(REQUEST_TYPES[operation.type], operation.payload), one)
            return tuple(dict.fromkeys(found))
        case EditMemory(id=id_, supersedes=ids):
            return tuple(dict.fromkeys((id_, *(ids or ()))))
        case DeleteMemory():
            return (str(result["id"]),)
        case SaveMemory(supersedes=ids, replace=True):
            return tuple(dict.fromkeys((str(result["id"]), *(ids or ()))))
        case SaveMemory(supersedes=ids):
            return tuple(dict.fromkeys(ids or ()))
    return ()


def _digests(files: WholeFiles, group: str, ids: Collection[str]) -> dict[str, str]:
    """Return id -> SHA-256 of the entry's file; missing entries are left out."""
    digests: dict[str, str] = {}
    for id_ in ids:
        for file in files.named(memory_folder(group), f"{id_}.json"):
            digests[id_] = hashlib.sha256(files.view(file) or b"").hexdigest()
    return digests
