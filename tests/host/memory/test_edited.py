"""One suite for every kind of JSON document that people edit: what is none is refused in words, with its place."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.curation.proposal import dump_proposal, parse_proposal
from honeybadger_host.memory.entries.entry import MAX_ENTRY_FILE_BYTES, dump_entry, parse_entry
from honeybadger_host.memory.session_document import dump_document, parse_document
from honeybadger_host.memory.working_memory import dump_working, parse_working
from tests.host.curation.test_gates import file as proposal
from tests.host.memory.test_entry import FILE, objects
from tests.host.memory.test_working_memory import entry

# Kind -> what reads its file, and what writes it.
KINDS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    "entry": (lambda data: parse_entry(data, FILE), dump_entry),
    "session": (lambda data: parse_document(data, "s"), dump_document),
    "working": (parse_working, dump_working),
    "proposal": (parse_proposal, dump_proposal),
}
NO_OBJECT = [
    (b"", "not JSON"),
    (b'{"content": "x",}', "not JSON"),
    (b'{"content": ["\\ud800"]}', "not JSON"),
    (b'{"content": ["\xff"]}', "not JSON"),
    (b"[]", "must be a JSON object"),
    (b'{"metadata": ' + b'{"a":' * 400 + b"1" + b"}" * 401, "nested too deep"),
]


def working(**changed: object) -> bytes:
    return orjson.dumps(orjson.loads(dump_working(entry("draft"))) | changed)


WRONG = [
    ("entry", b"{}", "content is missing"),
    ("entry", b'{"content": " \\n"}', "content must be a text that is not blank"),
    ("entry", b'{"content": "x", "tags": "a, b"}', "tags must be an array"),
    ("entry", b'{"content": "x", "created": "yesterday"}', "created must be a time"),
    ("entry", b'{"content": "x", "updated": "0001-01-01T00:00:00+10:00"}', "updated must be a time"),
    ("entry", b'{"content": "x", "metadata": {"order": [12345678901234567890123]}}', "over 64 bits"),
    ("entry", b'{"content": "x", "reinforced": -1}', "reinforced must be at least 0"),
    ("entry", b'{"content": "' + b"x" * MAX_ENTRY_FILE_BYTES + b'"}', "at most 1048576"),
    ("session", b'{"facts": ["a", 5]}', "facts.1 must be a string"),
    ("session", b'{"system_state": []}', "system_state must be an object"),
    ("session", b'{"recent_history": [{"timestamp": true}]}', "recent_history.0.timestamp must be an integer"),
    ("session", b'{"active_tasks": [{"id": "a"}, {"progress": "half"}]}', "active_tasks.1.progress must be a number"),
    ("session", b'{"token_usage": {"total_input": 1e300}}', "token_usage.total_input must be at most"),
    ("working", working(data=None), "data is missing"),
    ("working", working(stored_at=5), "stored_at must be a time"),
    ("proposal", proposal(v=2), "v must be 1"),
    ("proposal", b"{}", "id is missing; group is missing; kind is missing; made_at is missing"),
    ("proposal", proposal(group="../../etc"), "group must be an id: 1-64 characters"),
    ("proposal", proposal(operatoins=[]), "operatoins is unknown"),
    ("proposal", proposal({"sources": ["../x"]}), "operations.0.sources.0 must be an id as search shows it"),
    ("proposal", proposal({"sources": ["a1", "a1"]}), "operation 1 names one of its sources twice"),
    ("proposal", proposal({"op": "retire"}), "operation 1, retire, writes no text"),
    (
        *("proposal", proposal({"evidence": [{"session": "main", "turn": 1, "quote": ""}]})),
        "operations.0.evidence.0.quote is empty",
    ),
    (
        *("proposal", proposal(operations=[{"n": 1, "op": "retire", "sources": [one]} for one in "ab"])),
        "have the same `n`",
    ),
]


def refused(kind: str, data: bytes) -> str:
    """Return why a file is none of its kind."""
    with pytest.raises(ValueError) as caught:
        KINDS[kind][0](data)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_json_object_is_no_document(kind: str) -> None:
    for data, says in NO_OBJECT:
        assert says in refused(kind, data), data[:60]


@pytest.mark.parametrize(("kind", "data", "says"), WRONG, ids=[f"{kind} {says}" for kind, _, says in WRONG])
def test_a_wrong_document_is_refused_with_its_place(kind: str, data: bytes, says: str) -> None:
    assert says in (told := refused(kind, data))
    assert len(told) < 1000


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.binary(max_size=200) | objects.map(orjson.dumps))
def test_any_bytes_are_a_document_or_refused(kind: str, data: bytes) -> None:
    parse, dump = KINDS[kind]
    try:
        document = parse(data)
    except ValueError:
        return
    assert parse(dump(document)) == document
