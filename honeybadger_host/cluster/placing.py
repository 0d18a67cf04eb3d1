"""The files of a machine that owns a home again after others did: what the journal says they hold by now.

A person may have edited a file here that nobody looked at before another machine became the owner. Such a text is
moved aside, never lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from honeybadger_host.cluster.records import FILES_BEHIND
from honeybadger_host.domain import REMOVED
from honeybadger_host.errors import HomeError, WorldFailed
from honeybadger_host.memory.file_history import Event, Past, read_pasts, versions
from honeybadger_host.storage.atomic_files import WHOLE_KINDS, make_room, read_whole
from honeybadger_host.storage.edits import Edit, digest_of
from honeybadger_host.storage.files import make_folders, replace, sync_folder
from honeybadger_host.storage.journal_schema import (
    Marks,
    Row,
    Transaction,
    connect,
    read_marks,
    reading,
    write_marks,
)

log = structlog.get_logger()

KEPT: Final = "data/replaced"
"""Where texts are moved that only this machine had."""


class Wanted(NamedTuple):
    """A file as the journal has it.

    Args:
        text: None: there is none.
        is_known: else the text is not, for it was too large to be kept.
        held: digests of what it held since this machine's files were kept up.
    """

    file: str
    text: bytes | None
    is_known: bool
    held: Collection[bytes]


def place_files(home: Path, journal: Path) -> int:
    """Bring the files up to date, if others owned the home meanwhile; return how many were written. Raises HomeError.

    A kill in the middle leaves the mark that they are behind: then all of it is done again.
    """
    with reading(journal) as connection:
        if connection.execute("SELECT 1 FROM meta WHERE key = ?", (FILES_BEHIND,)).fetchone() is None:
            return 0
        since = read_marks(connection).projected_seq
        last = max(
            connection.execute(f"SELECT coalesce(max(seq), 0) FROM {table}").fetchone()[0]  # noqa: S608  constants
            for table in ("changes", "edits")
        )
        behind = {
            file: first
            for table in ("edits", "changes")
            for file, first in connection.execute(
                f"SELECT file, min(seq) FROM {table} WHERE seq > ? GROUP BY file",  # noqa: S608  constants
                (since,),
            )
        }
        seen = [file for (file,) in connection.execute("SELECT file FROM seen WHERE text IS NOT NULL")]
    names = dict.fromkeys((*behind, *(file for file in seen if not os.path.lexists(home / file))))
    placed, unsettled, folders = 0, dict[str, int](), set[Path]()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    try:
        for past in read_pasts(journal, list(names)):
            wanted = _read(past, since)
            if not wanted.is_known:
                log.warning(
                    "cluster.text_not_kept", file=wanted.file, now_what="copy it from the machine it was edited on"
                )
                if wanted.file in behind:
                    unsettled[wanted.file] = behind[wanted.file]
            elif _place(home, wanted, stamp):
                folders.add((home / wanted.file).parent)
                placed += 1
        for folder in folders:
            with suppress(FileNotFoundError):
                sync_folder(folder)
    except OSError as error:
        raise HomeError(
            f"{error.filename}: {error.strerror}: the files of the home cannot be brought up to date"
        ) from None
    except WorldFailed as error:
        raise HomeError(f"{error}; the files of the home cannot be brought up to date") from None
    with closing(connect(journal)) as writer, Transaction(writer, journal) as connection:
        write_marks(connection, Marks(last, unsettled), read_marks(connection))
        connection.execute("DELETE FROM meta WHERE key = ?", (FILES_BEHIND,))
    return placed


def _read(past: Past, since: int) -> Wanted:
    last = past.events[-1] if past.events else None
    held = {digest for event in past.events for digest in _digests(event)}
    if past.seen is not None:
        held.add(past.seen.digest)
    if isinstance(last, Row) and last.kind in WHOLE_KINDS:
        return Wanted(past.file, None if last.kind.endswith(REMOVED) else last.data, True, held)
    text, is_known, is_there = b"", False, False
    for event, version in versions(past):
        text, is_known, is_there = version.text, version.is_known, version.is_there
        if event is None or event.seq >= since:
            held.add(digest_of(text))
    return Wanted(past.file, text if is_there else None, is_known, held)


def _digests(event: Event) -> Iterator[bytes]:
    if isinstance(event, Edit):
        yield from (digest for digest in (event.before, event.after) if digest)
    elif event.kind in WHOLE_KINDS:
        yield digest_of(event.data)


def _place(home: Path, wanted: Wanted, stamp: str) -> bool:
    """Give a file its text; return whether it had another. Raises WorldFailed, OSError."""
    path = home / wanted.file
    held = read_whole(path)
    if held == wanted.text:
        return False
    is_torn = held is not None and (wanted.text or b"").startswith(held)
    if held is not None and not is_torn and digest_of(held) not in wanted.held:
        kept = home / KEPT / stamp / wanted.file
        make_folders(kept.parent)
        replace(kept, held)
        log.warning("cluster.kept_aside", file=wanted.file, kept=str(kept.relative_to(home)))
    if wanted.text is None:
        os.unlink(path)
    else:
        make_room(path)
        replace(path, wanted.text)
    return True
