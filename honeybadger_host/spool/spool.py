"""All boxes: found, listed fairly, their requests handed out in turn.

The listing is the truth: what is in a box and was not taken is a request.
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
from honeybadger_host.spool.inbox import TURNS_QUEUE, Box, OpenBox, identity_of, open_box
from honeybadger_host.spool.listing import Listing, names_of, requests_of
from honeybadger_host.spool.rate_limits import Shares
from honeybadger_host.storage.file_cache import Unchanged
from honeybadger_host.storage.files import open_folder

log = structlog.get_logger()

_MOST_LISTED: Final = 262_144
"""Names of one listing, 90 bytes each; what a folder has beyond them is found by the next one."""
_LISTED_AT_ONCE: Final = 1024
"""Names read, or put into the queue, between two slices: 4 ms, where a folder of 100,000 takes 400 ms as a whole."""
_LISTED_BESIDE: Final = 256
"""The same while others, who have few, come and go."""
_LONG_QUEUE: Final = 256
"""A box with more names waiting is not listed again before they are served."""
_FEW: Final = 8
"""A group with at most so many waiting has its turn before those that flood."""
_MOST_OF_A_GROUP: Final = 32
"""Requests of one group in a slice: who floods the host must not keep others waiting for a long slice of its own."""
_MOST_BESIDE: Final = 8
"""The same while others, who have few, come and go: what they wait for is the slice that is under way."""
_SLICES_REMEMBERED: Final = 512
"""Slices for which others are expected to come again: about a second of a flood."""
_MOST_EXPECTED: Final = 8
"""Boxes that are looked into before each slice of a flood: 15 us each."""
_MOST_OPEN: Final = 128
"""Boxes of one slice: two descriptors each, and 1024 are all a process may have by default."""
_NO_LIMITS: Final = Shares()


class Spool:
    """All boxes. Listing and taking belong to one thread at a time.

    Args:
        ipc: the folder `data/ipc`.
        senders: in closed mode (group, sender) -> uid or None for those that are served; None: open mode.
        agents: ids of the agents the host speaks as: in closed mode, too, it serves its own boxes for them.
        shares: what may wait in a box.
        max_request_bytes: more is refused, whatever else waits.
    """

    def __init__(
        self,
        ipc: Path,
        *,
        senders: Mapping[tuple[str, str], int | None] | None,
        agents: Callable[[], Container[str]] = tuple,
        shares: Shares = _NO_LIMITS,
        max_request_bytes: int = 0,
    ) -> None:
        self._shares = shares
        self._max_request_bytes = max_request_bytes
        self._ipc = str(ipc)
        self.senders = senders
        self._agents = agents
        self.listen: Callable[[str], None] = lambda folder: None
        """Called with a folder before a look into it: the next arrival is worth an event again."""
        self.boxes: dict[str, Box] = {}
        self._queues: dict[str, list[tuple[str, Box]]] = {}
        self._long: dict[Box, None] = {}
        """Boxes with a `listing`, the one whose turn it is first."""
        self._turn = 0
        self.few_were_first = False
        """Whether the last slice was of those alone that have few requests."""
        self._few_expected = 0
        self._few_lately: dict[Box, None] = {}
        self._ignored: set[str] = set()
        self._seen: Sequence[object] = ()
        self._listings: dict[str, tuple[Unchanged, Sequence[str]]] = {}

    @property
    def pending(self) -> int:
        """Requests listed and not taken. Any thread."""
        queued = sum(len(queue) for queue in list(self._queues.values()))
        return queued + sum(box.pending - len(box.queued) for box in list(self._long))

    @property
    def queues(self) -> set[str]:
        """The names of all queues; see `Box.queue`."""
        return {*self._queues}

    def distrust(self) -> None:
        """Forget which folders did not change: a file system may be wrong about its time stamps."""
        for unchanged, _ in self._listings.values():
            unchanged.forget()
        for box in self.boxes.values():
            for one in box.both:
                one.empty.forget()

    def discover(self) -> None:
        """Find boxes that came and forget those that went."""
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
        for path in [path for path in self.boxes if path not in found]:
            for box in self.boxes.pop(path).both:
                self._long.pop(box, None)
                if box.queued:
                    self._queues[box.queue] = [item for item in self._queues[box.queue] if item[1] is not box]
        for path, (group, sender) in found.items():
            if sender == OPERATOR:
                uid: int | None = os.geteuid()  # in both modes: nobody else is the operator
            else:
                uid = None if self.senders is None else self.senders.get((group, sender), os.geteuid())
            if path not in self.boxes:
                self.boxes[path] = Box(group, sender, path, uid)
                log.info("box.found", group=group, sender=sender)
            for box in self.boxes[path].both:
                box.uid = uid

    def _is_known(self, group: str, sender: str, agents: Container[str]) -> bool:
        """Return whether a sender is served in closed mode."""
        return sender == OPERATOR or (group, sender) in (self.senders or ()) or sender in agents

    def scan(self, box: Box, now: float) -> bool:
        """List a box and queue what is new, in the order of names within its group; a long listing only begins.

        Returns False when it waits for what is queued, and is to be asked for again.
        """
        if len(box.queued) > _LONG_QUEUE or box.listing is not None:
            return False
        self.listen(box.requests)
        self._list(box, now)
        return True

    def _list(self, box: Box, now: float) -> None:
        if box.complaint is not None:
            with contextlib.suppress(OSError):
                open_box(box).close()
                box.complaint = None  # mended
        try:
            status = os.stat(box.requests, follow_symlinks=False)
            if box.empty.holds(status):
                return
            entries = names_of(box.requests)
            at_once = self._listed_at_once
            names = list(itertools.islice(entries, at_once))
        except FileNotFoundError:
            return
        except OSError as error:
            self.complain(box, f"{box.folder}/ is a link, or cannot be listed: {_what_now(error)}")
            return
        if not names:
            box.empty.listed(status, now)
            return
        box.empty.forget()
        if box.stuck:
            self._look_at_stuck(box)
        if len(names) == at_once:
            names = requests_of(names)
            box.listing = Listing(entries, [names], len(names))
            self._long[box] = None
            return
        if box.waiting and (gone := box.waiting.keys() - set(names)):
            for name in gone:
                del box.waiting[name]
        names = requests_of(names)
        self._make_room(box, len(names))
        self._queue(box, names, now)

    def go_on(self, now: float) -> bool:
        """Read or queue a little more of one box with a long listing; return whether there was something to do."""
        for box in list(self._long):
            listing = box.listing
            assert listing is not None  # noqa: S101  that is what `_long` says
            if listing.entries is None and len(box.queued) > _LONG_QUEUE:
                continue
            del self._long[box]
            self._long[box] = None  # the others' turn
            if listing.entries is not None:
                self._read_on(box, listing, listing.entries)
            else:
                names = list(itertools.islice(listing.names, self._listed_at_once))
                listing.left -= len(names)
                if not names:
                    del self._long[box]
                    box.listing = None
                self._queue(box, names, now)
            return True
        return False

    @property
    def _listed_at_once(self) -> int:
        return _LISTED_BESIDE if self._few_expected else _LISTED_AT_ONCE

    def _read_on(self, box: Box, listing: Listing, entries: Iterator[str]) -> None:
        at_once = self._listed_at_once
        try:
            names = list(itertools.islice(entries, at_once))
        except OSError:
            names = []  # the next listing says what it is
        if found := requests_of(names):
            listing.runs.append(found)
            listing.left += len(found)
        if len(names) < at_once or listing.left >= _MOST_LISTED:
            listing.entries = None
            listing.names, listing.runs = heapq.merge(*listing.runs), []
            self._make_room(box, listing.left)

    def _make_room(self, box: Box, count: int) -> None:
        """Note how much of a listing of `count` requests may wait."""
        shares = self._shares
        box.room_files = shares.pending_files - len(box.queued) - len(box.waiting) if shares.pending_files else math.inf
        could_weigh = count * self._max_request_bytes  # what is larger is refused anyway, and not counted
        box.room_bytes = shares.pending_bytes if 0 < shares.pending_bytes < could_weigh else math.inf

    def _queue(self, box: Box, names: Sequence[str], now: float) -> None:
        """Queue those names that are new. What is over the share of the box is queued to be refused."""
        fresh = [
            name
            for name in dict.fromkeys(names)  # tmpfs shows some twice when others come and go meanwhile (Linux 6.18)
            if name not in box.queued
            and name not in box.inflight
            and name not in box.stuck
            and (name not in box.waiting or box.waiting[name][1] <= now)
        ]
        if not fresh:
            return
        if box.room_files < len(fresh) or box.room_bytes < math.inf:
            for name, size in zip(fresh, self._sizes(box, fresh), strict=True):
                box.room_bytes -= size
                box.room_files -= 1
                if box.room_files < 0 or box.room_bytes < 0:
                    box.over.add(name)
        else:
            box.room_files -= len(fresh)
        box.queued.update(fresh)
        queue = self._queues.setdefault(box.queue, [])
        queue += [(name, box) for name in fresh]
        queue.sort(key=_by_name, reverse=True)  # the next one is the last

    def _remember_few(self, groups: Iterable[str]) -> None:
        for group in groups:
            for _, box in self._queues[group]:
                front = box.front or box
                self._few_lately.pop(front, None)
                self._few_lately[front] = None
        while len(self._few_lately) > _MOST_EXPECTED:
            del self._few_lately[next(iter(self._few_lately))]

    @property
    def expected(self) -> list[Box]:
        """Boxes that have few requests and had one lately, while others flood: worth a look before each slice.

        Their events come late when all cores are busy: the thread that reads them waits for one, and for Python's lock.
        """
        return [box for box in self._few_lately if self.boxes.get(box.path) is box] if self._few_expected else []

    def _sizes(self, box: Box, names: Sequence[str]) -> Iterator[int]:
        """Return what each of these requests counts against the bytes that may wait; 0 where that cannot be reached."""
        if box.room_bytes == math.inf:
            yield from itertools.repeat(0, len(names))
            return
        try:
            folder = open_folder(box.requests)
        except OSError:
            yield from itertools.repeat(0, len(names))  # whoever takes them finds out
            return
        try:
            for name in names:
                try:
                    size = os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
                except OSError:
                    size = 0
                yield size if size <= self._max_request_bytes else 0  # else it is refused anyway
        finally:
            os.close(folder)

    def take(self, most: int, *, except_groups: Collection[str] = (), most_turns: int = 0) -> list[tuple[str, Box]]:
        """Take up to `most` requests, every group that waits getting its turn; in order within a group.

        Args:
            except_groups: queues that are passed over; see `Box.queue`.
            most_turns: how many turns may be among them, one of a group.

        Of two slices one is of those groups that have few requests, alone, as long as there are any: they do not wait
        for what others have in the same slice. While such groups come, the slices of the others are short.
        """
        groups = [group for group, queue in self._queues.items() if queue and group not in except_groups]
        if most_turns < len(groups):
            turns = [group for group in groups if group.endswith(TURNS_QUEUE)]
            if len(turns) > most_turns:
                start = self._turn % len(turns)
                passed_over = {*(turns[start:] + turns[:start])[most_turns:]}
                groups = [group for group in groups if group not in passed_over]
        taken: list[tuple[str, Box]] = []
        if not groups:
            self.few_were_first = False
            return taken
        few = [group for group in groups if len(self._queues[group]) <= _FEW]
        has_both = 0 < len(few) < len(groups)
        room_of_a_group = _MOST_OF_A_GROUP
        if has_both:
            self._remember_few(few)
        if has_both and not self.few_were_first:
            self.few_were_first = True
            self._few_expected = _SLICES_REMEMBERED
            groups = few
        else:
            self.few_were_first = False
            if self._few_expected and len(few) < len(groups):
                self._few_expected -= 1
                most = min(most, 2 * _MOST_BESIDE)
                room_of_a_group = _MOST_BESIDE
        self._turn += 1
        start = self._turn % len(groups)
        groups = groups[start:] + groups[:start]
        boxes: set[Box] = set()
        room = {group: 1 if group.endswith(TURNS_QUEUE) else room_of_a_group for group in groups}
        while groups and len(taken) < most:
            share = max(1, (most - len(taken)) // len(groups))
            for group in groups:
                queue = self._queues[group]
                count = min(share, len(queue), most - len(taken), room[group])
                room[group] -= count
                for _ in range(count):
                    boxes.add(queue[-1][1])
                    if len(boxes) > _MOST_OPEN:
                        return taken
                    name, box = queue.pop()
                    box.queued.discard(name)
                    box.inflight.add(name)
                    taken.append((name, box))
            groups = [group for group in groups if self._queues[group] and room[group]]
        return taken

    def open(self, box: Box) -> OpenBox | None:
        """Open the folders of a box, making `replies/` when it is missing; None (said once) when that is impossible."""
        try:
            opened = open_box(box)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.complain(box, f"{box.folder}/ or replies/ is a link, or not ours to open: {_what_now(error)}")
            return None
        box.complaint = None
        return opened

    def complain(self, box: Box, why: str) -> None:
        """Say once why a box is not served."""
        if box.complaint != why:
            box.complaint = why
            log.error("box.refused", group=box.group, sender=box.sender, why=why)

    def retry_stuck(self) -> None:
        """Try again to remove what could not be removed."""
        for box in [one for found in list(self.boxes.values()) for one in found.both]:
            if box.stuck and (opened := self.open(box)) is not None:
                self._look_at_stuck(box)
                try:
                    for name in list(box.stuck):
                        opened.remove(name)
                finally:
                    opened.close()

    @staticmethod
    def _look_at_stuck(box: Box) -> None:
        """Forget what went, or gave its name to another file: that one is a request."""
        for name, identity in list(box.stuck.items()):
            if identity_of(f"{box.requests}/{name}") != identity:
                box.stuck.pop(name, None)

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
            log.warning("box.ignored", what=ascii(what), why=why)


def _what_now(error: OSError) -> str:
    """Return what failed, and what to do where that is not about the box."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}; raise the limit of open files (LimitNOFILE=, ulimit -n), see doctor"
    return str(error.strerror)


def _by_name(item: tuple[str, Box]) -> str:
    return item[0]
