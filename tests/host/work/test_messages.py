"""The file of a group's messages: found by number, from either end, whatever a person or a crash did to its lines."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.work.messages import Message, dump_message, read_messages


def one(seq: int, content: str = "x") -> Message:
    at = datetime(2026, 11, 22, 9, tzinfo=UTC)
    to = ("ben",) if seq % 2 else None
    return Message(seq=seq, at=at, sender="ann", content=content, session="main", to=to, request=f"r{seq}")


def anything(message: Message) -> bool:
    return True


def for_some(message: Message) -> bool:
    return message.to is not None


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 300), st.sampled_from([b"", b"\n", b"no message\n"]))),
    st.integers(0, 120),
    st.integers(1, 7),
)
def test_messages_read_from_anywhere_equal_a_full_reading(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, bytes]], after: int, most: int
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / "data/messages").mkdir(parents=True)
    seq, data, known = 0, b"", []
    for step, length, more in steps:
        seq += step
        known.append(one(seq, "é\n" * length))
        data += dump_message(known[-1]) + more
    (home / "data/messages/main.jsonl").write_bytes(data + b'{"seq": 999, "torn')
    for is_wanted in (anything, for_some):
        wanted = [message for message in known if message.seq > after and is_wanted(message)][:most]
        found, read_to = read_messages(home, "main", after, most, is_wanted)
        assert list(found) == wanted
        last = wanted[-1].seq if len(wanted) == most else max(seq, after)
        assert read_to == last
        newest, read_to = read_messages(home, "main", None, most, is_wanted)
        assert list(newest) == [message for message in known if is_wanted(message)][-most:]
        assert read_to == seq
