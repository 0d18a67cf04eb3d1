"""Indexes in memory for the rooms of tests; all of them are closed when the test ends (`conftest.py`)."""

from __future__ import annotations

from pathlib import Path

from honeybadger_host.search.index import Index

made: list[Index] = []


def index_of(home: Path) -> Index:
    """Return an index of a home that leaves no file."""
    made.append(Index(home, None, max_memory_bytes=100_000_000))
    return made[-1]
