"""The notes of a group by author, and its persona and summary, as they are served; a note is edited or pinned."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_agent.wire import EditNote, ReadGroupFiles
from honeybadger_host.curation.notes import notes_of
from honeybadger_host.domain import MEMORY, NOTE_EDITED
from honeybadger_host.memory.notes import PREFACE, NoteBook, is_pinned, parse_notes
from honeybadger_host.storage.journal_reader import LogFilter
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.web.asking import Conflict, Home, made
from honeybadger_host.web.forms import go, group_of, home_of, member, number, posted, shown_of
from honeybadger_host.web.looking_back import Difference, blamed_in, difference_of, look_back, note_changes
from honeybadger_host.web.rendering import compared, href, page

_PER_PAGE: Final = 30
_PINS: Final = {"pin": True, "unpin": False}


class _Note(NamedTuple):
    """A note as it is shown.

    Args:
        author: empty: a person wrote it into the file.
        id: as search shows it; empty: nobody signed it.
        seq: of the change that wrote it; None: it is not among the last ones, or a person changed it since.
        is_edited: that change gave it another text.
    """

    section: str
    author: str
    at: str
    text: str
    is_pinned: bool
    id: str = ""
    seq: int | None = None
    is_edited: bool = False


def _notes(request: Request) -> Response:
    group, author, offset = group_of(request), request.query_params.get("author"), number(request, "offset")
    home = home_of(request)
    files = home.read(group, ReadGroupFiles())
    changes = note_changes(home.journal, group) if home.may_write else {}
    book = parse_notes(files.memory or "")
    authors = {name: len(places) for name, places in book.by_author.items()}
    places = [*reversed(book.places)] if author is None else [*book.by_author.get(author, ())]
    return page(
        "notes.html",
        shown_of(request),
        notes=[_shown(group, book, place, changes) for place in places[offset : offset + _PER_PAGE]],
        total=len(places),
        authors=authors,
        author=author,
        files=files,
        offset=offset,
        per_page=_PER_PAGE,
    )


def _shown(group: str, book: NoteBook, place: int, changes: Mapping[str, Row]) -> _Note:
    text = book.preface if place == PREFACE else book.notes[place]
    if (note := book.signed(place)) is None:
        heading, _, rest = text.partition("\n") if place != PREFACE else ("", "", text)
        return _Note(heading.removeprefix("## "), "", "", rest.strip("\n"), is_pinned(text))
    at, row = f"{note.at.replace(' ', 'T')}:00Z", changes.get(text.strip("\n"))
    seq, is_edited = (None, False) if row is None else (row.seq, row.kind == NOTE_EDITED)
    return _Note(note.section, note.author, at, note.content, is_pinned(text), _id_of(group, text), seq, is_edited)


def _id_of(group: str, note: str) -> str:
    return next(iter(notes_of(group, note.encode())))


def _edited(request: Request, form: dict[str, str]) -> Response:
    """Give a note the text that was typed, or pin or unpin it, if it is as it was when the form was made."""
    group, action = group_of(request), form.get("action", "edited")
    wanted: dict[str, object] = {"content": form.get("content", "").strip("\n")}
    if action in _PINS:
        wanted = {"pinned": _PINS[action]}
    try:
        edited, seq = home_of(request).ask(group, made(EditNote, form.get("id", ""), **wanted))
    except Conflict:
        if (change := _change_of(home_of(request), group, _lines(form.get("was", "")))) is None:
            raise
        return _conflict(request, form, change)
    return go(href("g", group, "entry", id=edited.id, done=action, seq=seq))


def _change_of(home: Home, group: str, was: Collection[str]) -> Difference | None:
    """Return the newest change that took away a line of a note; None: it is not among the last, or not recorded yet."""
    for line in look_back(home.journal, LogFilter(group, file=f"groups/{group}/{MEMORY}")).lines:
        change = difference_of(home, line.seq)
        if any(sign == "-" and _bare(text) in was for sign, text in change.lines):
            return change
    return None


def _conflict(request: Request, form: dict[str, str], change: Difference) -> Response:
    """Return what took the place of a note beside what was wanted, which may then be done with that."""
    group = group_of(request)
    book = parse_notes(home_of(request).read(group, ReadGroupFiles()).memory or "")
    added = {_bare(text) for sign, text in change.lines if sign == "+"} - {""}
    found: list[dict[str, Any]] = [
        {"id": _id_of(group, book.notes[place]), "content": note.content, "is_pinned": is_pinned(book.notes[place])}
        for place in book.places
        if (note := book.signed(place)) is not None and added & _lines(note.content)
    ]
    now, lines = None, change.lines
    if len(found) == 1:  # else it is gone, or nobody knows which one it is now
        now = found[0]
        was, is_now = form.get("was", "").splitlines(), now["content"].splitlines()
        mine = form.get("content", "").splitlines()
        lines = (compared(was, is_now) if "action" in form else compared(is_now, mine)) or []
    return page("conflict.html", shown_of(request), code=409, is_note=True, entry=now, form=form, lines=lines)


def _lines(text: str) -> set[str]:
    return {_bare(line) for line in text.splitlines()} - {""}


def _bare(line: str) -> str:
    return line.strip().removeprefix("- ")


def _blame(request: Request) -> Response:
    group, name = group_of(request), member(request, "file", 200) or "MEMORY.md"
    file = f"groups/{group}/{name if name in ('MEMORY.md', 'CLAUDE.md', 'summary.md') else 'MEMORY.md'}"
    return page(
        "blame.html",
        shown_of(request),
        of=file.rpartition("/")[2],
        back=href("g", group, "notes"),
        file=file,
        blamed=blamed_in(home_of(request), file),
    )


ROUTES: Final = (
    Route("/g/{group}/notes", _notes),
    Route("/g/{group}/notes/blame", _blame),
    Route("/g/{group}/notes/edit", posted(_edited), methods=["POST"]),
)
