"""Dead letters, for the operator: list, show, retry, drop."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.mailbox import NAME, REQUEST_ID, REQUESTS, TURNS, BadName, Mailbox, new_id
from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.files.safe_files import closing_fd, inside, open_new, write_all

_REASON = ".reason.json"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that could not be served.

    Args:
        name: `<group>/<sender>/<stem>`, as the commands take it.
        data: its bytes, None when it was not a regular file.
    """

    name: str
    reason: dict[str, Any]
    path: Path
    data: bytes | None

    @property
    def text(self) -> str | None:
        """Its bytes as text; bytes that are no UTF-8 are escaped."""
        return None if self.data is None else self.data.decode("utf-8", "backslashreplace")


def list_dead(home: Path) -> Iterator[DeadLetter]:
    for name in dead_names(home):
        yield _load(home, home / "data" / "dead" / f"{name}{_REASON}")


def dead_names(home: Path) -> list[str]:
    """Return the names of all dead letters, sorted; none of them is read."""
    dead = home / "data" / "dead"
    return [str(path.relative_to(dead)).removesuffix(_REASON) for path in sorted(dead.glob(f"*/*/*{_REASON}"))]


def find_dead(home: Path, name: str) -> DeadLetter:
    """Return one dead letter. Raises NotFound."""
    group, _, rest = name.partition("/")
    sender, _, stem = rest.partition("/")
    path = home / "data" / "dead" / group / sender / (stem + _REASON)
    if not (NAME.fullmatch(group) and NAME.fullmatch(sender)) or "/" in stem or not path.is_file():
        raise NotFound(f"there is no dead letter {name!r}: `honeybadger-host dead list` names them all")
    return _load(home, path)


def retry_dead(home: Path, letter: DeadLetter) -> None:
    """Put the request of a dead letter back into its inbox and remove the letter. Raises HostError."""
    group, sender, _ = letter.name.split("/", 2)
    stem = str(letter.reason.get("name")).removesuffix(".json")
    if letter.data is None or not REQUEST_ID.fullmatch(stem):
        raise HostError(f"{letter.name} cannot be tried again: it was not a file, or its name is not a request id")
    if "owner" in letter.reason:
        raise HostError(
            f"{letter.name} cannot be tried again: its file was somebody else's ({letter.reason['owner']}), and would "
            "become the sender's"
        )
    if "left_out" in letter.reason:
        raise HostError(f"{letter.name} cannot be tried again: only the beginning of it was kept")
    try:
        inbox = TURNS if letter.reason.get("box") == TURNS else REQUESTS
        with _set_aside(letter):
            _put_back(Mailbox.of(home, group, sender), inbox, f"{stem}.json", letter.data)
    except (BadName, OSError) as error:
        raise HostError(f"cannot put {letter.name} back: {error}") from None


@contextlib.contextmanager
def _set_aside(letter: DeadLetter) -> Iterator[None]:
    """Rename a dead letter while its request is put back, then remove it; if that fails, restore the name.

    A request that fails again becomes a dead letter of the same name at once, and that one must stay.
    """
    data = letter.path.with_name(letter.path.name.removesuffix(_REASON) + ".json")
    other = f"{letter.path.name.removesuffix(_REASON)}.{new_id()}"
    moved = {data: data.with_name(f"{other}.json"), letter.path: data.with_name(f"{other}{_REASON}")}
    for path, aside in moved.items():
        os.link(path, aside)  # the old names are removed only when both new ones exist
    drop_dead(letter)
    try:
        yield
    except BaseException:
        for path, aside in moved.items():
            os.rename(aside, path)
        raise
    for aside in moved.values():
        os.unlink(aside)


def _put_back(mailbox: Mailbox, inbox: str, name: str, data: bytes) -> None:
    """Write a request as its sender would. The folders are the sender's, so no link is followed and no file reused."""
    with inside(mailbox.root, inbox) as requests:
        temporary = f".{new_id()}.tmp"
        fd = open_new(temporary, within=requests)
        try:
            with closing_fd(fd):
                write_all(fd, data)
                owner = os.fstat(requests).st_uid
                if owner != os.geteuid():
                    os.fchown(fd, owner, -1)
                os.fsync(fd)
            os.rename(temporary, name, src_dir_fd=requests, dst_dir_fd=requests)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=requests)
            raise


def drop_dead(letter: DeadLetter) -> None:
    """Remove a dead letter for good. Raises HostError."""
    try:
        with contextlib.suppress(FileNotFoundError):
            letter.path.with_name(letter.path.name.removesuffix(_REASON) + ".json").unlink()
        letter.path.unlink(missing_ok=True)
    except OSError as error:
        raise HostError(f"cannot remove {letter.name}: {error.strerror}") from None


def _load(home: Path, reason_path: Path) -> DeadLetter:
    stem = reason_path.name.removesuffix(_REASON)
    name = f"{reason_path.parent.parent.name}/{reason_path.parent.name}/{stem}"
    try:
        reason = orjson.loads(reason_path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        reason = None
    if not isinstance(reason, dict):
        reason = {"reason": "unknown: the reason file is damaged"}
    try:
        data = (reason_path.with_name(stem + ".json")).read_bytes()
    except OSError:
        data = None
    return DeadLetter(name, reason, reason_path, data)
