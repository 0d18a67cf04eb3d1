"""Notes that a person changed, by the lines of edits; and text below a note is a note of its own."""

from honeybadger_host.journal.edits import Edit
from honeybadger_host.journal.line_hunks import hunks_between, lines_of
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.edited_notes import edited_notes, with_typed
from honeybadger_host.memory.markdown.notes import NOT_EDITED, EditedBy, author_of, parse_notes

AT = 1_795_000_000_000  # 2026-11-18 11:06 UTC, in milliseconds
NOTE = "## Likes (ann, 2026-11-18 11:00)\n- tea\n  with milk\n"


def edit(before: str, after: str, at: int = AT) -> Row:
    hunks = hunks_between(lines_of(before.encode()), lines_of(after.encode()))
    return Edit(1, b"", b"", hunks).row(1, at, "main", "human", "groups/main/MEMORY.md")


def edited(before: str, after: str) -> dict[str, EditedBy]:
    return dict(edited_notes(after, with_typed(NOT_EDITED, [edit(before, after)])))


def test_a_note_with_a_typed_line_is_the_persons() -> None:
    other = NOTE.replace("tea", "cake").replace("  with milk\n", "")
    after = NOTE.replace("milk", "honey") + "\n" + other
    assert edited(NOTE + "\n" + other, after) == {
        NOTE.replace("milk", "honey").strip(): EditedBy("human", "2026-11-18 11:06")
    }


def test_moving_or_pinning_a_note_keeps_its_author() -> None:
    other = NOTE.replace("tea", "cake")
    for after in (
        other + "\n" + NOTE,
        f"{NOTE}\n{other}".replace("\n", "\r\n"),
        f"{NOTE}\n{other}".replace("Likes", "Likes (pinned)"),
        f"{NOTE}\n{other}".replace("tea", "tea (pinned)"),
        f"{NOTE}\n{other}".replace("Likes", "Wishes"),
    ):
        assert edited(f"{NOTE}\n{other}", after) == {}, after


def test_a_later_signed_line_is_its_signers_unless_typed() -> None:
    typed = with_typed(NOT_EDITED, [edit("", "- tea\n  with milk\n")])
    later = NOTE.replace("11:00", "11:07")
    assert edited_notes(later, typed) == {}
    assert [*edited_notes(NOTE, typed)] == [NOTE.strip()]
    forged = with_typed(NOT_EDITED, [edit("", later)])
    assert [*edited_notes(later, forged)] == [later.strip()]


def test_text_below_a_note_is_always_the_persons() -> None:
    book = parse_notes(f"{NOTE}- more\n(ann, 2026-11-18 11:00)\n\n{NOTE}\nBelow (ann, 2026-11-18 11:00)\n")
    assert [author_of(note) for note in book.notes] == ["ann", "", "ann", ""]
    assert [note is None for note in map(book.above, book.places)] == [True, False, True, False]
    archived = f"{NOTE}> Archived 2026-11-22T10:00:00Z by operator: done\nBelow.\n"
    assert [note.count("\n") for note in parse_notes(archived).notes] == [4, 1]
