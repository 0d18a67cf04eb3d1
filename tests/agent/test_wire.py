"""The rules of docs/protocol.md for bytes that arrive, and for the bytes we send."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent import wire
from honeybadger_agent.schemas import schemas
from honeybadger_agent.wire import TURN_TYPES, NotARequest, Refusal, parse_payload, parse_request

SECRET = "correct horse battery staple"


def envelope(**members: Any) -> dict[str, Any]:
    """Return a good `update_memory` with some members replaced."""
    return {"v": 1, "id": "note-1", "type": "update_memory", "payload": {"content": "dark mode"}} | members


def without(member: str) -> dict[str, Any]:
    value = envelope()
    del value[member]
    return value


def parse(value: Any, stem: str = "note-1") -> wire.Wire:
    """Take the bytes of a request file as far as the host does before it knows the type."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return parse_payload(parse_request(data, stem))


def refused(value: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        parse(value)
    assert SECRET not in str(caught.value), "no message shows the content"
    return caught.value


def not_a_request(value: Any) -> NotARequest:
    with pytest.raises(NotARequest) as caught:
        parse(value)
    assert SECRET not in str(caught.value), "no message shows the content"
    return caught.value


NO_REQUESTS: list[tuple[object, str]] = [
    *((envelope(v=version), "v must be an integer") for version in ("1", 1.0, True, None, [1])),
    *((envelope(**{name: [SECRET]}), f"{name} must be a string") for name in ("id", "type", "group", "sender")),
    *((envelope(**{name: [SECRET]}), f"{name} must be a string") for name in ("session", "sent_at")),
    (envelope(payload=[SECRET]), "payload must be an object"),
    *((without(member), f"{member} is missing") for member in ("v", "id", "type")),
]


@pytest.mark.parametrize(("value", "why"), NO_REQUESTS)
def test_what_is_no_request_says_which_member_is_wrong(value: Any, why: str) -> None:
    assert not_a_request(value).message == f"not a request: {why}"


SESSIONS = "session must be 1-100 characters of A-Z a-z 0-9 . _ : -, not only dots (example: main)"
FORBIDDEN_SESSIONS = ("", "a b", "a/b", "é", "main\n", "x" * 101, ".", "..", "." * 100)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        *(({"v": number}, f"v is {number}; this host speaks version 1: send v: 1") for number in (0, 2, -1, 2**63)),
        ({"v": 2, "type": "x", "payload": {"body": []}}, "v is 2; this host speaks version 1: send v: 1"),
        ({"id": "note-2"}, "id must equal the file's name without .json, which is 'note-1'"),
        *(({"id": one}, "id must be the id of a message") for one in ("", "a/b", "note 1", "x" * 101)),
        *(({"session": session}, SESSIONS) for session in FORBIDDEN_SESSIONS),
        ({"type": "updatememory"}, "type 'updatememory' is unknown; did you mean update_memory?"),
        ({"type": "xyz"}, f"type 'xyz' is unknown; known: {', '.join(wire.REQUEST_TYPES)}"),
    ],
)
def test_a_wrong_envelope_is_refused_by_member(members: dict[str, Any], message: str) -> None:
    refusal = refused(envelope(**members))
    assert (refusal.code, refusal.field) == ("invalid", next(iter(members)))
    assert refusal.message.startswith(message)


NOTE, TURN = ("update_memory", {"content": "x"}), ("append_turn", {"role": "user", "content": "x"})
UNKNOWN: list[tuple[tuple[str, dict[str, Any]], dict[str, Any], str]] = [
    (("update_memory", {}), {"contnt": "x"}, "contnt is unknown; did you mean content?"),
    (NOTE, {"Section": "A"}, "Section is unknown; did you mean section?"),
    (NOTE, {"why": SECRET}, "why is unknown; known: content, section, pinned"),
    (NOTE, {"a\nb\x1b[2J": 1}, r"a\nb\x1b[2J is unknown; known: content, section, pinned"),
    (("ping", {}), {"loud": True}, "loud is unknown; ping takes no members"),
    (("get_history", {}), {"budget": 1}, "budget is unknown; did you mean budget_tokens?"),
]
WRONG: list[tuple[tuple[str, dict[str, Any]], dict[str, Any], str]] = [
    (("update_memory", {}), {"section": SECRET}, "content is missing"),
    *((NOTE, {"content": value}, "content must be a string") for value in (5, None, [SECRET], {SECRET: SECRET})),
    *((NOTE, {name: ""}, f"{name} is empty") for name in ("content", "section")),
    (("get_context", {"parts": []}), {}, "parts is empty"),
    (TURN, {"role": SECRET}, "role must be 'user', 'assistant', 'system' or 'tool'"),
    (TURN, {"tools_used": "a"}, "tools_used must be an array"),
    (TURN, {"tools_used": ["a", 1]}, "tools_used.1 must be a string"),
    (TURN, {"input_tokens": -1}, "input_tokens must be at least 0"),
    *((("get_history", {"budget_tokens": no}), {}, "budget_tokens must be an integer") for no in ("8", 8.0, True)),
    (("get_history", {"max_messages": 0}), {}, "max_messages must be at least 1"),
    (("save_to_working_memory", {"key": "k", "data": "x"}), {"ttl_minutes": 1441}, "ttl_minutes must be at most 1440"),
    *((NOTE, {"pinned": no}, "pinned must be true or false") for no in (SECRET, 1)),
    (NOTE, {"content": SECRET * 2_000}, "content has 56000 characters, the limit is 32768: send less"),
    (NOTE, {"content": "é" * 32_769}, "content has 32769 characters, the limit is 32768: send less"),
    (NOTE, {"section": SECRET * 3}, "section has 84 characters, the limit is 80: send less"),
    (TURN, {"tools_used": [SECRET] * 65}, "tools_used has 65 items, the limit is 64: send less"),
]


