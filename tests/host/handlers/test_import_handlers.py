"""`import_records`: who may ask, times that stay in order, records that cannot be taken."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_host.journal.forgetting import bury
from tests.host.handlers.room import Room


@pytest.fixture
def room(home: Path) -> Room:
    return Room(home)


def turn(number: int, at: str, content: str = "said", **members: Any) -> dict[str, Any]:
    return {"id": f"import-{number:024}", "role": "user", "content": content, "at": at, **members}


def entry(id_: str, content: str, **members: Any) -> dict[str, Any]:
    return {"id": id_, "content": content, "category": "imported", "origin_from": "a.md", **members}


def test_imported_turns_continue_numbers_and_times(room: Room, home: Path) -> None:
    room.change("append_turn", role="user", content="here")
    said = [turn(1, "2020-01-01T00:00:00Z"), turn(2, "2999-01-01T00:00:00Z"), turn(3, "2020-01-02T10:00+02:00")]
    assert room.change("import_records", "operator", turns=said)["added"] == 3
    lines = [orjson.loads(line) for line in (home / "data/sessions/main/main.jsonl").read_bytes().splitlines()]
    assert [line["turn"] for line in lines] == [1, 2, 3, 4]
    times = [line["at"] for line in lines]
    assert times == sorted(times)
    assert times[-1] < "2900"
    assert not (home / "data/consolidated/main/main.json").exists()  # a turn of this host waits before them


def test_a_refused_record_is_named_and_others_are_imported(room: Room) -> None:
    said = [turn(1, "2020-13-01T00:00:00Z"), turn(2, "2020-01-01T00:00:00Z", "\u200b"), turn(3, "2020-01-01T00:00:00Z")]
    result = room.change("import_records", "operator", turns=said)
    assert (result["added"], [one["id"][-1] for one in result["refused"]]) == (1, ["1", "2"])
    both = [entry("e1", "tea"), entry("e1", "tea"), entry("e2", " "), entry("e3", "x", created="2020-02-30T00:00:00Z")]
    result = room.change("import_records", "operator", entries=both)
    assert (result["added"], result["known"], [one["id"] for one in result["refused"]]) == (1, 1, ["e2", "e3"])
    result = room.change("import_records", "operator", entries=[entry("e1", "cake")])
    assert "says something else" in result["refused"][0]["why"]


def test_a_turn_that_was_imported_is_known_by_its_id(room: Room) -> None:
    one, two, three, four = (turn(number, "2020-01-01T00:00:00Z") for number in range(1, 5))
    room.change("import_records", "operator", turns=[one, two])
    outcome = room.decide("import_records", "operator", turns=[one, two, three, three])
    room.unit.apply(outcome.changes)
    later = room.decide("import_records", "operator", turns=[three, four])  # in the same batch
    assert [(each.result["added"], each.result["known"]) for each in (outcome, later)] == [(1, 3), (1, 1)]


def test_what_was_forgotten_does_not_come_in_again(room: Room) -> None:
    room.journal.change_past(lambda connection: bury(connection, "main", ["vault code"], []))
    said = [turn(1, "2020-01-01T00:00:00Z", "The VAULT  code is 7"), turn(2, "2020-01-01T00:00:00Z", "tea")]
    both = [entry("e1", "My vault code"), entry("e2", "cake")]
    result = room.change("import_records", "operator", turns=said, entries=both)
    assert (result["added"], [one["id"][-1] for one in result["refused"]]) == (2, ["1", "1"])
    assert all("forgotten" in one["why"] for one in result["refused"])
