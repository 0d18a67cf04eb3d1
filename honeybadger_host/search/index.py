"""The search index: derived from the files, kept in `data/index.db`, deleted at any time without loss.

`touch` says that a file may have changed; the next search of its group reads it first, so that everything a group
was told is found by its next request. Changes nobody told of (an editor, a sync tool, a run that was killed) are found
by comparing every file's signature with the one it was indexed under. What is to be read in bulk is read in slices
by `work`, while searches are answered from what is there.

Large groups are loaded by `warm`, in the background; texts are embedded by `embed`, where an embedder is given.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.errors import WorldFailed
from honeybadger_host.search.corpora import Corpora, Delta
from honeybadger_host.search.index_db import INDEX_FILE, IndexFile
from honeybadger_host.search.index_vectors import IndexVectors
from honeybadger_host.search.index_writer import IndexWriter
from honeybadger_host.search.lookups import Found, Lookups
from honeybadger_host.search.sources import files_called, groups_of, source_of

if TYPE_CHECKING:
    from honeybadger_host.search.corpus import Corpus
    from honeybadger_host.search.embeddings import Embedder, Floats

__all__ = ["INDEX_FILE", "Index"]

ResultT = TypeVar("ResultT")

_AT_ONCE: Final = 512
"""Files read and written at once: about 50 ms, for which a search of the group may wait."""
_NOW: Final = 2000
"""So many changed files are read before a search is answered; beyond that they are read in the background (0.2 s)."""
_PARTS_NOW: Final = 16
"""So often is read before a search is answered, each time at most `_AT_ONCE` files or 256 KiB: the rest of a
MEMORY.md of many MiB comes in the background."""
_COMPARED_NOW: Final = 20_000
"""Documents of a group that is compared before a search is answered, where a folder came: 0.2 s."""
_WORTH_WARMING: Final = 5000
"""Documents of a group that is loaded before anybody asks; fewer are loaded in 0.1 s."""
_TRIES: Final = 3
"""So often is a search begun when the database is made anew under it."""


@dataclass(slots=True)
class _Group:
    """What is to be read of a group.

    Args:
        fresh: files to be read before the next search is answered.
        backlog: files to be read in the background.
        is_compared: its files were compared with the index since the start, or since a folder came.
        folders: of entries, below the home folder.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    fresh: dict[str, None] = field(default_factory=dict)
    backlog: dict[str, None] = field(default_factory=dict)
    is_compared: bool = False
    folders: set[str] = field(default_factory=set)


