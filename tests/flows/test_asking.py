"""A message and its answer over the clients, and `honeybadger-agent ask` and `answer`."""

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from honeybadger_agent import SyncClient, new_id
from honeybadger_agent.errors import Conflict, ReplyTimeout
from honeybadger_agent.mailbox import Mailbox
from tests.conftest import HostFactory
from tests.hosting import AGENT, HostProcess, RawSender, run_agent, turns_of, wait_for
from tests.terminal import Terminal


def playing(home: Path, make_host: HostFactory, text: str) -> HostProcess:
    """Start a host whose model takes about a second for `text`."""
    turns = [{"answers": [{"text": text}]}]
    (home / "script.json").write_text(json.dumps({"turns": turns, "piece_characters": 2, "delay_seconds": 0.05}))
    return make_host({"model.name": "scripted:script.json"}).start()


def test_repeating_an_open_question_waits_for_the_same_answer(make_host: HostFactory, home: Path) -> None:
    client, request_id = SyncClient(home, "main", "user"), new_id()
    with pytest.raises(ReplyTimeout):
        client.chat("hello", request_id=request_id, timeout_seconds=0.01)
    sent = client.mailbox.path("turns", request_id).stat()
    with pytest.raises(ReplyTimeout):
        client.chat("hello", request_id=request_id, timeout_seconds=0.01)
    assert client.mailbox.path("turns", request_id).stat().st_ino == sent.st_ino
    with pytest.raises(Conflict, match="not answered yet") as caught:
        client.chat("something else", request_id=request_id)
    assert caught.value.field == "id"
    host = playing(home, make_host, "This takes a while, as it is.")
    for _ in range(3):
        with contextlib.suppress(ReplyTimeout):  # while it is written, unless the machine is busy
            client.chat("hello", request_id=request_id, timeout_seconds=0.1)
    assert client.chat("hello", request_id=request_id).content == "This takes a while, as it is."
    wait_for(lambda: not os.listdir(client.mailbox.root / "turns"))
    host.stop()
    assert os.listdir(client.mailbox.root / "replies") == []
    assert len(turns_of(home)) == 2


def test_ask_prints_the_answer_and_nothing_else(served: HostProcess, asker: RawSender) -> None:
    where = ("--group", asker.group, "--session", "s")
    run = run_agent("ask", "Remember that I like tea", "--as", "ann", *where, home=served.home)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith("\n")
    assert "tea" in run.stdout
    as_json = run_agent("ask", "--json", "--agent", "assistant", *where, home=served.home, stdin=b"What do I like?\n")
    assert (as_json.returncode, as_json.stderr) == (0, "")
    assert "tea" in orjson.loads(as_json.stdout)["content"]
    turns = turns_of(served.home, "s", asker.group)
    assert [(turn["sender"], turn["content"]) for turn in turns if turn["role"] == "user"] == [
        ("ann", "Remember that I like tea"),
        ("user", "What do I like?\n"),
    ]


def test_interrupted_before_an_answer_ask_withdraws_the_message(home: Path, tmp_path: Path) -> None:
    with Terminal([*AGENT, "ask", "hello", "--home", str(home)], tmp_path) as terminal:
        wait_for(lambda: list((home / "data/ipc/main").glob("user/turns/*.json")))
        terminal.type("\x03")
        assert terminal.end() == 130
        assert terminal.text == "^Choneybadger-agent: taken back: nobody had begun to answer it, and nothing was said"
    assert list((home / "data/ipc/main").glob("user/turns/*.json")) == []


@pytest.mark.parametrize("is_terminal", [True, False])
def test_interrupted_during_an_answer_ask_prints_what_was_said(
    make_host: HostFactory, home: Path, tmp_path: Path, is_terminal: bool
) -> None:
    playing(home, make_host, "The beginning of this. " + "word " * 2000)
    out = tmp_path / "out"
    command = [*AGENT, "ask", "hello", "--home", str(home)]
    piped = ["sh", "-c", f'exec "$0" "$@" >{out}', *command]
    with Terminal(command if is_terminal else piped, tmp_path) as terminal:
        if is_terminal:
            terminal.wait_for("The beginning of this.")
        else:
            wait_for(lambda: list((home / "data/ipc/main/user/replies").glob("*.stream")))
        terminal.type("\x03")
        assert terminal.end() == 130
        said = terminal.text if is_terminal else out.read_text()
        assert said.count("asked for by user.)") == 1
        assert "topped: asked for by user" in terminal.text
    assert turns_of(home)[1]["content"].endswith("asked for by user.)")
    wait_for(lambda: os.listdir(home / "data/ipc/main/user/replies") == [])  # the stream goes behind the reply


EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\rX\u202e"
SEEN = "\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\rX\\u202e"


@contextlib.contextmanager
def evil_host(home: Path, *, content: str) -> Iterator[None]:
    """Answer the first message as no host of ours would."""
    box = Mailbox.of(home, "main", "user")
    box.create()
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.005):
            for path in (box.root / "requests").glob("*.json"):
                answer(path, {"host_version": "0", "protocol": 1, "now": "now"})
            for path in (box.root / "turns").glob("*.json"):
                with (box.root / "replies" / f"{path.stem}.stream").open("wb") as stream:
                    for line in (
                        {"kind": "began", "agent": f"{EVIL}", "model": EVIL, "attempt": 1},
                        {"kind": "tool_ended", "step": 1, "tool": EVIL, "ok": True, "summary": EVIL},
                        {"kind": "text", "step": 2, "text": content[:5]},
                    ):
                        stream.write(orjson.dumps(line) + b"\n")
                tool = {"name": EVIL, "ok": True, "summary": EVIL}
                answer(path, {"content": content, "agent": EVIL, "model": EVIL, "turn": 2, "steps": 2, "tools": [tool]})

    def answer(path: Path, result: dict[str, object]) -> None:
        temporary = box.root / "tmp" / path.name
        temporary.write_bytes(orjson.dumps({"v": 1, "id": path.stem, "ok": True, "result": result}))
        path.unlink()
        temporary.rename(box.root / "replies" / path.name)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def assert_untouched(terminal: Terminal) -> None:
    """Check that the terminal obeyed nobody but us."""
    assert terminal.screen.title == ""
    assert b"\x07" not in terminal.raw
    assert b"\x1b[2J" not in terminal.raw
    assert b"\x1b]" not in terminal.raw
    assert "\u202e".encode() not in terminal.raw
    assert "\x9b".encode() not in terminal.raw


@pytest.mark.parametrize("command", ["chat", "ask", "ask --json"])
def test_no_control_character_reaches_the_terminal(home: Path, tmp_path: Path, command: str) -> None:
    content = f"begin {EVIL} {'x' * 10_000} end"
    words = () if command == "chat" else ("hello",)
    with (
        evil_host(home, content=content),
        Terminal([*AGENT, *command.split(), *words, "--home", str(home)], tmp_path) as terminal,
    ):
        if command == "chat":
            terminal.wait_for("you>")
            terminal.enter("hello")
            terminal.wait_for(" end")
            terminal.wait_for_prompt()
            terminal.type("\x04")
        assert terminal.end() == 0
        assert_untouched(terminal)
        assert SEEN.encode() in terminal.raw or command == "ask --json"
        assert terminal.raw.count(b"x") >= 10_000
