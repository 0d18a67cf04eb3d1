"""The pipeline: a backlog, live producers, one request at a time, a context, idling."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from bench.hosting import NOTE, Daemon, drop, fill, new_home, request, running, wait_for
from honeybadger_agent import new_id
from honeybadger_agent.mailbox import Mailbox

GROUPS = 10


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    Args:
        goal: what the number should be, in words.
        is_met: None where there is no goal.
    """

    name: str
    value: str
    floor: str = ""
    ratio: str = ""
    goal: str = ""
    is_met: bool | None = None


def percentile(sample: Sequence[float], share: float) -> float:
    ordered = sorted(sample)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def floor_per_second(home: Path, count: int) -> float:
    """Return what a bare loop does in a second: list, open, read, orjson, append, fdatasync per 512, unlink."""
    fill(home, GROUPS, count)
    began = time.perf_counter()
    done = 0
    for group in range(GROUPS):
        folder = os.open(f"{home}/data/ipc/group{group}/agent/requests", os.O_DIRECTORY)
        memory = os.open(f"{home}/memory{group}.md", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for name in sorted(os.listdir(folder)):
            fd = os.open(name, os.O_RDONLY, dir_fd=folder)
            data = os.read(fd, 4096)
            os.close(fd)
            value = orjson.loads(data)
            os.write(memory, f"\n## Notes (agent, 2026-01-01 00:00)\n- {value['payload']['content']}\n".encode())
            done += 1
            if done % 512 == 0:
                os.fdatasync(memory)
            os.unlink(name, dir_fd=folder)
        os.close(memory)
        os.close(folder)
    return done / (time.perf_counter() - began)


def backlog_per_second(home: Path, count: int) -> float:
    """Return how many requests a second are answered from a backlog, once a twentieth is: a start is another figure."""
    with running(home):  # warm: the journal is there, the code is loaded
        Mailbox.of(home, "warm", "agent").create()
    last = fill(home, GROUPS, count)
    daemon = Daemon(home)
    try:
        while _answered(home) < count // 20:
            time.sleep(0.005)
        began = time.perf_counter()
        before = _answered(home)
        ended = wait_for(last)
        daemon.stop()
    finally:
        daemon.end()
    if (missing := count - _answered(home)) != 0:
        raise RuntimeError(f"{missing} requests were not answered")
    return (count - before) / (ended - began)


def bench_backlog(base: Path, count: int = 50_000, runs: int = 3) -> list[Figure]:
    """Backlog and floor, alternating, medians. The daemon comes first: see `docs/performance.md` about the disk."""
    backlogs, floors = [], []
    for _ in range(runs):
        with new_home(base) as home:
            backlogs.append(backlog_per_second(home, count))
        with new_home(base) as home:
            floors.append(floor_per_second(home, count))
    backlog, floor = statistics.median(backlogs), statistics.median(floors)
    return [
        Figure(
            f"backlog of {count:,} notes, {GROUPS} groups, replies written",
            f"{backlog:,.0f}/s",
            f"{floor:,.0f}/s bare loop without replies",
            f"{backlog / floor:.2f}",
            "0.35 of the floor; 8,000/s",
            backlog / floor >= 0.35 and backlog >= 8000,
        )
    ]


def _answered(home: Path) -> int:
    return sum(len(os.listdir(home / f"data/ipc/group{group}/agent/replies")) for group in range(GROUPS))


def _produce(home: Path, number: int, per_second: float, seconds: float, results: multiprocessing.Queue[int]) -> None:
    """Drop paced requests and take the replies as they come; report how many were answered well."""
    mailbox = Mailbox.of(home, f"live{number}", "agent")
    mailbox.create()
    replies = mailbox.root / "replies"
    began = time.perf_counter()
    sent = answered = 0
    total = int(per_second * seconds)
    deadline = began + seconds + 20
    while answered < total and time.perf_counter() < deadline:
        due = min(total, int((time.perf_counter() - began) * per_second))
        while sent < due:
            request_id = new_id()
            drop(mailbox, request_id, request(request_id, sent))
            sent += 1
        for name in os.listdir(replies):
            if name.endswith(".json") and name[0] != ".":
                os.unlink(replies / name)
                answered += 1
        time.sleep(0.005)
    results.put(answered)


def bench_live(base: Path, producers: int = 4, per_second: float = 5200, seconds: float = 12) -> list[Figure]:
    with new_home(base) as home, running(home) as daemon:
        results: multiprocessing.Queue[int] = multiprocessing.Queue()
        workers = [
            multiprocessing.Process(target=_produce, args=(home, n, per_second / producers, seconds, results))
            for n in range(producers)
        ]
        began = time.perf_counter()
        for worker in workers:
            worker.start()
        time.sleep(seconds / 3)
        early = daemon.resident_mib()
        answered = sum(results.get(timeout=seconds + 60) for _ in workers)
        took = time.perf_counter() - began
        late = daemon.resident_mib()
        for worker in workers:
            worker.join()
    wanted = int(per_second / producers * seconds) * producers
    return [
        Figure(
            f"live, {producers} producers, {wanted:,} requests",
            f"{answered / took:,.0f}/s answered, {wanted - answered} not",
            goal="5,000/s, none dropped",
            is_met=answered == wanted and answered / took >= 5000 * seconds / (seconds + 1),
        ),
        Figure(
            "memory in the live run",
            f"{early:.0f} MiB after a third, {late:.0f} MiB at its end",
            goal="flat",
            is_met=late - early < 16,
        ),
    ]


def bench_single(base: Path, count: int = 400) -> list[Figure]:
    """One request at a time, beside a bare append and fdatasync of the same size on the same disk."""
    figures: list[Figure] = []
    with new_home(base) as home:
        mailbox = Mailbox.of(home, "main", "agent")
        mailbox.create()
        with running(home):
            latencies, floors = _one_at_a_time(mailbox, home, count)
        p50, p99 = statistics.median(latencies), percentile(latencies, 0.99)
        floor50, floor99 = statistics.median(floors), percentile(floors, 0.99)
        figures.append(
            Figure(
                "one note at a time, p50",
                f"{p50:.2f} ms",
                f"{floor50:.2f} ms fdatasync",
                "",
                "fdatasync + 1.5 ms",
                p50 <= floor50 + 1.5,
            )
        )
        figures.append(
            Figure(
                "one note at a time, p99",
                f"{p99:.2f} ms",
                f"{floor99:.2f} ms fdatasync",
                "",
                "fdatasync + 10 ms",
                p99 <= floor99 + 10,
            )
        )
        with running(home, ["ipc.watch=false"]):
            latencies, _ = _one_at_a_time(mailbox, home, 40)
        longest = max(latencies)
        figures.append(
            Figure(
                "the same with ipc.watch = false, longest",
                f"{longest:.0f} ms",
                "250 ms sweep",
                "",
                "sweep + 20 ms",
                longest <= 270,
            )
        )
    return figures


def _one_at_a_time(mailbox: Mailbox, home: Path, count: int) -> tuple[list[float], list[float]]:
    """Return milliseconds from rename to visible reply, and of a bare append and fdatasync between them."""
    latencies: list[float] = []
    floors: list[float] = []
    fd = os.open(home / "floor.bin", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(count + 10):
        request_id = new_id()
        reply = str(mailbox.path("replies", request_id))
        data = request(request_id, number)
        began = time.perf_counter()
        drop(mailbox, request_id, data)
        while not os.path.exists(reply):
            time.sleep(0.00005)
        ended = time.perf_counter()
        os.write(fd, data)
        os.fdatasync(fd)
        synced = time.perf_counter()
        if number >= 10:
            latencies.append((ended - began) * 1000)
            floors.append((synced - ended) * 1000)
        os.unlink(reply)
        time.sleep(0.003)
    os.close(fd)
    return latencies, floors


def write_files(home: Path) -> None:
    """Give the group `main` 1 MiB of memory files."""
    group = home / "groups" / "main"
    note = f"\n## Notes (agent, 2026-01-01 00:00)\n- {{}}: {NOTE}\n"
    (group / "MEMORY.md").write_text("".join(map(note.format, range(900_000 // len(note)))))
    (group / "summary.md").write_text((NOTE + "\n") * (120_000 // len(NOTE)))


def append_turns(mailbox: Mailbox, count: int) -> None:
    """Append turns through the pipeline."""
    for number in range(count):
        request_id = new_id()
        payload = {"role": "user" if number % 2 else "assistant", "content": f"{number}: {NOTE}"}
        body = {"v": 1, "id": request_id, "type": "append_turn", "payload": payload}
        drop(mailbox, request_id, orjson.dumps(body))
    wait_for([mailbox.path("replies", request_id)])


def bench_context(base: Path, count: int = 300) -> list[Figure]:
    """`get_context` with 1 MiB of group files and 10,000 turns, for a message that recalls nothing and one that does.

    The processor time is the host's, with what it does after the reply.
    """
    messages = {"recalls nothing": "thanks, that is all for now{marks}", "is searched for": "question {number}"}
    waits: dict[str, list[float]] = {kind: [] for kind in messages}
    computed: dict[str, list[float]] = {kind: [] for kind in messages}
    with new_home(base) as home:
        write_files(home)
        mailbox = Mailbox.of(home, "main", "agent")
        mailbox.create()
        with running(home) as host:
            append_turns(mailbox, 10_000)
            first = _wait_for_context(mailbox, "question")
            for number in range(count):
                for kind, message in messages.items():
                    before = host.cpu_seconds()
                    asked = message.format(number=number, marks="!" * (number % 50))
                    waits[kind].append(_wait_for_context(mailbox, asked))
                    time.sleep(0.004)
                    computed[kind].append((host.cpu_seconds() - before) * 1000)
    figures = []
    for kind in messages:
        p50 = statistics.median(waits[kind])
        figures.append(
            Figure(
                f"get_context, 1 MiB of files, 10,000 turns, a message that {kind}, p50",
                f"{p50:.2f} ms, of the processor {statistics.median(computed[kind]):.2f} ms",
                f"{first:.1f} ms the first",
                "",
                "2 ms",
                p50 <= 2,
            )
        )
    return figures


def _wait_for_context(mailbox: Mailbox, message: str) -> float:
    """Ask for a context, and return the milliseconds until its reply."""
    request_id = new_id()
    body = {"v": 1, "id": request_id, "type": "get_context", "payload": {"message": message}}
    reply = str(mailbox.path("replies", request_id))
    began = time.perf_counter()
    drop(mailbox, request_id, orjson.dumps(body))
    while not os.path.exists(reply):
        time.sleep(0.00005)
    return (time.perf_counter() - began) * 1000


def bench_idle(base: Path, groups: int = 100, seconds: float = 20) -> list[Figure]:
    with new_home(base) as home:
        for number in range(groups):
            Mailbox.of(home, f"group{number}", "agent").create()
            (home / "groups" / f"group{number}").mkdir()
        with running(home) as daemon:
            time.sleep(2)
            before = daemon.cpu_seconds()
            time.sleep(seconds)
            share = (daemon.cpu_seconds() - before) / seconds * 100
            resident = daemon.resident_mib()
    return [
        Figure(f"idle with {groups} groups", f"{share:.2f} % of a core", goal="1 %", is_met=share < 1),
        Figure("resident memory, idle", f"{resident:.0f} MiB", goal="80 MiB", is_met=resident < 80),
    ]


def bench_flood(base: Path, files: int = 100_000, count: int = 500) -> list[Figure]:
    """A quiet group beside another with 100,000 files, all there before or being dropped meanwhile.

    The floor is the same beside a process that only computes: what two busy cores cost, whatever the host does.
    """
    with new_home(base) as home:
        quiet, flood, more = (Mailbox.of(home, name, "agent") for name in ("quiet", "flood", "more"))
        quiet.create()
        with running(home):
            alone, _ = _one_at_a_time(quiet, home, count)
            with _beside(_compute):
                floor, _ = _one_at_a_time(quiet, home, count)
        flood.create()
        last = _drop_many(flood, files)
        with running(home):
            flooded, _ = _one_at_a_time(quiet, home, count)
            waits = os.path.exists(flood.path("requests", last))
            wait_for([flood.path("replies", last)])
            more.create()
            with _beside(_drop_many, more, files):
                beside, _ = _one_at_a_time(quiet, home, count)
    p99 = percentile(alone, 0.99)
    floor_shown = f"{p99:.1f} ms alone, {percentile(floor, 0.99):.1f} ms beside a busy process"
    return [
        Figure(
            f"quiet group beside {what}, p99",
            f"{percentile(sample, 0.99):.1f} ms",
            floor_shown,
            f"{percentile(sample, 0.99) / p99:.1f}",
            goal,
            percentile(sample, 0.99) <= 2 * p99,
        )
        for what, sample, goal in (
            (
                f"a flood of {files:,} files",
                flooded,
                "at most double" + ("" if waits else " (the flood was over before)"),
            ),
            ("one that is being dropped as fast as it can", beside, "at most double"),
        )
    ]


def _drop_many(mailbox: Mailbox, count: int) -> str:
    request_id = ""
    for number in range(count):
        request_id = new_id()
        drop(mailbox, request_id, request(request_id, number))
    return request_id


def _compute() -> None:
    while True:
        pass


@contextmanager
def _beside(work: Callable[..., object], *arguments: object) -> Iterator[None]:
    """Run something in a process of its own meanwhile."""
    process = multiprocessing.Process(target=work, args=arguments)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()
