"""Sessions: a log that is kept whole, a window over its newest turns; what hands and crashes do to it (AM1, AB5)."""

import gc
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent.wire import Role
from honeybadger_host.errors import WorldFailed
from honeybadger_host.journal.changes import Added, TurnAdded
from honeybadger_host.memory.turn_log import Window, dump_turn, parse_turn, read_window, turns_file
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import Turn

AT = datetime(2026, 11, 21, 6, 5, 59, 123000, tzinfo=UTC)


def turn(number: int, content: str = "") -> Turn:
    content = content or f"turn {number}"
    return Turn(number, AT, "user", "user", "front", content, estimate_tokens(content))


def line(number: int, content: str = "") -> bytes:
    return dump_turn(turn(number, content), f"request-{number}")


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / turns_file("main", "main")
    path.parent.mkdir(parents=True)
    return path


def conversations_of(
    home: Path, *, window_turns: int = 50, unwritten: Callable[[str], Sequence[bytes]] = lambda file: ()
) -> TurnLogs:
    return TurnLogs(home, window_turns=window_turns, clock=time.monotonic, unwritten=unwritten)


def added(session: str, number: int, content: str = "") -> TurnAdded:
    new = turn(number, content)
    return TurnAdded("main", session, new, dump_turn(new, f"request-{number}"))


def say(home: Path, turn_logs: TurnLogs, session: str, content: str = "") -> int:
    """Append one turn as the pipeline does: load, number, apply, write, end the batch."""
    turn_logs.view("main", session)
    change = added(session, turn_logs.next_number("main", session), content)
    turn_logs.apply(change)
    write(home, change)
    turn_logs.end_batch([change])
    return change.turn.number


def write(home: Path, change: TurnAdded) -> None:
    path = home / change.file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(change.data)


def numbers(turn_logs: TurnLogs, session: str = "main") -> list[int]:
    return [each.number for each in turn_logs.window("main", session).turns]


@given(
    st.text(min_size=1),
    st.text(min_size=1, max_size=80),
    st.sampled_from(["user", "assistant", "system", "tool"]),
    st.lists(st.text(max_size=20), max_size=3),
    st.none() | st.integers(0, 2**53 - 1),
)
def test_a_turn_reads_back_from_its_line(
    content: str, sender: str, role: Role, tools: list[str], tokens: int | None
) -> None:
    said = Turn(7, AT, role, sender, "front", content, 3, tuple(tools), tokens, tokens)
    data = dump_turn(said, "request-7")
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert parse_turn(data) == said


