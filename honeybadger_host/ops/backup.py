"""Back up a home into one archive, while a host may serve it.

The order makes it consistent (docs/decisions/011-backup.md): waiting requests are copied first, the files next, the
journal last. In the copied journal, the marks of written files are those from before the first file was read.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Final

import orjson

from honeybadger_agent.mailbox import FOLDERS, NAME, REPLIES, TMP
from honeybadger_host import __version__
from honeybadger_host.errors import HomeError, HostError, JournalError
from honeybadger_host.files.home import JOURNAL_FILE, read_holder
from honeybadger_host.files.safe_files import NotRegular, closing_fd, kind_of, open_folder, open_plain, printable
from honeybadger_host.journal.opening import BEFORE, copy_journal, read_position
from honeybadger_host.journal.schema import Marks
from honeybadger_host.ops.archive import (
    FORMAT,
    MANIFEST,
    MAX_DEPTH,
    NOT_COPIED,
    PARTS,
    Manifest,
    Place,
    StoredFile,
    StoredJournal,
    appearing,
    packing,
)
from honeybadger_host.spool.rate_limits import MAX_REQUEST_BYTES
from honeybadger_host.text.time_stamps import time_stamp

_IPC: Final = "data/ipc"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # for folders that may be links


def back_up(home: Path, target: Path, *, now: datetime) -> tuple[Manifest, list[str]]:
    """Pack a home into a new file (0600). On an error there is no file.

    Every request that was sent before the call is in it: done, waiting, or as a dead letter.

    Returns:
        Its manifest, and the files that were left out, each with the reason.
    Raises:
        HomeError: it is not a home.
        JournalError: the journal is missing or damaged.
        HostError: something cannot be read, or the archive cannot be written.
    """
    if not any((home / part).is_dir() for part in PARTS):
        raise HomeError(f"{home} is not a Honeybadger home: choose another with --home")
    for part in PARTS:
        if target.resolve().is_relative_to((home / part).resolve()):
            raise HostError(f"{target} would lie in what it is a backup of: choose a place outside of {part}/")
    has_journal = (home / JOURNAL_FILE).exists()
    if not has_journal and read_holder(home).journal is not None:
        raise JournalError(
            f"{home / JOURNAL_FILE} is missing, but this home had one: a backup without it would be useless"
        )
    marks = read_position(home / JOURNAL_FILE).marks if has_journal else Marks(0, {})  # before the first file is read
    with appearing(target, "backup") as archive, packing(archive) as tar:
        packer = _Packer(tar, archive.parent)
        packer.add_home(home)
        journal = None
        if has_journal:
            copy = archive.with_name("journal.db")
            held = copy_journal(home / JOURNAL_FILE, copy, marks=marks)
            journal = StoredJournal(identity=held.identity, seq=held.committed_seq)
            with closing_fd(open_plain(copy)[0]) as fd:
                packer.add_bytes_of(fd, JOURNAL_FILE, (home / JOURNAL_FILE).stat())
        manifest = Manifest(
            format=FORMAT,
            version=__version__,
            made_at=time_stamp(now),
            home=_place(".", home.stat()),
            journal=journal,
            folders=tuple(packer.folders),
            files=tuple(packer.files),
        )
        data = orjson.dumps(manifest.model_dump(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        packer.put(Place(name=MANIFEST, mode=0o600, uid=0, gid=0), 0, len(data), io.BytesIO(data))
    return manifest, packer.left_out


class _Unreadable(HostError):
    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(f"cannot read {name}: {error.strerror}; there is no backup without it")


@dataclass(slots=True)
class _Packer:
    """Packs files and lists them for the manifest.

    Args:
        scratch: folder for temporary files.
    """

    tar: tarfile.TarFile
    scratch: Path
    folders: list[Place] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add_home(self, home: Path) -> None:
        """Add Honeybadger's files of a home, except for the journal."""
        with closing_fd(os.open(home, _FOLDER)) as parent:
            for part in PARTS:
                self._add(part, part, parent)

    def _add_folder(self, name: str, fd: int) -> None:
        status = os.fstat(fd)
        self.folders.append(_place(name, status))
        self.put(self.folders[-1], status.st_mtime)
        if name.count("/") >= MAX_DEPTH:
            self.left_out.append(f"{name}/*: too deep")
            return
        for entry in sorted(os.listdir(fd), key=lambda entry: (f"{name}/{entry}" != _IPC, entry)):
            child = f"{name}/{entry}"
            is_temporary = entry.startswith(".") and entry.endswith(".tmp")
            is_earlier = child.startswith(f"{JOURNAL_FILE}{BEFORE}")
            if child not in NOT_COPIED and not is_temporary and not is_earlier and _is_used(child):
                self._add(child, entry, fd)

    def _add(self, name: str, entry: str, folder: int) -> None:
        """Add a member of a folder. An unreadable file of an inbox is left out: no agent can stop a backup."""
        try:
            name.encode()
            may_be_link = name in PARTS or (name.startswith("groups/") and name.count("/") == 1)  # decision 025
            mode = os.stat(entry, dir_fd=folder, follow_symlinks=may_be_link).st_mode
            if stat.S_ISDIR(mode):
                fd = os.open(entry, _FOLDER, dir_fd=folder) if may_be_link else open_folder(entry, within=folder)
            elif stat.S_ISREG(mode):
                fd, status = open_plain(entry, within=folder)
            else:
                self.left_out.append(f"{printable(name)}: {kind_of(mode)}")
                return
        except UnicodeEncodeError:
            self.left_out.append(f"{printable(name)}: its name is not UTF-8")
            return
        except FileNotFoundError:
            return  # a request that was served meanwhile is in the journal
        except NotRegular as error:
            self.left_out.append(f"{printable(name)}: {error}")
            return
        except OSError as error:
            if not name.startswith(f"{_IPC}/"):
                raise _Unreadable(name, error) from None
            self.left_out.append(f"{printable(name)}: {error.strerror}")
            return
        with closing_fd(fd):
            if stat.S_ISDIR(mode):
                self._add_folder(name, fd)
            elif name.startswith(f"{_IPC}/") and status.st_size > MAX_REQUEST_BYTES:
                self.left_out.append(f"{printable(name)}: too large for a request")
            else:
                self.add_bytes_of(fd, name, status)

    def add_bytes_of(self, fd: int, name: str, status: os.stat_result) -> None:
        """Add the bytes of an open file, up to its size at the beginning: it may be growing."""
        digest = hashlib.sha256()
        with tempfile.TemporaryFile(dir=self.scratch) as spooled:
            left = os.fstat(fd).st_size
            while left > 0:
                try:
                    data = os.read(fd, min(left, 1 << 20))
                except OSError as error:
                    raise _Unreadable(name, error) from None
                if not data:
                    break  # it was truncated meanwhile
                digest.update(data)
                spooled.write(data)
                left -= len(data)
            size = spooled.tell()
            spooled.seek(0)
            place = _place(name, status)
            self.put(place, status.st_mtime, size, spooled)
        self.files.append(
            StoredFile(**place.model_dump(), size=size, sha256=digest.hexdigest(), mtime_ns=status.st_mtime_ns)
        )

    def put(self, place: Place, mtime: float, size: int = 0, content: IO[bytes] | None = None) -> None:
        info = tarfile.TarInfo(place.name)
        info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
        info.size, info.mode, info.uid, info.gid, info.mtime = size, place.mode, place.uid, place.gid, int(mtime)
        self.tar.addfile(info, content)


def _is_used(name: str) -> bool:
    """Return whether to pack a file: every one outside the inboxes; there only requests and turns.

    A repeated request gets its reply again from the journal, and files in `tmp/` were never sent.
    """
    match name.split("/")[2:] if name.startswith(f"{_IPC}/") else []:
        case [_, _, folder]:
            return folder in FOLDERS
        case [_, _, folder, entry]:
            return folder not in (REPLIES, TMP) and entry.endswith(".json") and not entry.startswith(".")
        case [_, _, _, _, *_]:
            return False
        case names:
            return all(map(NAME.fullmatch, names))


def _place(name: str, status: os.stat_result) -> Place:
    return Place(name=name, mode=stat.S_IMODE(status.st_mode) & 0o777, uid=status.st_uid, gid=status.st_gid)
