"""Weights of the signals, learnt on some conversations and tested on one that was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bench.recall.cases import Conversation, documents_of
from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.language.analyzer import analyse_query
from honeybadger_host.search.scoring import REST, TEXT, WEIGHTS, Parameters, Scoring, Signal

SIGNALS: tuple[Signal, ...] = (*TEXT, *REST)
_STEPS, _RATE, _DECAY = 250, 0.1, 1e-3


@dataclass(frozen=True, slots=True)
class _Example:
    """The signals of every turn for one question (signals x turns), and which turns answer it."""

    signals: npt.NDArray[np.float32]
    evidence: tuple[int, ...]


def examples(conversation: Conversation) -> list[_Example]:
    """Return the counted questions of a conversation as examples."""
    corpus = Corpus()
    corpus.add(documents_of(conversation.turns))
    found = []
    for question in conversation.questions:
        if question.is_counted:
            query, now = analyse_query(question.text), conversation.now(question)
            signals = Scoring(corpus, query, now, conversation.asker, Parameters()).signals()
            found.append(_Example(np.stack([signals[name] for name in SIGNALS]).astype(np.float32), question.evidence))
    return found


def learnt(many: Sequence[_Example]) -> dict[Signal, float]:
    """Return weights, that of `terms` being 1: descent on the chance of the evidence, a softmax over all turns."""
    sizes = [each.signals.shape[1] for each in many]
    signals = np.concatenate([each.signals for each in many], axis=1)
    spread = signals.std(axis=1, keepdims=True) + 1e-9
    signals = signals / spread
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    of = np.repeat(np.arange(len(many)), sizes)
    wanted = np.zeros(signals.shape[1], np.float32)
    for each, start in zip(many, starts, strict=True):
        wanted[start + np.array(each.evidence)] = 1 / len(each.evidence)
    weights = np.full(len(SIGNALS), 0.5)
    slope, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, _STEPS + 1):
        scores = weights @ signals
        chance = np.exp(scores - np.maximum.reduceat(scores, starts)[of])
        chance /= np.add.reduceat(chance, starts)[of]
        gradient = signals @ (chance - wanted) / len(many) + _DECAY * weights
        slope = 0.9 * slope + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        weights -= _RATE * (slope / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
        weights = np.maximum(weights, 0.0)
    plain = weights / spread[:, 0]
    plain /= plain[SIGNALS.index("terms")] or 1.0
    return {name: float(weight) for name, weight in zip(SIGNALS, plain, strict=True)}


def left_out(conversations: Sequence[Conversation]) -> Iterator[tuple[Conversation, Parameters]]:
    """Yield every conversation with parameters learnt on all others."""
    found = [examples(conversation) for conversation in conversations]
    for number, conversation in enumerate(conversations):
        others = [each for other, many in enumerate(found) if other != number for each in many]
        yield conversation, replace(Parameters(), weights=learnt(others)) if others else Parameters()


def shown(weights: Mapping[Signal, float]) -> str:
    """Return weights on one line."""
    return ", ".join(f"{name} {weights[name]:.2f}" for name in WEIGHTS)
