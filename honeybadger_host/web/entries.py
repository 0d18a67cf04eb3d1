"""One entry or note with its history and authors; edit, pin and forget it. A note is found by its id."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from honeybadger_agent.wire import EditMemory, EditNote, Forget, GetMemory, ReadGroupFiles
from honeybadger_host.errors import NotFound as HostNotFound
from honeybadger_host.files.home import MEMORY
from honeybadger_host.journal.reader import LogFilter
from honeybadger_host.memory.markdown.notes import parse_notes
from honeybadger_host.search.notes import notes_of
from honeybadger_host.web.asking import Conflict, Home, Invalid, RequestFailed, made
from honeybadger_host.web.forms import action_in, go, group_of, home_of, member, number, shown_of
from honeybadger_host.web.looking_back import Difference, Looked, blamed_in, difference_of, look_back, note_history
from honeybadger_host.web.rendering import compared, href, page

_ACTIONS: Final[Mapping[str, dict[str, object]]] = {
    "pin": {"pinned": True},
    "unpin": {"pinned": False},
    "return": {"valid_until": "never"},  # of entries
}


def entry(request: Request) -> Response:
    home, group, id_ = home_of(request), group_of(request), member(request, "id", 200) or ""
    entry = home.read(group, made(GetMemory, id_))
    before = number(request, "before") or None
    text = None if entry.kind != "note" else note_in(home, group, id_)
    if entry.kind == "entry":
        looked = look_back(home.journal, LogFilter(group, file=entry.id, before=before))
    else:
        looked = Looked([] if text is None else note_history(home.journal, group, text), 0)
    return page(
        "entry.html",
        shown_of(request),
        entry=entry,
        stands=text is not None,
        texts=texts_of(home, group, [*entry.supersedes, *filter(None, [entry.superseded_by])]),
        looked=looked,
        done=member(request, "done", 20),
        seq=number(request, "seq"),
    )


def edited(request: Request, form: dict[str, str]) -> Response:
    """Save the form, if the entry has not changed since the form was made."""
    group = group_of(request)
    home, id_, version = home_of(request), form.get("id", ""), form.get("version", "")
    if not version:
        raise Invalid("version is missing: load the page again")
    content, title, category = (form.get(name, "").strip("\n") for name in ("content", "title", "category"))
    tags = [tag.strip() for tag in form.get("tags", "").split(",") if tag.strip()]
    asked = made(
        EditMemory,
        id_,
        content=content,
        title=title or None,
        category=category or None,
        tags=None if form.get("tags") == form.get("tags_were") else tags,
        expected_version=version,
    )
    try:
        _, seq = home.ask(group, asked)
    except Conflict as error:  # the form for the next save is based on the entry as it is now
        now = home.read(group, made(GetMemory, id_))
        lines = compared(now.content.splitlines(), content.splitlines()) or []
        return page(
            "conflict.html",
            shown_of(request),
            code=409,
            is_note=False,
            entry=now,
            form=form,
            why=str(error),
            lines=lines,
        )
    return go(href("g", group, "entry", id=id_, done="edited", seq=seq))


def changed(request: Request, form: dict[str, str]) -> Response:
    """Pin or unpin an entry, or remove its expiry, if it has not changed since it was shown."""
    group = group_of(request)
    action, id_, version = action_in(form, _ACTIONS), form.get("id", ""), form.get("version", "")
    if not version:
        raise Invalid("version is missing: load the page again")
    _, seq = home_of(request).ask(group, made(EditMemory, id_, expected_version=version, **_ACTIONS[action]))
    return go(href("g", group, "entry", id=id_, done=action, seq=seq))


def forgotten(request: Request, form: dict[str, str]) -> Response:
    """Show what would be forgotten, and forget it if that is confirmed."""
    group = group_of(request)
    home, id_ = home_of(request), form.get("id", "")
    told = _forgettable(home, group, id_)
    is_meant = form.get("confirm") == id_ and bool(id_)
    result, _ = home.ask(group, made(Forget, id=id_, dry_run=not is_meant))
    return page(
        "forget.html",
        shown_of(request),
        id=id_,
        told=told,
        result=result,
        is_done=is_meant,
        is_asked_again="confirm" in form and not is_meant,
    )


def texts_of(home: Home, group: str, ids: Iterable[str]) -> dict[str, str]:
    """Return id -> title or text of the entries and notes that exist."""
    texts: dict[str, str] = {}
    for id_ in dict.fromkeys(ids):
        with contextlib.suppress(RequestFailed):
            entry = home.read(group, made(GetMemory, id_))
            texts[id_] = entry.title or entry.name or entry.content
    return texts


def _forgettable(home: Home, group: str, id_: str) -> list[str]:
    """Return the lines of the entry or of the change that an id names."""
    with contextlib.suppress(RequestFailed, HostNotFound):
        if id_.isdigit():
            return [text for sign, text in difference_of(home, int(id_)).lines if sign in "+-" and text.strip()]
        entry = home.read(group, made(GetMemory, id_))
        return [*filter(None, [entry.title]), *entry.content.splitlines()]
    return []


# ------------------------------------------------------------------------------------------------------- notes


def id_of(group: str, note: str) -> str:
    """Return the id of a note by its text in MEMORY.md; empty if it is text below a note, which has no heading."""
    return next(iter(notes_of(group, note.encode())), "")


def note_in(home: Home, group: str, id_: str) -> str | None:
    """Return the text of a signed note in MEMORY.md by its id, or None if it is not there."""
    memory = (home.read(group, ReadGroupFiles()).memory or "").encode()
    found = notes_of(group, memory).get(id_)
    return None if found is None or not found.author else memory[slice(*found.span)].decode()


def note_edited(request: Request, form: dict[str, str]) -> Response:
    """Edit, pin or unpin a note, if it has not changed since the form was made."""
    group, action = group_of(request), form.get("action", "edited")
    wanted = _ACTIONS.get(action, {"content": form.get("content", "").strip("\n")})
    try:
        edited, seq = home_of(request).ask(group, made(EditNote, form.get("id", ""), **wanted))
    except Conflict:
        change = _change_of(home_of(request), group, _lines(form.get("was", "")))
        if action in _ACTIONS or change is None:
            raise
        return _note_conflict(request, form, change)
    return go(href("g", group, "entry", id=edited.id, done=action, seq=seq))


def _change_of(home: Home, group: str, was: Collection[str]) -> Difference | None:
    """Return the newest change that removed a line of a note, or None if it is older, or not recorded yet."""
    for line in look_back(home.journal, LogFilter(group, file=f"groups/{group}/{MEMORY}")).lines:
        change = difference_of(home, line.seq)
        if any(sign == "-" and _bare(text) in was for sign, text in change.lines):
            return change
    return None


def _note_conflict(request: Request, form: dict[str, str], change: Difference) -> Response:
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


def blame(request: Request) -> Response:
    """Show the authors of MEMORY.md, or of the entry with an id."""
    home, group, id_ = home_of(request), group_of(request), member(request, "id", 200)
    file = MEMORY if id_ is None else home.read(group, made(GetMemory, id_)).file
    file = file if file.startswith("groups/") else f"groups/{group}/{file}"
    back = href("g", group, "memory", kind="notes") if id_ is None else href("g", group, "entry", id=id_)
    return page("blame.html", shown_of(request), of=id_ or MEMORY, back=back, file=file, blamed=blamed_in(home, file))
