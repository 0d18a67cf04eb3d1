"""A MEMORY.md that is too large to be served whole: the newest notes of each author."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from honeybadger_host.memory.markdown.budget import ABOVE, SHORTENED, newest_of_each
from honeybadger_host.memory.markdown.notes import NOBODY
from honeybadger_host.text.json_values import BOM

_BLOCK_BYTES = 1 << 20  # read at once
_MAX_HEADING_LENGTH = 4096  # bytes of a first line that are read beyond a block
# The beginning of a note, with its author when it is signed; see `notes.SIGNED`.
_NOTE = re.compile(rb"^## (?:[^\n]* \(([^(),\n]+), \d{4}-\d\d-\d\d \d\d:\d\d\)[ \t\r]*$)?", re.MULTILINE)
_TEXT_ABOVE = "\n"  # author of the text above the notes; no name has a line end


@dataclass(slots=True)
class _Notes:
    """The notes of one author, newest first.

    Args:
        spans: offset and length of the newest notes, in bytes, as many as may be served.
        size: sum of these lengths.
        count: number of all notes.
    """

    spans: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0
    count: int = 0

    def add(self, start: int, length: int, most_bytes: int) -> None:
        self.count += 1
        if self.size < most_bytes:
            self.spans.append((start, length))
            self.size += length


def newest_notes(
    pread: Callable[[int, int], bytes], size: int, most_bytes: int, block_bytes: int = _BLOCK_BYTES
) -> tuple[str, dict[str, int]]:
    """Return about `most_bytes` of a MEMORY.md, and author -> number of notes that are left out.

    All authors have equal shares, see `newest_of_each`; the text above the notes has one, too. Bytes that are
    not UTF-8 are replaced.

    Args:
        pread: (number of bytes, offset) -> bytes of the file.
        size: bytes of the file; later ones are not read.
        block_bytes: bytes to read at once.
    """
    found = _survey(pread, size, most_bytes, block_bytes)
    unread = {author: notes.count for author, notes in found.items()}
    parts: list[tuple[int, str]] = []
    shares, _ = newest_of_each({author: map(itemgetter(1), notes.spans) for author, notes in found.items()}, most_bytes)
    for author, (count, left) in shares.items():
        spans = found[author].spans
        unread[author] -= max(1, count)
        parts += ((start, pread(length, start).decode(errors="replace")) for start, length in spans[:count])
        start, length = spans[0]
        if not count and author == _TEXT_ABOVE:
            last_lines = pread(left, length - left).partition(b"\n")[2]
            parts.append((0, ABOVE + last_lines.decode(errors="replace")))
        elif not count:
            note = pread(min(length, _MAX_HEADING_LENGTH + left), start)
            begin = note[: max(left, note.find(b"\n"))].decode(errors="ignore").rstrip("# \r\n")
            parts.append((start, f"{begin}{SHORTENED}"))
    if unread.pop(_TEXT_ABOVE, 0):
        parts.append((0, ABOVE))
    text = "".join(text for _, text in sorted(parts))
    return text.removeprefix(BOM.decode()), {author: count for author, count in unread.items() if count}


def _survey(pread: Callable[[int, int], bytes], size: int, most_bytes: int, block_bytes: int) -> Mapping[str, _Notes]:
    """Return author -> notes, the author of the newest note first."""
    found: dict[bytes | None, _Notes] = defaultdict(_Notes)
    end = note_end = size
    while end > 0:
        start = max(0, end - block_bytes)
        at = max(0, start - 1)  # a note begins behind a line end
        data = pread(min(size, end + _MAX_HEADING_LENGTH) - at, at)
        if not start and data.startswith(BOM):
            data = b"\n" * len(BOM) + data[len(BOM) :]
        begins = [(match.start() + at, match[1]) for match in _NOTE.finditer(data, start - at)]
        for begin, author in reversed(begins):
            if begin >= end:
                continue
            found[author].add(begin, note_end - begin, most_bytes)
            note_end = begin
        end = start
    named = {NOBODY if author is None else author.decode(errors="replace"): notes for author, notes in found.items()}
    if note_end > _MAX_HEADING_LENGTH or pread(note_end, 0).removeprefix(BOM).strip():
        named[_TEXT_ABOVE] = above = _Notes()
        above.add(0, note_end, size)
    return named
