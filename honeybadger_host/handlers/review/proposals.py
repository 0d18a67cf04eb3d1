"""Proposals of curation and reviewed writes, the operator's decisions, and the passes that the operator asks for.

In a group whose `memory.writes` is `review` an ordinary write waits as a proposal. It is tried at once, so that its
sender gets its errors, but its changes are not made. The proposal keeps the request itself, without credentials.
Accepting it decides it with the same handler, signed by the sender who asked for it
(docs/decisions/032-what-a-save-meets.md).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import anyio.to_thread
from pydantic import ValidationError

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_agent.models.model import ModelFailed
from honeybadger_agent.wire import (
    REQUEST_TYPES,
    ChangeMany,
    DecideProposal,
    DeleteMemory,
    Dream,
    EditMemory,
    ListProposals,
    Refusal,
    SaveMemory,
    Wire,
    parse_members,
    refusal_of,
)
from honeybadger_agent.wire.proposals import UNDECIDED
from honeybadger_host.curation.applying import Applying
from honeybadger_host.curation.asking import OverBudget, WrongAnswer
from honeybadger_host.curation.dreams import Dreamt
from honeybadger_host.curation.proposal import Operation, OperationState, Proposal, WriteAsked, counts_of, dump_proposal
from honeybadger_host.curation.proposal_files import (
    check_kept,
    decided,
    proposal_file,
    proposal_in,
    stored,
    with_states,
)
from honeybadger_host.errors import FileProblem, WorldFailed
from honeybadger_host.files.home import MEMORY
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Keeps, Outcome, QueryHandler, WaitingHandler
from honeybadger_host.handlers.redaction import Screen
from honeybadger_host.handlers.review.reverting import Reverting
from honeybadger_host.journal.changes import Change, FileWritten, WholeFiles, read_whole
from honeybadger_host.memory.entries.entry import memory_folder
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.search.notes import NOTE_ID, notes_of
from honeybadger_host.search.sources import archive_of
from honeybadger_host.text.time_stamps import time_stamp

Consolidates: TypeAlias = Callable[[str, str], Coroutine[Any, Any, int]]
Dreams: TypeAlias = Callable[[str, bool], Coroutine[Any, Any, Dreamt]]


def list_proposals(home: Path, entries: EntryFiles) -> QueryHandler:
    """Return the handler of `list_proposals`: newest first; an unreadable one has its problem."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload: ListProposals = asked.payload
        if payload.proposal is not None:
            data = read_whole(home / proposal_file(asked.group, payload.proposal))
            proposal = _parsed(data, asked.group, payload.proposal)
            return {"proposals": [_shown(home, entries, proposal)], "left_out": 0}
        rows: list[dict[str, Any]] = []
        for name, known, problem, _ in stored(home, asked.group):
            row = _unreadable(asked.group, name, problem) if known is None else _row(known)
            if payload.every or row["waiting"] or row["refused"] or problem:
                rows.append(row)
        rows.sort(key=lambda row: (row["made_at"], row["id"]), reverse=True)
        return {"proposals": rows[: payload.limit], "left_out": max(0, len(rows) - payload.limit)}

    return QueryHandler(answer)


def decide_proposal(
    journal: Path, entries: EntryFiles, files: WholeFiles, writes: Mapping[str, ChangeHandler[Any]]
) -> ChangeHandler[tuple[Applying | Accepting | Reverting, Any]]:
    """Return the handler of `decide_proposal`. Accepting an operation by its number overrules its gates.

    Args:
        writes: see `Accepting`.
    """

    def prepare(asked: Asked) -> tuple[Applying | Accepting | Reverting, Any]:
        payload: DecideProposal = asked.payload
        file = proposal_file(asked.group, payload.proposal)
        edited = read_whole(entries.home / file)
        if edited is not None:
            _parsed(edited, asked.group, payload.proposal)  # else its last good version, without the edit, is decided
        data = files.load(file)
        proposal = _parsed(data, asked.group, payload.proposal)
        assert data is not None  # noqa: S101  it was parsed
        work = _work(payload, proposal, file, data)
        return work, work.prepare(asked)

    def _work(payload: DecideProposal, proposal: Proposal, file: str, data: bytes) -> Applying | Accepting | Reverting:
        if payload.decision == "revert":
            return Reverting(journal, files, proposal, data)
        chosen = _chosen(proposal, payload)
        is_struck = payload.decision == "strike"
        if payload.result is not None:
            proposal = _with_result(proposal, payload, chosen)
        proposal = with_states(proposal, dict.fromkeys(chosen, "struck" if is_struck else "waiting"))
        applied = frozenset[int]() if is_struck else chosen
        if proposal.kind == "write" and applied:
            return Accepting(writes, files, proposal, applied, data)
        return Applying(files, entries, proposal, lambda operation: operation.n in applied, proposal.made_at, data)

    def decide(asked: Asked, prepared: tuple[Applying | Accepting | Reverting, Any], now: datetime) -> Outcome:
        work, loaded = prepared
        return work.decide(asked, loaded, now)

    return ChangeHandler(decide, prepare)


