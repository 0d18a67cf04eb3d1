"""An event that happens over and over is logged once in a while."""

from honeybadger_host.observe import Throttle


def test_a_repeated_event_is_logged_rarely_with_its_count() -> None:
    now = [100.0]
    throttle = Throttle(lambda: now[0])
    assert throttle.passes("reply", "box", 28) == 0
    assert [throttle.passes("reply", "box", 28) for _ in range(3)] == [None] * 3
    assert throttle.passes("reply", "other", 28) == 0
    now[0] = 159.9
    assert throttle.passes("reply", "box", 28) is None
    now[0] = 160.0
    assert throttle.passes("reply", "box", 28) == 4
    assert throttle.passes("reply", "box", 28) is None
