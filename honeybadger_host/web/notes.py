"""The notes of a group by author, and its persona and summary, as they are served."""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_agent.wire import ReadGroupFiles
from honeybadger_host.memory.notes import PREFACE, NoteBook, is_pinned, parse_notes
from honeybadger_host.web.forms import group_of, home_of, member, number, shown_of
from honeybadger_host.web.looking_back import blame_of
from honeybadger_host.web.rendering import href, page

_PER_PAGE: Final = 30


class _Note(NamedTuple):
    """A note as it is shown.

    Args:
        author: empty: a person wrote it into the file.
    """

    section: str
    author: str
    at: str
    text: str
    is_pinned: bool


def _notes(request: Request) -> Response:
    group, author, offset = group_of(request), request.query_params.get("author"), number(request, "offset")
    files = home_of(request).read(group, ReadGroupFiles())
    book = parse_notes(files.memory or "")
    authors = {name: len(places) for name, places in book.by_author.items()}
    places = [*reversed(book.places)] if author is None else [*book.by_author.get(author, ())]
    return page(
        "notes.html",
        shown_of(request),
        notes=[_shown(book, place) for place in places[offset : offset + _PER_PAGE]],
        total=len(places),
        authors=authors,
        author=author,
        files=files,
        offset=offset,
        per_page=_PER_PAGE,
    )


def _shown(book: NoteBook, place: int) -> _Note:
    text = book.preface if place == PREFACE else book.notes[place]
    if (note := book.signed(place)) is None:
        heading, _, rest = text.partition("\n") if place != PREFACE else ("", "", text)
        return _Note(heading.removeprefix("## "), "", "", rest.strip("\n"), is_pinned(text))
    return _Note(note.section, note.author, f"{note.at.replace(' ', 'T')}:00Z", note.content, is_pinned(text))


def _blame(request: Request) -> Response:
    group, name = group_of(request), member(request, "file", 200) or "MEMORY.md"
    file = f"groups/{group}/{name if name in ('MEMORY.md', 'CLAUDE.md', 'summary.md') else 'MEMORY.md'}"
    return page(
        "blame.html",
        shown_of(request),
        of=file.rpartition("/")[2],
        back=href("g", group, "notes"),
        file=file,
        blamed=blame_of(home_of(request), file),
    )


ROUTES: Final = (Route("/g/{group}/notes", _notes), Route("/g/{group}/notes/blame", _blame))
