"""A machine that joins, or was away for long, begins with the newest snapshot of the journal."""

import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from honeybadger_host.cluster.files import take_out_lost
from honeybadger_host.cluster.log import Names
from honeybadger_host.cluster.records import CLEAN, NODE, diverged, name_of, read_kept
from honeybadger_host.cluster.servers import Servers
from honeybadger_host.cluster.snapshots import DIGEST_HEADER, finished_snapshots
from honeybadger_host.errors import JournalError, NotFound
from honeybadger_host.files.safe_files import closing_fd, make_file, sync_folder
from honeybadger_host.journal.forgetting import Forgetting
from honeybadger_host.journal.schema import FILES_BEHIND, connect, reading


def load_snapshot(servers: Servers, names: Names, journal: Path) -> list[Forgetting]:
    """Make the newest snapshot this machine's journal; return the texts forgotten since the previous one.

    All of its files are brought up to date afterwards. Raises NotFound if the servers have none; Unreachable;
    JournalError: it is damaged, or another journal's, and the one that is here stays.
    """
    for stream, end in finished_snapshots(servers, names):
        temporary = journal.with_name("joining.tmp")
        temporary.unlink(missing_ok=True)
        digest, last = hashlib.sha256(), 0
        make_file(temporary)
        with temporary.open("wb") as file:
            while last < end.seq:
                for message in servers.fetch(stream, last):
                    digest.update(message.data)
                    file.write(message.data)
                    last = message.seq
        if digest.hexdigest() != end.headers[DIGEST_HEADER]:
            raise JournalError(
                f"the snapshot {stream} is damaged: `honeybadger-host cluster init` publishes another, where the home "
                "is and no host runs"
            )
        lost: list[Forgetting] = []
        if journal.exists():
            _compare(temporary, journal)
            lost = take_out_lost(journal.parent.parent, journal, temporary)
        _put_in_place(temporary, journal)
        return lost
    raise NotFound(f"the servers have no snapshot of the home {names.identity}: is the identity right?")


def _compare(snapshot: Path, journal: Path) -> None:
    """Raise JournalError if a snapshot does not have the last change of the journal that it replaces."""
    with closing(sqlite3.connect(snapshot)) as taken, reading(journal) as here:
        what = "SELECT seq, at, grp, sender, request, file FROM changes"
        last = here.execute(f"{what} ORDER BY seq DESC LIMIT 1").fetchone()
        if last is not None and taken.execute(f"{what} WHERE seq = ?", last[:1]).fetchone() != last:
            raise diverged(read_kept(here).position.seq)


def _put_in_place(temporary: Path, journal: Path) -> None:
    with closing(connect(temporary)) as connection:
        clean, node = read_kept(connection).position.stream, name_of(journal.parent.parent)
        if journal.exists():
            with reading(journal) as here:
                kept = read_kept(here)
            clean, node = kept.clean, kept.node
        for row in ((FILES_BEHIND, 1), (CLEAN, clean), (NODE, node)):
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
    with closing_fd(os.open(temporary, os.O_RDONLY)) as fd:
        os.fsync(fd)
    for end in ("-wal", "-shm"):
        journal.with_name(journal.name + end).unlink(missing_ok=True)
    os.rename(temporary, journal)
    sync_folder(journal.parent)
