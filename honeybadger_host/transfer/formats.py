"""The formats that are read, and which of them something is."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from honeybadger_host.errors import HostError
from honeybadger_host.transfer import chatgpt, claude_code
from honeybadger_host.transfer.exported import MANIFEST
from honeybadger_host.transfer.markdown_import import read_markdown
from honeybadger_host.transfer.records import Importer, Skipped, Source

OWN: Final = "honeybadger"
IMPORTERS: Final[Mapping[str, Importer]] = {
    "markdown": read_markdown,
    claude_code.NAME: claude_code.read_claude_code,
    chatgpt.NAME: chatgpt.read_chatgpt,
}
FORMATS: Final = (OWN, *IMPORTERS)
_MOST_LOOKED_AT: Final = 10_000


def is_own(path: Path) -> bool:
    """Return whether something is an export of a group."""
    return (path / MANIFEST).is_file() if path.is_dir() else path.is_file() and tarfile.is_tarfile(path)


def format_of(source: Source, path: Path) -> str:
    """Return the format of something, by the names of its files. Raises HostError: it may be several, or none."""
    endings: set[str] = set()
    for _, file in zip(range(_MOST_LOOKED_AT), source(), strict=False):
        if isinstance(file, Skipped):
            continue
        if chatgpt.FILES.fullmatch(file.name):
            return chatgpt.NAME
        endings.add(file.name.rpartition(".")[2].lower())
    if "jsonl" in endings:
        return claude_code.NAME
    if endings & {"md", "markdown"}:
        return "markdown"
    raise HostError(f"{path} is nothing that is known by its files: say --from, one of {', '.join(FORMATS)}")
