"""Chooses how many requests of each queue are in a batch, so that no group waits for another's flood.

Deficit round robin, with one addition: a queue that was empty after the last batch comes first, once. Pure.
Measured in docs/performance.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

QUANTUM: Final = 8  # requests that a queue gets per turn, and those of busy queues in a batch with new ones


class RoundRobin:
    """Chooses batches. New queues (empty after the last batch) come first; busy queues share the rest of the batch.

    The number of requests that busy queues may have in a batch grows by one with each batch, and falls to `QUANTUM`
    when a new queue comes. So a backlog is served in long batches, and a quiet sender waits for short ones only. While
    new queues keep coming, every second batch is theirs alone.
    """

    def __init__(self) -> None:
        self._ring: dict[str, int] = {}
        """Queues that had requests left after the last batch, the next one first -> requests left of their turn."""
        self._room = QUANTUM
        self._is_of_new = False

    def portions(self, waiting: Mapping[str, int], most: int) -> list[tuple[str, int]]:
        """Return queues and how many requests to take of each, in this order; one may come several times.

        Args:
            waiting: queue -> requests in it, at least one.
            most: requests in the batch at most.
        """
        old = [queue for queue in self._ring if queue in waiting]
        new = [queue for queue in waiting if queue not in self._ring]
        self._room = QUANTUM if old and new else min(self._room + 1, most)
        left = dict(waiting)
        portions: list[tuple[str, int]] = []
        room = max(1, most - QUANTUM) if old else most
        for queue in new:
            if count := min(QUANTUM, left[queue], room):
                portions.append((queue, count))
                left[queue] -= count
                room -= count
        self._is_of_new = bool(old and new) and not self._is_of_new
        room = 0 if self._is_of_new else min(self._room, most - sum(count for _, count in portions))
        ring = deque((queue, self._ring.get(queue, QUANTUM)) for queue in (*old, *new) if left[queue])
        while ring and room:
            queue, of_turn = ring.popleft()
            count = min(of_turn, left[queue], room)
            portions.append((queue, count))
            left[queue] -= count
            room -= count
            if left[queue] and count == of_turn:
                ring.append((queue, QUANTUM))
            elif left[queue]:
                ring.appendleft((queue, of_turn - count))
        self._ring = dict(ring)
        return portions
