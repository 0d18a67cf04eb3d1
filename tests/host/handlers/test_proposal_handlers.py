"""`list_proposals`, `decide_proposal`, `consolidate`, `dream`: who may ask, and what is refused."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent.wire import Refusal
from honeybadger_host.curation.proposal import Evidence, Operation, Proposal, dump_proposal
from honeybadger_host.curation.proposal_files import proposal_file
from honeybadger_host.handler_kinds import QueryHandler
from tests.host.handlers.room import Room

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


@pytest.fixture
def room(home: Path) -> Room:
    return Room(home)


def propose(home: Path, *operations: Operation, name: str = "dream-1", **members: Any) -> Path:
    """Write a proposal as a person would; return its file."""
    proposal = Proposal(id=name, group="main", kind="dream", made_at=NOW, operations=operations, **members)
    path = home / proposal_file("main", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dump_proposal(proposal))
    return path


def listed(room: Room, **payload: Any) -> list[dict[str, Any]]:
    handler = room.table["list_proposals"]
    assert isinstance(handler, QueryHandler)
    rows: list[dict[str, Any]] = handler.ask(room.asking("list_proposals", payload, "operator"), NOW).result[
        "proposals"
    ]
    return rows


def note(n: int, text: str, **members: Any) -> Operation:
    said = Evidence(session="main", turn=1, quote=text)
    return Operation(n=n, op="add", result=text, evidence=(said,), **members)


def test_where_nothing_is_consolidated_the_operator_is_told_so(room: Room) -> None:
    with pytest.raises(Refusal, match="nothing is consolidated here"):
        room.ask("consolidate")


def test_groups_are_listed_in_numbers(room: Room) -> None:
    room.change("update_memory", content="likes tea")
    (row,) = room.ask("list_groups")["groups"]
    assert (row["group"], row["notes"], row["waiting"]) == ("main", 1, 0)


@pytest.mark.parametrize(
    ("members", "code", "says"),
    [
        ({"proposal": "nobody"}, "not_found", "there is no proposal nobody"),
        ({"proposal": "broken"}, "conflict", "it is not JSON"),
        ({"proposal": "dream-1", "operations": [7]}, "conflict", "operation 7 of dream-1 does not exist"),
        ({"proposal": "dream-1", "operations": [2]}, "conflict", "operation 2 of dream-1 is struck"),
        ({"proposal": "dream-1", "result": " ", "operations": [1]}, "invalid", "result is blank"),
        ({"proposal": "dream-1", "result": "x", "decision": "strike"}, "invalid", "result needs accept"),
        ({"proposal": "dream-1", "decision": "revert"}, "conflict", "nothing of proposal dream-1 is applied"),
    ],
)
def test_what_cannot_be_decided_is_refused_and_changes_nothing(
    room: Room, members: dict[str, Any], code: str, says: str
) -> None:
    path = propose(room.home, note(1, "The key is below the mat."), note(2, "The cat is grey.", state="struck"))
    (path.parent / "broken.json").write_text("{")
    before = path.read_bytes()
    with pytest.raises(Refusal, match=says) as refused:
        room.change("decide_proposal", "operator", **{"decision": "accept", **members})
    assert refused.value.code == code
    assert path.read_bytes() == before
    assert not (room.home / "groups/main/MEMORY.md").exists()
    (broken,) = [row for row in listed(room) if row["id"] == "broken"]
    assert "it is not JSON" in broken["problem"]
