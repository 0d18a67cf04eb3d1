"""The cost of keeping a context for each request, and how long an earlier context takes."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

import orjson

from bench.hosting import drop, new_home, running
from bench.pipeline import Figure, append_turns, write_files
from honeybadger_agent import new_id
from honeybadger_agent.mailbox import OPERATOR, Mailbox


def bench_contexts(base: Path, count: int = 1000) -> list[Figure]:
    """`get_context`, which is recorded, and `preview_context`, which is not, in pairs of either order in one run.

    The turns are of a third sender: their thousand replies, which nobody takes, do not lie with one of the two.
    """
    with new_home(base) as home:
        write_files(home)
        boxes = {name: Mailbox.of(home, "main", who) for name, who in (("get", "agent"), ("preview", OPERATOR))}
        speaker = Mailbox.of(home, "main", "speaker")
        for mailbox in (*boxes.values(), speaker):
            mailbox.create()
        with running(home) as host:
            append_turns(speaker, 1000)
            times: dict[str, list[float]] = {"get": [], "preview": []}
            computed: dict[str, list[float]] = {"get": [], "preview": []}
            for number in range(2 * count + 2):
                name = "get" if number % 4 in (1, 2) else "preview"
                before = host.cpu_seconds()
                _, took = _asked(boxes[name], f"{name}_context", {"message": f"question {number}"})
                times[name].append(took)
                time.sleep(0.004)  # what comes behind a reply is of its request, too
                computed[name].append(host.cpu_seconds() - before)
            shown, _ = _asked(boxes["get"], "get_context", {})
            append_turns(speaker, 100)
            again, took = _asked(boxes["get"], "get_context", {"as_of": shown["hash"]})
    is_it = again["system"] == shown["system"]
    return [
        _compared("get_context, which is kept, 1 MiB of files, p50", times),
        _compared("... processor time of the host, p50", computed),
        Figure("a context shown again by its hash", f"{took * 1000:.0f} ms", "", "", "the same bytes", is_it),
    ]


def _compared(what: str, seconds: dict[str, list[float]]) -> Figure:
    recorded, not_recorded = (statistics.median(seconds[name][1:]) * 1000 for name in ("get", "preview"))
    more = (recorded / not_recorded - 1) * 100
    return Figure(what, f"{recorded:.3f} ms", f"{not_recorded:.3f} ms without", f"{more:+.1f} %", "3 %", more <= 3)


def _asked(mailbox: Mailbox, type_name: str, payload: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """Return a result and the seconds it took."""
    request_id = new_id()
    reply = str(mailbox.path("replies", request_id))
    data = orjson.dumps({"v": 1, "id": request_id, "type": type_name, "payload": payload})
    began = time.perf_counter()
    drop(mailbox, request_id, data)
    while not os.path.exists(reply):
        time.sleep(0.00005)
    took = time.perf_counter() - began
    with open(reply, "rb") as file:
        value = orjson.loads(file.read())
    os.unlink(reply)
    assert value["ok"], value
    return value["result"], took
