"""A journal with rows of somebody else: no file outside the home is written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from honeybadger_agent import SyncClient
from honeybadger_host.cluster.files import place_files
from honeybadger_host.errors import JournalError
from honeybadger_host.journal.schema import FILES_BEHIND, connect
from tests.conftest import HostFactory


def forge_row(home: Path, kind: str, file: str) -> None:
    """Add a change behind the last one, as a record of several machines or a forged backup could."""
    with closing(connect(home / "data/journal.db")) as journal:
        seq, at = journal.execute("SELECT max(seq), max(at) FROM changes").fetchone()
        row = (seq + 1, at, "main", "x", "r", kind, file, -1, b"## Notes (x, 2026-01-01 00:00)\n- forged\n")
        journal.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


@pytest.mark.parametrize("kind", ["note", "text", "entry"])
@pytest.mark.parametrize("file", ["../../../escaped.md", "groups/../../escaped.md", "/ABSOLUTE/escaped.md"])
def test_a_host_writes_nothing_outside_its_home(make_host: HostFactory, home: Path, kind: str, file: str) -> None:
    host = make_host().start()
    SyncClient(home, "main", "ann").update_memory("a note")
    host.kill()
    forge_row(home, kind, file.replace("/ABSOLUTE", str(home.parent)))
    before = sorted(home.parent.parent.rglob("escaped.md"))
    host.launch()
    assert host.wait() == 6
    assert "outside the home" in host.process.tail()
    assert sorted(home.parent.parent.rglob("escaped.md")) == before == []


def test_the_next_owner_writes_nothing_outside_its_home(make_host: HostFactory, home: Path) -> None:
    host = make_host().start()
    SyncClient(home, "main", "ann").update_memory("a note")
    host.kill()
    forge_row(home, "text", "../escaped.md")
    with closing(sqlite3.connect(home / "data/journal.db", isolation_level=None)) as journal:
        journal.execute("INSERT INTO meta VALUES (?, 1)", (FILES_BEHIND,))
    with pytest.raises(JournalError, match="outside the home"):
        place_files(home, home / "data/journal.db")
    assert not (home.parent / "escaped.md").exists()
