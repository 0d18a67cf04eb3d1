"""The notes of a group by author, and its persona and summary, as they are served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_agent.wire import ReadGroupFiles
from honeybadger_host.memory.notes import PREFACE, NoteBook, is_pinned, parse_notes
from honeybadger_host.web.forms import group_of, home_of, member, number, shown_of
from honeybadger_host.web.looking_back import blame_of, note_changes
from honeybadger_host.web.rendering import href, page

_PER_PAGE: Final = 30


class _Note(NamedTuple):
    """A note as it is shown.

    Args:
        author: empty: a person wrote it into the file.
        seq: of the change that wrote it; None: it is not among the last ones, or a person changed it since.
    """

    section: str
    author: str
    at: str
    text: str
    is_pinned: bool
    seq: int | None


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
        notes=[_shown(book, place, changes) for place in places[offset : offset + _PER_PAGE]],
        total=len(places),
        authors=authors,
        author=author,
        files=files,
        offset=offset,
        per_page=_PER_PAGE,
    )


def _shown(book: NoteBook, place: int, changes: Mapping[str, int]) -> _Note:
    text = book.preface if place == PREFACE else book.notes[place]
    if (note := book.signed(place)) is None:
        heading, _, rest = text.partition("\n") if place != PREFACE else ("", "", text)
        return _Note(heading.removeprefix("## "), "", "", rest.strip("\n"), is_pinned(text), None)
    seq = changes.get(text.strip("\n"))
    return _Note(note.section, note.author, f"{note.at.replace(' ', 'T')}:00Z", note.content, is_pinned(text), seq)


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
