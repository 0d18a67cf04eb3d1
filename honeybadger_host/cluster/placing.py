"""Brings the files of a machine up to date when it becomes the owner of a home after others.

A person may have edited a file here while another machine owned the home. Such a text is moved aside, never lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import structlog

from honeybadger_host.documents.history import Past, Version, read_pasts, version_at, versions
from honeybadger_host.errors import HomeError, WorldFailed
from honeybadger_host.files.safe_files import make_folders, path_in, replace, sync_all
from honeybadger_host.journal.changes import REMOVED, WHOLE_KINDS, make_room, read_whole
from honeybadger_host.journal.edits import digest_of, edit_of, is_append, is_edit
from honeybadger_host.journal.schema import (
    FILES_BEHIND,
    LAST_SEQ,
    Marks,
    Row,
    connect,
    read_marks,
    reading,
    transaction,
    write_marks,
)
from honeybadger_host.memory.forgotten_files import REPLACED

log = structlog.get_logger()


def place_files(home: Path, journal: Path) -> int:
    """Bring the files up to date, if others owned the home meanwhile; return how many were written. Raises HomeError.

    A kill in the middle leaves the mark that they are behind: then all of it is done again.
    """
    with reading(journal) as connection:
        if connection.execute("SELECT 1 FROM meta WHERE key = ?", (FILES_BEHIND,)).fetchone() is None:
            return 0
        since = read_marks(connection).projected_seq
        (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()
        query = "SELECT file, min(seq) FROM changes WHERE seq > ? GROUP BY file"
        behind: dict[str, int] = dict(connection.execute(query, (since,)))
        seen = [file for (file,) in connection.execute("SELECT file FROM seen WHERE text IS NOT NULL")]
    names = dict.fromkeys((*behind, *(file for file in seen if not os.path.lexists(path_in(home, file)))))
    unsettled, written = dict[str, int](), list[Path]()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    try:
        for past in read_pasts(journal, list(names)):
            wanted = wanted_of(past)
            if not wanted.is_known:
                log.warning(
                    "cluster.text_not_kept", file=past.file, now_what="copy it from the machine it was edited on"
                )
                if past.file in behind:
                    unsettled[past.file] = behind[past.file]
            elif _place(home, past, wanted.text if wanted.is_there else None, stamp):
                written.append(path_in(home, past.file))
        sync_all(written, home)
    except OSError as error:
        raise HomeError(
            f"{error.filename}: {error.strerror}: the files of the home cannot be brought up to date"
        ) from None
    except WorldFailed as error:
        raise HomeError(f"{error}; the files of the home cannot be brought up to date") from None
    with closing(connect(journal)) as writer, transaction(writer, journal) as connection:
        write_marks(connection, Marks(last, unsettled), read_marks(connection))
        connection.execute("DELETE FROM meta WHERE key = ?", (FILES_BEHIND,))
    return len(written)


def wanted_of(past: Past) -> Version:
    """Return a file as the journal has it. It is not known if it was too large to be kept."""
    last = past.rows[-1] if past.rows else None
    if last is not None and last.kind in WHOLE_KINDS:
        return Version([last.data], is_known=True, is_there=not last.kind.endswith(REMOVED))
    return version_at(past, LAST_SEQ)


def is_known(past: Past, text: bytes) -> bool:
    """Return whether the journal has the text of a file here, or a text that begins with it."""
    digest = digest_of(text)
    if (past.seen is not None and past.seen.digest == digest) or any(digest in _digests(row) for row in past.rows):
        return True
    if past.rows and past.rows[-1].kind in WHOLE_KINDS:
        return False
    for number, (_, version) in enumerate(versions(past)):
        if number < len(past.rows) and is_append(past.rows[number]):
            continue  # a later version begins with this one; comparing the text after every note takes minutes
        if version.is_known and version.text.startswith(text):
            return True
    return False


def _digests(row: Row) -> Iterator[bytes]:
    if is_edit(row):
        edit = edit_of(row)
        yield from (digest for digest in (edit.before, edit.after) if digest)
    elif row.kind in WHOLE_KINDS:
        yield digest_of(row.data)


def _place(home: Path, past: Past, text: bytes | None, stamp: str) -> bool:
    """Write a file, or remove it; return whether it had another text. Raises WorldFailed, OSError."""
    path = path_in(home, past.file)
    held = read_whole(path)
    if held == text:
        return False
    if held is not None and not (text or b"").startswith(held) and not is_known(past, held):
        kept = home / REPLACED / stamp / past.file
        make_folders(kept.parent)
        replace(kept, held)
        log.warning("cluster.kept_aside", file=past.file, kept=str(kept.relative_to(home)))
    if text is None:
        os.unlink(path)
    else:
        make_room(path)
        replace(path, text, is_durable=False)
    return True
