"""The notes of a MEMORY.md: what they are called, where they stand, and which of them stay as they are."""

from __future__ import annotations

from honeybadger_host.curation.notes import NOTE_ID, notes_of, protected_notes
from honeybadger_host.files.file_cache import NEVER_SEEN
from honeybadger_host.files.safe_files import BOM
from honeybadger_host.search.pieces import pieces_of
from honeybadger_host.search.sources import Source


def note(text: str, author: str = "bee", section: str = "Notes") -> bytes:
    return f"\n## {section} ({author}, 2026-11-22 09:00)\n- {text}\n".encode()


def test_search_finds_a_notes_id_and_place() -> None:
    data = BOM + b"# Ours\n\nWhat a person wrote.\n" + b"".join(map(note, ("one", "two\n  of it", "three", "one")))
    found = notes_of("main", data)
    pieces = pieces_of(Source("groups/main/MEMORY.md", "note", "main"), data, NEVER_SEEN)
    assert [*found] == [f"{NOTE_ID}{piece.key}" for piece in pieces[1:]]
    assert [data[slice(*place.span)] for place in found.values()] == [
        *map(note, ("one", "two\n  of it", "three", "one"))
    ]
    assert [place.text for place in found.values()] == ["one", "two\nof it", "three", "one"]
    first, *_, last = found
    assert last == f"{first}-2"


def test_what_is_pinned_or_a_person_wrote_is_protected() -> None:
    data = b"".join(
        (
            note("a (pinned)"),
            note("b", section="Own (pinned)"),
            note("c", "human"),
            note("d"),
            b"\n## Own\n- e\n",
            note("f", "operator"),
        )
    )
    notes = notes_of("main", data)
    assert [notes[each].text for each in protected_notes(notes)] == ["a (pinned)", "b", "c", "e", "f"]
    assert notes_of("main", b"## Own\n- \xff\n") == {}
