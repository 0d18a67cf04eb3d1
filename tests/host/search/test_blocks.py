"""A large group is searched in blocks of its database: it finds the same, in bounded memory, also when it changes."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.search import blocks
from honeybadger_host.search import index as index_module
from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.index import INDEX_FILE, Index
from honeybadger_host.search.ranking import EVERY, Filters, Hit, search
from honeybadger_host.text.turn import Turn
from tests.host.search.indexed import done

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WORDS = ("badger", "honey", "river", "Schokolade", "mountain", "typescript", "蜜獾", "yesterday", "queen", "blue?")
QUESTIONS = (
    *("badger honey", "What did Ann say about the river yesterday?", "When did Ann see the queen?", "typsecript"),
    *("獾", "what is new in June 2026", "nothing of this", "word7 badger"),
)
MEMORY = "groups/main/MEMORY.md"
LOG = "data/sessions/main/s.jsonl"


def filled(home: Path, rng: random.Random, first: int, count: int, group: str = "main") -> Sequence[str]:
    """Write so many entries, turns and notes; return the files."""

    def text(number: int) -> str:
        return " ".join([*rng.choices(WORDS, k=rng.randint(1, 9)), f"word{number}"])

    folder = home / f"groups/{group}/memory/general"
    for path in (folder, home / "groups/main", (home / LOG).parent):
        path.mkdir(parents=True, exist_ok=True)
    files = [MEMORY, LOG]
    for number in range(first, first + count):
        files.append(f"groups/{group}/memory/general/e{number}.json")
        entry = {"content": text(number), "by": "ann", "tags": [f"T{number % 3}"]}
        (home / files[-1]).write_bytes(orjson.dumps(entry))
        with (home / MEMORY).open("a") as notes:
            notes.write(f"\n## Notes (ann, 2026-05-{number % 28 + 1:02} 06:05)\n- {text(number)}\n")
        with (home / LOG).open("ab") as turns:
            sender = rng.choice(["ann", "bob"])
            turns.write(dump_turn(Turn(number, NOW, "user", sender, "front", text(number), 1), f"r{number}"))
    return files


def hits(index: Index, question: str, filters: Filters = EVERY) -> list[Hit]:
    def ask(corpus: Corpus) -> list[Hit]:
        return search(corpus, question, now=NOW, limit=30, filters=filters)

    found, is_complete = index.search("main", ask)
    assert is_complete
    return found


def told(index: Index, question: str) -> list[tuple[str, float]]:
    """Return key and score of what is found, in an order that does not depend on the numbers of documents."""
    found = hits(index, question)
    shown = index.lookups.show([hit.number for hit in found])
    return sorted((shown[hit.number].key, round(hit.score, 4)) for hit in found)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.fixture
def opened(home: Path) -> Iterator[Index]:
    index = Index(home, home / INDEX_FILE, max_memory_bytes=100_000_000)
    yield index
    index.close()


@pytest.mark.parametrize("size", [1, 40, 100])
def test_blocks_find_what_documents_in_memory_do(home: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    rng = random.Random(5)
    filled(home, rng, 1, 40)
    filled(home, rng, 41, 30, "global")
    in_memory = Index(home, None, max_memory_bytes=100_000_000)
    assert in_memory.search("main", len) == (210, True)
    monkeypatch.setattr(blocks, "BLOCK_DOCUMENTS", size)
    in_blocks = Index(home, None, max_memory_bytes=100_000_000)
    try:
        for question in QUESTIONS:
            assert hits(in_blocks, question) == hits(in_memory, question), question
            assert hits(in_memory, question) or question == "nothing of this"
        tagged = Filters(tags=["t1"])
        assert hits(in_blocks, "badger", tagged) == hits(in_memory, "badger", tagged) != []
    finally:
        in_memory.close()
        in_blocks.close()


@pytest.mark.parametrize("most_gone", [0, 100])
def test_changes_to_blocks_are_those_to_documents(
    home: Path, opened: Index, monkeypatch: pytest.MonkeyPatch, most_gone: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_DOCUMENTS", 16)
    monkeypatch.setattr(index_module, "BLOCK_DOCUMENTS", most_gone)
    rng = random.Random(6)
    filled(home, rng, 1, 40)
    told(opened, "badger")
    for file in filled(home, rng, 41, 20):
        opened.touch(file)
    gone = "groups/main/memory/general/e7.json"
    (home / gone).unlink()
    opened.touch(gone)
    before = {question: told(opened, question) for question in (*QUESTIONS, "word50", "ord5")}
    assert before["word50"]
    opened.touch(gone)
    done(opened.work())
    assert {question: told(opened, question) for question in before} == before
    again = Index(home, home / INDEX_FILE, max_memory_bytes=1)
    assert {question: told(again, question) for question in before} == before
    again.close()
    anew = Index(home, None, max_memory_bytes=100_000_000)
    assert {question: told(anew, question) for question in before} == before
    anew.close()
