"""The formats of imports, and the detection of a format."""

import re
import tarfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from honeybadger_host.errors import HostError
from honeybadger_host.transfer import chat_exports, claude_code, other_memories
from honeybadger_host.transfer.exported import MANIFEST
from honeybadger_host.transfer.json_elements import CHUNK_BYTES, CONVERSATIONS, read_elements
from honeybadger_host.transfer.markdown_import import read_markdown
from honeybadger_host.transfer.records import UNREADABLE, Importer, Skipped, Source, SourceFile

OWN = "honeybadger"
IMPORTERS: Mapping[str, Importer] = {
    "markdown": read_markdown,
    claude_code.NAME: claude_code.read_claude_code,
    chat_exports.CHATGPT: partial(read_elements, chat_exports.CHATGPTS_FILES),
    chat_exports.CLAUDE: partial(read_elements, chat_exports.CLAUDES_FILES),
    other_memories.MEM0: partial(read_elements, other_memories.MEM0S_FILES),
    other_memories.MCP: other_memories.read_mcp_memory,
}
FORMATS = (OWN, *IMPORTERS)
_GRAPH = re.compile(rb'\s*\{\s*"type"\s*:\s*"(?:entity|relation)"')


def is_own(path: Path) -> bool:
    """Return whether a path is an export of a group."""
    return (path / MANIFEST).is_file() if path.is_dir() else path.is_file() and tarfile.is_tarfile(path)


def format_of(source: Source, path: Path) -> str:
    """Return the format of the files below a path. Raises HostError if it cannot be detected."""
    endings: set[str] = set()
    for file in source():
        if isinstance(file, Skipped):
            continue
        ending = file.name.rpartition(".")[2].lower()
        if CONVERSATIONS.fullmatch(file.name):
            return chat_exports.CLAUDE if b'"chat_messages"' in _beginning(file) else chat_exports.CHATGPT
        if ending in ("json", "jsonl") and _GRAPH.match(_beginning(file)):
            return other_memories.MCP
        endings.add(ending)
    if "jsonl" in endings:
        return claude_code.NAME
    if endings & {"md", "markdown"}:
        return "markdown"
    raise HostError(f"the format of {path} cannot be detected: say --from, one of {', '.join(FORMATS)}")


def _beginning(file: SourceFile) -> bytes:
    try:
        with file.open() as opened:
            return opened.read(CHUNK_BYTES)
    except UNREADABLE:
        return b""
