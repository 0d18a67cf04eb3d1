"""The changes of a proposal's operation, as its reader sees them."""

from __future__ import annotations

from typing import Any

import pytest

from honeybadger_agent.wire.proposals import changed_lines


@pytest.mark.parametrize(
    ("operation", "old", "new"),
    [
        ({"op": "merge", "result": "one\ntwo"}, ["old", "text"], ["one", "two"]),
        ({"op": "retire"}, ["old", "text"], []),
        ({"op": "add", "result": "new"}, [], ["new"]),
        ({"op": "refine", "category": "home", "tags": ["a", "b"], "aliases": []}, [], ["category: home", "tags: a, b"]),
        ({"op": "write", "result": "new", "write": {"type": "edit_memory", "payload": {}}}, ["old", "text"], ["new"]),
        ({"op": "write", "write": {"type": "delete_memory", "payload": {"id": "a"}}}, ["old", "text"], []),
        ({"op": "write", "write": {"type": "edit_memory", "payload": {"id": "ä"}}}, [], ['{"id": "ä"}']),
        ({"op": "write", "write": {"type": "change_many", "payload": {"operations": [1, 2]}}}, [], ["1", "2"]),
    ],
)
def test_only_what_an_operation_takes_out_is_shown_as_gone(
    operation: dict[str, Any], old: list[str], new: list[str]
) -> None:
    assert changed_lines({"sources": ["a"], **operation}, {"a": "old\ntext"}) == (old, new)
