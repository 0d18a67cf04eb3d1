"""`honeybadger-agent chat`: on a terminal as people use it, and between pipes."""

import contextlib
import json
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from honeybadger_agent import SyncClient
from tests.conftest import HostFactory
from tests.flows.world import WRITES_DOWN, script, slowly
from tests.hosting import AGENT, HostProcess, RawSender, run_agent, turns_of, wait_for
from tests.terminal import Terminal

SECRET = "ghp_" + "k3J9s0Lq2WxZ7vB4nM1c" + "R8tY5uPaD6fGh2Q4"

NOTED = {"text": "Noted, *tea*.\n\n- one\n- **two**", "input_tokens": 1200, "output_tokens": 7}
REMEMBER = {"when": "remember", "answers": [WRITES_DOWN, NOTED]}
HELLO = {"when": "", "answers": [{"text": "Hello to you."}]}
SLOW = slowly(60)  # with 0.2 s before each piece of 12 characters, 20 s


@pytest.fixture
def host(make_host: HostFactory, home: Path) -> HostProcess:
    return make_host(script(home, REMEMBER, HELLO)).start()


Open = Callable[..., Terminal]


@pytest.fixture
def person(tmp_path: Path) -> Path:
    """A person's own folder, where what was typed is kept."""
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


@pytest.fixture
def chat(home: Path, person: Path) -> Iterator[Open]:
    """Open chats on terminals, which wait for the first line; they are ended with the test."""
    with ExitStack() as terminals:

        def open_chat(*arguments: str, command: tuple[str, ...] = AGENT, **env: str) -> Terminal:
            terminal = Terminal([*command, "chat", "--home", str(home), *arguments], person, env)
            terminals.enter_context(terminal)
            terminal.wait_for_prompt()
            return terminal

        yield open_chat


def leave(terminal: Terminal) -> None:
    """Leave with Ctrl-D at the prompt; nothing of the terminal is changed and nothing went wrong in silence."""
    terminal.wait_for_prompt()
    terminal.type("\x04")
    assert terminal.end() == 0
    assert terminal.settings == terminal.before
    assert not terminal.screen.cursor.hidden
    assert "Traceback" not in terminal.text


def said(home: Path, session: str = "main") -> list[str]:
    """Return what people said in a session."""
    return [turn["content"] for turn in turns_of(home, session) if turn["role"] == "user"]


def test_an_answer_shows_what_was_stored_and_its_cost(host: HostProcess, home: Path, chat: Open) -> None:
    terminal = chat("--as", "ann")
    terminal.say("Remember that I like tea", "ann>", times=2)  # the answer is over
    lines = terminal.text.splitlines()
    at = lines.index("ann> Remember that I like tea")
    assert lines[at + 1 : at + 11] == [
        "assistant>",
        "Let me write that down.",
        "  · update_memory: Saved in MEMORY.md, section Notes: Likes tea",
        "assistant>",
        "Noted, tea.",
        "",
        " • one",
        " • two",
        "  scripted:script.json · 2 steps · 1,200 tokens in, 7 out",
        "ann>",
    ]
    assert b"\x1b[1mtwo" in terminal.raw
    leave(terminal)
    (turn, _) = turns_of(home)
    assert (turn["sender"], turn["content"]) == ("ann", "Remember that I like tea")


def test_messages_appear_above_what_is_being_typed(host: HostProcess, home: Path, chat: Open) -> None:
    ann = SyncClient(home, "main", "ann", session="holidays")
    ann.send_message("before")
    terminal = chat()
    requests = home / "data/ipc/main/user/requests"

    def listens() -> bool:  # the first request only asks where to begin
        with contextlib.suppress(FileNotFoundError):
            return any(b"wait_seconds" in request.read_bytes() for request in requests.iterdir())
        return False

    wait_for(listens, what="the chat listens")
    terminal.type("hel")
    terminal.wait_for("you> hel")
    ann.send_message("The backup\nis done", ["user"])
    terminal.wait_for("ann, to user, session holidays)\n  The backup\n  is done\n")
    terminal.wait_for("you> hel")
    terminal.say("lo", "Hello to you.")
    assert "before" not in terminal.text
    assert terminal.text.count("The backup") == 1
    terminal.enter("/quit")
    assert terminal.end() == 0
    wait_for(lambda: not list(requests.iterdir()), what="nothing left in the box")


