"""The cost of curation without a model: candidates of a group, and the gates of a pass, in a process of its own."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.pipeline import Figure
from honeybadger_host.curation.candidates import alike
from honeybadger_host.curation.gates import Known, check
from honeybadger_host.curation.proposal import Operation, Proposal

_SIZES = ((1_000, 1), (100_000, 30))  # entries, and the seconds they may take


def bench_curation(_: Path) -> list[Figure]:
    """Seconds of processor time for groups of random words, and for one whose entries are made from one template."""
    figures = []
    for size, goal in _SIZES:
        for kind in ("words", "template"):
            found = subprocess.run(
                [sys.executable, "-m", "bench.curation", str(size), kind], capture_output=True, text=True, check=True
            )
            seconds, mebibytes = map(float, found.stdout.split())
            what = "entries" if kind == "words" else "entries of one template"
            name = f"candidates and gates of a pass over {size:,} {what}"
            value = f"{seconds:.2f} s, {mebibytes:.0f} MiB more"
            figures.append(Figure(name, value, goal=f"{goal} s", is_met=seconds < goal))
    return figures


def group_of(count: int) -> dict[str, str]:
    """Return entries of a small vocabulary, with a name and a number each; every tenth nearly repeats another."""
    chosen = random.Random(7)
    syllables = [(a, b) for a in "bdfgklmprst" for b in "aeiou"]
    words = [a + b + c for a, b in syllables for c in ("ran", "lo", "ster", "ver", "mon", "dal", "kip")]
    texts: list[str] = []
    for n in range(count):
        if n % 10 == 9:
            texts.append(f"{texts[chosen.randrange(n)][:-1]}, too.")
        else:
            said = [chosen.choice(words) for _ in range(chosen.randrange(6, 24))]
            texts.append(" ".join([*said, chosen.choice(["Anna", "Ben", "Noor"]), str(chosen.randrange(900))]) + ".")
    return {f"e{n}": text for n, text in enumerate(texts)}


def a_pass(items: dict[str, str]) -> None:
    """Look for candidates, and check a merge for each pair that was found."""
    pairs = [pair.ids for pair in alike(items) if pair.share >= 1]
    known = Known(texts=items, is_person=lambda turn: True, group_size=len(items))
    merges = [
        Operation(n=n, op="merge", sources=(one, other), result=items[one])
        for n, (one, other) in enumerate(pairs[:500], 1)
    ]
    asked = Proposal(
        id="p1",
        group="bench",
        kind="dream",
        made_at=datetime.now(UTC),
        operations=tuple(merges),
    )
    check(asked, known)


def main() -> None:
    size, kind = int(sys.argv[1]), sys.argv[2]
    items = group_of(size)
    if kind == "template":
        items = {name: f"Setting {n} is for thing {n % 9}." for n, name in enumerate(items)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    a_pass(items)
    seconds = time.process_time() - begin
    print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


if __name__ == "__main__":
    main()
