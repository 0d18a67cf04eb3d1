"""Hooks of coding tools are killed at each of their calls: a later hook hands over each turn once.

HB_CRASH_LONG=1 kills 10,000 hooks. They are forked by a process that has imported the program; the later hook, which
shows that nothing is lost, is a process of its own.
"""

import itertools
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agent.test_hooks import patient_copy
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import When
from tests.hosting import Child, Forge, HostProcess, forge, frozen_environment, turns_of, wait_for

SENDER = "claude-code"
EVENTS = ("Stop", "UserPromptSubmit", "SessionStart", "SessionEnd")[: None if IS_LONG else 2]
KILLS = 10_000 if IS_LONG else 1  # each call is struck once at least
# All calls of a hook on the files of a home.
KINDS = "write,sync,rename,unlink,truncate,create,open"
# The program in a process that has imported it already.
FORKED = """
import os, sys
from honeybadger_agent.hooks.program import events, transcripts
sys.argv[1:] = ["claude-code"]
{fault}
events.main()
os._exit(0)
"""
# A fault of the control: keys that are not the transcript's.
NEW_KEYS = """
turn_of = transcripts.turn_of
transcripts.turn_of = lambda key, *rest: turn_of(key + os.urandom(8).hex(), *rest)
"""


class Conversation:
    """A session of Claude Code, whose hooks are killed."""

    def __init__(self, home: Path, forge: Forge, *, fault: str = "", has_transcript: bool = True) -> None:
        self.home = home
        self.forge = forge
        self.program = FORKED.format(fault=fault)
        self.has_transcript = has_transcript
        self.renew()

    def renew(self) -> None:
        """Begin another session."""
        self.session = f"s{time.time_ns()}"
        self.path = self.home.parent / f"{self.session}.jsonl"
        self.said: list[str] = []

    def event(self, name: str) -> str:
        """Say something and return the event that follows."""
        number = len(self.said)
        question, answer = f"Question {number}", f"Answer {number + 1}"
        with self.path.open("a") as file:
            for role, text in (("user", question), ("assistant", answer)):
                line = {"type": role, "uuid": f"k{len(self.said)}", "message": {"content": text}}
                file.write(json.dumps(line) + "\n")
                self.said.append(text)
        members: dict[str, Any] = {"session_id": self.session, "hook_event_name": name, "cwd": str(self.home.parent)}
        if self.has_transcript:
            members["transcript_path"] = str(self.path)
        said = {"prompt_id": f"p{number}", "prompt": question, "last_assistant_message": answer}
        return json.dumps({**members, **said})

    def is_killed_at(self, call: int, when: When, name: str = "Stop") -> bool:
        """Return whether a hook was killed at one of its calls, instead of coming to its end."""
        faults = {"HB_FAULT_HOME": str(self.home), "HB_KILL_AT": str(call), "HB_KILL_WHEN": when, "HB_KILL_KIND": KINDS}
        return self._is_killed(self._fork(name, faults))

    def _fork(self, name: str, faults: Mapping[str, str]) -> Child:
        said, out = self.home.parent / "event.json", self.home.parent / "hook.out"
        said.write_text(self.event(name))
        env = {"HONEYBADGER_HOME": str(self.home), **faults}
        return self.forge.fork(["--program", self.program], env, stdin=said, stdout=out, stderr=out)

    def _is_killed(self, child: Child) -> bool:
        code = child.wait()
        assert code in (0, -signal.SIGKILL), child.tail()
        return code != 0

    def kept(self) -> list[str]:
        """Run a hook to its end; return what the host has kept of the session."""
        env = frozen_environment(HONEYBADGER_HOME=str(self.home))
        event = self.event("SessionEnd").encode()
        subprocess.run([sys.executable, "-IS", patient_copy(), SENDER], input=event, capture_output=True, env=env)
        requests = self.home / "data/ipc/main" / SENDER / "requests"
        wait_for(lambda: not any(requests.iterdir()))
        return [turn["content"] for turn in turns_of(self.home, self.session)]


@pytest.fixture
def warm(shim: Path) -> Forge:
    """A process that has imported the program, and forks it with the shim."""
    return forge("honeybadger_agent.hooks.program.events", LD_PRELOAD=str(shim))


def calls(conversation: Conversation, name: str, when: When) -> Iterator[str]:
    """Kill a hook at its first call, one at its second, until one has no such call; yield each call."""
    for call in itertools.count(1):
        if not conversation.is_killed_at(call, when, name):
            return
        yield f"{name}, {when} call {call}"


@pytest.mark.timeout(7200 if IS_LONG else 120)
def test_killed_at_any_call_each_turn_is_kept_once(host: HostProcess, home: Path, warm: Forge) -> None:
    killed: Counter[str] = Counter()
    conversation = Conversation(home, warm)
    while killed.total() < KILLS:
        for name in EVENTS:
            for when in ("before", "torn"):
                for number, place in enumerate(calls(conversation, name, when)):
                    killed[place] += 1
                    if number % 16 == 15:
                        assert conversation.kept() == conversation.said, place
                assert conversation.kept() == conversation.said, name
                conversation.renew()
        if IS_LONG:
            host.kill()
            host.start()
    print(f"{killed.total():,} hooks killed at {len(killed)} calls")
    assert len(killed) > 60


def test_without_catching_up_a_killed_hook_loses_turns(host: HostProcess, home: Path, warm: Forge) -> None:
    """The control: events alone, without the transcript."""
    conversation = Conversation(home, warm, has_transcript=False)
    assert list(calls(conversation, "Stop", "before"))
    assert set(conversation.said) - set(conversation.kept())


def test_with_new_keys_a_killed_hook_doubles_turns(host: HostProcess, home: Path, warm: Forge) -> None:
    """The control: the same turn has another key each time."""
    conversation = Conversation(home, warm, fault=NEW_KEYS)
    assert list(calls(conversation, "Stop", "before"))
    assert len(conversation.kept()) > len(conversation.said)
