"""The files of people, told from others by their names."""

from __future__ import annotations

import pytest

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


def test_an_edit_in_place_is_found_without_a_file_event(world: World) -> None:
    file = "data/context/main/main.json"
    with world.decided(FileWritten("main", "session", file, b'{"session_id": "main"}\n', None)):
        pass
    world.look(file)
    world.passed += 60
    world.take_in()
    changed_files = ChangedFiles(world.home, world.journal.path, world.documents, EntryFiles(world.home))
    [*changed_files.sweep_changed()]
    assert not world.documents.in_use.touched
    world.save(b'{"session_id": "main", "facts": ["likes tea"]}\n', in_place=True, file=file)
    [*changed_files.sweep_changed()]
    assert [*world.documents.in_use.touched] == [file]
