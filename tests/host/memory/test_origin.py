"""The origin of an entry's text: known by the host, claimed by a sender, or given by a file."""

import pytest

from honeybadger_agent.wire import OriginKind
from honeybadger_host.memory.entries.entry import Origin, origin_of


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
