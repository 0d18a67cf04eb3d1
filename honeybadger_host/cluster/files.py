"""The files of a machine: brought up to date when it becomes the owner of a home, and rid of what was forgotten.

A person may have edited a file here while another machine owned the home. Such a text is moved aside, never lost.

The record that forgets a text ends its stream of the log. A follower that reads this record still knows the text, and
removes it from its own files first. A follower that was away begins with a snapshot, and finds the forgotten texts by
comparing the snapshot with its own journal.
"""

import dataclasses
import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import anyio

from honeybadger_host.cluster.log import Names, logs_of, snapshots_of
from honeybadger_host.cluster.records import Position
from honeybadger_host.cluster.servers import Servers
from honeybadger_host.documents.history import Blamed, Past, Version, read_pasts, version_at
from honeybadger_host.errors import HomeError, StorageFailed, WorldFailed
from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.files.safe_files import make_folders, path_in, remove_leftovers, replace, sync_all
from honeybadger_host.journal.changes import REMOVED, WHOLE_KINDS, fingerprint, make_room, read_whole
from honeybadger_host.journal.edits import digest_of, edit_of, is_edit, is_first
from honeybadger_host.journal.forgetting import Forgetting, begun_in, read_tombstones
from honeybadger_host.journal.opening import BEFORE
from honeybadger_host.journal.schema import (
    FILES_BEHIND,
    LAST_SEQ,
    Marks,
    connect,
    read_marks,
    reading,
    transaction,
    write_marks,
)
from honeybadger_host.log import log
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.peoples_files import REPLACED, files_of
from honeybadger_host.ops.forget_files import files_with, forget_injected, remove_quotes, request_file
from honeybadger_host.ops.residue import Residue, scan_apart
from honeybadger_host.search.index import INDEX_FILE
from honeybadger_host.text.phrases import MIN_CHARACTERS, folded, said_in


