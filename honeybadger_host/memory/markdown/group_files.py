"""CLAUDE.md, MEMORY.md and summary.md, read whole: never half of a write (HB3, HB4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

from honeybadger_agent.quoting import set_apart
from honeybadger_host.documents.in_use import Extent
from honeybadger_host.errors import FileProblem
from honeybadger_host.files.file_cache import KeptFiles
from honeybadger_host.files.home import MEMORY
from honeybadger_host.files.safe_files import Changing, NotRegular, Signature, closing_fd, open_plain
from honeybadger_host.memory.edited_notes import EditedNotes
from honeybadger_host.memory.markdown.budget import CutNotes, cut_notes, first_lines
from honeybadger_host.memory.markdown.large_notes import newest_notes
from honeybadger_host.memory.markdown.notes import NOT_EDITED, EditedBy, parse_notes
from honeybadger_host.memory.markdown.notes_together import NotesInContext
from honeybadger_host.memory.markdown.summary_parts import without_parts
from honeybadger_host.text.json_values import BOM
from honeybadger_host.text.neutralise import ascii_length, estimate_tokens, neutralise, tokens_of

# Bytes served of a larger MEMORY.md: the newest notes of each author. Any other file that is larger is refused.
MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class GroupText:
    """The text of one file, and values computed from it once.

    Args:
        size: bytes of the file.
        unread: of a MEMORY.md over the limit, author -> notes that are not in the text; None: the text is whole.
        edited: notes that a person changed, see `NoteBook`.
        extent: of the document; None: it is not known.
        fault: what is wrong with the file, whose last good version this is; None: nothing.
    """

    file: str
    text: str
    size: int = field(default=0, compare=False)
    unread: Mapping[str, int] | None = None
    edited: Mapping[str, EditedBy] = field(default_factory=lambda: NOT_EDITED)
    extent: Extent | None = field(default=None, compare=False, repr=False)
    fault: str | None = None

    @cached_property
    def clean(self) -> str:
        """The text as a model gets it: Markdown without characters that hide or reorder text."""
        return neutralise(self.text).text

    @cached_property
    def tokens(self) -> int:
        """Estimate for `clean`."""
        return tokens_of(len(self.clean), self.ascii_characters)

    @cached_property
    def ascii_characters(self) -> int:
        """Number of ASCII characters in `clean`."""
        return ascii_length(self.clean)

    @cached_property
    def tokens_of(self) -> Callable[[str], int]:
        """Text made of the file -> its estimate. The last answers are kept: 900 KB with umlauts take 3 ms."""
        return lru_cache(maxsize=4)(estimate_tokens)

    @cached_property
    def note_count(self) -> int:
        return parse_notes(self.text).counts.total()

    @cached_property
    def notes(self) -> NotesInContext:
        edited = {neutralise(note).text.strip(): who for note, who in self.edited.items()}
        return NotesInContext(parse_notes(self.clean, edited))

    def after(self, before: GroupText) -> GroupText:
        """Return this text of a MEMORY.md; where it goes on from the text before, so do the values made of it.

        Making them again takes 10 ms for 1 MiB.
        """
        is_longer = before.text.endswith("\n") and self.text.startswith(before.text)
        if not is_longer or self.edited != before.edited or self.unread is not None:
            return self
        added = self.text[len(before.text) :]
        clean = neutralise(added).text
        made = replace(self)
        vars(made)["notes"] = before.notes.with_appended(clean)
        is_same = before.clean is before.text and clean == added
        vars(made)["ascii_characters"] = before.ascii_characters + ascii_length(clean)
        vars(made)["clean"] = made.text if is_same else before.clean + clean
        return made

    @cached_property
    def edited_as(self) -> Callable[[Callable[[str], tuple[str, str]]], Mapping[tuple[str, str], EditedBy]]:
        """A function: how to read a note -> `edited` by what it reads. It keeps one result: 5,500 notes take 40 ms."""
        return lru_cache(maxsize=1)(lambda read: {read(note): edited for note, edited in self.edited.items()})

    @cached_property
    def newest_notes(self) -> Callable[[int], CutNotes]:
        """Share in tokens -> the newest notes of each author, see `cut_notes`. The last two answers are kept."""
        return lru_cache(maxsize=2)(partial(cut_notes, self.notes, unread=self.unread))

    @cached_property
    def without_parts(self) -> Callable[[frozenset[str]], GroupText]:
        """Names of sessions -> a summary.md without their parts. The last answers are kept."""
        return lru_cache(maxsize=4)(lambda names: replace(self, text=without_parts(self.text, names)))

    @cached_property
    def beginning(self) -> Callable[[int], str]:
        """Share in tokens -> the first lines of `set_apart`. The last two answers are kept."""
        return lru_cache(maxsize=2)(partial(first_lines, self.set_apart))

    @cached_property
    def set_apart(self) -> str:
        """The text as a context shows it: no line of it looks like a line of the context itself."""
        return set_apart(self.clean)


class GroupFiles:
    """Reads the files people keep for a group. Any thread.

    Args:
        home: home folder.
        kept: keeps their texts.
        edited_notes: the authors of edited notes; None: all notes are their signers'.
        view: (file, its bytes, its signature; None: it is gone) -> the bytes that readers get, see `Saves.view`.
        extent_of: (file, its signature) -> the extent of the document, see `Saves.extent_of`.
    """

    def __init__(
        self,
        home: Path,
        kept: KeptFiles | None = None,
        *,
        edited_notes: EditedNotes | None = None,
        view: Callable[[str, bytes | None, Signature | None], bytes | None] = lambda file, data, signature: data,
        extent_of: Callable[[str, Signature], Extent | None] = lambda file, signature: None,
    ) -> None:
        self._edited_notes = edited_notes
        self._view = view
        self._extent_of = extent_of
        self.kept = kept or KeptFiles(home)

    def read(self, file: str) -> GroupText | None:
        """Return a file below the home folder as it is now, or None if there is none. Raises FileProblem."""
        try:
            text: GroupText | None = self.kept.value(file, partial(self._load, file))
            return text
        except Changing:
            raise FileProblem(file, "is being written all the time: try again when its writer has finished") from None

    def _load(self, file: str, before: GroupText | None) -> GroupText | None:
        """Return a file's text. Raises FileProblem; Changing: it was written meanwhile."""
        path = os.path.join(self.kept.home, file)  # a profile outside the home is named by its whole path
        try:
            fd, status = open_plain(path)
        except (FileNotFoundError, NotADirectoryError):
            data = self._view(file, None, None)
            return None if data is None else self._told_apart(text_of(file, data))
        except NotRegular as kind:
            advice = "copy what it points to into its place" if str(kind) == "a link" else "move it away"
            raise FileProblem(file, f"is {kind}, and the host reads plain files only: {advice}") from None
        except OSError as error:
            raise FileProblem(file, f"cannot be read: {error.strerror}") from error
        size, signature = status.st_size, Signature.of(status)
        with closing_fd(fd):
            try:
                if size > MAX_FILE_BYTES and file.endswith(f"/{MEMORY}"):
                    text, unread = newest_notes(partial(os.pread, fd), size, MAX_FILE_BYTES)
                    if Signature.of(os.fstat(fd)) != signature and os.fstat(fd).st_size <= size:
                        raise Changing  # a file that only grew is served: it may grow all the time
                    return self._told_apart(GroupText(file, text, size, unread))
                if size > MAX_FILE_BYTES:
                    raise FileProblem(file, f"has {size} bytes, the limit is {MAX_FILE_BYTES}: shorten it")
                if (extent := self._extent_of(file, signature)) is not None:
                    made = self._of_document(file, extent, before)
                else:
                    data = os.read(fd, size + 1)
                    if len(data) != size or Signature.of(os.fstat(fd)) != signature:
                        raise Changing
                    made = self._of_save(file, data, signature)
            except OSError as error:
                raise FileProblem(file, f"cannot be read: {error.strerror}") from error
        made = self._told_apart(made)
        return made if before is None or not file.endswith(f"/{MEMORY}") else made.after(before)

    def _of_save(self, file: str, data: bytes, signature: Signature) -> GroupText:
        """Return the text of a file that a person may have saved. Raises FileProblem."""
        made = text_of(file, self._view(file, data, signature) or b"")
        try:
            text_of(file, data)
        except FileProblem as problem:
            return replace(made, fault=f"{problem.message}; its last good version is shown")
        return made

    @staticmethod
    def _of_document(file: str, extent: Extent, before: GroupText | None) -> GroupText:
        """Return the text of a document. Raises FileProblem, Changing."""
        if before is None or before.extent is None or not extent.goes_on(before.extent):
            return replace(text_of(file, extent.read()), extent=extent)
        return GroupText(file, before.text + extent.read(before.extent.size).decode(), extent.size, extent=extent)

    def _told_apart(self, text: GroupText) -> GroupText:
        """Return a text with the people who changed its notes."""
        edited = NOT_EDITED if self._edited_notes is None else self._edited_notes.of(text.file, text.text)
        return replace(text, edited=edited) if edited else text


def text_of(file: str, data: bytes) -> GroupText:
    """Return the text of a file's bytes. Raises FileProblem if it is not UTF-8."""
    if len(data) > MAX_FILE_BYTES and file.endswith(f"/{MEMORY}"):
        text, unread = newest_notes(lambda size, at: data[at : at + size], len(data), MAX_FILE_BYTES)
        return GroupText(file, text, len(data), unread)
    try:
        return GroupText(file, data.removeprefix(BOM).decode(), len(data))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileProblem(file, f"is not UTF-8 (line {line}): save it as UTF-8") from None
