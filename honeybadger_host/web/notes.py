"""Notes of MEMORY.md: found by id, edited, pinned, and shown with their authors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from honeybadger_agent.wire import EditNote, GetMemory, ReadGroupFiles
from honeybadger_host.curation.notes import notes_of
from honeybadger_host.files.home import MEMORY
from honeybadger_host.journal.reader import LogFilter
from honeybadger_host.memory.markdown.notes import parse_notes
from honeybadger_host.web.asking import Conflict, Home, made
from honeybadger_host.web.forms import go, group_of, home_of, member, posted, shown_of
from honeybadger_host.web.looking_back import Difference, blamed_in, difference_of, look_back
from honeybadger_host.web.rendering import compared, href, page

_PINS: Final = {"pin": True, "unpin": False}


def id_of(group: str, note: str) -> str:
    """Return the id of a note by its text in MEMORY.md."""
    return next(iter(notes_of(group, note.encode())))


def note_in(home: Home, group: str, id_: str) -> str | None:
    """Return the text of a signed note in MEMORY.md by its id, or None if it is not there."""
    memory = (home.read(group, ReadGroupFiles()).memory or "").encode()
    found = notes_of(group, memory).get(id_)
    return None if found is None or not found.author else memory[slice(*found.span)].decode()


def _edited(request: Request, form: dict[str, str]) -> Response:
    """Edit, pin or unpin a note, if it has not changed since the form was made."""
    group, action = group_of(request), form.get("action", "edited")
    wanted: dict[str, object] = {"content": form.get("content", "").strip("\n")}
    if action in _PINS:
        wanted = {"pinned": _PINS[action]}
    try:
        edited, seq = home_of(request).ask(group, made(EditNote, form.get("id", ""), **wanted))
    except Conflict:
        change = _change_of(home_of(request), group, _lines(form.get("was", "")))
        if action in _PINS or change is None:
            raise
        return _conflict(request, form, change)
    return go(href("g", group, "entry", id=edited.id, done=action, seq=seq))


def _change_of(home: Home, group: str, was: Collection[str]) -> Difference | None:
    """Return the newest change that removed a line of a note, or None if it is older, or not recorded yet."""
    for line in look_back(home.journal, LogFilter(group, file=f"groups/{group}/{MEMORY}")).lines:
        change = difference_of(home, line.seq)
        if any(sign == "-" and _bare(text) in was for sign, text in change.lines):
            return change
    return None


def _conflict(request: Request, form: dict[str, str], change: Difference) -> Response:
    """Show the note that replaced it next to the requested change, so that the user can apply it there."""
    group = group_of(request)
    book = parse_notes(home_of(request).read(group, ReadGroupFiles()).memory or "")
    added = {_bare(text) for sign, text in change.lines if sign == "+"} - {""}
    found: list[dict[str, Any]] = [
        {"id": id_of(group, book.notes[place]), "content": note.content}
        for place in book.places
        if (note := book.signed(place)) is not None and added & _lines(note.content)
    ]
    now, lines = None, change.lines
    if len(found) == 1:  # else it was removed, or several notes may have replaced it
        now = found[0]
        lines = compared(now["content"].splitlines(), form.get("content", "").splitlines()) or []
    return page("conflict.html", shown_of(request), code=409, is_note=True, entry=now, form=form, lines=lines)


def _lines(text: str) -> set[str]:
    return {_bare(line) for line in text.splitlines()} - {""}


def _bare(line: str) -> str:
    return line.strip().removeprefix("- ")


def _blame(request: Request) -> Response:
    """Show the authors of MEMORY.md, or of the entry with an id."""
    home, group, id_ = home_of(request), group_of(request), member(request, "id", 200)
    file = MEMORY if id_ is None else home.read(group, made(GetMemory, id_)).file
    file = file if file.startswith("groups/") else f"groups/{group}/{file}"
    back = href("g", group, "memory", kind="notes") if id_ is None else href("g", group, "entry", id=id_)
    return page("blame.html", shown_of(request), of=id_ or MEMORY, back=back, file=file, blamed=blamed_in(home, file))


ROUTES: Final = (
    Route("/g/{group}/blame", _blame),
    Route("/g/{group}/notes/edit", posted(_edited), methods=["POST"]),
)
