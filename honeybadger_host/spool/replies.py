"""Written replies that nobody collected, that are too many, or that a power cut tore.

A reply is renamed into place complete and is not synced (an fsync for each costs more than the whole path). After a
power cut its name may be there without its bytes, or with some of them. Whoever waits for it must not take that for an
answer.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import structlog

from honeybadger_agent.mailbox import REPLIES, TMP, TURNS
from honeybadger_host.files.safe_files import NotRegular, closing_fd, inside, open_plain
from honeybadger_host.journal.journal import Journal
from honeybadger_host.spool.inbox import STREAM, SUFFIX, Inbox
from honeybadger_host.spool.rate_limits import Shares
from honeybadger_host.spool.spool import Spool

log = structlog.get_logger()

TMP_KEPT_SECONDS: Final = 86_400.0
_AT_ONCE: Final = 512
_FUTURE_SECONDS: Final = 60.0  # the clocks of two machines on one file system may differ by less


class ReplyRetention:
    """The replies in all inboxes. Any thread.

    Args:
        shares: what a sender may leave lying.
        ttl_seconds: after which a reply that nobody took goes.
    """

    def __init__(self, spool: Spool, shares: Shares, *, ttl_seconds: float) -> None:
        self._spool = spool
        self._ttl_seconds = ttl_seconds
        self._most = shares.kept_replies or math.inf
        self._most_bytes = shares.kept_reply_bytes or math.inf
        self.trimmed = 0

    def mend(self, journal: Journal) -> None:
        """Look for torn replies in all inboxes, before they are served. What cannot be mended now stays as it is.

        One with a receipt is written again; another is removed: its request is met, or asked again.
        """
        self._spool.discover()
        given_again = removed = 0
        for inbox, names in self._torn():
            opened = self._spool.open(inbox)
            if opened is None:
                continue
            with contextlib.closing(opened):
                for start in range(0, len(names), _AT_ONCE):
                    some = names[start : start + _AT_ONCE]
                    done = journal.receipts_of(inbox.group, inbox.sender, [name.removesuffix(SUFFIX) for name in some])
                    for name in some:
                        with contextlib.suppress(OSError):
                            receipt = done.get(name.removesuffix(SUFFIX))
                            if receipt is not None:
                                opened.reply(name, receipt[1])
                                given_again += 1
                            else:
                                os.unlink(name, dir_fd=opened.replies_fd)
                                removed += 1
        if given_again or removed:
            log.warning("replies.mended", given_again=given_again, removed=removed)

    def expire(self, was_watched_for: Callable[[float], bool], now: float) -> int:
        """Remove uncollected replies and unfinished temporary files; return the number removed.

        Args:
            was_watched_for: whether nobody set the clock for that many seconds; else no file of that age expires.
            now: by the wall clock.
        """
        count = 0
        for inbox in list(self._spool.inboxes.values()):
            for name, seconds in ((REPLIES, self._ttl_seconds), (TMP, TMP_KEPT_SECONDS)):
                if not was_watched_for(seconds):
                    continue
                replies, their_bytes = inbox.replies, inbox.reply_bytes
                removed, kept, kept_bytes = _remove_older(inbox.path, name, now, seconds)
                count += removed
                if name == REPLIES:  # replies written meanwhile are counted twice: it is an upper bound
                    inbox.replies += kept - replies
                    inbox.reply_bytes += kept_bytes - their_bytes
        return count

    def is_too_full(self) -> bool:
        """Return whether a sender may keep more replies than its share. Any thread."""
        return any(
            inbox.replies > self._most or inbox.reply_bytes > self._most_bytes
            for inbox in list(self._spool.inboxes.values())
        )

    def trim(self) -> int:
        """Remove the oldest replies of senders who keep more than their share; return how many.

        A quarter of the share goes at once, so that a folder is not listed for every reply. What goes can be had again
        by asking again with the same request, as after `ipc.reply_ttl_seconds`.
        """
        count = 0
        most, most_bytes = self._most, self._most_bytes
        for inbox in list(self._spool.inboxes.values()):
            if inbox.replies <= most and inbox.reply_bytes <= most_bytes:
                continue
            replies, their_bytes = inbox.replies, inbox.reply_bytes
            removed, kept, kept_bytes = _remove_oldest(inbox.path, REPLIES, most, most_bytes)
            # what cannot be removed is not looked at again before as much as was to go has come
            inbox.replies += int(min(kept, most * 0.75)) - replies
            inbox.reply_bytes += int(min(kept_bytes, most_bytes * 0.75)) - their_bytes
            self.trimmed += removed
            count += removed
            if removed or kept > most or kept_bytes > most_bytes:
                log.warning("replies.trimmed", group=inbox.group, sender=inbox.sender, removed=removed, kept=kept)
        return count

    def _torn(self) -> Iterator[tuple[Inbox, list[str]]]:
        """Yield the inboxes that hold replies without their end, as a power cut leaves them, with the names of those.

        Counts the replies by the way: this is at the start.
        """
        for inbox in list(self._spool.inboxes.values()):
            names: list[str] = []
            inbox.replies = inbox.reply_bytes = 0
            with contextlib.suppress(OSError), inside(inbox.path, REPLIES) as fd, os.scandir(fd) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX) and entry.name[0] != ".":
                        status = entry.stat(follow_symlinks=False)
                        inbox.replies += 1
                        inbox.reply_bytes += status.st_size
                        if stat.S_ISREG(status.st_mode) and not _has_end(fd, entry.name, status.st_size):
                            names.append(entry.name)
            if names:
                yield inbox, names


def _has_end(folder_fd: int, name: str, size: int) -> bool:
    """Return whether a file ends as JSON does. An unreadable file counts as whole: it is left to its owner."""
    if not size:
        return False
    try:
        fd, _ = open_plain(name, within=folder_fd)
    except (OSError, NotRegular):
        return True
    with closing_fd(fd):
        return os.pread(fd, 1, size - 1) in b"}\n"


class _Lying(NamedTuple):
    """A plain file in a sender's folder."""

    changed_ns: int
    name: str
    bytes: int


