"""The files of people whose edits are recorded: which they are, and one of them as it is now."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from honeybadger_agent.mailbox import GLOBAL_GROUP, HUMAN, NAME
from honeybadger_host.domain import ARCHIVE, GROUP_FILES, ROOT_GLOBAL_FILE
from honeybadger_host.storage.edits import Seen, digest_of
from honeybadger_host.storage.file_cache import is_young, signature_of
from honeybadger_host.storage.files import NotRegular, Signature, is_open_for_writing, open_plain, read_all

MOST_BYTES = 1 << 20  # of a larger file only a digest is kept
TEXTS: Final = (*GROUP_FILES, "HISTORY.md", "AGENT.md", ARCHIVE)  # of a group, besides its entries
# A program that has a file open for writing and has not written for longer is not saving it.
_RECENT_SECONDS: Final = 5.0


class Later(Exception):
    """A file cannot be judged now: it is being saved, or the host is about to write it."""


class PeoplesFile(NamedTuple):
    """A file as it is.

    Args:
        data: None: it is larger than is kept; then `digest` is of all of it, `prefix` of as much as was there before.
    """

    signature: Signature
    uid: int
    size: int
    data: bytes | None
    digest: bytes
    prefix: bytes


def document_group(file: str) -> str | None:
    """Return the group of a document, None when a file is none: all that `group_of` says, and JSON beside it."""
    match file.split("/"):
        case ["groups", group, "tasks" | "proposals", name] | ["groups", group, "archive", *_, name] if is_json_name(
            name
        ):
            return group if NAME.fullmatch(group) and _is_text(file) else None
        case _:
            return group_of(file)


def is_json_name(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def group_of(file: str) -> str | None:
    """Return the group whose log shows edits of a file below the home folder, None when it is not a person's file."""
    match file.split("/"):
        case [name] if name == ROOT_GLOBAL_FILE:
            return GLOBAL_GROUP
        case ["config", "agents", agent, name] if name.endswith(".md") and NAME.fullmatch(agent):
            return GLOBAL_GROUP if _is_text(file) else None
        case ["groups", group, "memory", *_, name] if is_json_name(name):
            return group if NAME.fullmatch(group) and _is_text(file) else None
        case ["groups", group, *rest] if "/".join(rest) in TEXTS:
            return group if NAME.fullmatch(group) else None
        case _:
            return None


def read_file(
    home: Path,
    file: str,
    known: Seen | None,
    is_calm: Callable[[Signature | None], bool],
    *,
    has_rows: bool,
    is_patient: bool,
) -> PeoplesFile | None:
    """Return a file as it is, None when there is none. Raises Later.

    Args:
        is_calm: whether the host has nothing to put back into a file with a signature; see `Projections.is_calm`.
        has_rows: the host changed it since it was looked at.
        is_patient: wait for a program that has it open for writing.
    """
    path = home / file
    seen_ns = time.time_ns()
    try:
        fd, status = open_plain(path)
    except (FileNotFoundError, NotADirectoryError, NotRegular):
        if not is_calm(None):
            raise Later from None
        return None
    except OSError:
        raise Later from None
    try:
        signature = Signature.of(status)
        if known is not None and signature == known.signature and not has_rows:
            return PeoplesFile(signature, status.st_uid, known.size, b"", known.digest, known.digest)
        if is_young(signature, seen_ns) or not is_calm(signature):
            raise Later
        is_recent = abs(time.time() - status.st_mtime) < _RECENT_SECONDS
        if is_recent and is_patient and is_open_for_writing(path):
            raise Later
        size = 0 if known is None else known.size
        if status.st_size <= MOST_BYTES:
            data = read_all(fd, status.st_size)
            made = PeoplesFile(signature, status.st_uid, len(data), data, digest_of(data), digest_of(data[:size]))
        else:
            digest, prefix = _digests(fd, size)
            made = PeoplesFile(signature, status.st_uid, status.st_size, None, digest, prefix)
        if Signature.of(os.fstat(fd)) != signature or signature_of(path) != signature:
            raise Later
        return made
    except OSError:
        raise Later from None
    finally:
        os.close(fd)


def _digests(fd: int, size: int) -> tuple[bytes, bytes]:
    """Return the digests of a file and of its first bytes."""
    whole, begin = hashlib.sha256(), b""
    at = 0
    while part := os.pread(fd, 1 << 20, at):
        if at <= size < at + len(part):
            first = whole.copy()
            first.update(part[: size - at])
            begin = first.digest()[:16]
        whole.update(part)
        at += len(part)
    digest = whole.digest()[:16]
    return digest, digest if at == size else begin


@lru_cache(maxsize=64)
def name_of(uid: int) -> str:
    """Return the author of what an owner saved: their name when it is not the host's user."""
    if uid == os.geteuid():
        return HUMAN
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"uid-{uid}"


def _is_text(file: str) -> bool:
    try:
        file.encode()
    except UnicodeEncodeError:
        return False
    return True
