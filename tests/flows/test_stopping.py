"""`stop_turn`: an answer that is being written ends, what was said stays, and the group goes on."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent import Client, SyncClient
from honeybadger_agent.errors import Forbidden, NotFound, Unavailable
from honeybadger_agent.models.model import ModelSaid, ToolCall
from honeybadger_agent.wire import ChatResult
from tests.commands import cli_error
from tests.conftest import MakeClient
from tests.endpoint import Answer, Asked, Endpoint, openai, served
from tests.flows.test_turns import said, streamed
from tests.hosting import PATIENCE, HostProcess, RawSender, assert_refused, request, run_cli, wait_for

SEARCH = ToolCall("call_1", "search_memory", '{"query": "tea"}')
BY_USER = "asked for by user"
Aside = Callable[..., Future[Any]]


def slow(asked: Asked) -> Answer:
    """Say three words and then nothing, search first where that is asked, or answer at once."""
    last = str(asked.body["messages"][-1])
    if "slowly" in last:
        return openai(ModelSaid("One two three "), then="hang")
    if "silently" in last:
        return Answer(then="hang")
    if "search" in last:
        return openai(ModelSaid("I look.", (SEARCH,), 900, 20))
    if "tool" in last:  # what the search gave
        return openai(ModelSaid("One two "), then="hang")
    return openai(ModelSaid("Quickly."))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with served(slow) as endpoint:
        yield endpoint


DYING = """
import functools, os, signal
from honeybadger_host import daemon
home = os.environ["HOME_OF_TEST"]
def passed(point):
    if os.path.exists(f"{home}/die-{point}"):
        os.kill(os.getpid(), signal.SIGKILL)
