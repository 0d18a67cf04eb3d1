"""Claude's memory tool (`memory_20250818`) on the group's memory, for any program that talks to a model.

`MemoryTool(SyncClient(…)).run({"command": "view", "path": "/memories"})` returns the text for the model; with the SDK
of Anthropic use `honeybadger_agent.integrations.anthropic_memory`. A file is an entry: `/memories/<category…>/<name>`.
The texts are those of the SDK's own tool (anthropic 2.12). Its limits: docs/adapters.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import orjson

from honeybadger_agent import wire
from honeybadger_agent.cli.explaining import kinds_of, waiting_told
from honeybadger_agent.client import Client, SyncClient, run_through
from honeybadger_agent.errors import AgentError, CommandFailed, NotFound, RequestFailed
from honeybadger_agent.mailbox import new_id
from honeybadger_agent.tools import made
from honeybadger_agent.turn.dispatch import MAX_UNANSWERED, code_of, complaint_of
from honeybadger_agent.wire import GENERAL, Request

ResultT = TypeVar("ResultT", bound=wire.Result)
# The tool's definition in a request to the model.
DEFINITION: Final[Mapping[str, str]] = {"type": "memory_20250818", "name": "memory"}
ROOT: Final = "/memories"
NOTES: Final = f"{ROOT}/MEMORY.md"
MAX_SHOWN: Final = 500  # files in one view of a folder
_MAX_LINES_NAMED: Final = 50
_MAX_WORDS: Final = 40  # characters of an entry's first words in the name of an entry without one
_COMMANDS: Final = "view, create, str_replace, insert, delete, rename"


@dataclass(frozen=True, slots=True)
class _Change:
    """The request of a command, and the text for the model once it is done."""

    request: Request[Any]
    done: Callable[[Any], str]
    request_id: str = field(default_factory=new_id)


class _Commands:
    """The commands of both tools.

    A model cannot name a request. A change without a reply is therefore kept: the same command again sends the same
    request, which is never applied twice.
    """

    def __init__(self, client: Client | SyncClient) -> None:
        self._client = client
        self._unanswered: dict[bytes, _Change] = {}

    async def _told(self, command: Mapping[str, object]) -> str:
        try:
            return await self._run(orjson.dumps(dict(command), option=orjson.OPT_SORT_KEYS), command)
        except TypeError:
            raise CommandFailed("invalid", "the command must be a JSON object of texts and numbers") from None
        except CommandFailed:
            raise
        except AgentError as error:
            raise CommandFailed(code_of(error), complaint_of(error)) from None

    async def _run(self, key: bytes, command: Mapping[str, object]) -> str:
        change = self._unanswered.pop(key, None) or await self._begin(command)
        if isinstance(change, str):
            return change
        try:
            result = await self._ask(change.request, change.request_id)
        except RequestFailed:
            raise
        except BaseException:  # no reply, Ctrl-C, or cancelled: the change may have been made
            self._unanswered[key] = change
            if len(self._unanswered) > MAX_UNANSWERED:
                del self._unanswered[next(iter(self._unanswered))]
            raise
        return waiting_told(result.proposal) if result.proposal else change.done(result)

    async def _begin(self, command: Mapping[str, object]) -> str | _Change:
        match command:
            case {"command": "view", "path": str(path)}:
                return await self._view(_File.at(path), command.get("view_range"))
            case {"command": "create", "path": str(path), "file_text": str(text)}:
                return await self._create(_File.at(path), text)
            case {"command": "str_replace", "path": str(path), "old_str": str(old)}:
                return await self._str_replace(_File.at(path), old, str(command.get("new_str") or ""))
            case {"command": "insert", "path": str(path), "insert_line": int(line), "insert_text": str(text)}:
                return await self._insert(_File.at(path), line, text)
            case {"command": "delete", "path": str(path)}:
                return await self._delete(_File.at(path))
            case {"command": "rename", "old_path": str(old), "new_path": str(new)}:
                return await self._rename(_File.at(old), _File.at(new))
        raise CommandFailed("invalid", f"Unknown command, or a member is missing or wrong: {_COMMANDS}")

    async def _view(self, file: _File, view_range: object) -> str:
        if file.path == NOTES:
            text = await self._notes()
        else:
            entry = await self._entry(file)
            text = None if entry is None else entry.content
        if text is None:
            return await self._folder(file)
        lines = text.split("\n")
        match view_range:
            case None:
                start, end = 1, -1
            case [int(first), int(end)]:
                start = max(1, first)
            case _:
                raise CommandFailed("invalid", "`view_range` is wrong: it is a list of two integers")
        shown = _numbered(lines, start, len(lines) if end == -1 else end)
        return "\n".join((f"Here's the content of {file.path} with line numbers:", *shown))

    async def _folder(self, folder: _File) -> str:
        listed = await self._listed(folder, depth=1, limit=MAX_SHOWN)
        if listed is None:
            raise folder.missing()
        sizes: dict[str, int] = {}
        for one in listed.folders:
            if one.category not in (folder.folder, GENERAL):
                sizes[f"{ROOT}/{one.category}/"] = one.bytes
        for row in listed.entries:
            above = ROOT if folder.is_root and row.category == GENERAL else f"{ROOT}/{row.category}"
            name = row.name or _shown_name(row)
            if f"{above}/{name}" in sizes:  # a person gave two entries the same name
                name = _shown_name(row)
            if not name.startswith("."):
                sizes[f"{above}/{name}"] = row.bytes
        depth = max(len(folder.parts) - 1, 0)
        total = sum(one.bytes for one in listed.folders if one.category.count("/") == depth)
        if folder.is_root and (notes := await self._notes()) is not None:
            sizes[NOTES] = len(notes.encode())
            total += sizes[NOTES]
        rows = sorted(sizes.items(), key=lambda item: item[0].split("/"))
        lines = [
            f"Here're the files and directories up to 2 levels deep in {folder.path}, excluding hidden items:",
            f"{_size(total)}\t{folder.path}",
            *(f"{_size(size)}\t{path}" for path, size in rows),
        ]
        if listed.has_more:
            lines.append(f"({listed.total - len(listed.entries)} more files are not shown: view one of the folders.)")
        return "\n".join(lines)

    async def _create(self, file: _File, text: str) -> _Change:
        await self._see_free(file, f"File {file.path} already exists")
        request = made(wire.SaveMemory, content=text, category=file.category, name=file.name)
        return _Change(request, lambda saved: f"File created successfully at: {file.path}{_harmless(saved)}")

    async def _str_replace(self, file: _File, old: str, new: str) -> _Change:
        entry = await self._existing(file)
        count = entry.content.count(old) if old else 0
        if count != 1:
            raise CommandFailed("invalid", _why_not(entry.content, old, file))
        before = entry.content[: entry.content.find(old)].count("\n")

        def done(edited: wire.SavedEntry) -> str:
            lines = edited.content.split("\n")
            head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
            return "\n".join((head, *_numbered(lines, max(1, before - 1), before + 3))) + _harmless(edited)

        return _Change(_edited(entry, entry.content.replace(old, new)), done)

    async def _insert(self, file: _File, line: int, text: str) -> _Change:
        entry = None if file.path == NOTES else await self._existing(file)
        before = await self._notes() or "" if entry is None else entry.content
        lines = before.removesuffix("\n").split("\n") if before else []
        if not 0 <= line <= len(lines):
            raise CommandFailed(
                "invalid",
                f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}].",
            )
        if entry is None and line < len(lines):
            raise CommandFailed("forbidden", f"{NOTES} takes text at its end only: `insert_line` {len(lines)}")
        lines.insert(line, text.rstrip("\n"))
        request = made(wire.UpdateMemory, content=text) if entry is None else _edited(entry, "\n".join(lines) + "\n")
        return _Change(request, lambda edited: f"The file {file.path} has been edited.{_harmless(edited)}")

    async def _delete(self, file: _File) -> _Change:
        if file.is_root:
            raise CommandFailed("forbidden", "Cannot delete the /memories directory itself")
        entry = await self._entry(file)
        request: Request[Any]
        if entry is not None:
            request = made(wire.DeleteMemory, id=entry.id)
        else:
            request = _together("delete_memory", [{"id": row.id} for row in await self._rows(file)])
        return _Change(request, lambda _: f"Successfully deleted {file.path}")

    async def _rename(self, old: _File, new: _File) -> _Change:
        if old.is_root:
            raise CommandFailed("forbidden", "Cannot rename the /memories directory itself")
        entry = await self._entry(old)
        rows = await self._rows(old) if entry is None else []
        await self._see_free(new, f"The destination {new.path} already exists")
        request: Request[Any]
        if entry is not None:
            request = made(wire.EditMemory, id=entry.id, category=new.category, name=new.name)
        else:
            moved = [{"id": row.id, "category": new.folder + row.category[len(old.folder) :]} for row in rows]
            request = _together("edit_memory", moved)
        return _Change(request, lambda _: f"Successfully renamed {old.path} to {new.path}")

    # ------------------------------------------------------------------------------------------------------- reading

    async def _ask(self, request: Request[ResultT], request_id: str | None = None) -> ResultT:
        answer = self._client.call(request, request_id=request_id)
        return await answer if inspect.isawaitable(answer) else answer

    async def _notes(self) -> str | None:
        """Return MEMORY.md; None: it does not exist. Raises CommandFailed: it cannot be served."""
        found = await self._ask(wire.ReadGroupFiles())
        for problem in found.problems:
            if f"{ROOT}/{problem.file}" == NOTES:
                raise CommandFailed("unavailable", f"{NOTES} cannot be read: {problem.message}")
        return found.memory

    async def _entry(self, file: _File) -> wire.EntryResult | None:
        """Return the entry of a path by its name, or by the id in the name that an entry without one is shown by."""
        if file.path == NOTES:
            raise CommandFailed("forbidden", f"{NOTES} is what people edit: only view it, or insert at its end")
        if file.is_root:
            return None
        with suppress(NotFound):
            return await self._ask(made(wire.GetMemory, category=file.category, name=file.name))
        _, is_shown_name, entry_id = file.name.rpartition("~")
        if is_shown_name and wire.ENTRY_ID.fullmatch(entry_id):
            with suppress(NotFound):
                entry = await self._ask(made(wire.GetMemory, id=entry_id))
                return entry if entry.category.lower() == file.category.lower() else None
        return None

    async def _existing(self, file: _File) -> wire.EntryResult:
        entry = await self._entry(file)
        if entry is None:
            await self._listed(file, limit=1)
            raise file.missing()
        return entry

    async def _listed(self, folder: _File, **members: int) -> wire.EntriesResult | None:
        """Return a folder's entries; None: it does not exist. Raises CommandFailed: not all files are indexed yet."""
        is_category = wire.CATEGORY.fullmatch(folder.folder) is not None
        category = folder.folder if is_category else GENERAL
        listed = await self._ask(made(wire.ListMemoryEntries, category=None if folder.is_root else category, **members))
        if not listed.is_complete:
            raise CommandFailed("unavailable", f"Files are still being read: try {folder.path} again in a moment")
        return listed if folder.is_root or (is_category and listed.total) else None

    async def _rows(self, folder: _File) -> list[wire.EntryRow]:
        """Return all entries of a folder, to change in one request. Raises CommandFailed."""
        listed = await self._listed(folder, limit=wire.MAX_OPERATIONS)
        if listed is None:
            raise folder.missing()
        if listed.has_more:
            limit = wire.MAX_OPERATIONS
            raise CommandFailed(
                "too_large", f"{folder.path} has {listed.total} files, the limit is {limit}: begin with its folders"
            )
        return listed.entries

    async def _see_free(self, file: _File, complaint: str) -> None:
        if file.is_root or file.path == NOTES or await self._entry(file) or await self._listed(file, limit=1):
            raise CommandFailed("conflict", complaint)


