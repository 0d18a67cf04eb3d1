"""Turns of agents: what the host adds to the time of the model, and many groups at once."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

import orjson

from bench.hosting import new_home, running, wait_for
from bench.pipeline import Figure, append_turns, write_files
from honeybadger_agent import new_id
from honeybadger_agent.mailbox import Mailbox

_NOTE = {"calls": [{"name": "update_memory", "arguments": {"content": "Likes tea without sugar."}}]}
_GROUPS, _AT_ONCE, _MODEL_SECONDS = 20, 4, 1.0


def bench_chat(base: Path, count: int = 100) -> list[Figure]:
    """A turn beside 1 MiB of memory files and 10,000 turns on a model that takes no time; 20 groups on one of 1 s."""
    figures = []
    with new_home(base) as home:
        write_files(home)
        settings = _script(
            home,
            {"when": "remember", "answers": [_NOTE, {"text": "Noted."}]},
            {"answers": [{"text": "Hello."}]},
        )
        mailbox = Mailbox.of(home, "main", "user")
        mailbox.create()
        with running(home, settings):
            append_turns(mailbox, 10_000)
            for name, content in (("a turn", "Good morning, {}"), ("one with a tool", "Please remember, {}")):
                sample = [_ask(mailbox, content.format(number)) for number in range(count + 1)][1:]
                p50, p99 = statistics.median(sample), statistics.quantiles(sample, n=100)[98]
                figures.append(
                    Figure(
                        f"{name}, 1 MiB of files, 10,000 turns, without the model, p50",
                        f"{p50:.1f} ms",
                        ratio=f"p99 {p99:.1f} ms",
                        goal="20 ms",
                        is_met=p50 < 20,
                    )
                )
    figures.append(_many(base))
    return figures


def _many(base: Path) -> Figure:
    with new_home(base) as home:
        settings = _script(home, {"answers": [{"text": "Hello."}]}, delay_seconds=_MODEL_SECONDS)
        boxes = [Mailbox.of(home, f"group{number}", "user") for number in range(_GROUPS)]
        for mailbox in boxes:
            mailbox.create()
        with running(home, [*settings, f"turns.at_once={_AT_ONCE}"]):
            began = time.perf_counter()
            replies = [mailbox.path("replies", _say(mailbox, "hello")) for mailbox in boxes]
            seconds = wait_for(replies) - began
    floor = _GROUPS / _AT_ONCE * _MODEL_SECONDS
    return Figure(
        f"{_GROUPS} groups at once, {_AT_ONCE} turns at a time, a model of {_MODEL_SECONDS:g} s",
        f"{seconds:.2f} s",
        f"{floor:.0f} s of the model",
        f"{seconds / floor:.2f}",
        "about that",
        seconds < floor * 1.15,
    )


def _script(home: Path, *turns: dict[str, Any], delay_seconds: float = 0.0) -> list[str]:
    script = {"turns": turns, "delay_seconds": delay_seconds, "piece_characters": 1000}
    (home / "script.json").write_bytes(orjson.dumps(script))
    return ["model.name=scripted:script.json"]


def _say(mailbox: Mailbox, content: str) -> str:
    request_id = new_id()
    body = {"v": 1, "id": request_id, "type": "chat", "payload": {"content": content}}
    mailbox.publish(request_id, orjson.dumps(body), "turns")
    return request_id


def _ask(mailbox: Mailbox, content: str) -> float:
    """Say something; return the milliseconds until its reply stands."""
    began = time.perf_counter()
    reply = str(mailbox.path("replies", _say(mailbox, content)))
    while not os.path.exists(reply):
        time.sleep(0.0001)
    milliseconds = (time.perf_counter() - began) * 1000
    if not orjson.loads(Path(reply).read_bytes())["ok"]:
        raise RuntimeError(Path(reply).read_text())
    time.sleep(0.002)
    return milliseconds
