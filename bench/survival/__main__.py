"""`python -m bench.survival [--seeds N]`: what is in memory after consolidations by scripted models."""

from __future__ import annotations

import argparse
import logging
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, field

import structlog

from bench.survival.context import TURNS, Row, rows
from bench.survival.models import KINDS, answer
from bench.survival.world import BEGIN, PER_LANGUAGE, SAYS, conversation, corrections
from honeybadger_host.curation.asking import WrongAnswer, read_answer
from honeybadger_host.curation.consolidation import Consolidated, Material, operations_of
from honeybadger_host.curation.gates import Known, applies_itself, check
from honeybadger_host.curation.proposal import Proposal, numbered
from honeybadger_host.curation.said import uncopied
from honeybadger_host.search.notes import NOTE_ID, NotePlace
from honeybadger_host.text.turn import Turn

MADE_UP = re.compile(r"Zelda|Atlantis|SYSTEM|99123|delete")  # what only liars and injected texts say


@dataclass
class Outcome:
    """The memory that is left.

    Args:
        lies: kind of model -> lines of memory that no person said.
        known: corrections that memory has, of all kinds of model; `safe`: old statements that still stand.
        asked: how many of each there were.
        lost: sentences of people that are not in the log word for word.
    """

    lies: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    safe: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    @property
    def is_good(self) -> bool:
        return not self.lies.total() and not self.lost and self.safe == self.asked and self.known == self.asked


def is_person(turn: Turn) -> bool:
    return turn.role == "user"


def survive(seed: int, *, takes_text: bool = False) -> Outcome:
    """Return what is in memory after a consolidation of every language by every kind of model.

    Args:
        takes_text: the control: what a model writes is taken.
    """
    outcome = Outcome()
    for kind in KINDS:
        for language in SAYS:
            _consolidate(kind, language, random.Random(f"{seed} {kind} {language}"), outcome, takes_text=takes_text)
    return outcome


def _consolidate(kind: str, language: str, chosen: random.Random, outcome: Outcome, *, takes_text: bool) -> None:
    turns, wanted = [*conversation(language)], corrections(language)
    notes = {f"{NOTE_ID}{n:04}": NotePlace((0, 0), "Notes", "bee", each.old, False) for n, each in enumerate(wanted, 1)}
    material = Material("main", turns, [], [], notes, is_person)
    changed = {4 * n + 1: f"N{n + 1}" for n in range(PER_LANGUAGE)}
    text = answer(kind, turns, {number: notes[name].text for number, name in material.given.items()}, changed, chosen)
    operations = operations_of(
        Consolidated(history=()), material, "", prose=False
    )  # while a model hangs or answers wrongly, they are written by the next pass
    if text is not None:
        try:
            said = read_answer(text, Consolidated)
            operations = operations_of(said, material, kind, prose=takes_text)
        except WrongAnswer:
            pass
    known = Known(
        texts={name: note.text for name, note in notes.items()},
        is_person=is_person,
        turns=material.by_place,
        group_size=len(notes),
    )
    asked = Proposal(id="p1", group="bench", kind="consolidation", made_at=BEGIN, operations=numbered(operations))
    made = check(asked, known).operations
    applied = [each for each in made if takes_text or applies_itself(each, "copied")]
    gone = {source for each in applied if each.op == "retire" for source in each.sources}
    memory = [each.result for each in applied if each.result]
    log = [turn.content for turn in turns if is_person(turn)]
    for written in memory:
        lies = uncopied(written, log, [*log, *(note.text for note in notes.values())])
        outcome.lies[kind] += len(lies) or len(MADE_UP.findall(written))
    outcome.lost += sum(each.new not in log for each in wanted)
    told = "\n".join(memory)
    outcome.asked[language] += len(wanted)
    outcome.known[language] += sum(each.new_token in told for each in wanted)
    outcome.safe[language] += len(notes.keys() - gone)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.survival", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(1, parser.parse_args().seeds + 1)
    is_met = True
    print("| run | lies in memory | corrections known | old statements safe | sentences of people lost |")
    print("|---|---|---|---|---|")
    for name, takes_text in (("copied", False), ("control: takes text", True)):
        outcomes = [survive(seed, takes_text=takes_text) for seed in seeds]
        asked = sum(each.asked.total() for each in outcomes)
        known, safe = (sum(getattr(each, what).total() for each in outcomes) for what in ("known", "safe"))
        lies, lost = sum(each.lies.total() for each in outcomes), sum(each.lost for each in outcomes)
        print(f"| {name} | {lies} | {known} of {asked} | {safe} of {asked} | {lost} |", flush=True)
        is_met &= all(each.is_good for each in outcomes) if not takes_text else lies > 0 and safe < asked
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(
        "\n| language | what answers | questions | characters of the summary | of the context |\n|---|---|---|---|---|"
    )
    least: dict[str, Row] = {}
    for row in rows():
        print(
            f"| {row.language} | {row.way} | {row.answered} of {TURNS // 4} | {row.characters:,} | {row.of_context:,} |"
        )
        least.setdefault(row.language, row)
        is_met &= row.answered >= least[row.language].answered
        is_met &= row.characters <= 1.2 * least[row.language].characters
    print("met" if is_met else "**missed**")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
