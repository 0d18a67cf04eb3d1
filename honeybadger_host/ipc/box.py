"""The boxes on disk: find them, list them fairly, open what lies there safely, reply, bury.

The listing is the truth: what is in a box and was not taken is a request. Nothing is claimed by renaming; a request
file stays until its reply is written.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import heapq
import itertools
import math
import operator
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson
import structlog

from honeybadger_agent.mailbox import NAME, OPERATOR, REPLIES, REQUESTS, TMP, TURNS
from honeybadger_host.files import Incoming, Signature, make_folders, open_folder, read_incoming
from honeybadger_host.ipc.dead_room import DeadRoom
from honeybadger_host.ipc.limits import Shares
from honeybadger_host.secrets import redact_bytes

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
_SUFFIX: Final = ".json"
STREAM: Final = ".stream"
"""What a turn's answer is called while it is being written."""
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_MOST_BURIED_BYTES: Final = 1024 * 1024
"""Looking through them for credentials takes 0.3 s at the worst, and nobody mends a longer one by hand."""
_LONGEST_STEM_BYTES: Final = 200
"""A dead letter's name has a digest and `.reason.json` behind it, and a file name ends at 255 bytes."""
_COARSEST_STAMP_SECONDS: Final = 3.0
"""Some file systems keep time stamps to a second or two: a change within that may not show."""
_FUTURE_SECONDS: Final = 60.0
"""The clocks of two machines on one file system may differ by less."""
TMP_KEPT_SECONDS: Final = 86_400.0
_NO_LIMITS: Final = Shares()
_TURNS: Final = f"/{TURNS}"
"""No name of a group ends with it."""


def turns_queue(group: str) -> str:
    """Return what the queue of a group's turns is called; that of its requests is called as the group."""
    return group + _TURNS


class Unchanged:
    """A folder as it was listed: while its time stamps are the same it need not be listed again.

    They are trusted once a listing took place well after they were first seen, by the clock of this machine: stamps may
    be coarse, and another machine's. Its owner can set the mtime of a folder back, but not its ctime.
    """

    __slots__ = ("_is_trusted", "_since", "_stamp")

    def __init__(self) -> None:
        self._stamp: tuple[int, int, int] | None = None
        self._since = 0.0
        self._is_trusted = False

    def holds(self, status: os.stat_result) -> bool:
        """Return whether what was listed is still all there is."""
        return self._is_trusted and _stamp_of(status) == self._stamp

    def listed(self, status: os.stat_result, now: float) -> None:
        """Note that the folder was listed now, in monotonic seconds; `status` is from before the listing."""
        stamp = _stamp_of(status)
        if stamp != self._stamp:
            self._stamp, self._since = stamp, now
        self._is_trusted = now - self._since >= _COARSEST_STAMP_SECONDS

    def forget(self) -> None:
        """List it again next time."""
        self._is_trusted = False


@dataclass(slots=True)
class Listing:
    """What a folder with many names has, read bit by bit and given out in order.

    Args:
        entries: what was not read yet; None: all was.
        runs: what was read, each run in order; moved into `names` in the end.
        names: all in order, less what was queued.
        left: how many of them there are.
    """

    entries: Iterator[str] | None
    runs: list[list[str]]
    left: int
    names: Iterator[str] = field(default_factory=lambda: iter(()))


@dataclass(slots=True, eq=False)
class Box:
    """One sender's folder and what the host knows of its requests.

    Args:
        uid: the owner its files must have, in closed mode and for the operator; None: any.
        queued: names listed and not taken yet.
        inflight: names taken and not removed yet.
        waiting: name -> (first seen, look again at), monotonic seconds: files somebody is still writing.
        stuck: name -> identity of files that are done and cannot be removed.
        empty: holds while `requests/` is as it was when it was seen empty.
        listing: what a long listing found and is not queued yet.
        over: queued names that are over what may wait: they are refused without being read.
        room_files, room_bytes: what of the last listing may still wait.
        replies, reply_bytes: at most so many lie in `replies/`; less when the sender removed some.
    """

    group: str
    sender: str
    path: str
    uid: int | None = None
    queued: set[str] = field(default_factory=set)
    inflight: set[str] = field(default_factory=set)
    waiting: dict[str, tuple[float, float]] = field(default_factory=dict)
    stuck: dict[str, tuple[int, int]] = field(default_factory=dict)
    complaint: str | None = None
    """Why the box is not served now; said once."""
    empty: Unchanged = field(default_factory=Unchanged)
    listing: Listing | None = None
    over: set[str] = field(default_factory=set)
    room_files: float = 0
    room_bytes: float = 0
    replies: int = 0
    reply_bytes: int = 0
    folder: str = REQUESTS
    """Where its files lie: `requests/`, or `turns/` of the box that is its `front`."""
    front: Box | None = None
    turns: Box | None = None

    def __post_init__(self) -> None:
        if self.front is None:
            self.turns = Box(self.group, self.sender, self.path, self.uid, folder=TURNS, front=self)

    @property
    def requests(self) -> str:
        return f"{self.path}/{self.folder}"

    @property
    def queue(self) -> str:
        """The queue its files wait in: the requests of a group, or its turns."""
        return self.group if self.front is None else turns_queue(self.group)

    @property
    def both(self) -> tuple[Box, ...]:
        """The box and that of its turns."""
        return (self,) if self.turns is None else (self, self.turns)

    @property
    def pending(self) -> int:
        """Requests listed and not taken."""
        listing = self.listing
        return len(self.queued) + (0 if listing is None else listing.left)