def place_files(home: Path, journal: Path) -> int:
    """Bring the files up to date, if others owned the home meanwhile; return how many were written. Raises HomeError.

    A kill in the middle leaves the mark that they are behind: then all of it is done again.
    """
    with reading(journal) as connection:
        if connection.execute("SELECT 1 FROM meta WHERE key = ?", (FILES_BEHIND,)).fetchone() is None:
            return 0
        since = read_marks(connection).projected_seq
        (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()
        behind: dict[str, int] = dict(
            connection.execute("SELECT file, min(seq) FROM changes WHERE seq > ? GROUP BY file", (since,))
        )
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
    except (OSError, WorldFailed) as error:
        raise HomeError(f"the files of the home cannot be brought up to date: {error}") from None
    with closing(connect(journal)) as writer, transaction(writer, journal) as connection:
        write_marks(connection, Marks(last, unsettled))
        connection.execute("DELETE FROM meta WHERE key = ?", (FILES_BEHIND,))
    return len(written)


def wanted_of(past: Past) -> Version:
    """Return a file as the journal has it. It is not known if it was too large to be kept."""
    last = past.rows[-1] if past.rows else None
    if last is not None and last.kind in WHOLE_KINDS:
        return Version([Blamed(last.data, last)], is_known=True, is_there=not last.kind.endswith(REMOVED))
    return version_at(past, LAST_SEQ)


def is_known(past: Past, text: bytes) -> bool:
    """Return whether the journal has the text of a file here."""
    digests = set() if past.seen is None else {past.seen.digest}
    for row in past.rows:
        if is_edit(row):
            digests.add(edit_of(row).after or b"")
        elif row.kind in WHOLE_KINDS or is_first(row):
            digests.add(digest_of(row.data))
    return digest_of(text) in digests or fingerprint(text) in {row.offset for row in past.rows}


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


# Below `data/`: files that are rebuilt on demand or were left by a kill.
_DERIVED = (f"{INDEX_FILE}*", f"{JOURNAL_FILE}{BEFORE}*", "data/snapshot.tmp", "data/joining.tmp*")


def take_out(home: Path, plan: Forgetting) -> None:
    """Remove forgotten texts from the files of a machine whose host serves nobody. Raises WorldFailed."""
    names = defaultdict[Path, set[str]](set)
    try:
        for file, _, made in files_with(home, plan):
            replace(home / file, made)
        for file in files_of(home, plan.group):
            names[(home / file).parent].add(Path(file).name)
        for folder, some in names.items():
            remove_leftovers(folder, some)
    except OSError as error:
        raise WorldFailed(f"cannot take out of {error.filename} what is forgotten: {error.strerror}") from error
    remove_quotes(home, plan)
    with closing(InjectionLedger(home)) as ledger:
        forget_injected(ledger, plan)


def remove_derived(home: Path) -> None:
    """Remove rebuildable files that may hold a text the journal no longer has. Raises StorageFailed."""
    try:
        for path in (path for name in _DERIVED for path in home.glob(name)):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageFailed(f"cannot remove {error.filename}: {error.strerror}") from error


def look_for(home: Path, plans: Sequence[Forgetting]) -> list[Residue]:
    """Return where texts are left below a home. Takes as long as every byte of it. Raises WorldFailed."""
    texts = [text for plan in plans for text in (*plan.asked, *plan.parts)]
    return anyio.run(scan_apart, home, texts, [*map(request_file, plans)]) if texts else []


# ------------------------------------------------------------------------------------------- from another's snapshot


def take_out_lost(home: Path, journal: Path, snapshot: Path) -> list[Forgetting]:
    """Remove from a machine's files the texts that its journal has and its new snapshot has not; return these texts.

    A file that the journal knows is removed: it is written again when this machine owns the home. Raises WorldFailed,
    JournalError.
    """
    with reading(journal) as here, reading(snapshot) as there:
        plans = [*_lost(here, there)]
    found: list[Forgetting] = []
    for plan in plans:
        forgotten, said = read_tombstones(snapshot, plan.group), set(plan.parts)
        for past in read_pasts(journal, [*files_of(home, plan.group)]):
            held = read_whole(home / past.file) or b""
            if held and wanted_of(past).is_known and is_known(past, held):
                (home / past.file).unlink()
            else:
                said.update(forgotten.found_in(held.decode("utf-8", "replace")))
        found.append(dataclasses.replace(plan, parts=[*said]))
        take_out(home, found[-1])
    return found


def _lost(here: sqlite3.Connection, there: sqlite3.Connection) -> Iterator[Forgetting]:
    """Yield the texts that one journal has and a later journal of the same home has not."""
    begun = begun_in(here)
    if begun is not None:
        yield begun
    said = defaultdict[str, set[str]](set)
    for group, seq, held in there.execute("SELECT grp, seq, data FROM changes JOIN emptied USING (seq)"):
        row = here.execute("SELECT data FROM changes WHERE seq = ?", (seq,)).fetchone()
        if row is not None and row[0] != held:
            said[group] |= _lines(row[0]) - _lines(held)
    for group, texts in said.items():
        parts = [text for text in texts if len(folded(text)) >= MIN_CHARACTERS]
        yield Forgetting(group, parts=parts, wholes=[*texts.difference(parts)])


def _lines(data: bytes) -> set[str]:
    return {line.strip() for text in said_in(data) for line in text.split("\n") if line.strip()}


# --------------------------------------------------------------------------------------------------------- on servers


def ended_streams(servers: Servers, names: Names, position: Position) -> list[str]:
    """Return the streams of a home that no machine needs any more once there is a snapshot at a position.

    A stream that another owner begins meanwhile has a later number, so an earlier owner never removes it. Raises
    Unreachable.
    """
    here = names._replace(first=position.stream).stream
    ended = [name for name, first in logs_of(servers, names).items() if first <= position.seq + 1 and name != here]
    return ended + [name for name, last in snapshots_of(servers, names).items() if last < position.stream - 1]
