"""Facts survive models that lie, lose and loop in the real host: over HTTP, within a budget that runs out, under kills.

The models are those of `bench.survival`. What people pinned or wrote, what they said, and what is true is looked for in
the files in the end; what the endpoint was paid is compared with the budget and with what the host made of it.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from bench.survival.__main__ import GOAL_LIVE, MADE_UP
from bench.survival.models import KINDS, Model, Wish
from bench.survival.world import SESSION, World, begun, corpus, live_a_day
from honeybadger_agent.models.model import ModelSaid
from honeybadger_host.memory.entry import Entry, dump_entry, entry_file
from honeybadger_host.storage.home import make_home
from tests.crash.conftest import IS_LONG
from tests.endpoint import Answer, Asked, openai, served
from tests.hosting import HostProcess, RawSender, request, turns_of

GROUP: Final = "bench"
SEEDS: Final = range(1, 11) if IS_LONG else range(1, 2)
PASSES: Final = 120 if IS_LONG else 10
BUDGET: Final = 20_000
"""Tokens of the first day, and how many more each further one has; a question is booked with up to 6,000."""
SETTINGS: Final[dict[str, object]] = {
    "model.name": "openai:test",
    "model.max_output_tokens": 2000,
    "consolidation.memory_window": 0,
    "dream.preferences": False,
}
WITHOUT_GATES: Final = """
from honeybadger_host.curation import passes
passes.check = lambda proposal, known: proposal
passes.applies_itself = lambda operation, policy: operation.state == "waiting"
"""


@dataclass
class Curated:
    """A group in a real home, the models that look after it, and what they were paid.

    Args:
        world: the facts and what was said, as `bench.survival` knows them; what is live is read from the files.
        stays: file -> bytes of entries that nothing may touch: a person pinned them, or wrote them.
        paid: tokens of every answer, by its number.
        harmful: (op, sources, result) -> what an operation that was proposed would do.
    """

    home: Path
    seed: int
    world: World = field(default_factory=lambda: begun(corpus()[:: 1 if IS_LONG else 3]))
    stays: dict[Path, bytes] = field(default_factory=dict)
    paid: list[int] = field(default_factory=list)
    harmful: dict[tuple[str, tuple[str, ...], str | None], str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.chosen = random.Random(self.seed)
        self.models = [Model(kind, random.Random(f"{self.seed} {kind}")) for kind in KINDS]

    @property
    def group(self) -> Path:
        return self.home / "groups" / GROUP

    def begin(self) -> None:
        make_home(self.home)
        for number, (name, text) in enumerate(self.world.live.items()):
            entry = Entry(name, "facts", text, by="bee", created=datetime(2026, 9, 1, tzinfo=UTC))
            entry = replace(entry, pinned=number % 10 == 3, by=None if number % 10 == 7 else "bee")
            path = self.home / entry_file(GROUP, "facts", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(dump_entry(entry))
            if entry.pinned or entry.by is None:
                self.stays[path] = path.read_bytes()
        for name in ("sam", "helper", "operator"):
            RawSender(self.home, GROUP, name).make()

    def live_a_day(self, day: int) -> None:
        """Let people, the assistant and tools say in the real conversation what they say in a day."""
        before = len(self.world.turns)
        live_a_day(self.world, day, self.chosen)
        for turn in self.world.turns[before:]:
            sender = RawSender(self.home, GROUP, "sam" if turn.role == "user" else "helper")
            payload = {"role": turn.role, "content": turn.content}
            reply = sender.ask(
                f"t{turn.number:04}", request(f"t{turn.number:04}", "append_turn", session=SESSION, payload=payload)
            )
            assert reply["result"]["turn"] == turn.number, reply
        if day == 0:  # then there is something to ask about in every pass
            heard = {"kind": "complaint", "content": "You forget things."}
            reply = RawSender(self.home, GROUP, "sam").ask("f1", request("f1", "record_feedback", payload=heard))
            assert reply["ok"], reply

    def answer(self, asked: Asked) -> Answer:
        """Answer as one of the models; each answer says which one it is in all of its operations."""
        question = json.dumps(asked.body["messages"], ensure_ascii=False)
        with self.lock:
            number = len(self.paid)
            live = self.entries("memory")
            shown = {name for name in re.findall(r"\[(\w+)\] ", question) if name in live}
            self.world.live = {name: text for name, text in live.items() if name in shown}
            wishes = self.chosen.choice(self.models).propose(self.world) if len(shown) > 1 else []
            self.harmful |= {_key(_written(wish)): wish.harm for wish in wishes}
            operations = [*_operations(wishes, number)]
            most = asked.body.get("max_completion_tokens") or asked.body["max_tokens"]
            while len(text := json.dumps({"operations": operations})) // 4 > most:
                operations.pop(0)  # a server says no more than it is asked for, and bills no more
            self.paid.append(len(question) // 4 + len(text) // 4)
        return openai(
            ModelSaid(text, input_tokens=len(question) // 4, output_tokens=len(text) // 4), pieces_of_text=[text]
        )

    def entries(self, folder: str) -> dict[str, str]:
        found = {}
        for path in (self.group / folder).rglob("[!.]*.json"):
            try:
                found[path.stem] = json.loads(path.read_bytes())["content"]
            except FileNotFoundError:  # just now
                continue
        return found

    def proposals(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in (self.group / "proposals").glob("*.json")]

    def wrong(self, kills: int, budget: int) -> Iterator[str]:
        """Yield what was lost, made up, changed, or paid twice."""
        live, archived = self.entries("memory"), self.entries("archive/memory")
        told, everything = "\n".join(live.values()), "\n".join([*live.values(), *archived.values()])
        lasting = [fact.token for fact in self.world.facts if fact.token not in self.world.renewed]
        share = sum(token in told for token in lasting) / len(lasting)
        if share < GOAL_LIVE:
            yield f"{share:.1%} of what is true is live"
        if lost := [fact.token for fact in self.world.facts if fact.token not in everything]:
            yield f"lost: {lost}"
        if made_up := MADE_UP.findall(told):
            yield f"made up: {made_up[:3]}"
        applied = [one for each in self.proposals() for one in each["operations"] if one["state"] == "applied"]
        harm = Counter(filter(None, (self.harmful.get(_key(one)) for one in applied)))
        if harm["loss"] or harm["invention"]:
            yield f"applied: {dict(harm)}"
        if touched := [
            path.name for path, data in self.stays.items() if not path.exists() or path.read_bytes() != data
        ]:
            yield f"a person's, and touched: {touched}"
        if [turn["content"] for turn in turns_of(self.home, SESSION, GROUP)] != [
            turn.content for turn in self.world.turns
        ]:
            yield "what was said is not in the log as it was said"
        yield from self._wrong_payments(kills, budget)

    def _wrong_payments(self, kills: int, budget: int) -> Iterator[str]:
        told = Counter[int]()
        for each in self.proposals():
            numbers = {int(number) for one in each["operations"] for number in re.findall(r"#(\d+)$", one["why"])}
            if len(numbers) > 1:
                yield f"{each['id']} is made of answers {numbers}"
            told.update(numbers)
        if twice := [number for number, times in told.items() if times > 1]:
            yield f"answers {twice} are in two proposals"
        if (unused := len(self.paid) - len(told)) > kills:
            yield f"{unused} answers of {len(self.paid)} came to nothing, after {kills} kills"
        if sum(self.paid) > budget:
            yield f"{sum(self.paid)} tokens were paid of {budget}"


def _written(wish: Wish) -> dict[str, Any]:
    written = wish.operation.model_dump(mode="json", exclude_none=True, exclude={"n", "metadata", "gates", "state"})
    return {name: value for name, value in written.items() if value}


def _operations(wishes: list[Wish], number: int) -> Iterator[dict[str, Any]]:
    """Yield operations as a model writes them, and one that is always refused: so every answer leaves a proposal."""
    for wish in wishes:
        yield _written(wish) | {"why": f"answer #{number}"}
    yield {"op": "add", "result": f"Marker {number}.", "category": "markers", "why": f"answer #{number}"}


def _key(operation: dict[str, Any]) -> tuple[str, tuple[str, ...], str | None]:
    return operation["op"], tuple(operation.get("sources", ())), operation.get("result")


@dataclass
class Survived:
    """What a run came to."""

    passes: int = 0
    kills: int = 0
    refused: int = 0
    answers: int = 0
    applied: int = 0
    problems: list[str] = field(default_factory=list)


def survive(home: Path, seed: int, passes: int, source: str = "") -> Survived:
    """Let models of every kind curate a group of a real host, which is killed and runs out of its budget."""
    curated, rng, done = Curated(home, seed), random.Random(f"kills {seed}"), Survived()
    curated.begin()
    budget, day = BUDGET, 0
    with served(curated.answer) as endpoint:
        settings = {**SETTINGS, "model.base_url": f"{endpoint.url}/v1"}
        with HostProcess(home, {**settings, "curation.tokens_per_day": budget}, source=source) as host:
            host.start()
            operator = RawSender(home, GROUP, "operator")
            for number in range(passes):
                if number % 4 == 0:
                    curated.live_a_day(day)
                    day += 1
                stem = f"d{number:04}"
                operator.drop(stem, request(stem, "dream", payload={}))
                if number % 3 == 1:
                    time.sleep(rng.uniform(0, 0.5))
                    host.kill()
                    done.kills += 1
                    host.start()
                reply = operator.reply(stem)
                if not reply["ok"]:
                    assert "curation.tokens_per_day" in reply["error"]["message"], reply
                    done.refused += 1
                    budget += BUDGET  # the next day
                    host.settings["curation.tokens_per_day"] = budget
                    host.restart()
            host.stop()
    applied = [one for each in curated.proposals() for one in each["operations"] if one["state"] == "applied"]
    done.passes, done.answers, done.applied = passes, len(curated.paid), len(applied)
    done.problems = [*curated.wrong(done.kills, budget)]
    return done


@pytest.mark.parametrize("seed", SEEDS)
def test_facts_survive_models_of_every_kind_in_a_host_that_is_killed_and_runs_out_of_its_budget(
    tmp_path: Path, seed: int
) -> None:
    done = survive(tmp_path / "home", seed, PASSES)
    assert done.problems == [], done
    assert done.kills, done
    assert done.refused, done
    assert done.applied, done
    assert done.answers > PASSES / 3, done


def test_without_gates_they_do_not_survive(tmp_path: Path) -> None:
    done = survive(tmp_path / "home", 1, 10, WITHOUT_GATES)
    assert any("is live" in problem for problem in done.problems), done
    assert any("a person's, and touched" in problem or "applied" in problem for problem in done.problems), done
