"""Dead letters: written, counted, and removed when they take too much space.

A letter is kept until an operator drops it. If all letters together exceed the limit, the oldest letters of the sender
with the most bytes are removed: an agent that sends garbage can neither fill the disk nor push out others' letters.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import orjson
import structlog

from honeybadger_host.files.safe_files import Incoming, make_folders, open_new, printable, write_all
from honeybadger_host.spool.inbox import SUFFIX, Inbox, OpenInbox
from honeybadger_host.text.redaction import redact_bytes
from honeybadger_host.text.time_stamps import time_stamp

log = structlog.get_logger()

MAX_BYTES = 1 << 30  # size limit of data/dead/, in bytes; above it the oldest of the sender with the most are removed
_BLOCK: Final = 4096  # bytes that even a tiny file takes on most file systems
_KEPT: Final = 0.9  # share of the limit that is left after a removal, so that not every new letter causes one
_REASON: Final = ".reason.json"
# Bytes of a request that are kept: searching them for credentials takes at most 0.3 s, and nobody repairs a longer
# request by hand.
_MAX_BURIED_BYTES: Final = 1024 * 1024
# Bytes of a letter's stem: a digest and `.reason.json` follow it, and a file name has at most 255 bytes.
_MAX_STEM_BYTES: Final = 200


class _Letter(NamedTuple):
    changed_ns: int
    stem: str
    bytes: int


class DeadLetters:
    """All dead letters of a home. Any thread.

    Args:
        dead: the folder `data/dead`.
        max_bytes: limit of all letters on disk, counted in blocks of 4 KiB.
        keeps_secrets: credentials are not redacted.
    """

    def __init__(self, dead: Path, max_bytes: int | None = None, *, keeps_secrets: bool = False) -> None:
        self._dead = dead
        self._max_bytes = MAX_BYTES if max_bytes is None else max_bytes
        self._keeps_secrets = keeps_secrets
        self._taken: dict[Path, int] | None = None
        """A sender's folder -> bytes of its letters; None: not measured yet."""
        self._lock = threading.Lock()

    def bury(
        self,
        inbox: Inbox,
        name: str,
        data: bytes | None,
        why: str,
        *,
        size: int | None = None,
        owner: int | None = None,
    ) -> None:
        """Keep a request that cannot be served, with the reason, in `data/dead/`. Raises OSError.

        Args:
            data: None if the file was not read: then only the reason is kept.
            size: bytes of the whole file; `data` may be only its beginning.
            owner: uid of the file, if it is not that of the inbox.
        """
        folder = self._dead / inbox.group / inbox.sender
        make_folders(folder)
        left_out = 0 if data is None or size is None else size - len(data)
        secrets: Mapping[str, int] = {}
        if data is not None and not self._keeps_secrets:
            data, secrets = redact_bytes(data)
        shown = printable(name.removesuffix(SUFFIX))
        for stem in _dead_stems(shown, data):
            path, reason_path = folder / f"{stem}.json", folder / f"{stem}.reason.json"
            is_kept = data is not None and _has_bytes(path, data)
            if not reason_path.exists():
                if is_kept or not os.path.lexists(path):
                    break
            elif is_kept or (data is None and not os.path.lexists(path)):
                return  # the same bytes again, e.g. after a crash: this letter exists
        at = time_stamp(datetime.now(UTC))
        reason = {"at": at, "group": inbox.group, "sender": inbox.sender, "name": shown + SUFFIX, "reason": why}
        if inbox.front is not None:
            reason["box"] = inbox.folder
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
        self.take(folder, len(said), *(() if data is None else (len(data),)))

    def read_for(self, opened: OpenInbox, name: str) -> Incoming:
        """Read a file that is too large for a request, up to the size limit of a letter."""
        return opened.read(name, _MAX_BURIED_BYTES)

    def take(self, folder: Path, *sizes: int) -> None:
        """Count files that were just written in a sender's folder, and remove letters above the limit."""
        with self._lock:
            if self._taken is None:
                self._taken = self._measure()
            else:
                self._taken[folder] = self._taken.get(folder, 0) + sum(map(_on_disk, sizes))
            if sum(self._taken.values()) <= self._max_bytes:
                return
            self._taken = self._measure()  # an operator may have dropped some
            if sum(self._taken.values()) > self._max_bytes:
                self._make_room(self._taken)

    def _measure(self) -> dict[Path, int]:
        return {folder: sum(letter.bytes for letter in _letters_in(folder)) for folder in self._dead.glob("*/*")}

    def _make_room(self, taken: dict[Path, int]) -> None:
        over = sum(taken.values()) - int(self._max_bytes * _KEPT)
        while over > 0 and taken:
            largest, *others = sorted(taken, key=taken.__getitem__, reverse=True)
            most = min(over, taken[largest] - (taken[others[0]] if others else 0) + self._max_bytes // 100)
            freed, letters = _remove_oldest(largest, most)
            if not letters:
                return  # none could be removed
            taken[largest] -= freed
            over -= freed
            log.warning(
                "dead.dropped",
                group=largest.parent.name,
                sender=largest.name,
                letters=letters,
                bytes=freed,
                now_what="see what this sender sends",
            )


def _letters_in(folder: Path) -> list[_Letter]:
    """Return the letters of a sender, oldest first."""
    found: dict[str, _Letter] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                stem = entry.name.removesuffix(_REASON).removesuffix(".json")
                before = found.get(stem, _Letter(status.st_mtime_ns, stem, 0))
                oldest = min(before.changed_ns, status.st_mtime_ns)
                found[stem] = _Letter(oldest, stem, before.bytes + _on_disk(status.st_size))
    return sorted(found.values())


def _remove_oldest(folder: Path, most: int) -> tuple[int, int]:
    """Remove letters until `most` bytes are free; return how many bytes and letters were removed."""
    freed = count = 0
    for letter in _letters_in(folder):
        if freed >= most:
            break
        try:
            (folder / f"{letter.stem}.json").unlink(missing_ok=True)
            (folder / f"{letter.stem}{_REASON}").unlink(missing_ok=True)
        except OSError:
            continue
        freed += letter.bytes
        count += 1
    return freed, count


def _on_disk(size: int) -> int:
    return -(-max(size, 1) // _BLOCK) * _BLOCK


def _dead_stems(shown: str, data: bytes | None) -> Iterator[str]:
    """Yield stems for a dead letter; none ends in `.reason`, which would be the reason of another letter."""
    stem = shown.replace("/", "%2f").replace("\\", "%5c").encode()[:_MAX_STEM_BYTES].decode("utf-8", "ignore")
    if not stem or stem.endswith(".reason"):
        stem += "%"
    yield stem
    digest = hashlib.sha256(data or b"").hexdigest()[:16]  # so that letters of one name are not compared one by one
    yield f"{stem}.{digest}"
    yield from (f"{stem}.{digest}.{number}" for number in itertools.count(2))


def _has_bytes(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _write_new(path: Path, data: bytes) -> None:
    fd = open_new(path)
    try:
        write_all(fd, data)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(fd)
