"""All inboxes: found, listed, their requests handed out in turn.

The listing is the truth: each file in an inbox that was not taken is a request. An inbox is listed after an event, and
at a sweep; never while some requests of its last listing wait.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import operator
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import structlog

from honeybadger_agent.mailbox import NAME, OPERATOR, REQUESTS
from honeybadger_host.files.file_cache import Unchanged
from honeybadger_host.files.safe_files import closing_fd, open_folder
from honeybadger_host.spool import rate_limits
from honeybadger_host.spool.inbox import SUFFIX, TURNS_QUEUE, Inbox, OpenInbox, open_box, turns_queue

log = structlog.get_logger()

_LISTED_AT_ONCE: Final = 256  # names read between two batches: 0.5 ms, where a folder of 100,000 takes 200 ms


class Spool:
    """All inboxes. Listing and taking belong to one thread at a time.

    Args:
        ipc: the folder `data/ipc`.
        senders: in closed mode (group, sender) -> uid or None for those that are served; None: open mode.
        agents: ids of the agents the host speaks as: in closed mode, too, it serves its own inboxes for them.
    """

    def __init__(
        self,
        ipc: Path,
        *,
        senders: Mapping[tuple[str, str], int | None] | None,
        agents: Callable[[], Container[str]] = tuple,
    ) -> None:
        self._ipc = str(ipc)
        self.senders = senders
        self._agents = agents
        self.listen: Callable[[str], None] = lambda folder: None
        """Called with a folder before it is listed: the watcher reports the next arrival again."""
        self.inboxes: dict[str, Inbox] = {}
        self._folders: dict[str, Inbox] = {}
        """`requests/` and `turns/` of all senders."""
        self._marked: set[str] = set()
        self._is_everywhere = True
        self.looks = 0
        self.sweeps = 0
        self.sweep_cost = 0.0
        """Seconds of processor time that the last look into all inboxes took."""
        self._queues: defaultdict[str, list[tuple[str, str, Inbox]]] = defaultdict(list)
        """Queue -> heap of its inboxes with listed names: (first name, folder, inbox)."""
        self._order = RoundRobin()
        self._long: dict[Inbox, Iterator[str]] = {}
        """Inboxes with a listing in progress -> the names still to read; the next inbox first."""
        self._ignored: set[str] = set()
        self._seen: Sequence[object] = ()
        self._listings: dict[str, tuple[Unchanged, Sequence[str]]] = {}

    @property
    def pending(self) -> int:
        """Requests listed and not taken. Any thread."""
        return sum(len(inbox.names) for inbox in self._listed())

    @property
    def waiting_turns(self) -> int:
        """Turns listed and not taken. Any thread."""
        return sum(len(inbox.names) for inbox in self._listed() if inbox.queue.endswith(TURNS_QUEUE))

    def _listed(self) -> list[Inbox]:
        """Return the inboxes that have requests to take. Any thread."""
        return [inbox for heads in list(self._queues.values()) for _, _, inbox in list(heads)]

    @property
    def folders(self) -> list[str]:
        """The folders that are listed: `data/ipc`, its groups, and the `requests/` and `turns/` of all senders."""
        return [*self._listings, *self._folders]

    def is_listed(self, folder: str) -> bool:
        """Return whether a folder is the `requests/` or `turns/` of a sender. Any thread."""
        return folder in self._folders

    @property
    def has_unfinished(self) -> bool:
        """Return whether a file is still being written and will be looked at again. Any thread."""
        return any(inbox.waiting for inbox in list(self._folders.values()))

    @property
    def has_more(self) -> bool:
        """Return whether the next look or the next batch may find requests. Event loop, between two batches."""
        return self._is_everywhere or bool(self._marked) or bool(self._long) or any(self._queues.values())

    @property
    def queues(self) -> set[str]:
        """The names of all queues; see `Inbox.queue`."""
        return {*self._queues}

    def has_turn(self, group: str) -> bool:
        return bool(self._queues.get(turns_queue(group)))

    # ------------------------------------------------------------------------------------------------------- looking

    def mark(self, folder: str | None) -> None:
        """Note that something came into a folder of requests or turns; None: sweep. Any thread."""
        if folder is None:
            self._is_everywhere = True
        else:
            self._marked.add(folder)

    def mark_only(self, path: str) -> None:
        """Look into one sender's inbox next, and into others only when something comes there."""
        self._is_everywhere = False
        self._marked.add(f"{path}/{REQUESTS}")

    def look(self, now: float) -> None:
        """List the marked inboxes and new ones; in a sweep all."""
        begun = time.thread_time()
        marked = {self._marked.pop() for _ in range(len(self._marked))}  # other threads add meanwhile
        is_everywhere, self._is_everywhere = self._is_everywhere, False
        known = self._folders
        if is_everywhere or not marked <= known.keys():
            self.discover()
        new = () if self._folders is known else self._folders.keys() - known.keys()
        for folder in self._folders if is_everywhere else self._folders.keys() & {*marked, *new}:
            self._look_into(self._folders[folder], now)
        self.looks += 1
        if is_everywhere:
            self.sweeps += 1
            self.sweep_cost = time.thread_time() - begun

    def _look_into(self, inbox: Inbox, now: float) -> None:
        if inbox.names or inbox in self._long:
            self._marked.add(inbox.requests)  # listed when those are taken
        else:
            self.listen(inbox.requests)
            self._list(inbox, now)

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
                if inbox.names:
                    self._queues[inbox.queue] = heads = [
                        head for head in self._queues[inbox.queue] if head[2] is not inbox
                    ]
                    heapq.heapify(heads)
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
        self._folders = {one.requests: one for inbox in self.inboxes.values() for one in inbox.both}

    def _is_known(self, group: str, sender: str, agents: Container[str]) -> bool:
        """Return whether a sender is served in closed mode."""
        return sender == OPERATOR or (group, sender) in (self.senders or ()) or sender in agents

    def _list(self, inbox: Inbox, now: float) -> None:
        if inbox.complaint is not None:
            with contextlib.suppress(OSError):
                open_box(inbox).close()
                inbox.complaint = None  # mended
        try:
            status = os.stat(inbox.requests, follow_symlinks=False)
            if inbox.empty.holds(status):
                return
            listing = _names_of(inbox.requests)
            names = list(itertools.islice(listing, _LISTED_AT_ONCE))
        except FileNotFoundError:
            return
        except OSError as error:
            self.complain(inbox, f"{inbox.folder}/ is a link, or cannot be listed: {_what_now(error)}")
            return
        is_whole = len(names) < _LISTED_AT_ONCE
        if is_whole and inbox.held.issuperset(names):
            inbox.empty.listed(status, now)
            return
        inbox.empty.forget()
        if is_whole and inbox.waiting:
            inbox.stuck.intersection_update(names)
            for name in inbox.waiting.keys() - {*names}:
                del inbox.waiting[name]
        self._queue(inbox, names, listing, now)

    def go_on(self, now: float) -> bool:
        """Read a little more of one long listing, the next time of another; return whether there was one."""
        inbox = next(iter(self._long), None)
        if inbox is None:
            return False
        listing = self._long.pop(inbox)
        try:
            names = list(itertools.islice(listing, _LISTED_AT_ONCE))
        except OSError:
            names = []  # the next listing reports the error
        self._queue(inbox, names, listing, now)
        return True

    def _queue(self, inbox: Inbox, names: Sequence[str], listing: Iterator[str], now: float) -> None:
        """Queue the names that are new requests; none is taken before the listing has ended."""
        for name in names:
            if not name.endswith(SUFFIX) or name[0] == "." or name in inbox.inflight:
                continue
            if name not in inbox.waiting or inbox.waiting[name][1] <= now:
                heapq.heappush(inbox.names, name)
        if len(names) == _LISTED_AT_ONCE:
            if len(inbox.names) < 2 * rate_limits.PENDING_FILES:  # names in memory, 90 bytes each
                self._long[inbox] = listing
                return
            self._marked.add(inbox.requests)  # the next listing finds the others
        inbox.room = rate_limits.PENDING_FILES - len(inbox.waiting)
        if inbox.names:
            heapq.heappush(self._queues[inbox.queue], (inbox.names[0], inbox.requests, inbox))

    # -------------------------------------------------------------------------------------------------------- taking

    def take(self, most: int, *, except_groups: Collection[str] = (), most_turns: int = 0) -> list[tuple[str, Inbox]]:
        """Take up to `most` requests, fair to all groups; in order of names within a group.

        Args:
            except_groups: queues that are passed over; see `Inbox.queue`.
            most_turns: how many turns to take in addition, at most one of each group.
        """
        waiting: dict[str, int] = {}
        turns: list[str] = []
        for queue, heads in list(self._queues.items()):
            if not heads:
                del self._queues[queue]  # an idle host looks at none
                continue
            if queue in except_groups:
                continue
            if queue.endswith(TURNS_QUEUE):
                turns.append(queue)
            else:
                waiting[queue] = sum(len(inbox.names) for _, _, inbox in heads)
        taken: list[tuple[str, Inbox]] = []
        for queue in turns[:most_turns]:
            taken.append(self._take_next(self._queues[queue]))
            self._queues[queue] = self._queues.pop(queue)  # the last one next time
        for queue, count in self._order.portions(waiting, most):
            heads = self._queues[queue]
            taken.extend(self._take_next(heads) for _ in range(count) if heads)
        return taken

    @staticmethod
    def _take_next(heads: list[tuple[str, str, Inbox]]) -> tuple[str, Inbox]:
        """Take the first name of a queue."""
        name, folder, inbox = heads[0]
        while inbox.names and inbox.names[0] == name:  # tmpfs shows some twice when others come and go (Linux 6.18)
            heapq.heappop(inbox.names)
        if inbox.names:
            heapq.heapreplace(heads, (inbox.names[0], folder, inbox))
        else:
            heapq.heappop(heads)
        inbox.inflight.add(name)
        inbox.room -= 1
        if inbox.room < 0:
            inbox.over.add(name)
        return name, inbox

    def open(self, inbox: Inbox) -> OpenInbox | None:
        """Open the folders of an inbox, making `replies/` if missing; None (logged once) if that is impossible."""
        try:
            opened = open_box(inbox)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.complain(inbox, f"{inbox.folder}/ or replies/ is no folder that the host may open: {_what_now(error)}")
            return None
        inbox.complaint = None
        return opened

    def complain(self, inbox: Inbox, why: str) -> None:
        """Log once why an inbox is not served."""
        if inbox.complaint != why:
            inbox.complaint = why
            log.error("inbox.refused", group=inbox.group, sender=inbox.sender, why=why)

    def _names_in(self, folder: str) -> Sequence[str]:
        """Return the folders that may be groups or senders; listed again only when the folder changed."""
        now = time.monotonic()
        unchanged, names = self._listings.get(folder, (Unchanged(), ()))
        self.listen(folder)
        try:
            status = os.stat(folder)
            if unchanged.holds(status):
                return names
            with os.scandir(folder) as entries:
                listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            self._listings.pop(folder, None)
            return ()
        except OSError:  # too many open files, an I/O error: assume that nothing changed
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


