"""The search index: derived from the files, kept in `data/index.db`, deleted at any time without loss.

`touch` says that a file may have changed; the next search of its group reads it first, so that everything a group
was told is found by its next request. Changes nobody told of (an editor, a sync tool, a run that was killed) are found
by comparing every file's signature with the one it was indexed under. What is to be read in bulk is read in slices
by `work`, while searches are answered from what is there.

Of every document the analysed terms are kept, so that a group's corpus is in memory after one read of the table; large
groups are loaded by `warm`, in the background. So is its vector, where an embedder is given: texts are embedded by
`embed`.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import structlog

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.errors import WorldFailed
from honeybadger_host.search.documents import Document
from honeybadger_host.search.index_db import INDEX_FILE, IndexFile
from honeybadger_host.search.index_vectors import IndexVectors, put_vectors
from honeybadger_host.search.index_writer import IndexWriter
from honeybadger_host.search.indexer import LOADED, columns_of, task_of
from honeybadger_host.search.lookups import Lookups, session_of
from honeybadger_host.search.numbering import Glossary
from honeybadger_host.search.parser import Reading, Task
from honeybadger_host.search.reading_process import ReadingFailed, ReadingProcess
from honeybadger_host.search.sources import groups_of, source_of, sources

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from honeybadger_host.search.corpus import Columns, Corpus
    from honeybadger_host.search.embeddings import Embedder, Floats

__all__ = ["INDEX_FILE", "Index"]

log = structlog.get_logger()
ResultT = TypeVar("ResultT")

_AT_ONCE: Final = 512
"""Files read and written at once: about 30 ms, for which a search of the group may wait."""
_NOW: Final = 2000
"""So many changed files are read before a search is answered; beyond that they are read in the background (0.2 s)."""
_PARTS_NOW: Final = 16
"""So often is read before a search is answered, each time at most `_AT_ONCE` files or 256 KiB: the rest of a
MEMORY.md of many MiB comes in the background."""
_WORTH_A_PROCESS: Final = 2000
"""Files that wait for which another process is started: it takes 0.2 s, as long as reading these."""
_ASKED_AT_ONCE: Final = 2
"""Slices the other process is asked for: it reads one while the one before is written."""
_PATIENCE_SECONDS: Final = 0.25
"""So long is an answer waited for at a time; a host that is to stop waits no longer."""
_COMPARED_AT_ONCE: Final = 500
_COMPARED_NOW: Final = 20_000
"""Documents of a group that is compared before a search is answered, where a folder came: 0.2 s."""
_LOADED_AT_ONCE: Final = 2000
"""Documents entered into a corpus at once: 15 ms, between which others may use the database."""
_WORTH_WARMING: Final = 5000
"""Documents of a group that is loaded before anybody asks; fewer are loaded in 0.1 s."""
_MANY_DELTAS: Final = 4
"""Changes a corpus is told of in the background; one costs up to 30 ms, which a search need not wait for."""
_TRIES: Final = 3
"""So often is a search begun when the database is made anew under it."""


class _Sent(NamedTuple):
    """A file that another process reads.

    Args:
        is_fresh: the next search is to know it.
    """

    task: Task
    is_fresh: bool


@dataclass(slots=True)
class _Group:
    """What is known of a group in memory."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    fresh: dict[str, None] = field(default_factory=dict)
    """Files to be read before the next search is answered."""
    backlog: dict[str, None] = field(default_factory=dict)
    """Files to be read in the background."""
    sent: dict[str, _Sent] = field(default_factory=dict)
    """Files that another process reads; what it answers of others is old."""
    is_compared: bool = False
    """Whether its files were compared with the index since the start, or since a folder came."""
    folders: set[str] = field(default_factory=set)
    """Folders of entries, below the home folder."""
    corpus: Corpus | None = None
    corpus_bytes: int = 0
    is_loading: bool = False
    deltas: deque[_Delta] = field(default_factory=deque)
    """What the corpus was not told yet, in order; telling it twice is harmless."""


class _Delta(NamedTuple):
    added: list[Document]
    removed: list[int]
    embedded: Sequence[tuple[int, bytes]] = ()


