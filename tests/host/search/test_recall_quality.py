"""Recall on the project's own small set: a change that helps one kind of conversation must not hurt another."""

import pytest

from bench.recall import synthetic
from bench.recall.cases import Conversation
from bench.recall.evaluate import answers
from bench.recall.measures import mean
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
