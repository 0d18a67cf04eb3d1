"""A journal of a million receipts: how soon a host serves on it, and how soon an old request has its reply again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import sqlite3
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.hosting import NOTE, Daemon, drop, new_home, request, running
from bench.pipeline import Figure, percentile
from honeybadger_agent.mailbox import Mailbox
from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import connect

GROUPS = 100
SENDER = "agent"
_BATCH = 20_000
_UNSETTLED = 10_000  # two seconds of a host under full load: what a kill leaves to look at


def group_of(seq: int) -> str:
    return f"group{seq % GROUPS}"


def id_of(seq: int) -> str:
    """Return an id that sorts by time, as a client's do."""
    return f"01a1fcc9-{seq:08x}-70bb-b078-836f775780fa"


def reply_of(seq: int) -> bytes:
    return b'{"v":1,"id":"%b","ok":true,"seq":%d,"result":{"file":"MEMORY.md"}}\n' % (id_of(seq).encode(), seq)


def fill_journal(path: Path, count: int) -> None:
    """Put `count` notes with their receipts into the empty journal of a home, all of them settled."""
    now = time.time_ns() // 1_000_000
    with contextlib.closing(connect(path)) as journal:
        journal.execute("PRAGMA synchronous = OFF")
        for first in range(1, count + 1, _BATCH):
            seqs = range(first, min(first + _BATCH, count + 1))
            journal.execute("BEGIN")
            journal.executemany("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", _changes(seqs, now))
            journal.executemany("INSERT INTO receipts VALUES (?,?,?,?,?,?,?)", _receipts(seqs, now))
            journal.execute("COMMIT")
        journal.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    settle(path, count)


def settle(path: Path, seq: int, *, but: str | None = None) -> None:
    """Let a journal that nobody serves say that all changes up to a seq are settled, but for one file."""
    with contextlib.closing(connect(path)) as journal:
        journal.execute("UPDATE meta SET value = ? WHERE key = 'settled_seq'", (seq,))
        journal.execute("DELETE FROM unsettled")
        if but is not None:
            journal.execute("INSERT INTO unsettled VALUES (?, 1)", (but,))


