"""The file of an entry, named after its text or its name; a salt is added when another entry has that file.

A function loads the files that it looks at for the decision, unless it says that it does not.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from honeybadger_agent.wire import Refusal
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries.answers import not_found
from honeybadger_host.memory.entries.entry import Entry, entry_file, entry_id, memory_folder, named_id
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.archive import archived_file

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


def candidates(deps: Dependencies, group: str, category: str, key: str, *, is_name: bool) -> list[str]:
    """Return the files that an entry may have; see `_looked_at`. Raises WorldFailed.

    Args:
        category: as it is spelled on disk.
        key: its name, or its text if it has none; see `labels.folded`.
    """
    return [file for file, _ in _looked_at(deps, deps.whole_files.load, group, category, key, is_name=is_name)]


def as_saved(deps: Dependencies, group: str, category: str, name: str) -> Holding | None:
    """Return the entry of a name as the files have it, or None if there is none; nothing is loaded."""
    found = _looked_at(deps, deps.entry_files.read, group, category, name, is_name=True)
    return with_name(standing_in(deps.entry_files, found), category, name)


def _looked_at(
    deps: Dependencies, read: _Read, group: str, category: str, key: str, *, is_name: bool
) -> Iterator[tuple[str, bytes | None]]:
    """Yield the files that an entry may have: those in the index, then one for each salt, until one is free."""
    lookups = deps.index.lookups
    find, id_of = (lookups.named, named_id) if is_name else (lookups.known, entry_id)
    indexed = find(group, category, key)
    for file in () if indexed is None else deps.entry_files.find(group, indexed):
        yield file, read(file)
    for salt in itertools.count():
        file = entry_file(group, category, id_of(category, key, salt))
        data = read(file)
        yield file, data
        if data is None:
            return


def load(deps: Dependencies, group: str, id_: str) -> list[str]:
    """Load the files of an id, and their places in the archive; return the files. Raises WorldFailed."""
    found = deps.entry_files.find(group, id_)
    for file in found:
        deps.whole_files.load(file)
        deps.whole_files.load(archived_file(file))
    return found


def archived(deps: Dependencies, file: str) -> bytes | None:
    """Return the content of an entry's place in the archive. Raises Refusal if the entry came with this batch."""
    try:
        return deps.whole_files.view(archived_file(file))
    except KeyError:
        raise Refusal("conflict", "it changed meanwhile: nothing was changed, send it again") from None


def free(deps: Dependencies, places: Sequence[str], category: str, name: str) -> str:
    """Return the first of `places` that is free. Raises Refusal if an entry has the name."""
    if (held := with_name(standing(deps, places), category, name)) is not None:
        why = f"entry {held.entry.id} of {category} has this name: choose another, or edit that one"
        raise Refusal("conflict", f"{why}; nothing was changed", field="payload.name")
    return first_free(deps, places)


def first_free(deps: Dependencies, places: Iterable[str]) -> str:
    """Return the first of `places` that is free. Raises Refusal if none is."""
    place = next((file for file in places if deps.whole_files.view(file) is None), None)
    if place is None:  # another save of this batch took it: the next batch has a new one
        raise Refusal("conflict", "it changed meanwhile: nothing was saved, send it again")
    return place


def standing(deps: Dependencies, places: Iterable[str]) -> Iterator[Holding]:
    """Yield the entries in `places`."""
    return standing_in(deps.entry_files, ((file, deps.whole_files.view(file)) for file in places))


def the_one(deps: Dependencies, group: str, id_: str, field: str = "payload.id") -> Holding:
    """Return the entry of an id, whose files must be loaded. Raises Refusal."""
    found = deps.whole_files.named(memory_folder(group), f"{id_}.json")
    return one_of(deps, id_, found, deps.whole_files.view, field)


def one_of(deps: Dependencies, id_: str, found: Sequence[str], read: _Read, field: str = "payload.id") -> Holding:
    """Return the entry of an id in its file. Raises Refusal if there is none, or more than one.

    Args:
        found: the files of this id.
        read: returns their content.
    """
    if len(found) > 1:
        names = " and ".join(file.split("/", 2)[2] for file in sorted(found))
        raise Refusal("conflict", f"{id_} is the id of {names}: rename or remove one of them", field=field)
    for file in found:
        if (data := read(file)) is not None:
            try:
                return Holding(file, data, deps.entry_files.parse(file, data))
            except ValueError as error:
                why = f"{file.split('/', 2)[2]} is not an entry: {error}; mend or remove it"
                raise Refusal("not_found", why, field=field) from None
    raise not_found(id_, field)