def consolidate(turn_logs: TurnLogs, now: Consolidates | None, keep: Keeps) -> WaitingHandler:
    """Return the handler of `consolidate`: it waits for the job, which writes through the pipeline.

    Args:
        now: (group, session) -> number of the last consolidated turn, 0: none; None: nothing is consolidated here.
    """

    async def answer(asked: Asked) -> Mapping[str, Any]:
        if now is None:
            raise Refusal("invalid", "nothing is consolidated here: consolidation.memory_window is 0")
        try:
            up_to = await now(asked.group, asked.session)
        except (OverBudget, ModelFailed, WrongAnswer) as error:
            raise Refusal("unavailable", f"{error}; nothing was changed") from None
        if not up_to:
            log_of_it = await anyio.to_thread.run_sync(turn_logs.window, asked.group, asked.session)
            if not log_of_it.last_number:
                raise Refusal("not_found", f"nothing was said in session {asked.session!r} of group {asked.group}")
        told = f"session {asked.session} is consolidated up to turn {up_to}" if up_to else "there is nothing to do"
        result = {"up_to": up_to, "told": told}
        await keep(asked, result)
        return result

    return WaitingHandler(answer)


def dream(home: Path, entries: EntryFiles, now: Dreams, keep: Keeps) -> WaitingHandler:
    """Return the handler of `dream`: it waits for the pass, which writes through the pipeline.

    Args:
        now: (group, whether it is a trial) -> the dream that was made.
    """

    async def answer(asked: Asked) -> Mapping[str, Any]:
        payload: Dream = asked.payload
        try:
            dreamt = await now(asked.group, payload.dry_run)
        except (OverBudget, ModelFailed, WrongAnswer, WorldFailed, FileProblem) as error:
            raise Refusal("unavailable", f"{error}; nothing was changed") from None
        shown = [
            {**await anyio.to_thread.run_sync(_shown, home, entries, proposal, payload.dry_run), **counts}
            for proposal, counts in dreamt.proposals
        ]
        counts = {"looked_at": dreamt.looked_at, "left_out": dreamt.left_out}
        result = {"proposals": shown, **counts, "told": dreamt.told}
        if not payload.dry_run:
            await keep(asked, result)
        return result

    return WaitingHandler(answer)


def _shown(home: Path, entries: EntryFiles, proposal: Proposal, is_trial: bool = True) -> dict[str, Any]:
    """Return a proposal with its operations and their sources' texts; unless it is a trial, as its file is now."""
    if not is_trial and (data := read_whole(home / proposal_file(proposal.group, proposal.id))) is not None:
        proposal = _parsed(data, proposal.group, proposal.id)
    operations = [each.model_dump(exclude_none=True, mode="json") for each in proposal.operations]
    return {**_row(proposal), "operations": operations, "before": _texts(home, entries, proposal)}


def _parsed(data: bytes | None, group: str, name: str) -> Proposal:
    """Return the proposal of this group and name. Raises Refusal if there is none or its file says otherwise."""
    if data is None:
        why = f"there is no proposal {name}: `honeybadger-host review list` shows them"
        raise Refusal("not_found", why, field="payload.proposal")
    try:
        return proposal_in(data, group, name)
    except ValueError as error:
        raise Refusal("conflict", str(error), field="payload.proposal") from None


def _chosen(proposal: Proposal, payload: DecideProposal) -> frozenset[int]:
    """Return the numbers of the chosen operations. Raises Refusal if there are none, or one is already decided."""
    states = {each.n: each.state for each in proposal.operations}
    if payload.operations is None:
        chosen = frozenset(n for n, state in states.items() if state == "waiting")
        if not chosen:
            raise Refusal("conflict", f"nothing of proposal {proposal.id} waits", field="payload.proposal")
        return chosen
    for n in payload.operations:
        if states.get(n) not in UNDECIDED:
            what = f"is {states[n]}" if n in states else "does not exist"
            raise Refusal("conflict", f"operation {n} of {proposal.id} {what}", field="payload.operations")
    return frozenset(payload.operations)


