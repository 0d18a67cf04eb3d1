"""Searching and recalling, on real files; handlers are plain functions."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from honeybadger_agent.wire import Refusal
from honeybadger_host.handlers.search import moment
from tests.host.handlers.room import Room


def put(room: Room, name: str, content: str, category: str = "general", **members: Any) -> None:
    file = f"groups/main/memory/{category}/{name}.json"
    (room.home / file).parent.mkdir(parents=True, exist_ok=True)
    (room.home / file).write_bytes(orjson.dumps({"content": content, **members}))
    room.index.touch(file)


def ids(result: Mapping[str, Any]) -> list[str]:
    return [hit["id"] for hit in result["hits"]]


def test_an_entry_is_found_by_content_tags_and_category(room: Room) -> None:
    put(room, "e1", "Lives in Chicago", "user-preferences/time-zone", tags=["whereabouts"])
    put(room, "e2", "Drinks tea")
    for query in ("chicago", "whereabouts", "preferences", "time zone", "Time-Zones"):
        assert ids(room.ask("search_memory", query=query)) == ["e1"], query


@pytest.mark.parametrize("query", [None, "tea"])
def test_tags_and_categories_are_the_same_whatever_their_case(room: Room, query: str | None) -> None:
    put(room, "e1", "Drinks tea", "Habits/Daily", tags=["Straße", "HOT"])
    put(room, "e2", "Grows tea", "habitsdaily", tags=["cold"])
    asked = {} if query is None else {"query": query}
    for category in ("habits", "HABITS", "habits/daily", "Habits/DAILY"):
        assert ids(room.ask("search_memory", category=category, **asked)) == ["e1"], category
    for tags in (["hot"], ["Hot", "STRASSE"], ["\uff28\uff2f\uff34"]):
        assert ids(room.ask("search_memory", tags=tags, **asked)) == ["e1"], tags
    assert ids(room.ask("search_memory", tags=["hot", "cold"], **asked)) == []
    assert room.ask("list_memory_entries", category="hABITS")["total"] == 1


def test_without_a_query_the_newest_are_listed(room: Room) -> None:
    for number in (3, 1, 2):
        put(room, f"e{number}", "fact", updated=f"2026-05-0{number}T00:00:00Z")
    listed = room.ask("search_memory", limit=2)
    assert ids(listed) == ["e3", "e2"]
    assert [hit["score"] for hit in listed["hits"]] == [None, None]


def test_a_date_as_an_end_includes_its_day() -> None:
    day, now = datetime(2026, 5, 4, tzinfo=UTC).timestamp(), datetime(2026, 5, 5, 9, tzinfo=UTC)
    for date in ("2026-05-04", "yesterday"):
        assert moment(date, "since", now) == day
        assert moment(date, "until", now, is_end=True) == pytest.approx(day + 86_400 - 1e-6, abs=1e-7)
    assert moment("2026-05-04T10:00:00+02:00", "until", now, is_end=True) == day + 8 * 3600
    assert moment("2026-05-04T10:00", "since", now) == day + 10 * 3600
    assert moment(None, "since", now) is None
    for wrong in ("2026-02-30", "2026-05-04T25:00"):
        with pytest.raises(Refusal, match="is not a time"):
            moment(wrong, "since", now)


def test_eight_entries_are_recalled_and_others_are_near_misses(room: Room) -> None:
    for number in range(12):
        put(room, f"e{number:02}", f"The badger likes dish {number}")
    context = room.ask("get_context", message="What does the badger like?")
    rows = context["recalled"]
    assert [row["state"] for row in rows] == ["new"] * 8 + ["near_miss"] * 4
    assert all(row["why"] == "8 others match better" for row in rows[8:])
    assert context["system"].count("\n- [e") == 8
    assert sum(row["points"]["terms"] > 0 for row in rows) == 12


def wrote(room: Room, *notes: tuple[str, str, str]) -> None:
    with (room.home / "groups/main/MEMORY.md").open("a") as file:
        for author, content, at in notes:
            file.write(f"\n## Preferences ({author}, {at})\n- {content}\n")
    room.index.touch("groups/main/MEMORY.md")


def test_equal_notes_are_one_hit_and_each_opens(room: Room) -> None:
    dark = "User prefers dark mode"
    wrote(
        room,
        ("user", dark, "2026-11-01 06:00"),
        ("cook", "User prefers dark bread", "2026-11-01 07:00"),
        ("sheila", dark, "2026-11-02 06:00"),
        ("claude", dark, "2026-11-03 06:00"),
        ("claude", dark, "2026-11-03 06:00"),
    )
    for asked in ({"query": "dark mode"}, {}):
        first, second = sorted(room.ask("search_memory", **asked)["hits"], key=lambda hit: "bread" in hit["text"])
        assert (first["author"], first["time"]) == ("claude", "2026-11-03T06:00:00Z")
        assert [(other["author"], other["time"][:10]) for other in first["also"]] == [
            ("claude", "2026-11-03"),
            ("sheila", "2026-11-02"),
            ("user", "2026-11-01"),
        ]
        assert "also" not in second
        for other in (first, *first["also"]):
            assert room.ask("get_memory", id=other["id"])["content"] == f"- {dark}"


def test_other_hits_take_the_places_that_repeated_notes_leave(room: Room) -> None:
    repeated = [("bot", "tea at noon", f"2026-11-{day:02} {hour:02}:00") for day in range(1, 21) for hour in range(20)]
    wrote(room, *repeated, *[("ann", f"a cup of tea number {number}", "2026-10-01 06:00") for number in range(5)])
    for asked in ({"query": "tea noon"}, {}):
        hits = room.ask("search_memory", limit=4, **asked)["hits"]
        assert [hit["text"] for hit in hits].count("- tea at noon") == 1
        assert len({hit["text"] for hit in hits}) == len(hits) == 4
        (same,) = [hit for hit in hits if hit["text"] == "- tea at noon"]
        assert (same["time"], len(same["also"])) == ("2026-11-20T19:00:00Z", 5)
