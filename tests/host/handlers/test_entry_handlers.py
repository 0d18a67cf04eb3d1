"""Saving, reading and deleting entries, on real files; handlers are plain functions."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from honeybadger_agent.wire import Refusal, SaveMemory, UpdateSession, parse_members
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handlers.entries.similar import Similar
from tests.host.handlers.room import NOW, Room
from tests.host.indexes import index_of


def memory(room: Room) -> Path:
    return room.home / "groups/main/memory"


def files(room: Room) -> list[str]:
    return sorted(str(path.relative_to(memory(room))) for path in memory(room).rglob("*") if path.is_file())


def put(room: Room, name: str, /, **members: Any) -> Path:
    path = memory(room) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(members))
    return path


def test_an_entry_is_one_file_with_all_members(room: Room) -> None:
    saved = room.change(
        "save_memory",
        content="User prefers dark mode",
        category="user-preferences/look",
        tags=["ui", "theme"],
        metadata={"source": "asked", "times": [1, 2.5, None]},
        title="Dark mode",
        aliases=["night mode"],
    )
    assert len(saved["id"]) == 12
    assert files(room) == [f"user-preferences/look/{saved['id']}.json"]
    assert saved["file"] == f"memory/{files(room)[0]}"
    assert orjson.loads((memory(room) / files(room)[0]).read_bytes()) == {
        "id": saved["id"],
        "content": "User prefers dark mode",
        "title": "Dark mode",
        "aliases": ["night mode"],
        "category": "user-preferences/look",
        "tags": ["ui", "theme"],
        "created": "2026-11-21T06:05:59.123Z",
        "updated": "2026-11-21T06:05:59.123Z",
        "metadata": {"source": "asked", "times": [1, 2.5, None]},
        "by": "researcher",
        "reinforced": 0,
    }
    assert {**room.ask("get_memory", id=saved["id"]), "similar": []} == saved


def test_saving_a_known_text_reinforces_its_entry(room: Room) -> None:
    first = room.change("save_memory", content="User prefers dark mode", tags=["ui"], metadata={"a": 1})
    room.now = NOW + timedelta(days=1)
    again = room.change(
        "save_memory", "cook", content="user  PREFERS\ndark mode", tags=["UI", "look"], metadata={"b": 2}
    )
    assert again == {
        **first,
        "updated": "2026-11-22T06:05:59.123Z",
        "tags": ["ui", "look"],
        "metadata": {"a": 1, "b": 2},
        "reinforced": 1,
        "version": again["version"],
    }
    assert again["version"] != first["version"]
    assert room.change("save_memory", content="User prefers dark mode")["reinforced"] == 2
    assert len(files(room)) == 1
    assert room.change("save_memory", content="User prefers dark mode", category="look")["reinforced"] == 0


def test_a_known_text_is_found_under_any_id(room: Room) -> None:
    path = put(room, "drinks/mine.json", content="Tea", note="by hand")
    room.index.touch("groups/main/memory/drinks/mine.json")
    saved = room.change("save_memory", content="tea", category="drinks")
    assert (saved["id"], saved["content"], saved["reinforced"], saved["created"]) == ("mine", "Tea", 1, None)
    assert orjson.loads((memory(room) / "drinks/mine.json").read_bytes())["note"] == "by hand"
    path.write_bytes(path.read_bytes().replace(b"Tea", b"Mate"))  # which the index has not heard of
    assert room.change("save_memory", content="tea", category="drinks")["id"] != "mine"


def test_a_malformed_entry_is_reported_and_hides_nothing(room: Room) -> None:
    saved = room.change("save_memory", content="x")
    put(room, "general/bad.json", tags="a, b", content="x")
    with capture_logs() as logs:
        refusal = room.refused("delete_memory", id="bad")
    assert refusal.code == "not_found"
    assert "memory/general/bad.json is not an entry: tags must be an array" in refusal.message
    assert [line["event"] for line in logs] == ["entry.skipped"]
    assert {**room.ask("get_memory", id=saved["id"]), "similar": []} == saved


def test_categories_are_a_tree_with_counts(room: Room) -> None:
    for content, category in (("a", "b/c"), ("b", "b/c"), ("c", "b-c"), ("d", "b"), ("e", None)):
        room.change("save_memory", content=content, category=category)
    put(room, "loose.json", content="x")
    put(room, "b/c/notes.txt", content="no entry")
    put(room, "b/.hidden/x.json", content="no category")
    (memory(room) / "empty").mkdir()
    assert room.ask("list_memory_categories") == {
        "categories": [
            {"category": "b", "entries": 1, "total": 3},
            {"category": "b/c", "entries": 2, "total": 2},
            {"category": "b-c", "entries": 1, "total": 1},
            {"category": "general", "entries": 2, "total": 2},
        ],
        "total": 6,
    }


def test_case_makes_no_new_category(room: Room) -> None:
    saved = room.change("save_memory", content="x", category="Work/Rocket")
    assert room.change("save_memory", content="x", category="work/rocket")["id"] == saved["id"]
    assert room.change("save_memory", content="y", category="WORK/rocket/Engine")["category"] == "Work/Rocket/Engine"
    first = room.decide("save_memory", content="x", category="New")
    second = room.decide("save_memory", content="x", category="new")  # nothing is written yet
    assert first.changes[0].file == second.changes[0].file


@pytest.mark.parametrize("what", ["a link", "a FIFO", "a folder"])
def test_an_obstacle_in_place_of_an_entry_is_unavailable(room: Room, what: str) -> None:
    saved = room.change("save_memory", content="x")
    path = memory(room) / f"general/{saved['id']}.json"
    path.unlink()
    match what:
        case "a link":
            put(room, "general/secret.json", content="x")
            path.symlink_to("secret.json")
        case "a FIFO":
            os.mkfifo(path)
        case _:
            path.mkdir()
    for type_, payload in (("save_memory", {"content": "x"}), ("delete_memory", {"id": saved["id"]})):
        with pytest.raises(WorldFailed, match=r"cannot be read|where the host needs a file"):
            room.decide(type_, **payload)
    with pytest.raises(WorldFailed):
        room.ask("get_memory", id=saved["id"])


def test_every_member_of_an_entry_is_cleaned_and_counted(room: Room) -> None:
    token = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    saved = room.change(
        "save_memory",
        content=f"the token is {token}\u202e",
        title=f"Title\n{token}",
        aliases=[f"al\u200bias {token}"],
        tags=["a\nb", token],
        metadata={"where": [{"in\u200b": token}], "password": "hunter22!", "pin": 4711, "port": 8080},
    )
    (name,) = files(room)
    text = (memory(room) / name).read_text()
    assert [secret for secret in (token, "hunter22", "4711") if secret in text] == []
    assert saved["metadata"]["port"] == 8080
    assert not {"\u202e", "\u200b"} & set(text)
    assert (saved["tags"][0], saved["title"][:16]) == ("a b", "Title [REDACTED:")
    kinds = {kind: count for kind, count in saved["neutralised"].items() if not kind.startswith("secrets/")}
    assert kinds == {"secrets": 7, "line breaks": 2, "bidi characters": 1, "zero-width characters": 2}
    assert sum(saved["neutralised"].values()) - sum(kinds.values()) == 7


@pytest.mark.parametrize("levels", [190, 195, 240, 250, 260])
def test_an_object_that_is_taken_can_be_read(room: Room, levels: int) -> None:
    """One of 246 levels was saved, and then its file was no entry."""
    deep: dict[str, Any] = {}
    for _ in range(levels - 1):
        deep = {"a": deep}
    if levels > 190:
        for kind, members in (
            (SaveMemory, {"content": "x", "metadata": deep}),
            (UpdateSession, {"system_state": deep}),
        ):
            with pytest.raises(Refusal, match="at most 190 levels"):
                parse_members(kind, members)
        return
    saved = room.change("save_memory", content="x", metadata=deep)
    assert room.ask("get_memory", id=saved["id"])["metadata"] == deep
    room.change("update_session", system_state=deep)
    room.restart()
    assert room.ask("load_session")["system_state"] == deep


def test_too_much_for_an_entry_is_refused_with_limit(room: Room) -> None:
    saved = room.change("save_memory", content="x", tags=[f"a{n}" for n in range(20)], metadata={"a": "m" * 5000})
    for payload, says in (
        ({"tags": [f"b{n}" for n in range(20)]}, "40 tags, the limit is 32"),
        ({"metadata": {"b": "m" * 5000}}, "bytes of metadata, the limit is 8192"),
    ):
        refusal = room.refused("save_memory", content="x", **payload)
        assert (refusal.code, says in refusal.message) == ("too_large", True)
    assert {**room.ask("get_memory", id=saved["id"]), "similar": []} == saved


def test_an_entry_stays_pinned_until_somebody_says_otherwise(room: Room) -> None:
    saved = room.change("save_memory", content="x", category="drinks", name="x.md", pinned=True)
    assert (saved["pinned"], room.ask("get_memory", id=saved["id"])["pinned"]) == (True, True)
    edited = room.change("edit_memory", id=saved["id"], content="y", category="food")
    (row,) = room.ask("list_memory_entries", category="food", name="x.md")["entries"]
    assert (edited["pinned"], row["pinned"]) == (True, True)
    assert room.change("edit_memory", id=edited["id"], pinned=False)["pinned"] is False
    assert b"pinned" not in (memory(room) / edited["file"].removeprefix("memory/")).read_bytes()


def undo(room: Room, seq: int) -> Any:
    return room.change("undo", "operator", seq=seq)


def test_undo_overwrites_nothing_and_names_the_obstacle(room: Room) -> None:
    saved = room.change("save_memory", content="x")
    path = room.home / "groups/main" / saved["file"]
    room.change("delete_memory", id=saved["id"])
    put(room, f"general/{saved['id']}.json", content="by hand")
    for seq in (2, 1):
        refusal = room.refused("undo", "operator", seq=seq)
        assert (refusal.code, refusal.field) == ("conflict", "payload.seq")
        assert f"{saved['id']}.json was changed since" in refusal.message
    assert b"by hand" in path.read_bytes()
    path.unlink()
    room.unit.end_batch(())
    assert "is gone since (changes since: 2 by researcher)" in room.refused("undo", "operator", seq=1).message


def test_advice_takes_a_batch_a_tenth_of_its_time(home: Path) -> None:
    folder = home / "groups/main/memory/general"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text('{"content": "User prefers dark mode"}')
    index = index_of(home)
    index.read_all("main")
    now = 0.0

    def clock() -> float:  # each look takes 5 ms by it
        nonlocal now
        now += 0.005
        return now

    similar = Similar(index, clock, clock)
    looked = [similar.to("main", "User prefers light mode") is not None for _ in range(100)]
    assert looked[0]
    assert looked[10:].count(True) <= 20  # of the time that passes between two looks, a tenth
    now += 10.0
    assert similar.to("main", "User prefers light mode")


LATER = "2026-11-21T08:05:59Z"  # two hours behind NOW


def found(room: Room, **more: Any) -> set[str]:
    hits = room.ask("search_memory", query="green tea", scope="entries", **more)["hits"]
    assert all(hit.get("archived", False) is bool(more.get("archived")) for hit in hits)
    return {hit["id"] for hit in hits}


def recalled(room: Room) -> set[str]:
    rows = room.ask("get_context", message="Who drinks green tea?")["recalled"]
    return {row["id"] for row in rows if row["state"] != "near_miss"}


def save(room: Room, content: str, **more: Any) -> str:
    return str(room.change("save_memory", content=content, **more)["id"])


def test_a_superseded_entry_is_readable_but_not_recalled(room: Room) -> None:
    old = save(room, "Ann drinks green tea", category="drinks")
    new = save(room, "Ann drinks no green tea any more", category="drinks", supersedes=[old])
    assert recalled(room) == found(room) == {new}
    assert found(room, archived=True) == {old}
    got = room.ask("get_memory", id=old)
    assert (got["archived"], got["superseded_by"], got["content"]) == (True, new, "Ann drinks green tea")
    assert "if it is in the archive" in room.refused("edit_memory", id=old, content="Ann drinks milk").message
    assert room.ask("get_memory", id=new)["supersedes"] == [old]
    assert not (room.home / f"groups/main/memory/drinks/{old}.json").exists()
    again = room.change("save_memory", content="Ann drinks no green tea any more", category="drinks", supersedes=[old])
    assert (again["id"], again["reinforced"], again["supersedes"]) == (new, 1, [old])  # it was done before
    back = save(room, "Ann drinks green tea", category="drinks", supersedes=[new])  # she changed her mind
    assert back == old
    assert recalled(room) == {old}
    assert room.ask("get_memory", id=old)["archived"] is False


def test_an_impossible_supersession_is_refused_by_id(room: Room) -> None:
    everybody = room.home / "groups/global/memory/general"
    everybody.mkdir(parents=True)
    (everybody / "rule.json").write_text('{"content": "for all"}')
    old, new = save(room, "old"), save(room, "new")
    save(room, "newest", supersedes=[old])
    newest = room.ask("get_memory", id=old)["superseded_by"]
    twice = room.home / f"groups/main/memory/copies/{new}.json"
    twice.parent.mkdir()
    twice.write_bytes((room.home / f"groups/main/memory/general/{new}.json").read_bytes())
    itself = save(room, "itself")
    before = sorted(str(path) for path in room.home.rglob("*.json"))
    for id_, code, says in (
        ("nothing", "not_found", "no entry of this group has the id nothing"),
        ("rule", "forbidden", "of the group global"),
        (old, "conflict", f"was superseded by {newest}: name that one"),
        (new, "conflict", f"{new} is the id of memory/copies/{new}.json and memory/general"),
        (itself, "invalid", "cannot supersede itself"),
    ):
        refusal = room.refused("save_memory", content="itself", supersedes=[id_])
        assert (refusal.code, refusal.field) == (code, "payload.supersedes")
        assert says in refusal.message
    assert sorted(str(path) for path in room.home.rglob("*.json")) == before


def test_a_circle_is_refused(room: Room) -> None:
    folder = room.home / "groups/main/memory/general"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text('{"content": "a", "supersedes": ["b"]}')
    (folder / "b.json").write_text('{"content": "b"}')
    refusal = room.refused("edit_memory", id="b", supersedes=["a"])
    assert (refusal.code, "a circle: a supersedes b already" in refusal.message) == ("conflict", True)


def test_an_expired_entry_is_recalled_after_another_save(room: Room) -> None:
    tea = save(room, "Ann drinks green tea", valid_until=LATER)
    other = save(room, "Bob drinks green tea")
    assert recalled(room) == found(room) == {tea, other}
    assert found(room, archived=True) == set()
    room.change("append_turn", role="user", content="Who drinks green tea?")
    assert recalled(room) == {tea, other}
    room.change("append_turn", role="assistant", content="Ann and Bob")
    room.now = NOW + timedelta(hours=2)
    assert recalled(room) == found(room) == {other}  # also what an earlier message had recalled
    assert found(room, archived=True) == {tea}
    assert {hit["id"] for hit in room.ask("search_memory", archived=True)["hits"]} == {tea}
    assert room.ask("get_memory", id=tea)["valid_until"] == LATER
    (row, _) = sorted(room.ask("list_memory_entries")["entries"], key=lambda row: row["valid_until"] is None)
    assert (row["id"], row["valid_until"]) == (tea, LATER)
    again = room.change("save_memory", content="Ann drinks green tea")
    assert (again["reinforced"], again.get("valid_until")) == (1, None)
    assert found(room) == {tea, other}
