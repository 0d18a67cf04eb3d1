"""The documents in use: what the journal says they hold, what the host left on disk, and what people saved.

The journal has the truth; a file is the newest version, rendered. Where the file is not as the host left it, a person
saved it: once nobody writes to it any more, what they changed is merged into the newest version and becomes one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import threading
import time
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from honeybadger_host.documents.merge import merge, units_of
from honeybadger_host.documents.unread import unread_notes, with_unread
from honeybadger_host.documents.versions import Event, Saved, after, is_append, read_events, versions_back
from honeybadger_host.domain import REMOVED
from honeybadger_host.errors import WorldFailed
from honeybadger_host.storage.atomic_files import WHOLE_KINDS, fingerprint, make_room, read_whole
from honeybadger_host.storage.edits import Edit, EditReader, Looked, SavedText, Seen, digest_of
from honeybadger_host.storage.file_cache import NEVER_SEEN, is_young, signature_of
from honeybadger_host.storage.files import (
    FILE_MODE,
    NotRegular,
    Signature,
    alone_with,
    append,
    closing_fd,
    has_writer,
    is_open_for_writing,
    open_plain,
    open_to_append,
    path_in,
    read_all,
    sync_folder,
    write_beside,
)
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.journal_connection import read_meta
from honeybadger_host.storage.journal_schema import DOCUMENTS_SINCE, LAST_SEQ, Row
from honeybadger_host.storage.line_hunks import hunks_between, lines_of
from honeybadger_host.storage.unsynced import Unsynced

log = structlog.get_logger()

QUIET_SECONDS = 0.5  # A file that changed is looked at after so long without another change
_NO_HARD_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # some file systems have none
# A program that has a file open for writing for longer, as `tee -a` may for days, keeps no notes waiting.
_MAX_SAVE_SECONDS: Final = 30.0
# A program that has a file open for writing and has not written for longer is not saving it.
_RECENT_SECONDS: Final = 5.0
NEAREST_SECONDS: Final = 3600.0  # age of the oldest version that a save may have been made from
# A note this much older than a save that goes back to an earlier version was read before it was deleted.
DELETED_SECONDS = 2.0
# The same text saved again within this time is the same editor's; later it goes back to that text.
_SAVED_AGAIN_SECONDS: Final = 60.0
MAX_BYTES: Final = 8 << 20  # size limit of a document; a larger file is appended to, and its text is not kept
MAX_TEXTS_BYTES: Final = 64 << 20
_FILES_AT_ONCE: Final = 256
_ATTEMPTS: Final = 5
# Files that are saved one after the other, as by `git checkout`, are one event of at most this length.
_MAX_GROUPING_SECONDS: Final = 5.0


@dataclass(slots=True)
class Document:
    """A document in use.

    Args:
        text: the newest version, all changes up to `seq`.
        left: the file as the host left it, or as it was found equal to `rendered`; None: there is none.
        rendered: the text that the file had then; None: `text`.
    """

    file: str
    text: bytearray
    seq: int
    is_there: bool
    left: Signature | None
    rendered: bytes | None = None
    unkept_seq: int = 0
    """The first change that `seen` of the journal lacks; 0: it has all."""
    is_unseen: bool = False
    """The journal has no `seen` of it and is to have one."""
    pending_seq: int = 0
    """The first change that is not in the file; 0: all are."""
    has_failed: bool = False
    is_checked: bool = True
    """The file was compared with the text after the host wrote it."""
    half: Half | None = None
    hash: hashlib._Hash | None = None
    """SHA-256 of `text`, where it is known: an append needs not all of it."""
    overtaken: list[Edit] = field(default_factory=list)
    """Edits that a change of the host was decided upon before they were taken in."""

    @property
    def on_disk(self) -> bytes:
        """Return the content of the file as the host left it."""
        return bytes(self.text) if self.rendered is None else self.rendered


class Half(NamedTuple):
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

    def is_begun(self, now: float, text: bytes) -> bool:
        """Return whether a save goes on with this one."""
        return now - self.at < _MAX_SAVE_SECONDS and len(text) > len(self.text) and text.startswith(self.text)


class Found(NamedTuple):
    """A file that a person saved or removed.

    Args:
        data: None: it is gone.
        base: version that it was made from.
        newest: the newest version when it was found; `merged` is what the save makes of it.
        half: the beginning of this save that was taken for all of it.
    """

    file: str
    signature: Signature | None
    author: str
    data: bytes | None
    base: bytes
    newest: bytes
    merged: bytes
    half: Half | None = None


class Documents:
    """Documents of a home. Whoever calls `apply`, `take_in` or `recover` writes the journal at that time; the others
    may be called by any thread.

    Args:
        group_of: returns the group of a document's file, None when it is not one.
        author_of: returns whom a file's owner is shown as.
        is_new_home: whether what a file holds was there before anybody looked at the home.
        changed: called with a file after it was written, or its newest version changed.
        wall: seconds since the epoch; `clock` is monotonic.
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
    ) -> None:
        self._home = home
        self._journal = journal
        self._unsynced = unsynced
        self._reader = EditReader(journal.path)
        self._group_of = group_of
        self._author_of = author_of
        self._changed = changed
        self._wall = wall
        self._clock = clock
        self._lock = threading.RLock()
        self._documents: OrderedDict[str, Document] = OrderedDict()
        self._touched: dict[str, tuple[Signature | None, float, float]] = {}
        """File -> as it was found last, since when it has been so, and when it was touched first; monotonic."""
        self._replaced: list[tuple[str, int, Signature, bytes]] = []
        """Files that were replaced: a descriptor of the old one, how it was and what it held."""
        self._since = int(read_meta(journal.path, DOCUMENTS_SINCE) or 0)
        self.is_new_home = self._reader.looked_at() is None
        """Nobody has looked at all of the home: what its files hold was there before."""

    def covers(self, file: str) -> bool:
        """Return whether a file is a document."""
        return self._group_of(file) is not None

    # ------------------------------------------------------------------------------------------------- what is known

    def _load(self, file: str) -> Document:
        """Return a document, as the journal has it. Raises WorldFailed."""
        document = self._documents.get(file)
        if document is None:
            document = self._documents[file] = self._read(file)
        self._documents.move_to_end(file)
        return document

    def load(self, file: str) -> None:
        """See that the changes of a document are kept with it. Raises WorldFailed."""
        with self._lock:
            self._load(file)

    def _read(self, file: str) -> Document:
        seen = self._reader.seen([file]).get(file)
        looked_at = self._reader.looked_at()
        since = max(looked_at or 0, 0 if seen is None else seen.seq)
        if seen is None:  # what came before it was removed is over
            since = max([since, *(edit.seq for edit in self._reader.edits_of([file], since, LAST_SEQ))])
        path = path_in(self._home, file)
        rows = list(self._reader.changes(since + 1, self._journal.committed_seq, [file]))
        if seen is not None:
            text = seen.text
            if text is None:
                text = self._reader.written_as({file: seen.digest}).get(file) or read_whole(path) or b""
            document = Document(file, bytearray(text), seen.seq, is_there=True, left=seen.signature)
        elif self.is_new_home and not (rows and rows[0].seq > self._since):
            left, data = signature_of(path), read_whole(path)
            if data is not None and is_open_for_writing(path):  # half of a first save: taken in when it is whole
                left = data = None
            document = Document(file, bytearray(data or b""), 0, is_there=data is not None, left=left)
            document.is_unseen = data is not None
            if rows:  # of a host that kept no versions
                document.seq = rows[-1].seq
                rows = []
        else:
            document = Document(file, bytearray(), 0, is_there=False, left=None)
        for row in rows:
            self._take(document, row)
        left = signature_of(path)
        if left != document.left or rows:
            document.left = NEVER_SEEN
            with contextlib.suppress(WorldFailed):
                if read_whole(path) == (bytes(document.text) if document.is_there else None):
                    document.left = left
        return document

    def _evict(self) -> None:
        """Forget the documents that were used least lately, as far as they can be read again."""
        size = sum(len(document.text) for document in self._documents.values())
        for file, document in [*self._documents.items()]:
            if size <= MAX_TEXTS_BYTES or len(self._documents) == 1:
                return
            if not (document.unkept_seq or document.is_unseen or document.pending_seq) and document.is_checked:
                size -= len(self._documents.pop(file).text)

    def _take(self, document: Document, row: Row) -> None:
        if is_append(row):
            document.text += row.data
            if document.hash is not None:
                document.hash.update(row.data)
        else:
            document.text, document.hash = bytearray(after(bytes(document.text), row)), None
        document.is_there = not (row.kind in WHOLE_KINDS and row.kind.endswith(REMOVED))
        document.seq = row.seq
        document.unkept_seq = document.unkept_seq or row.seq

    @property
    def behind(self) -> list[str]:
        """Documents whose file lacks something and could not be written."""
        return [document.file for document in [*self._documents.values()] if document.has_failed]

    def is_behind(self, file: str) -> bool:
        """Return whether a file lacks something that the journal has."""
        document = self._documents.get(file)
        return document is not None and document.pending_seq > 0

    @property
    def pending(self) -> dict[str, int]:
        """File -> the first change that is not in it."""
        with self._lock:
            return {one.file: one.pending_seq for one in self._documents.values() if one.pending_seq}

    @property
    def unkept(self) -> int | None:
        """The first change that no `seen` of the journal has; None: all are there."""
        return self.unkept_besides((), ())

    def unkept_besides(self, seen: Iterable[Seen], gone: Iterable[str]) -> int | None:
        """Return the first change that no `seen` has once those are kept; None: all are there."""
        kept = {one.file: one.seq for one in seen} | dict.fromkeys(gone, LAST_SEQ)
        with self._lock:
            every = [*self._documents.values()]
        return min(
            (one.unkept_seq for one in every if one.unkept_seq and kept.get(one.file, 0) < one.seq), default=None
        )

    def snapshots(self) -> tuple[list[Seen], list[str]]:
        """Return how documents are that the journal has only the changes of, and those that are gone."""
        with self._lock:
            changed = [
                one
                for one in self._documents.values()
                if (one.unkept_seq or one.is_unseen) and not one.pending_seq and one.left != NEVER_SEEN
            ]
            return (
                [self._seen(document) for document in changed if document.is_there],
                [document.file for document in changed if not document.is_there],
            )

    def kept(self, seen: Iterable[Seen], gone: Iterable[str]) -> None:
        """Take in that the journal has them."""
        with self._lock:
            for file, seq in [*((one.file, one.seq) for one in seen), *((file, 0) for file in gone)]:
                if (document := self._documents.get(file)) is not None:
                    document.is_unseen = False
                    if not seq or document.seq == seq:
                        document.unkept_seq = 0

    def _seen(self, document: Document) -> Seen:
        data = bytes(document.text)
        packed = zlib.compress(data, 1) if len(data) <= MAX_BYTES else None
        left = NEVER_SEEN if document.pending_seq or document.left is None else document.left
        return Seen(document.file, document.seq, left, len(data), digest_of(data), packed)

    def current(self, file: str) -> bytes | None:
        """Return the newest version with what a person saved; None: there is no such file. Raises WorldFailed."""
        path = path_in(self._home, file)
        for _ in range(_ATTEMPTS):
            signature, data = signature_of(path), read_whole(path)
            if signature_of(path) == signature:
                break
        else:
            raise WorldFailed(f"{path} is being saved by another program")
        with self._lock:
            document = self._load(file)
            if data is None or signature is None:
                return bytes(document.text) if document.left is None and document.is_there else None
        return self.view(file, data, signature)

    def view(self, file: str, data: bytes, signature: Signature) -> bytes:
        """Return what a reader gets who has found `data` in a file: the newest version, with what a person saved."""
        if not self.covers(file):
            return data
        with self._lock:
            document = self._documents.get(file)
            if document is None:
                return data
            newest = bytes(document.text)
            if signature == document.left:
                return newest
            if data == document.on_disk:
                return newest
        found = self._compare(file, signature, "", data)
        return merge(found.newest, newest, found.merged)

    # ---------------------------------------------------------------------------------------------- the host's changes

    def check(self, file: str) -> None:
        """See that a file can be written. Raises WorldFailed; nothing was changed but its folders made."""
        path = path_in(self._home, file)
        self._unsynced.add_new_folders(path)
        make_room(path)
        if not os.access(path, os.W_OK) and path.exists():
            raise WorldFailed(f"cannot open {path} for writing: Permission denied")
        with self._lock:
            document = self._load(file)
            if document.is_unseen:  # what comes is to be told from what was there
                seen = [self._seen(document)]
                self._journal.keep_looked(Looked((), seen, (), None), 0)
                self.kept(seen, ())

    def check_base(self, file: str, base: bytes) -> None:
        """See that a text is the newest version and that nobody saves the file just now. Raises WorldFailed."""
        self.check(file)
        path = path_in(self._home, file)
        with self._lock:
            document = self._load(file)
            if document.text != base or document.pending_seq or signature_of(path) != document.left:
                if read_whole(path) == base == bytes(document.text) and not document.pending_seq:
                    document.left = signature_of(path)
                else:
                    self.touch(file)
                    raise WorldFailed(f"{path} was changed meanwhile")
        if is_open_for_writing(path):
            raise WorldFailed(f"{path} is open for writing in another program")

    def apply(self, rows: Sequence[Row]) -> None:
        """Take in committed changes, and write them where nobody is saving the file."""
        by_file: defaultdict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_file[row.file].append(row)
        for file, some in by_file.items():
            with self._lock:
                document = self._load(file)
                new = [row for row in some if row.seq > document.seq]
                if new and not document.pending_seq:
                    only_appends = all(map(is_append, new))
                    if not only_appends or self._is_disturbed(document):
                        document.rendered = bytes(document.text)
                for row in new:
                    if row.kind in WHOLE_KINDS:
                        self._note_overtaken(document, row)
                    self._take(document, row)
                if new:
                    document.pending_seq = document.pending_seq or new[0].seq
                added = b"".join(row.data for row in new) if new and document.rendered is None else None
                self._render(document, added)
            self._changed(file)

    def _note_overtaken(self, document: Document, row: Row) -> None:
        """Take in that a change was decided upon a text that somebody had saved just before."""
        path = path_in(self._home, document.file)
        held = bytes(document.text) if document.is_there else None
        if fingerprint(held) == row.offset:
            return
        with contextlib.suppress(WorldFailed):
            left, data = signature_of(path), read_whole(path)
            if fingerprint(data) == row.offset:
                saved = replace(document, text=bytearray(data or b""), is_there=data is not None)
                document.overtaken.append(self._edit(document, saved, self._author_of(os.geteuid())))
                document.left, document.rendered = left, data or b""

    def _is_disturbed(self, document: Document) -> bool:
        """Return whether a file is not as the host left it."""
        return signature_of(path_in(self._home, document.file)) != document.left

    def _render(self, document: Document, added: bytes | None = None) -> bool:
        """Write a document's file; return whether it is as its newest version.

        It is not where somebody changed it, or it cannot be written: then it is tried again.

        Args:
            added: what is to be appended; None: not known.
        """
        path = path_in(self._home, document.file)
        try:
            if self._is_disturbed(document):
                if document.rendered is None:
                    document.rendered = bytes(document.text[: len(document.text) - len(added or b"")])
                self.touch(document.file)
                return False
            if added is None and document.rendered is not None and document.text.startswith(document.rendered):
                added = bytes(document.text[len(document.rendered) :])
            is_done = self._append(document, path, added) if added is not None else self._replace(document, path)
        except (WorldFailed, OSError) as error:
            if document.rendered is None:
                document.rendered = bytes(document.text[: len(document.text) - len(added or b"")])
            if not document.has_failed:
                log.error("projection.failed", file=document.file, error=str(error))
            document.has_failed = True
            return False
        if not is_done:
            return False
        if document.has_failed:
            document.has_failed = False
            log.info("projection.caught_up", file=document.file)
        document.rendered, document.pending_seq, document.is_checked = None, 0, False
        self._unsynced.add(path)
        return True

    def _append(self, document: Document, path: Path, added: bytes) -> bool:
        """Append to a file that is as the host left it. Raises WorldFailed."""
        if document.left is None:
            return self._create(document, path)
        if not added:
            return True
        with closing_fd(open_to_append(path)) as fd:
            status = os.fstat(fd)
            if Signature.of(status) != document.left:
                document.rendered = document.rendered or bytes(document.text[: len(document.text) - len(added)])
                self.touch(document.file)
                return False
            append(fd, added)
            left = Signature.of(os.fstat(fd))
        if left.size != status.st_size + len(added) or signature_of(path) != left:
            left = NEVER_SEEN  # somebody wrote to it just now
            self.touch(document.file)
        document.left = left
        return True

    def _create(self, document: Document, path: Path) -> bool:
        """Make the file of a document, unless somebody has just made it. Raises WorldFailed, OSError."""
        make_room(path)
        self._unsynced.add_new_folders(path)
        temporary = write_beside(path, bytes(document.text), mode=FILE_MODE)
        try:
            os.link(temporary, path)
        except FileExistsError:
            self.touch(document.file)
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            os.rename(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        document.left = signature_of(path)
        return True

    def _replace(self, document: Document, path: Path) -> bool:
        """Give a file the newest text by rename, or remove it. Raises WorldFailed, OSError."""
        if document.left is None:
            return not document.is_there or self._create(document, path)
        if is_open_for_writing(path) and self._is_recent(document.left):
            self.touch(document.file)
            return False
        try:
            fd, status = open_plain(path)
        except (FileNotFoundError, NotRegular):
            self.touch(document.file)
            return False
        held = document.on_disk
        temporary = None
        try:
            if document.is_there:
                mode = stat.S_IMODE(status.st_mode) & 0o777
                temporary = write_beside(path, bytes(document.text), mode=mode)
            with alone_with(fd):
                if signature_of(path) != document.left or Signature.of(os.fstat(fd)) != document.left:
                    self.touch(document.file)
                    return False
                if temporary is None:
                    os.unlink(path)
                else:
                    os.rename(temporary, path)
            document.left = signature_of(path)
            sync_folder(path.parent)
            self._replaced.append((document.file, os.dup(fd), Signature.of(os.fstat(fd)), held))
        finally:
            os.close(fd)
            if temporary is not None:
                temporary.unlink(missing_ok=True)
        return True

    def _is_recent(self, signature: Signature) -> bool:
        return abs(self._wall() - signature.mtime_ns / 1e9) < _RECENT_SECONDS

    def text(self, file: str) -> bytes:
        """Return the newest version; empty when there is none. Raises WorldFailed."""
        with self._lock:
            return bytes(self._load(file).text)

    def hash_of(self, file: str) -> hashlib._Hash | None:
        """Return the SHA-256 of the newest version, to go on with; None: it is empty. Raises WorldFailed."""
        with self._lock:
            document = self._load(file)
            if document.hash is None:
                document.hash = hashlib.sha256(document.text)
            return document.hash.copy() if document.text else None

    # ------------------------------------------------------------------------------------------------- people's saves

    def touch(self, file: str) -> None:
        """Say that a file may have changed."""
        if self.covers(file):
            now = self._clock()
            self._touched.setdefault(file, (NEVER_SEEN, now, now))

    def touch_changed(self) -> None:
        """Say of all documents in use which of them are not as the host left them."""
        with self._lock:
            documents = [*self._documents.values()]
        for document in documents:
            if self._is_disturbed(document):
                self.touch(document.file)

    def signature(self, file: str) -> Signature | None:
        """Return the file as the host left it; `NEVER_SEEN`: not known."""
        document = self._documents.get(file)
        return NEVER_SEEN if document is None else document.left

    @property
    def waiting(self) -> int:
        """How many edits are to be kept that no file shows any more."""
        return sum(len(document.overtaken) for document in [*self._documents.values()])

    @property
    def touched(self) -> Collection[str]:
        """Files that may have changed."""
        return [*self._touched]

    def look(self) -> list[Found]:
        """Return the files that people saved and nobody is saving any more."""
        self._look_at_replaced()
        with self._lock:
            self._evict()
            unchecked = [one.file for one in self._documents.values() if not one.is_checked or one.pending_seq]
        for file in unchecked:
            if file not in self._touched:
                self._check(file)
        found: list[Found] = []
        if self._is_going_on():
            return found
        for file in [*self._touched][:_FILES_AT_ONCE]:
            try:
                one = self._look_at(file)
            except (OSError, NotRegular, WorldFailed) as error:
                if isinstance(error, NotRegular) or not os.path.lexists(path_in(self._home, file)):
                    self._touched.pop(file, None)
                continue
            if one is not None:
                found.append(one)
        return found

    def _is_going_on(self) -> bool:
        """Return whether files are being saved one after the other."""
        now = self._clock()
        is_recent = is_long = False
        for file, (before, since, first) in [*self._touched.items()]:
            signature = signature_of(path_in(self._home, file))
            document = self._documents.get(file)
            if document is not None and signature == document.left:
                self._touched[file] = signature, now, now
                continue
            if signature != before:
                since = now
                self._touched[file] = signature, since, first
            age = now - since
            if signature is not None:
                age = max(age, self._wall() - max(signature.mtime_ns, signature.ctime_ns) / 1e9)
            is_long = is_long or now - first > _MAX_GROUPING_SECONDS
            is_recent = is_recent or age < QUIET_SECONDS
        return is_recent and not is_long

    def _check(self, file: str) -> None:
        """Compare a file that the host wrote with its text: a save within a tick of the clock leaves no other sign."""
        with self._lock, contextlib.suppress(WorldFailed):
            document = self._load(file)
            path = path_in(self._home, file)
            left = document.left
            if left is None or signature_of(path) != left:
                if left is not None or document.pending_seq or os.path.lexists(path):
                    self.touch(file)
                if document.pending_seq and left is None and not os.path.lexists(path):
                    self._render(document)
                    self._changed(file)
                return
            if document.pending_seq:
                if self._render(document):
                    self._changed(file)
                return
            if is_young(left, int(self._wall() * 1e9)):
                return
            if read_whole(path) != bytes(document.text) and signature_of(path) == left:
                document.rendered, document.left = bytes(document.text), NEVER_SEEN
                self.touch(file)
            document.is_checked = True

    def _look_at(self, file: str) -> Found | None:
        """Return what a person saved; None: nothing, or not yet. Raises OSError, NotRegular, WorldFailed."""
        path = path_in(self._home, file)
        now = self._clock()
        signature = signature_of(path)
        before, since, first = self._touched[file]
        if signature != before:  # else see `_is_going_on`
            return None
        with self._lock:
            document = self._load(file)
            if signature is not None and signature == document.left:
                del self._touched[file]
                self._check(file)
                return None
            if signature is None and document.left is None and not document.pending_seq:
                del self._touched[file]
                return None
        age = now - since
        if signature is not None:
            age = max(age, self._wall() - max(signature.mtime_ns, signature.ctime_ns) / 1e9)
        if age < QUIET_SECONDS:
            return None
        if signature is not None:
            is_patient = now - first < _MAX_SAVE_SECONDS and self._is_recent(signature)
            if is_patient and is_open_for_writing(path):
                return None
        if signature is None:
            self._touched.pop(file)
            return self._compare(file, None, "", None)
        fd, status = open_plain(path)
        with closing_fd(fd):
            data = read_all(fd, status.st_size)
            if Signature.of(os.fstat(fd)) != signature or signature_of(path) != signature:
                return None
        self._touched.pop(file)
        return self._compare(file, signature, self._author_of(status.st_uid), data)

    def _compare(self, file: str, signature: Signature | None, author: str, data: bytes | None) -> Found:
        """Return what a save was made from, and what it makes of the newest version."""
        with self._lock:
            document = self._load(file)
            newest, on_disk, half = bytes(document.text), document.on_disk, document.half
        is_first = self.is_new_home and not document.seq
        found = Found(file, signature, author or self._author_of(os.geteuid()), data, on_disk, newest, newest)
        text = data or b""
        if data == on_disk:
            return found
        if is_first:
            return found._replace(merged=text)
        if half is not None and half.is_begun(self._wall(), text):
            whole = merge(half.after, newest, half.before)  # as if the first half had not been saved
            return found._replace(base=half.base, merged=merge(half.base, whole, text), half=half)
        now = self._wall()
        saved_at = now if signature is None else min(now, signature.mtime_ns / 1e9)
        events = read_events(self._journal.path, file, int((now - NEAREST_SECONDS) * 1000))
        lately = self._reader.saved(file, int((now - NEAREST_SECONDS) * 1000))
        same = next((one for one in lately if data is not None and one.text == text), None)
        if same is not None and (saved_at * 1000 <= same.at or saved_at - same.at / 1000 < _SAVED_AGAIN_SECONDS):
            return found._replace(base=text)
        later = _later_than(text, newest, events)
        is_earlier = later is not None or same is not None or self._journal_has(file, text)
        if data is None or is_earlier:  # it is not merged: a deletion, or a checkout
            rows = (
                [event for event in events if isinstance(event, Row) and is_append(event)] if later is None else later
            )
            since = (saved_at - DELETED_SECONDS) * 1000
            young = [row.data for row in rows if row.at >= since and row.data.strip() in newest]
            kept = [data for data in young if data.strip() not in text]
            return found._replace(base=text, merged=text + b"".join(kept))
        saved = Saved(text, newest)
        base = saved.nearest(saved.candidates(newest, events, lately))
        return found._replace(base=base, merged=merge(base, newest, text))

    def _journal_has(self, file: str, text: bytes) -> bool:
        """Return whether a text is any earlier version."""
        return self._reader.has_version(file, fingerprint(text))

    def take_in(self, some: Sequence[Found], first: int) -> list[Edit]:
        """Keep what people saved, and write it where it was merged; return the edits, numbered from `first` on.

        Raises WorldFailed, StorageFailed; nothing was changed.
        """
        edits: list[Edit] = []
        seen: list[Seen] = []
        gone: list[str] = []
        lately: list[SavedText] = []
        done: list[tuple[Found, Document]] = []
        at = max(self._journal.last_at, int(self._wall() * 1000))
        with self._lock:
            for document in self._documents.values():
                for edit in document.overtaken:
                    edits.append(edit._replace(seq=first + len(edits)))
                document.overtaken = []
            for found in some:
                if signature_of(path_in(self._home, found.file)) != found.signature:
                    self.touch(found.file)
                    continue
                document = self._load(found.file)
                taken = self._taken(document, found)
                if taken.text != document.text or taken.is_there != document.is_there:
                    if not (self.is_new_home and not document.seq):
                        edits += self._edits(document, taken, found, first + len(edits))
                    if taken.is_there:
                        seen.append(self._seen(taken))
                    else:
                        gone.append(found.file)
                if found.data is not None and taken.pending_seq:
                    lately.append(SavedText(found.file, digest_of(found.data), at, found.data))
                done.append((found, taken))
            if edits or seen or gone or lately:
                self._journal.keep_looked(Looked(edits, seen, gone, None, lately), first, at)
            units_of.cache_clear()
            for found, taken in done:
                self._documents[found.file] = taken
                if taken.pending_seq:
                    self._render(taken)
                else:
                    self._unsynced.add(path_in(self._home, found.file))
                self._changed(found.file)
        return edits

    def _taken(self, document: Document, found: Found) -> Document:
        """Return a document as it is once a save is taken in."""
        newest = bytes(document.text)
        merged = merge(found.newest, newest, found.merged)
        is_there = found.data is not None or bool(merged)
        taken = replace(
            document, text=bytearray(merged), is_there=is_there, left=found.signature, unkept_seq=0, hash=None
        )
        is_rendered = merged == (found.data or b"") and is_there == (found.data is not None)
        taken.rendered = None if is_rendered else found.data or b""
        taken.pending_seq = 0 if is_rendered else document.pending_seq or document.seq or 1
        taken.is_checked = not is_rendered
        if merged == newest and is_there == document.is_there:
            taken.unkept_seq = document.unkept_seq
        elif found.data is not None and found.data != found.base:
            first = found.half
            before = newest if first is None else merge(first.after, newest, first.before)
            taken.half = Half(self._wall(), found.data, found.base, before, merged)
        return taken

    def _edits(self, document: Document, taken: Document, found: Found, first: int) -> list[Edit]:
        """Return what a save changed; unread notes that went are an edit of their own, which can be undone alone."""
        newest, merged = bytes(document.text), bytes(taken.text)
        unread = [] if found.data is None else unread_notes(newest, merged, found.data)
        stayed = replace(document, seq=first)
        if unread:
            stayed.text = bytearray(with_unread(newest, merged, unread))
        is_only_that = stayed.text == document.text
        taken.seq = first if is_only_that else first + 1
        last = self._edit(stayed, taken, found.author)._replace(unread=len(unread))
        return [last] if is_only_that else [self._edit(document, stayed, found.author), last]

    def _edit(self, document: Document, taken: Document, author: str) -> Edit:
        before, after_ = (digest_of(bytes(one.text)) if one.is_there else None for one in (document, taken))
        texts_ = bytes(document.text), bytes(taken.text)
        hunks = None if max(map(len, texts_)) > MAX_BYTES else hunks_between(*map(lines_of, texts_))
        group = self._group_of(document.file) or ""
        return Edit(taken.seq, 0, group, author, 0, document.file, before, after_, hunks)

    def _look_at_replaced(self) -> None:
        """Take in what a program saved into the file that a rename replaced: it had opened it just before."""
        for one in [*self._replaced]:
            file, fd, signature, held = one
            now = Signature.of(os.fstat(fd))
            if now.size == signature.size and now.mtime_ns == signature.mtime_ns:
                if not has_writer(fd):
                    self._drop_replaced(one)
                continue
            if has_writer(fd):
                continue
            text = read_all(fd, now.size)
            self._drop_replaced(one)
            with self._lock:
                document = self._load(file)
                target = path_in(self._home, file)
                if text != held and signature_of(target) == document.left and not document.pending_seq:
                    document.rendered = bytes(document.text)
                    merged = merge(held, bytes(document.text), text)
                    os.rename(write_beside(target, merged, mode=FILE_MODE), target)
                    log.info("projection.kept", file=file, why="somebody saved it meanwhile")
                    self.touch(file)

    def _drop_replaced(self, one: tuple[str, int, Signature, bytes]) -> None:
        os.close(one[1])
        self._replaced.remove(one)

    def drop(self, files: Iterable[str]) -> None:
        """Forget what is known of documents whose past was changed in the journal."""
        with self._lock:
            for file in files:
                if self._documents.pop(file, None) is not None:
                    self.touch(file)

    # ------------------------------------------------------------------------------------------------------- recovery

    def recover(self, file: str, rows: Sequence[Row]) -> None:
        """Bring a file up to date with changes that may not be in it.

        Args:
            rows: oldest first, the newest of the file.
        """
        path = path_in(self._home, file)
        with self._lock:
            try:
                document = self._load(file)
                signature, held = signature_of(path), read_whole(path)
            except WorldFailed as error:
                log.error("projection.failed", file=file, error=str(error))
                return
            document.pending_seq = document.pending_seq or rows[0].seq
            if document.is_unseen:  # of a host that kept no versions
                self._append_missing(document, rows)
            elif is_open_for_writing(path):  # a person who saves it in place, not a power cut
                document.rendered, document.left = document.on_disk, NEVER_SEEN
                self.touch(file)
            elif document.seq == rows[-1].seq and _is_unfinished(held, bytes(document.text), rows):
                document.rendered, document.left = held or b"", signature
                self._render(document)
            elif held == bytes(document.text):
                document.rendered, document.left, document.pending_seq = None, signature, 0
            else:
                document.rendered, document.left = document.on_disk, NEVER_SEEN
                self.touch(file)

    def _append_missing(self, document: Document, rows: Sequence[Row]) -> None:
        """Append what does not stand in a file of which no version is known."""
        text = bytes(document.text)
        missing = b"".join(row.data for row in rows if is_append(row) and row.data.strip() not in text)
        document.rendered = text
        document.text += missing
        self._render(document)

    def render_pending(self) -> None:
        """Write the documents that could not be written before."""
        with self._lock:
            for document in [*self._documents.values()]:
                if document.has_failed and self._render(document):
                    self._changed(document.file)


def _later_than(text: bytes, newest: bytes, events: Sequence[Event]) -> list[Row] | None:
    """Return the appends behind the version that a text is; None: it is none of those that are followed back."""
    later: list[Row] = []
    for version, run, _ in versions_back(newest, events):
        end = len(version)
        while run and end > len(text):
            end -= len(run[-1].data)
            later.append(run.pop())
        if end == len(text) and version.startswith(text):
            return later[::-1]
        later += reversed(run)
    return None


def _is_unfinished(data: bytes | None, newest: bytes, rows: Sequence[Row]) -> bool:
    """Return whether a file is a version of since `rows` began, or the beginning of one that was being written."""
    if fingerprint(data) in [row.offset for row in rows if not is_append(row)]:
        return True  # it was not replaced yet
    held = data or b""
    for version, run, _ in versions_back(newest, rows):
        start = len(version) - sum(len(row.data) for row in run)
        if len(held) <= len(version) and held[:start] == version[:start]:
            wrong = held[start:] != version[start : len(held)]
            if not wrong or _is_torn(held[start:], version[start : len(held)]):
                return True
    return False


def _is_torn(held: bytes, wanted: bytes) -> bool:
    """Return whether all bytes that are wrong are zeros, which a file system puts for what it lost."""
    return not any(has for has, needs in zip(held, wanted, strict=True) if has != needs)