def _lying(fd: int, folder: str) -> list[_Lying]:
    """Return the plain files of a folder, but for the stream of a turn that is not answered: it says that it has begun.

    Args:
        folder: of the sender.
    """
    found: list[_Lying] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(STREAM) and os.path.lexists(f"{folder}/{TURNS}/{name.removesuffix(STREAM)}{SUFFIX}"):
                continue
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append(_Lying(status.st_mtime_ns, name, status.st_size))
    return found


def _remove_older(folder: str, name: str, now: float, seconds: float) -> tuple[int, int, int]:
    """Remove files of a sender's folder that are older than `seconds`.

    One from the future gets today's stamp: the clock was set back, and nobody knows how old it is. Returns how many
    went, how many stay, and their bytes.
    """
    count = kept = kept_bytes = 0
    with contextlib.suppress(OSError), inside(folder, name) as fd:
        for file in _lying(fd, folder):
            kept += 1
            kept_bytes += file.bytes
            with contextlib.suppress(OSError):
                if file.changed_ns < (now - seconds) * 1e9:
                    os.unlink(file.name, dir_fd=fd)
                    count += 1
                    kept -= 1
                    kept_bytes -= file.bytes
                elif file.changed_ns > (now + _FUTURE_SECONDS) * 1e9:
                    os.utime(file.name, (now, now), dir_fd=fd, follow_symlinks=False)
    return count, kept, kept_bytes


def _remove_oldest(folder: str, name: str, most: float, most_bytes: float) -> tuple[int, int, int]:
    """Remove the oldest files until three quarters are left, when there are more than `most` or their bytes.

    Returns how many went, how many stay, and their bytes.
    """
    count = kept = kept_bytes = 0
    with contextlib.suppress(OSError), inside(folder, name) as fd:
        found = sorted(file for file in _lying(fd, folder) if file.name[0] != ".")
        kept, kept_bytes = len(found), sum(file.bytes for file in found)
        if kept <= most and kept_bytes <= most_bytes:
            return 0, kept, kept_bytes
        for file in found:
            if kept <= most * 0.75 and kept_bytes <= most_bytes * 0.75:
                break
            with contextlib.suppress(FileNotFoundError):  # its sender took it
                os.unlink(file.name, dir_fd=fd)
                count += 1
            kept -= 1
            kept_bytes -= file.bytes
    return count, kept, kept_bytes
