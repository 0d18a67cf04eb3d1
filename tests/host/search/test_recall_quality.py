"""Recall on the project's own small set: a change that helps one kind of conversation must not hurt another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.recall import locomo, synthetic
from bench.recall.cases import Conversation
from bench.recall.evaluate import answers
from bench.recall.measures import mean, measure
from bench.recall.systems import fts5_porter, honeybadger

# Kind -> least recall in the first ten, least reciprocal rank; a little below what was measured.
FLOORS = {
    "friends": (0.95, 0.8),
    "assistant": (0.7, 0.7),
    "project": (0.95, 0.8),
    "朋友": (0.9, 0.8),
    "助手": (0.95, 0.9),
}


WRITTEN = {
    "arabic-friends": (0.85, 0.7),
    "chinese-team": (0.85, 0.7),
    "english-assistant": (0.93, 0.74),
    "english-diary": (0.94, 0.77),
    "english-operations": (0.95, 0.68),
    "french-friends": (0.7, 0.5),
    "german-family": (0.75, 0.5),
    "japanese-friends": (0.9, 0.63),
    "korean-friends": (0.85, 0.6),
    "russian-friends": (0.8, 0.62),
    "spanish-assistant": (0.85, 0.62),
}


@pytest.mark.parametrize("conversation", synthetic.written(), ids=lambda each: each.name)
def test_every_language_is_found_again(conversation: Conversation) -> None:
    ours = mean([each.turns for each in answers(conversation, honeybadger(conversation))])
    recall, rank = WRITTEN[conversation.name]
    assert ours.recall_10 >= recall
    assert ours.reciprocal_rank >= rank
    theirs = mean([each.turns for each in answers(conversation, fts5_porter(conversation))])
    assert ours.ndcg_10 > theirs.ndcg_10 - 0.02  # where a message stands for itself, plain search is as good


@pytest.mark.parametrize("conversation", synthetic.conversations(), ids=lambda each: each.name)
def test_every_kind_of_conversation_is_found_again(conversation: Conversation) -> None:
    ours = mean([each.turns for each in answers(conversation, honeybadger(conversation))])
    recall, rank = FLOORS[conversation.name]
    assert ours.recall_10 >= recall
    assert ours.reciprocal_rank >= rank


def test_the_measures_are_the_known_ones() -> None:
    found = measure([7, 1, 8, 2], {1, 2, 3})
    assert found.recall_5 == pytest.approx(2 / 3)
    assert found.reciprocal_rank == 1 / 2
    assert found.hit_10 == 1.0
    assert found.ndcg_10 == pytest.approx((1 / 1.5849625 + 1 / 2.3219281) / (1 + 1 / 1.5849625 + 1 / 2))
    assert measure([], {1}).recall_20 == 0.0


def test_a_file_of_the_known_format_is_read(tmp_path: Path) -> None:
    talk = {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "Hi", "blip_caption": "a boat"},
            {"speaker": "Bob", "dia_id": "D1:2", "text": "Hello"},
        ],
        "session_2_date_time": "sometime",
        "session_2": [{"speaker": "Ada", "dia_id": "D2:1", "text": "Bye"}],
    }
    asked = [
        {"question": "Who?", "evidence": ["D1:01; D2:1", "D9:9"], "category": 4},
        {"question": "What?", "evidence": [], "category": 1},
        {"question": "Not?", "evidence": ["D1:2"], "category": 5},
    ]
    file = tmp_path / "talk.json"
    file.write_text(json.dumps([{"sample_id": "x", "conversation": talk, "qa": asked}]))
    (conversation,) = locomo.load(file)
    assert [turn.text for turn in conversation.turns] == ["Hi [image: a boat]", "Hello", "Bye"]
    assert [question.evidence for question in conversation.questions] == [(0, 2), (1,)]
    assert [question.is_counted for question in conversation.questions] == [True, False]
    assert conversation.turns[0].at == 1683554160.0
    file.write_text("[{}]")
    with pytest.raises(ValueError, match="not in LoCoMo's format"):
        locomo.load(file)
