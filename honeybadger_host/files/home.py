"""The home folder: make one, check one, hold it; the paths of its groups."""

import contextlib
import errno
import os
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from shlex import quote

import orjson

from honeybadger_agent.mailbox import NAME
from honeybadger_host.configuration import CONFIG_FILE, render_toml
from honeybadger_host.errors import HomeError, HomeLocked, JournalError, StorageFailed, may_clear
from honeybadger_host.files.safe_files import is_locked, make_folders, try_lock
from honeybadger_host.text.json_values import object_in
from honeybadger_host.text.time_stamps import time_stamp

PERSONA = "CLAUDE.md"
MEMORY = "MEMORY.md"
SUMMARY = "summary.md"
HISTORY = "HISTORY.md"
ROOT_GLOBAL_FILE = "AGENT.md"
GLOBAL_GROUP_FILE = "groups/global/CLAUDE.md"
ARCHIVE = "archive/MEMORY.md"  # file for notes that leave MEMORY.md
MESSAGES_FOLDER = "data/messages"
GROUP_FILES = (PERSONA, MEMORY, SUMMARY)
AGENTS_FOLDER = "config/agents"
LOCK_FILE = "data/host.lock"
JOURNAL_FILE = "data/journal.db"
STATUS_FILE = "data/status.json"
CLOCK_GRACE_SECONDS = 60.0  # A clock may be behind the journal's last stamp by less: it was slewed
_MAX_PATH_BYTES = 470  # of a home: SQLite opens files of up to 504 bytes, such as `data/journal.db.before-11`
_LOCK_ATTEMPTS = 20  # `status` and `doctor` hold the lock for a moment, to see whether it is free: 10 ms each


def make_home(home: Path, group: str = "main", groups: Path | None = None) -> list[Path]:
    """Make what a home needs and is missing; return the files that were made. Nothing that exists is touched.

    Args:
        groups: where the groups' folders lie (AM4): an absolute path as it is, another one below the home.
            `groups/` becomes a link to it. None: in the home.
    Raises HomeError.
    """
    if not NAME.fullmatch(group):
        raise HomeError(f"group {group!r} is not a name: 1-64 characters of A-Z a-z 0-9 _ -")
    templates = resources.files("honeybadger_host") / "templates"
    files = {
        home / CONFIG_FILE: render_toml(),
        home / "groups" / group / "CLAUDE.md": templates.joinpath("CLAUDE.md").read_text(encoding="utf-8"),
    }
    made: list[Path] = []
    try:
        make_folders(home)
        if groups is not None:
            _link_groups(home, home.absolute() / groups)
        for folder in (home / "data" / "ipc", home / "groups" / group):
            make_folders(folder)
        for path, text in files.items():
            if not path.exists():
                make_folders(path.parent)
                path.write_text(text)
                path.chmod(0o600)
                made.append(path)
    except OSError as error:
        raise HomeError(f"cannot make {error.filename or home}: {error.strerror}") from error
    return made


def _link_groups(home: Path, target: Path) -> None:
    """Make `groups/` a link to a folder, which is made when missing. Raises HomeError, OSError."""
    link = home / "groups"
    if link.is_symlink() and os.path.realpath(link) == os.path.realpath(target):
        return
    if os.path.lexists(link):
        raise HomeError(
            f"{link} is there already: move what it holds to {target}, remove {link}, then run this command again"
        )
    make_folders(target)
    link.symlink_to(target, target_is_directory=True)


