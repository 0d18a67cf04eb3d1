"""The files of people, told from others by their names."""

from __future__ import annotations

import pytest

from honeybadger_host.memory.peoples_files import document_group, group_of


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
