"""The file of an entry, named after its text or its name; a salt is added when another entry has that file."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from honeybadger_agent.wire import Refusal
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries.answers import not_found
from honeybadger_host.memory.entries.entry import Entry, entry_file, entry_id, named_id
from honeybadger_host.memory.entries.store import EntryFiles

Read: TypeAlias = Callable[[str], bytes | None]  # of a file


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


def candidates(
    deps: Dependencies, read: Read, group: str, category: str, key: str, *, is_name: bool
) -> Iterator[tuple[str, bytes | None]]:
    """Yield the files that an entry may have, with their content: those in the index, then one for each salt.

    The last one is free. Raises WorldFailed.
    Args:
        category: as it is spelled on disk.
        key: its name, or its text if it has none; see `labels.folded`.
    """
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


def check_free(held: Holding | None, category: str) -> None:
    """Raise Refusal if an entry has the wanted name."""
    if held is not None:
        raise Refusal(
            "conflict",
            f"entry {held.entry.id} of {category} has this name: choose another, or edit that one; nothing was changed",
            field="payload.name",
        )


def the_one(deps: Dependencies, group: str, id_: str, field: str = "payload.id") -> Holding:
    """Return the entry of an id. Raises Refusal, WorldFailed."""
    return one_of(deps, id_, deps.entry_files.standing(deps.whole_files, group, id_), deps.whole_files.view, field)


def one_of(deps: Dependencies, id_: str, found: Sequence[str], read: Read, field: str = "payload.id") -> Holding:
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
                raise Refusal(
                    "not_found", f"{file.split('/', 2)[2]} is not an entry: {error}; mend or remove it", field=field
                ) from None
    raise not_found(id_, field)
