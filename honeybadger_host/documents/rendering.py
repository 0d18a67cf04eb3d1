"""Files of documents: written as the newest version, unless a person has saved them."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from honeybadger_host.documents.in_use import Document, DocumentsInUse, is_json, merged_as
from honeybadger_host.documents.versions import versions_back
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import NEVER_SEEN, is_young, signature_of
from honeybadger_host.files.safe_files import (
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
    read_all,
    sync_folder,
    write_beside,
)
from honeybadger_host.journal.changes import WHOLE_KINDS, fingerprint, make_room, read_whole
from honeybadger_host.journal.edits import is_append
from honeybadger_host.journal.schema import Row
from honeybadger_host.log import log

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # some file systems have none
# A program that has a file open for writing and has not written for longer is not saving it.
_RECENT_SECONDS = 5.0


class _Replaced(NamedTuple):
    """A file that was replaced while another program had it open: that may still save into it.

    Args:
        fd: of the old file; `held` was its content.
    """

    file: str
    fd: int
    held: bytes


class Renderer:
    """Writes documents. Only the thread that writes the journal calls it.

    Args:
        overtake: see `Saves.overtake`; told of each file that is written as a whole.
    """

    def __init__(self, in_use: DocumentsInUse, overtake: Callable[[Document, Row], object]) -> None:
        self._in_use = in_use
        self._overtake = overtake
        self._replaced: list[_Replaced] = []

    def check(self, file: str) -> None:
        """See that a file can be written. Raises WorldFailed; nothing was changed but its folders made."""
        path = self._in_use.path_of(file)
        is_new = signature_of(path) is None
        if is_new and not path.parent.exists():
            self._in_use.unsynced.add_folders(path)
        make_room(path)
        if not is_new and not os.access(path, os.W_OK):
            raise WorldFailed(f"cannot open {path} for writing: Permission denied")
        with self._in_use.lock:
            self._in_use.load(file)

    def check_base(self, file: str, base: bytes) -> None:
        """See that a text is the newest version and that nobody saves the file just now. Raises WorldFailed."""
        self.check(file)
        path = self._in_use.path_of(file)
        with self._in_use.lock:
            document = self._in_use.load(file)
            if bytes(document.text) != base or document.pending_seq or self._in_use.is_disturbed(document):
                self._in_use.touch(file)
                if not self._in_use.may_be_version(file, read_whole(path) or base):
                    raise WorldFailed(f"{path} cannot be read (`honeybadger-host doctor` says why)")
                raise WorldFailed(f"{path} was changed meanwhile")
        if is_open_for_writing(path):
            raise WorldFailed(f"{path} is open for writing in another program")

    def apply(self, file: str, rows: Sequence[Row]) -> None:
        """Take in committed changes of a file, and write them where nobody is saving it."""
        with self._in_use.lock:
            document = self._in_use.load(file)
            new = [row for row in rows if row.seq > document.seq]
            for row in new:
                if row.kind in WHOLE_KINDS:
                    self._overtake(document, row)
                document.take(row)
            if new:
                document.pending_seq = document.pending_seq or new[0].seq
            self.render(document, is_durable=not is_json(file))
        self._in_use.changed(file)

    def is_recent(self, signature: Signature) -> bool:
        return abs(self._in_use.wall() - signature.mtime_ns / 1e9) < _RECENT_SECONDS

    def render(self, document: Document, *, is_durable: bool = True) -> bool:
        """Write a document's file; return whether it is as its newest version.

        It is not where somebody changed it, or it cannot be written: then it is tried again.

        Args:
            is_durable: sync it, because the journal alone cannot restore it after a power cut.
        """
        path = self._in_use.path_of(document.file)
        is_text = document.is_there and not is_json(document.file)
        rendered: bytes | None = None
        try:
            if is_text and document.rendered is not None and document.text.startswith(document.rendered):
                document.lacking = len(document.text) - len(document.rendered)
                document.rendered = None
            if self._in_use.is_disturbed(document):
                is_done = False
            elif is_text and document.left and document.rendered is None:  # a note costs the same in a large file
                is_done = self._append(document, path)
            else:
                data = self._in_use.as_file(document)
                rendered = None if data == bytes(document.text) else data
                is_done = self._replace(document, path, data, is_durable=is_durable)
        except (WorldFailed, OSError) as error:
            self._in_use.failed(document.file, error)
            return False
        if not is_done:
            self._in_use.touch(document.file)
            return False
        self._in_use.caught_up(document.file)
        document.is_rendered_as(rendered, document.left)
        document.pending_seq, document.is_checked = 0, is_json(document.file)
        self._in_use.unsynced.add(path)
        return True

    def _append(self, document: Document, path: Path) -> bool:
        """Append what it lacks to a file that is as the host left it. Raises WorldFailed."""
        added = bytes(document.text[len(document.text) - document.lacking :])
        if not added:
            return True
        with closing_fd(open_to_append(path)) as fd:
            status = os.fstat(fd)
            if Signature.of(status) != document.left:
                return False
            append(fd, added)
            left = Signature.of(os.fstat(fd))
        if left.size != status.st_size + len(added) or signature_of(path) != left:
            left = NEVER_SEEN  # somebody wrote to it just now
            self._in_use.touch(document.file)
        document.left = left
        return True

    def _create(self, document: Document, path: Path, data: bytes, *, is_durable: bool) -> bool:
        """Make the file of a document, unless somebody has just made it. Raises WorldFailed, OSError."""
        if not path.parent.exists():
            make_room(path)
            self._in_use.unsynced.add_folders(path)
        temporary = write_beside(path, data, mode=FILE_MODE, is_durable=is_durable)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            os.rename(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        document.left = signature_of(path)
        self._in_use.unsynced.add(path.parent)
        return True

    def _replace(self, document: Document, path: Path, data: bytes, *, is_durable: bool) -> bool:
        """Give a file the newest text by rename, or remove it. Raises WorldFailed, OSError."""
        if document.left is None:
            return not document.is_there or self._create(document, path, data, is_durable=is_durable)
        if document.is_there and data == document.on_disk:
            return True
        if self.is_recent(document.left) and is_open_for_writing(path):
            return False
        try:
            fd, status = open_plain(path)
        except (FileNotFoundError, NotRegular):
            return False
        temporary = None
        try:
            if document.is_there:
                mode = stat.S_IMODE(status.st_mode) & 0o777
                temporary = write_beside(path, data, mode=mode, is_durable=is_durable)
            with alone_with(fd) as is_alone:
                if signature_of(path) != document.left or Signature.of(os.fstat(fd)) != document.left:
                    return False
                if temporary is None:
                    os.unlink(path)
                else:
                    os.rename(temporary, path)
            document.left = signature_of(path)
            if is_durable:
                sync_folder(path.parent)
            else:
                self._in_use.unsynced.add(path.parent)
            if not is_alone:
                self._replaced.append(_Replaced(document.file, os.dup(fd), document.on_disk))
        finally:
            os.close(fd)
            if temporary is not None:
                temporary.unlink(missing_ok=True)
        return True

    # -------------------------------------------------------------------------------------------------- looking again

    def check_written(self, file: str) -> None:
        """Write pending changes of a file, or compare it with its text: a save within a tick of the clock leaves no
        other sign.
        """
        in_use = self._in_use
        with in_use.lock, contextlib.suppress(WorldFailed):
            document = in_use.load(file)
            path = self._in_use.path_of(file)
            left = document.left
            if signature_of(path) != left:
                in_use.touch(file)
                return
            if document.pending_seq:
                if self.render(document):
                    self._in_use.changed(file)
                return
            if left is None or document.is_checked or is_young(left, int(self._in_use.wall() * 1e9)):
                return
            if read_whole(path) != bytes(document.text) and signature_of(path) == left:
                document.left = NEVER_SEEN
                in_use.touch(file)
            document.is_checked = True

    def look_at_replaced(self) -> None:
        """Take in what a program saved into the file that a rename replaced: it had opened it just before."""
        for one in [*self._replaced]:
            if has_writer(one.fd):
                continue
            text = read_all(one.fd, len(one.held))
            os.close(one.fd)
            self._replaced.remove(one)
            with self._in_use.lock:
                document = self._in_use.load(one.file)
                target = self._in_use.path_of(one.file)
                if text != one.held and signature_of(target) == document.left and not document.pending_seq:
                    newest = bytes(document.text)
                    base, mine = (self._in_use.as_version(one.file, data, newest) for data in (one.held, text))
                    merged = merged_as(one.file, base, newest, mine)
                    os.rename(write_beside(target, merged, mode=FILE_MODE), target)
                    log.info("projection.kept", file=one.file, why="somebody saved it meanwhile")
                    self._in_use.touch(one.file)

    # ------------------------------------------------------------------------------------------------------- recovery

    def recover(self, file: str, rows: Sequence[Row]) -> None:
        """Bring a file up to date with changes that may not be in it.

        Args:
            rows: oldest first, the newest of the file.
        """
        path = self._in_use.path_of(file)
        with self._in_use.lock:
            try:
                document = self._in_use.load(file)
                signature, held = signature_of(path), read_whole(path)
            except WorldFailed as error:
                self._in_use.failed(file, error)
                return
            if held == document.newest:
                document.is_rendered_as(None, signature)
                document.pending_seq = 0
                return
            document.pending_seq = document.pending_seq or rows[0].seq
            if document.rendered is not None and (signature, held) == (document.left, document.rendered):
                self.render(document)
                return
            is_ours = document.seq == rows[-1].seq and _is_unfinished(held, bytes(document.text), rows)
            if is_ours and not is_open_for_writing(path):  # else a person saves it in place, it is no power cut
                document.is_rendered_as(held or b"", signature)
                self.render(document)
            else:
                document.left = NEVER_SEEN
                self._in_use.touch(file)


def _is_unfinished(data: bytes | None, newest: bytes, rows: Sequence[Row]) -> bool:
    """Return whether a file equals a version since `rows` began, or the beginning of one being written."""
    whole = [row for row in rows if not is_append(row)]
    held = data or b""
    if fingerprint(data) in [row.offset for row in whole]:
        return True  # it was not replaced yet
    if data is not None and any(row.data.startswith(held.rstrip(b"\0")) for row in whole if row.kind in WHOLE_KINDS):
        return True
    for version, run, _ in versions_back(newest, rows):
        start = len(version) - sum(len(row.data) for row in run)
        if len(held) <= len(version) and held[:start] == version[:start]:
            wrong = (has for has, needs in zip(held[start:], version[start:], strict=False) if has != needs)
            if not any(wrong):  # nothing is, or only zeros, which a file system puts for what it lost
                return True
    return False
