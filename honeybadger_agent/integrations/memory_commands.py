"""The commands of the memory tool as steps: each yields calls, takes their results, and returns text for the model.

They do no I/O and never wait, so that both clients use the same steps. Texts are those of the tool's reference, which
Claude's models know (anthropic 2.12, `BetaLocalFilesystemMemoryTool`), where it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

from honeybadger_agent import wire
from honeybadger_agent.cli.explaining import waiting_told
from honeybadger_agent.errors import AgentError, CommandFailed, Conflict, NotFound
from honeybadger_agent.integrations import memory_texts as texts
from honeybadger_agent.integrations.memory_paths import NOTES, ROOT, MemoryPath, name_of, parse_path, shown_name
from honeybadger_agent.tools import made
from honeybadger_agent.turn.dispatch import code_of, complaint_of

ResultT = TypeVar("ResultT", bound=wire.Result)
T = TypeVar("T")
# Yields a call; its result is sent or its error thrown into the generator.
Steps: TypeAlias = Generator[wire.Request[Any], Any, T]

MAX_SHOWN: Final = 500  # files in one view of a folder, which goes into a model's context
MAX_TRIES: Final = 5
_CLOSED: Final = f"{ROOT}/{NOTES} is the group's shared file of notes, which people edit"


class _Waits(Exception):
    """A write waits for review, and so does what was to follow it."""


def steps_of(command: Mapping[str, object]) -> Steps[str]:
    """Return the steps of a command. Raises CommandFailed: it is unknown, or a member is wrong.

    Args:
        command: as a model sends it: `{"command": "view", "path": "/memories"}`. Other members are ignored.
    """
    return _told(_steps_of(command))


def _told(steps: Steps[str]) -> Steps[str]:
    try:
        return (yield from steps)
    except _Waits as waits:
        return str(waits)


def _steps_of(command: Mapping[str, object]) -> Steps[str]:
    match command.get("command"):
        case "view":
            return _view(parse_path(command.get("path")), _range(command))
        case "create":
            return _create(parse_path(command.get("path")), _text(command, "file_text"))
        case "str_replace":
            new = _text(command, "new_str") if command.get("new_str") is not None else ""
            return _str_replace(parse_path(command.get("path")), _text(command, "old_str"), new)
        case "insert":
            line = command.get("insert_line")
            if type(line) is not int:
                raise CommandFailed("invalid", "`insert_line` must be a number of a line, 0 for the beginning")
            return _insert(parse_path(command.get("path")), line, _text(command, "insert_text"))
        case "delete":
            return _delete(parse_path(command.get("path")))
        case "rename":
            return _rename(
                parse_path(command.get("old_path"), "old_path"), parse_path(command.get("new_path"), "new_path")
            )
        case other:
            shown = ascii(other)[:60]
            known = "view, create, str_replace, insert, delete, rename"
            raise CommandFailed("invalid", f"Unknown command: {shown}. The commands are {known}")


# ----------------------------------------------------------------------------------------------------------------- view


def _view(path: MemoryPath, view_range: tuple[int, int] | None) -> Steps[str]:
    if path.is_notes:
        notes = yield from _notes()
        return texts.page(path, texts.there(notes, path), view_range)
    if not path.is_root and not path.is_folder:
        entry = yield from _entry_at(path)
        if entry is not None:
            return texts.page(path, entry.content, view_range)
    return texts.there((yield from _folder(path)), path)


def _folder(path: MemoryPath) -> Steps[str | None]:
    """Return the listing of a folder, two levels deep; None: it does not exist. `general` is listed at the top."""
    category = None if path.is_root else path.as_category
    if category is None and not path.is_root:
        return None
    listed = yield from _ask(made(wire.ListMemoryEntries, category=category, depth=1, limit=MAX_SHOWN))
    base = len(path.parts)
    rows: dict[tuple[str, ...], str] = {}
    for folder in listed.folders:
        parts = tuple(folder.category.split("/"))
        has_more = folder.entries < folder.total
        if len(parts) > base and (parts != (wire.GENERAL,) or has_more):
            rows[parts[base:]] = f"{texts.size(folder.bytes)}\t{path}/{'/'.join(parts[base:])}/"
    for row in listed.entries:
        parts = () if path.is_root and row.category == wire.GENERAL else tuple(row.category.split("/"))[base:]
        name = name_of(row)
        if (*parts, name) in rows:  # two entries have the name
            name = shown_name(row.id, row.title, row.begins)
        if not name.startswith("."):
            rows[*parts, name] = f"{texts.size(row.bytes)}\t{'/'.join((str(path), *parts, name))}"
    total = sum(folder.bytes for folder in listed.folders if folder.category.count("/") == base - (base > 0))
    if path.is_root:
        notes = yield from _notes()
        if notes is not None:
            rows[NOTES,] = f"{texts.size(len(notes.encode()))}\t{path}/{NOTES}"
            total += len(notes.encode())
    elif not listed.folders:
        _see_complete(listed, path)
        return None
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    lines = [head, f"{texts.size(total)}\t{path}", *(line for _, line in sorted(rows.items()))]
    if (left := listed.total - len(listed.entries)) > 0:
        lines.append(f"({left} more files are not shown: view one of the folders.)")
    if not listed.is_complete:
        lines.append("(Some files are still being read: there may be more.)")
    return "\n".join(lines)


# ----------------------------------------------------------------------------------------------------- create and write


def _create(path: MemoryPath, text: str) -> Steps[str]:
    if path.is_root or path.is_folder:
        raise CommandFailed("invalid", f"{path}/ names a folder: a file has a name, as {path}/notes.md")
    texts.see_text(path, text)
    if path.is_notes:
        if (yield from _notes()) is not None:
            raise texts.exists(path)
        note = yield from _ask(made(wire.UpdateMemory, content=text))
        return f"File created successfully at: {path}\n{texts.noted(note)}"
    category = _category_of(path)
    if (yield from _is_taken(path)):
        raise texts.exists(path)
    try:
        saved = yield from _ask(made(wire.SaveMemory, content=text, category=category, name=path.name))
    except Conflict as error:
        if error.field == "payload.name":
            raise texts.exists(path) from None
        raise
    return f"File created successfully at: {path}{texts.changed(saved.neutralised)}"


def _str_replace(path: MemoryPath, old: str, new: str) -> Steps[str]:
    if path.is_notes:
        raise CommandFailed("forbidden", f"{_CLOSED}: text in it is not replaced. Insert a note at its end instead")
    if not old:
        raise CommandFailed("invalid", "No replacement was performed, `old_str` is empty.")

    def replaced(text: str) -> str:
        count = text.count(old)
        if count == 0:
            raise CommandFailed(
                "invalid", f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            )
        if count > 1:
            raise CommandFailed(
                "invalid",
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{texts.places(text, old)}. Please ensure it is unique",
            )
        return text.replace(old, new)

    before, after = yield from _edit(path, replaced)
    lines = after.content.split("\n")
    changed = before[: before.find(old)].count("\n")
    snippet = texts.numbered(lines, min(max(1, changed - 1), len(lines)), min(len(lines), changed + 3))
    return (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        + "\n".join(snippet)
        + texts.changed(after.neutralised)
    )


def _insert(path: MemoryPath, line: int, text: str) -> Steps[str]:
    def inserted(before: str) -> str:
        lines = texts.lines(before)
        texts.see_line(line, len(lines))
        lines.insert(line, text.rstrip("\n"))
        return "\n".join(lines) + "\n"

    if path.is_notes:
        notes = texts.there((yield from _notes()), path)
        end = len(texts.lines(notes))
        texts.see_line(line, len(notes.split("\n")))
        if line < end:
            raise CommandFailed(
                "forbidden", f"{_CLOSED}: text can be added at its end only. Use `insert_line` {end} to add a note"
            )
        texts.see_text(path, text)
        note = yield from _ask(made(wire.UpdateMemory, content=text))
        return f"The file {path} has been edited.\n{texts.noted(note)}"
    _, after = yield from _edit(path, inserted)
    return f"The file {path} has been edited.{texts.changed(after.neutralised)}"


def _edit(path: MemoryPath, change: Callable[[str], str]) -> Steps[tuple[str, wire.SavedEntry]]:
    """Change a file's text if its version is still the one read; return the old text and the new entry."""
    for _ in range(MAX_TRIES):
        entry = texts.there((yield from _entry_at(path)), path)
        text = change(entry.content)
        texts.see_text(path, text)
        try:
            edited = yield from _ask(made(wire.EditMemory, id=entry.id, content=text, expected_version=entry.version))
        except (Conflict, NotFound):
            continue  # changed meanwhile: read again
        return entry.content, edited
    raise CommandFailed("conflict", f"{path} is being changed by others all the time: view it, then try again")


