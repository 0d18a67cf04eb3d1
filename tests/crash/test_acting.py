"""SIGKILL at random while agents act by themselves: tasks, delegations, messages, readers that wait, pushes.

One home has all of it at once: people ask a router in one group, a task of every second asks it in another, and in a
third messages are sent, waited for, and pushed by a program and by a webhook that often refuses.
"""

import contextlib
import itertools
import json
import os
import random
import re
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.crash.chains import Figures, live, rounds, storms
from tests.crash.conftest import IS_LONG
from tests.crash.features import SPECIALISTS, make_router, pushed, write_scripts
from tests.crash.hosts import Nursery, ended
from tests.flows.test_push import Receiver, configure, receiving
from tests.flows.world import put_task, records
from tests.hosting import RawSender, request, turns_of, wait_for

KILLS = int(os.environ.get("HB_ACTING_KILLS", "3000"))
_AT_ONCE = 4
SETTINGS: Mapping[str, object] = {
    "life.grace_seconds": 60,
    "log.level": "warning",
    "work.push.FIRST_PAUSE_SECONDS": 0.05,
    "work.push.MAX_PAUSE_SECONDS": 0.5,
    "spool.turn_queue.ATTEMPTS": 1000,
    "tasks.least_seconds": 1,
}
_PATIENCE = 900.0 if IS_LONG else 90.0
_PEOPLE, _CLOCK, _POST = "people", "clock", "post"
_SENDERS = ("cid", "dan")


