"""The documents in use: their newest versions, as the journal has them, and how the host left their files."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from weakref import ref

from honeybadger_host.documents.merge import as_written, merge, merge_json, units_of
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import NEVER_SEEN, signature_of
from honeybadger_host.files.home import HISTORY, MEMORY, SUMMARY
from honeybadger_host.files.safe_files import (
    Changing,
    Signature,
    is_open_for_writing,
    path_in,
)
from honeybadger_host.files.unsynced import Unsynced
from honeybadger_host.journal.changes import REMOVED, WHOLE_KINDS, read_whole
from honeybadger_host.journal.edits import Edit, EditReader, Looked, Seen, digest_of, is_append, is_edit, text_after
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import LAST_SEQ, Row
from honeybadger_host.log import log
from honeybadger_host.text.json_values import object_in

# A program that has a file open for writing for longer, as `tee -a` may for days, keeps no notes waiting.
MAX_SAVE_SECONDS = 30.0


def is_json(file: str) -> bool:
    """Return whether a document is a JSON object; the others are texts."""
    return file.endswith((".json", ".json.deleted"))


def is_whole(file: str, data: bytes) -> bool:
    """Return whether a file is UTF-8, or a JSON object."""
    if is_json(file):
        return object_in(data) is not None
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


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


class Text(bytearray):
    """The text of a document. Only appends change it; after anything else the document has another one."""


class Extent(NamedTuple):
    """A document at some moment: a weak reference to its text, and the size that the text had."""

    text: ref[Text]
    size: int

    def goes_on(self, before: Extent | None) -> bool:
        """Return whether only appends made the document what it is now."""
        return before is not None and self.text is before.text

    def read(self, start: int = 0) -> bytes:
        """Return the bytes from there on. Raises Changing if the document has another text meanwhile."""
        if (text := self.text()) is None:
            raise Changing
        return bytes(text[start : self.size])


@dataclass(slots=True)
class Document:
    """A document in use.

    Args:
        text: the newest version, all changes up to `seq`; empty when there is none.
        left: the file as the host left it, or as it was found equal to `rendered`; None: there is none.
        rendered: the text that the file had then; None: `text` without its last bytes, as many as `lacking` says.
        unkept_seq: the first change behind the mark in the journal; 0: that has all.
        pending_seq: the first change that is not in the file; 0: all are.
        is_checked: the file was compared with the text after the host wrote it.
        is_written: `text` is the data of the change `seq`.
        hash: SHA-256 of `text`, where it is known: an append needs not all of it.
        overtaken: edits that a change of the host was decided upon before they were taken in, with the texts saved.
    """

    file: str
    text: Text
    seq: int
    is_there: bool
    left: Signature | None
    rendered: bytes | None = None
    lacking: int = 0
    unkept_seq: int = 0
    pending_seq: int = 0
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
        return bytes(self.text[: len(self.text) - self.lacking]) if self.rendered is None else self.rendered

    def is_rendered_as(self, held: bytes | None, left: Signature | None) -> None:
        """Note the content of the file, None: that of the newest version; and how the file is."""
        self.rendered, self.lacking, self.left = held, 0, left

    def take(self, row: Row) -> None:
        """Go on with a change of the host."""
        if is_append(row):
            self.text += row.data
            self.lacking += len(row.data)
            if self.hash is not None:
                self.hash.update(row.data)
        else:
            self.rendered = self.on_disk
            self.text, self.hash = Text(text_after(bytes(self.text), row)), None
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
        """Return whether `text` continues this save: it goes on with units of the base that the save lacks.

        It does not if it has anything that the newest version added: then its author read the file again.
        """
        if now - self.at >= MAX_SAVE_SECONDS or len(text) <= len(self.text) or not text.startswith(self.text):
            return False
        texts = (self.text, text, newest, self.base)
        saved, whole, known, base = (Counter(filter(bytes.strip, units_of(one))) for one in texts)
        rest = whole - saved
        return bool(rest & (base - saved)) and not rest & (known - saved)


class Found(NamedTuple):
    """A file that a person saved or removed.

    Args:
        data: None: it is gone. `text` is what it says, see `DocumentsInUse.as_version`.
        base: version that it was made from.
        newest: the newest version when it was found; `merged` is what the save makes of it.
        begun_save: the beginning of this save that was taken for all of it.
    """

    file: str
    signature: Signature | None
    author: str
    data: bytes | None
    text: bytes
    base: bytes
    newest: bytes
    merged: bytes
    begun_save: BegunSave | None = None


MAX_BYTES = 8 << 20  # size limit of a document; a larger file is appended to, and its text is not kept
_MAX_TEXTS_BYTES = 64 << 20
_MAX_DOCUMENTS = 1024  # in memory, besides those whose marks are not kept yet
KEEP_SECONDS = 30.0  # how files are that only the host changed is kept this often


class DocumentsInUse:
    """The documents of a home. Any thread; use a document only while holding `lock`.

    Args:
        group_of: returns the group of a document's file, None when it is not one.
        author_of: returns whom a file's owner is shown as.
        changed: called with a file after it was written, or its newest version changed.
        wall: seconds since the epoch; `clock` is monotonic.
        rules: returns the rules of a file's kind; None: it has none.
    """

    def __init__(
        self,
        home: Path,
        journal: Journal,
        unsynced: Unsynced,
        *,
        group_of: Callable[[str], str | None],
        author_of: Callable[[int], str],
        changed: Callable[[str], None] = lambda file: None,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        rules: Callable[[str], Rules | None] = lambda file: None,
    ) -> None:
        self.home = home
        self.journal = journal
        self.unsynced = unsynced
        self.group_of = group_of
        self.author_of = author_of
        self.changed = changed
        self.wall = wall
        self.clock = clock
        self.rules = rules
        self.reader = EditReader(journal.path, journal.rows)
        self.lock = threading.RLock()
        self._documents: OrderedDict[str, Document] = OrderedDict()
        # File -> as it was found last, since when it has been so, and when it was touched first; monotonic.
        self.touched: dict[str, tuple[Signature | None, float, float]] = {}
        # File -> changes of an earlier run that no mark has, oldest first.
        self._backlog: dict[str, list[Row]] = {}
        for row in self.reader.unmarked():
            if self.covers(row.file):
                self._backlog.setdefault(row.file, []).append(row)
        self.behind: set[str] = set()  # documents and logs that could not be written
        self._kept_at = time.monotonic()
        self._kept_up_to = 0

    def failed(self, file: str, error: Exception) -> None:
        """Note that a file could not be written: it is tried again, and logged once."""
        if file not in self.behind:
            log.error("projection.failed", file=file, error=str(error))
        self.behind.add(file)

    def caught_up(self, file: str) -> None:
        """Note that a file was written."""
        if file in self.behind:
            log.info("projection.caught_up", file=file)
        self.behind.discard(file)

    def path_of(self, file: str) -> Path:
        """Return where a file lies. Raises JournalError if its name leads out of the home."""
        return path_in(self.home, file)

    def covers(self, file: str) -> bool:
        """Return whether a file is a document."""
        return self.group_of(file) is not None

    def may_be_version(self, file: str, data: bytes) -> bool:
        """Return whether a file holds what a document may become: UTF-8, or a JSON object that is not half written."""
        rules = self.rules(file)
        return is_whole(file, data) and (rules is None or rules.is_version(data))

    def as_version(self, file: str, data: bytes, newest: bytes) -> bytes:
        """Return the content of a file; derived members have the values of the newest version."""
        if file.endswith((MEMORY, HISTORY, SUMMARY)):
            return as_written(data)
        rules = self.rules(file)
        return data if rules is None or not (newest and rules.is_version(data)) else rules.as_version(data, newest)

    def as_file(self, document: Document) -> bytes:
        """Return the content that the file of a document should have."""
        rules, text = self.rules(document.file), bytes(document.text)
        return text if rules is None or not rules.is_version(text) else rules.as_file(document.file, text)

    def touch(self, file: str) -> None:
        """Say that a file may have changed."""
        if self.covers(file):
            now = self.clock()
            self.touched.setdefault(file, (NEVER_SEEN, now, now))

    def touch_changed(self) -> None:
        """Say of all documents in use which of them are not as the host left them."""
        for document in self.every():
            if self.is_disturbed(document):
                self.touch(document.file)

    def is_disturbed(self, document: Document) -> bool:
        """Return whether a file is not as the host left it."""
        return signature_of(self.path_of(document.file)) != document.left

    def get(self, file: str) -> Document | None:
        """Return a document if it is in use."""
        return self._documents.get(file)

    def every(self) -> list[Document]:
        with self.lock:
            return [*self._documents.values()]

    def put(self, document: Document) -> None:
        self._documents[document.file] = document

    def drop(self, files: Iterable[str]) -> None:
        """Drop documents whose past was changed in the journal. Called by the writer."""
        with self.lock:
            for file in files:
                document, rows = self._documents.pop(file, None), self._backlog.pop(file, [])
                first = rows[0].seq if rows else 0 if document is None else document.unkept_seq
                if first:
                    changes = self.reader.changes(first, LAST_SEQ, [file])
                    self._backlog[file] = [row for row in changes if not is_edit(row)]
                self.behind.discard(file)
                self.touch(file)

    def discard(self, file: str) -> None:
        """Forget a document that is over."""
        self._documents.pop(file, None)
        self._backlog.pop(file, None)
        self.touched.pop(file, None)
        self.behind.discard(file)

    def load(self, file: str) -> Document:
        """Return a document, as the journal has it. Raises WorldFailed."""
        document = self._documents.get(file)
        if document is None:
            document = self._documents[file] = self._read(file)
        self._documents.move_to_end(file)
        return document

    def is_nothing(self, file: str) -> bool:
        """Return whether a document that is not in use has no version, as far as its file tells; see `load`."""
        return not (file in self._documents or file in self._backlog or signature_of(f"{self.home}/{file}"))

    def _read(self, file: str) -> Document:
        seen = self.reader.seen([file]).get(file)
        path = self.path_of(file)
        rows = self._backlog.get(file, [])
        if seen is None:
            document = Document(file, Text(), 0, is_there=False, left=None)
            if rows:  # what came before it was removed is over
                edits = self.reader.edits_of([file])
                document.seq = max((edit.seq for edit in edits if edit.kind == "edit_removed"), default=0)
        else:
            text = self._text_of(seen, path)
            document = Document(file, Text(text), seen.seq, is_there=True, left=seen.signature)
            document.is_written = seen.packed is None
        has_rules = self.rules(file) is not None
        versions = [bytes(document.text)] if has_rules and document.is_there else []
        for row in rows:
            if row.seq > document.seq:
                document.take(row)
                versions += [row.data] if has_rules else []
        left = signature_of(path)
        if left != document.left or document.unkept_seq:
            document.is_rendered_as(None, NEVER_SEEN)
            with contextlib.suppress(WorldFailed):
                held = read_whole(path)
                if held == document.newest:
                    document.left = left
                elif held is not None and any(self.as_version(file, held, text) == text for text in versions):
                    document.is_rendered_as(held, left)
                    document.pending_seq = document.pending_seq or document.seq
            if document.left == NEVER_SEEN:
                self.touch(file)
        self._backlog.pop(file, None)
        return document

    def _text_of(self, seen: Seen, path: Path) -> bytes:
        """Return the text that a mark is of. Raises WorldFailed."""
        if (text := seen.text) is not None:
            return text
        held = read_whole(path) or b""
        if digest_of(held) == seen.digest:
            return held
        return self.reader.written_at(seen) or held

    def evict(self) -> None:
        """Forget the documents that were used least lately, as far as they can be read again."""
        with self.lock:
            size, count = sum(len(document.text) for document in self._documents.values()), len(self._documents)
            for file, document in [*self._documents.items()]:
                if size <= _MAX_TEXTS_BYTES and count <= _MAX_DOCUMENTS:
                    return
                if document.is_checked and not (document.unkept_seq or document.pending_seq or document.overtaken):
                    size, count = size - len(self._documents.pop(file).text), count - 1

    # ---------------------------------------------------------------------------------------------------------- marks

    def mark_of(self, document: Document) -> Seen:
        """Return how a document and its file are, as the journal is to have it."""
        data = bytes(document.text)
        packed = zlib.compress(data, 1) if len(data) <= MAX_BYTES and not document.is_written else None
        left = NEVER_SEEN if document.pending_seq or document.left is None else document.left
        return Seen(document.file, document.seq, left, len(data), digest_of(data), packed)

    def keep_marks(self, up_to: int, *, now: bool = False) -> None:
        """Keep how documents are whose files only the host changed, if that is due. In the writer's place.

        Args:
            up_to: all changes up to this one are taken in.
        Raises WorldFailed, StorageFailed.
        """
        for file in [*islice(self._backlog, _MAX_DOCUMENTS)]:
            with self.lock, contextlib.suppress(WorldFailed):
                self.load(file)
        if not (now or self._is_due(up_to)):
            return
        unkept = [one for one in self.every() if one.unkept_seq]
        with self.lock:
            changed = [one for one in unkept if not one.pending_seq and one.left != NEVER_SEEN][:_MAX_DOCUMENTS]
            seen = [self.mark_of(document) for document in changed if document.is_there]
            gone = [document.file for document in changed if not document.is_there]
        kept = {document.file for document in changed}
        firsts = [one.unkept_seq for one in unkept if one.file not in kept]
        firsts += [rows[0].seq for rows in self._backlog.values()]
        looked_at = min([up_to + 1, *firsts]) - 1
        self.journal.keep_looked(Looked(seen=seen, gone=gone, up_to=looked_at))
        for document in changed:
            document.unkept_seq = 0
        self._kept_at, self._kept_up_to = time.monotonic(), up_to

    def are_marks_due(self, up_to: int) -> bool:
        """Return whether `keep_marks` has anything to do. Any thread."""
        return bool(self._backlog) or self._is_due(up_to)

    def _is_due(self, up_to: int) -> bool:
        is_over = time.monotonic() - self._kept_at > KEEP_SECONDS and up_to > self._kept_up_to
        return is_over or sum(bool(one.unkept_seq) for one in self.every()) >= _MAX_DOCUMENTS

    def adopt(self, files: Iterable[str]) -> None:
        """Adopt unknown files as they are: they were there before the first look.

        Raises WorldFailed, StorageFailed.
        """
        behind = {row.file for row in self.journal.unprojected()}
        names = (file for file in files if file not in behind)
        while some := list(islice(names, _MAX_DOCUMENTS)):
            known = self.reader.stamps(some)
            adopted: list[Seen] = []
            for file in some:
                if file not in known:
                    with contextlib.suppress(WorldFailed):
                        adopted += self._adopted(file)
            begun = [(one.file, one.seq + 1, one.text) for one in adopted if one.text is not None]
            self.journal.keep_looked(Looked(seen=adopted, begun=begun))
            for one in adopted:
                self._backlog.pop(one.file, None)
        self.journal.keep_adopted()

    def _adopted(self, file: str) -> list[Seen]:
        """Return a mark for a file without one; None while somebody is saving it."""
        path = self.path_of(file)
        signature, data = signature_of(path), read_whole(path)
        if data is None or signature is None or is_open_for_writing(path):
            return []
        packed = zlib.compress(data, 1) if len(data) <= MAX_BYTES else None
        return [Seen(file, self.journal.committed_seq, signature, len(data), digest_of(data), packed)]
