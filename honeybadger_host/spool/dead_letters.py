"""Dead letters: written, removed when a sender has too many, and listed, retried and dropped by operators.

A letter is kept until an operator drops it, or its sender has too many: then its oldest ones are removed. So an agent
that sends garbage can neither fill the disk nor push out others' letters.
"""

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.mailbox import REQUEST_ID, REQUESTS, TURNS, Mailbox
from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.files.safe_files import make_folders, printable, replace
from honeybadger_host.log import log
from honeybadger_host.memory.edited import read_json
from honeybadger_host.spool.inbox import SUFFIX, Inbox, open_box
from honeybadger_host.text.redaction import redact_bytes
from honeybadger_host.text.time_stamps import time_stamp

MAX_LETTERS = 1000  # of one sender; above it the oldest tenth is removed
_REASON = ".reason.json"
# Bytes of a request that are kept: searching them for credentials takes at most 0.3 s, and nobody repairs a longer
# request by hand.
MAX_BURIED_BYTES = 1024 * 1024
# Bytes of a letter's stem: a digest and `.reason.json` follow it, and a file name has at most 255 bytes.
_MAX_STEM_BYTES = 200


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that could not be served.

    Args:
        path: the file of its reason.
        data: its bytes, None when it was not a regular file.
    """

    path: Path
    reason: dict[str, Any]
    data: bytes | None

    @property
    def name(self) -> str:
        """`<group>/<sender>/<stem>`, as the commands take it."""
        return "/".join(self.path.parts[-3:]).removesuffix(_REASON)

    @property
    def bytes_path(self) -> Path:
        return self.path.with_name(self.path.name.removesuffix(_REASON) + ".json")

    @property
    def may_be_retried(self) -> bool:
        """Whether it is a whole request of its sender's own."""
        is_whole = self.data is not None and not self.reason.keys() & {"owner", "left_out"}
        return is_whole and REQUEST_ID.fullmatch(self.request_id) is not None

    @property
    def request_id(self) -> str:
        return str(self.reason.get("name")).removesuffix(SUFFIX)

    @property
    def text(self) -> str | None:
        """Its bytes as text; bytes that are no UTF-8 are escaped."""
        return None if self.data is None else self.data.decode("utf-8", "backslashreplace")


