"""What requests of working memory are decided and answered, on real files (RB6, RB12)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent.wire import REQUEST_TYPES, Refusal
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handler_kinds import Outcome
from honeybadger_host.journal.changes import Change
from honeybadger_host.settings import Settings
from tests.host.handlers import room as rooms
from tests.host.handlers.room import NOW

SAVE, GET, SEARCH, LIST = (
    "save_to_working_memory",
    "get_from_working_memory",
    "search_working_memory",
    "list_working_memory",
)


class Room(rooms.Room):
    """Several saves may share a batch: each is decided upon those before it, and `write` writes them."""

    def __init__(self, home: Path, **settings: Any) -> None:
        super().__init__(home, Settings.model_validate(settings))
        self.decided: list[Change] = []

    def decide(self, session: str = "main", group: str = "main", /, **payload: Any) -> Outcome:
        """Decide one save of a batch that is not written yet."""
        asked = self.asking(SAVE, payload, session=session, group=group)
        outcome = self.handler(SAVE).decide(asked, self.handler(SAVE).prepare(asked), self.now)
        self.unit.apply(outcome.changes)
        self.decided += outcome.changes
        REQUEST_TYPES[SAVE].result_type.model_validate(dict(outcome.result))
        return outcome

    def write_all(self) -> None:
        """Write the batch."""
        self.write(self.decided)
        self.decided.clear()

    def save(self, session: str = "main", group: str = "main", /, **payload: Any) -> Mapping[str, Any]:
        outcome = self.decide(session, group, **payload)
        self.write_all()
        return outcome.result

    def refused(self, session: str = "main", group: str = "main", /, **payload: Any) -> Refusal:
        with pytest.raises(Refusal) as caught:
            self.decide(session, group, **payload)
        self.unit.end_batch(())
        return caught.value

    def get(self, key: str, session: str = "main", group: str = "main") -> str | None:
        """Return the data of a key, None when it is answered with not_found."""
        try:
            return str(self.ask(GET, session, group, key=key)["data"])
        except Refusal as refusal:
            if (refusal.code, refusal.field) != ("not_found", "payload.key"):
                raise
            return None

    def listed(self, session: str = "main", group: str = "main") -> list[str]:
        return [entry["key"] for entry in self.ask(LIST, session, group)["entries"]]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


# -------------------------------------------------------------------------------------------------------- save and get


def test_what_is_saved_is_there_for_five_minutes(room: Room) -> None:
    result = room.save(key="page", data="text\tof a page", category="web-content", tags=["github", "rockbot", "GitHub"])
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
    assert room.get("page") == "text\tof a page"
    room.now = NOW + timedelta(minutes=5)
    assert room.get("page") is None
    assert room.listed() == []
    assert room.ask(SEARCH, query="page")["hits"] == []


def test_the_same_key_again_replaces_data_expiry_and_labels(room: Room) -> None:
    room.save(key="k", data="old", category="c", tags=["t"], ttl_minutes=60)
    room.now += timedelta(minutes=1)
    result = room.save(key="k", data="new")
    assert (result["replaced"], result["expires_at"]) == (True, "2026-11-21T06:11:59.123Z")
    entry = room.ask(GET, key="k")
    assert (entry["data"], entry["category"], entry["tags"]) == ("new", None, [])
    assert room.listed() == ["k"]
    room.now += timedelta(minutes=10)
    assert room.save(key="k", data="newer")["replaced"] is False


def test_no_session_or_group_sees_anothers_items(room: Room) -> None:
    for session, group in (("a", "main"), ("ab", "main"), ("A", "main"), ("a", "kitchen")):
        room.save(session, group, key="k", data=f"{group} {session} secretword")
        room.save(session, group, key=f"only {group} {session}", data="y")
    for session, group in (("a", "main"), ("ab", "main"), ("A", "main"), ("a", "kitchen")):
        assert room.get("k", session, group) == f"{group} {session} secretword"
        assert room.listed(session, group) == ["k", f"only {group} {session}"]
        (hit,) = room.ask(SEARCH, session, group, query="secretword")["hits"]
        assert hit["text"] == f"{group} {session} secretword"
        system = room.ask("get_context", session, group)["system"]
        (line,) = [line for line in system.splitlines() if line.startswith("- only")]
        assert line.startswith(f"- only {group} {session}: expires in ")
    assert room.get("only main ab", "a") is None
    assert room.listed("b") == []


TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


# -------------------------------------------------------------------------------------------------------------- limits


def test_the_fifty_first_entry_is_refused_with_advice(room: Room) -> None:
    for number in range(50):
        room.now += timedelta(seconds=1)
        room.save(key=f"k{number}", data="x")
    refusal = room.refused(key="one more", data="x")
    assert (refusal.code, refusal.field) == ("too_large", "payload.key")
    assert "holds 50 entries, the limit is 50: save under a key" in refusal.message
    assert "the next one expires in 4m10s; nothing was saved" in refusal.message
    assert len(room.listed()) == 50
    assert room.save(key="k7", data="new")["replaced"] is True
    assert room.save("other", key="one more", data="x")
    room.now = NOW + timedelta(minutes=5, seconds=1)
    room.save(key="one more", data="x")
    assert "k0" not in room.listed()


# ----------------------------------------------------------------------------------------------------- list and search


def test_the_list_is_by_key_and_has_no_data(room: Room) -> None:
    room.save(key="b", data="thedata", ttl_minutes=1)
    room.save(key="a", data="thedata", category="c", tags=["t"])
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
    room.save(key="page-1", data="Badgers dig.\nThe badger digs a sett.", category="web/animals", tags=["zoo"])
    room.save(key="page-2", data="Somebody saw a badger once, long ago, in another country.", category="website")
    first, second = room.ask(SEARCH, query="badger")["hits"]
    assert (first["key"], second["key"]) == ("page-1", "page-2")
    assert first["score"] > second["score"] > 0
    assert first["text"] == "Badgers dig. The badger digs a sett."
    assert [hit["key"] for hit in room.ask(SEARCH, query="badger", category="web")["hits"]] == ["page-1"]
    assert [hit["key"] for hit in room.ask(SEARCH, query="badger", tags=["ZOO"])["hits"]] == ["page-1"]


def test_a_damaged_entry_is_skipped_counted_and_never_overwritten(room: Room) -> None:
    room.save(key="good", data="x")
    bad = room.home / "data/working/main/main/bad.json"
    bad.write_bytes(b"{torn")
    assert (room.listed(), room.ask(LIST)["skipped"]) == (["good"], 1)
    with pytest.raises(WorldFailed, match=r"bad\.json is not an entry of working memory"):
        room.ask(GET, key="bad")
    with pytest.raises(WorldFailed, match=r"bad\.json is not an entry of working memory"):
        room.decide(key="bad", data="x")
    assert bad.read_bytes() == b"{torn"


# ------------------------------------------------------------------------------------------------- context and settings


def test_the_context_shows_the_inventory_and_explains_it(room: Room) -> None:
    assert "Working memory" not in room.ask("get_context")["system"]
    room.save(key="chunked-page-1", data="x", category="web-content", tags=["github", "rockbot"], ttl_minutes=4.54)
    room.save(key="draft-email", data="thedata", ttl_minutes=2.02)
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
    Room(tmp_path).save(key="k", data="x")
    room = Room(tmp_path, working={"enabled": False})
    assert room.refused(key="k", data="x").message == (
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
