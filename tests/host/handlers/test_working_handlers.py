"""Decisions and answers of requests of working memory, on real files (RB6, RB12)."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent.wire import Refusal
from honeybadger_host.errors import WorldFailed
from honeybadger_host.settings import Settings
from tests.host.handlers.room import NOW, Room

SAVE, GET, SEARCH, LIST = (
    "save_to_working_memory",
    "get_from_working_memory",
    "search_working_memory",
    "list_working_memory",
)


def save(room: Room, session: str = "main", group: str = "main", /, **payload: Any) -> Mapping[str, Any]:
    return room.change(SAVE, in_session=session, in_group=group, **payload)


def get(room: Room, key: str, session: str = "main", group: str = "main") -> str | None:
    """Return the data of a key, None when it is answered with not_found."""
    try:
        return str(room.ask(GET, session, group, key=key)["data"])
    except Refusal as refusal:
        if (refusal.code, refusal.field) != ("not_found", "payload.key"):
            raise
        return None


def listed(room: Room, session: str = "main", group: str = "main") -> list[str]:
    return [entry["key"] for entry in room.ask(LIST, session, group)["entries"]]


def test_what_is_saved_is_there_for_five_minutes(room: Room) -> None:
    result = save(
        room, key="page", data="text\tof a page", category="web-content", tags=["github", "rockbot", "GitHub"]
    )
    assert result == {"key": "page", "expires_at": "2026-11-21T06:10:59.123Z", "replaced": False}
    assert room.ask(GET, key="page") == {
        "key": "page",
        "data": "text\tof a page",
        "category": "web-content",
        "tags": ["github", "rockbot"],
        "stored_at": "2026-11-21T06:05:59.123Z",
        "expires_at": "2026-11-21T06:10:59.123Z",
        "by": "researcher",
        "characters": 14,
    }
    room.now = NOW + timedelta(minutes=5) - timedelta(milliseconds=1)
    assert get(room, "page") == "text\tof a page"
    room.now = NOW + timedelta(minutes=5)
    assert get(room, "page") is None
    assert listed(room) == []
    assert room.ask(SEARCH, query="page")["hits"] == []


def test_the_same_key_again_replaces_data_expiry_and_labels(room: Room) -> None:
    save(room, key="k", data="old", category="c", tags=["t"], ttl_minutes=60)
    room.now += timedelta(minutes=1)
    result = save(room, key="k", data="new")
    assert (result["replaced"], result["expires_at"]) == (True, "2026-11-21T06:11:59.123Z")
    entry = room.ask(GET, key="k")
    assert (entry["data"], entry["category"], entry["tags"]) == ("new", None, [])
    assert listed(room) == ["k"]
    room.now += timedelta(minutes=10)
    assert save(room, key="k", data="newer")["replaced"] is False


def test_no_session_or_group_sees_anothers_items(room: Room) -> None:
    for session, group in (("a", "main"), ("ab", "main"), ("A", "main"), ("a", "kitchen")):
        save(room, session, group, key="k", data=f"{group} {session} secretword")
        save(room, session, group, key=f"only {group} {session}", data="y")
    for session, group in (("a", "main"), ("ab", "main"), ("A", "main"), ("a", "kitchen")):
        assert get(room, "k", session, group) == f"{group} {session} secretword"
        assert listed(room, session, group) == ["k", f"only {group} {session}"]
        (hit,) = room.ask(SEARCH, session, group, query="secretword")["hits"]
        assert hit["text"] == f"{group} {session} secretword"
        system = room.ask("get_context", session, group)["system"]
        (line,) = [line for line in system.splitlines() if line.startswith("- only")]
        assert line.startswith(f"- only {group} {session}: expires in ")
    assert get(room, "only main ab", "a") is None
    assert listed(room, "b") == []


def test_the_fifty_first_entry_is_refused_with_advice(room: Room) -> None:
    for number in range(50):
        room.now += timedelta(seconds=1)
        save(room, key=f"k{number}", data="x")
    refusal = room.refused(SAVE, key="one more", data="x")
    assert (refusal.code, refusal.field) == ("too_large", "payload.key")
    assert "holds 50 entries, the limit is 50: save under a key" in refusal.message
    assert "the next one expires in 4m11s; nothing was saved" in refusal.message
    assert len(listed(room)) == 50
    assert save(room, key="k7", data="new")["replaced"] is True
    assert save(room, "other", key="one more", data="x")
    room.now = NOW + timedelta(minutes=5, seconds=1)
    save(room, key="one more", data="x")
    assert "k0" not in listed(room)


def test_the_list_is_by_key_and_has_no_data(room: Room) -> None:
    save(room, key="b", data="thedata", ttl_minutes=1)
    save(room, key="a", data="thedata", category="c", tags=["t"])
    result = room.ask(LIST)
    assert result == {
        "entries": [
            {
                "key": "a",
                "expires_at": "2026-11-21T06:10:59.123Z",
                "category": "c",
                "tags": ["t"],
                "by": "researcher",
                "characters": 7,
            },
            {
                "key": "b",
                "expires_at": "2026-11-21T06:06:59.123Z",
                "category": None,
                "tags": [],
                "by": "researcher",
                "characters": 7,
            },
        ],
        "max_entries": 50,
        "skipped": 0,
    }
    assert b"thedata" not in orjson.dumps(result)


def test_search_returns_the_best_match_with_an_excerpt(room: Room) -> None:
    save(room, key="page-1", data="Badgers dig.\nThe badger digs a sett.", category="web/animals", tags=["zoo"])
    save(room, key="page-2", data="Somebody saw a badger once, long ago, in another country.", category="website")
    first, second = room.ask(SEARCH, query="badger")["hits"]
    assert (first["key"], second["key"]) == ("page-1", "page-2")
    assert first["score"] > second["score"] > 0
    assert first["text"] == "Badgers dig. The badger digs a sett."
    assert [hit["key"] for hit in room.ask(SEARCH, query="badger", category="web")["hits"]] == ["page-1"]
    assert [hit["key"] for hit in room.ask(SEARCH, query="badger", tags=["ZOO"])["hits"]] == ["page-1"]


def test_a_damaged_entry_is_skipped_counted_and_never_overwritten(room: Room) -> None:
    save(room, key="good", data="x")
    bad = room.home / "data/working/main/main/bad.json"
    bad.write_bytes(b"{torn")
    assert (listed(room), room.ask(LIST)["skipped"]) == (["good"], 1)
    with pytest.raises(WorldFailed, match=r"bad\.json is not an entry of working memory"):
        room.ask(GET, key="bad")
    with pytest.raises(WorldFailed, match=r"bad\.json is not an entry of working memory"):
        room.decide(SAVE, key="bad", data="x")
    assert bad.read_bytes() == b"{torn"


def test_the_context_shows_the_inventory_and_explains_it(room: Room) -> None:
    assert "Working memory" not in room.ask("get_context")["system"]
    save(room, key="chunked-page-1", data="x", category="web-content", tags=["github", "rockbot"], ttl_minutes=4.54)
    save(room, key="draft-email", data="thedata", ttl_minutes=2.02)
    result = room.ask("get_context")
    assert result["system"].endswith(
        "\nWorking memory (scratch space \N{EM DASH} use search_working_memory or get_from_working_memory to retrieve)"
        ":\n"
        "- chunked-page-1: expires in 4m32s, category: web-content, tags: github, rockbot\n"
        "- draft-email: expires in 2m01s\n"
    )
    (section,) = [row for row in result["sections"] if row["source"].startswith("data/working")]
    assert (section["source"], section["state"]) == ("data/working/main/main/", "whole")
    assert "thedata" not in result["system"]


def test_a_host_without_working_memory_says_so(tmp_path: Path) -> None:
    save(Room(tmp_path), key="k", data="x")
    room = Room(tmp_path, Settings.model_validate({"working": {"enabled": False}}))
    assert room.refused(SAVE, key="k", data="x").message == (
        "working memory is off on this host (working.enabled): do without it"
    )
    for type_, payload in ((GET, {"key": "k"}), (SEARCH, {"query": "k"}), (LIST, {})):
        with pytest.raises(Refusal, match=r"working\.enabled") as caught:
            room.ask(type_, **payload)
        assert (caught.value.code, caught.value.field) == ("invalid", "type")
    result = room.ask("get_context")
    assert "Working memory" not in result["system"]
    assert [row["why"] for row in result["sections"] if row["source"].startswith("data/working")] == [
        "working.enabled is false"
    ]
