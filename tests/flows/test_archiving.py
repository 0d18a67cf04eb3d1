"""`archive_memory`: the operator moves entries and notes to the archive, and each comes back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.wire import ArchiveMemory, Undo
from tests.conftest import HostFactory
from tests.hosting import AT_ONCE, PATIENCE, HostProcess
from tests.people import looking, settle


@pytest.fixture
def archiving(make_host: HostFactory) -> HostProcess:
    return looking(make_host(AT_ONCE))


def archive(host: HostProcess, id_: str, sender: str = "operator") -> int:
    """Archive something; return the number of the change."""
    client = SyncClient(host.home, sender=sender, timeout_seconds=PATIENCE)
    reply = client.request("archive_memory", ArchiveMemory(id=id_))
    assert reply.ok, reply.error
    assert reply.seq is not None
    return reply.seq


def files_below(home: Path) -> dict[str, bytes]:
    group = home / "groups" / "main"
    found = [group / "MEMORY.md", *group.glob("memory/**/*.json")]
    return {str(path.relative_to(home)): path.read_bytes() for path in found}


def test_ten_notes_and_entries_return_from_the_archive_unchanged(archiving: HostProcess) -> None:
    planner = SyncClient(archiving.home, sender="planner", timeout_seconds=PATIENCE)
    for number in range(5):
        planner.update_memory(f"the shelf number {number} is blue\nand high", f"Shelf {number}")
        planner.save_memory(f"the chair number {number} is red", f"chairs/{number}")
    settle(archiving.home)
    before = files_below(archiving.home)
    hits = planner.search_memory("number shelf chair", limit=100).hits
    ids = [hit.id for hit in hits]
    assert len(ids) == 10
    seqs = [archive(archiving, id_) for id_ in ids]
    assert not planner.search_memory("number", limit=100).hits
    archived = planner.search_memory("number", archived=True, limit=100).hits
    assert {hit.text.partition("\n> Archived")[0] for hit in archived} == {hit.text for hit in hits}
    assert "shelf" not in planner.get_context(message="Which shelf is blue?").system
    settle(archiving.home)
    operator = SyncClient(archiving.home, sender="operator", timeout_seconds=PATIENCE)
    for seq in reversed(seqs):
        assert operator.request("undo", Undo(seq=seq)).ok
    settle(archiving.home)
    assert files_below(archiving.home) == before