@dataclass(slots=True, eq=False)
class OpenBox:
    """Descriptors of a box's folders, none reached through a link; valid until closed."""

    box: Box
    requests_fd: int
    replies_fd: int

    def read(self, name: str, max_bytes: int) -> Incoming:
        """Read one request file; see `files.read_incoming`."""
        return read_incoming(self.requests_fd, name, max_bytes)

    def reply(self, name: str, data: bytes) -> None:
        """Write a reply under the request's name, complete or not at all. Raises OSError."""
        temporary = f".{threading.get_ident():x}.tmp"  # a short name: a rename costs by its directory entry
        try:
            fd = os.open(temporary, _NEW_FILE, 0o600, dir_fd=self.replies_fd)
        except FileExistsError:
            os.unlink(temporary, dir_fd=self.replies_fd)
            fd = os.open(temporary, _NEW_FILE, 0o600, dir_fd=self.replies_fd)
        try:
            written = os.write(fd, data)
            _give(fd, self.box.uid)
        finally:
            os.close(fd)
        if written != len(data):
            os.unlink(temporary, dir_fd=self.replies_fd)
            raise OSError(28, "no space for the whole reply")
        os.rename(temporary, name, src_dir_fd=self.replies_fd, dst_dir_fd=self.replies_fd)
        front = self.box.front or self.box
        front.replies += 1
        front.reply_bytes += written

    def open_stream(self, stem: str) -> int:
        """Return a descriptor of a new `replies/<stem>.stream`; what has that name goes. Raises OSError."""
        name = f"{stem}{STREAM}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.replies_fd)
        fd = os.open(name, _NEW_FILE, 0o600, dir_fd=self.replies_fd)
        _give(fd, self.box.uid)
        return fd

    def remove_stream(self, stem: str) -> None:
        """Remove what `open_stream` made; the expiry of replies takes what cannot be removed."""
        with contextlib.suppress(OSError):
            os.unlink(f"{stem}{STREAM}", dir_fd=self.replies_fd)

    def look(self, name: str) -> Signature | None:
        """Return what has this name among the requests now, None when nothing has."""
        try:
            return Signature.of(os.stat(name, dir_fd=self.requests_fd, follow_symlinks=False))
        except OSError:
            return None

    def remove(self, name: str, seen: Signature | None = None) -> None:
        """Remove a request that is done; one that cannot be removed is kept in mind and never served again.

        Args:
            seen: what was answered. Something else of this name stays: it is a request that nobody has read. (There is
                no call that compares and removes in one step: what comes in the microseconds between goes unread.)
        """
        if seen is not None:
            try:
                now = os.stat(name, dir_fd=self.requests_fd, follow_symlinks=False)
            except OSError:
                return
            if (now.st_ino, now.st_size, now.st_mtime_ns) != (seen.inode, seen.size, seen.mtime_ns):
                return  # its ctime may change: also the removal of another name of the same file does that
        try:
            os.unlink(name, dir_fd=self.requests_fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            if not self._remove_folder(name, error):
                if name not in self.box.stuck:
                    log.error(
                        "box.unlink_failed",
                        group=self.box.group,
                        sender=self.box.sender,
                        name=ascii(name),
                        error=error.strerror,
                        now_what="it is done and will not be done again; remove it by hand",
                    )
                if (identity := _identity(name, self.requests_fd)) is not None:
                    self.box.stuck[name] = identity
                return
        if self.box.stuck:
            self.box.stuck.pop(name, None)

    def _remove_folder(self, name: str, error: OSError) -> bool:
        """Remove an empty folder where a file should be; a full one stays, and is not descended into."""
        if not isinstance(error, IsADirectoryError):
            return False
        try:
            os.rmdir(name, dir_fd=self.requests_fd)
        except OSError:
            return False
        return True

    def close(self) -> None:
        os.close(self.requests_fd)
        os.close(self.replies_fd)


class Spool:
    """All boxes. Listing and taking belong to one thread at a time.

    Args:
        ipc: the folder `data/ipc`.
        senders: in closed mode (group, sender) -> uid or None for those that are served; None: open mode.
        agents: ids of the agents the host speaks as: in closed mode, too, it serves its own boxes for them.
        keeps_secrets: dead letters keep what looks like a credential.
        dead_max_bytes: above it the oldest dead letters go; see `DeadRoom`.
        shares: what may wait in a box, and lie in its replies.
        max_request_bytes: more is refused, whatever else waits.
    """

    def __init__(
        self,
        ipc: Path,
        dead: Path,
        *,
        senders: Mapping[tuple[str, str], int | None] | None,
        agents: Callable[[], Container[str]] = tuple,
        keeps_secrets: bool = False,
        dead_max_bytes: int = 1 << 30,
        shares: Shares = _NO_LIMITS,
        max_request_bytes: int = 0,
    ) -> None:
        self._dead_room = DeadRoom(dead, dead_max_bytes)
        self._keeps_secrets = keeps_secrets
        self._shares = shares
        self._max_request_bytes = max_request_bytes
        self._ipc = str(ipc)
        self._dead = dead
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
        self.replies_trimmed = 0
        self._ignored: set[str] = set()
        self._seen: Sequence[object] = ()
        self._listings: dict[str, tuple[Unchanged, Sequence[str]]] = {}

    @property
    def pending(self) -> int:
        """Requests listed and not taken. Any thread."""
        queued = sum(len(queue) for queue in list(self._queues.values()))
        return queued + sum(box.pending - len(box.queued) for box in list(self._long))

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
                _open_folders(box).close()
                box.complaint = None  # mended
        try:
            status = os.stat(box.requests, follow_symlinks=False)
            if box.empty.holds(status):
                return
            entries = _names_of(box.requests)
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
            names = _requests_of(names)
            box.listing = Listing(entries, [names], len(names))
            self._long[box] = None
            return
        if box.waiting and (gone := box.waiting.keys() - set(names)):
            for name in gone:
                del box.waiting[name]
        names = _requests_of(names)
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
        if found := _requests_of(names):
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
            turns = [group for group in groups if group.endswith(_TURNS)]
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
        room = {group: 1 if group.endswith(_TURNS) else room_of_a_group for group in groups}
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
            opened = _open_folders(box)
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

    def bury(
        self,
        box: Box,
        name: str,
        data: bytes | None,
        why: str,
        at: str,
        *,
        size: int | None = None,
        owner: int | None = None,
    ) -> None:
        """Keep the bytes of a request that is none, with the reason, in `data/dead/`. Raises OSError.

        Args:
            data: None when it was not read: then there is only the reason.
            at: UTC, RFC 3339.
            size: what the file had, when `data` is only its beginning.
            owner: uid of the file, when that is somebody else's than the box's.
        """
        folder = self._dead / box.group / box.sender
        make_folders(folder)
        left_out = 0 if data is None or size is None else size - len(data)
        secrets: Mapping[str, int] = {}
        if data is not None and not self._keeps_secrets:
            data, secrets = redact_bytes(data)
        shown = printable(name.removesuffix(_SUFFIX))
        for stem in _dead_stems(shown, data):
            path, reason_path = folder / f"{stem}.json", folder / f"{stem}.reason.json"
            is_kept = data is not None and _has_bytes(path, data)
            if not reason_path.exists():
                if is_kept or not os.path.lexists(path):
                    break
            elif is_kept or (data is None and not os.path.lexists(path)):
                return  # the same again, as after a crash, is the same dead letter
        reason = {"at": at, "group": box.group, "sender": box.sender, "name": shown + _SUFFIX, "reason": why}
        if box.front is not None:
            reason["box"] = box.folder
        if data is not None:
            if not is_kept:
                _write_new(path, data)
            reason["bytes"] = str(len(data))
            if owner is not None:
                reason["owner"] = f"uid {owner}"
            if left_out > 0:
                reason["left_out"] = f"{left_out} of {size} bytes"
            if secrets:
                reason["redacted"] = ", ".join(f"{kind} ({count})" for kind, count in secrets.items())
        said = orjson.dumps(reason, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        _write_new(reason_path, said)
        self._dead_room.take(folder, len(said), *(() if data is None else (len(data),)))

    def read_more(self, opened: OpenBox, name: str) -> Incoming:
        """Read as much of a file that is too large as a dead letter may have."""
        return opened.read(name, _MOST_BURIED_BYTES)

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
            if _identity(f"{box.requests}/{name}") != identity:
                box.stuck.pop(name, None)

    def expire(self, reply_ttl_seconds: float, now: float | None = None) -> int:
        """Remove replies nobody took and temporary files nobody finished; return how many.

        Args:
            now: by a wall clock that is known to be steady; default: whatever it says.
        """
        now = time.time() if now is None else now
        count = 0
        for box in list(self.boxes.values()):
            for name, seconds in ((REPLIES, reply_ttl_seconds), (TMP, TMP_KEPT_SECONDS)):
                replies, their_bytes = box.replies, box.reply_bytes
                removed, kept, kept_bytes = _remove_older(box.path, name, now, seconds)
                count += removed
                if name == REPLIES:  # what came meanwhile counts twice: at most so many
                    box.replies += kept - replies
                    box.reply_bytes += kept_bytes - their_bytes
        return count

    def has_too_many_replies(self) -> bool:
        """Return whether a sender may keep more replies than its share. Any thread."""
        most, most_bytes = self._shares.kept_replies or math.inf, self._shares.kept_reply_bytes or math.inf
        return any(box.replies > most or box.reply_bytes > most_bytes for box in list(self.boxes.values()))

    def trim_replies(self) -> int:
        """Remove the oldest replies of senders who keep more than their share; return how many.

        A quarter of the share goes at once, so that a folder is not listed for every reply. What goes can be had again
        by asking again with the same request, as after `ipc.reply_ttl_seconds`.
        """
        count = 0
        most, most_bytes = self._shares.kept_replies or math.inf, self._shares.kept_reply_bytes or math.inf
        for box in list(self.boxes.values()):
            if box.replies <= most and box.reply_bytes <= most_bytes:
                continue
            replies, their_bytes = box.replies, box.reply_bytes
            removed, kept, kept_bytes = _remove_oldest(box.path, REPLIES, most, most_bytes)
            # what cannot be removed is not looked at again before as much as was to go has come
            box.replies += int(min(kept, most * 0.75)) - replies
            box.reply_bytes += int(min(kept_bytes, most_bytes * 0.75)) - their_bytes
            self.replies_trimmed += removed
            count += removed
            if removed or kept > most or kept_bytes > most_bytes:
                log.warning("replies.trimmed", group=box.group, sender=box.sender, removed=removed, kept=kept)
        return count

    def empty_replies(self) -> Iterator[tuple[Box, list[str]]]:
        """Yield the boxes that hold replies without a byte, as a power cut leaves them, with the names of those.

        Counts the replies by the way: this is at the start.
        """
        for box in list(self.boxes.values()):
            names: list[str] = []
            box.replies = box.reply_bytes = 0
            with contextlib.suppress(OSError), _inside(box.path, REPLIES) as fd, os.scandir(fd) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX) and entry.name[0] != ".":
                        status = entry.stat(follow_symlinks=False)
                        box.replies += 1
                        box.reply_bytes += status.st_size
                        if stat.S_ISREG(status.st_mode) and status.st_size == 0:
                            names.append(entry.name)
            if names:
                yield box, names

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


def _stamp_of(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def _identity(name: str, folder_fd: int | None = None) -> tuple[int, int] | None:
    """Return inode and kind of a file, None when there is none."""
    try:
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except OSError:
        return None
    return (status.st_ino, stat.S_IFMT(status.st_mode))


def _names_of(folder: str) -> Iterator[str]:
    """Open a folder that is not a link and return its names, read as they are asked for. Raises OSError, then, too."""
    fd = open_folder(folder)
    try:
        entries = os.scandir(fd)  # it has a descriptor of its own
    finally:
        os.close(fd)
    return _drain(entries)


def _drain(entries: AbstractContextManager[Iterator[os.DirEntry[str]]]) -> Iterator[str]:
    with entries as found:
        for entry in found:
            yield entry.name


def _requests_of(names: Iterable[str]) -> list[str]:
    """Return the names that may be requests, in order."""
    return sorted(name for name in names if name.endswith(_SUFFIX) and name[0] != ".")


def printable(name: str) -> str:
    """Return a file name as text that every encoder and every terminal takes."""
    if name.isascii() and name.isprintable():
        return name
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _dead_stems(shown: str, data: bytes | None) -> Iterator[str]:
    """Yield what a dead letter may be called: never what could be the reason of another."""
    stem = shown.replace("/", "%2f").replace("\\", "%5c").encode()[:_LONGEST_STEM_BYTES].decode("utf-8", "ignore")
    if not stem or stem.endswith(".reason"):
        stem += "%"
    yield stem
    digest = hashlib.sha256(data or b"").hexdigest()[:16]  # a flood of one name is not compared one by one
    yield f"{stem}.{digest}"
    yield from (f"{stem}.{digest}.{number}" for number in itertools.count(2))


def _has_bytes(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _open_folders(box: Box) -> OpenBox:
    """Open the folders of a box, none of them through a link. Raises OSError."""
    folder = open_folder(box.path)
    try:
        requests = open_folder(box.folder, within=folder)
        try:
            try:
                replies = open_folder(REPLIES, within=folder)
            except FileNotFoundError:
                os.mkdir(REPLIES, 0o700, dir_fd=folder)
                replies = open_folder(REPLIES, within=folder)
                if box.uid is not None and box.uid != os.geteuid():
                    with contextlib.suppress(PermissionError):  # as with a reply: see `OpenBox.reply`
                        os.fchown(replies, box.uid, -1)
        except BaseException:
            os.close(requests)
            raise
    finally:
        os.close(folder)
    return OpenBox(box, requests, replies)


def _by_name(item: tuple[str, Box]) -> str:
    return item[0]


def _write_new(path: Path, data: bytes) -> None:
    fd = os.open(path, _NEW_FILE, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(fd)


def _give(fd: int, uid: int | None) -> None:
    """Let the owner of a box read what the host writes for it."""
    if uid is not None and uid != os.geteuid():
        try:
            os.fchown(fd, uid, -1)  # a host that serves other users' boxes writes for them
        except PermissionError:
            os.fchmod(fd, 0o644)  # without the right to give it away; its folder lets nobody else in


@contextlib.contextmanager
def _inside(folder: str, name: str) -> Iterator[int]:
    """Give a descriptor of a folder in a sender's folder, following no link. Raises OSError."""
    parent = open_folder(folder)
    try:
        fd = open_folder(name, within=parent)
    finally:
        os.close(parent)
    try:
        yield fd
    finally:
        os.close(fd)


def _remove_older(folder: str, name: str, now: float, seconds: float) -> tuple[int, int, int]:
    """Remove regular files of a sender's folder that are older than `seconds`, following no link.

    One from the future gets today's stamp: the clock was set back, and nobody knows how old it is. Returns how many
    went, how many stay, and their bytes.
    """
    count = kept = kept_bytes = 0
    with contextlib.suppress(OSError), _inside(folder, name) as fd, os.scandir(fd) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    continue
                kept += 1
                kept_bytes += status.st_size
                if status.st_mtime < now - seconds:
                    os.unlink(entry.name, dir_fd=fd)
                    count += 1
                    kept -= 1
                    kept_bytes -= status.st_size
                elif status.st_mtime > now + _FUTURE_SECONDS:
                    os.utime(entry.name, (now, now), dir_fd=fd, follow_symlinks=False)
    return count, kept, kept_bytes


def _remove_oldest(folder: str, name: str, most: float, most_bytes: float) -> tuple[int, int, int]:
    """Remove the oldest regular files until three quarters are left, when there are more than `most` or their bytes.

    Returns how many went, how many stay, and their bytes.
    """
    count = kept = kept_bytes = 0
    with contextlib.suppress(OSError), _inside(folder, name) as fd:
        found: list[tuple[int, str, int]] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and entry.name[0] != ".":
                        found.append((status.st_mtime_ns, entry.name, status.st_size))
        kept, kept_bytes = len(found), sum(size for _, _, size in found)
        if kept <= most and kept_bytes <= most_bytes:
            return 0, kept, kept_bytes
        found.sort()
        for _, file, size in found:
            if kept <= most * 0.75 and kept_bytes <= most_bytes * 0.75:
                break
            with contextlib.suppress(FileNotFoundError):  # its sender took it
                os.unlink(file, dir_fd=fd)
                count += 1
            kept -= 1
            kept_bytes -= size
    return count, kept, kept_bytes
