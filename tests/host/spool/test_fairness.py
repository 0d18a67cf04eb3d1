"""How requests of many queues share batches."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.spool.spool import QUANTUM, RoundRobin

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
    for _ in range(MOST):
        batch(order, waiting)
    assert batch(order, waiting) == {"flood": MOST}
    for _ in range(3):
        waiting |= {"ann": 1, "bob": 2}
        assert list(batch(order, waiting).items()) == [("ann", 1), ("bob", 2)]
        waiting |= {"ann": 1}
        assert list(batch(order, waiting).items()) == [("ann", 1), ("flood", QUANTUM)]


def test_batches_of_a_flood_grow_without_newcomers() -> None:
    order, waiting = RoundRobin(), {"flood": 100_000}
    batch(order, waiting)
    batch(order, waiting | {"ann": 1})
    sizes = [batch(order, waiting)["flood"] for _ in range(MOST)]
    assert sizes[:3] == [QUANTUM + 1, QUANTUM + 2, QUANTUM + 3]
    assert sizes[-1] == MOST


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 400), min_size=2), st.integers(1, 50))
def test_everything_is_taken_in_fair_shares(waiting: dict[str, int], most: int) -> None:
    order, left, got = RoundRobin(), dict(waiting), Counter[str]()
    while left:
        taken = batch(order, left, most)
        assert 0 < sum(taken.values()) <= most
        got.update(taken)
        if len(left) == len(waiting):  # nobody is done yet
            counts = [got[queue] for queue in left]
            assert max(counts) - min(counts) <= 2 * QUANTUM
    assert got == waiting


def test_new_senders_without_end_do_not_stop_a_flood() -> None:
    order, waiting = RoundRobin(), {"flood": 1000}
    batch(order, waiting)
    for number in range(10):
        waiting |= {f"{number}-{each}": QUANTUM for each in range(10)}
        assert batch(order, waiting).get("flood", 0) >= QUANTUM * (number % 2)
