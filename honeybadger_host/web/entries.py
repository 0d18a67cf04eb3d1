"""One entry or note with its history and authors; edit, pin and forget it. A note is found by its id."""

import contextlib
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from starlette.responses import Response

from honeybadger_agent.wire import EditMemory, EditNote, EntryResult, Forget, GetMemory, ReadGroupFiles
from honeybadger_agent.wire import Request as Asked
from honeybadger_host.documents.history import Blamed, blame_of
from honeybadger_host.errors import NotFound as HostNotFound
from honeybadger_host.files.home import MEMORY
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.reader import LogFilter
from honeybadger_host.search.notes import NOTE_ID, notes_of
from honeybadger_host.web.looking_back import Looked, difference_of, look_back, note_history, note_now
from honeybadger_host.web.rendering import compared, href
from honeybadger_host.web.visits import Conflict, Home, Invalid, NotFound, RequestFailed, Visit, action_in, go, made

_ACTIONS: Mapping[str, dict[str, object]] = {
    "pin": {"pinned": True},
    "unpin": {"pinned": False},
    "return": {"valid_until": "never"},  # of entries
}


def entry(visit: Visit) -> Response:
    id_ = visit.member("id", 200) or ""
    try:
        entry = visit.read(made(GetMemory, id_))
    except NotFound:
        if (now := note_now(visit.home.journal, visit.group, id_)) == id_:
            raise
        return go(href("g", visit.group, "entry", id=now))  # as with the browser's way back from an edit
    before = visit.number("before") or None
    text = None if entry.kind != "note" else _signed_notes(visit).get(id_)
    if entry.kind == "entry":
        looked = look_back(visit.home.journal, LogFilter(visit.group, file=entry.id, before=before))
    else:
        looked = Looked([] if text is None else note_history(visit.home.journal, visit.group, text), 0)
    return visit.page(
        "entry.html",
        entry=entry,
        text=_text_of(entry),
        heading=_heading_of(text or ""),
        texts=texts_of(visit, [*entry.supersedes, *filter(None, [entry.superseded_by])]),
        looked=looked,
        done=visit.member("done", 20),
        seq=visit.number("seq"),
    )


def edited(visit: Visit, form: dict[str, str]) -> Response:
    """Edit, pin or unpin an entry or a note, or remove an entry's expiry, if it is as it was when the form was made."""
    id_, action = form.get("id", ""), action_in({"action": "edited", **form}, {"edited", *_ACTIONS})
    try:
        edited, seq = visit.ask(_edit_in(form, action))
    except Conflict:  # the form for the next save is based on the text as it is now
        now = _note_now(visit, form) if id_.startswith(NOTE_ID) else id_
        if action in _ACTIONS or not now:
            raise
        return _conflict(visit, now, form)
    return go(href("g", visit.group, "entry", id=edited.id, done=action, seq=seq))


def _edit_in(form: dict[str, str], action: str) -> Asked[Any]:
    """Return the request that a form asks for. Raises Invalid."""
    id_, version = form.get("id", ""), form.get("version", "")
    content, title, category = (form.get(name, "").strip("\n") for name in ("content", "title", "category"))
    texts: dict[str, object] = {"content": content}
    if id_.startswith(NOTE_ID):
        return made(EditNote, id_, **_ACTIONS.get(action, texts))
    if not version:
        raise Invalid("version is missing: load the page again")
    tags = [tag.strip() for tag in form.get("tags", "").split(",") if tag.strip()]
    texts |= {"title": title or None, "category": category or None}
    texts["tags"] = None if form.get("tags") == form.get("tags_were") else tags
    return made(EditMemory, id_, expected_version=version, **_ACTIONS.get(action, texts))


def forgotten(visit: Visit, form: dict[str, str]) -> Response:
    """Show what would be forgotten, and forget it if that is confirmed."""
    id_ = form.get("id", "")
    told = _forgettable(visit, id_)
    is_meant = form.get("confirm") == id_ and bool(id_)
    result, _ = visit.ask(made(Forget, id=id_, dry_run=not is_meant))
    return visit.page(
        "forget.html",
        id=id_,
        told=told,
        result=result,
        is_done=is_meant,
        is_asked_again="confirm" in form and not is_meant,
    )