class DeadLetters:
    """All dead letters of a home. Any thread.

    Args:
        dead: the folder `data/dead`.
        keeps_secrets: credentials are not redacted.
    """

    def __init__(self, dead: Path, *, keeps_secrets: bool = False) -> None:
        self._dead = dead
        self._keeps_secrets = keeps_secrets
        self._counts: dict[Path, int] = {}  # folder of a sender -> its letters; missing: not counted yet
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
        for stem in _stems_of(shown, data):
            path, reason_path = folder / f"{stem}.json", folder / f"{stem}{_REASON}"
            is_same = _bytes_of(path) == data
            if is_same and reason_path.exists():
                return  # the same bytes again, e.g. after a crash: this letter exists
            if is_same or not (reason_path.exists() or os.path.lexists(path)):
                break
        reason = {
            "at": time_stamp(datetime.now(UTC)),
            "group": inbox.group,
            "sender": inbox.sender,
            "name": shown + SUFFIX,
            "reason": why,
            "box": inbox.folder if inbox.is_turns else "",
            "bytes": "" if data is None else str(len(data)),
            "owner": "" if data is None or owner is None else f"uid {owner}",
            "left_out": f"{left_out} of {size} bytes" if left_out > 0 else "",
            "redacted": ", ".join(f"{kind} ({count})" for kind, count in secrets.items()),
        }
        if data is not None:
            replace(path, data, is_durable=False)
        told = {key: value for key, value in reason.items() if value}
        said = orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        replace(reason_path, said, is_durable=False)
        self._make_room(folder)

    def _make_room(self, folder: Path) -> None:
        """Count a letter that was just written; remove the oldest ones of a sender that has too many."""
        with self._lock, contextlib.suppress(OSError):  # an operator dropped one meanwhile: the next letter tries again
            self._counts[folder] = self._counts.get(folder, MAX_LETTERS) + 1
            if self._counts[folder] <= MAX_LETTERS:
                return
            letters = sorted(folder.glob(f"*{_REASON}"), key=lambda path: (path.lstat().st_mtime_ns, path))
            oldest = letters[: len(letters) - MAX_LETTERS * 9 // 10] if len(letters) > MAX_LETTERS else []
            for path in oldest:
                drop_dead(DeadLetter(path, {}, None))
            self._counts[folder] = len(letters) - len(oldest)
            if oldest:
                log.warning(
                    "dead.dropped",
                    group=folder.parent.name,
                    sender=folder.name,
                    letters=len(oldest),
                    now_what="see what this sender sends",
                )


def _stems_of(shown: str, data: bytes | None) -> tuple[str, str]:
    """Return the stems that a letter may have; none ends in `.reason`, which would be the reason of another letter."""
    stem = shown.replace("/", "%2f").replace("\\", "%5c").encode()[:_MAX_STEM_BYTES].decode("utf-8", "ignore")
    if not stem or stem.endswith(".reason"):
        stem += "%"
    return stem, f"{stem}.{hashlib.sha256(data or b'').hexdigest()[:16]}"


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def list_dead(home: Path, begin: int = 0, end: int | None = None) -> Iterator[DeadLetter]:
    """Yield dead letters in the order of their names, from one place to another."""
    for name in dead_names(home)[begin:end]:
        yield _load(home, name)


def dead_names(home: Path) -> list[str]:
    """Return the names of all dead letters, sorted; none of them is read."""
    dead = home / "data" / "dead"
    return [str(path.relative_to(dead)).removesuffix(_REASON) for path in sorted(dead.glob(f"*/*/*{_REASON}"))]


def find_dead(home: Path, name: str) -> DeadLetter:
    """Return one dead letter. Raises NotFound."""
    if name not in dead_names(home):
        raise NotFound(f"there is no dead letter {name!r}: `honeybadger-host dead list` names them all")
    return _load(home, name)


def retry_dead(home: Path, letter: DeadLetter) -> None:
    """Put the request of a dead letter back into its inbox and remove the letter.

    Raises HostError, BadName, OSError.
    """
    group, sender, _ = letter.name.split("/", 2)
    if not letter.may_be_retried:
        raise HostError(
            f"{letter.name} cannot be tried again: it is no whole request of its sender's own, see `dead show` (its "
            "file was not read or was somebody else's, only its beginning was kept, or its name is no id)"
        )
    folder = TURNS if letter.reason.get("box") == TURNS else REQUESTS
    box = Inbox(group, sender, str(Mailbox.of(home, group, sender).root), folder=folder)
    with contextlib.closing(open_box(box)) as opened:
        owner = os.fstat(opened.requests_fd).st_uid
        if owner != os.geteuid():
            os.chown(letter.bytes_path, owner, -1)
        os.rename(letter.bytes_path, f"{letter.request_id}{SUFFIX}", dst_dir_fd=opened.requests_fd)
    drop_dead(letter)  # if the request has failed again meanwhile, its letter has another name


def drop_dead(letter: DeadLetter) -> None:
    """Remove a dead letter for good. Raises OSError."""
    letter.bytes_path.unlink(missing_ok=True)
    letter.path.unlink(missing_ok=True)


def _load(home: Path, name: str) -> DeadLetter:
    path = home / "data" / "dead" / f"{name}{_REASON}"
    try:
        reason = read_json(path.read_bytes())
    except (OSError, ValueError):
        reason = {"reason": "unknown: the reason file is damaged"}
    return DeadLetter(path, reason, _bytes_of(path.with_name(path.name.removesuffix(_REASON) + ".json")))
