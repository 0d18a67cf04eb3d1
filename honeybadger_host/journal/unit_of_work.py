"""The decided, unwritten changes of a batch, as every store sees them.

A store is loaded on the worker thread before a request is decided (`load`, with arguments of its own), shows what will
be once everything decided so far is written (`view`), takes in each change as it is decided (`apply`), and forgets all
of it when the batch is over (`end_batch`). One batch at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from honeybadger_host.journal.changes import Change


class Store(Protocol):
    """The store of one kind of file while a batch is decided. Event loop."""

    def apply(self, change: Change) -> None:
        """Take in a change that was decided and is not written yet; those of other stores are passed over."""

    def end_batch(self, written: Sequence[Change]) -> None:
        """Drop applied changes and keep the written ones, which are fewer if something was refused or failed."""


class UnitOfWork:
    """All stores, told of every change."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores

    def apply(self, changes: Sequence[Change]) -> None:
        """Show these changes to later decisions."""
        for change in changes:
            for store in self._stores:
                store.apply(change)

    def end_batch(self, written: Sequence[Change]) -> None:
        """End the batch."""
        for store in self._stores:
            store.end_batch(written)
