"""Texts that say nearly the same are found by a few numbers, wherever most of their words stand in the same order."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from honeybadger_host.search.index import Index
from honeybadger_host.search.language.similarity import in_common, sketch, words_of
from tests.host.indexes import index_of

SYLLABLES = ["ba", "ke", "lo", "mi", "nu", "pra", "ste", "gro", "vel"]
WORDS = [f"{first}{second}{last}" for first in SYLLABLES for second in SYLLABLES for last in SYLLABLES]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User prefers dark mode", "User prefers light mode"),
        ("The office of Mr Glanz is closed on Mondays", "the office of Mr. Glanz is closed on mondays, since May"),
        ("東京の事務所は月曜日に閉まっています", "東京の事務所は火曜日に閉まっています"),
        ("Анна пьёт зелёный чай по утрам", "Анна пьёт чёрный чай по утрам"),
    ],
)
def test_texts_that_share_most_words_share_a_number(one: str, other: str) -> None:
    assert sketch(one) & sketch(other)


def put(home: Path, texts: dict[str, str]) -> None:
    folder = home / "groups/main/memory/general"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.json").write_bytes(orjson.dumps({"content": text}))


def test_nearly_all_similar_entries_of_thousands_are_found(home: Path) -> None:
    rng = random.Random(7)
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]  # few words, and some of them everywhere: the hard case
    texts = ["User " + " ".join(rng.choices(WORDS, weights, k=rng.randint(6, 25))) for _ in range(2500)]
    put(home, {f"e{number}": text for number, text in enumerate(texts)})
    index = index_of(home)
    index.read_all("main")
    found = wanted = 0
    for text in rng.sample(texts, 300):
        words = text.split()
        for _ in range(max(1, len(words) // 8)):
            words[rng.randrange(1, len(words))] = rng.choice(WORDS)
        if in_common(frozenset(words_of(text)), frozenset(words_of(" ".join(words)))) >= 0.7:
            wanted += 1
            found += any(one.text == text for one in index.lookups.nearly("main", " ".join(words)))
    assert wanted > 150
    assert found / wanted > 0.9


def test_changed_and_removed_entries_leave_no_numbers(home: Path) -> None:
    put(home, {"kept": "the office closes at noon", "gone": "the cat sleeps on the stove"})
    path = home / "data/index.db"
    path.parent.mkdir(exist_ok=True)
    with closing(Index(home, path, max_memory_bytes=100_000_000)) as index, closing(sqlite3.connect(path)) as db:
        index.read_all("main")
        put(home, {"kept": "the office opens at seven"})
        (home / "groups/main/memory/general/gone.json").unlink()
        index.read_all("main")
        assert {pair for (pair,) in db.execute("SELECT pair FROM sketches")} == sketch("the office opens at seven")
