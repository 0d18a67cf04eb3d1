"""The notes of a MEMORY.md: what they are called, and where they stand."""

from __future__ import annotations

from honeybadger_host.files.file_cache import NEVER_SEEN
from honeybadger_host.files.safe_files import BOM
from honeybadger_host.search.notes import NOTE_ID, notes_of
from honeybadger_host.search.pieces import pieces_of
from honeybadger_host.search.sources import Source


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