def check_home(home: Path, *, may_make: bool = True) -> None:
    """Make the folders that are missing; raise HomeError when a folder cannot be served; StorageFailed: not now.

    Args:
        may_make: False: nothing is made, and what is missing is looked at as if it could be.
    """
    if len(os.fsencode(home.absolute())) > _MAX_PATH_BYTES:
        raise HomeError(f"{home} is a path of more than {_MAX_PATH_BYTES} bytes: move the home to a shorter one")
    if not home.is_dir():
        raise HomeError(f"{home} is not a folder: make a home with `honeybadger-host init {quote(str(home))}`")
    if not (home / CONFIG_FILE).exists() and not os.path.lexists(home / "groups"):
        raise HomeError(
            f"{home} is not a Honeybadger home: {CONFIG_FILE} and groups/ are missing; choose another with --home, "
            f"or make it one with `honeybadger-host init {quote(str(home))}`"
        )
    for folder in (home / "data", home / "groups"):
        if folder.is_symlink() and not folder.exists():
            raise StorageFailed(f"{folder} is a link to {os.readlink(folder)}, which is not there: mount or make it")
    if may_make:
        try:
            for folder in (home / "data" / "ipc", home / "groups"):
                make_folders(folder)
        except OSError as error:
            raise _failed(f"make {error.filename}", error) from error
    for folder in (home / "data", home / "data" / "ipc", home / "groups"):
        if folder.exists() and not folder.is_dir():
            raise HomeError(f"{folder} is not a folder: move it away, or bring the folder back")
    for folder in (path if path.exists() else home for path in (home / "data", home / "groups")):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            raise StorageFailed(
                f"{folder} is on a file system that is mounted read-only: see why (`dmesg`), then remount it with rw"
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise HomeError(
                f"{folder} is not writable for uid {os.geteuid()}: run as its owner, or give it to this user"
            )


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that serves a home, from its lock file.

    Args:
        journal: identity of the journal this home had when it was last served.
    """

    pid: int | None
    started: str | None
    host: str | None
    journal: str | None

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.started}"


class HomeLock:
    """Held while a host serves the home. The kernel releases it when the process ends, so it is never stale."""

    def __init__(self, home: Path) -> None:
        """Take the lock. Raises HomeLocked, HomeError, StorageFailed."""
        path = home / LOCK_FILE
        try:
            for _ in range(_LOCK_ATTEMPTS):
                if (fd := try_lock(path)) is not None:
                    break
                time.sleep(0.01)
            self.previous = _holder(path.read_bytes())
        except OSError as error:
            raise _failed(f"lock {path}", error) from error
        if fd is None:
            raise HomeLocked(
                f"{home} is served by {self.previous}: use that one, stop it, or give this host another home"
            )
        self._fd = fd
        self._path = path

    def sign(self, journal: str) -> None:
        """Write who holds the lock, and which journal the home has. Raises StorageFailed, HomeError."""
        data = holder_bytes(journal, pid=os.getpid(), started=time_stamp(datetime.now(UTC)), host=socket.gethostname())
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, 0, len(data))  # a full disk must not leave it half overwritten
            if os.pwrite(self._fd, data, 0) != len(data):  # a full tmpfs says so
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.ftruncate(self._fd, len(data))
            os.fsync(self._fd)
        except OSError as error:
            raise _failed(f"sign {self._path}", error) from error

    def close(self) -> None:
        os.close(self._fd)


def _failed(what: str, error: OSError) -> HomeError | StorageFailed:
    """Return the error to raise; a transient fault is worth another start."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFailed(f"cannot {what}: {error.strerror}; free some space or inodes, then start again")
    if may_clear(error):
        return StorageFailed(f"cannot {what}: {error.strerror}; see `honeybadger-host doctor`")
    return HomeError(f"cannot {what}: {error.strerror}")


def holder_bytes(journal: str, *, pid: int | None = None, started: str | None = None, host: str | None = None) -> bytes:
    """Return the bytes of a lock file; without a process, those of a home with this journal that was never served."""
    holder = {"pid": pid, "started": started, "host": host, "journal": journal}
    return orjson.dumps(holder, option=orjson.OPT_APPEND_NEWLINE)


def read_holder(home: Path) -> Holder:
    """Return the content of the lock file, whether or not a process holds it now."""
    try:
        return _holder((home / LOCK_FILE).read_bytes())
    except OSError:
        return Holder(None, None, None, None)


def has_journal(home: Path) -> bool:
    """Return whether a home has a journal. Raises JournalError if it is missing and was there before."""
    if (home / JOURNAL_FILE).exists():
        return True
    if read_holder(home).journal is not None:
        raise JournalError(f"{home / JOURNAL_FILE} is missing, and this home had one: restore it from a backup")
    return False


def _holder(data: bytes) -> Holder:
    value = object_in(data) or {}
    return Holder(value.get("pid"), value.get("started"), value.get("host"), value.get("journal"))


def is_served(home: Path) -> bool:
    """Return whether a host serves this home now. Raises OSError."""
    return (home / LOCK_FILE).exists() and is_locked(home / LOCK_FILE)


def groups_in(home: Path) -> list[str]:
    """Return the groups that have a folder for people's files, in the order of names."""
    return named_folders(home / "groups")


def named_folders(folder: Path) -> list[str]:
    """Return the folders in a folder, or links to some, that are called as groups and senders may be, in order."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and NAME.fullmatch(entry.name))
    return []


def folders_of(group: str) -> dict[str, str]:
    """Return the folders of a group: what an export calls them -> below the home."""
    return {
        "group": f"groups/{group}",
        "sessions": f"data/sessions/{group}",
        "context": f"data/context/{group}",
        "working": f"data/working/{group}",
        "consolidated": f"data/consolidated/{group}",
    }


def single_files_of(group: str) -> dict[str, str]:
    """Return the group's files outside its folder: their path below the home, by their name in an export."""
    return {
        "tasks.jsonl": f"data/tasks/{group}.jsonl",
        "feedback.jsonl": f"data/feedback/{group}.jsonl",
        "messages.jsonl": f"{MESSAGES_FOLDER}/{group}.jsonl",
        "consolidated.json": f"data/consolidated/{group}.json",
        "consolidated.dream.json": f"data/consolidated/{group}.dream.json",
    }