# ---------------------------------------------------------------------------------------------------- delete and rename


def _delete(path: MemoryPath) -> Steps[str]:
    if path.is_root:
        raise CommandFailed("forbidden", "Cannot delete the /memories directory itself")
    if path.is_notes:
        raise CommandFailed("forbidden", f"{_CLOSED}: it is not deleted")
    entry = None if path.is_folder else (yield from _entry_at(path))
    if entry is not None:
        try:
            yield from _ask(made(wire.DeleteMemory, id=entry.id))
        except NotFound:
            raise texts.missing(path) from None
    else:
        yield from _each_below(path, lambda row: made(wire.DeleteMemory, id=row.id), "deleted")
    return f"Successfully deleted {path}"


def _rename(old: MemoryPath, new: MemoryPath) -> Steps[str]:
    if old.is_root:
        raise CommandFailed("forbidden", "Cannot rename the /memories directory itself")
    if old.is_notes:
        raise CommandFailed("forbidden", f"{_CLOSED}: it is not renamed")
    done = f"Successfully renamed {old} to {new}"
    entry = None if old.is_folder else (yield from _entry_at(old))
    if entry is None and not (yield from _is_folder(old)):
        raise texts.missing(old)
    if new.is_root or new.is_notes or (yield from _is_taken(new)):
        raise CommandFailed("conflict", f"The destination {new} already exists")
    if entry is not None:
        try:
            yield from _ask(made(wire.EditMemory, id=entry.id, category=_category_of(new), name=new.name))
        except NotFound:
            raise texts.missing(old) from None
        except Conflict as error:
            if error.field == "payload.name":
                raise CommandFailed("conflict", f"The destination {new} already exists") from None
            raise
        return done
    if new.parts[: len(old.parts)] == old.parts:
        raise CommandFailed("invalid", f"Cannot rename {old} to {new}, a folder in itself")
    target = new.as_category
    if target is None:
        raise texts.no_folder(new, new.parts)
    base = len(old.parts)

    def moved(row: wire.EntryRow) -> wire.Request[Any]:
        return made(wire.EditMemory, id=row.id, category="/".join((target, *row.category.split("/")[base:])))

    yield from _each_below(old, moved, "renamed")
    return done


