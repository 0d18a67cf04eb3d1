"""Entries with a name, edits in place, moves, and the list of what is there, on real files."""

from datetime import timedelta
from typing import Any

import orjson
import pytest

from honeybadger_agent.wire import is_name
from honeybadger_host.errors import WorldFailed
from tests.host.handlers.room import NOW, Room
from tests.host.handlers.test_entry_handlers import files, memory, put
from tests.host.search.indexed import done


def rows(room: Room, **payload: Any) -> list[tuple[str, str | None]]:
    room.index.touch_folder("groups/main")
    found = room.ask("list_memory_entries", **payload)
    assert found["is_complete"]
    return [(row["category"], row["name"]) for row in found["entries"]]


def save(room: Room, name: str, content: str = "x", category: str = "docs") -> Any:
    return room.change("save_memory", content=content, category=category, name=name)


def test_a_category_has_a_name_once(room: Room) -> None:
    first = save(room, "notes.md")
    assert (first["name"], first["category"], len(first["id"])) == ("notes.md", "docs", 12)
    assert orjson.loads((memory(room) / files(room)[0]).read_bytes())["name"] == "notes.md"
    assert save(room, "notes.md", category="other")["id"] != first["id"]
    assert save(room, "Notes.md")["id"] != first["id"]
    assert save(room, "more.md")["reinforced"] == 0  # the same text, and another document


def test_a_name_in_a_persons_file_counts(room: Room) -> None:
    put(room, "docs/mine.json", content="by hand", name="plan.md")
    done(room.index.compare("main"))
    room.ask("list_memory_entries")  # it is indexed now
    assert room.refused("save_memory", content="x", category="docs", name="plan.md").code == "conflict"
    assert room.ask("list_memory_entries", category="docs", name="plan.md")["entries"][0]["id"] == "mine"
    taken = save(room, "todo.md")
    put(room, f"docs/{taken['id']}.json", content="renamed by hand", name="done.md")
    again = save(room, "todo.md")
    assert again["id"] != taken["id"]
    (memory(room) / f"docs/{taken['id']}.json").unlink()
    found = room.ask("list_memory_entries", category="docs", name="todo.md")["entries"]
    assert [row["id"] for row in found] == [again["id"]]
    assert room.refused("save_memory", content="x", category="docs", name="todo.md").code == "conflict"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", " a", "a ", "a\nb", "a\0", "a\u202eb", "a\u200b", "a\u2028b", "x" * 129]
)
def test_a_name_is_one_that_a_file_could_have(name: str) -> None:
    assert not is_name(name)


def test_an_edit_changes_only_the_members_it_names(room: Room) -> None:
    saved = room.change("save_memory", content="tea", category="likes", tags=["a"], title="Tea", metadata={"a": 1})
    path = memory(room) / files(room)[0]
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | {"mood": "good"}))
    room.now = NOW + timedelta(days=1)
    edited = room.change("edit_memory", "cook", id=saved["id"], content="coffee", tags=[])
    assert {**edited, "similar": []} == {
        **saved,
        "content": "coffee",
        "tags": [],
        "updated": "2026-11-22T06:05:59.123Z",
        "version": edited["version"],
    }
    assert orjson.loads(path.read_bytes())["mood"] == "good"
    assert room.ask("get_memory", id=saved["id"])["version"] == edited["version"] != saved["version"]


def test_nothing_is_moved_onto_something_else(room: Room) -> None:
    first, second = save(room, "a.md"), save(room, "b.md")
    refused = room.refused("edit_memory", id=second["id"], name="a.md")
    assert (refused.code, refused.field) == ("conflict", "payload.name")
    put(room, "other/mine.json", content="x")
    put(room, "docs/mine.json", content="y")
    room.ask("get_memory", id=first["id"])  # looks at the folders
    assert room.refused("edit_memory", id="mine", category="third").code == "conflict"
    room.unit.end_batch(())
    (memory(room) / "docs/mine.json").unlink()
    assert room.change("edit_memory", id="mine", category="third")["file"] == "memory/third/mine.json"
    (memory(room) / "fourth/mine.json").mkdir(parents=True)
    with pytest.raises(WorldFailed, match="a folder where the host needs a file"):
        room.decide("edit_memory", id="mine", category="fourth")
    assert room.ask("get_memory", id=first["id"])["name"] == "a.md"


def test_entries_are_listed_by_category_and_name_with_sizes(room: Room) -> None:
    save(room, "b.md", "größer", "docs")
    save(room, "a.md", "x\n" * 60, "docs/deep/er")
    unnamed = room.change("save_memory", content="User likes\ntea", category="docs", title="Tea")
    put(room, "docs/bad.json", content=5)
    found = room.ask("list_memory_entries")
    assert found["total"] == 3
    assert found["folders"] == [
        {"category": "docs", "entries": 2, "total": 3, "bytes": 8 + 14 + 120},
        {"category": "docs/deep", "entries": 0, "total": 1, "bytes": 120},
        {"category": "docs/deep/er", "entries": 1, "total": 1, "bytes": 120},
    ]
    assert [(row["category"], row["name"], row["bytes"]) for row in found["entries"]] == [
        ("docs", "b.md", 8),
        ("docs", None, 14),
        ("docs/deep/er", "a.md", 120),
    ]
    last = found["entries"][1]
    assert (last["id"], last["title"], last["begins"]) == (unnamed["id"], "Tea", "User likes tea")
    assert last["updated"] == unnamed["updated"]


def test_pages_of_a_list_together_are_the_list(room: Room) -> None:
    names = [("abcde"[number % 5], f"{number:02}.md") for number in range(23)]
    for category, name in names:
        save(room, name, "x", category)
    whole = rows(room, limit=1000)
    assert whole == sorted(names)
    for limit in (1, 4, 7, 23):
        pages = [rows(room, limit=limit, offset=offset) for offset in range(0, 24, limit)]
        assert [row for page in pages for row in page] == whole
