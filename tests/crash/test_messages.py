"""SIGKILL at the n-th call that changes the disk, while messages are sent, waited for and pushed."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Final

from honeybadger_host.files.home import make_home
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Nursery, Work, kill_again
from tests.hosting import RawSender, request

STRIDE: Final = 1 if IS_LONG else 29
TEXTS: Final = [f"number {number}" for number in range(4)]
SETTINGS: Final = {"work.push.FIRST_PAUSE_SECONDS": 0.01}
WAITING: Final = request("w1", "get_messages", payload={"after": 0, "wait_seconds": 300})
PROGRAM: Final = "#!/bin/sh\nexec cat >> pushed\n"


def begin(nursery: Nursery, home: Path) -> None:
    """Make a home with a program that messages are pushed to, and let a host see it: what is sent later is pushed."""
    make_home(home)
    (home / "push.sh").write_text(PROGRAM)
    (home / "push.sh").chmod(0o755)
    with (home / "config/honeybadger.toml").open("a") as file:
        file.write(f'[[messages.push]]\ncommand = ["{home}/push.sh"]\n')
    with nursery.serving(home, SETTINGS):
        pass
    RawSender(home, sender="reader").make().drop("w1", WAITING)
    sender = RawSender(home, sender="sender").make()
    for number, text in enumerate(TEXTS):
        sender.drop(f"m{number}", request(f"m{number}", "send_message", payload={"content": text}))


def pushed(home: Path) -> list[str]:
    """Return what the program was told; a kill of the host may have cut it off in a line."""
    lines = (home / "pushed").read_text().splitlines() if (home / "pushed").is_file() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line)["content"])
        except json.JSONDecodeError:
            assert TEXTS[-1] not in found, lines
    return found


def is_done(home: Path) -> bool:
    """Return whether everything was sent, answered and pushed."""
    waiting = any(path.suffix == ".json" for path in (home / "data/ipc").rglob("requests/*"))
    return not waiting and RawSender(home, sender="reader").peek("w1") is not None and TEXTS[-1] in pushed(home)


def test_killed_at_any_call_messages_are_pushed_once(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    work = Work(SETTINGS, partial(begin, nursery), lambda home, run: None, is_done, check)
    assert kill_again(nursery, tmp_path, rng, work, STRIDE, later=60) >= 4


def check(home: Path, where: str) -> None:
    reader, sender = RawSender(home, sender="reader"), RawSender(home, sender="sender")
    lines = (home / "data/messages/main.jsonl").read_text().splitlines()
    kept = [json.loads(line) for line in lines]
    assert [message["content"] for message in kept] == TEXTS, where
    numbers = [message["seq"] for message in kept]
    assert numbers == sorted(set(numbers)), where
    replies = [json.loads(sender.peek(f"m{number}") or b"{}") for number in range(len(TEXTS))]
    assert [reply["result"]["seq"] for reply in replies] == [reply["seq"] for reply in replies] == numbers, where
    waited = json.loads(reader.peek("w1") or b"{}")["result"]["messages"]
    assert [message["content"] for message in waited] == TEXTS[: len(waited)] != [], where
    assert list(dict.fromkeys(pushed(home))) == TEXTS, where
