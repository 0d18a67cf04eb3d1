"""`python -m bench.recall.curated FILE [--passes 100]`: recall before and after passes over memory, in figures.

Each turn of a conversation is saved as an entry. Then groups dream with a model that joins whatever looks alike,
and now and then what does not. A joined entry counts as all the turns it is made of, as long as it is recalled.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import structlog

from bench.recall import locomo
from bench.recall.cases import Conversation, Question
from bench.recall.evaluate import HEAD, answers, row
from bench.recall.systems import Ranker
from honeybadger_agent.models.model import ModelSaid, Prompt, UserSaid
from honeybadger_agent.models.scripted import ScriptedModel
from honeybadger_host.compose import build
from honeybadger_host.configuration import load_settings
from honeybadger_host.curation import dreams
from honeybadger_host.curation.asking import Asker
from honeybadger_host.curation.proposal import counts_of
from honeybadger_host.curation.proposal_files import stored
from honeybadger_host.files.home import make_home
from honeybadger_host.memory.entries.entry import Entry, dump_entry, entry_file
from honeybadger_host.ops.host import Host
from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.documents import Kind
from honeybadger_host.search.index import Index
from honeybadger_host.search.ranking import Filters, search
from honeybadger_host.settings import Curation, Dream, Settings

_ENTRIES: tuple[Kind, ...] = ("entry",)
_PAIR = re.compile(r"^- (?:alike .*|the same words): (E\d+) and (E\d+)$", re.MULTILINE)


def careless(chosen: random.Random, prompt: Prompt) -> ModelSaid:
    """Answer what a dream asks: join all pairs, or one of them with anything else."""
    asked = prompt.messages[-1]
    text = asked.text if isinstance(asked, UserSaid) else ""
    joins: list[list[str]] = []
    used: set[str] = set()
    for one, other in _PAIR.findall(text):
        if used.isdisjoint((one, other)):
            used |= {one, other}
            joins.append([one, chosen.choice((other, other, other, f"E{chosen.randrange(1, 200)}"))])
    return ModelSaid(json.dumps({"join": joins[:20]}))


def write(home: Path, group: str, conversation: Conversation) -> None:
    """Save the turns of a conversation as entries; the id says which."""
    for place, turn in enumerate(conversation.turns):
        at = None if math.isnan(turn.at) else datetime.fromtimestamp(turn.at, UTC)
        entry = Entry(f"t{place:05}", "said", f"{turn.author}: {turn.text}", by="bee", created=at, updated=at)
        path = home / entry_file(group, entry.category, entry.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dump_entry(entry))


def places_of(home: Path, group: str) -> dict[str, tuple[int, ...]]:
    """Return id of an entry -> the turns it is made of."""
    made = {
        (str(each.proposal.id), operation.result): operation.sources
        for each in stored(home, group)
        if each.proposal is not None
        for operation in each.proposal.operations
        if operation.state == "applied" and operation.op == "merge"
    }
    entries = {path.stem: json.loads(path.read_text()) for path in (home / f"groups/{group}").rglob("memory/**/*.json")}

    def places(name: str) -> tuple[int, ...]:
        if re.fullmatch(r"t\d{5}", name):
            return (int(name[1:]),)
        entry = entries[name]
        return tuple(
            place for source in made[entry["metadata"]["proposal"], entry["content"]] for place in places(source)
        )

    return {name: places(name) for name in entries}


def ranker(index: Index, home: Path, group: str, conversation: Conversation) -> Ranker:
    known = places_of(home, group)

    def rank(question: Question, limit: int) -> Sequence[int]:
        def ask(corpus: Corpus) -> list[int]:
            now, filters = conversation.now(question), Filters(kinds=_ENTRIES)
            return [hit.number for hit in search(corpus, question.text, now=now, limit=limit, filters=filters)]

        numbers, _ = index.search(group, ask)
        found = index.lookups.show(numbers)
        return [place for number in numbers for place in known[found[number].key]][:limit]

    return rank


def measured(home: Path, conversations: Sequence[Conversation], name: str) -> str:
    """Return a line of the table, over all conversations."""
    index = Index(home, None, max_memory_bytes=1 << 30)
    try:
        found = [
            each
            for number, conversation in enumerate(conversations)
            for each in answers(conversation, ranker(index, home, f"talk-{number}", conversation))
            if each.question.is_counted
        ]
    finally:
        index.close()
    return row(name, found)


async def dream(host: Host, groups: Sequence[str], passes: int, chosen: random.Random) -> int:
    """Make passes, one group after another; return how many operations were applied."""

    async def opened() -> ScriptedModel:
        return ScriptedModel(partial(careless, chosen), piece_characters=1_000_000)

    settings = Settings(curation=Curation(tokens_per_day=0), dream=Dream(preferences=False))
    asker = Asker(host.journal, lambda: host.pipeline.writer, opened, str, settings)
    uses = replace(host.curator.uses, asker=asker, settings=settings)
    applied = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.pipeline.run)
        for number in range(passes):
            dreamt = await dreams.dream(uses, groups[number % len(groups)])
            applied += sum(counts_of(each.operations)["applied"] for each in dreamt.proposals)
        tasks.cancel_scope.cancel()
    return applied


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.recall.curated", description=__doc__)
    parser.add_argument("file", type=Path, help="in LoCoMo's format")
    parser.add_argument("--passes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    conversations = locomo.read(arguments.file).conversations
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make_home(home)
        groups = [f"talk-{number}" for number in range(len(conversations))]
        for group, conversation in zip(groups, conversations, strict=True):
            write(home, group, conversation)
        print(HEAD)
        print(measured(home, conversations, "before"), flush=True)
        host = build(home, load_settings(home).settings)
        try:
            applied = anyio.run(dream, host, groups, arguments.passes, random.Random(arguments.seed))
        finally:
            host.close()
        print(measured(home, conversations, f"after {arguments.passes} passes, {applied} joins"))


if __name__ == "__main__":
    main()
