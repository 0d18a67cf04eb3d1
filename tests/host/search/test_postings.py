"""A group whose words need much memory is searched from a file: it finds the same, in bounded memory."""

from __future__ import annotations

import random
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.search import postings
from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.index import INDEX_FILE, Index
from honeybadger_host.search.index_db import IndexFile
from honeybadger_host.search.postings import Filed
from honeybadger_host.search.ranking import search
from honeybadger_host.search.scoring import Hit
from honeybadger_host.text.turn import Turn

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WORDS = ("badger", "honey", "river", "Schokolade", "mountain", "typescript", "蜜獾", "yesterday", "queen", "blue?")
QUESTIONS = (
    "badger honey",
    "What did Ann say about the river yesterday?",
    "typsecript",
    "獾",
    "what is new in June 2026",
    "nothing of this",
    "word7 badger",
)


def filled(home: Path, rng: random.Random, first: int, count: int) -> Sequence[str]:
    """Write so many entries, turns and notes; return the files."""

    def text(number: int) -> str:
        return " ".join([*rng.choices(WORDS, k=rng.randint(1, 9)), f"word{number}"])

    folder, log = home / "groups/main/memory/general", home / "data/sessions/main/s.jsonl"
    memory = "groups/main/MEMORY.md"
    for path in (folder, log.parent):
        path.mkdir(parents=True, exist_ok=True)
    files = [memory, "data/sessions/main/s.jsonl"]
    for number in range(first, first + count):
        files.append(f"groups/main/memory/general/e{number}.json")
        (home / files[-1]).write_bytes(orjson.dumps({"content": text(number), "by": "ann"}))
        with (home / memory).open("a") as notes:
            notes.write(f"\n## Notes (ann, 2026-05-{number % 28 + 1:02} 06:05)\n- {text(number)}\n")
        with log.open("ab") as turns:
            sender = rng.choice(["ann", "bob"])
            turns.write(dump_turn(Turn(number, NOW, "user", sender, "front", text(number), 1), f"r{number}"))
    return files


def hits(index: Index, question: str) -> list[Hit]:
    def ask(corpus: Corpus) -> list[Hit]:
        return search(corpus, question, now=NOW, limit=30)

    found, is_complete = index.search("main", ask)
    assert is_complete
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.mark.parametrize("segment", [1, 40, 1 << 20])
def test_postings_in_a_file_equal_those_in_memory(home: Path, monkeypatch: pytest.MonkeyPatch, segment: int) -> None:
    monkeypatch.setattr(postings, "_SEGMENT_POSTINGS", segment)
    monkeypatch.setattr(postings, "_TERMS_PER_STEP", 3)
    monkeypatch.setattr("honeybadger_host.search.corpora._BYTES_AT_ONCE", 64)
    rng = random.Random(5)
    filled(home, rng, 1, 60)
    in_memory = Index(home, home / INDEX_FILE, max_memory_bytes=100_000_000)
    in_memory.read_all("main")
    in_file = Index(home, home / INDEX_FILE, max_memory_bytes=1)
    try:
        assert isinstance(in_file.search("main", lambda corpus: corpus._loaded_postings)[0], Filed)
        for question in QUESTIONS:
            found = hits(in_file, question)
            assert found == hits(in_memory, question), question
            assert found or question == "nothing of this"
    finally:
        in_memory.close()
        in_file.close()


def test_changes_to_filed_postings_equal_those_in_memory(home: Path) -> None:
    rng = random.Random(6)
    filled(home, rng, 1, 40)
    index = Index(home, home / INDEX_FILE, max_memory_bytes=1)
    index._corpora._most_postings = 0
    hits(index, "badger")
    index._corpora._most_postings = 1 << 30  # what comes now stays beside the file
    for file in filled(home, rng, 41, 20):
        index.touch(file)
    gone = "groups/main/memory/general/e7.json"
    (home / gone).unlink()
    index.touch(gone)
    beside = {question: hits(index, question) for question in (*QUESTIONS, "word50", "ord5")}
    corpus = index.search("main", lambda corpus: corpus)[0]
    assert corpus.later_bytes > 0
    assert isinstance(corpus._loaded_postings, Filed)
    index.close()
    again = Index(home, None, max_memory_bytes=100_000_000)
    for question, found in beside.items():
        anew = [(hit.key, round(hit.score, 4)) for hit in hits(again, question)]
        assert sorted((hit.key, round(hit.score, 4)) for hit in found) == sorted(anew), question
    again.close()


