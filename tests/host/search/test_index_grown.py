"""A large MEMORY.md that only grew is read from its last note on, and is indexed as if it had been read whole."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from honeybadger_host.search import indexer
from honeybadger_host.search.documents import Kind, Piece
from honeybadger_host.search.index import INDEX_FILE, Index
from honeybadger_host.search.pieces import terms_of
from tests.host.search.indexed import done

FILE = "groups/main/MEMORY.md"
NOTES = [
    *("- tea\n", "- coffee\n", "- tea\nand more\n", "- tea\n  and\n\nmine, below\n", "", "## \n"),
    *("text without a heading\n", "- ünï 茶\n"),
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    (tmp_path / "data").mkdir()
    (tmp_path / "groups/main").mkdir(parents=True)
    opened = open_index(tmp_path, tmp_path / INDEX_FILE)
    yield opened
    opened.close()


def open_index(home: Path, file: Path | None) -> Index:
    return Index(home, file, max_memory_bytes=0)


def indexed(index: Index) -> list[tuple[str, str]]:
    """Return (key, text) of every note that is indexed, sorted."""
    while not index.bring_up("main"):
        done(index.work())
    return sorted(index._db.rows("SELECT key, text FROM docs WHERE kind = 2 OR kind = 1", ()))


def changed(text: str, rng: random.Random) -> str:
    """Return what a host or a person may make of a MEMORY.md."""
    note = f"\n## Notes (ann, 2026-11-21 06:0{rng.randint(0, 2)})\n{rng.choice(NOTES)}"
    at = rng.randint(0, len(text))
    match rng.randint(0, 9):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + note + text[at:]
        case 2:
            return text + rng.choice(["more\n", "#", "\n## ", "\r\n## x\n"])
        case 3:
            return rng.choice(["", "\ufeff", "preface\n"]) + text
        case 4:
            last = text.rfind("\n## ") + 1
            return f"{text[:last]}mine\n{text[last:]}"
        case _:
            return text + note


@pytest.mark.parametrize("part_bytes", [1 << 18, 150], ids=["at once", "in parts"])
@pytest.mark.parametrize("seed", range(3))
def test_a_grown_index_equals_a_whole_reading(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, part_bytes: int
) -> None:
    monkeypatch.setattr(indexer, "READ_AT_ONCE", part_bytes)
    rng = random.Random(seed)
    text = ""
    for _ in range(30):
        text = changed(text, rng)
        (tmp_path / FILE).write_text(text, newline="")
        index.touch(FILE)
        found = indexed(index)
        fresh = open_index(tmp_path, None)
        with monkeypatch.context() as whole:
            whole.setattr(indexer, "READ_AT_ONCE", 1 << 18)
            assert found == indexed(fresh), text
        fresh.close()


def test_only_an_appended_note_is_read(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(kind: Kind, piece: Piece) -> list[str]:
        read.append(piece.text)
        return terms_of(kind, piece)

    monkeypatch.setattr(indexer, "terms_of", counted)
    path = tmp_path / FILE
    path.write_text("".join(f"\n## Notes (ann, 2026-11-21 06:05)\n- number {number}\n" for number in range(1000)))
    index.touch(FILE)
    assert len(indexed(index)) == 1000
    with path.open("a") as file:
        file.write("\n## Notes (ann, 2026-11-21 06:06)\n- one more\n")
    read.clear()
    index.touch(FILE)
    assert len(indexed(index)) == 1001
    assert read == ["- one more"]
