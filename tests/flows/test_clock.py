"""A wall clock that is set, by a year in either direction: nothing is forgotten, doubled or kept for ever."""

import time
from datetime import UTC, datetime
from pathlib import Path

from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.journal.reader import LogFilter, read_log
from tests.commands import cli_error, cli_json
from tests.conftest import HostFactory
from tests.flows.world import SetClock, ask
from tests.hosting import AT_ONCE, RawSender, wait_for
from tests.people import settle

YEAR = 365 * 86_400
# Each round of housekeeping leaves a point in a file.
COUNTED = """
import os
from honeybadger_host.spool.replies import ReplyRetention
expire = ReplyRetention.expire
def counted(self, *given):
    with open(os.environ["ROUNDS"], "a") as rounds:
        rounds.write(".")
    return expire(self, *given)
ReplyRetention.expire = counted
"""


def _ask_again(sender: RawSender, name: str) -> None:
    """Ask for a second time, as after a lost reply; it must be the first reply and no second note."""
    first = sender.peek(name)
    (sender.replies / f"{name}.json").unlink(missing_ok=True)
    ask(sender, name)
    assert first is None or sender.peek(name) == first
    assert sender.memory_text().count(f"- {name}.\n") == 1


def test_receipts_and_replies_survive_clock_changes(
    clock: SetClock, home: Path, make_host: HostFactory, stranger: RawSender
) -> None:
    settings: dict[str, object] = {"ipc.reply_ttl_seconds": 3600, "ops.maintenance.HOUSEKEEPING_SECONDS": 0.1}
    rounds = home / "rounds"
    host = make_host(settings, env={**clock.env, "ROUNDS": str(rounds)}, source=COUNTED).start()
    ask(stranger, "a")
    for number, seconds in enumerate((YEAR, 0, -YEAR, 0), 1):
        clock.set(seconds)
        wait_for(lambda: len(host.events("clock.jumped")) == number)  # noqa: B023
        name = f"n{number}"
        ask(stranger, name)
        seen = rounds.stat().st_size
        wait_for(lambda seen=seen: rounds.stat().st_size >= seen + 3, what="two whole rounds")  # type: ignore[misc]
        for earlier in ("a", *(f"n{before}" for before in range(1, number + 1))):
            assert stranger.peek(earlier) is not None
            _ask_again(stranger, earlier)
    jumps = [line["seconds"] for line in host.events("clock.jumped")]
    assert [round(seconds / YEAR) for seconds in jumps] == [1, -1, -1, 1]
    assert host.events("house.kept") == []
    stamps = [row.at for row in reversed(read_log(home / JOURNAL_FILE, LogFilter("main"), 100))]
    assert stamps == sorted(stamps)
    assert stamps[-1] / 1000 > time.time() + YEAR - 3600  # they never fall

    clock.set(YEAR)
    host.restart()  # it cannot know how long it was off
    _ask_again(stranger, "a")
    host.stop()


def test_a_clock_behind_the_journal_is_reported_at_start(
    clock: SetClock, home: Path, make_host: HostFactory, stranger: RawSender
) -> None:
    clock.set(YEAR)
    host = make_host(env=clock.env).start()
    ask(stranger, "a")
    assert host.events("clock.behind") == []
    clock.set(0)
    host.restart()
    assert round(host.events("clock.behind")[0]["seconds"] / YEAR) == 1
    ask(stranger, "b")
    _ask_again(stranger, "a")
    host.stop()


def test_an_ambiguous_time_after_a_fast_clock_is_refused(
    clock: SetClock, home: Path, make_host: HostFactory, stranger: RawSender
) -> None:
    """A rewind to now removed what was remembered since the clock had been ahead."""
    host = make_host(AT_ONCE, env=clock.env).start()
    ask(stranger, "a")
    between = datetime.now(UTC).isoformat()
    clock.set(YEAR)
    ask(stranger, "b")
    clock.set(0)
    ask(stranger, "c")
    settle(home)
    held = stranger.memory_text()
    for to in (between, datetime.now(UTC).isoformat()):
        said = cli_error("rewind", "main", "--to", to, home=home, code=2)
        assert "the changes after 1 have a time later than now, because the clock was ahead" in said
        assert "the clock was ahead" in cli_error("diff", "main", to, home=home, code=2)
    assert stranger.memory_text() == held
    assert "was empty then" in cli_error("rewind", "main", "--to", "yesterday", home=home, code=2)
    assert cli_json("rewind", "main", "--to", 3, home=home)["files"] == []
    host.stop()