@dataclass(frozen=True, slots=True)
class _File:
    """A path below `/memories`, or that folder itself."""

    parts: tuple[str, ...]

    @classmethod
    def at(cls, path: str) -> _File:
        """Parse a model's path; it is never used as a path of the file system. Raises CommandFailed."""
        if ".." in unquote(path).replace("\\", "/").split("/"):
            raise CommandFailed("forbidden", f"Path {path} would escape /memories directory")
        if path != ROOT and not path.startswith(f"{ROOT}/"):
            raise CommandFailed("forbidden", f"Path must start with /memories, got: {path}")
        return cls(tuple(part for part in path.removeprefix(ROOT).split("/") if part not in ("", ".")))

    @property
    def path(self) -> str:
        return "/".join((ROOT, *self.parts))

    @property
    def is_root(self) -> bool:
        return not self.parts

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def category(self) -> str:
        return "/".join(self.parts[:-1]) or GENERAL

    @property
    def folder(self) -> str:
        """The path as a category."""
        return "/".join(self.parts)

    def missing(self) -> CommandFailed:
        return CommandFailed("not_found", f"The path {self.path} does not exist. Please provide a valid path.")


class MemoryTool(_Commands):
    """The memory tool of one sender."""

    def __init__(self, client: SyncClient) -> None:
        super().__init__(client)

    def run(self, command: Mapping[str, object]) -> str:
        """Run a command and return the text for the model.

        Args:
            command: the `input` of a `tool_use` block, as the model wrote it.
        Raises CommandFailed: its text is for the model, as a `tool_result` with `is_error`.
        """
        return run_through(self._told(command))


