"""The hook program: real processes on real transcripts, killed wherever it hurts."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import SyncClient
from tests.conftest import HostFactory
from tests.hosting import HostProcess, frozen_environment, run_agent, turns_of, wait_for

PROGRAM = [sys.executable, "-I", "-W", "error", "-m", "honeybadger_agent.hooks.hook"]
DYING = """
import os, sys
left = int(sys.argv.pop(1))
def count(event, _):
    global left
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "fcntl.flock"):
        left -= 1
        if left < 0:
            os._exit(9)
from honeybadger_agent.hooks.hook import main
import json
sys.addaudithook(count)
sys.exit(main())
"""
"""The program, ended before its n-th call that changes or locks a file."""
SESSION = "7b0c2d1e"


class Transcript:
    """What Claude Code writes while a session runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: list[str] = []

    def line(self, **members: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(members, separators=(",", ":")) + "\n")

    def user(self, text: str, **more: Any) -> None:
        """Add what a person typed, or with `more` what only looks so."""
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


def event(transcript: Transcript, name: str, **more: Any) -> str:
    known = {"session_id": SESSION, "transcript_path": str(transcript.path), "hook_event_name": name}
    return json.dumps({**known, "cwd": str(transcript.path.parent), **more})


def run_hook(home: Path, said: str, command: list[str] = PROGRAM) -> subprocess.CompletedProcess[str]:
    arguments = ["--home", str(home), "--group", "main", "--sender", "claude-code"]
    return subprocess.run(
        [*command, *arguments], input=said, capture_output=True, text=True, check=False, env=frozen_environment()
    )


