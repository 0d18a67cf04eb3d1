"""The cache of CLAUDE.md, MEMORY.md and summary.md (HB3, HB4): never stale, never torn.

The watcher drops an entry early; what makes it right is that every read compares the file's signature.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Final

from honeybadger_agent.quoting import set_apart
from honeybadger_host.errors import FileProblem
from honeybadger_host.files.file_cache import is_young
from honeybadger_host.files.home import MEMORY, SUMMARY
from honeybadger_host.files.safe_files import BOM, NotRegular, Signature, kind_of, open_plain
from honeybadger_host.memory.edited_notes import EditedNotes
from honeybadger_host.memory.markdown.budget import CutNotes, cut_notes, first_lines
from honeybadger_host.memory.markdown.large_notes import newest_notes
from honeybadger_host.memory.markdown.notes import NOT_EDITED, EditedBy, parse_notes
from honeybadger_host.memory.markdown.notes_together import NotesInContext
from honeybadger_host.text.neutralise import estimate_tokens, neutralise

MAX_CACHE_BYTES = 32 << 20  # of group files kept in memory
# Bytes served of a larger MEMORY.md: the newest notes of each author. Any other file that is larger is refused.
MAX_FILE_BYTES = 1 << 20
_MAX_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class GroupText:
    """The text of one file, and values computed from it once.

    Args:
        size: bytes of the file.
        unread: of a MEMORY.md over the limit, author -> notes that are not in the text; None: the text is whole.
        edited: notes that a person changed, see `NoteBook`.
    """

    file: str
    text: str
    size: int = field(default=0, compare=False)
    unread: Mapping[str, int] | None = None
    edited: Mapping[str, EditedBy] = field(default_factory=lambda: NOT_EDITED)

    @cached_property
    def clean(self) -> str:
        """The text as a model gets it: Markdown without characters that hide or reorder text."""
        return neutralise(self.text).text

    @cached_property
    def tokens(self) -> int:
        """Estimate for `clean`."""
        return estimate_tokens(self.clean)

    @cached_property
    def note_count(self) -> int:
        return len(parse_notes(self.text).notes)

    @cached_property
    def notes(self) -> NotesInContext:
        edited = {neutralise(note).text.strip(): who for note, who in self.edited.items()}
        return NotesInContext(parse_notes(self.clean, edited))

    @cached_property
    def newest_notes(self) -> Callable[[int], CutNotes]:
        """Share in tokens -> the newest notes of each author, see `cut_notes`. The last two answers are kept."""
        return lru_cache(maxsize=2)(partial(cut_notes, self.notes, unread=self.unread))

    @cached_property
    def has_parts(self) -> bool:
        """Whether it may have parts with headings, as a summary.md has of sessions."""
        return "## " in self.text

    @cached_property
    def beginning(self) -> Callable[[int], str]:
        """Share in tokens -> the first lines of `set_apart`. The last two answers are kept."""
        return lru_cache(maxsize=2)(partial(first_lines, self.set_apart))

    @cached_property
    def set_apart(self) -> str:
        """The text as a context shows it: no line of it looks like a line of the context itself."""
        return set_apart(self.clean)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The content of a file at this signature; a text explains why it cannot be served."""

    signature: Signature | None
    value: GroupText | str | None


