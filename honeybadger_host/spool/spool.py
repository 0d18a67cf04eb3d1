"""All inboxes: found, listed, their requests handed out in turn.

The listing is the truth: each file in an inbox that was not taken is a request. An inbox is listed after an event, and
at a sweep; never while some requests of its last listing wait.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import operator
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog

from honeybadger_agent.mailbox import NAME, OPERATOR, REQUESTS, TURNS
from honeybadger_host.files.file_cache import Unchanged
from honeybadger_host.files.safe_files import closing_fd, open_folder
from honeybadger_host.spool import rate_limits
from honeybadger_host.spool.inbox import SUFFIX, TURNS_QUEUE, Inbox, OpenInbox, open_box, turns_queue

log = structlog.get_logger()

QUANTUM: Final = 8  # requests that a queue gets per turn, and busy queues in a batch with new ones
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
        self.inboxes: Mapping[str, Inbox] = {}
        """`requests/` and `turns/` of all senders, by their paths. Replaced, never changed."""
        self._marked: set[str] = set()
        self._is_everywhere = True
        self.looks = 0
        self.sweeps = 0
        self.sweep_cost = 0.0
        """Seconds of processor time that the last look into all inboxes took."""
        self._queues: defaultdict[str, list[tuple[str, str, Inbox]]] = defaultdict(list)
        """Queue -> heap of its inboxes with listed names: (first name, folder, inbox). No heap is empty."""
        self._ring: dict[str, int] = {}
        """Queues that had requests left after the last batch, the next one first -> requests left of their turn."""
        self._room = QUANTUM
        """How many requests those queues may have in the next batch."""
        self._is_of_new = False
        """The last batch had requests of other queues only."""
        self._long: dict[Inbox, Iterator[str]] = {}
        """Inboxes with a listing in progress -> the names still to read; the next inbox first."""
        self._ignored: set[str] = set()
        self._seen: Sequence[object] = ()
        self._listings: dict[str, tuple[Unchanged, Sequence[str]]] = {}

    @property
    def pending(self) -> int:
        """Requests and turns listed and not taken. Any thread."""
        return sum(len(inbox.names) for inbox in self._listed())

    @property
    def waiting_turns(self) -> int:
        """Turns listed and not taken. Any thread."""
        return sum(len(inbox.names) for inbox in self._listed() if inbox.is_turns)

    def _listed(self) -> list[Inbox]:
        """Return the inboxes with listed names, of which an idle home has none."""
        queued = [inbox for heads in list(self._queues.values()) for _, _, inbox in list(heads)]
        return [*queued, *self._long.copy()]

    @property
    def senders_inboxes(self) -> list[Inbox]:
        """The `requests/` of all senders. Any thread."""
        return [inbox for inbox in self.inboxes.values() if not inbox.is_turns]

    @property
    def folders(self) -> list[str]:
        """The folders that are listed: `data/ipc`, its groups, and the `requests/` and `turns/` of all senders."""
        return [*self._listings, *self.inboxes]

    def is_listed(self, folder: str) -> bool:
        """Return whether a folder is the `requests/` or `turns/` of a sender. Any thread."""
        return folder in self.inboxes

    @property
    def has_unfinished(self) -> bool:
        """Return whether a file is still being written and will be looked at again. Any thread."""
        return any(inbox.waiting for inbox in self.inboxes.values())

    @property
    def has_more(self) -> bool:
        """Return whether the next look or the next batch may find requests. Event loop, between two batches."""
        return self._is_everywhere or bool(self._marked or self._long or self._queues)

    def has_turn(self, group: str) -> bool:
        """Return whether a turn of a person waits in a group."""
        return turns_queue(group) in self._queues

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
        known = self.inboxes
        if is_everywhere or not marked <= known.keys():
            self.discover()
        new = () if self.inboxes is known else self.inboxes.keys() - known.keys()
        for folder in self.inboxes if is_everywhere else self.inboxes.keys() & {*marked, *new}:
            inbox = self.inboxes[folder]
            if inbox.names or inbox in self._long:
                self._marked.add(folder)  # listed when those are taken
            else:
                self.listen(folder)
                self._list(inbox, now)
        self.looks += 1
        if is_everywhere:
            self.sweeps += 1
            self.sweep_cost = time.thread_time() - begun

    def discover(self) -> None:
        """Find new inboxes and forget removed ones."""
        groups = self._names_in(self._ipc)
        listings = [self._names_in(f"{self._ipc}/{group}") for group in groups]
        agents = self._agents()
        seen = [groups, *listings, self.senders, agents]
        if len(seen) == len(self._seen) and all(map(operator.is_, seen, self._seen)):
            return  # the same lists as last time
        self._seen = seen
        inboxes: dict[str, Inbox] = {}
        for group, senders in zip(groups, listings, strict=True):
            for sender in senders:
                path = f"{self._ipc}/{group}/{sender}"
                if self.senders is not None and not self._is_known(group, sender, agents):
                    self._ignore(f"{group}/{sender}", "the host runs closed and does not know this sender")
                    continue
                if sender == OPERATOR:
                    uid: int | None = os.geteuid()  # in both modes: nobody else is the operator
                else:
                    uid = None if self.senders is None else self.senders.get((group, sender), os.geteuid())
                if f"{path}/{REQUESTS}" not in self.inboxes:
                    log.info("inbox.found", group=group, sender=sender)
                for folder in (REQUESTS, TURNS):
                    inbox = self.inboxes.get(f"{path}/{folder}") or Inbox(group, sender, path, folder=folder)
                    inbox.uid = uid
                    inboxes[inbox.requests] = inbox
        for place in self.inboxes.keys() - inboxes.keys():
            inbox = self.inboxes[place]
            self._long.pop(inbox, None)
            heads = [head for head in self._queues.pop(inbox.queue, ()) if head[2] is not inbox]
            heapq.heapify(heads)
            if heads:
                self._queues[inbox.queue] = heads
        self.inboxes = inboxes

    def _is_known(self, group: str, sender: str, agents: Container[str]) -> bool:
        """Return whether a sender is served in closed mode."""
        return sender == OPERATOR or (group, sender) in (self.senders or ()) or sender in agents

    def _list(self, inbox: Inbox, now: float) -> None:
        if inbox.complaint is not None:
            opened = self.open(inbox)
            if opened is None:
                return
            opened.close()  # it is mended
        try:
            status = os.stat(inbox.requests, follow_symlinks=False)
            if inbox.empty.holds(status):
                return
            listing = _names_of(inbox.requests)
            names = list(itertools.islice(listing, _LISTED_AT_ONCE))
        except FileNotFoundError:
            return
        except OSError as error:
            self._complain(inbox, error)
            return
        if len(names) < _LISTED_AT_ONCE:
            inbox.stuck.intersection_update(names)
            for name in inbox.waiting.keys() - {*names}:
                del inbox.waiting[name]
            inbox.empty.listed(status, now)  # before the comparison: `release` on another thread undoes it
            if inbox.inflight.issuperset(names):
                return
        inbox.empty.forget()
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

        Queues that were empty after the last batch come first, with up to `QUANTUM` requests each. Those that were not
        share the rest of the batch: a request more with each batch, and `QUANTUM` again when a queue comes. While
        queues keep coming, every second batch is theirs alone. So a backlog is served in long batches, and a quiet
        sender waits for short ones only; without the second rule its p99 beside a flood is twice as high.

        Args:
            except_groups: queues that are passed over; see `Inbox.queue`.
            most_turns: how many turns to take in addition, at most one of each group.
        """
        queues = [queue for queue in self._queues if queue not in except_groups]
        turns = [queue for queue in queues if queue.endswith(TURNS_QUEUE)]
        taken: list[tuple[str, Inbox]] = []
        for queue in turns[:most_turns]:
            taken += self._taken_of(queue, 1)
            if queue in self._queues:
                self._queues[queue] = self._queues.pop(queue)  # the last one next time
        old = [queue for queue in self._ring if queue in queues]
        new = [queue for queue in queues if queue not in {*turns, *old}]
        self._room = QUANTUM if old and new else min(self._room + 1, most)
        left = most
        for queue in new:
            found = self._taken_of(queue, min(QUANTUM, left - QUANTUM if old else left))
            left -= len(found)
            taken += found
        self._is_of_new = bool(old and new) and not self._is_of_new
        left = 0 if self._is_of_new else min(left, self._room)
        ring = deque((queue, self._ring.get(queue, QUANTUM)) for queue in (*old, *new) if queue in self._queues)
        while ring and left:
            queue, of_turn = ring.popleft()
            found = self._taken_of(queue, min(of_turn, left))
            left -= len(found)
            taken += found
            if queue in self._queues:
                if len(found) == of_turn:
                    ring.append((queue, QUANTUM))
                else:
                    ring.appendleft((queue, of_turn - len(found)))
        self._ring = dict(ring)
        return taken

    def _taken_of(self, queue: str, most: int) -> list[tuple[str, Inbox]]:
        """Take up to `most` requests of a queue, in order of names."""
        heads, taken = self._queues[queue], list[tuple[str, Inbox]]()
        while heads and len(taken) < most:
            taken.append(self._take_next(heads))
        if not heads:
            del self._queues[queue]
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
            self._complain(inbox, error)
            return None
        inbox.complaint = None
        return opened

    def _complain(self, inbox: Inbox, error: OSError) -> None:
        """Log once why an inbox is not served."""
        what = str(error.strerror)
        if error.errno in (errno.EMFILE, errno.ENFILE):
            what += "; raise the limit of open files (LimitNOFILE=, ulimit -n), see doctor"
        folder = os.path.basename(error.filename if isinstance(error.filename, str) else inbox.requests)
        why = f"{folder}/ is a link, or no folder that the host may open: {what}"
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
    """Yield the names in a folder that is not a link. Raises OSError."""
    with closing_fd(open_folder(folder)) as fd, os.scandir(fd) as entries:
        for entry in entries:
            yield entry.name
