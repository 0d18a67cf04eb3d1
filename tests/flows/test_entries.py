"""Entries over the whole path: saved, known, put by name, edited, archived, deleted, brought back, through kills."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Conflict, NotFound
from honeybadger_agent.wire import ArchiveMemory, Undo
from honeybadger_host.journal.reader import LogFilter, read_log
from tests.commands import cli_error, cli_text
from tests.conftest import HostFactory, MakeClient
from tests.hosting import AT_ONCE, PATIENCE, HostProcess, RawSender, request, run_agent, run_cli
from tests.people import looking, save, settle


def log_of(home: Path, group: str = "main") -> list[tuple[int, str, str]]:
    rows = read_log(home / "data/journal.db", LogFilter(group), 100)
    return [(row.seq, row.sender, row.kind) for row in reversed(rows)]


def test_an_entry_is_known_after_kill_restart_and_edit(make_host: HostFactory, client: MakeClient) -> None:
    host = make_host().start()
    saved = client().save_memory("User prefers dark mode", "user-preferences/look", ["ui"])
    host.kill()
    host.start()
    again = client("cook").save_memory("user prefers DARK mode", "user-preferences/look")
    assert (again.id, again.reinforced, again.by) == (saved.id, 1, "researcher")
    path = host.home / "groups/main" / saved.file
    edited = orjson.loads(path.read_bytes()) | {"content": "User prefers light mode", "why": "asked again"}
    save(path, orjson.dumps(edited))
    assert client().get_memory(saved.id).content == "User prefers light mode"
    assert client().save_memory("User prefers dark mode", "user-preferences/look").id != saved.id
    assert client().list_memory_categories().total == 2
    gone = client().delete_memory(saved.id)
    assert gone.content == "User prefers light mode"
    assert not path.exists()
    with pytest.raises(NotFound, match=saved.id):
        client().get_memory(saved.id)


def test_an_entry_broken_by_a_person_stays_found(make_host: HostFactory, client: MakeClient) -> None:
    host = make_host().start()
    saved = client().save_memory("User prefers dark mode", "user-preferences/look", ["ui"])
    path = host.home / "groups/main" / saved.file
    save(path, path.read_bytes()[:-4])
    for _ in range(2):
        assert [hit.id for hit in client().search_memory("dark mode").hits] == [saved.id]
        assert client().get_memory(saved.id).content == "User prefers dark mode"
        assert [entry.id for entry in client().list_memory_entries().entries] == [saved.id]
        (host.home / "data/index.db").unlink(missing_ok=True)
        host.kill()
        host.start()


@pytest.mark.parametrize("is_served", [True, False])
def test_an_undo_needs_no_running_host(make_host: HostFactory, client: MakeClient, is_served: bool) -> None:
    host = make_host().start()
    saved = client().save_memory("x")
    client().delete_memory(saved.id)
    path = host.home / "groups/main" / saved.file
    assert not path.exists()
    if not is_served:
        host.stop()
        waiting = RawSender(host.home).make()
        waiting.note("later", "waits for a host")
    undone = run_cli("undo", 2, home=host.home)
    assert (undone.returncode, undone.stderr) == (0, "")
    assert undone.stdout == f"groups/main/{saved.file}: restored; change 3 undoes 2\n"
    assert path.exists()
    assert "nothing of change 2 is left to be undone" in cli_error("undo", 2, home=host.home)
    assert log_of(host.home) == [
        (1, "researcher", "entry"),
        (2, "researcher", "entry_removed"),
        (3, "operator", "entry"),
    ]
    if not is_served:
        assert waiting.peek("later") is None  # an undo serves nobody else
        host.start()
    assert client().get_memory(saved.id).model_dump() == saved.model_dump(exclude={"neutralised", "similar"})


def test_an_edit_and_a_move_are_each_undone_once(make_host: HostFactory, client: MakeClient) -> None:
    host = make_host().start()
    saved = client().save_memory("tea", "likes", name="drinks.md")
    edited = client("cook").edit_memory(saved.id, content="coffee", expected_version=saved.version)
    moved = client("cook").edit_memory(saved.id, category="old", name="drinks-2025.md")
    memory = host.home / "groups/main/memory"
    assert [row[2] for row in log_of(host.home)] == ["entry", "entry", "entry_removed", "entry"]
    host.kill()
    host.start()
    assert client().get_memory(moved.id).content == "coffee"
    assert not (memory / f"likes/{saved.id}.json").exists()
    undone = cli_text("undo", 4, 3, home=host.home)  # its two changes, or either of them
    assert undone == f"groups/main/{edited.file}: restored; change 6 undoes 4 and 3\n"
    assert client().get_memory(saved.id).model_dump() == edited.model_dump(exclude={"neutralised", "similar"})
    with pytest.raises(NotFound):
        client().get_memory(moved.id)
    assert cli_text("undo", 2, home=host.home) == f"groups/main/{saved.file}: put back; change 7 undoes 2\n"
    assert client().get_memory(saved.id).model_dump() == saved.model_dump(exclude={"neutralised", "similar"})
    assert run_cli("undo", 6, home=host.home).returncode == 1  # it was changed since
    assert [(row.name, row.category) for row in client().list_memory_entries().entries] == [("drinks.md", "likes")]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_anothers_request_in_the_operators_box_is_refused(make_host: HostFactory, home: Path) -> None:
    make_host().start()
    box = RawSender(home, sender="operator").make()
    path = box.root / "tmp" / "x"
    path.write_bytes(request("x", "undo", payload={"seq": 1}))
    os.chown(path, 65_534, -1)
    os.rename(path, box.requests / "x.json")
    reply = box.reply("x")
    assert reply["error"]["code"] == "forbidden"
    assert "belongs to uid 65534" in reply["error"]["message"]


def test_a_shell_saves_deletes_and_the_operator_restores(make_host: HostFactory) -> None:
    host = make_host().start()
    saved = run_agent("save", "Tea, no sugar", "--category", "drinks", "--tag", "tea", "--title", "Tea", home=host.home)
    assert saved.stdout.startswith("saved: ")
    id_ = saved.stdout.split()[1]
    again = run_agent("save", "tea,  no sugar", "--category", "drinks", home=host.home)
    assert again.stdout == f"known already, said 2 times: {id_} in memory/drinks/{id_}.json\n"
    for arguments in ((id_,), (id_, "--json", "--id", "r1"), ()):
        done = run_agent("forget", *arguments, home=host.home)
        assert (done.returncode, done.stdout) == (2, "")
        assert "nothing was done" in done.stderr
        assert "`honeybadger-agent delete ENTRY`" in done.stderr
        assert "`honeybadger-host forget`" in done.stderr
    deleted = run_agent("delete", id_, home=host.home).stdout
    assert deleted.startswith(f"deleted: memory/drinks/{id_}.json; the journal keeps it")
    assert deleted.endswith("`honeybadger-host undo 3`\n")
    assert run_agent("delete", id_, home=host.home).returncode == 1
    assert run_cli("undo", 3, home=host.home).returncode == 0
    got = run_agent("call", "get_memory", f'{{"id":"{id_}"}}', home=host.home)
    assert orjson.loads(got.stdout)["result"]["title"] == "Tea"


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


PLAN: dict[str, Any] = {"category": "plans", "name": "move.md"}


def test_a_put_expects_the_version_that_was_read(asker: RawSender, member: MakeClient) -> None:
    agent = member("ann")
    first = agent.save_memory("in May", **PLAN, replace=True)
    second = agent.save_memory("in June", **PLAN, replace=True, expected_version=first.version)
    with pytest.raises(Conflict, match=r"move\.md was changed since"):
        agent.save_memory("in July", **PLAN, replace=True, expected_version=first.version)
    path = asker.memory.parent / second.file
    path.write_bytes(path.read_bytes().replace(b"in June", b"in August"))
    with pytest.raises(Conflict, match="was changed since"):
        agent.save_memory("in July", **PLAN, replace=True, expected_version=second.version)
    agent.delete_memory(**PLAN)
    with pytest.raises(Conflict, match="was deleted since"):
        agent.save_memory("in July", **PLAN, replace=True, expected_version=second.version)
    assert agent.list_memory_entries(category="plans").total == 0
