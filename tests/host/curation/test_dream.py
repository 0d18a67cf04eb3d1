"""What a model answers to a dream: operations that code can check, or nothing at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from honeybadger_host.curation.answers import WrongAnswer
from honeybadger_host.curation.dream import parse_operations
from honeybadger_host.curation.snapshot import Snapshot

NOTHING = Snapshot("main", {}, {}, {}, [], 0, 0)
MERGE = {"op": "merge", "sources": ["a", "b"], "result": "x"}


def answer(*operations: Any) -> str:
    return json.dumps({"operations": operations})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *((text, "no JSON object") for text in ("null", "[]", "", "No.")),
        ("{}", "operations is missing"),
        ('{"operations": {}}', "operations must be an array"),
        ('{"operations": [], "more": 1}', "more is unknown"),
        (answer(1), "operations.0 must be an object"),
        (answer({"op": "write_history", "result": "x"}), "operation 1 has write_history, which is not asked for"),
        (answer({**MERGE, "state": "applied", "n": 3}), "operation 1 has n, state, which is not asked for"),
        (answer({**MERGE, "who": "me"}), "operation 1: who is unknown"),
        (answer({**MERGE, "op": "nap"}), "operation 1: op must be"),
        (answer(MERGE, {"op": "merge", "sources": ["a"]}), "operation 2:"),
        (answer(*[{"op": "retire", "sources": ["a"]}] * 2001), "operations has 2001 items"),
    ],
    ids=lambda text: text[:40] or "empty",
)
def test_an_answer_that_is_wrong_anywhere_is_refused_as_a_whole(text: str, says: str) -> None:
    with pytest.raises(WrongAnswer, match=says):
        parse_operations(text, NOTHING)


def test_what_a_model_proposes_says_why_and_is_an_entry_unless_it_comes_of_notes() -> None:
    merge, note, retire = parse_operations(
        answer(
            {**MERGE, "why": "the same"},
            {"op": "annotate", "sources": ["MEMORY.md#4f"], "result": "y"},
            {"op": "retire", "sources": ["c"]},
        ),
        NOTHING,
    )
    assert (merge.why, merge.category) == ("the model: the same", "general")
    assert (note.why, note.category) == ("the model proposes it", None)
    assert retire.category is None
