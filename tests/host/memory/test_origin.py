"""Where what an entry says comes from: what the host knows, what a sender claims, and what a file says."""

from __future__ import annotations

import orjson
import pytest

from honeybadger_agent.wire import OriginKind
from honeybadger_host.memory.entries.entry import Origin, dump_entry, origin_of, parse_entry

FILE = "groups/main/memory/general/k3v9.json"


@pytest.mark.parametrize(
    ("sender", "claim", "is_agent", "expected"),
    [
        ("operator", None, False, Origin("human")),
        ("operator", "imported", False, Origin("imported", where="there")),
        ("researcher", None, True, Origin("agent")),
        ("researcher", "agent", True, Origin("agent", where="there")),
        ("researcher", "web", True, Origin("web", is_claimed=True, where="there")),
        ("researcher", "human", True, Origin("human", is_claimed=True, where="there")),
        ("stranger", None, False, None),
        ("stranger", "agent", False, Origin("agent", is_claimed=True, where="there")),
    ],
)
def test_what_the_host_cannot_know_is_marked_as_claimed(
    sender: str, claim: OriginKind | None, is_agent: bool, expected: Origin | None
) -> None:
    assert origin_of(sender, claim, claim and "there", is_agent=is_agent) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, Origin("human")),
        ({"by": "human"}, Origin("human")),
        ({"by": "consolidator"}, Origin("inferred")),
        ({"by": "researcher"}, None),
        ({"origin": "web", "origin_from": "https://example.org"}, Origin("web", where="https://example.org")),
        ({"origin": "tool", "origin_claimed": True, "by": "researcher"}, Origin("tool", is_claimed=True)),
        ({"origin": "Berlin", "by": "researcher"}, None),
        ({"origin": ["web"], "origin_from": 5}, Origin("human")),
    ],
)
def test_a_file_says_its_origin_or_its_author_tells(members: dict[str, object], expected: Origin | None) -> None:
    entry = parse_entry(orjson.dumps({"content": "x", **members}), FILE)
    assert entry.known_origin == expected
    written = orjson.loads(dump_entry(entry))
    assert {name: written[name] for name in members} == members
