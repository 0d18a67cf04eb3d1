"""The file of an entry, named after its text or its name; a salt is added when another entry has that file."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from honeybadger_agent.wire import Refusal
from honeybadger_host.handlers.entries.answers import parsed, the_one
from honeybadger_host.journal.changes import WholeFiles
from honeybadger_host.memory.entries.entry import Entry, entry_file, entry_id, memory_folder, named_id
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.archive import archived_file
from honeybadger_host.search.lookups import Lookups


def salted(place: Callable[[int], str], read: Callable[[str], bytes | None]) -> Iterator[tuple[str, bytes | None]]:
    """Yield the files that an entry may have, with their content, one for each salt, until one of them is free.

    Args:
        place: salt -> file.
    """
    for salt in itertools.count():
        file = place(salt)
        data = read(file)
        yield file, data
        if data is None:
            return


def named_entry(
    entries: EntryFiles, lookups: Lookups, group: str, category: str, name: str
) -> tuple[str, bytes, Entry] | None:
    """Return the file, its content and the entry of a name, or None if there is none.

    The files named after it are read first, then the file that the index has.

    Args:
        category: as it is spelled on disk.
    """
    places = salted(
        lambda salt: entry_file(group, category, named_id(category, name, salt)),
        entries.read,
    )
    found = [(file, data) for file, data in places if data is not None]
    if (elsewhere := lookups.named(group, category, name)) is not None:
        found += ((file, entries.read(file) or b"") for file in entries.find(group, elsewhere))
    for file, data in found:
        with contextlib.suppress(ValueError):  # it is not an entry, or it was removed meanwhile
            entry = entries.parse(file, data)
            if (entry.category, entry.name) == (category, name):
                return file, data, entry
    return None


@dataclass(frozen=True, slots=True)
class EntryPlaces:
    """Finds the file that an entry goes to; the files it looks at are loaded for the decision."""

    entries: EntryFiles
    files: WholeFiles
    lookups: Lookups

    def named(self, group: str, category: str, name: str) -> Iterator[str]:
        """Yield the files that an entry of this name may have, loaded: the one in the index, then one for each salt.

        Args:
            category: as it is spelled on disk.
        Raises WorldFailed.
        """
        elsewhere = self.lookups.named(group, category, name)
        return self._loaded(group, elsewhere, lambda salt: entry_file(group, category, named_id(category, name, salt)))

    def of_text(self, group: str, category: str, text: str) -> Iterator[str]:
        """Yield the files that an entry of this text may have, loaded, as `named` does."""
        elsewhere = self.lookups.known(group, category, text)
        return self._loaded(group, elsewhere, lambda salt: entry_file(group, category, entry_id(category, text, salt)))

    def _loaded(self, group: str, elsewhere: str | None, place: Callable[[int], str]) -> Iterator[str]:
        for file in () if elsewhere is None else self.entries.find(group, elsewhere):
            self.files.load(file)
            yield file
        for file, _ in salted(place, self.files.load):
            yield file

    def load(self, group: str, id_: str) -> list[str]:
        """Load the files of an id, and their places in the archive; return the files. Raises WorldFailed."""
        found = self.entries.find(group, id_)
        for file in found:
            self.files.load(file)
            self.files.load(archived_file(file))
        return found

    def free(self, places: Iterable[str], category: str, name: str) -> str:
        """Return the first of `places` that is free, see `named`. Raises Refusal if an entry has the name."""
        places = list(places)
        if (held := self.holder(places, category, name)) is not None:
            why = f"entry {held[2].id} of {category} has this name: choose another, or edit that one"
            raise Refusal("conflict", f"{why}; nothing was changed", field="payload.name")
        return first_free(self.look_at(places)[0])

    def holder(self, places: Iterable[str], category: str, name: str) -> tuple[str, bytes, Entry] | None:
        """Return the file, its content and the entry of a name among `places`, see `named`, or None."""
        _, standing = self.look_at(places)
        return next((one for one in standing if (one[2].category, one[2].name) == (category, name)), None)

    def the_one(self, group: str, id_: str) -> tuple[str, bytes, Entry]:
        """Return the file, its content and the entry of an id; the file must be loaded. Raises Refusal."""
        file = the_one(id_, self.files.named(memory_folder(group), f"{id_}.json"))
        data = self.files.view(file) or b""
        return file, data, parsed(self.entries, file, data)

    def look_at(self, places: Iterable[str]) -> tuple[str | None, list[tuple[str, bytes, Entry]]]:
        """Return the first free place, and the entries in the other places, each with its file and content."""
        free: str | None = None
        standing: list[tuple[str, bytes, Entry]] = []
        for file in places:
            data = self.files.view(file)
            if data is None:
                free = free or file
            else:
                with contextlib.suppress(ValueError):  # the file is not an entry, and stays
                    standing.append((file, data, self.entries.parse(file, data)))
        return free, standing


def first_free(place: str | None) -> str:
    """Return a place that is free. Raises Refusal if there is none."""
    if place is None:  # another save of this batch took it: the next batch has a new one
        raise Refusal("conflict", "it changed meanwhile: nothing was saved, send it again")
    return place
