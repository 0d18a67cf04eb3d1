"""Turns: what waits in `turns/` is answered by an agent, once, whatever happens meanwhile."""

import errno
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from honeybadger_agent import ReplyTimeout, SyncClient
from honeybadger_agent.errors import Invalid, NotFound
from honeybadger_agent.models.model import ModelSaid
from honeybadger_agent.wire import StreamLine
from tests.commands import cli_json, cli_text
from tests.conftest import HostFactory, MakeClient
from tests.endpoint import openai, served
from tests.flows.conftest import FaultFactory
from tests.flows.world import LIKES_TEA, WRITES_DOWN, script, slowly
from tests.hosting import HostProcess, RawSender, assert_refused, files_with, request, turns_of, wait_for

NOTED = {"text": "Noted.", "input_tokens": 120, "output_tokens": 7}
REMEMBER = {"when": "remember", "answers": [WRITES_DOWN, NOTED]}
HELLO = {"when": "hello", "answers": [{"text": "Hello to you."}]}


def said(sender: RawSender, session: str = "main") -> list[tuple[str, str, str]]:
    """Return (role, speaker, text) of a session's log."""
    turns = turns_of(sender.home, session, sender.group)
    return [(turn["role"], turn["sender"], turn["content"]) for turn in turns]


@pytest.fixture(scope="module")
def serving() -> Callable[[Path], HostProcess]:
    return lambda home: HostProcess(home, script(home, REMEMBER, HELLO, delay_seconds=0.001))


def test_a_message_is_answered_after_its_tools_ran(served: HostProcess, asker: RawSender) -> None:
    reply = asker.chat("a1", "Remember that I like tea", sender="ann")
    assert reply["ok"], reply
    assert reply["seq"] > 0
    result = reply["result"]
    assert (result["content"], result["agent"], result["steps"], result["turn"]) == ("Noted.", "assistant", 2, 2)
    assert (result["input_tokens"], result["output_tokens"]) == (120, 7)
    assert [(tool["name"], tool["ok"]) for tool in result["tools"]] == [("update_memory", True)]
    assert "## Notes (assistant, " in asker.memory_text()
    assert asker.memory_text().count("- Likes tea\n") == 1
    logged = cli_json("log", asker.group, home=asker.home)
    assert {(row["session"], row["turn"]) for row in logged if row["kind"] == "note"} == {("main", 2)}
    assert [(row["session"], row["turn"]) for row in logged if row["kind"] == "turn"] == [("main", 2), ("main", 1)]
    assert said(asker) == [("user", "ann", "Remember that I like tea"), ("assistant", "assistant", "Noted.")]
    assert os.listdir(asker.replies) == ["a1.json"]  # the stream is gone
    (turn,) = [line for line in served.events("turn.ran") if line["group"] == asker.group]
    assert (turn["steps"], turn["tools"], turn["agent"]) == (2, ["update_memory"], "assistant")


def test_without_a_conversation_each_message_is_answered_by_itself(make_host: HostFactory, stranger: RawSender) -> None:
    make_host(script(stranger.home, REMEMBER, HELLO) | {"conversation.enabled": False}).start()
    for number in range(2):
        result = stranger.chat(f"a{number}", "hello")["result"]
        assert (result["content"], result["turn"]) == ("Hello to you.", 0)
    stranger.chat("a2", "Remember that I like tea")
    assert stranger.memory_text().count("- Likes tea\n") == 1
    assert said(stranger) == []


def test_a_repeated_message_gets_the_first_answer(served: HostProcess, asker: RawSender) -> None:
    first = asker.chat("a1", "hello")
    (asker.replies / "a1.json").unlink()
    served.restart()
    assert asker.chat("a1", "hello") == first
    (asker.replies / "a1.json").unlink()
    assert_refused(asker.chat("a1", "hello again"), "conflict", says="had this id")
    assert len(said(asker)) == 2


def test_types_are_refused_in_the_wrong_box(asker: RawSender) -> None:
    assert_refused(asker.ask("a", request("a", "chat", payload={"content": "x"})), "invalid", says="turns/")
    asker.drop("b", request("b", "ping"), "turns")
    assert_refused(asker.reply("b"), "invalid", says="requests/")
    asker.drop("c", request("c", "chatt"), "turns")
    assert_refused(asker.reply("c"), "invalid", says="did you mean chat?")
    asker.drop("d", b"[]", "turns")
    assert_refused(asker.reply("d"), "invalid", says="not a JSON object")
    assert (asker.dead / "d.json").read_bytes() == b"[]"
    assert said(asker) == []


