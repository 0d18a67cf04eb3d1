"""A text that a person read, thought about and saved takes no note that came meanwhile."""

from collections.abc import Callable
from pathlib import Path

import pytest

from honeybadger_host.documents import rendering
from honeybadger_host.documents.history import remove_notes
from honeybadger_host.documents.versions import removed_unread
from honeybadger_host.errors import WorldFailed
from honeybadger_host.journal.changes import Added, NotesRevised
from honeybadger_host.memory.markdown.group_files import GroupFiles, text_of
from honeybadger_host.text.json_values import BOM
from tests.host.documents.world import LAYOUTS, MEMORY, World, note


@pytest.mark.parametrize("laid_out", LAYOUTS.values(), ids=LAYOUTS)
def test_an_editor_that_lays_out_changes_no_note(world: World, laid_out: Callable[[bytes], bytes]) -> None:
    world.add("a", "b")
    read = world.text
    world.look()
    world.add("c")
    world.save(laid_out(read + b"Only on Sundays.\n"))
    wanted = read + b"Only on Sundays.\n" + note("c")
    assert world.projections.saves.current(MEMORY) == wanted
    (edit,) = world.look()
    assert world.text == wanted
    assert [bytes(line) for hunk in edit.hunks or () for line in hunk.added] == [b"Only on Sundays.\n"]
    assert edit.removed == 0
    world.save(laid_out(world.text))
    assert not world.look()
    assert world.text == wanted


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_text_is_merged_once_it_is_utf_8(world: World, encoding: str) -> None:
    world.add("a")
    world.look(seconds=60)
    served, typed = world.text, world.text + "Größe 42.\n".encode()
    other = typed.decode().encode(encoding)
    removed = removal(world, "a")
    world.save(other)
    assert (world.projections.saves.current(MEMORY), world.look()) == (served, [])
    world.add("b")
    world.kill()
    assert world.projections.saves.current(MEMORY) == served + note("b")
    assert (world.look(), world.text, world.projections.saves.damaged()) == ([], other, [MEMORY])
    with pytest.raises(WorldFailed, match=r"MEMORY.md cannot be read \(`honeybadger-host doctor` says why\)"):
        world.commit(removed)
    world.save(typed)
    world.look()
    assert (world.text, world.projections.saves.damaged()) == (typed + note("b"), [])


def test_a_persons_own_file_keeps_its_line_ends(world: World) -> None:
    file = "groups/main/CLAUDE.md"
    for text in (
        b"# You\nare short.\n",
        BOM + b"# You\r\nare short.\r\n\r\n## Ben (b, 2026-11-21 06:05)\r\n\r\n* tea\r\n",
    ):
        world.save(text, file=file)
        world.look(file)
        assert world.read(file) == text


def test_deletions_stay_and_changes_appear_once(world: World) -> None:
    world.add("a")
    world.add("b")
    world.add("c")
    world.look(seconds=5)
    world.save(note("a") + note("c"))
    world.look()
    assert world.text == note("a") + note("c")
    world.save(note("a") + note("cake"))
    world.look()
    assert world.text == note("a") + note("cake")
    world.save(note("a"))  # the newest, alone
    world.look()
    assert world.text == note("a")
    world.add("d")
    assert world.text == note("a") + note("d")


@pytest.mark.parametrize("left", [b"", b"a pier\n", b"Plain words.\n"], ids=["nothing", "no bullet", "others"])
def test_the_words_of_the_newest_note_may_go_from_below_its_heading(world: World, left: bytes) -> None:
    world.add("n1 a boat", "n2 a pier")
    world.look(seconds=60)
    saved = world.text.replace(b"- n2 a pier\n", left)
    world.save(saved)
    world.look()
    assert world.text == saved
    world.add("c")
    assert world.text == saved + note("c")