def _each_below(path: MemoryPath, act: Callable[[wire.EntryRow], wire.Request[Any]], done: str) -> Steps[None]:
    """Change every entry of a folder, one after another. Raises CommandFailed, also in the middle."""
    category = path.as_category
    if category is None:
        raise texts.missing(path)
    seen: set[str] = set()
    while True:
        listed = yield from _ask(made(wire.ListMemoryEntries, category=category, limit=wire.MAX_LISTED))
        _see_complete(listed, path)
        rows = [row for row in listed.entries if row.id not in seen]
        if not rows and not seen:
            raise texts.missing(path)
        if not rows:
            return
        for row in rows:
            try:
                yield from _ask(act(row))
            except NotFound:
                pass  # removed meanwhile
            except AgentError as error:
                raise CommandFailed(
                    code_of(error),
                    f"{complaint_of(error)}; {len(seen)} files of {path} were {done} before, {name_of(row)} was not",
                ) from None
            seen.add(row.id)


# ------------------------------------------------------------------------------------------------------ what is where


def _ask(call: wire.Request[ResultT]) -> Steps[ResultT]:
    """Return the result of a call. Raises the client's errors, and `_Waits`."""
    result: ResultT = yield call
    if (proposal := getattr(result, "proposal", None)) is not None:
        raise _Waits(waiting_told(proposal))
    return result


def _notes() -> Steps[str | None]:
    """Return MEMORY.md; None: it does not exist. Raises CommandFailed: it cannot be served."""
    found = yield from _ask(wire.ReadGroupFiles())
    for problem in found.problems:
        if problem.file == NOTES:
            raise CommandFailed("unavailable", f"{ROOT}/{NOTES} cannot be read: {problem.message}")
    return found.memory


def _entry_at(path: MemoryPath) -> Steps[wire.EntryResult | None]:
    category = path.category
    if path.is_root or category is None:
        return None
    with suppress(NotFound):
        return (yield from _ask(made(wire.GetMemory, category=category, name=path.name)))
    if path.entry_id is not None:
        with suppress(NotFound):
            entry = yield from _ask(made(wire.GetMemory, id=path.entry_id))
            if path.shows(entry):
                return entry
    _see_complete((yield from _ask(made(wire.ListMemoryEntries, category=category, limit=1))), path)
    return None


def _is_taken(path: MemoryPath) -> Steps[bool]:
    """Return whether a file or a folder is there, as far as is indexed; the host checks when it saves a name."""
    if (category := path.category) is not None:
        with suppress(NotFound):
            yield from _ask(made(wire.GetMemory, category=category, name=path.name))
            return True
    if (id_ := path.made_id) is not None:
        with suppress(NotFound):
            return path.shows((yield from _ask(made(wire.GetMemory, id=id_))))
    return (yield from _is_folder(path))


def _is_folder(path: MemoryPath) -> Steps[bool]:
    if (category := path.as_category) is None:
        return False
    listed = yield from _ask(made(wire.ListMemoryEntries, category=category, limit=1))
    return bool(listed.total)


def _see_complete(listed: wire.EntriesResult, path: MemoryPath) -> None:
    """Raises CommandFailed: the list is incomplete, so the path may exist."""
    if not listed.is_complete:
        raise CommandFailed(
            "unavailable", f"The files of this memory are still being read: view {path} again in a moment"
        )


def _category_of(path: MemoryPath) -> str:
    if (category := path.category) is None:
        raise texts.no_folder(path, path.parts[:-1])
    return category


# ---------------------------------------------------------------------------------------------------------- its members


def _text(command: Mapping[str, object], member: str) -> str:
    text = command.get(member)
    if not isinstance(text, str):
        raise CommandFailed("invalid", f"`{member}` must be a text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CommandFailed("invalid", f"`{member}` must be text without lone surrogates") from None
    return text


def _range(command: Mapping[str, object]) -> tuple[int, int] | None:
    match command.get("view_range"):
        case None:
            return None
        case [int(start), int(end)]:
            return start, end
        case _:
            raise CommandFailed("invalid", "Invalid `view_range` parameter. It should be a list of two integers.")