class GroupFiles:
    """Reads the files people keep for a group. Any thread.

    Args:
        home: home folder.
        max_cache_bytes: the least recently read entries go first.
        wall_ns: nanoseconds since the epoch, the clock of the file system.
        edited_notes: knows the authors of edited notes; None: all notes are their signers'.
        view: returns what a reader gets who found bytes in a file with a signature, see `Documents.view`.
    """

    def __init__(
        self,
        home: Path,
        *,
        max_cache_bytes: int,
        wall_ns: Callable[[], int] = time.time_ns,
        edited_notes: EditedNotes | None = None,
        view: Callable[[str, bytes, Signature], bytes] = lambda file, data, signature: data,
    ) -> None:
        self._home = home
        self._edited_notes = edited_notes
        self._view = view
        self._max_cache_bytes = max_cache_bytes
        self._wall_ns = wall_ns
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._reads: dict[str, object] = {}
        """File -> the newest read of it that is under way and was not overtaken by `drop`."""
        self._bytes = 0

    def memory(self, group: str) -> GroupText | None:
        """Return MEMORY.md, None when there is none. Raises FileProblem."""
        return self.read(f"groups/{group}/{MEMORY}")

    def summary(self, group: str) -> GroupText | None:
        """Return summary.md, None when there is none. Raises FileProblem."""
        return self.read(f"groups/{group}/{SUMMARY}")

    def size_warning(self, group: str) -> str | None:
        """Return a warning when MEMORY.md is larger than half the limit, else None."""
        try:
            size = os.stat(f"{self._home}/groups/{group}/{MEMORY}", follow_symlinks=False).st_size
        except OSError:
            return None
        if size <= MAX_FILE_BYTES // 2:
            return None
        is_over = size > MAX_FILE_BYTES
        then = "the older notes of each author are in no context" if is_over else "over it, older notes leave contexts"
        return (
            f"MEMORY.md has {size} bytes, the limit is {MAX_FILE_BYTES}: {then}; search finds all of them. Move out of "
            "it what is not needed"
        )

    def read(self, file: str) -> GroupText | None:
        """Return a file below the home folder as it is now, None when there is none. Raises FileProblem."""
        path = os.path.join(self._home, file)  # a profile may lie elsewhere, and is named by its whole path
        for _ in range(_MAX_ATTEMPTS):
            seen_ns = self._wall_ns()
            signature = _signature_of(path, file)
            entry = self._entries.get(file)
            if entry is None or entry.signature != signature:
                this_read = self._reads[file] = object()
                try:
                    entry = _Entry(signature, None if signature is None else self._load(path, file, signature))
                except _Changed:
                    continue
                if not is_young(signature, seen_ns):
                    self._keep(file, this_read, entry)
            else:
                with self._lock:
                    if file in self._entries:
                        self._entries.move_to_end(file)
            if isinstance(entry.value, str):
                raise FileProblem(file, entry.value)  # a new one: an error raised twice keeps the frames of both
            return entry.value
        raise FileProblem(file, "is being written all the time: try again when its writer has finished")

    def drop(self, file: str) -> None:
        """Forget a file, and what a read that is under way now will find."""
        with self._lock:
            self._reads.pop(file, None)
            self._remove(file)

    def drop_edited(self, file: str) -> None:
        """Drop a file after a person's edit was recorded."""
        if self._edited_notes is not None:
            self._edited_notes.drop(file)
        self.drop(file)

    def clear(self) -> None:
        with self._lock:
            self._reads.clear()
            for file in list(self._entries):
                self._remove(file)

    @property
    def cached_bytes(self) -> int:
        return self._bytes

    def _keep(self, file: str, this_read: object, entry: _Entry) -> None:
        with self._lock:
            if self._reads.get(file) is not this_read:
                return
            self._remove(file)
            self._entries[file] = entry
            self._bytes += _size(entry)
            while self._bytes > self._max_cache_bytes and len(self._entries) > 1:
                self._remove(next(iter(self._entries)))

    def _remove(self, file: str) -> None:
        entry = self._entries.pop(file, None)
        if entry is not None:
            self._bytes -= _size(entry)

    def _load(self, path: str, file: str, signature: Signature) -> GroupText | str:
        """Return a file's text, or what is wrong with it; its signature is the same before and after reading.

        Raises:
            FileProblem: the world failed (not allowed, too many open files): the next read may find it well.
            _Changed: it was written meanwhile.
        """
        try:
            fd, status = open_plain(path)
        except (FileNotFoundError, NotRegular):
            raise _Changed from None
        except OSError as error:
            raise FileProblem(file, f"cannot be read: {error.strerror}") from error
        try:
            if Signature.of(status) != signature:
                raise _Changed
            if status.st_size > MAX_FILE_BYTES and file.endswith(f"/{MEMORY}"):
                text, unread = newest_notes(partial(os.pread, fd), status.st_size, MAX_FILE_BYTES)
                after = Signature.of(os.fstat(fd))
                if after != signature and after.size <= signature.size:
                    raise _Changed  # a file that only grew is served: it may grow all the time
                return self._told_apart(GroupText(file, text, status.st_size, unread))
            if status.st_size > MAX_FILE_BYTES:
                return f"has {status.st_size} bytes, the limit is {MAX_FILE_BYTES}: shorten it"
            data = os.read(fd, status.st_size + 1)
            if len(data) != status.st_size or Signature.of(os.fstat(fd)) != signature:
                raise _Changed
        except OSError as error:
            raise FileProblem(file, f"cannot be read: {error.strerror}") from error
        finally:
            os.close(fd)
        found = text_of(file, self._view(file, data, signature))
        return self._told_apart(found) if isinstance(found, GroupText) else found

    def _told_apart(self, text: GroupText) -> GroupText:
        """Return a text with the people who changed its notes."""
        if self._edited_notes is None:
            return text
        edited = self._edited_notes.of(text.file, text.text)
        return replace(text, edited=edited) if edited else text


def text_of(file: str, data: bytes) -> GroupText | str:
    """Return the text of a file's bytes, or what is wrong with them."""
    if len(data) > MAX_FILE_BYTES and file.endswith(f"/{MEMORY}"):
        text, unread = newest_notes(lambda size, at: data[at : at + size], len(data), MAX_FILE_BYTES)
        return GroupText(file, text, len(data), unread)
    try:
        return GroupText(file, data.removeprefix(BOM).decode(), len(data))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return f"is not UTF-8 (line {line}): save it as UTF-8"


class _Changed(Exception):
    """The file changed between two looks."""


def _size(entry: _Entry) -> int:
    return len(entry.value.text) + 500 if isinstance(entry.value, GroupText) else 500


def _signature_of(path: str, file: str) -> Signature | None:
    """Return the signature of a regular file, None when there is none. Raises FileProblem for anything else."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileProblem(file, f"cannot be read: {error.strerror}") from error
    if stat.S_ISREG(status.st_mode):
        return Signature.of(status)
    kind = kind_of(status.st_mode)
    advice = "copy what it points to into its place" if kind == "a link" else "move it away"
    raise FileProblem(file, f"is {kind}, and the host reads plain files only: {advice}")
