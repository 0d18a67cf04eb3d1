"""The files of people, told from others by their names."""

import shutil
import time

import pytest

from honeybadger_host.files.group_folders import GroupFolders
from honeybadger_host.journal.changes import FileWritten
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.peoples_files import ChangedFiles, document_group, group_of
from tests.host.documents.world import World


@pytest.mark.parametrize(
    ("file", "group"),
    [
        ("AGENT.md", "global"),
        ("config/agents/keeper/soul.md", "global"),
        ("groups/global/CLAUDE.md", "global"),
        ("groups/main/MEMORY.md", "main"),
        ("groups/main/archive/MEMORY.md", "main"),
        ("groups/main/memory/a/b/c.json", "main"),
        ("groups/main/memory/.c.json.12.tmp", None),
        ("groups/main/.MEMORY.md.before-3", None),
        ("groups/main/other.md", None),
        ("groups/main/memory/a/\udcff.json", None),
        ("data/sessions/main/main.jsonl", None),
    ],
)
def test_files_of_people_are_told_from_others(file: str, group: str | None) -> None:
    assert group_of(file) == group
    assert document_group(file) == group


@pytest.mark.parametrize(
    ("file", "group"),
    [
        ("groups/main/tasks/news.json", "main"),
        ("groups/main/tasks/a/news.json", None),
        ("groups/main/proposals/p1.json", "main"),
        ("groups/main/archive/memory/a/b.json", "main"),
        ("groups/main/tasks/.news.json.12.tmp", None),
    ],
)
def test_json_that_people_edit_is_a_document(file: str, group: str | None) -> None:
    assert document_group(file) == group


IN_USE = "data/context/main/main.json"


@pytest.fixture
def changed_files(world: World) -> ChangedFiles:
    """A home with a file of each kind, in which the last look found every folder as it was before."""
    world.save(b"# Archive\n", in_place=True, file="groups/main/archive/MEMORY.md")
    for file in ("memory/a/b.json", "tasks/t.json", "proposals/p.json", "archive/memory/a/c.json", "summary.md"):
        (world.home / "groups/main" / file).parent.mkdir(parents=True, exist_ok=True)
        world.save(b"{}\n", in_place=True, file=f"groups/main/{file}")
    with world.decided(FileWritten("main", "session", IN_USE, b'{"session_id": "main"}\n', None)):
        pass
    groups = GroupFolders(world.home, lambda: time.monotonic() + world.passed)
    changed_files = ChangedFiles(
        world.home, world.journal.path, world.projections.in_use, EntryFiles(world.home), groups
    )
    for _ in range(3):
        [*changed_files.sweep_changed()]
        world.look()
        world.passed += 60
    world.take_in()
    [*changed_files.sweep_changed()]
    assert not world.projections.in_use.touched
    return changed_files


@pytest.mark.parametrize(
    "file",
    [
        IN_USE,
        "groups/main/archive/MEMORY.md",
        "groups/main/memory/a/new.json",
        "groups/main/tasks/new.json",
        "groups/main/proposals/new.json",
        "groups/main/archive/memory/a/new.json",
    ],
)
def test_an_edit_is_found_without_a_file_event(changed_files: ChangedFiles, world: World, file: str) -> None:
    (world.home / file).parent.mkdir(parents=True, exist_ok=True)
    world.save(b'{"facts": ["likes tea"]}\n', in_place=True, file=file)
    [*changed_files.sweep_changed()]
    assert [*world.projections.in_use.touched] == [file]


@pytest.mark.parametrize("gone", ["summary.md", "tasks/t.json", "tasks", "memory", "archive", "proposals"])
def test_a_removal_is_found_without_a_file_event(changed_files: ChangedFiles, world: World, gone: str) -> None:
    path = world.home / "groups/main" / gone
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    [*changed_files.sweep_changed()]
    found = [world.home / file for file in world.projections.in_use.touched]
    assert sorted(found) == sorted(files)