def texts_of(visit: Visit, ids: Iterable[str]) -> dict[str, str]:
    """Return id -> title or text of the entries and notes that exist."""
    texts: dict[str, str] = {}
    for id_ in dict.fromkeys(ids):
        with contextlib.suppress(RequestFailed):
            entry = visit.read(made(GetMemory, id_))
            texts[id_] = entry.title or entry.name or entry.content
    return texts


def _forgettable(visit: Visit, id_: str) -> list[str]:
    """Return the lines of the entry or of the change that an id names."""
    with contextlib.suppress(RequestFailed, HostNotFound):
        if id_.isdigit():
            return [text for sign, text in difference_of(visit.home, int(id_)).lines if sign in "+-" and text.strip()]
        entry = visit.read(made(GetMemory, id_))
        return [*filter(None, [entry.title]), *entry.content.splitlines()]
    return []


# ------------------------------------------------------------------------------------------------------- notes


def id_of(group: str, note: str) -> str:
    """Return the id of a note by its text in MEMORY.md; empty if it is text below a note, which has no heading."""
    return next(iter(notes_of(group, note.encode())), "")


def _signed_notes(visit: Visit) -> dict[str, str]:
    """Return id -> text of the signed notes in MEMORY.md."""
    memory = (visit.read(ReadGroupFiles()).memory or "").encode()
    notes = notes_of(visit.group, memory).items()
    return {id_: memory[slice(*note.span)].decode() for id_, note in notes if note.author}


def _heading_of(note: str) -> str:
    return note.strip().partition("\n")[0]


def _note_now(visit: Visit, form: dict[str, str]) -> str:
    """Return the id that the note of a form has now; empty if it is gone, or several have its heading."""
    if (now := note_now(visit.home.journal, visit.group, form["id"])) != form["id"]:
        return now
    found = [id_ for id_, text in _signed_notes(visit).items() if _heading_of(text) == form.get("heading")]
    return found[0] if len(found) == 1 else ""


def _conflict(visit: Visit, id_: str, form: dict[str, str]) -> Response:
    """Show what is there now next to the requested change, which can be made over it."""
    entry = visit.read(made(GetMemory, id_))
    text = _text_of(entry)
    lines = compared(text.splitlines(), form.get("content", "").splitlines()) or []
    return visit.page(
        "conflict.html",
        code=409,
        entry=entry,
        text=text,
        form=form,
        lines=lines,
        heading=_heading_of(_signed_notes(visit).get(id_, "")),
    )


def _text_of(entry: EntryResult) -> str:
    """Return the text of an entry, or of a note as it was sent."""
    return entry.content.removeprefix("- ").replace("\n  ", "\n") if entry.kind == "note" else entry.content


def blame(visit: Visit) -> Response:
    """Show the authors of MEMORY.md, or of the entry with an id."""
    id_ = visit.member("id", 200)
    file = MEMORY if id_ is None else visit.read(made(GetMemory, id_)).file
    file = file if file.startswith("groups/") else f"groups/{visit.group}/{file}"
    back = href("g", visit.group, "memory", kind="notes") if id_ is None else href("g", visit.group, "entry", id=id_)
    return visit.page("blame.html", of=id_ or MEMORY, back=back, file=file, blamed=_blamed_in(visit.home, file))


def _blamed_in(home: Home, file: str) -> list[tuple[str, str, Blamed]]:
    """Return each part of a group's file: place, text, author. Raises JournalError, NotFound, WorldFailed.

    A part is a member of an entry, or successive lines that one change wrote, whose place is the first line's number.
    It reads all changes of the file, so only the page that shows authors calls it.
    """
    held = read_whole(home.path / file)
    if held is None or not home.journal.exists():
        raise HostNotFound(f"{file} is not there, or no host has served this home yet")
    parts = blame_of(home.journal, file, held)
    blocks: list[tuple[str, str, Blamed]] = []
    for _, group in groupby(parts, lambda part: part[1].origin if part[0].isdigit() else part[0]):
        lines = [*group]
        text = "\n".join(str(one.shown) for _, one in lines).strip("\n")
        if text.strip():
            blocks.append((lines[0][0], text, lines[0][1]))
    return blocks
