"""The proposals of a group as files: `groups/<group>/proposals/<id>.json`. A person may edit and remove them."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from honeybadger_agent.wire import UNDECIDED
from honeybadger_host.curation.proposal import (
    Operation,
    OperationState,
    Proposal,
    counts_of,
    dump_proposal,
    parse_proposal,
)
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import signature_of
from honeybadger_host.files.safe_files import printable
from honeybadger_host.handler_kinds import Outcome
from honeybadger_host.journal.changes import Change, FileWritten, read_whole
from honeybadger_host.text.labels import folded


class Stored(NamedTuple):
    """A proposal's file; `proposal` is None when it cannot be read, and `problem` says why."""

    name: str
    proposal: Proposal | None
    problem: str


def proposal_file(group: str, proposal_id: str) -> str:
    """Return the file of a proposal, below the home folder."""
    return f"groups/{group}/proposals/{proposal_id}.json"


def proposal_in(data: bytes, group: str, name: str) -> Proposal:
    """Return the proposal of this group and name from the bytes of its file. Raises ValueError.

    The file of a group that was imported under another name still has the earlier name.
    """
    try:
        proposal = parse_proposal(data)
        if proposal.id != name:
            raise ValueError(f"it says that it is {proposal.id}")
    except ValueError as error:
        raise ValueError(f"{proposal_file(group, name)}: {error}") from None
    return proposal.model_copy(update={"group": group})


def stored(home: Path, group: str, prefix: str = "") -> list[Stored]:
    """Return the proposals of a group, sorted by name. Raises WorldFailed if the folder cannot be listed.

    Args:
        prefix: of their names.
    """
    return [read_stored(home, group, name) for name, _ in _listed(home, group, prefix)]


def readable(home: Path, group: str, prefix: str = "") -> list[Proposal]:
    """Return the proposals of a group that can be read; `review` names the others. See `stored`."""
    return [each.proposal for each in stored(home, group, prefix) if each.proposal is not None]


def waiting(home: Path, group: str) -> list[tuple[str, float]]:
    """Return name and time of change of the waiting or unreadable proposals of a group, last changed first.

    A file is read when it changes. Raises as `stored`.
    """
    return sorted((each for each in _listed(home, group) if _waits(home, group, *each)), key=lambda each: -each[1])


@lru_cache(10_000)
def _waits(home: Path, group: str, name: str, changed_at: float) -> bool:
    proposal = read_stored(home, group, name).proposal
    return proposal is None or any(each.state in UNDECIDED for each in proposal.operations)


def _listed(home: Path, group: str, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield name and time of the last change, in seconds since the epoch, of each proposal."""
    folder = f"{home}/groups/{group}/proposals"
    try:
        files = sorted(file for file in os.listdir(folder) if file.startswith(prefix) and file.endswith(".json"))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise WorldFailed(f"groups/{group}/proposals cannot be listed: {error.strerror}") from error
    for file in files:
        if (signature := signature_of(f"{folder}/{file}")) is not None:  # else a person removed it meanwhile
            yield file.removesuffix(".json"), signature.mtime_ns / 1e9


def read_stored(home: Path, group: str, name: str) -> Stored:
    """Return the proposal of this group and name."""
    try:
        proposal = proposal_in(read_whole(home / proposal_file(group, name)) or b"", group, name)
    except (WorldFailed, ValueError) as error:
        return Stored(printable(name), None, printable(str(error)))
    return Stored(name, proposal, "")


def unsettled(proposal: Proposal, earlier: Iterable[Proposal]) -> Proposal:
    """Return a checked proposal without the operations that need not be proposed.

    Memory has their text already, or it is part of an operation that waits, that a person struck, or that a gate
    refused for good.
    """
    known: defaultdict[object, list[str]] = defaultdict(list)
    for each in (operation for one in earlier for operation in one.operations):
        is_refused = each.state == "refused" and not each.gates.refuse("too_much", "too_few")
        is_redone = proposal.kind == "consolidation" and not each.waits  # its turns are consolidated again
        if not is_redone and (is_refused or each.state in ("waiting", "struck")):
            known[each.op, each.category, frozenset(each.sources)].append(folded(each.result or ""))
    operations: list[Operation] = []
    for each in proposal.operations:
        text, same = folded(each.result or ""), known[each.op, each.category, frozenset(each.sources)]
        if not each.gates.refuse("no_change") and not any(text in other for other in same):
            operations.append(each)
    return proposal.model_copy(update={"operations": tuple(operations)})


def with_states(proposal: Proposal, states: Mapping[int, OperationState]) -> Proposal:
    """Return a proposal with other states for some operations, by number."""
    operations = tuple(
        each.model_copy(update={"state": states.get(each.n, each.state)}) for each in proposal.operations
    )
    return proposal.model_copy(update={"operations": operations})


def decided(
    proposal: Proposal, states: Mapping[int, OperationState], kept: bytes | None, changes: Sequence[Change]
) -> Outcome:
    """Return the outcome of a decision about a proposal: the changes, and the proposal's file with its new states."""
    after = with_states(proposal, states)
    file = proposal_file(proposal.group, proposal.id)
    written = [FileWritten(proposal.group, "proposal", file, dump_proposal(after), kept)] if after.operations else []
    return Outcome({"proposal": proposal.id, **counts_of(after.operations)}, (*changes, *written))
