"""Removes forgotten texts from the files of a machine that follows the owner of the home.

The record that forgets a text ends its stream of the log. A follower that reads this record still knows the text, and
removes it from its own files first. A follower that was away begins with a snapshot, and finds the forgotten texts by
comparing the snapshot with its own journal.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import anyio

from honeybadger_host.cluster.log import Names, logs_of, snapshots_of
from honeybadger_host.cluster.placing import is_known, wanted_of
from honeybadger_host.cluster.records import Position
from honeybadger_host.cluster.servers import Servers
from honeybadger_host.documents.history import read_pasts
from honeybadger_host.errors import StorageFailed, WorldFailed
from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.files.safe_files import remove_leftovers, replace
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.forgetting import Forgetting, begun_in, read_tombstones
from honeybadger_host.journal.opening import BEFORE
from honeybadger_host.journal.schema import reading
from honeybadger_host.memory.forgotten_files import files_of
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.ops.forget import forget_injected, remove_quotes, request_file
from honeybadger_host.ops.residue import Residue, scan_apart
from honeybadger_host.search.index import INDEX_FILE
from honeybadger_host.text.phrases import MIN_CHARACTERS, folded, said_in

# Below `data/`: files that are rebuilt on demand or were left by a kill.
_DERIVED: Final = (f"{INDEX_FILE}*", f"{JOURNAL_FILE}{BEFORE}*", "data/snapshot.tmp", "data/joining.tmp*")


def take_out(home: Path, plan: Forgetting) -> None:
    """Remove forgotten texts from the files of a machine whose host serves nobody. Raises WorldFailed."""
    phrases, names = plan.phrases, defaultdict[Path, set[str]](set)
    try:
        for file in files_of(home, plan.group):
            held = read_whole(home / file)
            made = None if held is None else phrases.in_bytes(held, is_all=file in plan.files)
            if made is not None and made != held:
                replace(home / file, made)
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
    own = [request_file(plan) for plan in plans]
    return anyio.run(scan_apart, home, texts, own) if texts else []


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
    ended = [name for name, first in logs_of(servers, names).items() if first <= position.seq + 1]
    ended = [name for name in ended if name != Names(names.identity, position.stream).stream]
    return ended + [name for name, last in snapshots_of(servers, names).items() if last < position.stream - 1]
