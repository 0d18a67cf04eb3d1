"""Anthropic's memory tool in a group's memory: give `GroupMemory(SyncClient(…))` to a tool runner of its SDK.

A file `/memories/<category…>/<name>` is an entry with a name, which search and contexts find like every other. It
imports `anthropic`, the extra `anthropic`, and answers as its own tool does. Its limits: docs/adapters.md.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

from honeybadger_agent.cli.explaining import waiting_told
from honeybadger_agent.client import SyncClient
from honeybadger_agent.errors import AgentError, Invalid, NotFound, ReplyTimeout
from honeybadger_agent.turn.dispatch import complaint_of
from honeybadger_agent.wire import CATEGORY, GENERAL, MAX_LISTED, ChangesResult, EntriesResult, EntryResult, EntryRow
from honeybadger_agent.wording import sentence


class GroupMemory(BetaAbstractMemoryTool):
    """Claude's files in a group, signed with the client's sender."""

    def __init__(self, client: SyncClient, **more: Any) -> None:
        super().__init__(**more)
        self._client = client

    def execute(self, command: Any) -> str:
        """Run a command and return the text for the model. Raises ToolError."""
        try:
            return str(super().execute(command))
        except ReplyTimeout as late:
            raise ToolError(f"no_reply: {sentence(late.state)} It may be done later: view the file first") from late
        except AgentError as error:
            raise ToolError(complaint_of(error).replace("payload.", "")) from error  # the model knows paths only

    def view(self, command: Any) -> str:
        path, entry = command.path, self._entry(command.path)
        if entry is not None:
            shown = _numbered(entry.content, *(command.view_range or (1, -1)))
            return f"Here's the content of {path} with line numbers:\n{shown}"
        listed = self._listed(path, depth=1)
        sizes = {f"/memories/{one.category}/": one.bytes for one in listed.folders if one.category != GENERAL}
        sizes.pop(f"/memories/{_below(path)}/", None)
        sizes[path] = sum(row.bytes for row in listed.entries)
        for row in listed.entries:
            folder = "/memories" if row.category == GENERAL else f"/memories/{row.category}"
            if row.name and not row.name.startswith("."):
                sizes[f"{folder}/{row.name}"] = row.bytes
        rows = [f"{size / 1024:.1f}K\t{name}" for name, size in sorted(sizes.items())]
        head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join((head, *rows))

    def create(self, command: Any) -> str:
        saved = self._client.save_memory(command.file_text, **_key(command.path))
        return _done(saved, f"File created successfully at: {command.path}")

    def str_replace(self, command: Any) -> str:
        entry, old = self._client.get_memory(**_key(command.path)), command.old_str
        before, *after = entry.content.split(old) if old else [entry.content]
        if len(after) != 1:
            why = "Multiple occurrences of old_str in" if after else "old_str did not appear verbatim in"
            raise ToolError(f"No replacement was performed. {why} {command.path}.")
        content = f"{before}{command.new_str or ''}{after[0]}"
        line = before.count("\n") + 1
        head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        edited = self._client.edit_memory(entry.id, content, expected_version=entry.version)
        return _done(edited, f"{head}\n{_numbered(content, line - 2, line + 2)}")

    def insert(self, command: Any) -> str:
        entry, at = self._client.get_memory(**_key(command.path)), command.insert_line
        lines = entry.content.removesuffix("\n").split("\n")
        if not 0 <= at <= len(lines):
            raise ToolError(f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}].")
        lines.insert(at, command.insert_text.rstrip("\n"))
        edited = self._client.edit_memory(entry.id, "\n".join(lines) + "\n", expected_version=entry.version)
        return _done(edited, f"The file {command.path} has been edited.")

    def delete(self, command: Any) -> str:
        deleted = [{"type": "delete_memory", "payload": {"id": each.id}} for each in self._all(command.path)]
        return _done(self._client.change_many(deleted), f"Successfully deleted {command.path}")

    def rename(self, command: Any) -> str:
        old, new = command.old_path, command.new_path
        moved = []
        for each in self._all(old):
            place = _key(new)
            if isinstance(each, EntryRow):
                place = {"category": _folder(_below(new) + each.category[len(_below(old)) :])}
            moved.append({"type": "edit_memory", "payload": {"id": each.id, **place}})
        return _done(self._client.change_many(moved), f"Successfully renamed {old} to {new}")

    def _entry(self, path: str) -> EntryResult | None:
        with suppress(NotFound, Invalid):  # Invalid: no file has such a name
            return self._client.get_memory(**_key(path))
        return None

    def _listed(self, path: str, depth: int | None = None) -> EntriesResult:
        with suppress(Invalid):  # no folder has such a name
            listed = self._client.list_memory_entries(_below(path) or None, depth, limit=MAX_LISTED)
            if not listed.is_complete:
                raise ToolError("unavailable: files of this memory are still being read: try again in a moment")
            if listed.total or not _below(path):
                return listed
        raise ToolError(f"The path {path} does not exist. Please provide a valid path.")

    def _all(self, path: str) -> list[EntryResult] | list[EntryRow]:
        """Return the entry of a file, or those of a folder that have names."""
        if not _below(path):
            raise ToolError("Cannot delete or rename the /memories directory itself")
        entry = self._entry(path)
        return [row for row in self._listed(path).entries if row.name] if entry is None else [entry]


class AsyncGroupMemory(BetaAsyncAbstractMemoryTool):
    """`GroupMemory` for `AsyncAnthropic`; commands run on a thread."""

    def __init__(self, client: SyncClient, **more: Any) -> None:
        super().__init__(**more)
        self._tool = GroupMemory(client)

    async def execute(self, command: Any) -> str:
        return await asyncio.to_thread(self._tool.execute, command)

    view = create = str_replace = insert = delete = rename = execute


def _below(path: str) -> str:
    """Return a path without `/memories`, which is never used as a path of the file system. Raises ToolError."""
    root, *names = path.removeprefix("/").split("/")
    if root != "memories" or ".." in names:
        raise ToolError(f"Path must start with /memories and stay below it, got: {path}")
    return "/".join(name for name in names if name)


def _key(path: str) -> dict[str, Any]:
    """Return the category and name of a file. Raises ToolError."""
    folder, _, name = _below(path).rpartition("/")
    return {"category": _folder(folder or GENERAL), "name": name}


def _folder(category: str) -> str:
    """Return a folder's path if there may be such a folder. Raises ToolError."""
    if not CATEGORY.fullmatch(category):
        why = "A folder's name has 1-64 characters of A-Z a-z 0-9 - _, and at most 8 folders are nested"
        raise ToolError(f"The folder /memories/{category} cannot be used. {why}: choose another path.")
    return category


def _numbered(text: str, first: int, last: int) -> str:
    lines = text.split("\n")
    first, last = max(first, 1), len(lines) if last == -1 else last
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines[first - 1 : last], first))


def _done(result: EntryResult | ChangesResult, text: str) -> str:
    return waiting_told(result.proposal) if result.proposal else text
