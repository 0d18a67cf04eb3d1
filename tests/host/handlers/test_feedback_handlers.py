"""`record_feedback` on real files: what it keeps, what it refuses, and how it is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from honeybadger_host.memory.turn_log import Feedback, dump_feedback, read_feedback
from tests.host.handlers.room import NOW, Room

MOMENT = NOW.replace(microsecond=NOW.microsecond // 1000 * 1000)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def test_feedback_is_one_line_with_turn_and_author(room: Room) -> None:
    room.change("append_turn", role="user", content="Find the README")
    room.change("append_turn", role="assistant", content="search_files found nothing")
    said = "Don't use search_files for content, use grep"
    assert room.change("record_feedback", "ann", kind="correction", content=said) == {"turn": 2}
    assert room.change("record_feedback", "ann", kind="praise", turn=1) == {"turn": 1}
    [first, second] = read_feedback(room.home, "main", LONG_AGO)
    assert (first.kind, first.content, first.session, first.turn, first.by) == ("correction", said, "main", 2, "ann")
    assert (second.kind, second.content, second.turn, second.at) == ("praise", "", 1, MOMENT)
    assert len((room.home / "data/feedback/main.jsonl").read_text().splitlines()) == 2


def test_feedback_is_neither_searched_nor_in_a_context(room: Room) -> None:
    room.change("record_feedback", kind="complaint", content="the badger was wrong")
    room.index.touch("data/feedback/main.jsonl")
    assert room.ask("search_memory", query="badger")["hits"] == []
    assert "badger" not in room.ask("get_context", message="What of the badger?")["system"]


# --------------------------------------------------------------------------------------------------------------- read


def kept(home: Path, *lines: bytes) -> None:
    file = home / "data/feedback/main.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as opened:
        opened.writelines(lines)


def said(number: int, content: str = "no") -> Feedback:
    at = MOMENT + timedelta(minutes=number)
    return Feedback(at=at, kind="correction", content=content, session="main", by="ann", request=f"r{number}")


def test_the_newest_since_a_time_are_read_oldest_first(tmp_path: Path) -> None:
    assert read_feedback(tmp_path, "main", LONG_AGO) == []
    kept(tmp_path, *(dump_feedback(said(number)) for number in range(100)))
    assert read_feedback(tmp_path, "main", LONG_AGO) == [said(number) for number in range(50, 100)]
    assert read_feedback(tmp_path, "main", MOMENT + timedelta(minutes=97)) == [said(97), said(98), said(99)]
    assert read_feedback(tmp_path, "main", LONG_AGO, most=1) == [said(99)]
    assert read_feedback(tmp_path, "other", LONG_AGO) == []
