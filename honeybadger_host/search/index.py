"""The search index: derived from the files, kept in `data/index.db`; it can be deleted at any time without loss.

`touch` says that a file may have changed; the next search of its group reads it first, so that a group finds
everything it has saved. Changes from outside (an editor, a sync tool, a run that was killed) are found by comparing
every file's signature with the one it was indexed with. `work` reads large amounts in batches, and writes the postings
of large groups, while searches are answered from the indexed part. `embed` embeds texts when there is an embedder.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME
from honeybadger_agent.wire import is_store
from honeybadger_host.documents.in_use import Extent
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.safe_files import Signature
from honeybadger_host.search.corpora import Corpora, change_documents
from honeybadger_host.search.documents import BLOCK_DOCUMENTS
from honeybadger_host.search.index_db import IN_ONE_QUERY, INDEX_FILE, IndexFile
from honeybadger_host.search.index_vectors import IndexVectors, put_vectors
from honeybadger_host.search.indexer import IndexWriter
from honeybadger_host.search.language.analyzer import forget_words
from honeybadger_host.search.lookups import Found, Lookups
from honeybadger_host.search.sources import archive_of, files_called, groups_of, source_of

if TYPE_CHECKING:
    from honeybadger_host.search.corpus import Corpus
    from honeybadger_host.search.embeddings import Embedder, Floats

__all__ = ["INDEX_FILE", "Index"]

ResultT = TypeVar("ResultT")

# Up to this many changed files are read before a search is answered (0.2 s); more are read in the background.
_MAX_FILES_NOW = 2000
# Reads before a search is answered, each of a batch of files or 256 KiB (50 ms); the rest of a MEMORY.md of many MiB is
# read in the background.
_MAX_PARTS_NOW = 16
# When a new folder appears, groups of up to this many documents are compared before the search is answered: 0.2 s.
MAX_COMPARED_NOW = 20_000
# How long a step of background work, of at most 50 ms, waits for a search: it goes on while many search. With 100,000
# entries and turns the first search after a start takes 0.37 s (two cores, alternating), without the pause 0.45 to 0.7.
_MAX_PAUSE_SECONDS = 0.25
_MAX_TRIES = 3  # attempts of a search when the database is rebuilt during it
_NEXT = "\0"  # between two names of a batch


@dataclass(slots=True)
class _Group:
    """The files of a group.

    Args:
        fresh: files to read before the next search is answered.
        folders: of entries, below the home folder.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    fresh: dict[str, None] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)


