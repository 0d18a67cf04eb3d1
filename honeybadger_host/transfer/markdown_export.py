"""A group as plain files for people: one entry a file with front matter, one conversation a file."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.wording import count_of
from honeybadger_host.files.safe_files import make_folders, needed, open_new, printable
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.memory.entries.entry import Entry, memory_folder, parse_entry, show_time
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.peoples_files import TEXTS
from honeybadger_host.memory.turn_log import read_window
from honeybadger_host.ops.archive import appearing
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.transfer.exporting import Exported

_MAX_NAME_LENGTH = 80


def export_markdown(home: Path, group: str, target: Path) -> Exported:
    """Write a group's texts, entries and conversations as Markdown into a new folder.

    Raises HostError if something cannot be read or written; then there is no folder.
    """
    done = Exported()
    with appearing(target, "export") as made:
        make_folders(made)
        for name, parts in _files(home, group, done):
            path = _free(made / name)
            make_folders(path.parent)
            with open(open_new(path), "wb") as file:
                file.writelines(parts)
            done.files += 1
    return done


def _files(home: Path, group: str, done: Exported) -> Iterator[tuple[str, Iterable[bytes]]]:
    for name in TEXTS:
        if (data := read_whole(home / "groups" / group / name)) is not None:
            yield name, [data]
    for folder in EntryFiles(home).folders(memory_folder(group)):
        for path in sorted((home / folder).glob("*.json")):
            if (data := read_whole(path)) is None:
                continue
            try:
                entry = parse_entry(data, str(path.relative_to(home)))
            except ValueError as error:
                done.left_out.append(printable(f"{path.relative_to(home)}: {error}"))
                continue
            yield f"memory/{entry.category}/{_name(entry)}", [_entry_text(entry)]
    for path in sorted((home / "data" / "sessions" / group).glob("*.jsonl")):
        name = printable(path.stem)
        yield f"conversations/{name}.md", _conversation(path, name, done)


def _entry_text(entry: Entry) -> bytes:
    """Return an entry as Markdown with front matter. JSON values after YAML keys are valid YAML."""
    front: dict[str, Any] = {
        "title": entry.title,
        "aliases": [*entry.aliases],
        "tags": [*entry.tags],
        "id": entry.id,
        "category": entry.category,
        "name": entry.name,
        "by": entry.by,
        "created": entry.created and show_time(entry.created),
        "updated": entry.updated and show_time(entry.updated),
        "pinned": entry.pinned,
        "reinforced": entry.reinforced,
        **entry.metadata,
        **entry.more,
    }
    lines = [f"{name}: {orjson.dumps(value).decode()}" for name, value in front.items() if value not in (None, [], "")]
    return "\n".join(["---", *lines, "---", "", entry.content.rstrip("\n"), ""]).encode()


def _conversation(path: Path, name: str, done: Exported) -> Iterator[bytes]:
    with needed(path):
        window = read_window(path, sys.maxsize)
    if window.skipped:
        done.left_out.append(f"{name}: {count_of(window.skipped, 'line')} cannot be read; {window.fault}")
    yield f"# {name}\n".encode()
    for turn in window.turns:
        yield f"\n## {turn.shown_name}, {time_stamp(turn.at)}\n\n{turn.content.rstrip()}\n".encode()


def _name(entry: Entry) -> str:
    """Return the name of an entry's file: from its name, else its title, else its id."""
    name = entry.name or "".join(c if c.isalnum() or c in " -_." else " " for c in entry.title or "").strip()
    name = " ".join(name.split())[:_MAX_NAME_LENGTH].lstrip(".") or entry.id
    return name if name.endswith(".md") else f"{name}.md"


def _free(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem} {number}{path.suffix}")
    return free
