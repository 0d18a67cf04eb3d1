"""A MEMORY.md over the limit: of each author the newest notes are served, and what is not is counted."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.markdown.large_notes import newest_notes
from honeybadger_host.memory.markdown.notes import NoteBook, author_of, parse_notes

MIB = 1 << 20


def signed(author: str, text: str) -> str:
    return f"\n## Notes ({author}, 2026-11-21 06:05)\n- {text}\n"


def served(data: bytes, most_bytes: int, block_bytes: int = MIB) -> tuple[str, dict[str, int]]:
    return newest_notes(lambda length, at: data[at : at + length], len(data), most_bytes, block_bytes)


def some_file(rng: random.Random) -> str:
    """Return notes of some authors and people, in any order and of any length."""
    pieces = [rng.choice(["", "", "\ufeff", "kept by hand\n" * rng.randint(1, 30)])]
    for number in range(rng.randint(0, 60)):
        text = f"{number} " + rng.choice(["x", "ü", "茶", "## no heading", "(a, b)"]) * rng.randint(0, 60)
        match rng.randint(0, 9):
            case 0:
                pieces.append(f"\n## By hand\n{text}\n")
            case 1:
                pieces.append(f"\r\n## Notes (ann, 2026-11-21 06:05)\r\n- {text}\r\n")
            case 2:
                pieces.append(f"\n### Small\n#Tag\n##Tag\n{text}\n")
            case _:
                pieces.append(signed(rng.choice(["ann", "bot", "bot", "bot", "cat"]), text))
    return "".join(pieces)


def headed(book: NoteBook) -> list[str]:
    """Return the notes without what stands below signed ones: it is served with these."""
    return [note for note in book.notes if note.startswith("## ")]


@pytest.mark.parametrize("seed", range(12))
def test_the_rest_of_a_large_file_is_counted(seed: int) -> None:
    rng = random.Random(seed)
    text = some_file(rng)
    most, block = rng.randint(200, 3000), rng.choice([1, 7, 64, 1000, MIB])
    book = parse_notes(text.removeprefix("\ufeff"))
    got, unread = served(text.encode(), most, block)
    kept = parse_notes(got)
    assert Counter(map(author_of, headed(kept))) + Counter(unread) == Counter(map(author_of, headed(book)))
    whole = [note.strip() for note in kept.notes if "[... shortened]" not in note]
    there = [note.strip() for note in book.notes]
    assert [note for note in there if note in whole] == whole  # each is of the file, in its order
    for author in book.counts:
        mine = [note.strip() for note in headed(book) if author_of(note) == author]
        got_of_author = [note.strip() for note in headed(kept) if author_of(note) == author]
        if got_of_author and "[... shortened]" not in got_of_author[-1]:
            assert mine[-len(got_of_author) :] == got_of_author  # its newest
    assert len(got.encode()) <= most + 100
    if not kept.preface.startswith("[... text above left out]"):
        assert kept.preface.strip() == book.preface.strip()
    if len(text.encode()) <= most // 4:
        assert (got.lstrip(), unread) == (text.removeprefix("\ufeff").lstrip(), {})


def test_a_growing_large_file_is_served_at_once(tmp_path: Path) -> None:
    path = tmp_path / "groups/main/MEMORY.md"
    path.parent.mkdir(parents=True)
    path.write_text(signed("bot", "x" * 1000) * 2000)
    files = GroupFiles(tmp_path)
    for number in range(5):
        with path.open("a") as file:
            file.write(signed("ann", f"number {number}"))
        text = files.read("groups/main/MEMORY.md")
        assert text is not None
        assert f"- number {number}\n" in text.text
        assert text.unread is not None
        assert text.unread.keys() == {"bot"}
    path.write_text(signed("ann", "small again"))
    text = files.read("groups/main/MEMORY.md")
    assert text is not None
    assert (text.text, text.unread) == (signed("ann", "small again"), None)


LARGE = """
import sys, time
from pathlib import Path
from honeybadger_host.memory.markdown.group_files import GroupFiles

home = Path(sys.argv[1])
files = GroupFiles(home)


def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))


before = peak()
began = time.process_time()
text = files.read("groups/main/MEMORY.md")
assert "- the first\\n" in text.text, text.text[:100]
assert text.text.endswith("- the last\\n")
print(round(time.process_time() - began, 2), (peak() - before) // 1024)
"""


def test_256_mib_are_served_in_32_mib_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "groups/main/MEMORY.md"
    path.parent.mkdir(parents=True)
    part = "".join(signed("bot", "x" * size) * (2 * MIB // size) for size in (32_000, 1000)).encode()
    with path.open("wb") as file:
        file.write(signed("ann", "the first").encode())
        for _ in range(64):
            file.write(part)
        file.write(signed("bot", "the last").encode())
    ran = subprocess.run([sys.executable, "-c", LARGE, str(tmp_path)], capture_output=True, text=True, check=True)
    seconds, mib = map(float, ran.stdout.split())
    assert path.stat().st_size > 256 * MIB
    assert seconds < 60  # about two on a quiet machine
    assert mib < 32
