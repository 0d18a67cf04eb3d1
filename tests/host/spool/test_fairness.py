"""How requests of many queues share batches."""

from __future__ import annotations

from collections import Counter

from honeybadger_host.spool import fairness as fairness_module
from honeybadger_host.spool.fairness import Fairness


def batch(fairness: Fairness, waiting: dict[str, int], most: int = 512) -> Counter[str]:
    """Take a batch out of what waits."""
    taken: Counter[str] = Counter()
    for queue, count in fairness.portions(dict(waiting), most, most_turns=0):
        taken[queue] += count
    for queue, count in taken.items():
        waiting[queue] -= count
        if not waiting[queue]:
            del waiting[queue]
    return +taken


def test_queues_with_few_have_every_second_batch_to_themselves_and_those_between_are_short() -> None:
    fairness, waiting = Fairness(), {"flood": 1000}
    assert batch(fairness, waiting) == {"flood": fairness_module.MAX_PER_QUEUE}
    for _ in range(3):
        waiting |= {"ann": 1, "bob": 2}
        assert batch(fairness, waiting) == {"ann": 1, "bob": 2}
        waiting |= {"ann": 1}
        assert batch(fairness, waiting) == {"ann": 1, "flood": fairness_module.MAX_BESIDE_FEW}


def test_a_flood_has_long_batches_again_when_nobody_has_come_for_a_while() -> None:
    fairness, waiting = Fairness(), {"flood": 100_000, "ann": 1}
    sizes = [batch(fairness, waiting)["flood"] for _ in range(fairness_module.BATCHES_REMEMBERED + 2)]
    assert sizes[:2] == [0, fairness_module.MAX_BESIDE_FEW]
    assert sizes[-1] == fairness_module.MAX_PER_QUEUE
