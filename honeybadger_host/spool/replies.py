"""Replies that nobody collected, that are too many, or that a power cut tore: they are removed.

A reply is renamed into place complete and is not synced (an fsync for each costs more than the whole path). After a
power cut its name may be there without its bytes, or with some of them, and its sender must not take that for an
answer.
"""

import contextlib
import math
import os
import stat
from collections.abc import Callable

from honeybadger_agent.mailbox import REPLIES, TMP, TURNS
from honeybadger_host.files.safe_files import closing_fd, open_folder, open_plain
from honeybadger_host.log import log
from honeybadger_host.spool import rate_limits
from honeybadger_host.spool.inbox import STREAM, SUFFIX, Inbox
from honeybadger_host.spool.spool import Spool


class ReplyRetention:
    """The replies in all inboxes. Any thread.

    Args:
        ttl_seconds: age at which a reply is removed, and a file in `tmp/` that its sender did not finish.
    """

    def __init__(self, spool: Spool, *, ttl_seconds: float) -> None:
        self._spool = spool
        self._ttl_seconds = ttl_seconds
        self.trimmed = 0

    def remove_torn(self) -> None:
        """Remove torn replies from all inboxes, before these are served; one that cannot be removed stays.

        The request of each is still in the inbox, or its sender repeats it and gets the reply again.
        """
        self._spool.discover()
        removed = 0
        for inbox in self._spool.senders_inboxes:
            if (opened := self._spool.open(inbox)) is None:
                continue
            with contextlib.closing(opened), contextlib.suppress(OSError):
                for name, status in _lying(opened.replies_fd, inbox.path):
                    is_reply = name.endswith(SUFFIX) and name[0] != "."
                    if is_reply and not _has_end(opened.replies_fd, name, status.st_size):
                        opened.remove_reply(name)
                        removed += 1
        if removed:
            log.warning("replies.mended", removed=removed)

    def expire(self, was_watched_for: Callable[[float], bool], now: float) -> int:
        """Remove uncollected replies and unfinished temporary files; return how many were too old.

        If a sender has more of either than its share, the oldest are removed, too. Asking again with the same request
        returns the reply again.

        Args:
            was_watched_for: whether the clock was not set during that many seconds; else no file of that age expires.
            now: by the wall clock.
        """
        count = 0
        seconds = self._ttl_seconds if was_watched_for(self._ttl_seconds) else math.inf
        for inbox in self._spool.senders_inboxes:
            for folder in (TMP, REPLIES):
                expired, trimmed = _remove(inbox, folder, now, seconds)
                count += expired
                self.trimmed += trimmed
                if trimmed:
                    log.warning("replies.trimmed", group=inbox.group, sender=inbox.sender, removed=trimmed)
        return count


def _has_end(folder_fd: int, name: str, size: int) -> bool:
    """Return whether a file ends as JSON does. An unreadable file counts as whole: it is left to its owner."""
    if not size:
        return False
    try:
        fd, _ = open_plain(name, within=folder_fd)
    except OSError:
        return True
    with closing_fd(fd):
        return os.pread(fd, 1, size - 1) in b"}\n"


def _lying(fd: int, folder: str) -> list[tuple[str, os.stat_result]]:
    """Return the plain files of a folder, without streams of unanswered turns: they show that the turn has begun.

    Args:
        folder: the sender's folder.
    """
    found: list[tuple[str, os.stat_result]] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(STREAM) and os.path.lexists(f"{folder}/{TURNS}/{name.removesuffix(STREAM)}{SUFFIX}"):
                continue
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append((name, status))
    return found


def _remove(inbox: Inbox, folder: str, now: float, seconds: float) -> tuple[int, int]:
    """Remove the files of a sender's folder that are older than `seconds`, and the oldest of too many.

    A file from the future gets the present time: the clock was set back, and the age of the file is unknown.

    Returns: how many were removed as too old, and how many as too many.
    """
    expired = trimmed = kept = kept_bytes = 0
    with (
        contextlib.suppress(OSError),
        closing_fd(open_folder(inbox.path)) as parent,
        closing_fd(open_folder(folder, within=parent)) as fd,
    ):
        for name, status in sorted(_lying(fd, inbox.path), key=lambda file: file[1].st_mtime_ns, reverse=True):
            is_old = status.st_mtime_ns < (now - seconds) * 1e9
            if not is_old:
                kept += 1
                kept_bytes += status.st_size
            is_too_many = kept > rate_limits.KEPT_REPLIES or kept_bytes > rate_limits.KEPT_REPLY_BYTES
            with contextlib.suppress(OSError):  # its sender took it
                if is_old or is_too_many:
                    os.unlink(name, dir_fd=fd)
                    expired += is_old
                    trimmed += not is_old
                elif status.st_mtime_ns > now * 1e9:
                    os.utime(name, (now, now), dir_fd=fd, follow_symlinks=False)
    return expired, trimmed
