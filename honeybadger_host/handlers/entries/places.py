"""The file of an entry, named after its text or its name; a salt is added when another entry has that file."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from honeybadger_agent.wire import Refusal
from honeybadger_host.handlers.entries.answers import parsed, the_one
from honeybadger_host.journal.changes import WholeFiles
from honeybadger_host.memory.entries.entry import Entry, entry_file, entry_id, memory_folder, named_id
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.archive import archived_file
from honeybadger_host.search.lookups import Lookups

_Read: TypeAlias = Callable[[str], bytes | None]  # of a file


class Holding(NamedTuple):
    """An entry, its file and the content of that."""

    file: str
    data: bytes
    entry: Entry


def standing_in(entries: EntryFiles, places: Iterable[tuple[str, bytes | None]]) -> Iterator[Holding]:
    """Yield the entries in some files; files that are not entries are skipped."""
    for file, data in places:
        if data is not None:
            with contextlib.suppress(ValueError):
                yield Holding(file, data, entries.parse(file, data))


def with_name(holdings: Iterable[Holding], category: str, name: str) -> Holding | None:
    """Return the first entry of a name, or None."""
    return next((one for one in holdings if (one.entry.category, one.entry.name) == (category, name)), None)


@dataclass(frozen=True, slots=True)
class EntryPlaces:
    """Finds the file that an entry goes to; the files it looks at are loaded for the decision."""

    entries: EntryFiles
    files: WholeFiles
    lookups: Lookups

    def named(self, group: str, category: str, name: str) -> list[str]:
        """Return the files that an entry of this name may have, loaded: the one in the index, then one for each salt.

        Args:
            category: as it is spelled on disk.
        Raises WorldFailed.
        """
        return [file for file, _ in self._of_name(self.files.load, group, category, name)]

    def as_saved(self, group: str, category: str, name: str) -> Holding | None:
        """Return the entry of a name as the files have it, or None if there is none; nothing is loaded."""
        found = self._of_name(self.entries.read, group, category, name)
        return with_name(standing_in(self.entries, found), category, name)

    def of_text(self, group: str, category: str, text: str) -> list[str]:
        """Return the files that an entry of this text may have, loaded, as `named` does."""
        elsewhere = self.lookups.known(group, category, text)
        found = self._places(self.files.load, group, category, elsewhere, partial(entry_id, category, text))
        return [file for file, _ in found]

    def _of_name(self, read: _Read, group: str, category: str, name: str) -> Iterator[tuple[str, bytes | None]]:
        elsewhere = self.lookups.named(group, category, name)
        return self._places(read, group, category, elsewhere, partial(named_id, category, name))

    def _places(
        self, read: _Read, group: str, category: str, elsewhere: str | None, id_of: Callable[[int], str]
    ) -> Iterator[tuple[str, bytes | None]]:
        """Yield the files that an entry may have, with their content: one for each salt, until one is free.

        Args:
            elsewhere: the id that the index has for it, whose files come first.
            id_of: salt -> id.
        """
        for file in () if elsewhere is None else self.entries.find(group, elsewhere):
            yield file, read(file)
        for salt in itertools.count():
            file = entry_file(group, category, id_of(salt))
            data = read(file)
            yield file, data
            if data is None:
                return

    def load(self, group: str, id_: str) -> list[str]:
        """Load the files of an id, and their places in the archive; return the files. Raises WorldFailed."""
        found = self.entries.find(group, id_)
        for file in found:
            self.files.load(file)
            self.files.load(archived_file(file))
        return found

    def archived(self, file: str) -> bytes | None:
        """Return the content of an entry's place in the archive. Raises Refusal if the entry came with this batch."""
        try:
            return self.files.view(archived_file(file))
        except KeyError:
            raise Refusal("conflict", "it changed meanwhile: nothing was changed, send it again") from None

    def free(self, places: Sequence[str], category: str, name: str) -> str:
        """Return the first of `places` that is free, see `named`. Raises Refusal if an entry has the name."""
        if (held := with_name(self.standing(places), category, name)) is not None:
            why = f"entry {held.entry.id} of {category} has this name: choose another, or edit that one"
            raise Refusal("conflict", f"{why}; nothing was changed", field="payload.name")
        return self.first_free(places)

    def first_free(self, places: Iterable[str]) -> str:
        """Return the first of `places` that is free. Raises Refusal if none is."""
        free = next((file for file in places if self.files.view(file) is None), None)
        if free is None:  # another save of this batch took it: the next batch has a new one
            raise Refusal("conflict", "it changed meanwhile: nothing was saved, send it again")
        return free

    def standing(self, places: Iterable[str]) -> Iterator[Holding]:
        """Yield the entries in `places`."""
        return standing_in(self.entries, ((file, self.files.view(file)) for file in places))

    def the_one(self, group: str, id_: str, field: str = "payload.id") -> Holding:
        """Return the entry of an id; its file must be loaded. Raises Refusal."""
        file = the_one(id_, self.files.named(memory_folder(group), f"{id_}.json"), field)
        data = self.files.view(file) or b""
        return Holding(file, data, parsed(self.entries, file, data, field))
