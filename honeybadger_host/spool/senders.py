"""The senders of closed mode: `config/senders.json`, `{"<group>/<sender>": {"uid": 1001}}`, which operators write."""

import contextlib
import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import orjson

from honeybadger_agent.mailbox import FOLDERS, NAME, Mailbox
from honeybadger_agent.sender_tokens import check_holder
from honeybadger_host.errors import HomeError, SettingsError
from honeybadger_host.files.file_cache import signature_of
from honeybadger_host.files.safe_files import make_folders, open_folder, replace
from honeybadger_host.memory.edited import read_json

SENDERS_FILE = "config/senders.json"


def load_senders(home: Path) -> dict[tuple[str, str], int | None]:
    """Return (group, sender) -> uid, None where any owner will do; empty without the file. Raises SettingsError."""
    path = home / SENDERS_FILE
    try:
        tree = read_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{path}: {error}; mend it, or remove it and name each with `honeybadger-host sender add`"
        ) from None
    senders: dict[tuple[str, str], int | None] = {}
    for name, value in tree.items():
        group, _, sender = name.partition("/")
        uid = value.get("uid") if isinstance(value, dict) else value
        if not (NAME.fullmatch(group) and NAME.fullmatch(sender)) or not (uid is None or type(uid) is int):
            raise SettingsError(f'{path}: {name!r} must be <group>/<sender>: {{"uid": number or null}}')
        senders[group, sender] = uid
    return senders


def add_sender(home: Path, group: str, sender: str, uid: int | None) -> Path:
    """Make a sender's folders, owned by `uid` (0700), below folders of the host's, and enter it in the file.

    With another user's `uid` all users may pass through the home and the folders above, without seeing their content.
    Folders that a sender of open mode made are taken over; a link among them is refused.

    Returns: the sender's folder.
    Raises BadName; OSError; HomeError: the folders cannot be given to `uid` (that needs root).
    """
    check_holder(home, group, sender)
    mailbox, senders = Mailbox.of(home, group, sender), load_senders(home)
    try:
        make_folders(mailbox.root)
        host_uid = os.stat(home / "data").st_uid
        if uid is not None and uid != os.geteuid():
            mode = stat.S_IMODE(os.stat(home).st_mode)
            if mode & 0o011 != 0o011:
                os.chmod(home, mode | 0o011)  # noqa: S103  passing through shows nothing
            for folder in (home / "data", home / "data" / "ipc", mailbox.root.parent, mailbox.root):
                _hand_over(folder, host_uid, 0o711)  # its owner must get through; what lies there stays hidden
        for name in FOLDERS:
            folder = mailbox.root / name
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            _hand_over(folder, uid, 0o700)
        senders[group, sender] = uid
        tree = {f"{key[0]}/{key[1]}": {"uid": value} for key, value in sorted(senders.items())}
        make_folders((home / SENDERS_FILE).parent)
        replace(home / SENDERS_FILE, orjson.dumps(tree, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        if os.geteuid() == 0:
            os.chown(home / SENDERS_FILE, host_uid, -1, follow_symlinks=False)  # the host must read it
    except PermissionError as error:
        raise HomeError(f"cannot make {error.filename} for uid {uid}: {error.strerror}; run it as root") from None
    return mailbox.root


def _hand_over(folder: Path, uid: int | None, mode: int) -> None:
    """Set mode and owner of a folder that is not a link (a link would give away what it points to). Raises OSError."""
    try:
        fd = open_folder(folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise OSError(error.errno, "it is a link, or not a folder: remove it", str(folder)) from None
        raise
    try:
        if os.fstat(fd).st_uid == os.geteuid() or os.geteuid() == 0:
            os.fchmod(fd, mode)
        if uid is not None and os.fstat(fd).st_uid != uid:
            os.fchown(fd, uid, -1)
    except PermissionError as error:
        raise PermissionError(error.errno, error.strerror, str(folder)) from None
    finally:
        os.close(fd)


class SenderList:
    """The senders, read again when the file changed.

    Attributes:
        current: the content of the file when it was last valid.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.current: Mapping[tuple[str, str], int | None] = load_senders(home)
        self._stamp = signature_of(home / SENDERS_FILE)

    def refresh(self) -> bool:
        """Read the file again if it changed; return whether it did. Raises SettingsError if the old list stays."""
        stamp = signature_of(self._home / SENDERS_FILE)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self.current = load_senders(self._home)
        return True
