"""Session documents: load, save, compact (CM6), and what they cost the turns that make them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import orjson

from bench.hosting import NOTE, drop, new_home, running, wait_for
from bench.pipeline import Figure
from honeybadger_agent import new_id
from honeybadger_agent.mailbox import Mailbox
from honeybadger_host.files import safe_files
from honeybadger_host.journal.changes import WholeFiles
from honeybadger_host.memory import turn_log
from honeybadger_host.memory.compaction import CompactionLimits, compact
from honeybadger_host.memory.session_document import SessionDocument, dump_document, session_file, with_turns
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import dump_turn, turns_file
from honeybadger_host.memory.turn_log_store import TurnLogs
from honeybadger_host.text.turn import Turn

_CONTENT = (NOTE + " ") * 6  # about 670 characters: fifty of them and what is around them are 50 KB


def bench_session(base: Path, rounds: int = 200) -> list[Figure]:
    """A document of 50 turns: read cold, log included; written and replaced; compacted with one turn more."""
    now = datetime.now(UTC)
    turns = [_turn(number, now) for number in range(1, 52)]
    document = with_turns(SessionDocument(session_id="main", facts=("a fact",) * 20), turns[:50])
    limits = CompactionLimits()
    with new_home(base) as home:
        path, log = home / session_file("main", "main"), home / turns_file("main", "main")
        for folder in (path.parent, log.parent):
            folder.mkdir(parents=True)
        log.write_bytes(b"".join(dump_turn(turn, f"r{turn.number}") for turn in turns))

        def load() -> None:
            turn_log._kept.cache_clear()
            turn_logs = TurnLogs(home, window_turns=50, clock=time.monotonic)
            sessions = Sessions(turn_logs, WholeFiles(home), limits, lambda file: None)
            assert len(sessions.read("main", "main").document.recent_history) == 51

        def save() -> None:
            safe_files.replace(path, dump_document(document), is_durable=False)

        def shrink() -> None:
            compacted, _ = compact(with_turns(document, turns), now, limits)
            assert len(compacted.recent_history) == 30

        saved = _median_ms(save, rounds)
        size = path.stat().st_size / 1024
        loaded = _median_ms(load, rounds)
        compacted = _median_ms(shrink, rounds)
    return [
        Figure(f"load, 50 turns, {size:.0f} KiB, and their log", f"{loaded:.2f} ms", goal="1 ms", is_met=loaded <= 1.2),
        Figure("save, dumped and replaced", f"{saved:.2f} ms", goal="1 ms", is_met=saved <= 1.2),
        Figure("compaction, 51 turns", f"{compacted:.2f} ms", goal="10 ms", is_met=compacted < 10),
    ]


def bench_turns(base: Path, groups: int = 10, count: int = 20_000) -> list[Figure]:
    """A backlog of turns: the journal, the log, and one document in twenty turns."""
    with new_home(base) as home:
        last = []
        for group in range(groups):
            mailbox = Mailbox.of(home, f"group{group}", "agent")
            mailbox.create()
            request_id = ""
            for number in range(count // groups):
                request_id = new_id()
                payload = {"role": "assistant" if number % 2 else "user", "content": f"{number}: {NOTE}"}
                body = {"v": 1, "id": request_id, "type": "append_turn", "payload": payload}
                drop(mailbox, request_id, orjson.dumps(body))
            last.append(mailbox.path("replies", request_id))
        began = time.perf_counter()
        with running(home):
            seconds = wait_for(last) - began
        journal = sum(path.stat().st_size for path in (home / "data").glob("journal.db*")) / count
    return [
        Figure(
            f"backlog of {count:,} turns, {groups} groups, start included",
            f"{count / seconds:,.0f}/s",
            f"{journal:,.0f} bytes of journal a turn",
        )
    ]


def _turn(number: int, now: datetime) -> Turn:
    content = f"{number}: {_CONTENT}"
    return Turn(number, now, "user" if number % 2 else "assistant", "user", "agent", content, len(content) // 4)


def _median_ms(work: Callable[[], None], rounds: int) -> float:
    sample = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        sample.append((time.perf_counter() - began) * 1000)
    return statistics.median(sample)
