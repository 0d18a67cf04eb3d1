"""Texts of the memory tool for a model: files, folders, and the reasons why a command fails. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from honeybadger_agent import wire
from honeybadger_agent.cli.explaining import kinds_of
from honeybadger_agent.errors import CommandFailed
from honeybadger_agent.integrations.memory_paths import ROOT, MemoryPath

T = TypeVar("T")
_NUMBER_WIDTH: Final = 6
_MAX_LINES_NAMED: Final = 50


def page(path: MemoryPath, text: str, view_range: tuple[int, int] | None) -> str:
    lines = text.split("\n")
    start, end = 1, len(lines)
    if view_range is not None:
        start = max(1, view_range[0])
        end = len(lines) if view_range[1] == -1 else min(view_range[1], len(lines))
        if start > len(lines) or end < start:
            raise CommandFailed(
                "invalid",
                f"Invalid `view_range` parameter: {list(view_range)}. "
                f"It should be within the range of lines of the file: [1, {len(lines)}]",
            )
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(numbered(lines, start, end))


def numbered(lines: Sequence[str], start: int, end: int) -> Iterator[str]:
    """Yield lines with their numbers, from `start` to `end`, both counted from 1."""
    for number in range(start, end + 1):
        yield f"{number:>{_NUMBER_WIDTH}}\t{lines[number - 1]}"


def there(found: T | None, path: MemoryPath) -> T:
    if found is None:
        raise missing(path)
    return found


def missing(path: MemoryPath) -> CommandFailed:
    return CommandFailed("not_found", f"The path {path} does not exist. Please provide a valid path.")


def exists(path: MemoryPath) -> CommandFailed:
    return CommandFailed("conflict", f"File {path} already exists")


def no_folder(path: MemoryPath, parts: Sequence[str]) -> CommandFailed:
    return CommandFailed(
        "invalid",
        f"There can be no folder {'/'.join((ROOT, *parts))}: names of folders are made of ASCII letters, "
        f"digits, - and _, at most 8 deep; file names are free. Choose another place for {path.name}",
    )


def see_line(line: int, last: int) -> None:
    if not 0 <= line <= last:
        raise CommandFailed(
            "invalid", f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {last}]."
        )


def see_text(path: MemoryPath, text: str) -> None:
    """Raises CommandFailed: the host would refuse the text."""
    if not text.strip():
        raise CommandFailed(
            "invalid", f"{path} would be blank: a file here says something. Delete it, if it is not needed"
        )
    if len(text) > wire.MAX_NOTE_CHARACTERS:
        raise CommandFailed(
            "too_large",
            f"{path} would have {len(text)} characters, the limit is {wire.MAX_NOTE_CHARACTERS}: "
            "split it into several files; nothing was changed",
        )


def lines(text: str) -> list[str]:
    """Return the lines of a text, without an empty one at the end."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def places(text: str, old: str) -> str:
    """Return the numbers of the lines in which `old` begins."""
    numbers: list[str] = []
    at = text.find(old)
    while at >= 0:
        if len(numbers) == _MAX_LINES_NAMED:
            return f"{', '.join(numbers)} and more"
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + 1)
    return ", ".join(numbers)


def noted(note: wire.NoteResult) -> str:
    return f"It is a note below the heading `{note.section}`, with your name and the time.{changed(note.neutralised)}"


def changed(neutralised: Mapping[str, int]) -> str:
    counts = kinds_of(neutralised)
    return (
        f"\nBefore it was saved, something in it was made harmless: {counts}. View the file to see it."
        if counts
        else ""
    )


def size(size: int) -> str:
    """Format a size: 0B, 512B, 1K, 1.5K, 2M."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < 3:
        amount, unit = amount / 1024, unit + 1
    return (f"{amount:.0f}" if amount.is_integer() else f"{amount:.1f}") + "BKMG"[unit]
