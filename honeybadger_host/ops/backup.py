"""Back up a home into one archive, while a host may serve it.

The order makes it consistent (docs/decisions/011-backup.md): waiting requests are copied first, the files next, the
journal last. In the copied journal, the marks of written files are those from before the first file was read.
"""

import io
import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, NamedTuple

from honeybadger_agent.mailbox import FOLDERS, NAME, REQUESTS, TURNS
from honeybadger_host import __version__
from honeybadger_host.errors import HomeError, HostError
from honeybadger_host.files.home import JOURNAL_FILE, has_journal
from honeybadger_host.files.safe_files import NotRegular, closing_fd, open_folder, open_plain, printable
from honeybadger_host.journal.opening import BEFORE, copy_journal, read_position
from honeybadger_host.journal.schema import Marks
from honeybadger_host.ops.archive import (
    FORMAT,
    MANIFEST,
    NOT_COPIED,
    PARTS,
    Manifest,
    Place,
    appearing,
    packing,
)
from honeybadger_host.spool.rate_limits import MAX_REQUEST_BYTES
from honeybadger_host.text.time_stamps import time_stamp

_IPC = "data/ipc"
# Of the inboxes, folders, requests and turns are packed: a repeated request gets its reply again from the journal, and
# files in `tmp/` were never sent.
_OF_INBOX = rf"{NAME.pattern}(/{NAME.pattern}(/({'|'.join(FOLDERS)}|({REQUESTS}|{TURNS})/[^./][^/]*\.json))?)?"
_NOT_PACKED = re.compile(  # nor are temporary files, and the journals of earlier versions
    rf".*/\.[^/]*\.tmp|{re.escape(JOURNAL_FILE + BEFORE)}.*|{_IPC}/(?!{_OF_INBOX}\Z).*",
    re.DOTALL,
)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # for folders that may be links


class Packed(NamedTuple):
    """The report of a backup.

    Args:
        files: how many are in it.
        seq: number of the last change in it; None: the home has no journal yet.
        left_out: the files that are not in it, each with the reason.
    """

    files: int
    seq: int | None
    left_out: Sequence[str]


def back_up(home: Path, target: Path, *, now: datetime) -> Packed:
    """Pack a home into a new file (0600). On an error there is no file.

    Every request that was sent before the call is in it: done, waiting, or as a dead letter.

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
    is_journaled = has_journal(home)
    marks = read_position(home / JOURNAL_FILE).marks if is_journaled else Marks(0, {})  # before the first file is read
    with appearing(target, "backup") as archive, packing(archive) as tar:
        packer = _Packer(tar, archive.parent)
        with closing_fd(os.open(home, _FOLDER)) as folder:
            for part in PARTS:
                packer.add(part, part, folder)
        seq = None
        if is_journaled:
            copy = archive.with_name("journal.db")
            seq = copy_journal(home / JOURNAL_FILE, copy, marks=marks).committed_seq
            with open(copy, "rb") as file:
                packer.add_file(file, JOURNAL_FILE, (home / JOURNAL_FILE).stat())
        status = home.stat()
        manifest = Manifest(
            format=FORMAT,
            version=__version__,
            made_at=time_stamp(now),
            home=Place(mode=stat.S_IMODE(status.st_mode) & 0o777, uid=status.st_uid, gid=status.st_gid),
        )
        info = tarfile.TarInfo(MANIFEST)
        data = manifest.model_dump_json(indent=2).encode()
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return Packed(packer.files, seq, packer.left_out)


class _Packer:
    """Packs files and folders.

    Args:
        scratch: folder for temporary files.
    """

    def __init__(self, tar: tarfile.TarFile, scratch: Path) -> None:
        self._tar, self._scratch = tar, scratch
        self.files = 0
        self.left_out: list[str] = []

    def add(self, name: str, entry: str, folder: int) -> None:
        """Add a member of a folder. An unreadable file of an inbox is left out: no agent can stop a backup."""
        may_be_link = name in PARTS or (name.startswith("groups/") and name.count("/") == 1)  # decision 025
        is_of_agent = name.startswith(f"{_IPC}/")
        try:
            if stat.S_ISDIR(os.stat(entry, dir_fd=folder, follow_symlinks=may_be_link).st_mode):
                fd = os.open(entry, _FOLDER, dir_fd=folder) if may_be_link else open_folder(entry, within=folder)
            else:
                fd, _ = open_plain(entry, within=folder)
        except FileNotFoundError:
            return  # a request that was served meanwhile is in the journal
        except OSError as error:
            if not (is_of_agent or isinstance(error, NotRegular)):
                raise HostError(f"cannot read {name}: {error.strerror}; there is no backup without it") from None
            self.left_out.append(f"{printable(name)}: {error.strerror or error}")
            return
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            with closing_fd(fd):
                self._tar.addfile(_member(name, status))
                for inner in sorted(os.listdir(fd), key=lambda inner: (f"{name}/{inner}" != _IPC, inner)):
                    child = f"{name}/{inner}"
                    if child not in NOT_COPIED and not _NOT_PACKED.fullmatch(child):
                        self.add(child, inner, fd)
            return
        with open(fd, "rb") as file:
            if is_of_agent and status.st_size > MAX_REQUEST_BYTES:
                self.left_out.append(f"{printable(name)}: too large for a request")
            else:
                self.add_file(file, name, status)

    def add_file(self, file: IO[bytes], name: str, status: os.stat_result) -> None:
        """Add a file, which may grow or shrink meanwhile."""
        member = _member(name, status)
        with tempfile.TemporaryFile(dir=self._scratch) as copy:
            shutil.copyfileobj(file, copy)
            member.size = copy.tell()
            copy.seek(0)
            self._tar.addfile(member, copy)
        self.files += 1


def _member(name: str, status: os.stat_result) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE if stat.S_ISDIR(status.st_mode) else tarfile.REGTYPE
    member.mode, member.mtime = stat.S_IMODE(status.st_mode) & 0o777, status.st_mtime
    member.uid, member.gid = status.st_uid, status.st_gid
    return member