@pytest.mark.parametrize("revised", [b"- tea\n", b"\n", b""], ids=["replaced", "emptied", "deleted"])
def test_a_person_may_revise_the_line_they_typed_last(world: World, revised: bytes) -> None:
    world.add("a")
    world.save(world.text + b"\n- eggs\n- bread\n")
    world.look(seconds=60)
    for typed in (b"- milk\n", b"- tickets for the museum on Sunday\n"):
        world.save(world.text.replace(b"- bread\n", typed + b"- bread\n"))
        world.look(seconds=300)
        saved = world.text.replace(typed, revised)
        world.save(saved)
        world.look(seconds=300)
        assert world.text == saved


def test_an_editor_left_open_takes_no_note_back(world: World) -> None:
    world.add("a")
    world.look(seconds=60)
    read = world.text
    for text in (read + b"Mine.\n", b"Mine, too.\n" + read + b"Mine.\n", b"Mine, too.\n" + read, read):
        world.save(text)
        world.look(seconds=300)
        world.add("meanwhile", "too")
    assert world.text == read + 4 * (note("meanwhile") + note("too"))


@pytest.mark.parametrize("deleted", [b"Mine.\nIt has two lines.\n", note("a")])
def test_what_a_person_deletes_and_brings_back_stays(world: World, deleted: bytes) -> None:
    world.add("a", "b")
    world.look(seconds=60)
    whole = b"Mine.\nIt has two lines.\n" + world.text
    world.save(whole)
    world.look(seconds=60)
    world.save(whole.replace(deleted, b""))
    world.look(seconds=3)
    world.add("c")
    world.save(whole + b"And one more.\n")  # undone in the editor, and typed on
    world.look()
    assert world.text == whole + b"And one more.\n" + note("c")
    world.save(world.text.replace(deleted, b""))
    world.look(seconds=70)
    world.save(whole + b"And one more.\nAnother person was here.\n")  # who had the text open
    world.look()
    assert deleted.splitlines()[-1] not in world.text.splitlines()
    assert b"Another person was here.\n" in world.text


def test_what_one_person_wrote_stays_when_another_saves(world: World) -> None:
    world.add("a", "b")
    earlier = world.text
    world.look(seconds=60)
    world.add("c")
    world.save(b"Yours.\n" + world.text)
    world.look(seconds=3)
    world.save(world.text.replace(note("a"), b""))
    world.look(seconds=3)
    world.save(b"Mine.\n" + earlier)  # by who has read none of that
    world.look()
    assert sorted(world.text.split()) == sorted((b"Mine.\nYours.\n" + earlier + note("c")).split())


N = [note(f"n{number}") for number in range(5)]
REST = N[2] + N[3] + N[4]


@pytest.mark.parametrize(
    ("saves", "stays"),
    [
        ([N[0] + b"One.\n" + N[1], N[0] + b"Other.\n" + N[1] + N[2] + N[3]], N[3] + N[4]),
        ([N[0] + N[1] + b"One line.\n" + N[3], N[0].replace(b"- n0\n", b"") + N[1]], N[3] + N[4]),
        ([b"Top.\n" + N[0] + b"One.\n" + N[1], N[0] + b"Other.\n" + N[1]], b"Top.\n"),
        ([N[0] + typed + N[1] + REST for typed in (b"1.\n", b"1.\n2.\n")] + [N[0] + b"Other.\n" + N[1] + N[2]], REST),
        ([N[0] + b"1.\n" + N[1] + typed + REST for typed in (b"", b"2.\n")] + [N[0] + N[1] + b"Other.\n" + N[2]], REST),
    ],
)
def test_unread_lines_stay_when_two_people_change_one_place(world: World, saves: list[bytes], stays: bytes) -> None:
    for number in range(5):
        world.add(f"n{number}")
        world.look(seconds=60)
    for text in saves:
        world.save(text)
        world.look()
    assert stays in world.text


