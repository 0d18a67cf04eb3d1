"""A sender's folder on disk: what the host knows of it, and its files opened, answered and removed safely.

Nothing is claimed by renaming; a request file stays until its reply is written.
"""

import contextlib
import os
import threading
from dataclasses import dataclass, field

from honeybadger_agent.mailbox import REPLIES, REQUESTS, TURNS
from honeybadger_host.files.group_folders import Unchanged
from honeybadger_host.files.safe_files import Signature, closing_fd, open_folder, open_new
from honeybadger_host.log import log

SUFFIX = ".json"  # file name of a request, a reply or a dead letter
STREAM = ".stream"  # file name of a turn's answer while it is being written
TURNS_QUEUE = f"/{TURNS}"  # end of the name of a queue of turns; no group's name has a slash


def turns_queue(group: str) -> str:
    """Return the name of the queue of a group's turns; the queue of its requests has the group's name."""
    return group + TURNS_QUEUE


@dataclass(slots=True, eq=False)
class Inbox:
    """One sender's `requests/` or `turns/`, and what the host knows of the files in it.

    Args:
        uid: the owner its files must have, in closed mode and for the operator; None: any.
        queued: number of names listed and not taken yet.
        inflight: names taken and not removed yet.
        waiting: name -> (first seen, look again at), monotonic seconds: files to read again later, for example because
            they are still being written.
        stuck: names of files that are done and cannot be removed now.
        reply_fault: why the last reply could not be written; None: it was written.
        complaint: why the inbox is not served now; logged once.
        empty: holds while the folder is unchanged since a listing that found only names in `inflight`.
        over: names above the limit of pending requests: they are refused without being read.
        folder: the folder of its files: `requests` or `turns`.
        requests: path of that folder.
    """

    group: str
    sender: str
    path: str
    uid: int | None = None
    queued: int = 0
    inflight: set[str] = field(default_factory=set)
    waiting: dict[str, tuple[float, float]] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    reply_fault: str | None = None
    complaint: str | None = None
    empty: Unchanged = field(default_factory=Unchanged)
    over: set[str] = field(default_factory=set)
    folder: str = REQUESTS
    requests: str = field(init=False)

    def __post_init__(self) -> None:
        self.requests = f"{self.path}/{self.folder}"

    @property
    def is_turns(self) -> bool:
        return self.folder == TURNS

    @property
    def queue(self) -> str:
        """The queue its files wait in: the requests of a group, or its turns."""
        return turns_queue(self.group) if self.is_turns else self.group

    def release(self, name: str) -> None:
        """Forget a file that was taken: if it is still there, the next listing finds it. Any thread."""
        self.inflight.discard(name)
        self.empty.forget()

    def wait_for(self, name: str, first_seen: float, again_at: float) -> None:
        """Let a file be taken again later, not before `again_at` (monotonic seconds). Any thread."""
        self.waiting[name] = (first_seen, again_at)
        self.release(name)


@dataclass(slots=True, eq=False)
class OpenInbox:
    """Descriptors of an inbox's folders, none reached through a link; valid until closed."""

    inbox: Inbox
    requests_fd: int
    replies_fd: int

    def reply(self, name: str, data: bytes) -> None:
        """Write a reply under the request's name, complete or not at all. Raises OSError."""
        self.write(self.replies_fd, name, data)

    def write(self, folder_fd: int, name: str, data: bytes) -> None:
        """Write a file into one of the folders, complete or not at all. Raises OSError."""
        temporary = f".{threading.get_ident():x}.tmp"  # short: a rename costs more the longer the name is
        try:
            fd = open_new(temporary, within=folder_fd)
        except FileExistsError:
            os.unlink(temporary, dir_fd=folder_fd)
            fd = open_new(temporary, within=folder_fd)
        try:
            written = os.write(fd, data)
            _give(fd, self.inbox.uid)
        finally:
            os.close(fd)
        if written != len(data):
            os.unlink(temporary, dir_fd=folder_fd)
            raise OSError(28, "no space for the whole file")
        os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)

    def open_stream(self, stem: str) -> int:
        """Return a descriptor of a new `replies/<stem>.stream`; a file of that name is removed. Raises OSError."""
        name = f"{stem}{STREAM}"
        self.remove_reply(name)
        fd = open_new(name, within=self.replies_fd)
        _give(fd, self.inbox.uid)
        return fd

    def remove_reply(self, name: str) -> None:
        """Remove a reply, or the stream of a turn; if that fails, the expiry of replies removes it later."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self.replies_fd)

    def look(self, name: str) -> Signature | None:
        """Return the signature of the request file with this name, or None if there is none."""
        try:
            return Signature.of(os.stat(name, dir_fd=self.requests_fd, follow_symlinks=False))
        except OSError:
            return None

    def remove(self, name: str, seen: Signature | None = None) -> bool:
        """Remove a finished request; return whether it is gone. An empty folder in its place is removed, too.

        Args:
            seen: the answered file. Another file of this name stays: it is an unread request. (There is
                no call that compares and removes in one step; a file that arrives within microseconds is lost unread.)
        """
        try:
            if seen is not None:
                now = os.stat(name, dir_fd=self.requests_fd, follow_symlinks=False)
                if (now.st_ino, now.st_size, now.st_mtime_ns) != (seen.inode, seen.size, seen.mtime_ns):
                    return True  # the ctime is not compared: it also changes when another name of the file is removed
            try:
                os.unlink(name, dir_fd=self.requests_fd)
            except IsADirectoryError:
                os.rmdir(name, dir_fd=self.requests_fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            if name not in self.inbox.stuck:
                self.inbox.stuck.add(name)
                log.error(
                    "inbox.unlink_failed",
                    group=self.inbox.group,
                    sender=self.inbox.sender,
                    name=ascii(name),
                    error=error.strerror,
                    now_what="it is done and will not be done again; remove it by hand",
                )
            return False
        self.inbox.stuck.discard(name)
        return True

    def close(self) -> None:
        os.close(self.requests_fd)
        os.close(self.replies_fd)


def open_box(inbox: Inbox) -> OpenInbox:
    """Open the folders of an inbox, none of them through a link. Raises OSError."""
    with closing_fd(open_folder(inbox.path)) as folder:
        requests = open_folder(inbox.folder, within=folder)
        try:
            return OpenInbox(inbox, requests, _open_replies(folder, inbox.uid))
        except BaseException:
            os.close(requests)
            raise


def _open_replies(folder: int, uid: int | None) -> int:
    """Open the replies of an inbox; they are made if missing. Raises OSError."""
    try:
        return open_folder(REPLIES, within=folder)
    except FileNotFoundError:
        os.mkdir(REPLIES, 0o700, dir_fd=folder)
        replies = open_folder(REPLIES, within=folder)
        if uid is not None and uid != os.geteuid():
            with contextlib.suppress(PermissionError):  # see `_give`
                os.fchown(replies, uid, -1)
        return replies


def _give(fd: int, uid: int | None) -> None:
    """Let the owner of an inbox read a file that the host writes into it."""
    if uid is not None and uid != os.geteuid():
        try:
            os.fchown(fd, uid, -1)  # a host that serves other users' inboxes writes for them
        except PermissionError:
            os.fchmod(fd, 0o644)  # the host may not change the owner; the folder keeps all others out
