"""How many requests of each queue are in a batch, so that no group waits for another's flood.

Pure but for what it remembers of the batches before. Measured in docs/performance.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from honeybadger_host.spool.inbox import TURNS_QUEUE

FEW: Final = 8  # queues with at most this many requests are served before busy ones
MAX_PER_QUEUE: Final = 32  # requests of one queue in a batch: others wait until a batch that is under way ends
MAX_BESIDE_FEW: Final = 8  # the same limit while quiet queues come and go
BATCHES_REMEMBERED: Final = 512  # batches of a flood for which quiet queues are expected back: about a second


class Fairness:
    """Chooses batches. Of two, one is of the queues with few requests alone, as long as there are any.

    So those do not wait for what others have in the same batch. While they come, the batches of the others are short.
    """

    def __init__(self) -> None:
        self._begun: Counter[bool] = Counter()
        """Batches of those with few alone, and others: each begins one queue further than the last of its kind."""
        self.expects_few = 0
        """Batches of a flood for which queues with few are expected to come again."""
        self.is_of_few = False
        """Whether the last batch was of the queues with few alone."""
        self.few: Sequence[str] = ()
        """The quiet queues of the last batch, if others had more."""

    def portions(self, waiting: Mapping[str, int], most: int, most_turns: int) -> Iterator[tuple[str, int]]:
        """Return queues and how many requests to take of each, in this order; one may come several times.

        Args:
            waiting: queue -> requests in it, at least one.
            most: requests of all queues.
            most_turns: how many turns may be among them, one of a group.
        """
        left = dict(waiting)
        queues = self._without_too_many_turns(list(left), most_turns)
        few = [queue for queue in queues if left[queue] <= FEW]
        self.few = few if len(few) < len(queues) else ()
        self.is_of_few = bool(self.few) and not self.is_of_few
        room = MAX_PER_QUEUE
        if self.is_of_few:
            self.expects_few = BATCHES_REMEMBERED
            queues = few
        elif self.expects_few and len(few) < len(queues):
            self.expects_few -= 1
            most = min(most, 2 * MAX_BESIDE_FEW)
            room = MAX_BESIDE_FEW
        self._begun[self.is_of_few] += 1
        queues = _turned(queues, self._begun[self.is_of_few])
        for queue in queues:
            left[queue] = min(left[queue], 1 if queue.endswith(TURNS_QUEUE) else room)
        return _shared(queues, left, most)

    def _without_too_many_turns(self, queues: list[str], most_turns: int) -> list[str]:
        turns = [queue for queue in queues if queue.endswith(TURNS_QUEUE)]
        if len(turns) <= most_turns:
            return queues
        passed_over = {*_turned(turns, self._begun.total())[most_turns:]}
        return [queue for queue in queues if queue not in passed_over]


def _turned(queues: list[str], by: int) -> list[str]:
    """Return queues in the same order, beginning with another."""
    start = by % max(1, len(queues))
    return queues[start:] + queues[:start]


def _shared(queues: Sequence[str], left: dict[str, int], most: int) -> Iterator[tuple[str, int]]:
    """Return an equal share of `most` for each, round after round, as long as a queue has some left."""
    while queues and most > 0:
        share = max(1, most // len(queues))
        for queue in queues:
            count = min(share, left[queue], most)
            left[queue] -= count
            most -= count
            yield queue, count
        queues = [queue for queue in queues if left[queue]]
