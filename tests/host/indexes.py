"""Indexes in memory, ledgers and journals of tests; all of them are closed when the test ends (`conftest.py`)."""

from pathlib import Path

from honeybadger_host.journal.journal import Journal
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.search.index import Index

made: list[Index | InjectionLedger | Journal] = []


def index_of(home: Path) -> Index:
    """Return an index of a home that leaves no file."""
    index = Index(home, None, max_memory_bytes=100_000_000)
    made.append(index)
    return index


def ledger_of(home: Path) -> InjectionLedger:
    """Return the ledger of a home."""
    ledger = InjectionLedger(home)
    made.append(ledger)
    return ledger