def test_a_removed_file_stays_gone_until_the_next_note(world: World) -> None:
    world.add("a")
    world.look(seconds=60)
    world.path.unlink()
    (edit,) = world.look()
    assert (edit.kind, world.path.exists()) == ("edit_removed", False)
    world.add("b")
    assert world.text == note("b")
    world.look(seconds=60)
    world.path.unlink()
    world.add("c")  # the file waits: some editors remove it just before they write it
    shown = GroupFiles(world.home, view=world.projections.saves.view).read(MEMORY)
    assert shown == text_of(MEMORY, note("c"))
    assert world.projections.saves.current(MEMORY) == note("c")
    world.kill()
    world.look()
    assert world.text == note("c")


def test_a_note_deleted_without_a_host_stays_gone(tmp_path: Path) -> None:
    stuck = "data/feedback/main.jsonl"
    world = World(tmp_path)
    world.add("a")
    with world.decided(Added("feedback", "main", stuck, b"{}\n")):
        (tmp_path / stuck).unlink()
        (tmp_path / stuck).mkdir()
    world.add("b")
    world.checkpoint()
    world.passed += 10
    world.journal.close()
    world.save(note("a"))
    world.passed += 60
    world.start()
    world.look()
    assert (world.text, world.projections.behind) == (note("a"), [stuck])
    world.journal.close()


def test_a_save_continued_after_a_pause_is_one(world: World) -> None:
    world.add(*"abcd")
    world.look(seconds=60)
    whole = b"Mine.\n" + world.text
    world.save(whole[:60], in_place=True)
    world.look()
    world.add("e")
    world.save(whole, in_place=True)
    world.look()
    said = [[line for line in text.split(b"\n") if line] for text in (world.text, whole + note("e"))]
    assert said[0] == said[1]


def test_a_note_reworded_soon_after_another_save_is_one(world: World) -> None:
    world.add("likes tea")
    world.look(seconds=60)
    for old, new in ((b"likes tea", b"loves tea"), (b"likes cake", b"loves cake")):
        world.save(world.text.replace(old, new))
        world.look()
        world.add("likes cake")
    assert world.text == note("loves tea") + note("loves cake") + note("likes cake")


def test_a_text_that_a_person_rewrites_is_theirs(world: World) -> None:
    for text in (b"# Keeper\nFor all.\n", b"# Keeper\nFor all of us.\nAnd kindly.\n", b"# Keeper\nFor us.\n"):
        world.save(text)
        world.look()
        assert world.text == text


def removal(world: World, text: str) -> NotesRevised:
    begin = world.text.index(note(text))
    return remove_notes("main", MEMORY, world.text, [(begin, begin + len(note(text)))])


def test_a_removal_that_a_kill_cut_short_is_finished(world: World) -> None:
    world.add("a", "b", "c")
    world.look()
    world.commit(removal(world, "b"))
    assert world.text == note("a") + note("b") + note("c")
    world.kill()
    assert world.text == note("a") + note("c")


def test_removing_a_text_saved_meanwhile_is_refused(world: World) -> None:
    world.add("a", "b", "c")
    removed = removal(world, "b")
    world.save(b"Mine.\n" + world.text)
    with pytest.raises(WorldFailed, match="was changed meanwhile"):
        world.commit(removed)
    world.look()
    with pytest.raises(WorldFailed, match="was changed meanwhile"):
        world.commit(removed)
    world.projections.write(world.commit(removal(world, "b")))
    assert world.text == b"Mine.\n" + note("a") + note("c")


def test_a_save_after_a_committed_removal_is_merged(world: World) -> None:
    world.add("a", "b", "c")
    world.look()
    rows = world.commit(removal(world, "b"))
    world.save(b"Mine.\n" + world.text)
    world.projections.write(rows)
    world.look()
    assert world.text == b"Mine.\n" + note("a") + note("c")


