"""Random lives of a MEMORY.md, read on from where it was read last: as if it had been read whole each time."""

import os
import time

import pytest
from hypothesis.stateful import initialize, invariant

from honeybadger_host.documents import in_use
from honeybadger_host.files.file_cache import KeptFiles
from honeybadger_host.journal.edits import EditReader
from honeybadger_host.memory.edited_notes import EditedNotes
from honeybadger_host.memory.markdown.group_files import GroupFiles, GroupText
from honeybadger_host.search.index import Index
from tests.host.documents.test_lives import Lives, live
from tests.host.documents.world import MEMORY, World
from tests.host.search.indexed import done

LIVES = 100 if os.environ.get("HB_CRASH_LONG") else 6


def files_of(world: World, *, goes_on: bool) -> GroupFiles:
    return GroupFiles(
        world.home,
        KeptFiles(world.home, wall_ns=lambda: time.time_ns() + 1_000_000_000),
        edited_notes=EditedNotes(EditReader(world.journal.path)),
        view=lambda file, data, signature: world.projections.saves.view(file, data, signature),
        extent_of=lambda file, signature: world.projections.saves.extent_of(file, signature) if goes_on else None,
    )


def shown(text: GroupText | None) -> tuple[object, ...]:
    """Return what contexts show of a text."""
    if text is None:
        return ()
    notes = [text.notes.whole, text.newest_notes(60), text.newest_notes(300), [*text.notes.book.by_author.items()]]
    return text, text.size, text.clean, text.tokens, *notes


def indexed(world: World, index: Index) -> list[tuple[str, str]]:
    index.touch(MEMORY)
    while not index.bring_up("main"):
        done(index.work())
    return sorted(index._db.rows("SELECT key, text FROM docs"))


class ReadLives(Lives):
    @initialize()
    def open_readers(self) -> None:
        self.files = files_of(self.world, goes_on=True)
        self.index = self.open_index()

    def open_index(self) -> Index:
        world = self.world
        return Index(
            world.home, None, max_memory_bytes=0, extent_of=lambda *file: world.projections.saves.extent_of(*file)
        )

    @invariant()
    def it_reads_as_if_whole(self) -> None:
        assert shown(self.files.read(MEMORY)) == shown(files_of(self.world, goes_on=False).read(MEMORY))

    @invariant()
    def it_is_indexed_as_if_whole(self) -> None:
        whole = Index(self.world.home, None, max_memory_bytes=0)
        try:
            assert indexed(self.world, self.index) == indexed(self.world, whole)
        finally:
            whole.close()

    def teardown(self) -> None:
        if hasattr(self, "index"):
            self.index.close()
        super().teardown()


@pytest.mark.timeout(3600)
def test_random_lives_are_read_as_if_whole() -> None:
    live(ReadLives, LIVES)


def test_lives_notice_a_reader_that_goes_on_after_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_use.Extent, "goes_on", lambda extent, before: before is not None)

    with pytest.raises(AssertionError):
        live(ReadLives, 50, is_broken=True)