def test_a_corpus_that_grew_much_is_loaded_again(home: Path) -> None:
    index = Index(home, home / INDEX_FILE, max_memory_bytes=400_000)
    corpora = set()
    for number in range(12):
        path = home / "groups/main/MEMORY.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as notes:
            notes.writelines(f"\n## Notes (ann, 2026-05-01 06:05)\n- w{number}x{each}\n" for each in range(50))
        index.touch("groups/main/MEMORY.md")
        later, kept = index.search("main", lambda corpus: (corpus.later_bytes, corpus))[0]
        assert later <= 100_000
        corpora.add(kept)
        assert [hit.key for hit in hits(index, f"w{number}x49")]
    assert index.search("main", len)[0] == 600
    assert len(corpora) > 1
    index.close()


def test_a_folder_that_takes_no_file_is_told(home: Path) -> None:
    file = IndexFile(None, lambda: None)
    with pytest.raises(WorldFailed, match=r"cannot be kept in a file of data/ \(No such file or directory\)"):
        Filed(file, home / "gone")
    file.close()


SEARCHED = """
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from honeybadger_host.search.index import INDEX_FILE, Index
from honeybadger_host.search.ranking import search


def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) >> 10


index = Index(Path(sys.argv[1]), Path(sys.argv[1]) / INDEX_FILE, max_memory_bytes=64 << 20)
index.search("other", len)  # imports what a search needs
before = peak()
found = []
for question in ("x000000123", "x000999999 common7"):
    ask = partial(search, question=question, now=datetime.now(UTC), limit=3)
    hits = index._corpora.search("main", ask)  # the file itself is not there
    found.append(hits[0].key)
print(*found, peak() - before)
"""


def test_a_million_words_are_searched_in_bounded_memory(home: Path) -> None:
    """The notes are put into the index as reading would, which takes a second for a MiB."""
    index = Index(home, home / INDEX_FILE, max_memory_bytes=0)
    common, notes, unique = 5000, 1000, 1_000_000
    group = index._db.group("main")
    least = index._db.span(group)[0]
    index._db.rows("INSERT INTO sources VALUES (?, 'groups/main/MEMORY.md', 0, 0, 0, 0, 0, '')", (least + 1,))

    def documents() -> Iterator[tuple[object, ...]]:
        shared = array("I", range(1, common + 1)).tobytes()
        for number in range(notes):
            yield _note(least + number + 1, least + 1, shared)
        for number in range(200):
            own = array("I", range(number * 5000 + common + 1, number * 5000 + common + 5001)).tobytes()
            yield _note(least + notes + number + 1, least + 1, own)

    with index._db.transaction() as db:
        names = (f"common{number}" for number in range(common))
        db.executemany("INSERT INTO terms (term) VALUES (?)", ((name,) for name in sorted(names)))
        db.executemany("INSERT INTO terms (term) VALUES (?)", ((f"x{number:09}",) for number in range(unique)))
        columns = "number, source, kind, key, author, role, category, tags, length, terms, digest, name, title, names"
        db.executemany(f"INSERT INTO docs ({columns}, bytes, text) VALUES ({','.join('?' * 16)})", documents())
    index.close()
    ran = subprocess.run([sys.executable, "-c", SEARCHED, str(home)], stdout=subprocess.PIPE, text=True, check=True)
    first, second, mib = ran.stdout.splitlines()[-1].split()
    assert (first, second) == ("k1001", "k1200")
    assert int(mib) < 160  # 330 when all was in memory


def _note(number: int, source: int, terms: bytes) -> tuple[object, ...]:
    return (number, source, 2, f"k{number & 0xFFFF}", "ann", "", "", "", 5000, terms, b"", "", "", "", 0, "")
