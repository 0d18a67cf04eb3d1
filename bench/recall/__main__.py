"""`python -m bench.recall [--locomo FILE …] [--precision FOLDER] [--qmsum FILE] [--vectors] …`: recall in figures."""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench.recall import contexts, locomo, precision, qmsum, speed, synthetic
from bench.recall.cases import Conversation
from bench.recall.evaluate import HEAD, Answered, answers, by_category, installed, row
from bench.recall.systems import System, honeybadger, with_vectors
from honeybadger_host.search.asked import WEIGHTS
from honeybadger_host.search.embeddings import open_embedder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.recall", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("rankings", "contexts"), default="rankings")
    parser.add_argument("--locomo", type=Path, action="append", default=[], help="a file in LoCoMo's format")
    parser.add_argument("--precision", type=Path, help="the folder of PrecisionMemBench")
    parser.add_argument("--qmsum", type=Path, help="a file of QMSum's meetings")
    parser.add_argument("--speed", type=int, nargs="*", help="entries, and as many turns; default 10000 100000")
    parser.add_argument("--only", action="append", default=[], help="measure this system only")
    parser.add_argument("--vectors", action="store_true", help="also ours with vectors")
    arguments = parser.parse_args()
    for path in filter(None, (*arguments.locomo, arguments.precision, arguments.qmsum)):
        if not path.exists():
            parser.error(f"{path}: not there; the data is not part of this project, see docs/performance.md")
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in WEIGHTS.items())
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}\nweights: {weights}"
    )
    if arguments.what == "contexts":
        report_contexts(arguments.locomo)
        return 0
    more = {"honeybadger, vectors": with_vectors(open_embedder())} if arguments.vectors else {}
    for path in arguments.locomo:
        loaded = locomo.read(path)
        for line in loaded.skipped:
            print(f"{path.name}: {line}", file=sys.stderr)
        conversations = loaded.conversations
        report(path.name, conversations, arguments.only, more)
        english = [talk for talk in synthetic.written() if talk.name in ("english-assistant", "english-diary")]
        talks = [synthetic.among(talk, conversations) for talk in english]
        report(f"our two larger sets among the turns of {path.name}", talks, arguments.only, more)
    if arguments.qmsum:
        report(arguments.qmsum.name, qmsum.load(arguments.qmsum), arguments.only, more)
    if not arguments.locomo:
        report("the project's own small set", synthetic.conversations(), arguments.only, more)
        report("the project's own sets", synthetic.written(), arguments.only, more)
    if arguments.precision:
        report_precision(arguments.precision, arguments.only, has_vectors=arguments.vectors)
    if arguments.speed is not None:
        for size in arguments.speed or (10_000, 100_000):
            print(f"\n## {size:,} entries and {size:,} turns\n\n{speed.HEAD}")
            for line in speed.rows(size):
                print(line, flush=True)
    return 0


def report(
    name: str,
    conversations: Sequence[Conversation],
    only: Sequence[str],
    more: Mapping[str, System],
) -> None:
    """Print the tables of a set of conversations."""
    turns = sum(len(each.turns) for each in conversations)
    print(f"\n## {name}: {len(conversations)} conversations, {turns} turns\n\n{HEAD}")
    ours: list[Answered] = []
    for system_name, system in {**installed(), **more}.items():
        if only and system_name not in (*only, *more):
            continue
        answered = [each for talk in conversations for each in answers(talk, system(talk))]
        print(row(system_name, [each for each in answered if each.question.is_counted]), flush=True)
        if system is honeybadger:
            ours = answered
    for category, answered in by_category(ours).items():
        print(row(f"… {category}{'' if answered[0].question.is_counted else ' (apart)'}", answered))


def report_contexts(paths: Sequence[Path]) -> None:
    """Print what contexts recall of conversations, without a file of the project's own."""
    sets = {path.name: locomo.load(path) for path in paths} or {"the project's own sets": synthetic.written()}
    for name, talks in sets.items():
        print(f"\n## Evidence in a context, {name}\n\n{contexts.HEAD}")
        for line in contexts.rows(Path(tempfile.gettempdir()), talks):
            print(line, flush=True)


def report_precision(folder: Path, only: Sequence[str], *, has_vectors: bool) -> None:
    """Print the tables of PrecisionMemBench."""
    bench = precision.load(folder)
    print(f"\n## {folder.name}: {len(bench.beliefs)} beliefs, {len(bench.cases)} cases\n")
    print("| system | cases | R@3 | R@5 | MRR |\n|---|---|---|---|---|")
    for name, system in installed().items():
        if system is not honeybadger and (not only or name in only):
            print(precision.row(name, bench, partial(precision.other, system)))
    print(precision.row("honeybadger", bench, precision.honeybadger))
    print(precision.row("honeybadger, content only", bench, partial(precision.honeybadger, with_names=False)))
    if has_vectors:
        ranker = partial(precision.with_vectors, open_embedder())
        print(precision.row("honeybadger, vectors", bench, ranker))
        print(precision.row("… of the content only", bench, partial(ranker, with_names=False)))
    print(f"\n{precision.floor_row(bench)}")


if __name__ == "__main__":
    sys.exit(main())
