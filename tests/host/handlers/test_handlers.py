"""Decisions and answers of each request, on real files; handlers are plain functions."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from honeybadger_agent.wire import REQUEST_TYPES, TURN_TYPES, Refusal
from honeybadger_host.documents.merge import as_written
from honeybadger_host.handler_kinds import ChangeHandler, TurnHandler, WaitingHandler
from honeybadger_host.journal.changes import NotesRevised, fingerprint
from honeybadger_host.journal.edits import text_after
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.feedback import Feedback, dump_feedback, read_feedback
from honeybadger_host.memory.turn_log_store import Watermark, dump_watermark, watermark_file
from honeybadger_host.search.notes import notes_of
from honeybadger_host.settings import Conversation, Settings
from tests.host.handlers.room import NOW, Room


def test_every_request_type_has_a_fitting_handler(room: Room) -> None:
    assert set(room.table) == set(REQUEST_TYPES) | set(TURN_TYPES)
    for name, kind in REQUEST_TYPES.items():
        is_turn = kind.audience == "routers" and kind.changes
        if not isinstance(room.table[name], WaitingHandler):  # of which some keep receipts
            assert isinstance(room.table[name], TurnHandler if is_turn else ChangeHandler) == kind.changes


_OLD = b"## Old (bee, 2026-01-01 00:00)\n- x\n"
_NEW = b"## Old (operator, 2026-11-21 06:05)\n- new\n  lines\n"


@pytest.mark.parametrize(
    ("above", "below"),
    [
        (b"", b""),
        (b"\xef\xbb\xbf", b""),
        (b"# Ours\r\n\r\n", b"\n\n## Rules\nBe kind."),
        (b"\n## A (bee, 2026-01-01 00:00)\n- x\n\n", b"A person's line.\n"),
        (b"No line between.\n", b"\n## B (bee, 2026-01-01 00:00)\n- y"),
    ],
    ids=["alone", "behind a mark", "of another system", "with a line below", "in between"],
)
def test_edit_note_changes_the_note_and_nothing_around_it(room: Room, above: bytes, below: bytes) -> None:
    path = room.home / "groups/main/MEMORY.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(above + _OLD + below)
    id_ = next(id_ for id_, note in notes_of("main", path.read_bytes()).items() if note.section == "Old")
    outcome = room.decide("edit_note", "operator", id=id_, content="new\nlines")
    (change,) = outcome.changes
    assert isinstance(change, NotesRevised)
    assert change.text == as_written(above) + _NEW + below
    assert outcome.result == {"file": "MEMORY.md", "id": outcome.result["id"], "section": "Old"}
    assert outcome.result["id"] in notes_of("main", change.text)
    row = Row(1, 1, "main", "operator", "r", change.row_kind, change.file, fingerprint(change.base), change.data)
    assert text_after(change.base, row) == change.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"## A (pinned) (bee, 2026-01-01 00:00)\r\n- x", b"## A (bee, 2026-01-01 00:00)\n- x"),
        (b"## A (bee, 2026-01-01 00:00)\n- x (pinned) y\n  (pinned)", b"## A (bee, 2026-01-01 00:00)\n- x y"),
        (b"## A (bee, 2026-01-01 00:00)\n- (pinned)", None),
        (b"## (pinned) (bee, 2026-01-01 00:00)\n- x", None),
    ],
    ids=["by its heading", "twice", "nothing else", "no other section"],
)
def test_a_note_is_unpinned_unless_nothing_else_is_left(room: Room, before: bytes, after: bytes | None) -> None:
    path = room.home / "groups/main/MEMORY.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"# Ours\n\n" + before + b"\n\n## Rules\nBe kind.")
    id_ = next(id_ for id_, note in notes_of("main", path.read_bytes()).items() if note.is_pinned)
    if after is None:
        assert room.refused("edit_note", "operator", id=id_, pinned=False).code == "invalid"
        return
    (change,) = room.decide("edit_note", "operator", id=id_, pinned=False).changes
    assert isinstance(change, NotesRevised)
    assert change.text == b"# Ours\n\n" + after + b"\n\n## Rules\nBe kind."


def test_append_turn_numbers_and_keeps_what_was_said(room: Room) -> None:
    assert room.change("append_turn", role="user", content="hello\nthere") == {"turn": 1, "token_count": 2}
    result = room.change(
        "append_turn", role="assistant", content="你好", tools_used=["search"], input_tokens=10, output_tokens=2
    )
    assert result == {"turn": 2, "token_count": 2}
    lines = (room.home / "data/sessions/main/main.jsonl").read_bytes().splitlines()
    assert orjson.loads(lines[1]) == {
        "turn": 2,
        "at": "2026-11-21T06:05:59.123Z",
        "role": "assistant",
        "sender": "assistant",
        "by": "researcher",
        "content": "你好",
        "token_count": 2,
        "tools_used": ["search"],
        "input_tokens": 10,
        "output_tokens": 2,
        "request": "r2",
    }


def test_an_appended_message_is_not_in_the_system_text(room: Room) -> None:
    secret = "My token is ghp_" + "k3J9s0Lq2WxZ7vB4nM1c" + "R8tY5uPaD6fGh2Q4"
    for message in ("What do I like?", "a\u202eb", secret, "  two\r\nlines "):
        room.change("append_turn", role="user", content="What do I drink?")
        room.change("append_turn", role="assistant", content="Tea.")
        room.change("append_turn", role="user", content=message)
        context = room.ask("get_context", message=message)
        assert context["messages"] == [{"role": "user", "content": message}]
        assert context["system"].endswith("[user]: What do I drink?\n[assistant]: Tea.\n")
        last = room.ask("get_context")
        assert last["messages"] == []
        assert "[user]: " in last["system"].rstrip("\n").rpartition("[assistant]: Tea.\n")[2]
        room.change("append_turn", role="assistant", content="Noted.")
        assert room.ask("get_context", message=message)["system"].endswith("[assistant]: Noted.\n")


def test_a_context_replays_unconsolidated_turns_and_the_newest_twenty(room: Room) -> None:
    for number in range(1, 61):
        room.change("append_turn", role="user", content=f"turn {number:02}")

    def replayed() -> list[int]:
        shown = room.ask("get_context")["system"].partition("## Recent Conversation")[2]
        return [number for number in range(1, 61) if f"turn {number:02}" in shown]

    assert replayed() == list(range(1, 61))
    mark = room.home / watermark_file("main", "main")
    mark.parent.mkdir(parents=True)
    for turn, first in ((30, 31), (50, 41), (60, 41), (61, 1)):  # the last one is of a log that was removed
        mark.write_bytes(dump_watermark(Watermark(turn=turn)))
        assert replayed() == list(range(first, 61))
    assert len(room.ask("get_history")["messages"]) == 50


def test_without_conversations_turns_are_neither_kept_nor_replayed(tmp_path: Path) -> None:
    room = Room(tmp_path, Settings(conversation=Conversation(enabled=False)))
    for type_, payload in (("append_turn", {"role": "user", "content": "hello"}), ("get_history", {})):
        handler = room.table[type_]
        with pytest.raises(Refusal, match=r"conversation\.enabled"):
            room.decide(type_, **payload) if isinstance(handler, ChangeHandler) else room.ask(type_, **payload)
    (tmp_path / "data/sessions/main").mkdir(parents=True)
    (tmp_path / "data/sessions/main/main.jsonl").write_bytes(b'{"turn":1,"at":"2026-11-21T06:05:59Z"}\n')
    context = room.ask("get_context", message="hello")
    assert "Recent Conversation" not in context["system"]
    row = next(row for row in context["sections"] if row["title"] == "## Recent Conversation")
    assert (row["state"], row["why"]) == ("absent", "conversation.enabled is off")


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