class Index:
    """The index of a home. Any thread.

    Args:
        path: the database; None keeps it in memory.
        max_memory_bytes: of corpora; the least recently searched leave first. One that is larger stays until
            `compare_all` finds that nobody searched it since the last time.
        embedder: gives texts their vectors; None ranks by words alone, and keeps the vectors that are there.
        process: reads files when thousands wait; None: all are read by the threads that ask.
    """

    def __init__(
        self,
        home: Path,
        path: Path | None,
        *,
        max_memory_bytes: int,
        embedder: Embedder | None = None,
        process: ReadingProcess | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._home = home
        self._max_memory_bytes = max_memory_bytes
        self._process = process
        self._process_lock = threading.Lock()
        """Taken before a group's lock."""
        self._asked: deque[tuple[str, list[Task]]] = deque()
        """What the other process was asked for and has not answered, by group, in order."""
        self._groups: dict[str, _Group] = {}
        self._used: OrderedDict[str, bool] = OrderedDict()
        """Groups whose corpus is in memory, the least recently searched first: searched since `compare_all`?"""
        self._groups_lock = threading.Lock()
        self._db = IndexFile(path, self._emptied)
        """Used after a group's lock is taken, never before one."""
        self._writer = IndexWriter(home, self._db, wall_ns)
        self.lookups = Lookups(self._db)
        self._vectors = None if embedder is None else IndexVectors(self._db, embedder, self._tell_vectors)
        self._count()

    def close(self) -> None:
        if self._process is not None:
            with self._process_lock:
                self._process.end()
        self._db.close()

    @property
    def documents(self) -> int:
        """How many documents are indexed."""
        return self._writer.documents.total()

    @property
    def rebuilds(self) -> int:
        """How often the database was made anew."""
        return self._db.rebuilds

    # ------------------------------------------------------------------------------------------------------ changes

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
        changed = self._changed(group)
        waiting = state.fresh if len(changed) <= _NOW else state.backlog
        waiting.update(dict.fromkeys(changed))
        return len(changed)

    def compare_all(self) -> int:
        """Compare all groups; return how many files are to be read. The index is built anew when its file is gone.

        Called from time to time: while the corpora are too large, those leave that were not searched since.
        """
        with self._groups_lock:
            for name, is_searched in list(self._used.items()):
                if not is_searched and self.resident_bytes > self._max_memory_bytes:
                    self._drop(name)
                else:
                    self._used[name] = False
        if self._db.is_gone:
            self._db.make_anew("its file was removed or replaced")
        names = {*groups_of(self._home), *self._db.groups, *self._groups}
        return sum(self.compare(name) for name in sorted(names))

    def compare_told(self) -> int:
        """Compare the groups in which a folder came or was watched; return how many files are to be read."""
        return sum(self.compare(name) for name, state in list(self._groups.items()) if not state.is_compared)

    def read_all(self, group: str) -> None:
        """Read all that a group may read and that is not indexed yet. Raises WorldFailed."""
        for name in (GLOBAL_GROUP, group):
            self.compare(name)
        while self.work():
            pass

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for `compare_told`, or for `work` in bulk. Any thread."""
        return all(state.is_compared and not (state.backlog or state.sent) for state in list(self._groups.values()))

    def work(self, *, is_bulk: bool = False) -> bool:
        """Read a slice of what waits in the background; return whether there was any.

        Args:
            is_bulk: leave what the next search reads first, as a file that changes with every request.
        """
        if self._process is not None and self._process_lock.acquire(blocking=False):
            try:
                if self._work_elsewhere(self._process, is_bulk):
                    return True
            finally:
                self._process_lock.release()
        for name, state, queue in self._queues(is_bulk):
            if queue:
                with state.lock:
                    self._read(name, state, queue)
                self._hand_out()
                return True
        return False

    def _queues(self, is_bulk: bool) -> Iterator[tuple[str, _Group, dict[str, None]]]:
        for name, state in list(self._groups.items()):
            yield name, state, state.backlog
            if not is_bulk:
                yield name, state, state.fresh

    def warm(self) -> bool:
        """Load the large group that was used last and is not in memory; return whether there was any, and room for it.

        Half of the memory is left for what is searched. Raises WorldFailed.
        """
        query = "SELECT number >> 40, max(mtime_ns) FROM sources GROUP BY 1 ORDER BY 2 DESC"
        for number, _ in self._db.rows(query):
            if self.resident_bytes > self._max_memory_bytes // 2:
                return False
            name = self._db.group_of(number << 40)
            documents = self._writer.documents[number] + self._writer.documents[0]  # with what all may read
            if documents >= _WORTH_WARMING and name and name not in self._used and name != GLOBAL_GROUP:
                self.search(name, len)
                return True
        return False

    def embed(self) -> bool:
        """Embed a few of the texts that have no vector yet; return whether it is worth to go on. Raises WorldFailed."""
        return self._vectors is not None and self._vectors.embed()

    @property
    def unembedded(self) -> int:
        """Documents that have no vector yet; 0 without an embedder."""
        return 0 if self._vectors is None else self._vectors.waiting

    @property
    def waiting(self) -> int:
        """Files to be read in the background; others are read before the next search of their group is answered."""
        return sum(len(state.backlog) + len(state.sent) for state in list(self._groups.values()))

    @property
    def resident_bytes(self) -> int:
        """What the corpora in memory take, estimated."""
        return sum(state.corpus_bytes for state in list(self._groups.values()))

    # ----------------------------------------------------------------------------------------------------- questions

    def search(self, group: str, ask: Callable[[Corpus], ResultT]) -> tuple[ResultT, bool]:
        """Return what `ask` finds in a group's corpus, and whether all its files were read.

        The corpus holds what every group may read, too. `ask` must not keep it. Raises WorldFailed.
        """
        state = self._group(group)
        for _ in range(_TRIES):
            generation = self._db.generation
            is_complete = self._refresh(GLOBAL_GROUP) & self._refresh(group)
            with state.lock:
                corpus = self._corpus(group, state)
                if generation == self._db.generation:
                    return ask(corpus), is_complete
        raise WorldFailed("the search index is made anew all the time")

    def vector_of(self, question: str) -> Floats | None:
        """Return a question's vector; None without an embedder, or when it fails: then words alone are searched."""
        return None if self._vectors is None else self._vectors.vector_of(question)

    def bring_up(self, group: str) -> bool:
        """Read what may have changed in a group; return whether all its files were read. Raises WorldFailed."""
        return self._refresh(group)

    def has_entries(self, group: str) -> bool:
        """Return whether there is any entry that a group may read."""
        self._refresh(GLOBAL_GROUP)
        self._refresh(group)
        return any(self._writer.entries[self._db.group(name)] > 0 for name in (GLOBAL_GROUP, group))

    # ------------------------------------------------------------------------------------------------------- reading

    def _group(self, name: str) -> _Group:
        state = self._groups.get(name)
        if state is None:
            with self._groups_lock:
                state = self._groups.setdefault(name, _Group())
        return state

    def _refresh(self, group: str) -> bool:
        """Read what may have changed; return whether nothing is left for the background."""
        state = self._group(group)
        if not (state.fresh or state.backlog or state.sent) and state.is_compared:
            return True
        with state.lock:
            is_compared = state.is_compared  # a folder that comes from here on is for the next one to look at
            if not is_compared and self._writer.documents[self._db.group(group)] <= _COMPARED_NOW:
                self.compare(group)
                is_compared = True
            state.fresh.update({file: None for file, sent in list(state.sent.items()) if sent.is_fresh})
            for _ in range(_PARTS_NOW):
                if state.fresh:
                    self._read(group, state, state.fresh)
            return is_compared and not (state.fresh or state.backlog or state.sent)

    def _changed(self, group: str) -> list[str]:
        """Return the files that are not what was indexed, and those that are gone."""
        least, most = self._db.span(self._db.group(group))
        counted = "SELECT count(*), coalesce(max(number), -1) FROM sources WHERE number BETWEEN ? AND ?"
        known, last = self._db.rows(counted, (least, most))[0]
        folders: set[str] = set()
        changed: list[str] = []
        met = 0
        looked_at = sources(self._home, group, folders)
        query = "SELECT file, number, inode, size, mtime_ns, ctime_ns FROM sources WHERE file IN"
        while some := list(itertools.islice(looked_at, _COMPARED_AT_ONCE)):
            names = [source.file for source, _ in some] if known else []
            indexed = {row[0]: row[1:] for row in self._db.rows_in(query, names)}
            for source, signature in some:
                row = indexed.get(source.file)
                if row is None or row[1:] != signature:
                    changed.append(source.file)
                if row is not None and row[0] <= last:
                    met += 1
        self._group(group).folders = folders
        if met < known:
            there = {source.file for source, _ in sources(self._home, group, set())}
            indexed_files = self._db.rows("SELECT file FROM sources WHERE number BETWEEN ? AND ?", (least, most))
            changed += [file for (file,) in indexed_files if file not in there]
        return changed

    def _read(self, group: str, state: _Group, queue: dict[str, None]) -> None:
        """Index some of the files that wait in `queue`. The group's lock is held."""
        files = list(itertools.islice(queue, _AT_ONCE))
        for file in files:
            queue.pop(file, None)  # before it is read: whoever touches it meanwhile puts it in again
            state.sent.pop(file, None)  # what another process read of it before is not to come behind this
        try:
            left = self._take(group, files, {})
        except BaseException:
            queue.update(dict.fromkeys(files))
            raise
        queue.update(dict.fromkeys(left))

    def _take(
        self,
        group: str,
        files: Sequence[str],
        readings: Mapping[str, tuple[Task, Reading]],
        glossary: Glossary | None = None,
    ) -> Sequence[str]:
        """Index files; return those that are to be read again. The group's lock is held; see `IndexWriter.take`."""
        changes, left = self._writer.take(self._db.group(group), files, readings, glossary)
        added, removed = changes.added, changes.removed
        if added or removed:
            self._tell(group, lambda: _Delta([each.document(glossary) for each in added], removed))
        if self._vectors is not None:
            self._vectors.note((each.number for each in added), removed)
        return left

    def _tell_vectors(self, group: str, embedded: Sequence[tuple[int, bytes]]) -> None:
        self._tell(group, partial(_Delta, [], [], embedded))

    def _tell(self, group: str, delta: Callable[[], _Delta]) -> None:
        """Keep a change of a group for the corpora that hold it."""
        told: _Delta | None = None
        for name, state in list(self._groups.items()):
            if group in (name, GLOBAL_GROUP) and (state.corpus is not None or state.is_loading):
                told = told or delta()
                state.deltas.append(told)

    def _hand_out(self) -> None:
        """Tell corpora what they were not told while nobody searched them, before it becomes much."""
        for state in list(self._groups.values()):
            if len(state.deltas) > _MANY_DELTAS and state.corpus is not None:
                with state.lock:
                    if state.corpus is not None:
                        _bring_up(state, state.corpus)

    def _emptied(self) -> None:
        """Begin again: the files are read in the background, or before the next search."""
        self._writer.forget()
        if self._vectors is not None:
            self._vectors.forget()
        for state in list(self._groups.values()):
            state.corpus = None
            state.corpus_bytes = 0
            state.deltas.clear()
            state.sent.clear()
            state.is_compared = False

    def _count(self) -> None:
        """Find out what is in the database."""
        self._writer.count()
        if self._vectors is not None:
            self._vectors.find()

    # ------------------------------------------------------------------------------------------------- another process

    def _work_elsewhere(self, process: ReadingProcess, is_bulk: bool) -> bool:
        """Have a slice read by another process, take one it has read; return False when one is to be read here."""
        try:
            if process.pid is None:
                waiting = sum(len(queue) for _, _, queue in self._queues(is_bulk))
                if waiting < _WORTH_A_PROCESS or not process.may_start:
                    return False
                process.start()
            elif not process.questions and self._slice(is_bulk) is None:
                process.end()
                return False
            if not process.is_ready():
                return False
            while process.questions < _ASKED_AT_ONCE and (tasks := self._send(is_bulk)):
                process.ask(tasks)
            answer = process.take(_PATIENCE_SECONDS) if process.questions else None
        except ReadingFailed as error:
            self._take_back()
            log.error("index.process_failed", error=str(error), now_what="the host reads the files itself")
            return False
        if answer is not None:
            self._take_readings(*answer)
            self._hand_out()
        return True

    def _slice(self, is_bulk: bool) -> tuple[str, _Group, dict[str, None], list[str]] | None:
        """Return a group, one of its queues, and files in it for another process; None when there are none."""
        for name, state, queue in self._queues(is_bulk):
            files = [file for file in list(itertools.islice(queue, _AT_ONCE)) if not file.endswith(".md")]
            if files:  # notes are read on from where they were, here
                return name, state, queue, files
        return None

    def _send(self, is_bulk: bool) -> list[Task]:
        """Take files out of a queue, for another process; none when there are none."""
        found = self._slice(is_bulk)
        if found is None:
            return []
        name, state, queue, files = found
        tasks: list[Task] = []
        with state.lock:
            known = self._writer.known([file for file in files if file.endswith(".jsonl")])
            for file in files:
                source = source_of(file)
                if source is None or file not in queue:
                    continue
                del queue[file]
                tasks.append(task_of(source, known.get(file)))
                state.sent[file] = _Sent(tasks[-1], queue is state.fresh)
        if tasks:
            self._asked.append((name, tasks))
        return tasks

    def _take_readings(self, readings: Sequence[Reading], glossary: Glossary) -> None:
        """Index what the other process has read, in the order in which it was asked."""
        group, tasks = self._asked[0]
        state = self._group(group)
        part = tasks[: len(readings)]
        del tasks[: len(readings)]
        if not tasks:
            self._asked.popleft()
        with state.lock:
            ours = {
                task.source.file: (task, reading)
                for task, reading in zip(part, readings, strict=True)
                if (sent := state.sent.get(task.source.file)) is not None and sent.task is task
            }
            if not ours:
                return  # all of it is old
            try:
                left = self._take(group, list(ours), ours, glossary)
            except BaseException:
                self._put_back(state, ours)
                raise
            self._put_back(state, left)
            for file in ours:
                state.sent.pop(file, None)

    def _take_back(self) -> None:
        """Put what another process was asked for, and did not answer, where it waited."""
        self._asked.clear()
        for state in list(self._groups.values()):
            with state.lock:
                self._put_back(state, list(state.sent))

    def _put_back(self, state: _Group, files: Iterable[str]) -> None:
        """Put files that were sent where they waited."""
        for file in files:
            sent = state.sent.pop(file, None)
            if sent is not None:
                (state.fresh if sent.is_fresh else state.backlog)[file] = None

    # -------------------------------------------------------------------------------------------------------- corpora

    def _corpus(self, group: str, state: _Group) -> Corpus:
        """Return the corpus of a group, loaded and up to date. The group's lock is held."""
        corpus = state.corpus
        if corpus is None:
            started = time.monotonic()
            state.is_loading = True  # from now on deltas are kept for it
            try:
                generation = self._db.generation
                corpus = self._load(group)
                if generation != self._db.generation:
                    return corpus  # of a database that is gone: nobody is to keep it
                state.corpus = corpus
                state.corpus_bytes = corpus.memory_bytes
            finally:
                state.is_loading = False
            log.debug("index.loaded", group=group, documents=len(corpus), seconds=round(time.monotonic() - started, 3))
        _bring_up(state, corpus)
        self._use(group)
        return corpus

    def _load(self, group: str) -> Corpus:
        """Read a corpus from the table, with what every group may read."""
        from honeybadger_host.search.corpus import Corpus

        corpus = Corpus()
        if self._vectors is not None:
            corpus.vectors = self._vectors.empty()
        numbers = sorted({self._db.group(name) for name in (GLOBAL_GROUP, group)})
        corpus.load(itertools.chain.from_iterable(map(self._columns, numbers)), self._words)
        if self._vectors is not None:
            self._vectors.load(numbers, corpus)
        return corpus

    def _columns(self, group: int) -> Iterator[Columns]:
        """Yield the documents of a group; the database is free for others between two slices."""
        least, most = self._db.span(group)
        query = "SELECT number, file FROM sources WHERE number BETWEEN ? AND ? AND file LIKE 'data/%'"
        sessions = {number: session_of(file) for number, file in self._db.rows(query, (least, most))}
        query = f"SELECT {LOADED} FROM docs WHERE number > ? AND number <= ? ORDER BY number LIMIT ?"  # noqa: S608  constant
        while rows := self._db.rows(query, (least, most, _LOADED_AT_ONCE)):
            yield columns_of(rows, sessions)
            least = rows[-1][0]

    def _words(self, numbers: npt.NDArray[np.int64]) -> list[str]:
        """Return the terms of rising numbers."""
        rows = dict(self._db.rows_in("SELECT number, term FROM terms WHERE number IN", numbers.tolist()))
        if len(rows) < len(numbers):
            self._db.make_anew("it is damaged (terms are missing)")
        return [rows.get(number, f"?{number}") for number in numbers.tolist()]

    def _use(self, group: str) -> None:
        """Note that a corpus was searched, and drop others when all of them are too large."""
        with self._groups_lock:
            self._used[group] = True
            self._used.move_to_end(group)
            while len(self._used) > 1 and self.resident_bytes > self._max_memory_bytes:
                self._drop(next(iter(self._used)))

    def _drop(self, group: str) -> None:
        """Let a corpus leave memory. The groups' lock is held."""
        del self._used[group]
        state = self._groups[group]
        state.corpus = None  # a search that is under way keeps it that long
        state.corpus_bytes = 0
        state.deltas.clear()


def _bring_up(state: _Group, corpus: Corpus) -> None:
    """Tell a corpus what it was not told yet. The group's lock is held."""
    while state.deltas:
        delta = state.deltas.popleft()
        corpus.remove(delta.removed)
        corpus.add(document for document in delta.added if corpus.row_of(document.number) is None)
        put_vectors(corpus, delta.embedded)
        if len(delta.added) + len(delta.removed) >= _AT_ONCE:
            state.corpus_bytes = corpus.memory_bytes