class Index:
    """The index of a home. Thread-safe.

    Args:
        path: of the database; None keeps it in memory.
        max_memory_bytes: see `Corpora`.
        embedder: makes vectors of texts; None ranks by words alone and keeps existing vectors.
        read_version: returns the last good version of a broken file, see `Projections.read`; None: there is none.
        extent_of: (file, its signature) -> the extent of the document, see `Saves.extent_of`.
    """

    def __init__(
        self,
        home: Path,
        path: Path | None,
        *,
        max_memory_bytes: int,
        embedder: Embedder | None = None,
        read_version: Callable[[str], bytes | None] = lambda file: None,
        extent_of: Callable[[str, Signature], Extent | None] = lambda file, signature: None,
    ) -> None:
        self._home = home
        self._groups: dict[str, _Group] = {}
        # Groups whose files were not compared with the index since the start, or since a folder appeared -> since when.
        self._uncompared: dict[str, object] = {}
        # Group -> batches of its files to read in the background, the names of each in one text: as 100,000 strings
        # they take 14 MiB, and leave holes in the memory.
        self._backlogs: dict[str, deque[str]] = {}
        self._db = IndexFile(path, self._start_over)  # its lock is taken after a group's, never before
        self._writer = IndexWriter(home, self._db, read_version, extent_of)
        self._vectors = None if embedder is None else IndexVectors(self._db, embedder)
        self._corpora = Corpora(self._db, self._vectors, max_memory_bytes)
        self.lookups = Lookups(self._db)
        self._newest_search = threading.Event()  # set when it has ended
        self._newest_search.set()
        # Documents by group number that came or went since blocks were last written.
        self._unpacked: Counter[int] = Counter()
        if self._vectors is not None:
            self._vectors.find()

    def close(self) -> None:
        self._db.close()

    def status(self) -> dict[str, int]:
        """Return the index's part of the host's status."""
        return {
            "documents": self._db.documents.total(),
            "waiting": self.waiting,
            "without_vector": 0 if self._vectors is None else self._vectors.waiting,
            "resident_bytes": self._corpora.resident_bytes,
            "rebuilds": self._db.rebuilds,
        }

    # -- changes ----------------------------------------------------------------------------------------------------

    def touch(self, file: str) -> None:
        """Say that a file below the home folder may have changed: the next search of its group reads it."""
        source = source_of(file)
        if source is not None:
            state = self._group(source.group)
            if source.kind == "entry":
                state.folders.add(os.path.dirname(file))
            state.fresh[file] = None

    def touch_folder(self, folder: str) -> None:
        """Say that anything below a group's folder may have changed: the next search of the group compares it.

        A large group is compared by `compare_told`.
        """
        match folder.rstrip("/").split("/"):
            case ["groups", group, *rest] if NAME.fullmatch(group):
                self._uncompared[archive_of(group) if rest[:1] == ["archive"] else group] = object()

    @property
    def folders(self) -> list[str]:
        """Known folders of entries, below the home folder."""
        return [folder for state in list(self._groups.values()) for folder in list(state.folders)]

    def compare(self, group: str) -> Iterator[None]:
        """Compare a group's files with the index, a few in each step."""
        state = self._group(group)
        begun = self._uncompared.get(group)
        folders: set[str] = set()
        batches: list[str] = []
        for files in self._writer.changed(group, folders):
            if files:
                batches.append(_NEXT.join(files))
            yield
        state.folders = folders
        if sum(map(_count, batches)) > _MAX_FILES_NOW:
            with state.lock:
                self._backlogs[group] = deque(batches)  # what waited is among them
        else:
            state.fresh.update(dict.fromkeys(file for batch in batches for file in batch.split(_NEXT)))
        if self._uncompared.get(group) is begun:  # else a folder appeared meanwhile
            self._uncompared.pop(group, None)

    def compare_all(self) -> Iterator[None]:
        """Compare all groups, as `compare`. The index is rebuilt when its file is gone.

        Called periodically; also evicts corpora that were not searched since the last call, when memory is full.
        """
        self._corpora.release()
        if self._db.is_gone:
            self._db.rebuild("its file was removed or replaced")
        for name in sorted({*groups_of(self._home), *self._db.groups, *self._groups}):
            yield from self.compare(name)

    def compare_told(self) -> Iterator[None]:
        """Compare the groups in which a folder appeared or was watched, as `compare`."""
        for name in list(self._uncompared):
            yield from self.compare(name)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for `compare_told` or for `work` in bulk."""
        return not (self._uncompared or self._backlogs)

    @property
    def waiting(self) -> int:
        """Files to read in the background; others are read before the next search of their group is answered."""
        return sum(_count(batch) for batches in list(self._backlogs.values()) for batch in list(batches))

    def work(self, *, is_bulk: bool = False) -> Iterator[None]:
        """Read the waiting files, a batch in each step, and write the blocks of their documents. One thread at a time.

        Args:
            is_bulk: leave out files that the next search reads first, such as one that changes with every request.
        Raises:
            WorldFailed: the next call goes on.
        """
        for name in list(self._backlogs if is_bulk else self._groups):
            state = self._group(name)
            while name in self._backlogs or (state.fresh and not is_bulk):
                with state.lock:
                    if name in self._backlogs:
                        self._read_backlog(name)
                    else:
                        self._read_fresh(name, state.fresh)
                self._corpora.apply_queued()
                yield
                yield from self._pack(self._db.group(name))

    def _pack(self, group: int) -> Iterator[None]:
        """Write the blocks of a group in which much has changed, one in each step. Raises WorldFailed."""
        if self._unpacked[group] >= BLOCK_DOCUMENTS:
            from honeybadger_host.search.blocks import Blocks

            self._unpacked[group] = 0
            self._db.drop_blocks(BLOCK_DOCUMENTS)
            while Blocks(self._db, [group]).pack():
                yield

    def read_all(self, group: str) -> None:
        """Index all that a group may read and that is not indexed yet. Raises WorldFailed."""
        for name in (GLOBAL_GROUP, group, archive_of(group)):
            for _ in self.compare(name):
                pass
        for _ in self.work():
            pass

    def scrub(self) -> None:
        """Erase from the database what is no longer indexed. Raises WorldFailed."""
        self._db.scrub()

    def load_ahead(self) -> None:
        """Load the largest group for its first search, unless it is small or another is loaded. Raises WorldFailed."""
        documents = self._db.documents.copy()
        group = max(documents, key=documents.__getitem__, default=0)
        if documents[group] >= BLOCK_DOCUMENTS and not self._corpora.resident_bytes:
            self.search(self._db.group_of(self._db.span(group)[0]), _prepare)

    @staticmethod
    def trim() -> None:
        """Give back the memory that indexing and searches freed: 10 MiB with 100,000 entries and as many turns."""
        forget_words()
        with contextlib.suppress(AttributeError):  # a C library without it
            ctypes.CDLL(None).malloc_trim(0)

    def embed(self) -> bool:
        """Embed a few texts that have no vector yet; return whether to go on. Raises WorldFailed."""
        if self._vectors is None or (embedded := self._vectors.embed()) is None:
            return False
        for one in embedded:
            self._corpora.tell(self._db.group_of(one[0]), partial(put_vectors, embedded=[one]))
        return True

    # -- questions --------------------------------------------------------------------------------------------------

    def search(self, group: str, ask: Callable[[Corpus], ResultT]) -> tuple[ResultT, bool]:
        """Return the result of `ask` for a group's corpus, and whether all its files are indexed.

        The corpus includes the global documents. `ask` must not keep it. Raises WorldFailed.
        """
        ended = self._newest_search = threading.Event()
        try:
            for _ in range(_MAX_TRIES):
                generation = self._db.generation
                is_complete = self._bring_up_readable(group)
                found = self._corpora.search(group, ask)
                if generation == self._db.generation:
                    return found, is_complete
        finally:
            ended.set()
        raise WorldFailed("the search index is rebuilt again and again")

    def give_way(self) -> None:
        """Wait for the newest search: Python runs one thread at a time, and each switch costs a millisecond."""
        self._newest_search.wait(_MAX_PAUSE_SECONDS)

    def vector_of(self, question: str) -> Floats | None:
        """Return a question's vector; None without an embedder or when it fails: then words alone are searched."""
        return None if self._vectors is None else self._vectors.vector_of(question)

    def bring_up(self, group: str) -> bool:
        """Read what may have changed in a group; return whether all its files are indexed. Raises WorldFailed."""
        state = self._group(group)
        with state.lock:  # also when nothing waits: a batch may be under way
            is_compared = group not in self._uncompared  # the next search compares a folder that appears from here on
            if not is_compared and self._db.documents[self._db.group(group)] <= MAX_COMPARED_NOW:
                for _ in self.compare(group):
                    pass
                is_compared = True
            elif not is_compared:  # what was said or noted just before a stop is found at once
                for files in self._writer.changed(group, None):
                    state.fresh.update(dict.fromkeys(files))
            for _ in range(_MAX_PARTS_NOW):
                if state.fresh:
                    self._read_fresh(group, state.fresh)
            return is_compared and not state.fresh and group not in self._backlogs

    def _bring_up_readable(self, group: str) -> bool:
        """Read what may have changed in all that a group may read, as `bring_up`."""
        return self.bring_up(GLOBAL_GROUP) & self.bring_up(group)

    def read_few(self, group: str) -> bool:
        """Read what has changed in a group if it is little; return whether it was. Nothing is compared for that."""
        state = self._group(group)
        if group in self._backlogs or len(state.fresh) > IN_ONE_QUERY:
            return False
        with state.lock:
            self._read_fresh(group, state.fresh)
        return True

    def opened(self, group: str, name: str) -> Found | None:
        """Return the document of a name: `session#number`, `MEMORY.md#hash`. Raises WorldFailed."""
        self._bring_up_readable(group)
        place, _, key = name.rpartition("#")
        return self.lookups.opened([*files_called(group, place), *files_called(GLOBAL_GROUP, place)], key)

    def has_entries(self, group: str) -> bool:
        """Return whether there is an entry that a group may read."""
        self._bring_up_readable(group)
        return self.lookups.has_entries(group)

    # -- reading ----------------------------------------------------------------------------------------------------

    def _group(self, name: str) -> _Group:
        if name not in self._groups:
            self._uncompared[name] = object()
            self._groups.setdefault(name, _Group())
        return self._groups[name]

    def _read_fresh(self, group: str, fresh: dict[str, None]) -> None:
        """Index a batch of the files to read before a search. The group's lock is held."""
        files = list(fresh)[:IN_ONE_QUERY]  # copied at once: any thread adds to it at any time
        for file in files:
            fresh.pop(file, None)  # before it is read, so that a `touch` meanwhile queues it again
        left: Sequence[str] = files
        try:
            left = self._read(group, files)
        finally:
            fresh.update(dict.fromkeys(left))

    def _read_backlog(self, group: str) -> None:
        """Index the next batch of the files to read in the background. The group's lock is held."""
        batches = self._backlogs[group]
        left = self._read(group, batches[0].split(_NEXT))
        batches.popleft()
        if left:
            batches.appendleft(_NEXT.join(left))
        if not batches:
            self._backlogs.pop(group)

    def _read(self, group: str, files: Sequence[str]) -> Sequence[str]:
        """Index files; return those that must be read again. The group's lock is held."""
        if not files:
            return files
        number = self._db.group(group)
        changes, left = self._writer.take(number, files)
        self._unpacked[number] += len(changes.added) + len(changes.removed)
        added = [each for each in changes.added if not is_store(each.piece.category)]
        if added or changes.removed:
            self._corpora.tell(group, partial(change_documents, added=added, removed=changes.removed))
        return left

    def _start_over(self) -> None:
        """Start over: the files are read in the background, or before the next search."""
        self._unpacked.clear()
        self._uncompared |= {name: object() for name in list(self._groups)}
        if self._vectors is not None:
            self._vectors.find()


def _prepare(corpus: Corpus) -> None:
    """Load and compute what every search of a corpus needs."""
    from honeybadger_host.search import ranking  # noqa: F401

    corpus.sums()
    corpus.around()


def _count(batch: str) -> int:
    """Return how many files are in a batch of a backlog."""
    return batch.count(_NEXT) + 1