def _changes(seqs: range, now: int) -> Iterator[tuple[object, ...]]:
    for seq in seqs:
        group = group_of(seq)
        data = b"\n## Notes (%b, 2026-01-01 00:00)\n- %d: %b\n" % (SENDER.encode(), seq, NOTE.encode())
        yield seq, now, group, SENDER, id_of(seq), "note", f"groups/{group}/MEMORY.md", 200 * (seq // GROUPS), data


def _receipts(seqs: range, now: int) -> Iterator[tuple[object, ...]]:
    for seq in seqs:
        digest = hashlib.sha256(request(id_of(seq), seq)).digest()
        yield seq, now, group_of(seq), SENDER, id_of(seq), digest, reply_of(seq)


def bench_receipts(base: Path, count: int = 1_000_000, runs: int = 5, looks: int = 300) -> list[Figure]:
    """Start on the journal, as it is and after a kill, and ask for old replies; beside a home that has no past."""
    sample = random.Random(7).sample(range(1, count + 1), looks * 2)
    with new_home(base) as home, new_home(base) as empty:
        journal = home / JOURNAL_FILE
        for place, receipts in ((home, count), (empty, looks)):
            with running(place):
                pass  # makes the journal
            fill_journal(place / JOURNAL_FILE, receipts)
            for group in range(GROUPS):
                Mailbox.of(place, f"group{group}", SENDER).create()
        starts = [(_start(empty), _start(home)) for _ in range(runs)]
        looked, bare = _look_up(journal, sample[:looks])
        with running(home), running(empty):
            asked = [(_ask_again(empty, 1 + n % looks), _ask_again(home, seq)) for n, seq in enumerate(sample[looks:])]
        after_kill = []
        for _ in range(runs):
            shutil.rmtree(home / "groups")
            settle(journal, count - _UNSETTLED, but="groups/group1/MEMORY.md")
            after_kill.append(_start(home))
    floor, start, killed = (
        sorted(part)[runs // 2] for part in ([each[0] for each in starts], [each[1] for each in starts], after_kill)
    )
    fresh, again = ([pair[which] for pair in asked] for which in (0, 1))
    return [
        Figure(
            f"start with {count:,} receipts, until READY",
            _both(start),
            f"{_both(floor)} with {looks}",
            f"{start[0] / floor[0]:.2f}",
            "3 s",
            start[0] < 3,
        ),
        Figure(
            f"the same after a kill, {_UNSETTLED + (count - _UNSETTLED) // GROUPS:,} notes to write again",
            _both(killed),
            f"{_both(floor)} with {looks}",
            f"{killed[0] / floor[0]:.2f}",
            "3 s",
            killed[0] < 3,
        ),
        Figure(
            "an old id looked up among them, p50 and p99",
            f"{_ms(looked, 0.5)}, {_ms(looked, 0.99)}",
            f"{_ms(bare, 0.5)}, {_ms(bare, 0.99)} bare SELECT",
            f"{statistics.median(looked) / statistics.median(bare):.2f}",
            "1 ms at p50",
            statistics.median(looked) < 1,  # the 99th percentile is the machine's: the bare SELECT has it, too
        ),
        Figure(
            "an old request asked again, until its reply, p50",
            _ms(again, 0.5),
            f"{_ms(fresh, 0.5)} with {looks}",
            f"{statistics.median(again) / statistics.median(fresh):.2f}",
        ),
    ]


def _ms(sample: Sequence[float], share: float) -> str:
    return f"{percentile(sample, share):.2f} ms"


def _both(start: tuple[float, float]) -> str:
    return f"{start[0]:.2f} s ({start[1]:.2f} s of a core)"


def _start(home: Path) -> tuple[float, float]:
    """Return the seconds from launching a host to its READY, and those of them it computed."""
    began = time.perf_counter()
    daemon = Daemon(home)
    try:
        seconds = time.perf_counter() - began, daemon.cpu_seconds()
        daemon.stop()
    finally:
        daemon.end()
    return seconds


def _look_up(path: Path, seqs: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return the milliseconds of looking ids up as the pipeline does, each beside one SELECT by the same index."""
    looked: list[float] = []
    bare: list[float] = []
    query = "SELECT reply FROM receipts WHERE grp = ? AND sender = ? AND request = ?"
    journal = Journal.open(path)
    with contextlib.closing(journal), contextlib.closing(sqlite3.connect(path)) as plain:
        for seq in seqs:
            group, name = group_of(seq), id_of(seq)
            began = time.perf_counter()
            found = plain.execute(query, (group, SENDER, name)).fetchone()
            selected = time.perf_counter()
            _, reply = journal.receipts_of(group, SENDER, [name])[name]
            ended = time.perf_counter()
            if found[0] != reply or reply != reply_of(seq):
                raise RuntimeError(f"{name} has another reply")
            bare.append((selected - began) * 1000)
            looked.append((ended - selected) * 1000)
    return looked, bare


def _ask_again(home: Path, seq: int) -> float:
    """Send an old request once more; return the milliseconds until its old reply is there."""
    mailbox = Mailbox.of(home, group_of(seq), SENDER)
    reply = mailbox.path("replies", id_of(seq))
    data = request(id_of(seq), seq)
    began = time.perf_counter()
    drop(mailbox, id_of(seq), data)
    while not os.path.exists(reply):
        time.sleep(0.00005)
    milliseconds = (time.perf_counter() - began) * 1000
    if reply.read_bytes() != reply_of(seq):
        raise RuntimeError(f"{id_of(seq)} was answered anew")
    reply.unlink()
    time.sleep(0.003)
    return milliseconds