def test_commands_look_into_the_memory(host: HostProcess, home: Path, chat: Open) -> None:
    terminal = chat()
    terminal.say("/remember  The bees are asleep ", "Saved in MEMORY.md, section Notes")
    terminal.say("/memory", "## Notes (user, ")
    terminal.say("/search bees", "[MEMORY.md#")
    terminal.say("/context", "## Remembered Facts")
    terminal.wait_for("tokens of 32000")
    terminal.say("/help", "/session NAME")
    terminal.say("/serach bees", "There is no /serach; /search?")
    terminal.say("/session holidays", "Session holidays.")
    terminal.say("/session no good", "session 'no good' is not a name: ")
    terminal.say("//etc is a folder", "Hello to you.")
    terminal.say("/bad Don't greet me, answer", "Recorded for turn 2.")
    terminal.say("/good", "Recorded for turn 2.", times=2)
    terminal.say("/bad", "Recorded for turn 2.", times=3)
    terminal.say("/agent nobody", "From now on the agent nobody answers.")
    terminal.say("hello", "there is no agent 'nobody'; there are: assistant")
    terminal.enter("/agent")
    terminal.say("hello again", "Hello to you.", times=2)
    terminal.wait_for("you>", times=16)
    terminal.say("/new boats", "Session boats.")
    terminal.say("hello", "Hello to you.", times=3)
    terminal.wait_for_prompt()
    terminal.say("/clear", "Session chat-")
    terminal.wait_for_prompt()
    assert "Hello to you." not in terminal.text
    terminal.enter("/quit")
    assert terminal.end() == 0
    assert {path.stem for path in (home / "data/sessions/main").glob("*.jsonl")} == {"holidays", "boats"}
    feedback = [json.loads(line) for line in (home / "data/feedback/main.jsonl").read_text().splitlines()]
    assert [(one["kind"], one.get("content"), one["session"], one["turn"]) for one in feedback] == [
        ("correction", "Don't greet me, answer", "holidays", 2),
        ("praise", None, "holidays", 2),
        ("complaint", None, "holidays", 2),
    ]
    assert said(home, "holidays") == ["/etc is a folder", "hello again"]
    assert said(home) == []


def test_typed_lines_return_later_without_credentials(host: HostProcess, home: Path, person: Path, chat: Open) -> None:
    first = chat()
    for number, message in enumerate(("good morning", f"my token is {SECRET}", f"/remember {SECRET}"), 1):
        first.enter(message)
        first.wait_for("you>", times=number + 1)
    leave(first)
    assert "Made harmless in your message: 1 secret (github-token)." in first.text
    kept = person / ".local/state/honeybadger/chat_history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert [line for line in kept.read_text().splitlines() if line.startswith("+")] == ["+good morning"]
    second = chat()
    second.type("\x1b[A")
    second.wait_for("you> good morning")
    second.type("\r")
    second.wait_for("Hello to you.")
    second.wait_for("you>", times=2)
    leave(second)
    assert said(home)[-1] == "good morning"


def test_ctrl_c_and_stop_end_an_answer(make_host: HostFactory, home: Path, chat: Open) -> None:
    make_host(script(home, SLOW, HELLO, delay_seconds=0.2)).start()
    terminal = chat()
    for number, how in enumerate(("\x03", "/stop\r"), 1):
        terminal.say("remember", "This takes a", times=terminal.text.count("This takes a") + 1)
        terminal.type(how)
        terminal.wait_for("Stopped: asked for by user.", times=number)
        terminal.wait_for("you>", times=number + 1)
        assert terminal.text.count("(Stopped here: asked for by user.)") == number
    terminal.type("\x03")
    terminal.wait_for("(Ctrl-D leaves.)")
    terminal.say("hello", "Hello to you.")
    terminal.wait_for_prompt()  # what is typed before the answer is over is the next message
    terminal.say("/stop", "no turn runs here")
    terminal.say("/answer", "Nothing is unanswered.")
    leave(terminal)
    turns = turns_of(home)
    assert said(home) == ["remember", "remember", "hello"]
    are_stopped = [turn["content"].endswith("\n\n(Stopped here: asked for by user.)") for turn in turns]
    assert are_stopped == [*[False, True] * 2, False, False]


def test_text_typed_during_an_answer_is_the_next_message(make_host: HostFactory, home: Path, chat: Open) -> None:
    make_host(script(home, SLOW, HELLO, delay_seconds=0.01)).start()
    terminal = chat()
    terminal.say("remember", "This takes a")
    terminal.say("hello", "Hello to you.")
    terminal.wait_for("you>", times=2)
    leave(terminal)
    assert said(home) == ["remember", "hello"]


def test_an_abandoned_answer_is_fetched_by_its_id(make_host: HostFactory, home: Path, person: Path, chat: Open) -> None:
    host = make_host(script(home, SLOW, delay_seconds=0.2)).start()
    terminal = chat("--timeout", "3")
    terminal.say("remember", " after 3 s; ")
    terminal.wait_for("you>", times=2)
    leave(terminal)
    again = terminal.text.partition("Not answered yet: honeybadger-agent ")[2].split()
    assert again[0] == "answer"
    host.kill()
    script(home, SLOW)
    host.start()
    run = run_agent(*again, home=home)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("This takes a while. ")


