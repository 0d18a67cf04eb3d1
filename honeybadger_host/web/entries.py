"""One entry or note with its history and authors; edit, pin and forget it. A note is found by its id."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.responses import Response

from honeybadger_agent.wire import EditMemory, EditNote, EntryResult, Forget, GetMemory, ReadGroupFiles
from honeybadger_host.errors import NotFound as HostNotFound
from honeybadger_host.files.home import MEMORY
from honeybadger_host.journal.reader import LogFilter
from honeybadger_host.search.notes import notes_of
from honeybadger_host.web.differences import difference_of
from honeybadger_host.web.looking_back import Looked, blamed_in, look_back, note_history, note_now
from honeybadger_host.web.rendering import compared, href
from honeybadger_host.web.visits import Conflict, Invalid, NotFound, RequestFailed, Visit, action_in, go, made

_ACTIONS: Final[Mapping[str, dict[str, object]]] = {
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
    text = None if entry.kind != "note" else note_in(visit, id_)
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
    """Edit, pin or unpin an entry, or remove its expiry, if it has not changed since the form was made."""
    id_, version, action = form.get("id", ""), form.get("version", ""), _action_of(form)
    if not version:
        raise Invalid("version is missing: load the page again")
    content, title, category = (form.get(name, "").strip("\n") for name in ("content", "title", "category"))
    tags = [tag.strip() for tag in form.get("tags", "").split(",") if tag.strip()]
    texts: dict[str, object] = {"content": content, "title": title or None, "category": category or None}
    texts["tags"] = None if form.get("tags") == form.get("tags_were") else tags
    try:
        _, seq = visit.ask(made(EditMemory, id_, expected_version=version, **_ACTIONS.get(action, texts)))
    except Conflict:  # the form for the next save is based on the entry as it is now
        if action in _ACTIONS:
            raise
        return _conflict(visit, id_, form)
    return go(href("g", visit.group, "entry", id=id_, done=action, seq=seq))


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


def _action_of(form: dict[str, str]) -> str:
    """Return one of `_ACTIONS`, or `edited` for a form with new text. Raises Invalid."""
    return action_in({"action": "edited", **form}, {"edited", *_ACTIONS})


def note_in(visit: Visit, id_: str) -> str | None:
    """Return the text of a signed note in MEMORY.md by its id, or None if it is not there."""
    memory = (visit.read(ReadGroupFiles()).memory or "").encode()
    found = notes_of(visit.group, memory).get(id_)
    return None if found is None or not found.author else memory[slice(*found.span)].decode()


def _heading_of(note: str) -> str:
    return note.strip().partition("\n")[0]


def _note_under(visit: Visit, heading: str) -> str:
    """Return the id of the only note with a heading; empty if there is none, or more than one."""
    memory = (visit.read(ReadGroupFiles()).memory or "").encode()
    notes = notes_of(visit.group, memory).items()
    found = [id_ for id_, note in notes if heading == _heading_of(memory[slice(*note.span)].decode())]
    return found[0] if len(found) == 1 else ""


def note_edited(visit: Visit, form: dict[str, str]) -> Response:
    """Edit, pin or unpin a note, if it has not changed since the form was made."""
    id_, action = form.get("id", ""), _action_of(form)
    wanted = _ACTIONS.get(action, {"content": form.get("content", "").strip("\n")})
    try:
        edited, seq = visit.ask(made(EditNote, id_, **wanted))
    except Conflict:
        now = note_now(visit.home.journal, visit.group, id_)
        if now == id_:
            now = _note_under(visit, form.get("heading", ""))
        if action in _ACTIONS or not now:
            raise
        return _conflict(visit, now, form)
    return go(href("g", visit.group, "entry", id=edited.id, done=action, seq=seq))


def _conflict(visit: Visit, id_: str, form: dict[str, str]) -> Response:
    """Show what is there now next to the requested change, which can be made over it."""
    entry = visit.read(made(GetMemory, id_))
    text = _text_of(entry)
    lines = compared(text.splitlines(), form.get("content", "").splitlines()) or []
    heading = _heading_of(note_in(visit, id_) or "")
    return visit.page("conflict.html", code=409, entry=entry, text=text, form=form, lines=lines, heading=heading)


def _text_of(entry: EntryResult) -> str:
    """Return the text of an entry, or of a note as it was sent."""
    return entry.content.removeprefix("- ").replace("\n  ", "\n") if entry.kind == "note" else entry.content


def blame(visit: Visit) -> Response:
    """Show the authors of MEMORY.md, or of the entry with an id."""
    id_ = visit.member("id", 200)
    file = MEMORY if id_ is None else visit.read(made(GetMemory, id_)).file
    file = file if file.startswith("groups/") else f"groups/{visit.group}/{file}"
    back = href("g", visit.group, "memory", kind="notes") if id_ is None else href("g", visit.group, "entry", id=id_)
    return visit.page("blame.html", of=id_ or MEMORY, back=back, file=file, blamed=blamed_in(visit.home, file))
