"""A document in use, and what a person did to one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from honeybadger_host.documents.merge import merge, units_of
from honeybadger_host.documents.merge_json import merge_json
from honeybadger_host.files.safe_files import Signature
from honeybadger_host.journal.atomic_files import WHOLE_KINDS
from honeybadger_host.journal.changes import REMOVED
from honeybadger_host.journal.edits import Edit, is_append, text_after
from honeybadger_host.journal.schema import Row

# A program that has a file open for writing for longer, as `tee -a` may for days, keeps no notes waiting.
MAX_SAVE_SECONDS: Final = 30.0


def is_json(file: str) -> bool:
    """Return whether a document is a JSON object; the others are texts."""
    return file.endswith((".json", ".json.deleted"))


def merged_as(file: str, base: bytes, newest: bytes, saved: bytes) -> bytes:
    """Return the newest version of a document with what a person changed between `base` and `saved`."""
    return (merge_json if is_json(file) else merge)(base, newest, saved)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a kind of JSON documents of which some members are derived: the file has them, nobody edits them.

    Args:
        is_version: whether a file holds what the document may become.
        as_version: returns what a file holds with the derived members of the newest version.
        as_file: returns the newest version of a file with its derived members as they are now.
    """

    is_version: Callable[[bytes], bool]
    as_version: Callable[[bytes, bytes], bytes]
    as_file: Callable[[str, bytes], bytes]


@dataclass(slots=True)
class Document:
    """A document in use.

    Args:
        text: the newest version, all changes up to `seq`; empty when there is none.
        left: the file as the host left it, or as it was found equal to `rendered`; None: there is none.
        rendered: the text that the file had then; None: `text`.
        unkept_seq: the first change behind the mark in the journal; 0: that has all.
        pending_seq: the first change that is not in the file; 0: all are.
        is_checked: the file was compared with the text after the host wrote it.
        is_written: `text` is the data of the change `seq`.
        hash: SHA-256 of `text`, where it is known: an append needs not all of it.
        overtaken: edits that a change of the host was decided upon before they were taken in, with the texts saved.
    """

    file: str
    text: bytearray
    seq: int
    is_there: bool
    left: Signature | None
    rendered: bytes | None = None
    unkept_seq: int = 0
    pending_seq: int = 0
    has_failed: bool = False
    is_checked: bool = True
    is_written: bool = False
    begun_save: BegunSave | None = None
    hash: hashlib._Hash | None = None
    overtaken: list[tuple[Edit, bytes]] = field(default_factory=list)

    @property
    def newest(self) -> bytes | None:
        """Return the newest version, or None if there is none."""
        return bytes(self.text) if self.is_there else None

    @property
    def on_disk(self) -> bytes:
        """Return the content of the file as the host left it."""
        return bytes(self.text) if self.rendered is None else self.rendered

    def take(self, row: Row) -> None:
        """Go on with a change of the host."""
        if is_append(row):
            self.text += row.data
            if self.hash is not None:
                self.hash.update(row.data)
        else:
            self.text, self.hash = bytearray(text_after(bytes(self.text), row)), None
        is_whole = row.kind in WHOLE_KINDS
        self.is_there = not (is_whole and row.kind.endswith(REMOVED))
        self.is_written = is_whole and self.is_there
        self.seq = row.seq
        self.unkept_seq = self.unkept_seq or row.seq


class BegunSave(NamedTuple):
    """A save that may go on: what it replaced, and what it was made from.

    Args:
        base: version it was merged against.
        before, after: the newest version before and after it.
    """

    at: float
    text: bytes
    base: bytes
    before: bytes
    after: bytes

    def is_continued_by(self, text: bytes, newest: bytes, now: float) -> bool:
        """Return whether `text` continues this save.

        It does not if it has anything that the newest version added: then its author read the file again.
        """
        if now - self.at >= MAX_SAVE_SECONDS or len(text) <= len(self.text) or not text.startswith(self.text):
            return False
        saved, *others = (Counter(filter(bytes.strip, units_of(one))) for one in (self.text, text, newest))
        return not (others[0] - saved) & (others[1] - saved)


class Found(NamedTuple):
    """A file that a person saved or removed.

    Args:
        data: None: it is gone.
        base: version that it was made from.
        newest: the newest version when it was found; `merged` is what the save makes of it.
        begun_save: the beginning of this save that was taken for all of it.
    """

    file: str
    signature: Signature | None
    author: str
    data: bytes | None
    base: bytes
    newest: bytes
    merged: bytes
    begun_save: BegunSave | None = None
