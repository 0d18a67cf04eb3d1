"""Messages through a real host: in order, once, for those they are for, over kills and restarts; waiting for them."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import NotFound
from honeybadger_agent.wire import MessagesResult
from tests.conftest import HostFactory, MakeClient
from tests.flows.world import processor_seconds
from tests.hosting import AGENT, PATIENCE, HostProcess, RawSender, assert_refused, request, run_agent, wait_for
from tests.terminal import Terminal


def texts(result: MessagesResult) -> list[str]:
    return [message.content for message in result.messages]


def test_each_reader_of_messages_keeps_its_own_place(member: MakeClient) -> None:
    ann, ben = member("ann"), member("ben")
    sent = [ann.send_message(f"number {number}").seq for number in range(5)]
    assert sent == sorted(set(sent))
    newest = ben.get_messages(limit=2)
    assert (texts(newest), newest.after) == (["number 3", "number 4"], sent[-1])
    first = ann.get_messages(0, limit=3)
    assert (texts(first), first.after) == (["number 0", "number 1", "number 2"], sent[2])
    rest = ann.get_messages(first.after)
    assert (texts(rest), rest.after) == (["number 3", "number 4"], sent[-1])
    nothing = ann.get_messages(rest.after)
    assert (nothing.messages, nothing.after) == ([], sent[-1])
    ahead = ann.get_messages(10**9)  # as after a backup was put back: it goes on with what comes
    assert (ahead.messages, ahead.after) == ([], sent[-1])
    assert member("ann", group="kitchen").get_messages(0).messages == []
    (one,) = ben.get_messages(sent[3]).messages
    assert (one.sender, one.session, one.to) == ("ann", "main", None)


def test_a_private_message_is_shown_to_its_receivers_only(member: MakeClient) -> None:
    ann, ben, eve = (member(name) for name in ("ann", "ben", "eve"))
    for client in (ann, ben, eve):
        client.ping()
    secret = ann.send_message("for ben", ["ben", "ben"])
    assert [texts(client.get_messages()) for client in (ann, ben, eve)] == [["for ben"], ["for ben"], []]
    assert eve.get_messages(0).after == secret.seq  # she has passed it
    assert ann.send_message("for the agent", ["assistant"]).seq > secret.seq  # an agent without a box yet
    with pytest.raises(NotFound, match="this group has no bob; there are: ann, asker, assistant"):
        ann.send_message("hi", ["bob"])


def test_a_message_is_made_harmless(member: MakeClient) -> None:
    ann = member("ann")
    sent = ann.send_message("the key is AKIAIOSFODNN7EXAMPLE \x1b[2J\u202egone")
    assert "secrets" in sent.neutralised
    (one,) = ann.get_messages().messages
    assert "AKIA" not in one.content
    assert "\x1b" not in one.content
    assert "\u202e" not in one.content


def test_a_waiting_reader_is_answered_by_message_or_timeout(member: MakeClient) -> None:
    ann, ben = member("ann"), member("ben")
    began = time.monotonic()
    assert ann.get_messages(0, wait_seconds=1).messages == []
    assert 1 <= time.monotonic() - began < PATIENCE
    got: list[MessagesResult] = []
    waiting = threading.Thread(target=lambda: got.append(ann.get_messages(0, wait_seconds=300)))
    waiting.start()
    wait_for(lambda: os.listdir(ann.mailbox.root / "requests"))
    ben.send_message("for ben alone", ["ben"])
    ben.append_turn("user", "something else")
    assert not got
    ben.send_message("for all")
    waiting.join(PATIENCE)
    assert [texts(one) for one in got] == [["for all"]]
    wait_for(lambda: not os.listdir(ann.mailbox.root / "requests"))


def test_a_reader_waiting_over_a_restart_is_answered(served: HostProcess, asker: RawSender, member: MakeClient) -> None:
    ann = member("ann")
    for stem, end in (("w1", served.stop), ("w2", served.kill)):
        after = ann.get_messages().after
        asker.drop(stem, request(stem, "get_messages", payload={"after": after, "wait_seconds": 300}))
        ann.ping()
        began = time.monotonic()
        end()
        assert time.monotonic() - began < 15  # nobody waits for those who wait
        assert os.listdir(asker.requests) == [f"{stem}.json"]
        assert asker.peek(stem) is None
        served.start()
        ann.send_message("back again")
        assert [one["content"] for one in asker.reply(stem)["result"]["messages"]] == ["back again"]
        wait_for(lambda: not os.listdir(asker.requests))


def test_a_thousand_waiting_readers_slow_nobody(make_host: HostFactory, home: Path) -> None:
    host = make_host({"limits.requests_per_second": 100_000}).start()
    ann = SyncClient(home, "main", "ann", timeout_seconds=PATIENCE)

    def appended() -> float:
        """Return the processor time that the host needs for fifty appends."""
        before = processor_seconds(host)
        for number in range(50):
            ann.append_turn("user", f"number {number}")
        return processor_seconds(host) - before

    alone = appended()
    senders = [RawSender(home, "main", f"reader{number}").make() for number in range(20)]
    names = [f"w{number:02}" for number in range(50)]
    for sender in senders:
        for name in names:
            sender.drop(name, request(name, "get_messages", payload={"after": 0, "wait_seconds": 300}))
    ann.get_messages(wait_seconds=4)  # folders are trusted from 3 s on
    beside = appended()
    assert beside < 5 * alone + 0.5, (alone, beside)
    path = senders[0].requests / "w00.json"
    with path.open("r+b") as file:  # the same file: who reads it again answers at once
        file.write(request("w00", "ping").ljust(path.stat().st_size))
    ann.get_messages(wait_seconds=1)
    assert not [name for sender in senders for name in os.listdir(sender.replies)]
    ann.send_message("now")
    for sender in senders:
        for name in names:
            assert sender.reply(name)["ok"]


def test_a_sender_has_a_limit_of_waiting_reads(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    make_host({"spool.unbatched.MAX_WAITING": 3}).start()
    for number in range(3):
        stranger.drop(f"w{number}", request(f"w{number}", "get_messages", payload={"after": 0, "wait_seconds": 300}))
    refused = stranger.ask("x", request("x", "get_messages", payload={"wait_seconds": 300}))
    assert_refused(refused, "rate_limited", says="3 requests of this sender wait already")
    SyncClient(home, "main", "ann").send_message("hello")
    assert all(stranger.reply(f"w{number}")["ok"] for number in range(3))


def test_the_command_prints_messages_and_follows(make_host: HostFactory, home: Path, tmp_path: Path) -> None:
    host = make_host().start()
    ann = SyncClient(home, "main", "ann")
    SyncClient(home, "main", "user").ping()
    ann.send_message("first\nline two")
    ann.session = "holidays"
    ann.send_message("second", ["user"])
    ran = run_agent("messages", home=home)
    assert ran.returncode == 0, ran.stderr
    first, one, two, second, three = ran.stdout.splitlines()
    assert first.endswith("Z, ann, session main)")
    assert second.endswith("Z, ann, to user, session holidays)")
    assert (one, two, three) == ("  first", "  line two", "  second")
    as_json = json.loads(run_agent("messages", "--after", "0", "--limit", "1", "--json", home=home).stdout)
    assert as_json["content"] == "first\nline two"

    following = [*AGENT, "--home", str(home), "--timeout", "1", "messages", "--limit", "1", "--follow"]
    with Terminal(following, tmp_path) as shell:
        shell.wait_for("  second")
        ann.send_message("third")
        shell.wait_for("  third")
        host.kill()
        host.start()
        ann.send_message("fourth")
        shell.wait_for("  fourth")
        assert shell.text.count("  third") == 1
        shell.type("\x03")
        assert shell.end() == 130
    wait_for(lambda: not os.listdir(home / "data/ipc/main/user/requests"))
