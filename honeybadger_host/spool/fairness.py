"""Chooses how many requests of each queue are in a batch, so that no group waits for another's flood. Pure.

Measured in docs/performance.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

QUANTUM: Final = 8  # requests that a queue gets in its turn, and the size of a flood's batches while others come


class RoundRobin:
    """Chooses batches: round robin over the queues, with `QUANTUM` requests in each turn.

    Queues that had nothing left after the last batch come first, if they are few, and the others share `QUANTUM`
    requests then. Each batch without such a queue has room for `QUANTUM` more: long batches carry a backlog, and a
    quiet sender that comes again and again waits for short ones.
    """

    def __init__(self) -> None:
        self._ring: list[str] = []
        """Queues that had requests left after the last batch, the next one first."""
        self._room = 0

    def portions(self, waiting: Mapping[str, int], most: int) -> list[tuple[str, int]]:
        """Return queues and how many requests to take of each, in this order; one may come several times.

        Args:
            waiting: queue -> requests in it, at least one.
            most: requests of all queues, at least `QUANTUM`.
        """
        old = [queue for queue in self._ring if queue in waiting]
        new = [queue for queue in waiting if queue not in self._ring]
        self._room = QUANTUM if old and new else min(self._room + QUANTUM, most)
        of_new = [min(QUANTUM, waiting[queue]) for queue in new]
        room = min(self._room + sum(of_new), most)
        left = dict(waiting)
        portions: list[tuple[str, int]] = []
        is_new_first = len(new) < most // QUANTUM  # a turn of each leaves room for an old one
        ring = deque((*new, *old) if is_new_first else (*old, *new))
        while ring and room:
            queue = ring.popleft()
            count = min(QUANTUM, left[queue], room)
            portions.append((queue, count))
            left[queue] -= count
            room -= count
            if left[queue] and count == QUANTUM:
                ring.append(queue)
            elif left[queue]:
                ring.appendleft(queue)  # its turn was cut short
        self._ring = list(ring)
        return portions
