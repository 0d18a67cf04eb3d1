"""All inboxes: found, listed fairly, their requests handed out in turn.

The listing is the truth: what is in an inbox and was not taken is a request.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import math
import operator
import os
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog

from honeybadger_agent.mailbox import NAME, OPERATOR
from honeybadger_host.spool.fairness import Fairness
from honeybadger_host.spool.inbox import Inbox, OpenInbox, open_box, turns_queue
from honeybadger_host.spool.listing import Listing, names_of, requests_of
from honeybadger_host.spool.rate_limits import Shares
from honeybadger_host.storage.file_cache import Unchanged
from honeybadger_host.storage.files import closing_fd, identity_of, open_folder

log = structlog.get_logger()

# Names of one listing, 90 bytes each; what a folder has beyond them is found by the next one.
_MAX_LISTED: Final = 262_144
# Names read, or put into the queue, between two slices: 4 ms, where a folder of 100,000 takes 400 ms as a whole.
_LISTED_AT_ONCE: Final = 1024
_LISTED_BESIDE: Final = 256  # the same limit while quiet senders come and go
_LONG_QUEUE: Final = 256  # an inbox with more names waiting is not listed again before they are served
_MAX_EXPECTED: Final = 8  # inboxes that are looked into before each batch of a flood: 15 us each
_MAX_OPEN: Final = 128  # inboxes of one batch: two descriptors each, and 1024 are all a process may have by default
_NO_LIMITS: Final = Shares()


class Spool:
    """All inboxes. Listing and taking belong to one thread at a time.

    Args:
        ipc: the folder `data/ipc`.
        senders: in closed mode (group, sender) -> uid or None for those that are served; None: open mode.
        agents: ids of the agents the host speaks as: in closed mode, too, it serves its own inboxes for them.
        shares: what may wait in an inbox.
    """

    def __init__(
        self,
        ipc: Path,
        *,
        senders: Mapping[tuple[str, str], int | None] | None,
        agents: Callable[[], Container[str]] = tuple,
        shares: Shares = _NO_LIMITS,
    ) -> None:
        self.shares = shares
        self._ipc = str(ipc)
        self.senders = senders
        self._agents = agents
        self.listen: Callable[[str], None] = lambda folder: None
        """Called with a folder before a look into it: the next arrival is worth an event again."""
        self.inboxes: dict[str, Inbox] = {}
        self._queues: dict[str, list[tuple[str, Inbox]]] = {}
        self._long: dict[Inbox, None] = {}
        """Inboxes with a `listing`, the one whose turn it is first."""
        self.fairness = Fairness()
        self._few_lately: dict[Inbox, None] = {}
        self._ignored: set[str] = set()
        self._seen: Sequence[object] = ()
        self._listings: dict[str, tuple[Unchanged, Sequence[str]]] = {}

    @property
    def pending(self) -> int:
        """Requests listed and not taken. Any thread."""
        queued = sum(len(queue) for queue in list(self._queues.values()))
        return queued + sum(inbox.pending - len(inbox.queued) for inbox in list(self._long))

    @property
    def queues(self) -> set[str]:
        """The names of all queues; see `Inbox.queue`."""
        return {*self._queues}

    def has_turn(self, group: str) -> bool:
        return bool(self._queues.get(turns_queue(group)))

    def distrust(self) -> None:
        """Forget which folders did not change: a file system may be wrong about its time stamps."""
        for unchanged, _ in self._listings.values():
            unchanged.forget()
        for inbox in self.inboxes.values():
            for one in inbox.both:
                one.empty.forget()

    def discover(self) -> None:
        """Find new inboxes and forget removed ones."""
        groups = self._names_in(self._ipc)
        listings = [self._names_in(f"{self._ipc}/{group}") for group in groups]
        agents = self._agents()
        seen = [groups, *listings, self.senders, agents]
        if len(seen) == len(self._seen) and all(map(operator.is_, seen, self._seen)):
            return  # the same lists as last time
        self._seen = seen
        found: dict[str, tuple[str, str]] = {}
        for group, senders in zip(groups, listings, strict=True):
            for sender in senders:
                if self.senders is not None and not self._is_known(group, sender, agents):
                    self._ignore(f"{group}/{sender}", "the host runs closed and does not know this sender")
                    continue
                found[f"{self._ipc}/{group}/{sender}"] = (group, sender)
        for path in [path for path in self.inboxes if path not in found]:
            for inbox in self.inboxes.pop(path).both:
                self._long.pop(inbox, None)
                if inbox.queued:
                    self._queues[inbox.queue] = [item for item in self._queues[inbox.queue] if item[1] is not inbox]
        for path, (group, sender) in found.items():
            if sender == OPERATOR:
                uid: int | None = os.geteuid()  # in both modes: nobody else is the operator
            else:
                uid = None if self.senders is None else self.senders.get((group, sender), os.geteuid())
            if path not in self.inboxes:
                self.inboxes[path] = Inbox(group, sender, path, uid)
                log.info("inbox.found", group=group, sender=sender)
            for inbox in self.inboxes[path].both:
                inbox.uid = uid

    def _is_known(self, group: str, sender: str, agents: Container[str]) -> bool:
        """Return whether a sender is served in closed mode."""
        return sender == OPERATOR or (group, sender) in (self.senders or ()) or sender in agents

    def scan(self, inbox: Inbox, now: float) -> bool:
        """List an inbox and queue what is new, in the order of names within its group; a long listing only begins.

        Returns False when it waits for what is queued, and is to be asked for again.
        """
        if len(inbox.queued) > _LONG_QUEUE or inbox.listing is not None:
            return False
        self.listen(inbox.requests)
        self._list(inbox, now)
        return True

    def _list(self, inbox: Inbox, now: float) -> None:
        if inbox.complaint is not None:
            with contextlib.suppress(OSError):
                open_box(inbox).close()
                inbox.complaint = None  # mended
        try:
            status = os.stat(inbox.requests, follow_symlinks=False)
            if inbox.empty.holds(status):
                return
            entries = names_of(inbox.requests)
            at_once = self._listed_at_once
            names = list(itertools.islice(entries, at_once))
        except FileNotFoundError:
            return
        except OSError as error:
            self.complain(inbox, f"{inbox.folder}/ is a link, or cannot be listed: {_what_now(error)}")
            return
        if len(names) < at_once and inbox.held.issuperset(names):
            inbox.empty.listed(status, now)
            return
        inbox.empty.forget()
        if inbox.stuck:
            self._look_at_stuck(inbox)
        if len(names) == at_once:
            names = requests_of(names)
            inbox.listing = Listing(entries, [names], len(names))
            self._long[inbox] = None
            return
        if inbox.waiting and (gone := inbox.waiting.keys() - set(names)):
            for name in gone:
                del inbox.waiting[name]
        names = requests_of(names)
        self._make_room(inbox, len(names))
        self._queue(inbox, names, now)

    def go_on(self, now: float) -> bool:
        """Read or queue a little more of one inbox with a long listing; return whether there was something to do."""
        for inbox in list(self._long):
            listing = inbox.listing
            assert listing is not None  # noqa: S101  that is what `_long` says
            if listing.entries is None and len(inbox.queued) > _LONG_QUEUE:
                continue
            del self._long[inbox]
            self._long[inbox] = None  # the others' turn
            if listing.entries is not None:
                self._read_on(inbox, listing, listing.entries)
            else:
                names = list(itertools.islice(listing.names, self._listed_at_once))
                listing.left -= len(names)
                if not names:
                    del self._long[inbox]
                    inbox.listing = None
                self._queue(inbox, names, now)
            return True
        return False

    @property
    def _listed_at_once(self) -> int:
        return _LISTED_BESIDE if self.fairness.expects_few else _LISTED_AT_ONCE

    def _read_on(self, inbox: Inbox, listing: Listing, entries: Iterator[str]) -> None:
        at_once = self._listed_at_once
        try:
            names = list(itertools.islice(entries, at_once))
        except OSError:
            names = []  # the next listing says what it is
        if found := requests_of(names):
            listing.runs.append(found)
            listing.left += len(found)
        if len(names) < at_once or listing.left >= _MAX_LISTED:
            listing.entries = None
            listing.names, listing.runs = heapq.merge(*listing.runs), []
            self._make_room(inbox, listing.left)

    def _make_room(self, inbox: Inbox, count: int) -> None:
        """Note how much of a listing of `count` requests may wait."""
        shares = self.shares
        inbox.room_files = (
            shares.pending_files - len(inbox.queued) - len(inbox.waiting) if shares.pending_files else math.inf
        )
        could_weigh = count * shares.request_bytes  # what is larger is refused anyway, and not counted
        inbox.room_bytes = shares.pending_bytes if 0 < shares.pending_bytes < could_weigh else math.inf

    def _queue(self, inbox: Inbox, names: Sequence[str], now: float) -> None:
        """Queue those names that are new. What is over the share of the inbox is queued to be refused."""
        fresh = [
            name
            for name in dict.fromkeys(names)  # tmpfs shows some twice when others come and go meanwhile (Linux 6.18)
            if name not in inbox.queued
            and name not in inbox.inflight
            and name not in inbox.stuck
            and (name not in inbox.waiting or inbox.waiting[name][1] <= now)
        ]
        if not fresh:
            return
        if inbox.room_files < len(fresh) or inbox.room_bytes < math.inf:
            for name, size in zip(fresh, self._sizes(inbox, fresh), strict=True):
                inbox.room_bytes -= size
                inbox.room_files -= 1
                if inbox.room_files < 0 or inbox.room_bytes < 0:
                    inbox.over.add(name)
        else:
            inbox.room_files -= len(fresh)
        inbox.queued.update(fresh)
        queue = self._queues.setdefault(inbox.queue, [])
        queue += [(name, inbox) for name in fresh]
        queue.sort(key=operator.itemgetter(0), reverse=True)  # by name; the next one is the last

    def _remember_few(self, groups: Iterable[str]) -> None:
        for group in groups:
            for _, inbox in self._queues[group]:
                front = inbox.front or inbox
                self._few_lately.pop(front, None)
                self._few_lately[front] = None
        while len(self._few_lately) > _MAX_EXPECTED:
            del self._few_lately[next(iter(self._few_lately))]

    @property
    def expected(self) -> list[Inbox]:
        """Inboxes that have few requests and had one lately, while others flood: worth a look before each batch.

        Their events come late when all cores are busy: the thread that reads them waits for one, and for Python's lock.
        """
        if not self.fairness.expects_few:
            return []
        return [inbox for inbox in self._few_lately if self.inboxes.get(inbox.path) is inbox]

    def _sizes(self, inbox: Inbox, names: Sequence[str]) -> Iterator[int]:
        """Return what each of these requests counts against the bytes that may wait; 0 where that cannot be reached."""
        if inbox.room_bytes == math.inf:
            yield from itertools.repeat(0, len(names))
            return
        try:
            folder = open_folder(inbox.requests)
        except OSError:
            yield from itertools.repeat(0, len(names))  # whoever takes them finds out
            return
        with closing_fd(folder):
            for name in names:
                try:
                    size = os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
                except OSError:
                    size = 0
                yield size if size <= self.shares.request_bytes else 0  # else it is refused anyway

    def take(self, most: int, *, except_groups: Collection[str] = (), most_turns: int = 0) -> list[tuple[str, Inbox]]:
        """Take up to `most` requests, every group that waits getting its turn; in order within a group.

        Args:
            except_groups: queues that are passed over; see `Inbox.queue`.
            most_turns: how many turns may be among them, one of a group.
        """
        waiting = {name: len(queue) for name, queue in self._queues.items() if queue and name not in except_groups}
        taken: list[tuple[str, Inbox]] = []
        inboxes: set[Inbox] = set()
        portions = self.fairness.portions(waiting, most, most_turns)
        self._remember_few(self.fairness.few)
        for name, count in portions:
            queue = self._queues[name]
            for _ in range(count):
                inboxes.add(queue[-1][1])
                if len(inboxes) > _MAX_OPEN:
                    return taken
                request, inbox = queue.pop()
                inbox.queued.discard(request)
                inbox.inflight.add(request)
                taken.append((request, inbox))
        return taken

    def open(self, inbox: Inbox) -> OpenInbox | None:
        """Open the folders of an inbox, making `replies/` when missing; None (said once) when that is impossible."""
        try:
            opened = open_box(inbox)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.complain(inbox, f"{inbox.folder}/ or replies/ is a link, or not ours to open: {_what_now(error)}")
            return None
        inbox.complaint = None
        return opened

    def complain(self, inbox: Inbox, why: str) -> None:
        """Say once why an inbox is not served."""
        if inbox.complaint != why:
            inbox.complaint = why
            log.error("inbox.refused", group=inbox.group, sender=inbox.sender, why=why)

    def retry_stuck(self) -> None:
        """Try again to remove what could not be removed."""
        for inbox in [one for found in list(self.inboxes.values()) for one in found.both]:
            if inbox.stuck and (opened := self.open(inbox)) is not None:
                self._look_at_stuck(inbox)
                with contextlib.closing(opened):
                    for name in list(inbox.stuck):
                        opened.remove(name)

    @staticmethod
    def _look_at_stuck(inbox: Inbox) -> None:
        """Forget what went, or gave its name to another file: that one is a request."""
        for name, identity in list(inbox.stuck.items()):
            if identity_of(f"{inbox.requests}/{name}") != identity:
                inbox.stuck.pop(name, None)

    def _names_in(self, folder: str) -> Sequence[str]:
        """Return the folders that may be groups or senders; listed again only when the folder changed."""
        now = time.monotonic()
        unchanged, names = self._listings.get(folder, (Unchanged(), ()))
        try:
            status = os.stat(folder)
            if unchanged.holds(status):
                return names
            with os.scandir(folder) as entries:
                listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            self._listings.pop(folder, None)
            return ()
        except OSError:  # too many open files, an I/O error: what was there will be there
            unchanged.forget()
            return names
        names = []
        for name, is_folder in listed:
            if is_folder and NAME.fullmatch(name):
                names.append(name)
            elif not name.startswith("."):
                self._ignore(f"{folder}/{name}", "not a folder, or not a name the protocol allows")
        unchanged.listed(status, now)
        known = self._listings.get(folder)
        if known is not None and known[1] == names:
            names = known[1]  # the same list while it says the same: see `discover`
        self._listings[folder] = (unchanged, names)
        return names

    def _ignore(self, what: str, why: str) -> None:
        if what not in self._ignored and len(self._ignored) < 1000:
            self._ignored.add(what)
            log.warning("inbox.ignored", what=ascii(what), why=why)


def _what_now(error: OSError) -> str:
    """Return what failed, and what to do where that is not about the inbox."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}; raise the limit of open files (LimitNOFILE=, ulimit -n), see doctor"
    return str(error.strerror)
