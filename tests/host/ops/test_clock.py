"""Times of service, and a wall clock that is set."""

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.ops.clock import Ages, WallClock

DAY = 86_400.0
YEAR = 365 * DAY


class Clocks:
    def __init__(self) -> None:
        self.wall, self.steady = 1_700_000_000.0, 5.0
        self.watched = WallClock(lambda: self.wall, lambda: self.steady)

    def passes(self, seconds: float, jump: float = 0.0) -> None:
        self.wall += seconds + jump
        self.steady += seconds


def test_a_set_clock_is_noticed_once() -> None:
    clocks = Clocks()
    for jump in (YEAR, -2 * YEAR, 61.0):
        clocks.passes(60, jump)
        assert clocks.watched.look() == jump
        assert clocks.watched.look() == 0
        clocks.passes(3599)
        assert clocks.watched.look() == 0
        assert not clocks.watched.was_watched_for(3600)
        clocks.passes(1)
        assert clocks.watched.was_watched_for(3600)


@given(st.lists(st.tuples(st.floats(0.1, 50), st.integers(0, 3), st.booleans()), max_size=80), st.floats(10, 200))
def test_terms_hold_whenever_the_host_restarts(rounds: list[tuple[float, int, bool]], term: float) -> None:
    ages = Ages(term)
    born: list[float] = []  # of change 1, 2, …: when the host had served for so long
    served = 0.0
    gone = 0
    longest = max((seconds for seconds, _, _ in rounds), default=0.0)
    for seconds, new, is_restart in rounds:
        born += [served] * new
        served += seconds
        gone = max(gone, ages.pass_time(seconds, len(born)))
        assert all(served - at >= term for at in born[:gone])
        assert all(served - at <= term * 1.05 + 2 * longest + 1e-6 for at in born[gone:])
        assert len(ages.moments) <= 22
        if is_restart:
            ages = Ages.of(term, ages.dump())


def test_a_journal_without_ages_forgets_nothing_at_once() -> None:
    ages = Ages.of(7 * DAY, [])
    assert ages.pass_time(60, 1_000_000) == 0
    assert ages.pass_time(7 * DAY, 1_000_000) == 1_000_000
