"""Proposals of curation, the operator's decisions, and the passes that the operator asks for."""

import contextlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio.to_thread

from honeybadger_agent.models.model import ModelFailed
from honeybadger_agent.wire import Consolidate, DecideProposal, Dream, ListProposals, Refusal
from honeybadger_agent.wire.proposals import UNDECIDED
from honeybadger_agent.wording import count_of
from honeybadger_host.curation.applying import Applying
from honeybadger_host.curation.asking import OverBudget, WrongAnswer
from honeybadger_host.curation.proposal import Proposal, counts_of
from honeybadger_host.curation.proposal_files import decided, proposal_file, proposal_in, readable, stored, with_states
from honeybadger_host.curation.runner import Curator
from honeybadger_host.errors import FileProblem, WorldFailed
from honeybadger_host.files.home import MEMORY
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.review.reverting import reverted
from honeybadger_host.handlers.review.writes import accepted
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.search.notes import NOTE_ID, notes_of
from honeybadger_host.search.sources import archive_of
from honeybadger_host.text.time_stamps import time_stamp


def list_proposals(deps: Dependencies, asked: Asked[ListProposals], now: datetime) -> Mapping[str, Any]:
    """Return proposals, newest first; an unreadable one has its problem."""
    payload, home = asked.payload, deps.home
    if payload.proposal is not None:
        file = home / proposal_file(asked.group, payload.proposal)
        proposal = _parsed(read_whole(file), asked.group, payload.proposal)
        return {"proposals": [_shown(home, deps.entry_files, proposal)], "left_out": 0}
    rows: list[dict[str, Any]] = []
    for name, known, problem in stored(home, asked.group):
        row = _unreadable(asked.group, name, problem) if known is None else _row(known)
        if payload.every or row["waiting"] or row["refused"] or problem:
            rows.append(row)
    rows.sort(key=lambda row: (row["made_at"], row["id"]), reverse=True)
    return {"proposals": rows[: payload.limit], "left_out": max(0, len(rows) - payload.limit)}


def decide_proposal(
    deps: Dependencies, writes: Mapping[str, ChangeHandler], asked: Asked[DecideProposal], now: datetime
) -> Outcome:
    """Decide about a proposal. Accepting an operation by its number overrules its gates. Raises Refusal, WorldFailed.

    Args:
        writes: request type -> the handler of a write that waits.
    """
    name = asked.payload.proposal
    file = proposal_file(asked.group, name)
    edited = read_whole(deps.home / file)
    if edited is not None:
        _parsed(edited, asked.group, name)  # else its last good version, without the edit, is decided
    data, payload = deps.whole_files.view(file), asked.payload
    proposal = _parsed(data, asked.group, name)
    if payload.decision == "revert":
        return reverted(deps.journal.path, deps.whole_files, proposal, data, now)
    chosen = _chosen(proposal, payload)
    if payload.result is not None:
        proposal = _with_result(proposal, payload, chosen, asked.sender)
    if payload.decision == "strike":
        return decided(proposal, dict.fromkeys(chosen, "struck"), data, ())
    if proposal.kind == "write":
        return accepted(deps, writes, asked, now, proposal, chosen)
    proposal = with_states(proposal, dict.fromkeys(chosen, "waiting"))  # also what a gate refused
    return Applying(
        deps.whole_files,
        deps.entry_files,
        proposal,
        lambda operation: operation.n in chosen,
        proposal.made_at,
        asked.sender,
        now,
        data,
    ).outcome()


async def consolidate(deps: Dependencies, curator: Curator, asked: Asked[Consolidate]) -> Mapping[str, Any]:
    """Wait for the job, which writes through the pipeline."""
    if not curator.uses.memory_window:
        raise Refusal("invalid", "nothing is consolidated here: consolidation.memory_window is 0")
    try:
        up_to = await curator.consolidate(asked.group, asked.session)
    except (OverBudget, ModelFailed, WrongAnswer) as error:
        raise Refusal("unavailable", f"{error}; nothing was changed") from None
    if not up_to:
        log_of_it = await anyio.to_thread.run_sync(deps.turn_logs.window, asked.group, asked.session)
        if not log_of_it.last_number:
            raise Refusal("not_found", f"nothing was said in session {asked.session!r} of group {asked.group}")
    told = f"session {asked.session} is consolidated up to turn {up_to}" if up_to else "there is nothing to do"
    found = await anyio.to_thread.run_sync(readable, deps.home, asked.group)
    waits = sum(counts_of(each.operations)["waiting"] for each in found if each.session == asked.session)
    if waits:
        noun = count_of(waits, "operation of it waits", "operations of it wait")
        told += f"; {noun} for you: honeybadger-host review {asked.group}"
    return {"up_to": up_to, "told": told}


async def dream(deps: Dependencies, curator: Curator, asked: Asked[Dream]) -> Mapping[str, Any]:
    """Wait for the pass, which writes through the pipeline."""
    try:
        dreamt = await curator.dream(asked.group)
    except (OverBudget, ModelFailed, WrongAnswer, WorldFailed, FileProblem) as error:
        raise Refusal("unavailable", f"{error}; nothing was changed") from None
    shown = [
        await anyio.to_thread.run_sync(_shown, deps.home, deps.entry_files, proposal) for proposal in dreamt.proposals
    ]
    return {"proposals": shown, "looked_at": dreamt.looked_at, "left_out": dreamt.left_out, "told": dreamt.told}


def _shown(home: Path, entries: EntryFiles, proposal: Proposal) -> dict[str, Any]:
    """Return a proposal with its operations and their sources' texts."""
    return {
        **_row(proposal),
        "operations": [each.model_dump(exclude_none=True, mode="json") for each in proposal.operations],
        "before": _texts(home, entries, proposal),
    }


def _parsed(data: bytes | None, group: str, name: str) -> Proposal:
    """Return the proposal of this group and name. Raises Refusal if there is none or its file says otherwise."""
    if data is None:
        raise Refusal(
            "not_found",
            f"there is no proposal {name}: `honeybadger-host review list` shows them",
            field="payload.proposal",
        )
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


def _with_result(proposal: Proposal, payload: DecideProposal, chosen: frozenset[int], decider: str) -> Proposal:
    """Return the proposal with another text for one operation; a model's text becomes the decider's. Raises Refusal."""
    one = next((each for each in proposal.operations if each.n in chosen), None)
    if payload.decision != "accept" or len(chosen) != 1 or one is None:
        raise Refusal("invalid", "payload.result needs accept, and one operation", field="payload.result")
    if one.result is None or not (payload.result or "").strip():
        why = f"operation {one.n} writes no text" if one.result is None else "payload.result is blank"
        raise Refusal("invalid", why, field="payload.result")
    by = decider if one.by and payload.result != one.result else one.by
    changed = one.model_copy(update={"result": payload.result, "by": by})
    operations = tuple(changed if each.n == one.n else each for each in proposal.operations)
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
    return {
        "id": name,
        "kind": "?",
        "made_at": "",
        "by": "?",
        "operations": [],
        **counts_of(()),
        "file": proposal_file(group, name),
        "problem": problem,
    }


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
