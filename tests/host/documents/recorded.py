"""A world in which people's saves of several files are taken in."""

import time

from honeybadger_host.journal.changes import FileWritten
from honeybadger_host.journal.reader import LogFilter
from honeybadger_host.journal.schema import Row
from tests.host.documents.world import MEMORY, World
from tests.people import edits_in

PERSONA = "groups/main/CLAUDE.md"
ENTRY = "groups/main/memory/drinks/tea.json"
_FILES = (MEMORY, PERSONA, ENTRY)


def write(world: World, data: bytes, file: str = ENTRY) -> None:
    """Write as the host does, upon what a reader gets."""
    held = world.projections.saves.current(file)
    with world.decided(FileWritten("main", "entry", file, data, held)):
        pass


class Recorded:
    def __init__(self, world: World) -> None:
        self.world = world
        (world.home / ENTRY).parent.mkdir(parents=True)

    def kill(self) -> None:
        self.world.journal.close()
        self.world.start()

    def record(self) -> None:
        """Let time pass until everything was taken in."""
        deadline = time.monotonic() + 20
        while True:
            for file in _FILES:
                self.world.projections.in_use.touch(file)
            for _ in range(2):
                self.world.passed += 1
                self.world.take_in()
            self.world.checkpoint()
            if not self.world.projections.in_use.touched:
                return
            assert time.monotonic() < deadline, self.world.projections.in_use.touched

    @property
    def edits(self) -> list[Row]:
        return edits_in(self.world.journal.path, LogFilter("main"))[::-1]

    def write(self, data: bytes, file: str = PERSONA) -> None:
        """Save as a person does."""
        self.world.save(data, file=file)

    def save(self, data: bytes, file: str = ENTRY) -> None:
        write(self.world, data, file)