class Index:
    """The index of a home. Any thread.

    Args:
        path: the database; None keeps it in memory.
        max_memory_bytes: see `Corpora`.
        embedder: gives texts their vectors; None ranks by words alone, and keeps the vectors that are there.
    """

    def __init__(
        self,
        home: Path,
        path: Path | None,
        *,
        max_memory_bytes: int,
        embedder: Embedder | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._home = home
        self._groups: dict[str, _Group] = {}
        self._groups_lock = threading.Lock()
        self._db = IndexFile(path, self._emptied)
        """Used after a group's lock is taken, never before one."""
        self._writer = IndexWriter(home, self._db, wall_ns)
        self._vectors = None if embedder is None else IndexVectors(self._db, embedder)
        self._corpora = Corpora(self._db, self._vectors, max_memory_bytes)
        self.lookups = Lookups(self._db)
        self._writer.count()
        if self._vectors is not None:
            self._vectors.find()

    def close(self) -> None:
        self._db.close()

    @property
    def documents(self) -> int:
        """How many documents are indexed."""
        return self._writer.documents.total()

    @property
    def rebuilds(self) -> int:
        """How often the database was made anew."""
        return self._db.rebuilds

    @property
    def resident_bytes(self) -> int:
        """What the corpora in memory take, estimated."""
        return self._corpora.resident_bytes

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
        """Say that anything below a group's folder may have changed: the next search of the group looks.

        Of a large group `compare_told` does.
        """
        match folder.rstrip("/").split("/"):
            case ["groups", group, *_]:
                self._group(group).is_compared = False

    @property
    def folders(self) -> list[str]:
        """Folders of entries that are known, below the home folder."""
        return [folder for state in list(self._groups.values()) for folder in list(state.folders)]

    def compare(self, group: str) -> int:
        """Compare a group's files with what was indexed; return how many are to be read."""
        state = self._group(group)
        state.is_compared = True  # a folder that comes from now on says so again
        changed, state.folders = self._writer.changed(group)
        waiting = state.fresh if len(changed) <= _NOW else state.backlog
        waiting.update(dict.fromkeys(changed))
        return len(changed)

    def compare_all(self) -> int:
        """Compare all groups; return how many files are to be read. The index is built anew when its file is gone.

        Called from time to time: corpora that nobody searched since make room, where they are too large.
        """
        self._corpora.release()
        if self._db.is_gone:
            self._db.make_anew("its file was removed or replaced")
        names = {*groups_of(self._home), *self._db.groups, *self._groups}
        return sum(self.compare(name) for name in sorted(names))

    def compare_told(self) -> int:
        """Compare the groups in which a folder came or was watched; return how many files are to be read."""
        return sum(self.compare(name) for name, state in list(self._groups.items()) if not state.is_compared)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for `compare_told`, or for `work` in bulk. Any thread."""
        return all(state.is_compared and not state.backlog for state in list(self._groups.values()))

    @property
    def waiting(self) -> int:
        """Files to be read in the background; others are read before the next search of their group is answered."""
        return sum(len(state.backlog) for state in list(self._groups.values()))

    def work(self, *, is_bulk: bool = False) -> bool:
        """Read a slice of what waits in the background; return whether there was any.

        Args:
            is_bulk: leave what the next search reads first, as a file that changes with every request.
        """
        for name, state, queue in self._queues(is_bulk):
            if queue:
                with state.lock:
                    self._read(name, queue)
                self._corpora.hand_out()
                return True
        return False

    def read_all(self, group: str) -> None:
        """Read all that a group may read and that is not indexed yet. Raises WorldFailed."""
        for name in (GLOBAL_GROUP, group):
            self.compare(name)
        while self.work():
            pass

    def warm(self) -> bool:
        """Load the large group that was used last and is not in memory; return whether there was any, and room for it.

        Half of the memory is left for what is searched. Raises WorldFailed.
        """
        query = "SELECT number >> 40, max(mtime_ns) FROM sources GROUP BY 1 ORDER BY 2 DESC"
        for number, _ in self._db.rows(query):
            if self.resident_bytes > self._corpora.max_memory_bytes // 2:
                return False
            name = self._db.group_of(number << 40)
            documents = self._writer.documents[number] + self._writer.documents[0]  # with what all may read
            if documents >= _WORTH_WARMING and name and name not in self._corpora and name != GLOBAL_GROUP:
                self.search(name, len)
                return True
        return False

    def embed(self) -> bool:
        """Embed a few of the texts that have no vector yet; return whether it is worth to go on. Raises WorldFailed."""
        if self._vectors is None or (embedded := self._vectors.embed()) is None:
            return False
        for group, some in embedded.items():
            self._corpora.tell(group, partial(Delta, embedded=some))
        return True

    @property
    def unembedded(self) -> int:
        """Documents that have no vector yet; 0 without an embedder."""
        return 0 if self._vectors is None else self._vectors.waiting

    # -- questions --------------------------------------------------------------------------------------------------

    def search(self, group: str, ask: Callable[[Corpus], ResultT]) -> tuple[ResultT, bool]:
        """Return what `ask` finds in a group's corpus, and whether all its files were read.

        The corpus holds what every group may read, too. `ask` must not keep it. Raises WorldFailed.
        """
        for _ in range(_TRIES):
            generation = self._db.generation
            is_complete = self.bring_up(GLOBAL_GROUP) & self.bring_up(group)
            found = self._corpora.search(group, ask)
            if generation == self._db.generation:
                return found, is_complete
        raise WorldFailed("the search index is made anew all the time")

    def vector_of(self, question: str) -> Floats | None:
        """Return a question's vector; None without an embedder, or when it fails: then words alone are searched."""
        return None if self._vectors is None else self._vectors.vector_of(question)

    def bring_up(self, group: str) -> bool:
        """Read what may have changed in a group; return whether all its files were read. Raises WorldFailed."""
        state = self._group(group)
        with state.lock:  # also when nothing waits: a slice of it may be on its way
            is_compared = state.is_compared  # a folder that comes from here on is for the next one to look at
            if not is_compared and self._writer.documents[self._db.group(group)] <= _COMPARED_NOW:
                self.compare(group)
                is_compared = True
            for _ in range(_PARTS_NOW):
                if state.fresh:
                    self._read(group, state.fresh)
            return is_compared and not (state.fresh or state.backlog)

    def opened(self, group: str, name: str) -> Found | None:
        """Return what search shows under a name: `session#number`, `MEMORY.md#hash`. Raises WorldFailed."""
        self.bring_up(GLOBAL_GROUP)
        self.bring_up(group)
        place, _, key = name.rpartition("#")
        files = [file for of in (group, GLOBAL_GROUP) for file in files_called(of, place)]
        return self.lookups.opened(files, key)

    def has_entries(self, group: str) -> bool:
        """Return whether there is any entry that a group may read."""
        self.bring_up(GLOBAL_GROUP)
        self.bring_up(group)
        return any(self._writer.entries[self._db.group(name)] > 0 for name in (GLOBAL_GROUP, group))

    # -- reading ----------------------------------------------------------------------------------------------------

    def _group(self, name: str) -> _Group:
        state = self._groups.get(name)
        if state is None:
            with self._groups_lock:
                state = self._groups.setdefault(name, _Group())
        return state

    def _queues(self, is_bulk: bool) -> Iterator[tuple[str, _Group, dict[str, None]]]:
        for name, state in list(self._groups.items()):
            yield name, state, state.backlog
            if not is_bulk:
                yield name, state, state.fresh

    def _read(self, group: str, queue: dict[str, None]) -> None:
        """Index some of the files that wait in `queue`. The group's lock is held."""
        files = list(itertools.islice(queue, _AT_ONCE))
        for file in files:
            queue.pop(file, None)  # before it is read: whoever touches it meanwhile puts it in again
        try:
            changes, left = self._writer.take(self._db.group(group), files)
        except BaseException:
            queue.update(dict.fromkeys(files))
            raise
        queue.update(dict.fromkeys(left))
        if changes.added or changes.removed:
            self._corpora.tell(group, lambda: Delta([each.document() for each in changes.added], changes.removed))
        if self._vectors is not None:
            self._vectors.note((each.number for each in changes.added), changes.removed)

    def _emptied(self) -> None:
        """Begin again: the files are read in the background, or before the next search."""
        self._writer.forget()
        self._corpora.forget()
        if self._vectors is not None:
            self._vectors.forget()
        for state in list(self._groups.values()):
            state.is_compared = False