def test_chat_waits_for_a_host_killed_during_an_answer(
    make_host: HostFactory, home: Path, stranger: RawSender, chat: Open
) -> None:
    host = make_host(script(home, SLOW, delay_seconds=0.2)).start()
    terminal = chat()
    terminal.say("remember", "This takes a")
    host.kill()
    missed = terminal.text.count("No host answers.")  # a busy machine may have been silent before
    terminal.wait_for("No host answers.", times=missed + 1)
    script(home, {"when": "remember", "answers": [{"fails": "it was asked again"}, {"text": "Noted."}]})
    host.start()
    terminal.wait_for("Noted.")
    terminal.wait_for("you>", times=2)
    leave(terminal)
    assert terminal.text.count("No host answers.") == missed + 1
    assert terminal.text.count("(The host was started again; so is the answer.)") == 1
    assert stranger.memory_text().count("Likes tea") == 1
    assert said(home) == ["remember"]


# A chat that hears sooner that no host answers.
IMPATIENT = """
from honeybadger_agent.cli import chat_answer
chat_answer.SOON_SECONDS = 0.5
"""


def test_without_a_host_ctrl_c_withdraws_the_message(home: Path, chat: Open) -> None:
    terminal = chat(command=(*AGENT, "--source", IMPATIENT))
    terminal.say("hello", "No host answers. Start one with `honeybadger-host run`")
    terminal.type("\x03")
    terminal.wait_for("Taken back: nobody had begun to answer it, and nothing was said.")
    assert list((home / "data/ipc/main/user/turns").iterdir()) == []
    terminal.wait_for("you>", times=2)
    terminal.say("/answer", "Nothing is unanswered.")
    leave(terminal)
    assert "Not answered yet" not in terminal.text


def test_a_model_that_fails_is_explained_and_asked_again(make_host: HostFactory, home: Path, chat: Open) -> None:
    host = make_host(script(home, {"answers": [{"fails": "the model is overloaded"}]})).start()
    terminal = chat()
    terminal.say("hello", "unavailable: ")
    terminal.wait_for("/answer asks again.")
    assert "the model is overloaded; nothing was said. /answer" in terminal.text
    assert run_agent("ask", "hello", home=home).stderr.endswith("overloaded; nothing was said, so you may ask again\n")
    script(home, HELLO)
    host.restart()
    terminal.say("/answer", "Hello to you.")
    terminal.wait_for("you>", times=3)
    leave(terminal)
    assert said(home) == ["hello"]


def test_without_the_extra_chat_works_and_names_it(host: HostProcess, home: Path, chat: Open) -> None:
    missing = "for name in ('prompt_toolkit', 'rich', 'rich.console', 'rich.live'): sys.modules[name] = None"
    terminal = chat(command=(*AGENT, "--source", f"import sys\n{missing}"))
    terminal.wait_for("[chat]")
    terminal.wait_for("you>")
    terminal.say("remember", "- **two**")  # as it was said
    terminal.wait_for("you>", times=2)
    leave(terminal)
    assert terminal.text.count("pip install") == 1
    assert said(home) == ["remember"]


def piped(home: Path, stdin: bytes, *arguments: str, source: str = "") -> subprocess.CompletedProcess[str]:
    """Run a chat between files, where prompt_toolkit is not installed."""
    without = ("--source", f"import sys; sys.modules['prompt_toolkit'] = None\n{source}")
    return run_agent(*without, "chat", *arguments, home=home, stdin=stdin)


def complaints(run: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines on stderr, without one that a busy machine may be the cause of."""
    return [line for line in run.stderr.splitlines() if not line.startswith("honeybadger-agent: No host answers.")]


def test_in_a_pipe_each_line_is_a_message(host: HostProcess, home: Path) -> None:
    run = piped(home, b"good morning\n\nRemember tea\r\n/remember and milk\n/memory\nbye", "--session", "s")
    assert (run.returncode, complaints(run)) == (0, [])
    lines = run.stdout.splitlines()
    noted = ["Noted, *tea*.", "", "- one", "- **two**"]
    assert lines[:6] == ["Hello to you.", *noted, "Saved in MEMORY.md, section Notes"]
    assert lines[-1] == "Hello to you."
    assert "- and milk" in lines
    assert said(home, "s") == ["good morning", "Remember tea", "bye"]
    assert not list(home.rglob("chat_history"))


def test_in_a_pipe_failures_go_to_stderr(make_host: HostFactory, home: Path) -> None:
    make_host(script(home, {"when": "good", "answers": [{"text": "Good."}]})).start()
    run = piped(home, b"bad\n\xff\n/nothing\ngood\n")
    assert (run.returncode, run.stdout) == (1, "Good.\n")
    errors = complaints(run)
    assert len(errors) == 3
    assert errors[0].startswith("honeybadger-agent: unavailable: ")
    assert "not UTF-8" in errors[1]
    assert "There is no /nothing" in errors[2]
