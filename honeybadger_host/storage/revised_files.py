"""A file gets the text that a row of `revised` makes of it.

It is replaced in one step, and only the very text that was read. The old file keeps a second, hidden name until the
change has settled: a program that opened it just before may save into it after that, and then its text counts.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Literal

import structlog

from honeybadger_host.errors import WorldFailed
from honeybadger_host.storage.atomic_files import fingerprint, read_whole
from honeybadger_host.storage.file_cache import signature_of
from honeybadger_host.storage.files import (
    NotRegular,
    Signature,
    alone_with,
    closing_fd,
    is_open_for_writing,
    open_plain,
    read_all,
    sync_folder,
    write_beside,
)
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.revised import new_text, revision_of

log = structlog.get_logger()


def sync_base(path: Path, base: bytes) -> None:
    """See that a file holds what a revision was decided upon, durably. Raises WorldFailed; nothing was changed."""
    if read_whole(path) != base:
        raise WorldFailed(f"{path} was changed meanwhile")
    if is_open_for_writing(path):
        raise WorldFailed(f"{path} is open for writing in another program")
    try:
        fd, _ = open_plain(path)
        with closing_fd(fd):
            os.fsync(fd)
    except (OSError, NotRegular) as error:
        raise WorldFailed(f"cannot make {path} durable: {error}") from error


def revise(path: Path, row: Row) -> Signature | None:
    """Give a file the text that a row makes of it; None: it has it, or somebody's, which stays. Raises WorldFailed.

    Durable when it returns: the journal does not have the rest of the text.
    """
    kept = _kept(path, row)
    try:
        if kept.exists():
            if not kept.samefile(path):
                return None  # it was done before the host was killed
            kept.unlink()
        fd, status = open_plain(path)
    except (FileNotFoundError, NotADirectoryError, NotRegular):
        return None
    except OSError as error:
        raise WorldFailed(f"{path} cannot be read ({error.strerror})") from error
    try:
        held = read_all(fd, status.st_size)
        if fingerprint(held) != row.offset or is_open_for_writing(path):
            revision = revision_of(row.data)
            if fingerprint(held[: revision.size]) != revision.to:
                log.info("projection.kept", file=row.file, seq=row.seq, why="somebody changed it meanwhile")
            return None
        temporary = write_beside(path, new_text(held, row), mode=stat.S_IMODE(status.st_mode) & 0o777)
        try:
            with alone_with(fd):
                if signature_of(path) != Signature.of(status):
                    log.info("projection.kept", file=row.file, seq=row.seq, why="somebody changed it meanwhile")
                    return None
                with contextlib.suppress(OSError):  # where a file can have one name only, it has one
                    os.link(path, kept, follow_symlinks=False)
                os.rename(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
        return signature_of(path)
    except OSError as error:
        raise WorldFailed(f"cannot write {path}: {error.strerror}") from error
    finally:
        os.close(fd)


def take_late_save(path: Path, row: Row, behind: bytes) -> Literal["no", "perhaps", "yes"]:
    """Give a file what a program saved into its old text after a row replaced it. Raises WorldFailed.

    Returns "perhaps": a program has the old text open.

    Args:
        behind: what the host appended since.
    """
    kept = _kept(path, row)
    beside = kept.with_name(f"{kept.name}.new")
    try:
        if beside.exists():  # a kill left it
            beside.unlink() if kept.exists() else os.rename(beside, kept)
        if not kept.exists():
            return "no"
        is_same = path.exists() and kept.samefile(path)
        if not is_same and is_open_for_writing(kept):
            return "perhaps"
        held, revision = read_whole(kept) or b"", revision_of(row.data)  # nobody can write to it any more
        rest = held[revision.size :]
        is_ours = fingerprint(held[: revision.size]) == revision.to and behind.startswith(rest)
        if is_same or is_ours or fingerprint(held) == row.offset:
            kept.unlink()
            return "no"
        now_held = read_whole(path) or b""
        if fingerprint(now_held[: revision.size]) != revision.to or now_held[revision.size :] != behind:
            aside = path.with_name(f"{path.stem}, saved over change {row.seq}{path.suffix}")
            log.warning("projection.set_aside", file=row.file, seq=row.seq, to=aside.name)
            os.rename(kept, aside)
            return "no"
        os.link(path, beside, follow_symlinks=False)  # somebody may have opened this one just now
        os.rename(kept, path)
        os.rename(beside, kept)
    except OSError as error:
        raise WorldFailed(f"cannot write {path}: {error.strerror}") from error
    log.info("projection.kept", file=row.file, seq=row.seq, why="somebody saved it meanwhile")
    return "yes"


def _kept(path: Path, row: Row) -> Path:
    """Return the second name of what a row replaced."""
    return path.with_name(f".{path.name}.before-{row.seq}")