GARBAGE = [
    b"",
    b"no json",
    b"\x00" * 40,
    b"\xff\xfe",
    b"{}",
    b"[]",
    b"[" * 2000,
    line(99)[:-20],
    line(99).replace(b'"turn":99', b'"turn":"99"'),
    line(99).replace(b'"turn":99', b'"turn":1e400'),
    line(99).replace(b'"role":"user"', b'"role":"root"'),
    line(99).replace(b'"sender":"user"', b'"sender":["user"]'),
    line(99).replace(b'"content":"turn 99"', b'"content":{}'),
    line(99).replace(b'"content":"turn 99"', b'"content":"\\ud800"'),
    line(99).replace(b"2026-11-21T06:05:59.123Z", b"yesterday"),
    line(99).replace(b"2026-11-21T06:05:59.123Z", b"0001-01-01T00:00:00+14:00"),
    line(99).replace(b'"at":"2026-11-21T06:05:59.123Z"', b'"at":1795241159'),
    line(99).replace(b'"token_count":1,', b'"token_count":1,"tools_used":5,'),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_a_line_that_is_no_turn_hides_no_other(log_file: Path, garbage: bytes) -> None:
    garbage = garbage.replace(b"\n", b"")
    log_file.write_bytes(line(1) + garbage + b"\n" + line(2) + garbage + b"\n" + line(3) + garbage)
    window = read_window(log_file, 50)
    assert [each.number for each in window.turns] == [1, 2, 3]
    assert window.last_number == 3
    assert window.skipped == (3 if garbage.strip() else 0)


@given(st.lists(st.sampled_from([0, 10, 100, 16_250, 16_383, 16_384, 16_385, 140_000]), max_size=6), st.integers(1, 7))
def test_lines_of_any_length_are_read_from_the_end(lengths: list[int], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "main.jsonl"
        path.write_bytes(b"".join(line(number, "x" * length) for number, length in enumerate(lengths, 1)))
        window = read_window(path, size)
    assert [each.number for each in window.turns] == list(range(1, len(lengths) + 1))[-size:]
    assert [len(each.content) for each in window.turns if lengths[each.number - 1]] == [n for n in lengths[-size:] if n]
    assert window.skipped == 0


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/etc/passwd")], ids=["folder", "link"])
def test_an_obstacle_in_place_of_a_log_is_named(tmp_path: Path, log_file: Path, make: Callable[[Path], object]) -> None:
    make(log_file)
    turn_logs = conversations_of(tmp_path)
    for _ in range(2):
        with pytest.raises(WorldFailed, match=r"main\.jsonl is a (folder|link)"):
            turn_logs.view("main", "main")


def test_the_window_moves_and_the_log_is_kept_whole(tmp_path: Path, log_file: Path) -> None:
    turn_logs = conversations_of(tmp_path, window_turns=5)
    assert [say(tmp_path, turn_logs, "main") for _ in range(12)] == list(range(1, 13))
    assert numbers(turn_logs) == [8, 9, 10, 11, 12]
    assert [parse_turn(each).number for each in log_file.read_bytes().splitlines()] == list(range(1, 13))


def test_a_snapshot_does_not_change_when_more_is_said(tmp_path: Path) -> None:
    turn_logs = conversations_of(tmp_path)
    say(tmp_path, turn_logs, "main")
    before = turn_logs.window("main", "main")
    say(tmp_path, turn_logs, "main")
    assert [each.number for each in before.turns] == [1]
    assert numbers(turn_logs) == [1, 2]


@pytest.mark.parametrize("seen", [1, 2, 3])
def test_a_query_during_an_append_doubles_no_turn(tmp_path: Path, seen: int) -> None:
    turn_logs = conversations_of(tmp_path)
    say(tmp_path, turn_logs, "main")
    batch = []
    turn_logs.view("main", "main")
    for _ in range(3):
        batch.append(added("main", turn_logs.next_number("main", "main")))
        turn_logs.apply(batch[-1])
    for number, change in enumerate(batch, 1):
        write(tmp_path, change)
        if number == seen:
            assert numbers(turn_logs) == list(range(1, seen + 2))  # the query
    turn_logs.end_batch(batch)
    assert numbers(turn_logs) == [1, 2, 3, 4]
    assert say(tmp_path, turn_logs, "main") == 5
    assert numbers(turn_logs) == numbers(conversations_of(tmp_path)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("replaces", [False, True])
def test_a_log_changed_from_outside_is_read_again(tmp_path: Path, log_file: Path, replaces: bool) -> None:
    turn_logs = conversations_of(tmp_path)
    for _ in range(3):
        say(tmp_path, turn_logs, "main")
    edited = b"".join(line(number, f"edited {number}") for number in (1, 2))
    if replaces:
        log_file.with_name("new").write_bytes(edited)
        log_file.with_name("new").rename(log_file)
    else:
        log_file.write_bytes(edited)
    assert [each.content for each in turn_logs.window("main", "main").turns] == ["edited 1", "edited 2"]
    assert say(tmp_path, turn_logs, "main") == 3
    log_file.unlink()
    assert numbers(turn_logs) == []
    assert say(tmp_path, turn_logs, "main") == 1


def test_an_edit_before_an_append_is_seen_after_it(tmp_path: Path, log_file: Path) -> None:
    turn_logs = conversations_of(tmp_path)
    say(tmp_path, turn_logs, "main")
    turn_logs.view("main", "main")
    change = added("main", turn_logs.next_number("main", "main"))
    turn_logs.apply(change)
    with log_file.open("ab") as file:
        file.write(line(70, "by hand"))
    write(tmp_path, change)
    turn_logs.end_batch([change])
    assert numbers(turn_logs) == [1, 70, 2]
    turn_logs.view("main", "main")
    assert turn_logs.next_number("main", "main") == 71


def test_a_turn_behind_on_disk_keeps_its_number_and_is_known(tmp_path: Path, log_file: Path) -> None:
    """The disk was too full for the second of two turns."""
    waiting: list[bytes] = []
    turn_logs = conversations_of(tmp_path, unwritten=lambda file: waiting)
    say(tmp_path, turn_logs, "main")
    new, id_ = replace(turn(2), key="k"), f"import-{2:024}"
    change = TurnAdded("main", "main", new, dump_turn(new, id_))
    mark = Added("turns_withdrawn", "main", "data/sessions/main/main.jsonl", b'{"withdrawn":[[1,1]]}')
    waiting += [change.data, mark.data]
    assert numbers(turn_logs) == [1, 2]
    turn_logs.view("main", "main")
    assert turn_logs.next_number("main", "main") == 3
    assert turn_logs.last_at("main", "main") == change.turn.at
    assert (*turn_logs.keyed("main", "main", ["k"]), *turn_logs.imported("main", "main")) == ("k", id_)
    write(tmp_path, change)  # caught up
    assert numbers(turn_logs) == [1, 2]
    waiting.clear()
    assert numbers(turn_logs) == [1, 2]


def test_the_fault_of_a_log_is_told_once(tmp_path: Path, log_file: Path) -> None:
    turn_logs = conversations_of(tmp_path)
    log_file.write_bytes(line(1) + b"no json\n")
    with structlog.testing.capture_logs() as events:
        for _ in range(3):
            assert numbers(turn_logs) == [1]
    assert [(event["event"], event["lines"]) for event in events] == [("conversation.skipped", 1)]


def test_a_stranger_who_makes_up_sessions_fills_no_memory(tmp_path: Path) -> None:
    turn_logs = conversations_of(tmp_path)
    for number in range(2000):
        turn_logs.view("main", f"made-up-{number}")
        turn_logs.window("main", f"made-up-{number}")
        turn_logs.end_batch([])
    assert sum(isinstance(each, Window) for each in gc.get_objects()) < 10