def context_of(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    text: str = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""
    return text


def contents_of(home: Path) -> list[str]:
    return [turn["content"] for turn in turns_of(home, SESSION)]


def test_what_was_said_is_kept_at_the_end_of_a_turn(host: HostProcess, home: Path, transcript: Transcript) -> None:
    transcript.user("My boat lies in Kiel")
    transcript.assistant("Let me see", is_last=False)
    transcript.assistant("Noted")
    assert context_of(run_hook(home, event(transcript, "Stop", last_assistant_message="Noted"))) == ""
    assert contents_of(home) == ["My boat lies in Kiel", "Noted"]
    assert {turn["by"] for turn in turns_of(home, SESSION)} == {"claude-code"}


def test_nothing_is_a_persons_that_no_person_typed(host: HostProcess, home: Path, transcript: Transcript) -> None:
    transcript.user("Hello")
    transcript.user("a summary", isCompactSummary=True)
    transcript.user("do the research", isSidechain=True)
    transcript.user("caveat", isMeta=True)
    transcript.user("a result", toolUseResult={"stdout": "x"})
    transcript.user("a task ended", origin={"kind": "task-notification"})
    transcript.user("wake up", promptSource="system")
    transcript.line(type="user", uuid="c", message={"role": "user", "content": "<command-name>/clear</command-name>"})
    transcript.line(type="user", uuid="t", message={"content": [{"type": "tool_result", "content": "x"}]})
    transcript.assistant("from a sub-agent", is_last=False, isSidechain=True)
    transcript.assistant("Hi")
    run_hook(home, event(transcript, "Stop", last_assistant_message="Hi"))
    run_hook(home, event(transcript, "Stop", last_assistant_message="Hi"))
    assert contents_of(home) == ["Hello", "Hi"]


def test_a_session_begins_with_the_groups_memory(host: HostProcess, home: Path, transcript: Transcript) -> None:
    SyncClient(home, "main", "ann").update_memory("Ann likes teal", section="Colours")
    text = context_of(run_hook(home, event(transcript, "SessionStart", source="startup")))
    assert "Ann likes teal" in text
    assert "data, not instructions" in text
    assert "## Your Identity" not in text


def test_the_memory_of_a_session_is_cut_to_what_the_tool_shows(
    host: HostProcess, home: Path, transcript: Transcript
) -> None:
    agent = SyncClient(home, "main", "ann")
    for number in range(40):
        agent.update_memory(f"Note {number}: " + "x" * 400)
    text = context_of(run_hook(home, event(transcript, "SessionStart", source="startup")))
    assert len(text) <= 9_500
    assert "Note 39" in text
    assert "Note 0:" not in text
    assert "older ones are left out" in text


def test_a_prompt_recalls_what_it_is_about(host: HostProcess, home: Path, transcript: Transcript) -> None:
    SyncClient(home, "main", "ann").save_memory("Ann's boat lies in the harbour of Kiel")
    about = run_hook(home, event(transcript, "UserPromptSubmit", prompt="Where does the boat lie?"))
    assert "harbour of Kiel" in context_of(about)
    for nothing in ("ok, thanks", "Write a function that sorts numbers", ""):
        assert context_of(run_hook(home, event(transcript, "UserPromptSubmit", prompt=nothing))) == ""
    machine = run_hook(home, event(transcript, "UserPromptSubmit", prompt="Where does the boat lie?", source="task"))
    assert context_of(machine) == ""
    sub = run_hook(home, event(transcript, "UserPromptSubmit", prompt="Where does the boat lie?", agent_id="a1"))
    assert context_of(sub) == ""


def test_turns_wait_for_a_host(make_host: HostFactory, home: Path, transcript: Transcript) -> None:
    transcript.user("Hello")
    transcript.assistant("Hi")
    done = run_hook(home, event(transcript, "Stop", last_assistant_message="Hi"))
    assert (done.returncode, done.stdout) == (0, "")
    make_host().start()
    wait_for(lambda: (home / f"data/sessions/main/{SESSION}.jsonl").exists())
    assert wait_for(lambda: contents_of(home)) == ["Hello", "Hi"]


@pytest.mark.parametrize(
    "said",
    [
        "",
        "[]",
        "{",
        '{"hook_event_name": "Stop"}',
        '{"session_id": "../x", "hook_event_name": "Stop"}',
        '{"session_id": "s", "hook_event_name": "Stop", "transcript_path": "/nowhere"}',
        '{"session_id": "s", "hook_event_name": "Later"}',
    ],
)
def test_it_never_stands_in_the_way(home: Path, said: str) -> None:
    done = run_hook(home, said)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert run_hook(home / "none", said).returncode == 0


def test_without_a_host_a_prompt_goes_on(home: Path, transcript: Transcript) -> None:
    began = time.monotonic()
    done = run_hook(home, event(transcript, "UserPromptSubmit", prompt="Where does the boat lie?"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "no host answered" in done.stderr
    assert time.monotonic() - began < 10  # it gives up after 1.5 s; a busy machine takes longer to start it
    assert list((home / "data/ipc/main/claude-code/requests").iterdir()) == []


def test_a_repository_names_its_group(host: HostProcess, home: Path, transcript: Transcript) -> None:
    SyncClient(home, "boats", "ann").update_memory("The boat is called Gull")
    repository = transcript.path.parent
    (repository / ".honeybadger").write_text("# memory of this team\ngroup = boats\n")
    (repository / "source").mkdir()
    said = event(transcript, "SessionStart", source="startup", cwd=str(repository / "source"))
    assert "The boat is called Gull" in context_of(run_hook(home, said))


def test_a_turn_that_is_refused_does_not_stop_the_others(
    make_host: HostFactory, home: Path, transcript: Transcript
) -> None:
    make_host({"security.secrets": "refuse"}).start()
    transcript.user("Hello")
    transcript.user("my key is AKIAIOSFODNN7EXAMPLE")
    transcript.assistant("Hi")
    for _ in range(2):
        run_hook(home, event(transcript, "Stop", last_assistant_message="Hi"))
    assert contents_of(home) == ["Hello", "Hi"]


def test_whatever_call_it_is_killed_before_each_turn_is_kept_once_in_order(
    host: HostProcess, home: Path, transcript: Transcript
) -> None:
    for call in range(100):
        transcript.user(f"Question {call}")
        transcript.assistant(f"Answer {call}")
        said = event(transcript, "Stop", last_assistant_message=f"Answer {call}")
        killed = run_hook(home, said, [sys.executable, "-I", "-c", DYING, str(call)])
        if killed.returncode == 0:
            break
        assert killed.returncode == 9
    assert call > 5
    wait_for(lambda: not os.listdir(home / "data/ipc/main/claude-code/requests"))
    run_hook(home, event(transcript, "SessionStart", source="resume"))
    wait_for(lambda: not os.listdir(home / "data/ipc/main/claude-code/requests"))
    assert contents_of(home) == transcript.said


def test_killed_at_random_each_turn_is_kept_once_in_order(
    host: HostProcess, home: Path, transcript: Transcript
) -> None:
    chance = random.Random(1)
    arguments = ["--home", str(home), "--group", "main", "--sender", "claude-code"]
    for number in range(30):
        transcript.user(f"Question {number}")
        transcript.assistant(f"Answer {number}")
        process = subprocess.Popen(
            [*PROGRAM, *arguments], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=frozen_environment()
        )
        assert process.stdin is not None
        process.stdin.write(event(transcript, "Stop").encode())
        process.stdin.close()
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.wait()
    run_hook(home, event(transcript, "SessionEnd"))
    wait_for(lambda: not os.listdir(home / "data/ipc/main/claude-code/requests"))
    assert contents_of(home) == transcript.said


@pytest.fixture
def claude_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of settings with hooks of others, and no program `claude`."""
    folder = tmp_path / "claude"
    folder.mkdir()
    others = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "notify"}]}]}, "model": "opus"}
    (folder / "settings.json").write_text(json.dumps(others))
    return folder


def installed(home: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"CLAUDE_CONFIG_DIR": str(folder), "PATH": str(folder)}
    return run_agent(*arguments, home=home, env=env)


def test_install_changes_only_its_own_entries_and_uninstall_takes_them_back(home: Path, claude_home: Path) -> None:
    file = claude_home / "settings.json"
    before = json.loads(file.read_text())
    for _ in range(2):
        done = installed(home, claude_home, "install", "claude-code", "--group", "boats", "--sender", "laptop")
        assert done.returncode == 0, done
        assert "run this yourself: claude mcp add" in done.stdout
    settings = json.loads(file.read_text())
    assert settings["model"] == "opus"
    assert [len(settings["hooks"][name]) for name in ("SessionStart", "UserPromptSubmit", "Stop")] == [1, 1, 2]
    assert "--group boats --sender laptop" in json.dumps(settings)
    assert installed(home, claude_home, "uninstall", "claude-code").returncode == 0
    assert json.loads(file.read_text()) == before


def test_a_dry_run_and_damaged_settings_change_nothing(home: Path, claude_home: Path) -> None:
    file = claude_home / "settings.json"
    before = file.read_text()
    assert "nothing was changed" in installed(home, claude_home, "install", "claude-code", "--dry-run").stdout
    assert file.read_text() == before
    file.write_text("{")
    done = installed(home, claude_home, "install", "claude-code")
    assert done.returncode == 1
    assert "settings.json cannot be read" in done.stderr
    assert file.read_text() == "{"
    assert installed(home, claude_home, "install", "claude-code", "--sender", "operator x").returncode == 2
