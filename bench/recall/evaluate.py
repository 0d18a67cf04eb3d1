"""Ask every question of every conversation and measure what comes back."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.recall.cases import Conversation, Question
from bench.recall.measures import Measures, mean, measure
from bench.recall.systems import SYSTEMS, Ranker, System

DEPTH = 1_000  # how far a ranking is looked at for the first right answer


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and what a system brought.

    Args:
        turns, sessions: what the ranking is worth; a session ranks where its best turn does.
        seconds: for the first twenty.
    """

    question: Question
    turns: Measures
    sessions: Measures
    seconds: float


def answers(conversation: Conversation, rank: Ranker) -> Iterable[Answered]:
    """Yield every question of a conversation with its measures."""
    for question in conversation.questions:
        began = time.perf_counter()
        rank(question, 20)
        seconds = time.perf_counter() - began
        ranking = rank(question, DEPTH)
        yield Answered(
            question, measure(ranking, question.evidence), _by_session(conversation, question, ranking), seconds
        )


def _by_session(conversation: Conversation, question: Question, ranking: Sequence[int]) -> Measures:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(turn.session for turn in conversation.turns))}
    ranked = dict.fromkeys(numbers[conversation.turns[place].session] for place in ranking)
    return measure(list(ranked), {numbers[conversation.turns[place].session] for place in question.evidence})


def installed() -> dict[str, System]:
    """Return the systems whose packages are here."""
    return {
        name: system for name, (system, package) in SYSTEMS.items() if not package or importlib.util.find_spec(package)
    }


HEAD = (
    "| system | questions | R@5 | R@10 | R@20 | hit@10 | MRR | nDCG@10 | session R@5 | R@10 | MRR | ms |\n|---"
    + ("|---" * 11)
    + "|"
)


def row(name: str, answered: Sequence[Answered]) -> str:
    """Return a line of the table, in per cent; milliseconds are the median."""
    if not answered:
        return f"| {name} | 0 |" + " |" * 10
    turns, sessions = mean([each.turns for each in answered]), mean([each.sessions for each in answered])
    median = 1000 * sorted(each.seconds for each in answered)[len(answered) // 2]
    figures = (
        *(turns.recall_5, turns.recall_10, turns.recall_20, turns.hit_10, turns.reciprocal_rank, turns.ndcg_10),
        *(sessions.recall_5, sessions.recall_10, sessions.reciprocal_rank),
    )
    return f"| {name} | {len(answered)} | {' | '.join(f'{100 * figure:.1f}' for figure in figures)} | {median:.2f} |"


def by_category(answered: Sequence[Answered]) -> dict[str, list[Answered]]:
    """Return answers by the category of their question, in order of appearance."""
    found: dict[str, list[Answered]] = {}
    for each in answered:
        found.setdefault(each.question.category, []).append(each)
    return found
