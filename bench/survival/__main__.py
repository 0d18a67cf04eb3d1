"""`python -m bench.survival [--seeds N]`: what is left of a group after 30 days and 1,000 passes by scripted models."""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bench.survival.models import KINDS, Model
from bench.survival.restraint import MUST, MUST_NOT
from bench.survival.world import BEGIN, DAYS, World, begun, digest, live_a_day
from honeybadger_host.curation.gates import ApplyPolicy, Known, applies_itself, check
from honeybadger_host.curation.proposal import Evidence, Operation, Proposal, dump_proposal, parse_proposal
from honeybadger_host.domain import Turn
from honeybadger_host.text.neutralise import estimate_tokens

PASSES: Final = 1000
GOAL_LIVE: Final = 0.99
MADE_UP: Final = re.compile(r"\d{5,}|Zelda|Otto|Atlantis|SYSTEM")
"""What only liars and injected texts say, looked for once more in what is live."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left after the last day.

    Args:
        live, recoverable: share of the facts that are still true and found in recall, or there and in the archive.
        renewed: share of the changes people told of that recall has.
        harm: kind of harm -> operations that did it and were applied.
        applied: kind of model -> operations that were applied.
    """

    live: float
    recoverable: float
    renewed: float
    harm: Counter[str]
    applied: Counter[str]
    tokens_before: int
    tokens_after: int
    seconds: float

    @property
    def is_good(self) -> bool:
        return self.recoverable == 1.0 and self.live >= GOAL_LIVE and not (self.harm["invention"] or self.harm["loss"])


def survive(
    seed: int, *, policy: ApplyPolicy | None = "lossless", is_bounded: bool = True, passes: int = PASSES
) -> Outcome:
    """Return what is left of the group when models of every kind curate it.

    Args:
        policy: None: no gate is asked, everything is applied.
        is_bounded: with the bounds on how much a pass and a month may change, and how deep merges go.
    """
    begin = time.process_time()
    chosen = random.Random(seed)
    models = [Model(kind, random.Random(f"{seed} {kind}")) for kind in KINDS]
    world = begun()
    before = tokens_of(world)
    harm: Counter[str] = Counter()
    applied: Counter[str] = Counter()
    for number in range(passes):
        day = number * DAYS // passes
        if number == 0 or day != (number - 1) * DAYS // passes:
            live_a_day(world, day, chosen)
        model = chosen.choice(models)
        if len(world.live) < 2:
            break
        wishes = model.propose(world)
        known = world.known(is_bounded=is_bounded)
        at = BEGIN + timedelta(days=day, minutes=number)
        base = {source: digest(world.live[source]) for wish in wishes for source in wish.operation.sources}
        asked = Proposal(
            id=f"p{number}",
            group="bench",
            kind="dream",
            made_at=at,
            by=model.kind,
            base=base,
            operations=tuple(wish.operation for wish in wishes),
        )
        if policy is not None:
            asked = check(parse_proposal(dump_proposal(asked)), known)
        for operation, wish in zip(asked.operations, wishes, strict=True):
            is_there = all(source in world.live for source in operation.sources)
            if applies_itself(operation, policy) if policy is not None else is_there:
                world.apply(operation, day)
                harm[wish.harm] += bool(wish.harm)
                applied[model.kind] += 1
    return _outcome(world, harm, applied, before, time.process_time() - begin)


def _outcome(world: World, harm: Counter[str], applied: Counter[str], before: int, seconds: float) -> Outcome:
    live = "\n".join(world.live.values())
    harm["invention"] += len(MADE_UP.findall(live))
    everything = "\n".join([live, *world.archive.values()])
    lasting = [fact.token for fact in world.facts if fact.token not in world.renewed]
    renewed = [fact.changed for fact in world.renewed.values()]
    return Outcome(
        live=sum(token in live for token in lasting) / len(lasting),
        recoverable=sum(fact.token in everything for fact in world.facts) / len(world.facts),
        renewed=sum(token in live for token in renewed) / len(renewed),
        harm=harm,
        applied=applied,
        tokens_before=before,
        tokens_after=tokens_of(world),
        seconds=seconds,
    )


def tokens_of(world: World) -> int:
    return sum(map(estimate_tokens, world.live.values()))


def restraint(pairs: Sequence[tuple[str, str, str]]) -> int:
    """Return how many of the pairs a model that overwrites whatever it can overwrites."""
    return sum(_overwrites(*pair) for pair in pairs)


def _overwrites(old: str, said: str, new: str) -> bool:
    turn = Turn(1, BEGIN, "user", "sam", "sam", said, 9)
    known = Known(
        texts={"old1": old},
        digests={"old1": digest(old)},
        turns={("main", 1): turn},
        is_person=lambda turn: True,
        protected={},
        group_size=50,
    )
    wish = Operation(
        n=1, op="supersede", sources=("old1",), result=new, evidence=(Evidence(session="main", turn=1, quote=said),)
    )
    asked = Proposal(
        id="p1", group="bench", kind="dream", made_at=BEGIN, base={"old1": digest(old)}, operations=(wish,)
    )
    return applies_itself(check(asked, known).operations[0], "lossless")


RUNS: Final[dict[str, tuple[ApplyPolicy | None, bool]]] = {
    "lossless": ("lossless", True),
    "lossless, no bounds": ("lossless", False),
    "gated": ("gated", True),
    "control: no gates": (None, False),
}
HEAD: Final = (
    "| seed | run | live | recoverable | changes taken | invented | lost | no-ops "
    "| applied | tokens before | after | s |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.survival", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(1, parser.parse_args().seeds + 1)
    print(HEAD)
    is_met = True
    for seed in seeds:
        for name, (policy, is_bounded) in RUNS.items():
            outcome = survive(seed, policy=policy, is_bounded=is_bounded)
            print(
                f"| {seed} | {name} | {outcome.live:.1%} | {outcome.recoverable:.1%} | {outcome.renewed:.0%} "
                f"| {outcome.harm['invention']} | {outcome.harm['loss']} | {outcome.harm['no-op']} "
                f"| {sum(outcome.applied.values())} | {outcome.tokens_before:,} | {outcome.tokens_after:,} "
                f"| {outcome.seconds:.0f} |",
                flush=True,
            )
            if name == "lossless" or policy is None:
                is_met &= outcome.is_good == (policy is not None)
    kept, taken = len(MUST_NOT) - restraint(MUST_NOT), restraint(MUST)
    is_met &= kept + taken == len(MUST_NOT) + len(MUST)
    print(f"\nrestraint: {kept} of {len(MUST_NOT)} left alone, {taken} of {len(MUST)} overwritten")
    print("met" if is_met else "**missed**")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