@dataclass
class Life:
    """People and programs at a home, whoever serves it.

    Args:
        asked: ids of what people said to the router; each waits for the reply of the one before.
        heard: what the reader was told, in its order.
    """

    home: Path
    rng: random.Random
    receiver: Receiver
    asked: list[str] = field(default_factory=list)
    sent: list[tuple[RawSender, str]] = field(default_factory=list)
    heard: list[Mapping[str, Any]] = field(default_factory=list)
    place: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        make_router(self.home)
        write_scripts(self.home, 0)
        configure(self.home, command=["sh", "-c", "exec cat >> pushed"], groups=[_POST])
        configure(self.home, webhook=self.receiver.url)

    def schedule(self) -> None:
        put_task(self.home, "tick", _CLOCK, schedule_type="interval", interval_seconds=1, missed="all", agent="router")

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Go on with all of it, each in a thread of its own; end when all that was asked for is answered."""
        doing: list[Callable[[], None]] = [self._ask, self._listen, *(partial(self._send, name) for name in _SENDERS)]
        with ThreadPoolExecutor(len(doing)) as threads:
            runs = [threads.submit(each) for each in doing]
            try:
                yield
            finally:
                self.is_over.set()
        for run in runs:
            run.result()

    def _ask(self) -> None:
        ann = RawSender(self.home, _PEOPLE, "ann").make()
        rng = random.Random(self.rng.getrandbits(64))
        for number in itertools.count():
            if self.is_over.wait(rng.uniform(0, 0.3)):
                return
            stem = f"a{number:05}"
            self.asked.append(stem)
            ann.say(stem, "Plan the party", agent="router")
            ann.reply(stem, _PATIENCE)

    def _listen(self) -> None:
        eve = RawSender(self.home, _POST, "eve").make()
        for number in itertools.count():
            if self.is_over.is_set():
                return
            stem = f"w{number:05}"
            payload = {"after": self.place, "wait_seconds": 2}
            told = eve.ask(stem, request(stem, "get_messages", payload=payload), _PATIENCE)["result"]
            self.heard += told["messages"]
            self.place = told["after"]

    def _send(self, name: str) -> None:
        sender = RawSender(self.home, _POST, name).make()
        rng = random.Random(f"{name} {self.rng.getrandbits(64)}")
        for number in itertools.count():
            if self.is_over.wait(rng.uniform(0, 1)):
                return
            stem = f"{name}-{number:05}"
            sender.drop(stem, request(stem, "send_message", payload={"content": f"{name} says {number}"}))
            self.sent.append((sender, stem))

    def told(self, group: str) -> list[dict[str, Any]]:
        """Return the messages of a group."""
        path = self.home / f"data/messages/{group}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def run_by_program(self) -> list[int]:
        """Return the numbers of the messages that the program was given."""
        return [message["seq"] for message in pushed(self.home)]

    def posted(self, group: str) -> list[int]:
        """Return the numbers of the messages of a group that the webhook was sent."""
        return [said["seq"] for said in _bodies(self.receiver.got) if said["group"] == group]

    def taken(self) -> set[int]:
        """Return the numbers of the messages that the webhook said yes to."""
        return {said["seq"] for said in _bodies(self.receiver.answered)}

    def is_served(self) -> bool:
        """Return whether every message has its reply."""
        return all(sender.peek(stem) is not None for sender, stem in self.sent)


def _bodies(posts: Sequence[tuple[object, bytes]]) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in [*posts]]


def storm(nursery: Nursery, folder: Path, rng: random.Random, kills: int, faults: Sequence[str] = ()) -> Figures:
    """Kill hosts of one home while all of it goes on; return what the files say in the end."""
    home = folder / "home"
    folder.mkdir(parents=True)
    refuses = random.Random(rng.getrandbits(64))
    with receiving() as receiver:
        receiver.does = lambda number: refuses.choice(("200", "200", "200", "200", "200", "200", "503", "cut"))
        life = Life(home, random.Random(rng.getrandbits(64)), receiver)
        life.begin()
        with nursery.serving(home, SETTINGS, base={}):
            pass  # what comes from now on is pushed
        life.schedule()
        with contextlib.ExitStack() as stack:
            with life.going_on():
                for number in range(kills):
                    write_scripts(home, number)
                    live(nursery, home, rng, lambda: None, at_calls=True, settings=SETTINGS, base={}, faults=faults)
                write_scripts(home, kills)
                host = stack.enter_context(ended(nursery.start(home, SETTINGS, base={}, faults=faults)))
            wait_for(life.is_served, _PATIENCE, what="a reply to every message")
            until = {group: life.told(group)[-1]["seq"] for group in (_POST, _CLOCK) if life.told(group)}
            given = {until[_POST]} if _POST in until else set()  # a short storm may end before anybody sent something
            wait_for(lambda: given <= {*life.run_by_program()}, _PATIENCE, what="all given to the program")
            wait_for(lambda: {*until.values()} <= life.taken(), _PATIENCE, what="all sent to the webhook")
            host.send_signal(signal.SIGTERM)
            assert host.wait(90) == 0, host.tail()
    problems = [f"{problem} ({folder})" for problem in _wrong(life, until)]
    asked, runs = len(life.asked), len(records(home, "done", _CLOCK))
    done = Counter(kills=kills, runs=runs, delegations=(asked + runs) * len(SPECIALISTS), messages=len(life.sent))
    return Figures(done, bad=problems)


def _wrong(life: Life, until: Mapping[str, int]) -> Iterator[str]:
    """Yield what is lost, doubled, or out of order.

    Args:
        until: group -> number of the last message that was surely to be pushed.
    """
    yield from _wrong_delegations(life.home, _PEOPLE, len(life.asked))
    yield from _wrong_replies(life)
    runs = [record["run"] for record in records(life.home, "done", _CLOCK)]
    yield from _wrong_delegations(life.home, _CLOCK, len(runs))
    yield from _wrong_runs(life, records(life.home, "done", _CLOCK))
    yield from _wrong_messages(life)
    for group, last in until.items():
        numbers = [message["seq"] for message in life.told(group)]
        due = [number for number in numbers if number <= last]
        for how, given in (("posted", life.posted(group)), *([("given", life.run_by_program())] * (group == _POST))):
            first = list(dict.fromkeys(given))
            if first[: len(due)] != due or first != numbers[: len(first)]:
                yield f"{group}: {how} are {first}, not {numbers}"
        if missing := {*due} - life.taken():
            yield f"{group}: the webhook took no {sorted(missing)}"


def _wrong_delegations(home: Path, group: str, turns: int) -> Iterator[str]:
    """Yield what is wrong with turns of the router in a group, each of which asks every specialist once."""
    folder = home / f"data/sessions/{group}"
    told = {path.stem: turns_of(home, path.stem, group) for path in folder.glob("*.jsonl")}
    requests = Counter(turn["request"] for turn in told.pop("main", []))
    if len(requests) != turns or {*requests.values()} - {2}:
        yield f"{group}: {turns} turns, and in the conversation {requests}"
    answered: Counter[str] = Counter()
    for session, said in told.items():
        if [turn["role"] for turn in said] != ["user", "assistant"]:
            yield f"{group}: {session} has {said}"
        answered[said[-1]["sender"] if said else ""] += 1
    notes = RawSender(home, group).memory_text()
    noted = Counter(re.findall(r"^- (\w+) makes", notes, re.MULTILINE))
    wanted = Counter(dict.fromkeys(SPECIALISTS, turns))
    if answered != wanted or noted != wanted:
        with contextlib.closing(sqlite3.connect(home / "data/journal.db")) as journal:
            kept = journal.execute(
                "SELECT sender, count(*) FROM changes WHERE kind = 'note' AND grp = ? GROUP BY 1", [group]
            )
            in_journal = dict(kept.fetchall())
        left = [str(path) for path in (home / "data/ipc" / group).rglob("requests/*.json")]
        yield f"{group}: {turns} turns, {answered} answers, {noted} notes, in the journal {in_journal}; left is {left}"


def _wrong_replies(life: Life) -> Iterator[str]:
    ann = RawSender(life.home, _PEOPLE, "ann")
    for stem in life.asked:
        reply = json.loads(ann.peek(stem) or b"{}")
        tools = reply.get("result", {}).get("tools", [])
        done = [re.fullmatch(r"(\w+), done: \1 in run \d+\.", tool["summary"]) for tool in tools]
        if not reply.get("ok") or [found and found[1] for found in done] != [*SPECIALISTS]:
            yield f"{stem} was answered {reply}"


def _wrong_runs(life: Life, done: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield which seconds were run twice, or neither run nor named as missed."""
    for event in ("failed", "missed", "skipped"):
        if found := records(life.home, event, _CLOCK):
            yield f"{event}: {found[:3]}"
    for before, record in itertools.pairwise(done):
        last, run = datetime.fromisoformat(before["run"]), datetime.fromisoformat(record["run"])
        since, until = last + timedelta(seconds=1), run - timedelta(seconds=1)
        named = tuple(map(datetime.fromisoformat, record.get("missed") or ()))
        if run <= last or named != ((since, until) if since <= until else ()):
            yield f"after the run of {last} came {record}"
    told = Counter(message["request"] for message in life.told(_CLOCK))
    if len(told) != len(done) or {*told.values()} - {1}:
        yield f"{len(done)} runs told {told}"


