"""Entries that give way to others, and those that expire: what is recalled, what stays to be read, what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.host.handlers.room import NOW, Room

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
        (new, "conflict", "the id of 2 files"),
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
