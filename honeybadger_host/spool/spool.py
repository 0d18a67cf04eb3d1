"""All inboxes: found, listed, their requests handed out in turn.

The listing is the truth: each file in an inbox that was not taken is a request. An inbox is listed after an event, and
at a sweep; never while some requests of its last listing wait.
"""

import errno
import heapq
import itertools
import os
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from pathlib import Path

from honeybadger_agent.mailbox import NAME, OPERATOR, REQUESTS, TURNS
from honeybadger_host.files.group_folders import Listings
from honeybadger_host.files.safe_files import closing_fd, open_folder
from honeybadger_host.log import log
from honeybadger_host.spool import rate_limits
from honeybadger_host.spool.inbox import SUFFIX, TURNS_QUEUE, Inbox, OpenInbox, open_box, turns_queue

QUANTUM = 8  # requests that a queue gets at least when its turn comes


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
        # Called with a folder before it is listed: the watcher reports the next arrival again.
        self.listen: Callable[[str], None] = lambda folder: None
        # `requests/` and `turns/` of all senders, by their paths. Replaced, never changed: for any thread.
        self.inboxes: Mapping[str, Inbox] = {}
        self._marked: set[str] = set()
        self._is_everywhere = True  # at a start: what waits is served in the order of names, over all senders
        self.looks = 0
        self.sweeps = 0
        self.sweep_cost = 0.0  # seconds of processor time that the last look into all inboxes took
        # Queue -> heap of its listed requests, by name, then by number; the next queue first. No heap is empty.
        self._queues: dict[str, list[tuple[str, int, Inbox]]] = {}
        self._numbers = itertools.count()
        self._left: set[str] = set()  # queues with requests left after the last batch
        self._room = QUANTUM  # number of requests that these queues share in the next batch
        self._is_of_new = False  # the last batch had requests of other queues only
        self._ignored: set[str] = set()
        self._listings = Listings(self._list_names)

    @property
    def pending(self) -> int:
        """Requests and turns listed and not taken. Any thread."""
        return sum(map(len, self._queues.copy().values()))

    @property
    def waiting_turns(self) -> int:
        """Turns listed and not taken. Any thread."""
        return sum(len(heap) for queue, heap in self._queues.copy().items() if queue.endswith(TURNS_QUEUE))

    @property
    def senders_inboxes(self) -> list[Inbox]:
        """The `requests/` of all senders. Any thread."""
        return [inbox for inbox in self.inboxes.values() if not inbox.is_turns]

    @property
    def folders(self) -> list[str]:
        """The folders that are listed: `data/ipc`, its groups, and the `requests/` and `turns/` of all senders."""
        return [*self._listings.kept, *self.inboxes]

    @property
    def has_unfinished(self) -> bool:
        """Return whether a file is still being written and will be looked at again. Any thread."""
        return any(inbox.waiting for inbox in self.inboxes.values())

    @property
    def has_more(self) -> bool:
        """Return whether the next look or the next batch may find requests. Event loop, between two batches."""
        return self._is_everywhere or bool(self._marked or self._queues)

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
        marked |= self.inboxes.keys() - known.keys()
        for folder in self.inboxes if is_everywhere else self.inboxes.keys() & marked:
            inbox = self.inboxes[folder]
            if inbox.queued:
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
        agents = self._agents()
        inboxes: dict[str, Inbox] = {}
        for group in self._names_in(self._ipc):
            for sender in self._names_in(f"{self._ipc}/{group}"):
                path = f"{self._ipc}/{group}/{sender}"
                is_ours = sender == OPERATOR or sender in agents
                if self.senders is not None and not is_ours and (group, sender) not in self.senders:
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
        self.inboxes = inboxes

    def _list(self, inbox: Inbox, now: float) -> None:
        if inbox.complaint is not None:
            opened = self.open(inbox)
            if opened is None:
                return
            opened.close()  # it is mended
        most = 2 * rate_limits.PENDING_FILES  # names in memory, 90 bytes each
        try:
            status = os.stat(inbox.requests, follow_symlinks=False)
            if inbox.empty.holds(status):
                return
            with closing_fd(open_folder(inbox.requests)) as fd:
                names = {*os.listdir(fd)[:most]}  # tmpfs shows some twice when others come and go (Linux 6.18)
        except FileNotFoundError:
            return
        except OSError as error:
            self._complain(inbox, error)
            return
        if len(names) == most:
            self._marked.add(inbox.requests)  # the next listing finds the others
        inbox.stuck &= names
        for name in inbox.waiting.keys() - names:
            del inbox.waiting[name]
        inbox.empty.listed(status, now)  # before the comparison: `release` on another thread undoes it
        if inbox.inflight >= names:
            return
        inbox.empty.forget()
        self._queue(inbox, names, now)

    def _queue(self, inbox: Inbox, names: Iterable[str], now: float) -> None:
        """Queue the names that are new requests; those above the limit of the inbox will be refused."""
        new: list[str] = []
        for name in names:
            is_request = name.endswith(SUFFIX) and name[0] != "." and name not in inbox.inflight
            if is_request and (name not in inbox.waiting or inbox.waiting[name][1] <= now):
                new.append(name)
        if not new:
            return
        new.sort()
        inbox.over.update(new[max(0, rate_limits.PENDING_FILES - len(inbox.waiting)) :])
        inbox.queued += len(new)
        heap = self._queues.setdefault(inbox.queue, [])
        for name in new:
            heapq.heappush(heap, (name, next(self._numbers), inbox))

    # -------------------------------------------------------------------------------------------------------- taking

    def take(self, most: int, *, except_groups: Collection[str] = (), most_turns: int = 0) -> list[tuple[str, Inbox]]:
        """Take up to `most` requests: of each queue in turn, in order of names.

        A queue whose share does not fit any more is the first in the next batch. While no queue is new, the batches
        grow: a backlog is served in long ones. Beside it a new queue, such as a quiet sender's, waits for a short one,
        and every second time has the next one for itself.

        Args:
            except_groups: queues that are passed over; see `Inbox.queue`.
            most_turns: how many turns to take in addition, at most one of each group.
        """
        queues = [queue for queue in self._queues if queue not in except_groups]
        turns = [queue for queue in queues if queue.endswith(TURNS_QUEUE)]
        waiting = [queue for queue in queues if not queue.endswith(TURNS_QUEUE)]
        new = [queue for queue in waiting if queue not in self._left]
        is_mixed = 0 < len(new) < len(waiting)
        self._room = QUANTUM if is_mixed else min(self._room + 1, most)
        self._is_of_new = is_mixed and not self._is_of_new
        share = min(most, max(QUANTUM, self._room // max(1, len(waiting))))
        taken: list[tuple[str, Inbox]] = []
        for queue in turns[:most_turns]:
            taken += self._taken_of(queue, 1)
        left = most
        for queue in new if self._is_of_new else waiting:
            found = self._taken_of(queue, share) if left >= share else []
            left -= len(found)
            taken += found
        self._left = {*self._queues}
        return taken

    def _taken_of(self, queue: str, most: int) -> list[tuple[str, Inbox]]:
        """Take up to `most` requests of a queue, then put it behind the others."""
        heap, taken = self._queues.pop(queue), list[tuple[str, Inbox]]()
        while heap and len(taken) < most:
            name, _, inbox = heapq.heappop(heap)
            inbox.queued -= 1
            if self.inboxes.get(inbox.requests) is inbox:  # else it was removed meanwhile
                inbox.inflight.add(name)
                taken.append((name, inbox))
        if heap:
            self._queues[queue] = heap
        return taken

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
        self.listen(folder)
        try:
            return self._listings.of(folder)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError:  # too many open files, an I/O error: assume that nothing changed
            return self._listings.kept[folder][1] if folder in self._listings.kept else ()

    def _list_names(self, folder: str) -> Sequence[str]:
        names: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
                elif not entry.name.startswith("."):
                    self._ignore(f"{folder}/{entry.name}", "not a folder, or not a name the protocol allows")
        return names

    def _ignore(self, what: str, why: str) -> None:
        if what not in self._ignored and len(self._ignored) < 1000:
            self._ignored.add(what)
            log.warning("inbox.ignored", what=ascii(what), why=why)