def test_a_save_into_the_replaced_file_is_merged(world: World) -> None:
    world.add("a", "b", "c")
    world.look()
    rows = world.commit(removal(world, "b"))
    with pytest.MonkeyPatch.context() as patched, world.path.open("r+b", buffering=0) as editor:
        held = editor.read()
        patched.setattr(rendering, "is_open_for_writing", lambda path: False)  # it opened the file in that microsecond
        world.projections.write(rows)
        world.look()
        editor.seek(0)
        editor.write(held + b"Mine.\n")
    world.look()
    assert world.text == note("a") + note("c") + b"Mine.\n"


def test_notes_taken_unread_are_an_edit_of_their_own(world: World) -> None:
    world.add("a")
    older = world.text
    world.add("b", "c")
    world.look(seconds=5)
    world.save(older)  # as it was read before both came
    (edit,) = world.look()
    assert (edit.unread, edit.removed, world.text) == (2, 6, older)
    world.add("d", "e")
    world.look(seconds=7200)
    world.save(older.replace(b"- a", b"- apple"))  # other words, and a text from before all of them
    typed, edit = world.look()
    assert (typed.unread, typed.removed, edit.unread, edit.removed) == (0, 1, 2, 6)
    assert world.text == older.replace(b"- a", b"- apple")
    world.kill()
    assert not world.look()


def test_notes_taken_again_are_told_of_the_newest_save(world: World) -> None:
    world.add("a", "b")
    for _ in range(2):
        notes = world.text
        world.look(seconds=5)
        world.save(b"")
        world.look()
        (told,) = removed_unread(world.home, world.journal.path, world.wall())
        assert told.seq == world.journal.committed_seq
        world.save(notes)
        world.look()
    assert not removed_unread(world.home, world.journal.path, world.wall())


def test_deleting_older_notes_means_they_were_read(world: World) -> None:
    world.add(*"abcd")
    world.look(seconds=5)
    world.save(note("a") + note("d"))
    (edit,) = world.look()
    assert edit.unread == 0
    later = note("f").replace(b"06:05", b"06:06")
    world.add("e")
    world.projections.write(world.commit_data(MEMORY, later))
    world.look(seconds=7200)
    edited = note("a") + later.replace(b"- f", b"- feather")  # in other words: it was read
    world.save(edited)
    (edit,) = world.look()
    assert (edit.unread, world.text) == (0, edited)


@pytest.mark.parametrize("seconds", [3, 60])
def test_typing_is_taken_back_in_several_steps(world: World, seconds: int) -> None:
    world.add("n1")
    opened = world.text
    world.look(seconds=60)
    for number, text in enumerate((opened + b"first\n", opened + b"first\nsecond\n", opened + b"first\n", opened), 2):
        world.save(text)
        world.look(seconds=seconds)
        world.add(f"n{number}")
        world.look(seconds=seconds)
        assert (b"first" in world.text, b"second" in world.text) == (b"first" in text, b"second" in text)
        assert all(note(f"n{known}") in world.text for known in range(1, number + 1))


def test_the_same_text_saved_again_takes_no_line_of_another(world: World) -> None:
    world.add("a")
    opened = world.text
    world.look(seconds=60)
    mine = opened + b"Mine.\n"
    for text in (b"Yours.\n" + opened, mine, b"Yours.\nToo.\n" + opened, mine):
        world.save(text)
        world.look(seconds=10)
    assert world.text == b"Yours.\nToo.\n" + mine


def test_a_deletion_is_taken_back_beside_new_notes(world: World) -> None:
    world.add("n1", "n2", "n3")
    opened = world.text
    world.look(seconds=60)
    world.save(opened.replace(note("n2"), b""))
    world.look(seconds=90)
    world.add("n4")
    world.look(seconds=5)
    world.save(opened)
    world.look()
    assert world.text == opened + note("n4")


def test_a_checkout_takes_what_was_typed_and_read_since(world: World) -> None:
    world.add("n1")
    old = world.text
    world.look(seconds=60)
    world.add("n2")
    world.look(seconds=60)
    world.save(world.text + b"typed\n")
    world.look(seconds=60)
    world.add("n3")
    world.look(seconds=60)
    world.save(old)
    world.look()
    assert world.text == old
