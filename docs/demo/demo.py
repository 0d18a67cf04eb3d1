"""`make demo`: the whole story in a minute, on a real daemon that is killed in the middle.

Two agents, one in POSIX shell and one in Python, drop notes side by side; an editor replaces MEMORY.md meanwhile; the
daemon is killed with SIGKILL and started again. Then every acknowledged note is looked for, and the context an agent
would get is shown and explained, with what long-term memory adds to it. A person talks with the group's own agent, on
the offline model: it remembers, and recalls in a new session. A conversation of 60 turns is consolidated by
a scripted model that also lies: what nobody said waits for a person, who accepts a part and takes all of it back.
In the end agents act by themselves, over another SIGKILL: a task runs every two seconds, each run once, and a router
asks two specialists and gives one answer.
Exit code 0 only when everything held.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from honeybadger_agent import Client, ReplyTimeout, SyncClient, new_id, wire
from honeybadger_agent.tools import made
from honeybadger_host.files.home import make_home

SHELL_NOTES = 60
PYTHON_NOTES = 120
TURNS = 45
ENTRIES = [
    ("The user lives in Chicago (UTC-6)", "user-preferences/whereabouts", ["time zone"]),
    ("Prefers tea without sugar", "user-preferences", None),
    ("Do not deploy on Fridays - instead wait for Monday", "anti-patterns/deployment", None),
]
QUESTION = "Which TimeZone is the user in?"
WISH = "Remember that I prefer dark mode for all UIs"
RECALL = "Which mode do I prefer for UIs?"
FACTS = (
    "We move to Lisbon on 12 March.",
    "The movers are Silva & Filhos, they want 1,850 EUR.",
    "Our new address is Rua das Flores 7.",
    "I am allergic to cats, so no flat with one.",
)
MOVING = "Which movers do we have, and what do they want?"
CONSOLIDATED = {
    "history_entry": "The family plans its move to Lisbon on 12 March with Silva & Filhos for 1,850 EUR.",
    "conversation_summary": "The move to Lisbon is on 12 March. The movers are Silva & Filhos, they want 1,850 EUR.",
    "memory_update": "## Moving\n- We move to Lisbon on 12 March.\n"
    "- The movers are Silva & Filhos, they want 1,850 EUR.\n- I am allergic to dogs.\n"
    "- The family has won 2,000,000 EUR.\n",
}
"""The last two are what a model made up."""
SPECIALISTS = {"cook": "Leek soup and an apple cake.", "buyer": "Leeks, apples, flour and eggs."}
EVERY_SECONDS = 2
HERE = Path(__file__).parent


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="honeybadger-demo-") as folder:
        home = Path(folder)
        make_home(home)
        script = {
            "turns": [{"answers": [{"text": json.dumps(CONSOLIDATED), "input_tokens": 2100, "output_tokens": 160}]}]
        }
        (home / "curation.json").write_text(json.dumps(script))
        make_agents(home)
        say("1", f"a new home in {home}, and a daemon on it")
        daemon = Daemon(home)
        try:
            daemon.start()
            checks = story(home, daemon) | moving(home) | acting(home, daemon)
            daemon.stop()
            checks["the daemon stopped in order"] = daemon.exit_code == 0
        finally:
            daemon.end()
    failed = [name for name, held in checks.items() if not held]
    say("14", "what had to hold")
    for name, held in checks.items():
        print(f"   {'held  ' if held else 'FAILED'}  {name}")
    print(f"\n{'FAILED' if failed else 'Everything held'}, {time.monotonic() - began:.0f} seconds.")
    return 1 if failed else 0


def story(home: Path, daemon: Daemon) -> dict[str, bool]:
    memory = home / "groups" / "main" / "MEMORY.md"
    say("2", "a shell script (printf, mv, cat) and a Python client drop notes side by side")
    shell = subprocess.Popen([HERE / "agent.sh", home / "data/ipc/main/sheila", str(SHELL_NOTES)])
    python = PythonAgent(home)
    python.start()

    wait_until(lambda: python.acknowledged >= PYTHON_NOTES // 4)
    say("3", "an editor saves MEMORY.md: reads it, adds a line at the top, replaces it by rename")
    text = memory.read_text()
    temporary = memory.with_suffix(".md.swp")
    time.sleep(0.05)  # notes arrive between the editor's reading and its saving
    temporary.write_text("# What we know\n\nA person wrote this line.\n" + text)
    os.rename(temporary, memory)

    wait_until(lambda: python.acknowledged >= PYTHON_NOTES // 2)
    daemon.kill()
    say(
        "4",
        f"the daemon is killed with SIGKILL after {python.acknowledged} answers to the Python agent; the agents go on",
    )
    time.sleep(0.5)
    daemon.start()
    say("5", f"the daemon is back after {daemon.start_seconds * 1000:.0f} ms; nobody has to do anything")
    python.join(60)
    shell_ended_well = shell.wait(60) == 0
    print(
        f"   python agent: {python.acknowledged} acknowledged, p50 {statistics.median(python.milliseconds):.1f} ms, "
        f"slowest {max(python.milliseconds):.0f} ms (it waited through the kill)"
    )

    client = SyncClient(home, "main", "python")
    for number in range(TURNS):
        client.append_turn(
            "user" if number % 2 == 0 else "assistant", f"Turn {number}: " + "and so on, at length. " * 60
        )
    time.sleep(2.5)  # the time in which an editor's save of an older file is made good
    text = memory.read_text()
    say("6", f"MEMORY.md, as a person sees it ({len(text.splitlines())} lines; the first and the last of them)")
    lines = text.splitlines()
    show([*lines[:10], "...", *lines[-5:]])

    say("7", "what is saved for long is found again, whatever words ask for it; every hit says what earned it")
    for content, category, aliases in ENTRIES:
        client.save_memory(content, category, aliases=aliases)
    found = client.search_memory(QUESTION, limit=3).hits
    print(f"   {QUESTION}")
    for hit in found:
        points = ", ".join(f"{name} {value:.1f}" for name, value in hit.points.items())
        print(f"   {hit.score or 0:5.1f}  [{hit.id}] {hit.text[:60]}  ({points})")

    say("8", "the context for the next answer: its history cut at its budget, what the message recalls, explained")
    context = client.get_context(QUESTION, budget_tokens=12_000)
    for row in context.sections:
        without = f"; without {row.left_out}: {row.why}" if row.left_out else f"; {row.why}" if row.why else ""
        print(f"   {row.title:24} {row.source:32} {row.state:8} {row.tokens:>6} tokens{without}")
    print(f"   {'':24} {'whole':32} {'':8} {context.tokens:>6} tokens of {context.budget_tokens}")
    for one in context.recalled:
        print(f"   recalled: [{one.id}] {one.state}: {one.why}")
    again = client.get_context(QUESTION, budget_tokens=12_000)

    say("9", "a person talks with the group's agent: `honeybadger-agent chat`, on the offline model")
    before = memory.read_text()
    answered = talk(home, "main", WISH)
    new_lines = memory.read_text().removeprefix(before).strip().splitlines()
    print("   and in MEMORY.md stands now:")
    show(new_lines)
    print("   a new session:")
    recalled = talk(home, "another-day", RECALL)

    shell_found = [len(re.findall(rf"(?m)^- Shell note {n}$", text)) for n in range(1, SHELL_NOTES + 1)]
    python_found = [len(re.findall(rf"(?m)^- Python note {n}$", text)) for n in range(1, PYTHON_NOTES + 1)]
    signed = len(re.findall(r"(?m)^## Shell \(sheila, ", text)), len(re.findall(r"(?m)^## Python \(python, ", text))
    history = next(row for row in context.sections if row.title == "## Recent Conversation")
    return {
        "the shell agent got a good reply to each of its requests": shell_ended_well,
        "the Python agent did, too": python.acknowledged == PYTHON_NOTES and not python.failed,
        "every acknowledged note is in MEMORY.md": all(shell_found) and all(python_found),
        "none of them twice": max(shell_found) == max(python_found) == 1,
        "each is signed by the folder it came from": signed == (SHELL_NOTES, PYTHON_NOTES),
        "the person's line is still there": "A person wrote this line." in text,
        "the entry asked for was found first": bool(found) and found[0].text == ENTRIES[0][0],
        "and the context recalled it unasked": f"[{found[0].id}]" in context.system if found else False,
        "the history was cut, and says so": history.state == "cut" and bool(history.why),
        "the context is within its budget": context.tokens <= context.budget_tokens,
        "the same question gives the same context, byte for byte": again == context,
        "the agent saved what the person wished": any("I prefer dark mode for all UIs" in line for line in new_lines),
        "and said so": "I prefer dark mode for all UIs" in answered,
        "in a new session it recalled it": "I prefer dark mode for all UIs" in recalled,
    }


def moving(home: Path) -> dict[str, bool]:
    """Consolidate a long conversation, and decide about what a model made of it."""
    say("10", "60 turns about moving house; the older ones are consolidated, by a model that lies twice")
    make_home(home, "family")
    client = SyncClient(home, "family", "ann", timeout_seconds=20)
    for number in range(60):
        said = (
            FACTS[number // 2] if number % 2 == 0 and number // 2 < len(FACTS) else f"And point {number} of our list."
        )
        client.append_turn("user" if number % 2 == 0 else "assistant", said)
    folder = home / "groups" / "family"
    wait_until(lambda: any((folder / "proposals").glob("*.json")))
    (proposal,) = host_command(home, "review", "list", "family", "--all")["proposals"]
    (whole,) = [host_command(home, "review", "show", "family", proposal["id"])]
    for operation in whole["operations"]:
        print(f"   {operation['op']:14} {operation['state']:8} {' '.join(operation['result'].split())[:58]}")
        if operation["state"] == "waiting":
            print(f"   {'':14} {'':8} {operation['waits']}")
    lies = [each for each in whole["operations"] if "dogs" in each["result"] or "2,000,000" in each["result"]]
    print("\n   HISTORY.md:")
    history = (folder / "HISTORY.md").read_text()
    show([*history.splitlines()[:6], "..."])
    context = client.get_context(MOVING)
    print(f"\n   {MOVING}")
    show([line for line in context.system.splitlines() if "Silva" in line])

    say("11", "a person accepts one thing that nobody said, then takes everything back")
    accepted = host_command(home, "review", "accept", "family", proposal["id"], str(lies[0]["n"]))
    notes = (folder / "MEMORY.md").read_text()
    show([line for line in notes.splitlines() if line.startswith("- ")])
    time.sleep(2.5)  # notes settle
    host_command(home, "review", "revert", "family", proposal["id"])
    after = (folder / "MEMORY.md").read_text()
    removed = next(row for row in host_command(home, "log", "family") if row["kind"] == "note_removed")
    gone = [line for _, lines, _ in json.loads(removed["text"])["hunks"] for line in lines if line.startswith("- ")]
    print(f"   taken out by the {removed['sender']}: {len(gone)} notes")
    return {
        "the conversation was consolidated, and its log is whole": proposal["applied"] >= 3
        and len((home / "data/sessions/family/main.jsonl").read_text().splitlines()) == 60,
        "the question is answered from summary and history": "1,850 EUR"
        in context.system.partition("## Conversation Summary")[2],
        "both lies waited for a person, and neither was told": len(lies) == 2
        and all(each["state"] == "waiting" and "nobody said this" in each["waits"] for each in lies)
        and not any(lie in history + context.system for lie in ("dogs", "2,000,000")),
        "what a person accepted was applied": accepted["applied"] == proposal["applied"] + 1 and "dogs" in notes,
        "and all of it was taken back, and the log says so": not any(
            fact in after for fact in ("Lisbon", "Silva", "dogs")
        )
        and "Lisbon" in removed["text"],
    }


def make_agents(home: Path) -> None:
    """Make a router, two specialists and a reporter, on models that play a script."""
    tasks = [{"name": "delegate_to_agent", "arguments": {"agent": name, "task": "the party"}} for name in SPECIALISTS]
    scripts: dict[str, Any] = {
        "router": {"turns": [{"answers": [{"calls": tasks}, {"text": "Soup, cake, and the list for it."}]}]},
        "reporter": {"turns": [{"answers": [{"text": "Nothing burns."}]}]},
    }
    for name, answer in SPECIALISTS.items():
        scripts[name] = {"turns": [{"answers": [{"text": answer}]}], "delay_seconds": 1.0}
    (home / "config" / "agents").mkdir(parents=True, exist_ok=True)
    for name, script in scripts.items():
        (home / f"{name}.json").write_text(json.dumps(script))
        file = {"model": f"scripted:{name}.json", "delegates_to": [*SPECIALISTS] if name == "router" else []}
        (home / "config" / "agents" / f"{name}.json").write_text(json.dumps(file))


def acting(home: Path, daemon: Daemon) -> dict[str, bool]:
    """Let a task run and a router ask specialists, while the daemon is killed."""
    say("12", f"agents act by themselves: a task every {EVERY_SECONDS} seconds, and a router that asks two specialists")
    make_home(home, "party")
    client = SyncClient(home, "party", "ann", timeout_seconds=20)
    task = client.schedule_task(
        "Watch",
        "Does anything burn?",
        "interval",
        interval_seconds=EVERY_SECONDS,
        agent="reporter",
        context_mode="isolated",
        missed="all",
    )
    print(f"   scheduled: {task.file}, {task.schedule}")
    records = home / "data" / "tasks" / "party.jsonl"
    answers: list[wire.ChatResult] = []
    asking = threading.Thread(target=lambda: answers.append(client.chat("Plan the party", agent="router")))
    asking.start()
    wait_until(lambda: any((home / "data/ipc/party/router/requests").glob("*.json")))
    daemon.kill()
    print("   SIGKILL, while a specialist thinks and the router waits for it")
    time.sleep(EVERY_SECONDS)  # a run is missed
    daemon.start()
    asking.join(60)
    wait_until(lambda: records.read_text().count('"done"') >= 4)
    client.cancel_task(task.id)
    time.sleep(1)  # a run that was under way ends
    runs = [row["run"] for row in map(json.loads, records.read_text().splitlines()) if row["event"] == "done"]
    say("13", "one answer of the router, and each run of the task once")
    for tool in answers[0].tools if answers else ():
        print(f"   {tool.name}: {tool.summary}")
    show([answer.content for answer in answers])
    print(f"   runs: {', '.join(run[11:19] for run in runs)}")
    seconds = [datetime.fromisoformat(run).timestamp() for run in runs]
    delegated = list((home / "data/sessions/party").glob("delegation:*.jsonl"))
    messages = client.get_messages(after=0).messages
    return {
        "the router gave one answer, from both specialists": len(answers) == 1
        and [tool.summary.partition(": ")[2] for tool in answers[0].tools] == [*SPECIALISTS.values()],
        "each of them was asked once, over the kill": len(delegated) == len(SPECIALISTS),
        "each run of the task was made once, the missed ones, too": all(
            round(later - earlier) == EVERY_SECONDS for earlier, later in itertools.pairwise(seconds)
        ),
        "each told the group what it came to, once": len(messages) == len(runs),
    }


def host_command(home: Path, *words: str) -> Any:
    """Run a command of the operator's and return what it prints."""
    print(f"   $ honeybadger-host {' '.join(words)}")
    command = [sys.executable, "-m", "honeybadger_host", *words, "--home", str(home), "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout)


def talk(home: Path, session: str, message: str) -> str:
    """Say something as `honeybadger-agent chat` between pipes, and return the answer."""
    print(f"   you> {message}", flush=True)
    command = [sys.executable, "-m", "honeybadger_agent.cli", "chat", "--home", str(home), "--session", session]
    run = subprocess.run(command, input=message, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    print("\n".join(f"   assistant> {line}" for line in run.stdout.splitlines()))
    return run.stdout


class PythonAgent(threading.Thread):
    """Sends notes one after another with the asyncio client; a timeout is answered by asking again, same id."""

    def __init__(self, home: Path) -> None:
        super().__init__(name="python-agent")
        self._home = home
        self.acknowledged = 0
        self.milliseconds: list[float] = []
        self.failed: str | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._send())
        except Exception as error:  # noqa: BLE001  it is reported at the end
            self.failed = repr(error)

    async def _send(self) -> None:
        client = Client(self._home, "main", "python", timeout_seconds=0.2)
        for number in range(1, PYTHON_NOTES + 1):
            note = made(wire.UpdateMemory, f"Python note {number}", "Python")
            request_id = new_id()
            began = time.perf_counter()
            while True:
                try:
                    await client.call(note, request_id=request_id)
                    break
                except ReplyTimeout:
                    continue  # the host is down: asking again with the same id is safe
            self.milliseconds.append((time.perf_counter() - began) * 1000)
            self.acknowledged = number


class Daemon:
    """The real daemon, started as an operator would."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.exit_code: int | None = None

    def start(self) -> None:
        began = time.monotonic()
        with (self._home / "daemon.log").open("ab") as log:
            command = [sys.executable, "-m", "honeybadger_host", "run", "--home", str(self._home)]
            command += ["--set", "model.curation=scripted:curation.json"]
            command += ["--set", "tasks.least_seconds=1"]  # a minute, for all but trials
            self._process = subprocess.Popen(command, stderr=log)
        # a first start compiles what it imports, and the machine may have other work
        SyncClient(self._home, "main", "probe", timeout_seconds=120).ping()
        self.start_seconds = time.monotonic() - began

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.exit_code = self._process.wait(60)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the agents make no progress")
        time.sleep(0.005)


def say(number: str, text: str) -> None:
    print(f"\n{number}. {text}", flush=True)


def show(lines: list[str]) -> None:
    for line in lines:
        print(f"   | {line}")


if __name__ == "__main__":
    sys.exit(main())