def test_a_failed_message_leaves_no_trace_and_works_later(make_host: HostFactory, stranger: RawSender) -> None:
    failing = {"when": "remember", "answers": [WRITES_DOWN, {"fails": "overloaded"}]}
    host = make_host(script(stranger.home, failing)).start()
    assert_refused(stranger.chat("a1", "remember"), "unavailable", says="overloaded")
    assert said(stranger) == []
    assert stranger.memory_text().count("Likes tea") == 1  # the tool had run
    (stranger.replies / "a1.json").unlink()
    script(stranger.home, {"when": "remember", "answers": [{"fails": "it was asked again"}, {"text": "Noted."}]})
    host.restart()
    reply = stranger.chat("a1", "remember")
    assert reply["ok"], reply
    assert (reply["result"]["content"], reply["result"]["steps"]) == ("Noted.", 2)
    assert stranger.memory_text().count("Likes tea") == 1
    assert len(said(stranger)) == 2


SLOW = slowly(20)


def test_a_killed_turn_resumes_without_doubles(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    host = make_host(script(home, SLOW, delay_seconds=0.1)).start()
    stranger.say("a1", "remember")
    wait_for(lambda: "tool_ended" in streamed(stranger, "a1"))
    host.kill()
    script(home, {"when": "remember", "answers": [{"fails": "it was asked again"}, {"text": "Noted."}]})
    host.start()
    reply = stranger.reply("a1")
    assert (reply["result"]["content"], reply["result"]["steps"]) == ("Noted.", 2)
    assert stranger.memory_text().count("Likes tea") == 1
    assert [role for role, _, _ in said(stranger)] == ["user", "assistant"]
    assert [line["attempt"] for line in host.log_lines() if line["event"] == "turn.resumed"] == [2]
    assert os.listdir(stranger.replies) == ["a1.json"]


def test_a_turn_often_cut_short_becomes_a_dead_letter(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    host = make_host(script(home, SLOW, delay_seconds=0.1) | {"spool.turn_queue.ATTEMPTS": 2}).start()
    stranger.say("a1", "remember")
    for began in ('"attempt":1', '"attempt":2'):
        wait_for(lambda: began in streamed(stranger, "a1"))  # noqa: B023
        host.kill()
        host.start()
    assert_refused(stranger.reply("a1"), "internal", says="the host ended 2 times while it ran")
    stranger.wait_until_taken("a1", box="turns")
    assert json.loads((stranger.dead / "a1.json").read_bytes())["payload"] == {"content": "remember"}
    (stranger.replies / "a1.json").unlink()
    script(home, SLOW)
    host.restart()
    cli_text("dead", "retry", "main/stranger/a1", home=home)
    assert stranger.reply("a1")["ok"]
    assert stranger.memory_text().count("Likes tea") == 1


def test_a_stop_lets_a_turn_finish(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    host = make_host(script(home, SLOW, delay_seconds=0.02)).start()
    stranger.say("a1", "remember")
    wait_for(lambda: '"text"' in streamed(stranger, "a1") or stranger.peek("a1"))
    host.stop()
    reply = json.loads((stranger.replies / "a1.json").read_bytes())
    assert reply["result"]["content"].startswith("This takes a while.")
    assert not list(stranger.turns.iterdir())


def test_an_unfinished_turn_continues_after_a_restart(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    settings = script(home, SLOW, delay_seconds=0.2) | {"life.grace_seconds": 0.5, "spool.turn_queue.ATTEMPTS": 1}
    host = make_host(settings).start()
    stranger.say("a1", "remember")
    wait_for(lambda: "tool_ended" in streamed(stranger, "a1"))
    host.stop()
    assert "turn.interrupted" in [line["event"] for line in host.log_lines()]
    assert [path.name for path in stranger.turns.iterdir()] == ["a1.json"]
    script(home, SLOW)
    host.start()
    assert stranger.reply("a1")["ok"]
    assert stranger.memory_text().count("Likes tea") == 1


def test_turns_of_a_group_run_in_name_order(make_host: HostFactory, home: Path) -> None:
    (ann, bob) = (RawSender(home, sender=name).make() for name in ("ann", "bob"))
    for number in range(6):
        (ann, bob)[number % 2].say(f"{number}", f"hello {number}")
    host = make_host(script(home, HELLO, delay_seconds=0.01)).start()
    replies = [(ann, bob)[number % 2].reply(f"{number}") for number in range(6)]
    assert [reply["result"]["turn"] for reply in replies] == [2, 4, 6, 8, 10, 12]
    assert [text for role, _, text in said(ann) if role == "user"] == [f"hello {number}" for number in range(6)]
    assert host.log_lines()


def test_groups_and_tools_do_not_wait_for_turns(make_host: HostFactory, home: Path) -> None:
    slow, quick = RawSender(home, "slow").make(), RawSender(home, "quick").make()
    waiting = {"when": "wait", "answers": [{"text": "x" * 100_000}]}
    make_host(script(home, waiting, HELLO, delay_seconds=0.05)).start()
    slow.say("a1", "wait for it")
    wait_for(lambda: "began" in streamed(slow, "a1"))
    assert quick.chat("b1", "hello")["ok"]
    slow.do("c1", content="meanwhile")
    assert slow.peek("a1") is None


def streamed(sender: RawSender, stem: str) -> str:
    """Return what is in the stream of a turn, empty when there is none."""
    try:
        return (sender.replies / f"{stem}.stream").read_text()
    except FileNotFoundError:
        return ""


def test_an_obstacle_at_the_stream_is_not_written_through(asker: RawSender, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (asker.replies / "a1.stream").symlink_to(victim)
    os.mkfifo(asker.replies / "a2.stream")
    for stem in ("a1", "a2"):
        assert asker.chat(stem, "hello")["ok"]
    assert victim.read_text() == "untouched"
    (asker.replies / "a3.stream").mkdir()
    assert_refused(asker.chat("a3", "hello"), "unavailable", says="a3.stream cannot be made")


THOUGHTFUL = (
    "<think>Sheila must not see SECRETS</think>\n\nYes.\n<internal>SECRETS again</internal>\nNo `<think>`. "
    "<think>SECRETS, cut off"
)


def test_thinking_is_never_shown_stored_or_recalled(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    answers = [{"text": "<thinking>SECRETS first</thinking>Wait.", **LIKES_TEA}, {"text": THOUGHTFUL}]
    settings = script(home, {"when": "", "answers": answers}, piece_characters=1, delay_seconds=0.001)
    make_host(settings).start()
    client, seen = SyncClient(home, "main", stranger.sender), list[StreamLine]()
    answer = client.chat("Tell me", on_line=seen.append)
    assert answer.content == "Yes.\n\nNo `<think>`. "
    shown = "".join(line.text or "" for line in seen)
    assert "SECRET" not in shown
    assert f"Wait.{answer.content}".startswith(shown)
    (home / "script.json").unlink()
    assert files_with(home, b"SECRETS") == []
    assert "Yes." in client.get_context("Yes or no?").system
    assert not any("SECRETS" in hit.text for hit in client.search_memory("SECRETS", scope="all").hits)


def test_thinking_streamed_in_odd_pieces_costs_no_answer(make_host: HostFactory, stranger: RawSender) -> None:
    pieces = ["<think>", "Let me see", "</think>\n\nVisible", " answer"]
    with served(lambda _: openai(ModelSaid(""), pieces_of_text=pieces)) as endpoint:
        make_host(endpoint.settings).start()
        assert stranger.chat("a1", "hello")["result"]["content"] == "Visible answer"


def test_thinking_that_another_agent_appends_is_taken_out_too(member: MakeClient) -> None:
    agent = member("researcher")
    turn = agent.append_turn("assistant", "<think>SECRETS</think>\nIt rains.")
    assert turn.neutralised == {"thinking": 1}
    agent.append_turn("user", "I write <think> before it")  # a person's words are the person's
    history = agent.get_history().text
    assert "SECRETS" not in history
    assert "[assistant]: It rains.\n" in history
    assert "I write <think> before it" in history
    with pytest.raises(Invalid, match="is blank"):
        agent.append_turn("assistant", "<think>SECRETS")
    assert agent.load_session().turns == 2


WITHDRAWN_MEANWHILE = """
import os
from honeybadger_host.spool.inbox import OpenInbox
begin = OpenInbox.open_stream
def open_stream(self, stem):
    if stem == "a1":
        os.unlink("a1.json", dir_fd=self.requests_fd)
    return begin(self, stem)
OpenInbox.open_stream = open_stream
"""


def test_a_message_withdrawn_at_once_is_never_answered(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    host = make_host(script(home, REMEMBER, HELLO), source=WITHDRAWN_MEANWHILE).start()
    stranger.say("a1", "remember")
    host.wait_for_event("turn.withdrawn")
    assert stranger.chat("a2", "hello")["ok"]
    assert os.listdir(stranger.replies) == ["a2.json"]
    assert [text for _, _, text in said(stranger)] == ["hello", "Hello to you."]
    assert stranger.memory_text() == ""
    stranger.say("a1", "hello")  # its id may be used again, for other words
    wait_for(lambda: len(host.events("turn.withdrawn")) == 2)


def test_only_a_waiting_message_can_be_withdrawn(make_host: HostFactory, home: Path) -> None:
    slow = {"when": "slowly", "answers": [{"text": "This takes a while, as it is."}]}
    make_host(script(home, slow, HELLO, delay_seconds=0.05, piece_characters=1)).start()
    client = SyncClient(home, "main", "user")
    for request_id, content in (("a1", "slowly"), ("a2", "hello")):
        with pytest.raises(ReplyTimeout):
            client.chat(content, request_id=request_id, timeout_seconds=0.001)
    wait_for(lambda: client.mailbox.stream_path("a1").exists() or client.mailbox.reply("a1"))
    assert not client.withdraw("a1")
    if client.withdraw("a2"):  # unless the machine was busy for two seconds
        with pytest.raises(NotFound):
            client.answer("a2")
    assert client.answer("a1").content == "This takes a while, as it is."
    assert not client.withdraw("a1")
    assert client.chat("hello", request_id="a3").turn in (4, 6)


def test_no_turn_begins_without_its_stream(fault_of: FaultFactory, make_host: HostFactory, stranger: RawSender) -> None:
    slow = {"when": "slowly", "answers": [{"text": "This takes a while."}]}
    fault = fault_of("create", "a1.stream", errno.ENOSPC)
    host = make_host(script(stranger.home, slow, HELLO, delay_seconds=0.1), env=fault.env).start()
    client = SyncClient(stranger.home, "main", stranger.sender)
    fault.begin()
    stranger.say("a1", "slowly")
    wait_for(fault.count)
    is_taken_back = client.withdraw("a1")
    assert stranger.chat("a2", "hello")["ok"]  # behind the other one, in the same group
    assert [text for _, _, text in said(stranger)] == ["hello", "Hello to you."]
    if is_taken_back:
        (stranger.replies / "a1.json").unlink(missing_ok=True)  # it was being refused just then
        stranger.say("a1", "slowly")
    assert_refused(stranger.reply("a1"), "unavailable", says="replies/a1.stream")
    fault.end()
    (stranger.replies / "a1.json").unlink()
    assert stranger.chat("a1", "slowly")["ok"]
    assert host.is_running


SECRET = "ghp_" + "k3J9s0Lq2WxZ7vB4nM1c" + "R8tY5uPaD6fGh2Q4"


def test_a_secret_is_in_no_file_whoever_says_it(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    call = {"name": "update_memory", "arguments": {"content": f"The token is {SECRET}"}}
    leaky = [{"text": "A moment.", "calls": [call]}, {"text": f"It is {SECRET}, I think."}]
    password = "page-1-result"  # harmless, but for the name it stands below
    arguments = {"content": "How to reach the router", "metadata": {"password": password}}
    failing = [{"calls": [{"name": "save_memory", "arguments": arguments}]}, {"fails": "overloaded"}]
    turns = {"when": "token", "answers": leaky}, {"when": "router", "answers": failing}
    host = make_host(script(home, *turns)).start()
    reply = stranger.chat("a1", f"my token is {SECRET}")
    assert reply["ok"], reply
    assert reply["result"]["neutralised"] == {"secrets": 1, "secrets/github-token": 1}
    assert_refused(stranger.chat("a2", "save what you know of the router"), "unavailable", says="overloaded")
    host.stop()  # that turn is not over: the model's answer is kept for its next attempt
    (home / "script.json").unlink()
    assert files_with(home, SECRET.encode(), password.encode()) == []
    assert SECRET not in host.stderr.read_text()
    assert "The token is" in stranger.memory_text()
    (entry,) = (home / "groups/main/memory").rglob("*.json")
    assert json.loads(entry.read_bytes())["metadata"] == {"password": "[REDACTED:password]"}


def test_an_endless_model_delays_a_group_for_one_turn(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    endless = {"when": "wait", "answers": [{"text": "word " * 10_000}]}
    make_host(script(home, endless, HELLO, delay_seconds=0.01) | {"turns.seconds": 0.2}).start()
    assert_refused(stranger.chat("a1", "wait"), "unavailable", says="within 0.4 s (turns.seconds)")
    stems = (f"a{number}" for number in itertools.count(2))  # on a busy machine this is too short for an answer, too
    wait_for(lambda: stranger.chat(next(stems), "hello")["ok"])
    assert len(said(stranger)) == 2