def _with_result(proposal: Proposal, payload: DecideProposal, chosen: frozenset[int]) -> Proposal:
    """Return the proposal with another text for one operation. Raises Refusal."""
    one = next((each for each in proposal.operations if each.n in chosen), None)
    if payload.decision != "accept" or len(chosen) != 1 or one is None:
        raise Refusal("invalid", "payload.result needs accept, and one operation", field="payload.result")
    if one.result is None or not (payload.result or "").strip():
        why = f"operation {one.n} writes no text" if one.result is None else "payload.result is blank"
        raise Refusal("invalid", why, field="payload.result")
    operations = tuple(
        each.model_copy(update={"result": payload.result}) if each.n == one.n else each for each in proposal.operations
    )
    return proposal.model_copy(update={"operations": operations})


def _row(proposal: Proposal) -> dict[str, Any]:
    return {
        "id": proposal.id,
        "kind": proposal.kind,
        "made_at": time_stamp(proposal.made_at),
        "by": proposal.by,
        "session": proposal.session,
        **counts_of(proposal.operations),
        "file": proposal_file(proposal.group, proposal.id),
        "operations": [],
    }


def _unreadable(group: str, name: str, problem: str) -> dict[str, Any]:
    nothing = {"kind": "?", "made_at": "", "by": "?", "operations": []}
    return {"id": name, **nothing, **counts_of(()), "file": proposal_file(group, name), "problem": problem}


def _texts(home: Path, entries: EntryFiles, proposal: Proposal) -> dict[str, str]:
    """Return the texts of a proposal's sources, archived ones included; missing sources are left out."""
    wanted = {source for each in proposal.operations for source in each.sources}
    found: dict[str, str] = {}
    if any(source.startswith(NOTE_ID) for source in wanted):
        notes = notes_of(proposal.group, read_whole(home / f"groups/{proposal.group}/{MEMORY}") or b"")
        found |= {name: place.text for name, place in notes.items() if name in wanted}
    for source in wanted - found.keys():
        for file in entries.find(proposal.group, source) or entries.find(archive_of(proposal.group), source):
            with contextlib.suppress(ValueError):  # it is logged
                found[source] = entries.parse(file, entries.read(file) or b"").content
    return found


# -------------------------------------------------------------------------------------------------- writes that wait


class _Tried(NamedTuple):
    """A write that will wait for a decision.

    Args:
        prepared: the value that its handler prepared.
        payload: its payload without credentials.
    """

    prepared: Any
    payload: Mapping[str, Any]


def reviewed(
    handler: ChangeHandler[Any], files: WholeFiles, screen: Screen, groups: Collection[str]
) -> ChangeHandler[Any]:
    """Return a handler whose changes wait in these groups, unless the operator asks."""

    def prepare(asked: Asked) -> Any:
        prepared = handler.prepare(asked)
        if asked.group not in groups or asked.sender == OPERATOR:
            return prepared
        files.load(proposal_file(asked.group, _id_of(asked)))
        payload, _ = screen.tree(asked, "payload", asked.payload.model_dump(mode="json", exclude_none=True))
        if asked.payload.type_name == "update_memory":
            section, payload["content"], _ = screen.note(asked, payload.get("section", ""), payload["content"])
            payload |= {"section": section} if section else {}
        return _Tried(prepared, payload)

    def decide(asked: Asked, prepared: Any, now: datetime) -> Outcome:
        if not isinstance(prepared, _Tried):
            return handler.decide(asked, prepared, now)
        result = handler.decide(asked, prepared.prepared, now).result
        payload = {**prepared.payload}
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
        base = _digests(files, asked.group, sources)
        proposal = Proposal(
            id=_id_of(asked),
            group=asked.group,
            kind="write",
            made_at=now,
            by=asked.sender,
            base=base,
            operations=(operation,),
        )
        file = proposal_file(asked.group, proposal.id)
        change = FileWritten(asked.group, "proposal", file, dump_proposal(proposal), files.view(file))
        return Outcome({**result, "proposal": proposal.id}, (change,))

    return ChangeHandler(decide, prepare)


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
            model = REQUEST_TYPES[write.type].model_validate(payload)
        except ValidationError as error:
            why = f"operation {operation.n} of {self.proposal.id}: {refusal_of(error).message}; edit it, or strike it"
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
