"""The corpora in memory: loaded when a group is searched, updated with later changes, evicted when memory is full."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.log import log
from honeybadger_host.search.documents import BLOCK_DOCUMENTS, Document
from honeybadger_host.search.index_db import IndexFile
from honeybadger_host.search.index_vectors import IndexVectors

if TYPE_CHECKING:
    from honeybadger_host.search.corpus import Corpus

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class _Held:
    """A group's corpus.

    Args:
        generation: of the database when the corpus was loaded.
        changes: those not yet applied to the corpus, in order.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    corpus: Corpus | None = None
    generation: int = 0
    is_loading: bool = False
    changes: deque[Callable[[Corpus], None]] = field(default_factory=deque)


class Corpora:
    """The corpora of all groups. Thread-safe; one thread at a time searches a group.

    Args:
        max_memory_bytes: beyond it the least recently searched are evicted. A single corpus that is larger stays until
            `release` finds that it was not searched since the last `release`.
    """

    def __init__(self, db: IndexFile, vectors: IndexVectors | None, max_memory_bytes: int) -> None:
        self._db = db
        self._vectors = vectors
        self.max_memory_bytes = max_memory_bytes
        self._held: dict[str, _Held] = {}
        # Groups whose corpus is in memory, least recently searched first -> was it searched since `release`?
        self._used: OrderedDict[str, bool] = OrderedDict()
        self._lock = threading.Lock()  # taken after a group's lock

    @property
    def resident_bytes(self) -> int:
        in_memory = [self._held[group].corpus for group in list(self._used)]
        return sum(corpus.memory_bytes for corpus in in_memory if corpus is not None)

    def search(self, group: str, ask: Callable[[Corpus], ResultT]) -> ResultT:
        """Return the result of `ask` for a group's corpus, global documents included. Raises WorldFailed."""
        with self._lock:
            held = self._held.setdefault(group, _Held())
        with held.lock:
            self._bring_up(group, held)
            corpus = held.corpus
            if corpus is None or held.generation != self._db.generation:
                corpus = self._load(group, held)
                _apply(held.changes, corpus)
            with self._lock:
                self._used[group] = True
                self._used.move_to_end(group)
                while len(self._used) > 1 and self.resident_bytes > self.max_memory_bytes:
                    self._drop(next(iter(self._used)))
            return ask(corpus)

    def tell(self, group: str, change: Callable[[Corpus], None]) -> None:
        """Queue a change of a group for the corpora that hold it. Applying it twice is harmless."""
        for name, held in self._held.copy().items():
            if group in (name, GLOBAL_GROUP) and (held.corpus is not None or held.is_loading):
                held.changes.append(change)

    def apply_queued(self) -> None:
        """Apply queued changes in the background: one costs a search up to 30 ms."""
        for group, held in self._held.copy().items():
            if held.changes and held.corpus is not None:
                with held.lock:
                    self._bring_up(group, held)

    def release(self) -> None:
        """Evict corpora that were not searched since the last call, while all together are too large."""
        with self._lock:
            for name, is_searched in list(self._used.items()):
                if not is_searched and self.resident_bytes > self.max_memory_bytes:
                    self._drop(name)
                else:
                    self._used[name] = False

    def _bring_up(self, group: str, held: _Held) -> None:
        """Apply the queued changes to a corpus; evict one to which too much was added. The group's lock is held."""
        corpus = held.corpus
        if corpus is None or not held.changes:
            return
        _apply(held.changes, corpus)
        with self._lock:
            if held.corpus is corpus and corpus.later > BLOCK_DOCUMENTS:
                self._drop(group)  # loaded again, their postings are in the database

    def _drop(self, group: str) -> None:
        """Evict a corpus. The lock is held."""
        del self._used[group]
        self._held[group].corpus = None  # a running search still uses it, and its queued changes

    # -- loading ----------------------------------------------------------------------------------------------------

    def _load(self, group: str, held: _Held) -> Corpus:
        """Load and keep a corpus, with the global documents. The group's lock is held."""
        from honeybadger_host.search.blocks import Blocks
        from honeybadger_host.search.corpus import Corpus

        started, generation = time.monotonic(), self._db.generation
        held.changes.clear()
        held.is_loading = True  # from now on changes are kept for it
        try:
            numbers = sorted({self._db.group(name) for name in (GLOBAL_GROUP, group)})
            blocks = Blocks(self._db, numbers)
            while blocks.pack():
                pass
            corpus = Corpus(blocks)
            for block in blocks.read():
                corpus.load(block)
            corpus.remove(blocks.gone())
            if self._vectors is not None:
                self._vectors.load(numbers, corpus)
            held.corpus, held.generation = corpus, generation
        finally:
            held.is_loading = False
        log.debug("index.loaded", group=group, documents=len(corpus), seconds=round(time.monotonic() - started, 3))
        return corpus


def _apply(changes: deque[Callable[[Corpus], None]], corpus: Corpus) -> None:
    """Apply queued changes to a corpus. The group's lock is held."""
    while changes:
        changes.popleft()(corpus)


def change_documents(corpus: Corpus, added: Sequence[Document], removed: Sequence[int]) -> None:
    """Remove documents by their numbers, and add those that are not in the corpus yet."""
    corpus.remove(removed)
    corpus.add(document for document in added if corpus.row_of(document.number) is None)
