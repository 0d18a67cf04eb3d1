"""Recall, hit rate, reciprocal rank and nDCG of a ranking."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Measures:
    """The worth of one ranking, or the mean of many; 0 to 1.

    Args:
        recall_5, recall_10, recall_20: share of the wanted that is among the first k.
        hit_10: whether any of them is among the first ten.
        reciprocal_rank: of the first wanted one.
        ndcg_10: wanted or not, no degrees.
    """

    recall_5: float
    recall_10: float
    recall_20: float
    hit_10: float
    reciprocal_rank: float
    ndcg_10: float


def measure(ranking: Sequence[int], wanted: Collection[int]) -> Measures:
    """Return the measures of one ranking; `wanted` is not empty."""
    ranks = [rank for rank, found in enumerate(ranking, 1) if found in wanted]

    def recall(k: int) -> float:
        return sum(rank <= k for rank in ranks) / len(wanted)

    gain = sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(wanted), 10) + 1))
    return Measures(
        recall_5=recall(5),
        recall_10=recall(10),
        recall_20=recall(20),
        hit_10=float(recall(10) > 0),
        reciprocal_rank=1 / ranks[0] if ranks else 0.0,
        ndcg_10=gain / ideal,
    )


def mean(many: Sequence[Measures]) -> Measures:
    """Return the mean of each measure; NaN for none."""
    count = len(many)
    return Measures(
        *(sum(getattr(each, one.name) for each in many) / count if count else math.nan for one in fields(Measures))
    )
