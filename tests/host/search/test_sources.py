"""Files of a home that are searched, and how each becomes pieces that can be found."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from honeybadger_host.files.file_cache import NEVER_SEEN
from honeybadger_host.files.safe_files import Signature
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.search.documents import Piece
from honeybadger_host.search.notes import NOTE_ID, notes_of
from honeybadger_host.search.pieces import pieces_of, turns_of
from honeybadger_host.search.sources import Source, Unsearchable, groups_of, read_source, source_of, sources
from honeybadger_host.text.json_values import BOM
from honeybadger_host.text.turn import Turn

AT = datetime(2026, 11, 21, 6, 5, tzinfo=UTC)
SIGNATURE = Signature(1, 2, 1_700_000_000_000_000_000, 3)
MEMORY = "groups/main/MEMORY.md"
ENTRY = "groups/main/memory/user-preferences/timezone/k3v9x2m4q7p1.json"


def turn_line(number: int, content: str, role: str = "user", sender: str = "ann") -> bytes:
    turn = Turn(number, AT, role, sender, "front", content, 1)  # type: ignore[arg-type]
    return dump_turn(turn, f"r{number}")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (ENTRY, Source(ENTRY, "entry", "main")),
        ("groups/main/memory/a.json", Source("groups/main/memory/a.json", "entry", "main")),
        (MEMORY, Source(MEMORY, "note", "main")),
        ("groups/main/HISTORY.md", Source("groups/main/HISTORY.md", "history", "main")),
        ("data/sessions/main/a:b.jsonl", Source("data/sessions/main/a:b.jsonl", "turn", "main")),
        ("groups/main/CLAUDE.md", None),
        ("groups/main/summary.md", None),
        ("groups/main/memory/.k3v9x2m4q7p1.json.77.tmp", None),
        ("groups/main/memory/general/notes.txt", None),
        ("groups/main/other/MEMORY.md", None),
        ("data/sessions/main/.a.jsonl", None),
        ("data/journal.db", None),
    ],
)
def test_every_file_is_known_by_its_place(file: str, expected: Source | None) -> None:
    assert source_of(file) == expected


def test_an_entry_is_found_by_its_names_too() -> None:
    data = b'{"content": "Lives in Chicago", "title": "Time zone", "aliases": ["TZ"], "tags": ["home"], "by": "bee"}'
    source = Source(ENTRY, "entry", "main")
    (piece,) = pieces_of(source, data, SIGNATURE)
    assert (piece.key, piece.text, piece.category) == ("k3v9x2m4q7p1", "Lives in Chicago", "user-preferences/timezone")
    assert (piece.names, piece.tags, piece.author) == (("Time zone", "TZ"), ("home",), "bee")
    assert piece.at == 1_700_000_000.0


def test_a_dated_line_of_history_is_a_piece() -> None:
    data = b"# History\n\n- [2026-05-03] moved\n- 2026-05-04 unpacked\n  until 2026-05-06\n"
    data += b"## 2026-05-07 10:30 Party\nCake.\n"
    pieces = pieces_of(Source("groups/main/HISTORY.md", "history", "main"), data, SIGNATURE)
    at = [piece.at and datetime.fromtimestamp(piece.at, UTC).isoformat()[:16] for piece in pieces]
    assert at == [None, "2026-05-03T00:00", "2026-05-04T00:00", "2026-05-07T10:30"]
    assert pieces[2].text == "- 2026-05-04 unpacked\n  until 2026-05-06"


def test_only_whole_lines_of_a_log_are_turns() -> None:
    one, two = turn_line(1, "hello"), turn_line(2, "there", "assistant", "bee")
    pieces, whole, skipped = turns_of(one + b"\n{not a turn}\n" + two + two[:10])
    assert [(piece.key, piece.text, piece.role, piece.author) for piece in pieces if isinstance(piece, Piece)] == [
        ("1", "hello", "user", "ann via front"),
        ("2", "there", "assistant", "bee via front"),
    ]
    assert whole == len(one) + 1 + 13 + len(two)
    assert skipped == 1


def test_only_searched_files_of_a_group_are_listed(tmp_path: Path) -> None:
    for file in (ENTRY, MEMORY, "data/sessions/main/s.jsonl", "groups/main/CLAUDE.md", "groups/main/memory/a/x.txt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"x")
    (tmp_path / "groups/main/memory/.git").mkdir()
    (tmp_path / "groups/main/memory/.git/a.json").write_bytes(b"x")
    (tmp_path / "groups/other").mkdir()
    (tmp_path / "groups/not a name").mkdir()
    folders: set[str] = set()
    found = {source.file for source, _ in sources(tmp_path, "main", folders)}
    assert found == {ENTRY, MEMORY, "data/sessions/main/s.jsonl"}
    assert folders == {
        "groups/main/memory",
        "groups/main/memory/a",
        "groups/main/memory/user-preferences",
        "groups/main/memory/user-preferences/timezone",
    }
    assert groups_of(tmp_path) == ["main", "other"]
    assert not list(sources(tmp_path, "nobody", folders))


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("link", "is a link"), ("fifo", "is a FIFO"), (".", "is a folder")):
        with pytest.raises(Unsearchable, match=why):
            read_source(tmp_path, name, most_bytes=100)
    with pytest.raises(Unsearchable, match="has 6 bytes, the limit is 5"):
        read_source(tmp_path, "secret", most_bytes=5)
    assert read_source(tmp_path, "nothing", most_bytes=5) is None
    part = read_source(tmp_path, "secret", start=1, most_bytes=3, is_cut=True)
    assert part is not None
    assert part[0] == b"ecr"


def test_search_finds_a_notes_id_and_place() -> None:
    written = [f"\n## Notes (bee, 2026-11-22 09:00)\n- {text}\n".encode() for text in ("one", "two\n  of it", "one")]
    data = BOM + b"# Ours\n\nWhat a person wrote.\n" + b"".join(written)
    found = notes_of("main", data)
    pieces = pieces_of(Source("groups/main/MEMORY.md", "note", "main"), data, NEVER_SEEN)
    assert [*found] == [f"{NOTE_ID}{piece.key}" for piece in pieces[1:]]
    assert [data[slice(*place.span)] for place in found.values()] == written
    assert [place.text for place in found.values()] == ["one", "two\nof it", "one"]
    first, *_, last = found
    assert last == f"{first}-2"
    assert notes_of("main", b"## Own\n- \xff\n") == {}
