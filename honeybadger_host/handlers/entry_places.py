"""The file that an entry goes to: named after its text or its name, and a salt where somebody else's is there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from honeybadger_agent.wire import Refusal
from honeybadger_host.memory.entry import Entry, entry_file, entry_id, named_id
from honeybadger_host.memory.entry_store import EntryFiles
from honeybadger_host.storage.atomic_files import WholeFiles

Known: TypeAlias = Callable[[str, str, str], str | None]
"""(group, category, name or text) -> id of an entry that has it, wherever its id comes from."""
_FREE_PLACES: Final = 2
"""Places loaded for a new entry: a person may have removed the first and left the second."""


def salted(place: Callable[[int], str], read: Callable[[str], bytes | None]) -> Iterator[tuple[str, bytes | None]]:
    """Yield the files that an entry may have, by their salts until two are free, with what they hold.

    Args:
        place: salt -> file.
    """
    salt = free = 0
    while free < _FREE_PLACES:
        file = place(salt)
        data = read(file)
        free += data is None
        yield file, data
        salt += 1


def named_places(
    entries: EntryFiles, files: WholeFiles, named: Known, group: str, category: str, name: str
) -> Iterator[str]:
    """Yield the files that an entry of this name may have, loaded: where one is known, then by its salts.

    Args:
        category: as it is spelled on disk.
    Raises WorldFailed.
    """
    elsewhere = named(group, category, name)
    return _loaded(
        entries, files, group, elsewhere, lambda salt: entry_file(group, category, named_id(category, name, salt))
    )


def text_places(
    entries: EntryFiles, files: WholeFiles, known: Known, group: str, category: str, text: str
) -> Iterator[str]:
    """Yield the files that an entry of this text may have, loaded, as `named_places` does."""
    elsewhere = known(group, category, text)
    return _loaded(
        entries, files, group, elsewhere, lambda salt: entry_file(group, category, entry_id(category, text, salt))
    )


def _loaded(
    entries: EntryFiles, files: WholeFiles, group: str, elsewhere: str | None, place: Callable[[int], str]
) -> Iterator[str]:
    for file in () if elsewhere is None else entries.find(group, elsewhere):
        files.load(file)
        yield file
    for file, _ in salted(place, files.load):
        yield file


def free_place(entries: EntryFiles, files: WholeFiles, places: Iterable[str], category: str, name: str) -> str:
    """Return the first of `places` that is free. Raises Refusal: an entry of the category has the name.

    Args:
        places: see `named_places`.
    """
    free, standing = look_at(entries, files, places)
    for _, _, entry in standing:
        if (entry.category, entry.name) == (category, name):
            raise Refusal(
                "conflict",
                f"entry {entry.id} of {category} has this name: choose another, or edit that one; nothing was changed",
                field="payload.name",
            )
    return first_free(free)


def look_at(
    entries: EntryFiles, files: WholeFiles, places: Iterable[str]
) -> tuple[str | None, list[tuple[str, bytes, Entry]]]:
    """Return the first of some loaded places that is free, and what entries stand in the others, with their bytes."""
    free: str | None = None
    standing: list[tuple[str, bytes, Entry]] = []
    for file in places:
        data = files.view(file)
        if data is None:
            free = free or file
        else:
            with contextlib.suppress(ValueError):  # it is not an entry, and keeps its place
                standing.append((file, data, entries.parse(file, data)))
    return free, standing


def first_free(place: str | None) -> str:
    """Return a place that is free. Raises Refusal: there is none."""
    if place is None:  # other saves of this batch took both: the next batch has new ones
        raise Refusal("conflict", "it changed meanwhile: nothing was saved, send it again")
    return place
