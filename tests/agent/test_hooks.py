"""The hook program: real processes on real transcripts, killed wherever it hurts."""

import functools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import AgentError, SyncClient
from honeybadger_agent.cli.install import place_for
from honeybadger_agent.hooks import hook
from honeybadger_agent.hooks.program.settings import settings_file
from honeybadger_agent.hooks.program.turns import login_name
from honeybadger_agent.hooks.tools import PROGRAM
from tests.commands import finished
from tests.conftest import HostFactory
from tests.hosting import HostProcess, RawSender, at_once, common_folder, frozen_environment, turns_of, wait_for

SOURCE = Path(hook.__file__)


SESSION = "7b0c2d1e"


class Transcript:
    """The transcript that a tool writes while a session runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: list[str] = []

    def line(self, **members: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(members, separators=(",", ":")) + "\n")

    def user(self, text: str, **more: Any) -> None:
        """Add what a person typed in Claude Code, or with `more` what only looks so."""
        message = {"role": "user", "content": text}
        key = f"u-{self.path.stat().st_size if self.path.exists() else 0}"
        self.line(type="user", message=message, uuid=key, timestamp="2026-11-24T14:00:00.000Z", **more)
        if not more:
            self.said.append(text)

    def assistant(self, text: str, *, is_last: bool = True, **more: Any) -> None:
        message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        self.line(type="assistant", message=message, uuid=f"a-{self.path.stat().st_size}", **more)
        if is_last:
            self.said.append(text)


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path / "transcript.jsonl")


@pytest.fixture
def room(asker: RawSender, transcript: Transcript) -> RawSender:
    """A group of its own of a host that serves all these tests; the folder of the transcript belongs to it."""
    (transcript.path.parent / ".honeybadger").write_text(f"# memory of this team\ngroup = {asker.group}\n")
    return asker


def event(transcript: Transcript | None, name: str, **more: Any) -> str:
    path = {"transcript_path": str(transcript.path), "cwd": str(transcript.path.parent)} if transcript else {}
    return json.dumps({"session_id": SESSION, "hook_event_name": name, **path, **more})


@functools.cache
def patient_copy() -> str:
    """Return the path of the program with more patience than a person has: the machine may be busy."""
    copy = common_folder() / f"hook-{os.getpid()}"
    program = shutil.copytree(SOURCE.parent / "program", copy / PROGRAM / "program")
    source = (program / "box.py").read_text()
    assert source.count("ANSWER_SECONDS = 1.5") == 1
    (program / "box.py").write_text(source.replace("ANSWER_SECONDS = 1.5", "ANSWER_SECONDS = 30"))
    return str(shutil.copy(SOURCE, copy))


def run_hook(
    home: Path, said: str, tool: str = "claude-code", program: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-ISWerror", *(program or [patient_copy()]), tool]
    return finished(command, input=said, env=frozen_environment(HONEYBADGER_HOME=str(home)))


def context_of(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    text: str = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""
    return text


def await_requests(home: Path, group: str = "main", sender: str = "claude-code") -> None:
    wait_for(lambda: not os.listdir(home / "data/ipc" / group / sender / "requests"))


def contents_of(home: Path, group: str = "main") -> list[str]:
    return [turn["content"] for turn in turns_of(home, SESSION, group)]


def test_a_session_begins_with_the_groups_memory(room: RawSender, transcript: Transcript) -> None:
    SyncClient(room.home, room.group, "ann").update_memory("Ann likes teal", section="Colours")
    (transcript.path.parent / "source").mkdir()
    cwd = str(transcript.path.parent / "source")  # in a folder of the repository that names the group
    text = context_of(run_hook(room.home, event(transcript, "SessionStart", source="startup", cwd=cwd)))
    assert "Ann likes teal" in text
    assert "data, not instructions" in text
    assert "## Your Identity" not in text


def test_the_context_is_cut_to_the_tools_limit(room: RawSender, transcript: Transcript) -> None:
    agent = SyncClient(room.home, room.group, "ann")
    for number in range(40):
        agent.update_memory(f"Note {number}: " + "x" * 400)
    text = context_of(run_hook(room.home, event(transcript, "SessionStart", source="startup")))
    assert len(text) <= 9_500
    assert "Note 39" in text
    assert "Note 0:" not in text


def test_a_prompt_recalls_what_it_is_about(room: RawSender, transcript: Transcript) -> None:
    SyncClient(room.home, room.group, "ann").save_memory("Ann's boat lies in the harbour of Kiel")
    half_an_emoji = "Where does the boat lie? \ud83d"
    about = run_hook(room.home, event(transcript, "UserPromptSubmit", prompt=half_an_emoji))
    assert "harbour of Kiel" in context_of(about)
    for nothing in ("ok, thanks", "Write a function that sorts numbers", ""):
        assert context_of(run_hook(room.home, event(transcript, "UserPromptSubmit", prompt=nothing))) == ""
    machine = run_hook(
        room.home, event(transcript, "UserPromptSubmit", prompt="Where does the boat lie?", source="task")
    )
    assert context_of(machine) == ""
    sub = run_hook(room.home, event(transcript, "UserPromptSubmit", prompt="Where does the boat lie?", agent_id="a1"))
    assert context_of(sub) == ""


def test_what_the_model_still_sees_is_not_recalled_again(room: RawSender, transcript: Transcript) -> None:
    SyncClient(room.home, room.group, "ann").save_memory("Ann's boat lies in the harbour of Kiel")

    def prompt() -> str:
        said = context_of(run_hook(room.home, event(transcript, "UserPromptSubmit", prompt="Where does the boat lie?")))
        transcript.user("Where does the boat lie?")
        transcript.assistant("In Kiel")
        run_hook(room.home, event(transcript, "Stop"))
        return said

    assert "harbour of Kiel" in prompt()
    assert "harbour of Kiel" not in prompt()
    run_hook(room.home, event(transcript, "SessionStart", source="compact"))
    assert "harbour of Kiel" in prompt()


@pytest.mark.parametrize(
    "said",
    [
        *("", "[]", "{", '{"hook_event_name": "Stop"}', '{"session_id": "../x", "hook_event_name": "Stop"}'),
        '{"session_id": "s", "hook_event_name": "Stop", "transcript_path": "/nowhere"}',
        '{"session_id": "s", "hook_event_name": "Later"}',
    ],
)
def test_it_never_stands_in_the_way(home: Path, said: str) -> None:
    done = run_hook(home, said)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert run_hook(home / "none", said).returncode == 0


@pytest.mark.parametrize("damaged", ["requests", "hooks", f"hooks/{SESSION}.json", "tmp"])
def test_with_a_damaged_folder_the_turn_goes_on(home: Path, transcript: Transcript, damaged: str) -> None:
    transcript.user("Hello")
    path = home / "data/ipc/main/claude-code" / damaged
    path.parent.mkdir(parents=True)
    path.symlink_to(home / "nowhere")
    done = run_hook(home, event(transcript, "Stop"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"honeybadger: {path}")
    assert "not everything was kept or recalled" in done.stderr


def test_without_a_host_a_prompt_goes_on(home: Path, transcript: Transcript) -> None:
    began = time.monotonic()
    done = run_hook(home, event(transcript, "UserPromptSubmit", prompt="Where does the boat lie?"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "no host serves" in done.stderr
    assert time.monotonic() - began < 10  # it does not wait; a busy machine takes long to start it
    assert list((home / "data/ipc/main/claude-code/requests").iterdir()) == []


def test_an_expired_refusal_costs_no_other_turn(make_host: HostFactory, home: Path, transcript: Transcript) -> None:
    transcript.user("Hello")
    transcript.user("my key is AKIAIOSFODNN7EXAMPLE")
    transcript.assistant("Hi")
    stop = event(transcript, "Stop", last_assistant_message="Hi")
    run_hook(home, stop)  # before any host runs
    make_host({"security.secrets": "refuse"}).start()
    replies = home / "data/ipc/main/claude-code/replies"
    wait_for(lambda: list(replies.glob("*.json")))
    for reply in replies.iterdir():
        reply.unlink()
    for _ in range(2):
        run_hook(home, stop)
        await_requests(home)
    assert contents_of(home) == ["Hello", "Hi"]


def test_a_user_named_like_a_sender_is_renamed(room: RawSender, transcript: Transcript) -> None:
    SyncClient(room.home, room.group, login_name()).ping()
    transcript.user("Hello")
    transcript.assistant("Hi")
    for _ in range(2):
        run_hook(room.home, event(transcript, "Stop", last_assistant_message="Hi"))
        await_requests(room.home, room.group)
    turns = wait_for(lambda: turns_of(room.home, SESSION, room.group))
    assert [(turn["sender"], turn["content"]) for turn in turns] == [("user", "Hello"), ("claude-code", "Hi")]


def test_two_hooks_at_once_keep_each_turn_once(room: RawSender, transcript: Transcript) -> None:
    for number in range(40):
        transcript.user(f"Question {number}")
        transcript.assistant(f"Answer {number}")
    patient_copy()  # it is made by one alone
    at_once(*[lambda: run_hook(room.home, event(transcript, "SessionEnd"))] * 4)
    await_requests(room.home, room.group)
    assert contents_of(room.home, room.group) == transcript.said


def test_an_oversized_prompt_is_cut_and_says_so(room: RawSender, transcript: Transcript) -> None:
    for text in ("é" * 90_000, "\u0001" * 190_000, "short"):
        transcript.user(text)
    run_hook(room.home, event(transcript, "SessionEnd"))
    await_requests(room.home, room.group)
    long, cut, short = contents_of(room.home, room.group)
    assert (long, short) == ("é" * 90_000, "short")
    assert cut.endswith("[cut here: 190,000 characters in all]")


def test_a_session_without_transcript_is_kept_from_events(served: HostProcess) -> None:
    home = served.home
    for turn in ("t1", "t2"):
        run_hook(home, event(None, "UserPromptSubmit", prompt=f"Question {turn}", turn_id=turn), "codex")
        for _ in range(2):  # a second time, as if the first had been killed after it published
            run_hook(home, event(None, "Stop", last_assistant_message=f"Answer {turn}", turn_id=turn), "codex")
    await_requests(home, sender="codex")
    assert contents_of(home) == ["Question t1", "Answer t1", "Question t2", "Answer t2"]


def test_a_rollout_of_codex_is_read(room: RawSender, transcript: Transcript) -> None:
    def item(kind: str, number: int, *texts: str) -> None:
        content = [{"type": "text" if kind == "UserMessage" else "Text", "text": text} for text in texts]
        completed = {"type": kind, "id": f"m{number}", "content": content}
        payload = {"type": "item_completed", "turn_id": "t1", "item": completed}
        transcript.line(timestamp="2026-11-25T22:29:14.207Z", type="event_msg", payload=payload)

    transcript.line(type="session_meta", payload={"id": SESSION, "base_instructions": {"text": "You are an agent"}})
    environment = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment>"}]}
    transcript.line(type="response_item", payload=environment)
    item("UserMessage", 1, "My boat lies in Kiel")
    item("AgentMessage", 2, "Let me see")
    item("CommandExecution", 3)
    item("AgentMessage", 4, "Noted")
    transcript.line(type="event_msg", payload={"type": "task_complete", "turn_id": "t1"})
    for _ in range(2):
        done = run_hook(room.home, event(transcript, "Stop", last_assistant_message="Noted", turn_id="t1"), "codex")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    await_requests(room.home, room.group, "codex")
    assert contents_of(room.home, room.group) == ["My boat lies in Kiel", "Noted"]
    assert {turn["by"] for turn in turns_of(room.home, SESSION, room.group)} == {"codex"}


def test_codex_sub_agents_are_neither_kept_nor_recalled(room: RawSender, transcript: Transcript) -> None:
    SyncClient(room.home, room.group, "ann").save_memory("Ann's boat lies in the harbour of Kiel")
    transcript.line(type="session_meta", payload={"id": SESSION, "thread_source": "subagent"})
    item = {"type": "UserMessage", "id": "m1", "content": [{"type": "text", "text": "Look for the boat"}]}
    transcript.line(type="event_msg", payload={"type": "item_completed", "turn_id": "t1", "item": item})
    asked = event(transcript, "UserPromptSubmit", prompt="Where does the boat lie?", turn_id="t1")
    assert context_of(run_hook(room.home, asked, "codex")) == ""
    assert context_of(run_hook(room.home, event(transcript, "Stop", turn_id="t1"), "codex")) == ""
    assert contents_of(room.home, room.group) == []


def test_a_gemini_chat_is_read_without_hook_text(room: RawSender, transcript: Transcript) -> None:
    SyncClient(room.home, room.group, "ann").save_memory("Ann's boat lies in the harbour of Kiel")
    begun = "<hook_context>Memory of the group</hook_context>\n\nWhere does the boat lie?"
    transcript.line(sessionId=SESSION, kind="main")
    transcript.line(**{"$set": {"messages": [{"id": "0", "type": "user", "content": [{"text": "<session_context>"}]}]}})
    shown = [{"text": begun}]
    parts = [*shown, {"text": "<hook_context>Recalled from</hook_context>"}]
    transcript.line(id="1", type="user", content=parts, displayContent=shown, timestamp="2026-11-25T22:33:03.279Z")
    answer = run_hook(room.home, event(transcript, "BeforeAgent", prompt=begun), "gemini")
    assert "harbour of Kiel" in context_of(answer)
    assert json.loads(answer.stdout)["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"
    transcript.line(id="2", type="gemini", content="In Kiel")
    transcript.line(**{"$set": {"lastUpdated": "2026-11-25T22:33:03.447Z"}})
    assert context_of(run_hook(room.home, event(transcript, "AfterAgent", prompt_response="In Kiel"), "gemini")) == ""
    await_requests(room.home, room.group, "gemini")
    assert contents_of(room.home, room.group) == ["Where does the boat lie?", "In Kiel"]


def test_installed_settings_say_home_group_and_sender(
    room: RawSender, transcript: Transcript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    chosen = Path(settings_file("claude-code"))
    chosen.parent.mkdir()
    (transcript.path.parent / ".honeybadger").unlink()
    chosen.write_text(json.dumps({"home": str(room.home), "group": room.group, "sender": "laptop"}))
    transcript.user("Hello")
    run_hook(tmp_path / "elsewhere", event(transcript, "Stop"))
    await_requests(room.home, room.group, "laptop")
    assert [turn["by"] for turn in turns_of(room.home, SESSION, room.group)] == ["laptop"]
    chosen.write_text("{")
    done = run_hook(room.home, event(transcript, "Stop"))
    assert done.returncode == 0
    assert "run `honeybadger-agent install claude-code` again" in done.stderr


def test_a_mistyped_group_of_a_repository_is_refused(room: RawSender, transcript: Transcript) -> None:
    """It was passed over: what was typed went into the group of another memory."""
    file = transcript.path.parent / ".honeybadger"
    group = file.read_text()
    file.write_text(f"Group: {room.group}\n")
    transcript.user("Hello")
    done = run_hook(room.home, event(transcript, "Stop"))
    assert (done.returncode, f"{file} has no line `group = NAME`" in done.stderr) == (0, True)
    with pytest.raises(AgentError, match="has no line"):
        place_for("claude-code", file.parent)
    file.write_text(group)
    run_hook(room.home, event(transcript, "Stop"))
    await_requests(room.home, room.group)
    assert contents_of(room.home, room.group) == ["Hello"]
