"""`archive_memory`, and superseded entries: they move to the archive, and name the entry that superseded them."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeAlias

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP, HUMAN, new_id
from honeybadger_agent.wire import ArchiveMemory, EditMemory, Refusal, Wire
from honeybadger_host.documents.in_use import Found
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.home import ARCHIVE
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries import places
from honeybadger_host.handlers.entries.answers import WriteT, cleaned, not_found, read_valid_until
from honeybadger_host.handlers.notes import signed_note
from honeybadger_host.journal.changes import Change
from honeybadger_host.log import log
from honeybadger_host.memory.entries.entry import Entry, Origin, memory_folder, origin_of
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.archive import Retired, archive_entry, archive_notes, archived_file
from honeybadger_host.search.notes import NOTE_ID
from honeybadger_host.search.sources import archive_of

_FIELD = "payload.supersedes"


@dataclass(frozen=True, slots=True)
class Write(Generic[WriteT]):
    """A save or an edit of an entry, with its texts cleaned.

    Args:
        neutralised: changes of its texts, by kind.
        valid_until: None: it stays valid, or as it was.
    """

    payload: WriteT
    neutralised: Mapping[str, int]
    origin: Origin | None
    valid_until: datetime | None


def screened(
    deps: Dependencies, asked: Asked[WriteT], now: datetime, *, heading: str = "", category: str = ""
) -> Write[WriteT]:
    """Return a request as it may be written. Raises Refusal.

    Args:
        heading, category: see `cleaned`.
    """
    texts = deps.texts(asked)
    payload = cleaned(texts, asked.payload, heading=heading, category=category)
    origin = origin_of(asked.sender, payload.origin, payload.origin_from, is_agent=asked.sender in deps.agents.current)
    is_for_ever = isinstance(payload, EditMemory) and payload.valid_until == "never"
    valid_until = None if is_for_ever else read_valid_until(payload.valid_until, now)
    return Write(payload, texts.changed, origin, valid_until)


def superseded(
    deps: Dependencies, group: str, entry: Entry, ids: Sequence[str], *, existed: bool
) -> tuple[Change, ...]:
    """Return the changes that move entries to the archive. Raises WorldFailed; Refusal if one cannot be superseded.

    Args:
        entry: the entry that takes their place.
        existed: whether `entry` existed before.
    """
    changes: list[Change] = []
    for id_ in ids:
        if id_ == entry.id:
            raise Refusal("invalid", f"{id_} is this entry itself: it cannot supersede itself", field=_FIELD)
        if not deps.entry_files.standing(deps.whole_files, group, id_):
            _check_done(deps.entry_files, group, entry, id_)
            continue
        file, data, old = places.the_one(deps, group, id_, _FIELD)
        if existed and entry.id in old.supersedes:
            raise Refusal(
                "conflict",
                f"a circle: {id_} supersedes {entry.id} already; delete or edit the one that is wrong",
                field=_FIELD,
            )
        changes += archive_entry(group, file, old, data, deps.whole_files.view(archived_file(file)), by=entry.id)
    return tuple(changes)


def _check_done(entries: EntryFiles, group: str, entry: Entry, id_: str) -> None:
    """Raise Refusal, unless an entry that is not there was superseded by this one before."""
    archived = entries.find(archive_of(group), id_)
    for one in places.standing_in(entries, ((file, entries.read(file)) for file in archived)):
        if (by := one.entry.superseded_by) == entry.id:
            return
        if by is not None:
            raise Refusal("conflict", f"entry {id_} was superseded by {by}: name that one", field=_FIELD)
    if archived:
        raise Refusal("conflict", f"entry {id_} is in the archive already: leave it out", field=_FIELD)
    if entries.find(GLOBAL_GROUP, id_):
        raise Refusal(
            "forbidden", f"entry {id_} is of the group {GLOBAL_GROUP}, which only people change", field=_FIELD
        )
    raise not_found(id_, _FIELD)


_Change: TypeAlias = Callable[[Asked, str, ChangeHandler], Awaitable[bytes]]  # see `Pipeline.change`


async def supersede_named(deps: Dependencies, change: _Change, saves: Iterable[Found]) -> None:
    """Archive the entries that people name in `supersedes` in the files of other entries.

    It is done before these saves are recorded, so that a kill repeats it. Failures are logged.
    """
    for saved in saves:
        try:
            for entry, id_ in _named_in(deps.entry_files, saved):  # one by one: a wrong id hinders no other
                await _supersede(deps, change, saved.file, entry, id_)
        except WorldFailed as error:
            log.warning("entry.not_superseded", file=saved.file, why=str(error))


def _named_in(entries: EntryFiles, saved: Found) -> list[tuple[Entry, str]]:
    """Return the entry that was saved with each new id in its `supersedes`."""
    group = saved.file.partition("/")[2].partition("/")[0]
    is_entry = saved.file.startswith(f"{memory_folder(group)}/")
    if not is_entry or b'"supersedes"' not in (saved.data or b""):
        return []
    before = next(places.standing_in(entries, [(saved.file, saved.newest)]), None)
    after = next(places.standing_in(entries, [(saved.file, saved.data)]), None)
    if after is None:
        return []
    known = () if before is None else before.entry.supersedes
    return [(after.entry, id_) for id_ in after.entry.supersedes if id_ not in known]


async def _supersede(deps: Dependencies, change: _Change, file: str, entry: Entry, id_: str) -> None:
    """Archive an entry because another one supersedes it."""
    digest = hashlib.sha256(f"{file} {id_}".encode()).digest()
    asked = Asked(file.split("/")[1], HUMAN, f"edit-{new_id()}", "main", Wire(), digest)

    def decide(asked: Asked, now: datetime) -> Outcome:
        return Outcome({}, superseded(deps, asked.group, entry, [id_], existed=True))

    reply = orjson.loads(await change(asked, "edit_memory", ChangeHandler(decide)))
    if not reply["ok"]:
        log.warning("entry.not_superseded", file=file, id=id_, why=reply["error"]["message"])


def archive_memory(deps: Dependencies, asked: Asked[ArchiveMemory], now: datetime) -> Outcome:
    """Move a note or an entry to the archive."""
    id_, group = asked.payload.id, asked.group
    if id_.startswith(NOTE_ID):
        held, note = signed_note(asked, id_, deps.whole_files)
        moved = archive_notes(group, held, [Retired(note.span, "the operator archived it")], asked.sender, now)
        return Outcome({"id": id_, "file": ARCHIVE}, moved)
    if "#" in id_:
        raise Refusal("invalid", f"{id_} is neither an entry nor a note", field="payload.id")
    file, data, entry = places.the_one(deps, group, id_)
    place = archived_file(file)
    changes = archive_entry(group, file, entry, data, deps.whole_files.view(place), by=None)
    return Outcome({"id": id_, "file": place.split("/", 2)[2]}, changes)
