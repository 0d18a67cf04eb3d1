"""Shares of senders on a real host: who is over one waits, loses nothing, and disturbs nobody (decision 018)."""

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import wire
from honeybadger_agent.errors import RateLimited
from honeybadger_agent.tools import made
from tests.commands import cli_text
from tests.conftest import HostFactory, MakeClient
from tests.hosting import HostProcess, RawSender, assert_refused, request, status_of, wait_for


def limits_in_status(host: HostProcess) -> dict[str, Any]:
    value = status_of(host.home)["limits"]
    assert isinstance(value, dict)
    return value


def notes(sender: RawSender) -> list[str]:
    return [line[2:] for line in sender.memory_text().splitlines() if line.startswith("- ")]


def journal_rows(host: HostProcess, table: str) -> int:
    with sqlite3.connect(f"file:{host.home}/data/journal.db?mode=ro", uri=True) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    connection.close()
    assert isinstance(count, int)
    return count


def test_a_sender_over_its_rate_is_served_later(
    make_host: HostFactory, client: MakeClient, stranger: RawSender
) -> None:
    host = make_host({"limits.requests_per_second": 1, "spool.rate_limits.BURST_SECONDS": 3}).start()
    agent = client()
    said: list[str] = []

    def say_until_refused() -> None:
        while True:  # on a busy machine a token or two come back meanwhile
            agent.call(made(wire.UpdateMemory, f"note {len(said)}"), request_id=f"n{len(said):03}")
            said.append(f"note {len(said)}")

    with pytest.raises(RateLimited, match=r"limits\.requests_per_second.*nothing was changed") as over:
        say_until_refused()
    again = f"n{len(said):03}"
    seconds = over.value.retry_after_seconds
    assert seconds is not None
    assert 0 < seconds <= 1
    assert len(said) >= 3
    assert (notes(stranger), journal_rows(host, "receipts")) == (said, len(said))
    time.sleep(seconds)  # what it was told
    agent.call(made(wire.UpdateMemory, f"note {len(said)}"), request_id=again)
    assert notes(stranger) == [*said, f"note {len(said)}"]
    (alarm,) = host.events("limit.reached")
    assert (alarm["group"], alarm["sender"], alarm["limit"]) == ("main", "researcher", "rate")


def test_nobody_else_waits_for_a_sender_over_its_rate(make_host: HostFactory, client: MakeClient) -> None:
    make_host({"limits.requests_per_second": 0.01, "spool.rate_limits.BURST_SECONDS": 100}).start()
    greedy = client("greedy")
    first = greedy.call(made(wire.UpdateMemory, "once"), request_id="a")
    with pytest.raises(RateLimited):
        greedy.ping()
    client("modest").ping()
    client("greedy", "elsewhere").ping()
    for _ in range(3):
        client("operator").ping()  # its own commands and imports are never late
    assert greedy.call(made(wire.UpdateMemory, "once"), request_id="a") == first  # a repeat gets its first reply


def test_rubbish_over_the_rate_does_not_fill_dead_letters(make_host: HostFactory, stranger: RawSender) -> None:
    make_host({"limits.requests_per_second": 0.01, "spool.rate_limits.BURST_SECONDS": 300}).start()
    for number in range(10):
        stranger.drop(f"{number}", b"rubbish")
    replies = [stranger.reply(f"{number}") for number in range(10)]
    assert [reply["error"]["code"] for reply in replies] == ["invalid"] * 3 + ["rate_limited"] * 7
    assert len(list(stranger.dead.glob("*.reason.json"))) == 3
    wait_for(lambda: not os.listdir(stranger.requests))


def test_an_overfull_box_serves_its_first_requests(make_host: HostFactory, stranger: RawSender) -> None:
    peer = RawSender(stranger.home, "main", "peer").make()
    for number in range(30):
        stranger.note(f"{number:02}", f"note {number}")
    peer.note("99", "note of a peer")
    host = make_host({"spool.rate_limits.PENDING_FILES": 20, "ops.status.STATUS_SECONDS": 0.1}).start()
    replies = [stranger.reply(f"{number:02}") for number in range(30)]
    assert [reply["ok"] for reply in replies] == [True] * 20 + [False] * 10
    for reply in replies[20:]:
        assert_refused(reply, "rate_limited", says="more than 20 requests")
        assert reply["error"]["retry_after_seconds"] >= 1
    assert peer.reply("99")["ok"]
    stranger.wait_until_taken("29")
    (stranger.replies / "29.json").unlink()
    stranger.do("29", content="note 29")
    assert notes(stranger) == [*(f"note {number}" for number in range(20)), "note of a peer", "note 29"]
    wait_for(lambda: limits_in_status(host)["refused"] == {"pending": 10}, what="it is in status")
    assert "main/stranger: pending" in limits_in_status(host)["reached_lately"]
    assert "over a limit within 10 minutes: main/stranger: pending" in cli_text("status", home=host.home)


def test_uncollected_replies_make_room_and_can_be_repeated(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host({"spool.rate_limits.KEPT_REPLIES": 40, "ops.maintenance.HOUSEKEEPING_SECONDS": 0.2}).start()
    for number in range(100):
        stranger.note(f"{number:03}", f"note {number}")
    stranger.reply("099")
    wait_for(lambda: len(os.listdir(stranger.replies)) <= 40, what="the oldest went")
    kept = sorted(os.listdir(stranger.replies))
    assert kept[-1] == "099.json"
    assert "000.json" not in kept
    assert len(notes(stranger)) == 100
    again = stranger.ask("000", request("000", content="note 0"))
    assert (again["ok"], len(notes(stranger))) == (True, 100)
    assert host.wait_for_event("replies.trimmed")["sender"] == "stranger"


def test_a_flood_of_queries_leaves_a_thread_to_others(make_host: HostFactory, home: Path) -> None:
    flood, quiet = RawSender(home, "flood").make(), RawSender(home, "quiet").make()
    names = [f"q{number:04}" for number in range(1500)]
    for name in names:
        flood.drop(name, request(name, "get_context", payload={}))
    make_host().start()
    spans: list[tuple[int, int]] = []
    while flood.peek(names[-1]) is None:
        asked, name = time.time_ns(), f"o{len(spans)}"
        quiet.ask(name, request(name, "get_context", payload={}))
        spans.append((asked, (quiet.replies / f"{name}.json").stat().st_mtime_ns))
    answered = [(flood.replies / f"{name}.json").stat().st_mtime_ns for name in names]
    before = sorted(sum(first < at < last for at in answered) for first, last in spans)
    assert before[len(before) // 2] < 15
