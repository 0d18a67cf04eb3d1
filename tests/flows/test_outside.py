"""A journal with rows of somebody else: no file outside the home is written."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from honeybadger_agent import SyncClient
from honeybadger_host.cluster.files import place_files
from honeybadger_host.errors import JournalError
from honeybadger_host.files.home import make_home
from honeybadger_host.journal.schema import FILES_BEHIND, connect
from tests.conftest import HostFactory
from tests.hosting import HostProcess


def forge_row(home: Path, kind: str, file: str) -> None:
    """Add a change behind the last one, as a record of several machines or a forged backup could."""
    with closing(connect(home / "data/journal.db")) as journal:
        seq, at = journal.execute("SELECT max(seq), max(at) FROM changes").fetchone()
        row = (seq + 1, at, "main", "x", "r", kind, file, -1, b"## Notes (x, 2026-01-01 00:00)\n- forged\n")
        journal.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


@pytest.fixture
def killed(make_host: HostFactory, tmp_path: Path) -> HostProcess:
    """A host that was killed after a note; its home lies deep enough to see what escapes."""
    home = tmp_path / "a" / "b" / "home"
    home.parent.mkdir(parents=True)
    make_home(home)
    host = make_host(home=home).start()
    SyncClient(home, "main", "ann").update_memory("a note")
    host.kill()
    return host


def test_a_host_writes_nothing_outside_its_home(killed: HostProcess, tmp_path: Path) -> None:
    home = killed.home
    places = ("../../escaped.md", "groups/../../escaped.md", str(tmp_path / "escaped.md"))
    for kind, file in zip(("note", "text", "entry"), places, strict=True):
        forge_row(home, kind, file)
        killed.launch()
        assert killed.wait() == 6
        assert "outside the home" in killed.process.tail()
        assert list(tmp_path.rglob("escaped.md")) == []
        with closing(connect(home / "data/journal.db")) as journal:
            journal.execute("DELETE FROM changes WHERE seq = (SELECT max(seq) FROM changes)")


def test_the_next_owner_writes_nothing_outside_its_home(killed: HostProcess, tmp_path: Path) -> None:
    home = killed.home
    forge_row(home, "text", "../escaped.md")
    with closing(sqlite3.connect(home / "data/journal.db", isolation_level=None)) as journal:
        journal.execute("INSERT INTO meta VALUES (?, 1)", (FILES_BEHIND,))
    with pytest.raises(JournalError, match="outside the home"):
        place_files(home, home / "data/journal.db")
    assert list(tmp_path.rglob("escaped.md")) == []