def _wrong_messages(life: Life) -> Iterator[str]:
    kept = life.told(_POST)
    numbers = [message["seq"] for message in kept]
    if numbers != sorted({*numbers}):
        yield f"messages are numbered {numbers}"
    places = {message["request"]: message["seq"] for message in kept}
    for name in _SENDERS:
        of_one = [message["request"] for message in kept if message["sender"] == name]
        sent = [stem for sender, stem in life.sent if sender.sender == name]
        if of_one != sent:
            yield f"{name} sent {sent}, kept are {of_one}"
    for sender, stem in life.sent:
        reply = json.loads(sender.peek(stem) or b"{}")
        if not reply.get("ok") or reply["result"]["seq"] != places.get(stem):
            yield f"{stem} was answered {reply}, and stands at {places.get(stem)}"
    heard = [message["seq"] for message in life.heard]
    if heard != [number for number in numbers if number <= life.place]:
        yield f"the reader heard {heard} of {numbers}"


def test_killed_runs_delegations_and_messages_happen_once(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    total = Figures()
    least = Counter(runs=2, delegations=5, messages=6)  # hosts that die at once do little
    while not least <= total.counts:
        total.add(storm(nursery, tmp_path / str(total.counts["kills"]), rng, 5))
        assert total.is_good, str(total)


def test_a_host_without_receipts_does_something_twice(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    """The control: the same check sees what receipts are for."""
    numbers = itertools.count()
    while not storm(nursery, tmp_path / str(next(numbers)), rng, 3, ("--without-receipts",)).bad:
        pass


@pytest.mark.skipif(not IS_LONG, reason="the long form: HB_CRASH_LONG=1")
@pytest.mark.timeout(6 * 3600)
def test_three_thousand_kills_while_agents_act(
    nursery: Nursery, tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    total = Figures()
    for number in rounds(total, "kills", KILLS, capsys):
        total.add(storms(partial(storm, nursery, kills=25), tmp_path / str(number), rng, _AT_ONCE))
