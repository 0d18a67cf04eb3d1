"""The memory of a group as one table of notes and entries: search, filter, archive and pin."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from starlette.responses import Response

from honeybadger_agent.wire import (
    ArchiveMemory,
    EditMemory,
    EditNote,
    EntryRow,
    Hit,
    ListMemoryCategories,
    ListMemoryEntries,
    ReadGroupFiles,
    SearchMemory,
)
from honeybadger_agent.wire import Request as Asked
from honeybadger_host.documents.versions import removed_unread
from honeybadger_host.files.home import MEMORY
from honeybadger_host.journal.edits import EditReader, unread_of
from honeybadger_host.memory.edited_notes import EditedNotes
from honeybadger_host.memory.markdown.notes import NOBODY, PREFACE, NoteBook, is_pinned, parse_notes
from honeybadger_host.search.notes import NOTE_ID, NotePlace, notes_of
from honeybadger_host.web.entries import id_of
from honeybadger_host.web.rendering import href
from honeybadger_host.web.visits import PER_PAGE, Invalid, RequestFailed, Visit, action_in, go, made

_KINDS = {"all": "All", "notes": "Notes", "entries": "Entries", "archived": "Archived"}


class Remembered(Hit):
    """A note or an entry as a row, as a search finds it.

    Args:
        id: empty for the text above the first note.
        author: None or empty if a person wrote it into the file.
        category: of a note its section.
        may_change: whether it can be changed here; an unsigned note can only be changed in the file.
    """

    title: str = ""
    may_change: bool = True


class _Wanted(NamedTuple):
    """The requested rows.

    Args:
        place: section or category; None: any.
        notes, entries: how many of each are on the pages before.
    """

    kind: str
    query: str | None
    author: str | None
    place: str | None
    notes: int
    entries: int

    @property
    def filters(self) -> dict[str, str | None]:
        """The query of the address of the first page."""
        kind = None if self.kind == "all" else self.kind
        return {"kind": kind, "query": self.query, "author": self.author, "place": self.place}


class _Rows(NamedTuple):
    """One page of rows.

    Args:
        total: rows of all pages.
        further: numbers of notes and entries before the next page; None: there is none.
    """

    rows: Sequence[Remembered]
    total: int
    further: tuple[int, int] | None = None
    is_complete: bool = True


def memory(visit: Visit) -> Response:
    wanted, files = _wanted(visit), visit.read(ReadGroupFiles())
    text = files.memory or ""
    edited = EditedNotes(EditReader(visit.home.journal)).of(f"groups/{visit.group}/{MEMORY}", text)
    book = parse_notes(text, edited)
    if wanted.query is None and wanted.kind != "archived":
        found = _listed(visit, book, wanted)
    else:
        found = _searched(visit, notes_of(visit.group, text.encode()), wanted)
    categories = visit.read(ListMemoryCategories()).categories
    sections = {note.section for place in book.places if (note := book.signed(place)) is not None}
    return visit.page(
        "memory.html",
        found=found,
        wanted=wanted,
        kinds=_KINDS,
        authors=sorted({*filter(None, book.by_author), *(row.author for row in found.rows if row.author)}),
        places=sorted({*sections, *(each.category for each in categories)}, key=str.casefold),
        before=wanted.notes + wanted.entries,
        files=files,
        problems=files.problems,
        removed=[
            edit
            for edit in removed_unread(visit.home.path, visit.home.journal, time.time())
            if edit.group == visit.group
        ],
        unread_of=unread_of,
        **_told(visit),
    )


def _wanted(visit: Visit) -> _Wanted:
    kind = visit.member("kind", 20) or "all"
    if kind not in _KINDS:
        raise Invalid(f"kind {kind!r} is none of {', '.join(_KINDS)}")
    words = (visit.member("query"), visit.member("author", 80), visit.member("place", 200))
    return _Wanted(kind, *words, visit.number("notes"), visit.number("entries"))


def _listed(visit: Visit, book: NoteBook, wanted: _Wanted) -> _Rows:
    """Return one page of notes and entries together, newest first."""
    notes = [] if wanted.kind == "entries" else [*_places_of(book, wanted)]
    entries: Sequence[EntryRow] = ()
    total, is_complete = len(notes), True
    if wanted.kind != "notes":
        with contextlib.suppress(Invalid):  # a section of notes that cannot be a category
            found = visit.read(
                made(
                    ListMemoryEntries,
                    category=wanted.place,
                    author=wanted.author,
                    newest=True,
                    limit=PER_PAGE,
                    offset=wanted.entries,
                )
            )
            entries, is_complete = found.entries, found.is_complete
            total += found.total
    of_notes = _dated(_note(visit.group, book, place) for place in notes[wanted.notes : wanted.notes + PER_PAGE])
    both = merge(of_notes, _dated(map(_entry, entries)), key=lambda dated: dated[0], reverse=True)
    rows = [row for _, row in islice(both, PER_PAGE)]
    shown = Counter(row.kind for row in rows)
    further = (wanted.notes + shown["note"], wanted.entries + shown["entry"])
    return _Rows(rows, total, further if sum(further) < total else None, is_complete)


def _dated(rows: Iterable[Remembered]) -> Iterator[tuple[str, Remembered]]:
    """Yield each row with its time; a row without one takes that of the row before it."""
    at = "9999"
    for row in rows:
        at = (row.time or "").removesuffix("Z") or at  # so that 12:00 is before 12:00.5
        yield at, row


def _places_of(book: NoteBook, wanted: _Wanted) -> Iterator[int]:
    """Yield the places of the requested notes, newest first."""
    places = [*reversed(book.places)] if wanted.author is None else book.by_author.get(wanted.author, ())
    for place in places:
        note = book.signed(place)
        section = note.section if note is not None else ""
        if wanted.place is None or section.casefold() == wanted.place.casefold():
            yield place


def _note(group: str, book: NoteBook, place: int) -> Remembered:
    text = book.preface if place == PREFACE else book.notes[place]
    row = Remembered(
        id="" if place == PREFACE else id_of(group, text),
        kind="note",
        score=None,
        text=text,
        source=MEMORY,
        pinned=is_pinned(text),
    )
    if (note := book.signed(place)) is None:
        heading, _, rest = text.partition("\n") if text.startswith("## ") else ("", "", text)
        return row.model_copy(
            update={"text": rest.strip("\n"), "category": heading.removeprefix("## "), "may_change": False}
        )
    return row.model_copy(
        update={
            "text": note.content,
            "author": note.author,
            "category": note.section,
            "time": f"{note.at.replace(' ', 'T')}:00Z",
        }
    )


def _entry(row: EntryRow) -> Remembered:
    return Remembered(
        id=row.id,
        kind="entry",
        score=None,
        text=row.begins,
        time=row.updated,
        category=row.category,
        author=row.author,
        pinned=row.pinned,
        valid_until=row.valid_until,
        source="",
        title=row.title or row.name or "",
    )


def _searched(visit: Visit, notes: Mapping[str, NotePlace], wanted: _Wanted) -> _Rows:
    """Return the best hits among notes and entries, or the newest archived ones."""
    is_archived = wanted.kind == "archived"
    scopes = {"notes": ("notes",), "entries": ("entries",)}.get(wanted.kind, ("notes", "entries"))
    hits: list[Hit] = []
    is_complete = True
    for scope in scopes:
        found = visit.read(
            made(SearchMemory, query=wanted.query, scope=scope, archived=is_archived or None, limit=PER_PAGE)
        )
        hits += (hit for hit in found.hits if hit.kind in ("note", "entry"))
        is_complete = is_complete and found.is_complete
    by_points = wanted.query is not None
    hits.sort(key=lambda hit: (hit.score or 0.0, hit.time or "") if by_points else (0.0, hit.time or ""), reverse=True)
    rows = [_hit(hit, notes.get(hit.id)) for hit in hits]
    if wanted.author is not None:
        rows = [row for row in rows if row.author == wanted.author]
    if wanted.place is not None:
        below = wanted.place.casefold()
        rows = [row for row in rows if f"{(row.category or '').casefold()}/".startswith(f"{below}/")]
    return _Rows(rows, len(rows), None, is_complete)


def _hit(hit: Hit, note: NotePlace | None) -> Remembered:
    """Return a hit as a row; `note`: the note that it is, if it is in MEMORY.md."""
    known: dict[str, object] = {"may_change": hit.kind == "entry"}
    if note is not None:
        known = {"category": note.section, "pinned": note.is_pinned, "may_change": note.author != NOBODY}
    text = hit.text.removeprefix("- ").partition("\n> Archived")[0]
    return Remembered(**hit.model_dump() | known | {"text": text})


def _told(visit: Visit) -> dict[str, Any]:
    """Return the outcome of a bulk action, which is in the address."""
    refused = Counter(_WHY_NOT.get(code, "refused") for code in visit.query.getlist("refused"))
    seqs = [seq for seq in (visit.member("seqs", 2000) or "").split(",") if seq.isdigit()]
    return {"done": visit.member("done", 20), "seqs": seqs, "why_not": sorted(refused.items())}


_WHY_NOT = {
    "conflict": "changed meanwhile",
    "not_found": "gone meanwhile",
    "unavailable": "only just written: try again in a few seconds",
    "invalid": "not something that can be changed here",
}


def acted(visit: Visit, form: dict[str, str]) -> Response:
    """Archive, pin or unpin the chosen notes and entries, each with its own request."""
    action = action_in(form, ("archive", "pin", "unpin"))
    chosen = [value for name, value in form.items() if name.startswith("chosen-")]
    if not chosen:
        raise Invalid("nothing was chosen: tick the notes and entries first")
    seqs: list[int] = []
    refused: list[str] = []
    for id_ in chosen:
        try:
            asked: Asked[Any] = made(ArchiveMemory, id_)
            if action != "archive":
                kind: type[Asked[Any]] = EditNote if id_.startswith(NOTE_ID) else EditMemory
                asked = made(kind, id_, pinned=action == "pin")
            _, seq = visit.ask(asked)
        except RequestFailed as error:
            refused.append(error.code)
            continue
        seqs += () if seq is None else (seq,)
    return go(
        href(
            "g",
            visit.group,
            "memory",
            **_wanted(visit).filters,
            done=action,
            seqs=",".join(map(str, seqs)),
            refused=refused,
        )
    )
