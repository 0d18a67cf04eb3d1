"""How requests of many queues share batches."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.spool.fairness import QUANTUM, RoundRobin

MOST = 128


def batch(order: RoundRobin, waiting: dict[str, int], most: int = MOST) -> dict[str, int]:
    """Take a batch out of what waits."""
    taken: Counter[str] = Counter()
    for queue, count in order.portions(dict(waiting), most):
        assert 0 < count <= waiting[queue]
        taken[queue] += count
        waiting[queue] -= count
        if not waiting[queue]:
            del waiting[queue]
    return dict(taken)


def test_a_newcomer_is_first_beside_a_short_batch() -> None:
    order, waiting = RoundRobin(), {"flood": 10_000}
    for _ in range(MOST // QUANTUM):
        batch(order, waiting)
    assert batch(order, waiting) == {"flood": MOST}
    for _ in range(3):
        waiting |= {"ann": 1, "bob": 2}
        assert list(batch(order, waiting).items()) == [("ann", 1), ("bob", 2), ("flood", QUANTUM)]
    sizes = [batch(order, waiting)["flood"] for _ in range(MOST // QUANTUM)]
    assert (sizes[:3], sizes[-1]) == ([16, 24, 32], MOST)


def test_a_flood_has_its_turn_beside_many_newcomers() -> None:
    order, waiting = RoundRobin(), {"flood": 10_000}
    batch(order, waiting)
    assert sum(batch(order, waiting | {f"{number}": 1 for number in range(MOST)}).values()) == MOST
    assert waiting["flood"] < 10_000 - QUANTUM


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 400), min_size=2), st.integers(1, 6))
def test_everything_is_taken_in_fair_shares(waiting: dict[str, int], turns: int) -> None:
    order, left, got, most = RoundRobin(), dict(waiting), Counter[str](), turns * QUANTUM
    while left:
        taken = batch(order, left, most)
        assert 0 < sum(taken.values()) <= most
        got.update(taken)
        if len(left) == len(waiting):  # nobody is done yet
            counts = [got[queue] for queue in left]
            assert max(counts) - min(counts) <= 2 * QUANTUM
    assert got == waiting