class AsyncMemoryTool(_Commands):
    """The memory tool for asyncio programs."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)

    async def run(self, command: Mapping[str, object]) -> str:
        """Run a command, see `MemoryTool.run`. A cancelled one continues when it is sent again."""
        return await self._told(command)


def _edited(entry: wire.EntryResult, content: str) -> wire.EditMemory:
    return made(wire.EditMemory, id=entry.id, content=content, expected_version=entry.version)


def _together(type_name: str, payloads: list[dict[str, str]]) -> wire.ChangeMany:
    return made(wire.ChangeMany, operations=[{"type": type_name, "payload": payload} for payload in payloads])


def _numbered(lines: Sequence[str], start: int, end: int) -> list[str]:
    return [f"{number:>6}\t{line}" for number, line in enumerate(lines[start - 1 : end], start)]


def _why_not(text: str, old: str, file: _File) -> str:
    """Return why `old`, which is not exactly once in a text, is not replaced."""
    if not old or old not in text:
        return f"No replacement was performed, old_str `{old}` did not appear verbatim in {file.path}."
    places = [found.start() for found in re.finditer(f"(?={re.escape(old)})", text)]
    lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:_MAX_LINES_NAMED])
    return (
        f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
        "Please ensure it is unique"
    )


def _shown_name(row: wire.EntryRow) -> str:
    """Return a name for an entry without one: its title or first words, and its id."""
    words = "-".join(re.findall(r"\w+", (row.title or row.begins).lower()))
    return f"{words[:_MAX_WORDS]}~{row.id}"


def _harmless(result: wire.SavedEntry | wire.NoteResult) -> str:
    counts = kinds_of(result.neutralised)
    return f"\nBefore it was saved, something in it was made harmless: {counts}. View the file." if counts else ""


def _size(size: float) -> str:
    """Format a size: 0B, 512B, 1K, 1.5K, 2M."""
    unit = 0
    while size >= 1024 and unit < 2:
        size, unit = size / 1024, unit + 1
    return (f"{size:.1f}" if size % 1 else f"{size:.0f}") + "BKM"[unit]