daemon.run = functools.partial(daemon.run, passed=passed)
"""


@pytest.fixture(scope="module")
def serving(endpoint: Endpoint) -> Callable[[Path], HostProcess]:
    return lambda home: HostProcess(home, endpoint.settings, env={"HOME_OF_TEST": str(home)}, source=DYING)


@pytest.fixture
def client(member: MakeClient) -> SyncClient:
    return member("user")


@pytest.fixture
def user(asker: RawSender) -> RawSender:
    return RawSender(asker.home, asker.group, "user")


@pytest.fixture
def aside() -> Iterator[Aside]:
    """Run something beside the test."""
    with ThreadPoolExecutor(4) as threads:
        yield threads.submit


def ask(client: SyncClient, aside: Aside, content: str, turn: str, shows: str) -> Future[ChatResult]:
    """Say something and wait until the answer shows some words."""
    seen, is_shown = [""], threading.Event()

    def look(line: Any) -> None:
        seen[0] += f" {line.kind} {line.text or ''}"
        if shows in seen[0]:
            is_shown.set()

    answer = aside(client.chat, content, request_id=turn, on_line=look)
    assert is_shown.wait(PATIENCE), seen
    return answer


def test_a_stop_ends_the_call_and_keeps_its_text(
    served: HostProcess, user: RawSender, client: SyncClient, endpoint: Endpoint, aside: Aside
) -> None:
    endpoint.gone.clear()
    answer = ask(client, aside, "slowly", "a1", "two")
    began = time.monotonic()
    stop = client.stop_turn("a1")
    assert (stop.turn, stop.state) == ("a1", "stopped")
    assert endpoint.gone.wait(20)  # the connection to the model is closed
    assert time.monotonic() - began < 20  # a tenth of a second on a quiet machine; the model would hang for two minutes
    result = answer.result()
    assert result.content.startswith("One two")
    assert result.content.endswith(f"\n\n(Stopped here: {BY_USER}.)")
    assert result.stopped_by == BY_USER
    assert [text for _, _, text in said(user)] == ["slowly", result.content]
    assert client.chat("hello").content == "Quickly."
    assert "One two" in client.get_history().text
    wait_for(lambda: not os.listdir(user.turns))  # what was answered is removed last
    assert os.listdir(user.replies) == []
    (turn, _) = [line for line in served.events("turn.ran") if line["group"] == user.group]
    assert turn["stopped_by"] == BY_USER
    stopped = [line for line in served.events("turn.stopped") if line["group"] == user.group]
    assert [line["state"] for line in stopped] == ["stopped"]


def test_a_repeated_stop_ends_no_other_turn(user: RawSender, client: SyncClient, aside: Aside) -> None:
    answer = ask(client, aside, "slowly", "a1", "two")
    first = user.ask("s1", request("s1", "stop_turn"))
    assert first["result"] == {"turn": "a1", "state": "stopped"}
    assert answer.result().stopped_by == BY_USER
    other = ask(client, aside, "slowly", "a2", "two")
    assert user.again("s1", request("s1", "stop_turn")) == first
    assert not other.done()
    assert client.stop_turn("a2").state == "stopped"


def test_a_stop_tells_what_tools_did_before_it(user: RawSender, client: SyncClient, aside: Aside) -> None:
    answer = ask(client, aside, "search", "a1", "tool_ended  text One")
    assert client.stop_turn().state == "stopped"  # the turn that runs in the session
    result = answer.result()
    assert result.content.startswith("I look.\n\nOne")
    assert [(run.name, run.ok) for run in result.tools] == [("search_memory", True)]
    assert (result.steps, result.input_tokens) == (2, 900)
    answer = ask(client, aside, "silently", "a2", "began")
    assert client.stop_turn("a2").state == "stopped"
    assert answer.result().content == f"(Stopped before the first word: {BY_USER}.)"
    assert [role for role, _, _ in said(user)] == ["user", "assistant"] * 2


def test_a_waiting_turn_is_withdrawn_and_never_begins(user: RawSender, client: SyncClient, aside: Aside) -> None:
    first = ask(client, aside, "slowly", "a1", "two")
    second = aside(client.chat, "hello", request_id="a2")
    wait_for(client.mailbox.path("turns", "a2").exists)
    assert client.stop_turn("a2").state == "taken_back"
    with pytest.raises(Unavailable, match="before it began: nothing was said"):
        second.result()
    assert not first.done()
    with pytest.raises(NotFound, match="taken back"):
        client.stop_turn("a2")
    assert client.stop_turn("a1").state == "stopped"
    first.result()
    assert client.chat("hello", request_id="a2").content == "Quickly."  # its id may be used again
    assert [text for role, _, text in said(user) if role == "user"] == ["slowly", "hello"]


async def test_nobody_stops_the_turn_of_another_but_the_operator(
    asker: RawSender, member: MakeClient, client: SyncClient, aside: Aside
) -> None:
    home, group = asker.home, asker.group
    answer = ask(client, aside, "slowly", "a1", "two")
    stranger = Client(home, group, "stranger", timeout_seconds=PATIENCE)
    with pytest.raises(NotFound):
        await stranger.stop_turn("a1")
    with pytest.raises(NotFound):
        await stranger.stop_turn()
    with pytest.raises(Forbidden):
        await stranger.stop_turn("a1", sender="user")
    elsewhere = member("user", session="elsewhere")
    with pytest.raises(NotFound):
        elsewhere.stop_turn()
    assert not answer.done()
    stopped = run_cli("stop-turn", group, home=home)
    assert (stopped.returncode, stopped.stdout) == (0, "a1: stopped\n")
    assert answer.result().stopped_by == "asked for by operator"
    assert "no turn a1 waits or runs" in cli_error("stop-turn", group, "a1", home=home, code=9)


def test_without_a_host_the_operator_takes_a_message_back(home: Path) -> None:
    sender = RawSender(home).make()
    sender.say("a1", "hello")
    stopped = run_cli("stop-turn", "main", "a1", "--json", home=home)
    assert orjson.loads(stopped.stdout) == {"turn": "a1", "state": "taken_back"}, stopped.stderr
    assert_refused(sender.reply("a1"), "unavailable", says="operator asked to stop this before it began")
    assert list(sender.turns.iterdir()) == []
    assert run_cli("stop-turn", "main", home=home).returncode == 9


@pytest.mark.parametrize("point", ["placed", "committed", "replied"])
def test_a_kill_during_a_stop_leaves_one_answer(served: HostProcess, asker: RawSender, point: str) -> None:
    asker.say("a1", "slowly")
    wait_for(lambda: "two" in streamed(asker, "a1"), what="the answer begins")
    (asker.home / f"die-{point}").touch()
    asker.drop("s1", request("s1", "stop_turn", payload={"turn": "a1"}))
    assert served.wait() == -9
    (asker.home / f"die-{point}").unlink()
    served.start()
    reply, stop = asker.reply("a1"), asker.reply("s1")
    asker.wait_until_taken("a1", box="turns")
    asker.wait_until_taken("s1")
    assert "Stopped" in reply["result"]["content"] if reply["ok"] else reply["error"]["code"] == "unavailable"
    assert stop["result"]["state"] in ("stopped", "taken_back") if stop["ok"] else stop["error"]["code"] == "not_found"
    assert len(said(asker)) == (2 if reply["ok"] else 0)
    assert asker.chat("a2", "hello")["ok"]
    assert sorted(os.listdir(asker.replies)) == ["a1.json", "a2.json", "s1.json"]