def _names_of(folder: str) -> Iterator[str]:
    """Return the names in a folder that is not a link, read lazily. Raises OSError, also while they are read."""
    with closing_fd(open_folder(folder)) as fd:
        entries = os.scandir(fd)  # the iterator duplicates the descriptor
    return _drain(entries)


def _drain(entries: AbstractContextManager[Iterator[os.DirEntry[str]]]) -> Iterator[str]:
    with entries as found:
        for entry in found:
            yield entry.name


def _what_now(error: OSError) -> str:
    """Return what failed in words, with advice if the inbox is not the cause."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}; raise the limit of open files (LimitNOFILE=, ulimit -n), see doctor"
    return str(error.strerror)


QUANTUM: Final = 8  # requests that a queue gets per turn, and those of busy queues in a batch with new ones


class RoundRobin:
    """Chooses batches. New queues (empty after the last batch) come first; busy queues share the rest of the batch.

    The number of requests that busy queues may have in a batch grows by one with each batch, and falls to `QUANTUM`
    when a new queue comes. So a backlog is served in long batches, and a quiet sender waits for short ones only. While
    new queues keep coming, every second batch is theirs alone.
    """

    def __init__(self) -> None:
        self._ring: dict[str, int] = {}
        """Queues that had requests left after the last batch, the next one first -> requests left of their turn."""
        self._room = QUANTUM
        self._is_of_new = False

    def portions(self, waiting: Mapping[str, int], most: int) -> list[tuple[str, int]]:
        """Return queues and how many requests to take of each, in this order; one may come several times.

        Args:
            waiting: queue -> requests in it, at least one.
            most: requests in the batch at most.
        """
        old = [queue for queue in self._ring if queue in waiting]
        new = [queue for queue in waiting if queue not in self._ring]
        self._room = QUANTUM if old and new else min(self._room + 1, most)
        left = dict(waiting)
        portions: list[tuple[str, int]] = []
        room = max(1, most - QUANTUM) if old else most
        for queue in new:
            if count := min(QUANTUM, left[queue], room):
                portions.append((queue, count))
                left[queue] -= count
                room -= count
        self._is_of_new = bool(old and new) and not self._is_of_new
        room = 0 if self._is_of_new else min(self._room, most - sum(count for _, count in portions))
        ring = deque((queue, self._ring.get(queue, QUANTUM)) for queue in (*old, *new) if left[queue])
        while ring and room:
            queue, of_turn = ring.popleft()
            count = min(of_turn, left[queue], room)
            portions.append((queue, count))
            left[queue] -= count
            room -= count
            if left[queue] and count == of_turn:
                ring.append((queue, QUANTUM))
            elif left[queue]:
                ring.appendleft((queue, of_turn - count))
        self._ring = dict(ring)
        return portions