@pytest.mark.parametrize(("good", "members", "message"), UNKNOWN + WRONG)
def test_a_wrong_member_is_refused_by_name_never_converted(
    good: tuple[str, dict[str, Any]], members: dict[str, Any], message: str
) -> None:
    refusal = refused(envelope(type=good[0], payload={**good[1], **members}))
    assert (refusal.code, refusal.message) == ("too_large" if "limit" in message else "invalid", f"payload.{message}")
    assert refusal.field == f"payload.{message}".partition(" ")[0]


@pytest.mark.parametrize("number", [2**53, 2**63, 2**64, 10**30, "-1", "-0.0", "1.0", "1e2", "1e308", "[7]"])
def test_no_number_is_taken_for_another(number: int | str) -> None:
    data = b'{"v":1,"id":"note-1","type":"get_history","payload":{"budget_tokens":%s}}'
    refusal = refused(data % str(number).encode())
    assert (refusal.code, refusal.field) == ("invalid", "payload.budget_tokens")
    for count in (wire.MAX_NUMBER, "-0"):
        parse(data % str(count).encode())
    not_a_request(data % (b"1" + b"0" * 400))  # no double holds it: then it is no JSON


def test_of_two_members_with_one_name_the_last_counts() -> None:
    data = b'{"v":2,"v":1,"id":"x","id":"note-1","type":"update_memory","payload":{"content":"a","content":"b"}}'
    assert parse(data) == wire.UpdateMemory(content="b")


def test_of_100_000_unknown_members_the_first_is_named() -> None:
    many = {f"k{number}": number for number in range(100_000)}
    assert refused(envelope(payload={"content": "x"} | many)).field == "payload.k0"
    assert parse(envelope() | many) == wire.UpdateMemory(content="dark mode")


DUMPS: list[Callable[[object], bytes]] = [
    orjson.dumps,
    lambda value: json.dumps(value).encode(),
    lambda value: json.dumps(value, indent=2, ensure_ascii=False).encode(errors="replace"),
]


@given(
    st.dictionaries(
        st.text(), st.text() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    ),
    st.sampled_from(DUMPS),
    st.data(),
)
def test_any_object_cut_anywhere_is_unfinished(
    value: dict[str, Any], dumps: Callable[[object], bytes], data: st.DataObject
) -> None:
    """Also within a character, an escape or a surrogate pair: a writer without rename may be seen at any byte."""
    whole = dumps(envelope(payload={"content": 'é😀 \\ " \n \u2028\x85\x07'}, more=value))
    assert not_a_request(whole[: data.draw(st.integers(0, len(whole) - 1))]).is_unfinished


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["content", "role"]), inner),
    max_leaves=12,
)
members = st.fixed_dictionaries(
    {},
    optional={
        "v": st.just(1) | json_values,
        "id": st.just("note-1") | json_values,
        "type": st.sampled_from([*wire.REQUEST_TYPES]) | json_values,
        "session": st.just("main") | json_values,
        "payload": st.dictionaries(
            st.sampled_from(["content", "section", "role", "budget_tokens", "tools_used", "message"]) | st.text(),
            json_values,
        )
        | json_values,
    },
)
files = (
    st.binary()
    | st.text().map(str.encode)
    | json_values.map(lambda value: json.dumps(value).encode())
    | members.map(lambda value: json.dumps(value).encode())
    | members.map(lambda value: json.dumps(envelope() | value).encode())
)


def problem_of(data: bytes, stem: str) -> Refusal | NotARequest | None:
    try:
        parse(data, stem)
    except (Refusal, NotARequest) as error:
        return error
    return None


@given(files, st.text(max_size=20) | st.just("note-1"))
def test_any_bytes_are_a_request_or_a_printable_error(data: bytes, stem: str) -> None:
    problem = problem_of(data, stem)
    if problem is not None:
        assert problem.message.isprintable()
        assert len(problem.message) < 1_000
    if isinstance(problem, Refusal):
        assert problem.code in ("invalid", "too_large")
        assert problem.field is not None
        wire.dump_error("note-1", problem)


EXAMPLES = re.findall(
    r"^```json\n(.*?)^```", (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(), re.MULTILINE | re.DOTALL
)


def test_the_example_request_of_the_protocol_page_is_one() -> None:
    requests = [example for example in EXAMPLES if '"type"' in example]
    assert requests
    for example in requests:
        request = parse_request(example.encode(), orjson.loads(example)["id"])
        assert request.model_fields_set == set(orjson.loads(example))
        parse_payload(request, wire.REQUEST_TYPES | wire.TURN_TYPES)


def test_the_example_replies_of_the_protocol_page_are_some() -> None:
    replies = [line for example in EXAMPLES if '"ok"' in example for line in example.splitlines()]
    assert len(replies) > 2
    for line in replies:
        reply = wire.Reply.model_validate(orjson.loads(line))
        assert reply.model_dump(exclude_unset=True) == orjson.loads(line)


def test_a_payload_is_closed_and_a_result_may_grow() -> None:
    written = {name: orjson.loads(data) for name, data in schemas().items()}
    for name in (*wire.REQUEST_TYPES, *TURN_TYPES):
        assert written[f"{name}.payload.json"]["additionalProperties"] is False
        result = written[f"{name}.result.json"]
        for model in [result, *result.get("$defs", {}).values()]:
            assert "additionalProperties" not in model, name
