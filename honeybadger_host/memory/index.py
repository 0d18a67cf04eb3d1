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
import sqlite3
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import orjson
import structlog

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.documents import KINDS, Document, Kind
from honeybadger_host.memory.entries import normalise
from honeybadger_host.memory.index_file import INDEX_FILE, IndexFile
from honeybadger_host.memory.indexing import COLUMNS, LOADED, Added, Changes, Grown, Known, Reader, columns_of, task_of
from honeybadger_host.memory.numbering import Glossary
from honeybadger_host.memory.reading import Reading, Task, known_by
from honeybadger_host.memory.reading_process import ReadingFailed, ReadingProcess
from honeybadger_host.memory.sources import groups_of, source_of, sources

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from honeybadger_host.memory.corpus import Columns, Corpus
    from honeybadger_host.memory.embedding import Embedder, Floats

__all__ = ["INDEX_FILE", "Found", "Index", "embedded_text", "open_copy"]

log = structlog.get_logger()
ResultT = TypeVar("ResultT")

_AT_ONCE: Final = 512
"""Files read and written at once: about 30 ms, for which a search of the group may wait."""
_BYTES_AT_ONCE: Final = 1 << 18
_NOW: Final = 2000
"""So many changed files are read before a search is answered; beyond that they are read in the background (0.2 s)."""
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
_EMBEDDED_AT_ONCE: Final = 32
"""Texts embedded between two looks at what else is to be done: about 0.2 s on one core."""
_INSERT: Final = f"INSERT INTO docs ({COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS.split(',')))})"  # noqa: S608  constant
_MOST_GROWN: Final = 32
"""Large files of notes of which it is remembered how they were read: about 1 MiB each."""


class Found(NamedTuple):
    """A document as it is kept, to be shown."""

    number: int
    group: str
    kind: Kind
    key: str
    file: str
    session: str
    author: str
    role: str
    at: float | None
    category: str
    tags: tuple[str, ...]
    text: str


class Listed(NamedTuple):
    """A row of an entry in a list."""

    key: str
    category: str
    name: str
    title: str
    begins: str
    bytes: int
    at: float | None


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
        max_note_bytes: of MEMORY.md and HISTORY.md; a larger one is not searched.
        max_memory_bytes: of corpora; the least recently searched leave first.
        embedder: gives texts their vectors; None ranks by words alone, and keeps the vectors that are there.
        process: reads files when thousands wait; None: all are read by the threads that ask.
    """

    def __init__(
        self,
        home: Path,
        path: Path | None,
        *,
        max_note_bytes: int,
        max_memory_bytes: int,
        embedder: Embedder | None = None,
        process: ReadingProcess | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._home = home
        self._max_note_bytes = max_note_bytes
        self._max_memory_bytes = max_memory_bytes
        self._embedder = embedder
        self._embedder_failed = False
        self._unembedded: dict[int, None] = {}
        self._grown: dict[str, tuple[int, Grown]] = {}
        """Large file of notes -> how it was read, and for which generation of the database."""
        self._wall_ns = wall_ns
        self._process = process
        self._process_lock = threading.Lock()
        """Taken before a group's lock."""
        self._asked: deque[tuple[str, list[Task]]] = deque()
        """What the other process was asked for and has not answered, by group, in order."""
        self._groups: dict[str, _Group] = {}
        self._used: OrderedDict[str, None] = OrderedDict()
        """Groups whose corpus is in memory, the least recently searched first."""
        self._groups_lock = threading.Lock()
        self._documents: Counter[int] = Counter()
        """By number of the group."""
        self._entries: Counter[int] = Counter()
        self._db = IndexFile(path, self._emptied)
        """Used after a group's lock is taken, never before one."""
        self._count()
        self._find_unembedded()

    def close(self) -> None:
        if self._process is not None:
            with self._process_lock:
                self._process.end()
        self._db.close()

    def copy_from(self, path: Path) -> None:
        """Begin with what a database of another index holds, if it can be used."""
        self._db.copy_from(path)
        self._count()
        self._find_unembedded()

    @property
    def documents(self) -> int:
        """How many documents are indexed."""
        return self._documents.total()

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
        """Compare all groups; return how many files are to be read. The index is built anew when its file is gone."""
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
            documents = self._documents[number] + self._documents[0]  # with what all may read
            if documents >= _WORTH_WARMING and name and name not in self._used and name != GLOBAL_GROUP:
                self.search(name, len)
                return True
        return False

    def embed(self) -> bool:
        """Embed a few of the texts that have no vector yet; return whether it is worth to go on. Raises WorldFailed."""
        if self._embedder is None or not self._unembedded:
            return False
        numbers = list(itertools.islice(reversed(self._unembedded), _EMBEDDED_AT_ONCE))  # the newest are asked for most
        query = "SELECT number, kind, author, names, text FROM docs WHERE number IN"
        rows = self._db.rows_in(query, numbers)
        texts = {row[0]: (row[4], embedded_text(KINDS[row[1]], row[2], row[4], row[3].splitlines())) for row in rows}
        if texts:
            try:
                vectors = self._embedder.embed_documents([embedded for _, embedded in texts.values()])
            except WorldFailed as error:
                self._note_embedder(error)
                return False
            self._note_embedder(None)
            blobs = [vector.astype("<f2").tobytes() for vector in vectors]
            whole = [(number, text) for number, (text, _) in texts.items()]
            self._keep_vectors(list(zip(whole, blobs, strict=True)))
        for number in numbers:
            self._unembedded.pop(number, None)
        return True

    @property
    def unembedded(self) -> int:
        """Documents that have no vector yet; 0 without an embedder."""
        return len(self._unembedded)

    @property
    def waiting(self) -> int:
        """Files to be read."""
        return sum(len(state.fresh) + len(state.backlog) + len(state.sent) for state in list(self._groups.values()))

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
        if self._embedder is None:
            return None
        try:
            vector = self._embedder.embed_query(question)
        except WorldFailed as error:
            self._note_embedder(error)
            return None
        self._note_embedder(None)
        return vector

    def show(self, numbers: Sequence[int]) -> dict[int, Found]:
        """Return number -> document; those removed meanwhile are missing. Raises WorldFailed."""
        query = (
            "SELECT docs.number, kind, key, file, author, role, at, category, tags, text "
            "FROM docs JOIN sources ON sources.number = source WHERE docs.number IN"
        )
        found = {}
        for number, kind, key, file, author, role, at, category, tags, text in self._db.rows_in(query, numbers):
            found[number] = Found(
                number=number,
                group=self._db.group_of(number),
                kind=KINDS[kind],
                key=key,
                file=file,
                session=_session_of(file),
                author=author,
                role=role,
                at=at,
                category=category,
                tags=tuple(orjson.loads(tags)) if tags else (),
                text=text,
            )
        return found

    def known(self, group: str, category: str, normalised: str) -> str | None:
        """Return the id of an entry that says just this, as far as was indexed; see `entries.normalise`."""
        query = "SELECT number, key, category, text FROM docs WHERE known_by = ?"
        try:
            rows = self._db.rows(query, (known_by(normalised),))
        except WorldFailed as error:
            log.error("index.failed", file=INDEX_FILE, error=str(error), now_what="a text may be saved twice")
            return None
        for number, key, its_category, text in rows:
            if (self._db.group_of(number), its_category, normalise(text)) == (group, category, normalised):
                return str(key)
        return None

    def named(self, group: str, category: str, name: str) -> str | None:
        """Return the id of an entry of this name, as far as was indexed."""
        query = "SELECT key FROM docs WHERE kind = 0 AND number >> 40 = ? AND category = ? AND name = ? LIMIT 1"
        try:
            rows = self._db.rows(query, (self._db.group(group), category, name))
        except WorldFailed as error:
            log.error("index.failed", file=INDEX_FILE, error=str(error), now_what="a name may be given twice")
            return None
        return str(rows[0][0]) if rows else None

    def bring_up(self, group: str) -> bool:
        """Read what may have changed in a group; return whether all its files were read. Raises WorldFailed."""
        return self._refresh(group)

    def sizes(self, group: str) -> list[tuple[str, int, int]]:
        """Return (category, entries just in it, bytes of their texts), sorted, as far as was indexed."""
        query = (
            "SELECT category, count(*), sum(bytes) FROM docs "
            "WHERE kind = 0 AND number >> 40 = ? GROUP BY category ORDER BY category"
        )
        return self._db.rows(query, (self._db.group(group),))

    def listed(self, group: str, categories: Sequence[str], limit: int, offset: int) -> list[Listed]:
        """Return entries of these categories: by category, there by name, those without one last."""
        marks = ",".join("?" * len(categories))
        order = "ORDER BY category, name = '', name, key"
        query = (
            "SELECT key, category, name, title, substr(text, 1, 400), bytes, at FROM docs WHERE number IN ("  # noqa: S608  only marks
            f"SELECT number FROM docs WHERE kind = 0 AND number >> 40 = ? AND category IN ({marks}) {order} "
            f"LIMIT ? OFFSET ?) {order}"  # the inner one reads an index alone: the texts of all others stay unread
        )
        rows = self._db.rows(query, (self._db.group(group), *categories, limit, offset))
        return [Listed._make(row) for row in rows]

    def has_entries(self, group: str) -> bool:
        """Return whether there is any entry that a group may read."""
        self._refresh(GLOBAL_GROUP)
        self._refresh(group)
        return any(self._entries[self._db.group(name)] > 0 for name in (GLOBAL_GROUP, group))

    def entries(self, group: str, keys: Iterable[str]) -> dict[str, int]:
        """Return id -> number of those entries that a group may read and that are indexed."""
        rows = self._db.rows_in("SELECT key, number FROM docs WHERE kind = 0 AND key IN", list(keys))
        there = [(key, number) for key, number in rows if self._db.group_of(number) in (group, GLOBAL_GROUP)]
        return dict(sorted(there, key=lambda row: row[1]))  # the group's own behind what all may read

    def recalled(self, group: str, session: str) -> dict[str, int]:
        """Return entry id -> number of the turn it was recalled for."""
        query = "SELECT entry, turn FROM recalled WHERE grp = ? AND session = ?"
        return dict(self._db.rows(query, (group, session)))

    def note_recalled(self, group: str, session: str, entries: Iterable[str], turn: int, *, oldest: int) -> None:
        """Keep for which turn entries were recalled; what was recalled for turns before `oldest` is forgotten."""

        def write() -> None:
            with self._db.transaction() as db:
                db.execute("DELETE FROM recalled WHERE grp = ? AND session = ? AND turn < ?", (group, session, oldest))
                db.executemany(
                    "INSERT OR REPLACE INTO recalled VALUES (?, ?, ?, ?)",
                    [(group, session, entry, turn) for entry in entries],
                )

        self._db.guarded(write)

    def problems(self) -> list[tuple[str, str]]:
        """Return (file, what is wrong) of files that cannot be searched, sorted."""
        query = "SELECT file, problem FROM sources WHERE problem <> '' ORDER BY file"
        return self._db.rows(query)

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
            if not state.is_compared and self._documents[self._db.group(group)] <= _COMPARED_NOW:
                self.compare(group)
            state.fresh.update({file: None for file, sent in list(state.sent.items()) if sent.is_fresh})
            left = _NOW
            while state.fresh and left > 0:
                left -= self._read(group, state, state.fresh)
            return state.is_compared and not (state.fresh or state.backlog or state.sent)

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

    def _read(self, group: str, state: _Group, queue: dict[str, None]) -> int:
        """Index some of the files that wait in `queue`; return how many. The group's lock is held."""
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
        return len(files)

    def _take(
        self,
        group: str,
        files: Sequence[str],
        readings: Mapping[str, tuple[Task, Reading]],
        glossary: Glossary | None = None,
    ) -> Sequence[str]:
        """Index files; return those that are to be read again. The group's lock is held.

        Args:
            readings: what was read of all of them, and as what; empty: they are read now.
            glossary: of the terms of `readings`.
        """
        generation = self._db.generation
        number = self._db.group(group)
        changes, left = self._look(number, files, generation, readings)
        changes.glossary = glossary
        if not self._write(number, changes, generation):
            return files
        for file in files:
            self._grown.pop(file, None)
        self._grown.update({file: (generation, grown) for file, grown in changes.grown.items()})
        for file in list(self._grown)[:-_MOST_GROWN]:
            self._grown.pop(file, None)
        if changes.added or changes.removed:
            self._tell(group, lambda: _Delta([each.document(glossary) for each in changes.added], changes.removed))
        if self._embedder is not None:
            for gone in changes.removed:
                self._unembedded.pop(gone, None)
            self._unembedded.update((each.number, None) for each in changes.added)
        return left

    def _look(
        self, group: int, files: Sequence[str], generation: int, readings: Mapping[str, tuple[Task, Reading]]
    ) -> tuple[Changes, list[str]]:
        """Read files of a group that were not read yet; return what they change, and which of them are not done."""
        known = self._known(files)
        grown = {file: self._grown_of(file, generation) for file in files}
        whole = [each.number for file, each in known.items() if grown[file] is None and not file.endswith(".jsonl")]
        there = self._there(whole)
        reader = Reader(
            self._home,
            self._max_note_bytes,
            lambda: self._db.take_number("sources", group),
            lambda: self._db.take_number("docs", group),
            self._wall_ns,
        )
        changes = Changes()
        left: list[str] = []
        size = 0
        for place, file in enumerate(files):
            if size >= _BYTES_AT_ONCE:
                left += files[place:]
                break
            before = known.get(file)
            source = readings[file][0].source if file in readings else source_of(file)
            if source is None:
                continue
            indexed = partial(self._indexed, before, there)
            if source.kind in ("note", "history"):
                size += reader.read_notes(source, before, indexed, changes, None if before is None else grown[file])
                continue
            task = task_of(source, before)
            if file not in readings:
                reading = reader.read(task)
                size += reading.size
            else:
                asked, reading = readings[file]
                if asked != task:
                    left.append(file)  # it was read on meanwhile
                    continue
            if source.kind == "entry":
                reader.take_entry(source, reading, before, indexed, changes)
            else:
                reader.take_turns(source, reading, before, partial(self._said, before), changes)
                if not reading.is_whole:
                    left.append(file)  # a long log goes on
        return changes, left

    def _known(self, files: Sequence[str]) -> dict[str, Known]:
        """Return how files were indexed, those that were."""
        query = "SELECT file, number, inode, mark FROM sources WHERE file IN"
        return {row[0]: Known(*row[1:]) for row in self._db.rows_in(query, files)}

    def _grown_of(self, file: str, generation: int) -> Grown | None:
        """Return how a large file of notes was read, if that is what the database still has."""
        read_for, grown = self._grown.get(file, (-1, None))
        return grown if read_for == generation else None

    def _there(self, files: Sequence[int]) -> dict[int, dict[tuple[str, bytes], int]]:
        """Return number of a file -> (key, digest) -> number of a document of it; not of logs of turns."""
        there: dict[int, dict[tuple[str, bytes], int]] = {number: {} for number in files}
        query = "SELECT source, key, digest, number FROM docs WHERE kind <> 3 AND source IN"
        for file, key, digest, number in self._db.rows_in(query, files):
            there[file][key, digest] = number
        return there

    def _indexed(
        self, file: Known | None, there: Mapping[int, dict[tuple[str, bytes], int]]
    ) -> dict[tuple[str, bytes], int]:
        """Return what is indexed of a file, from `there` if it was asked for already."""
        if file is None:
            return {}
        return there[file.number] if file.number in there else self._there([file.number])[file.number]

    def _said(self, log_file: Known | None) -> list[int]:
        """Return the numbers of the turns of a log."""
        query = "SELECT number FROM docs WHERE source IN"
        return [row[0] for row in self._db.rows_in(query, [] if log_file is None else [log_file.number])]

    def _write(self, group: int, changes: Changes, generation: int) -> bool:
        """Write what was read; return False when the database is not the one it was read for."""

        def write() -> bool:
            if self._db.generation != generation:
                return False
            with self._db.transaction() as db:
                packed = self._packed(db, changes)
                db.executemany("DELETE FROM docs WHERE number = ?", ((number,) for number in changes.removed))
                db.executemany("DELETE FROM sources WHERE number = ?", ((number,) for number in changes.gone))
                db.executemany(_INSERT, map(Added.row, changes.added, packed))
                db.executemany("INSERT OR REPLACE INTO sources VALUES (?, ?, ?, ?, ?, ?, ?, ?)", changes.sources)
            self._documents[group] += len(changes.added) - len(changes.removed)
            self._entries[group] += changes.entries
            return True

        return self._db.guarded(write)

    def _packed(self, db: sqlite3.Connection, changes: Changes) -> list[bytes]:
        """Return the terms of what is added as the database has them; in a transaction."""
        if changes.glossary is None:
            return self._db.packed(db, [each.terms for each in changes.added if not isinstance(each.terms, bytes)])
        numbers = [each.terms for each in changes.added if isinstance(each.terms, bytes)]
        return self._db.renumbered(db, changes.glossary, numbers)

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

    def _count(self) -> None:
        """Count what is in the database."""
        count = "SELECT number >> 40, count(*) FROM docs GROUP BY 1"
        entries = "SELECT number >> 40, count(*) FROM docs INDEXED BY docs_entry WHERE kind = 0 GROUP BY 1"
        self._documents = Counter(dict(self._db.rows(count)))
        self._entries = Counter(dict(self._db.rows(entries)))

    def _emptied(self) -> None:
        """Begin again: the files are read in the background, or before the next search."""
        self._documents.clear()
        self._entries.clear()
        self._unembedded = {}
        self._grown.clear()
        for state in list(self._groups.values()):
            state.corpus = None
            state.corpus_bytes = 0
            state.deltas.clear()
            state.sent.clear()
            state.is_compared = False

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
            known = self._known([file for file in files if file.endswith(".jsonl")])
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
        from honeybadger_host.memory.corpus import Corpus
        from honeybadger_host.memory.vectors import Vectors

        corpus = Corpus()
        if self._embedder is not None:
            corpus.vectors = Vectors(self._embedder.dimensions, self._embedder.unrelated)
        numbers = sorted({self._db.group(name) for name in (GLOBAL_GROUP, group)})
        corpus.load(itertools.chain.from_iterable(map(self._columns, numbers)), self._words)
        if self._embedder is not None:
            for number in numbers:
                self._load_vectors(number, corpus, self._embedder.name)
        return corpus

    def _columns(self, group: int) -> Iterator[Columns]:
        """Yield the documents of a group; the database is free for others between two slices."""
        least, most = self._db.span(group)
        query = "SELECT number, file FROM sources WHERE number BETWEEN ? AND ? AND file LIKE 'data/%'"
        sessions = {number: _session_of(file) for number, file in self._db.rows(query, (least, most))}
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

    def _load_vectors(self, group: int, corpus: Corpus, model: str) -> None:
        least, most = self._db.span(group)
        query = "SELECT doc, data FROM vectors WHERE doc > ? AND doc <= ? AND model = ? ORDER BY doc LIMIT 1000"
        while rows := self._db.rows(query, (least, most, model)):
            _put_vectors(corpus, rows)
            least = rows[-1][0]

    def _use(self, group: str) -> None:
        """Note that a corpus was searched, and drop others when all of them are too large."""
        with self._groups_lock:
            self._used[group] = None
            self._used.move_to_end(group)
            while len(self._used) > 1 and self.resident_bytes > self._max_memory_bytes:
                name, _ = self._used.popitem(last=False)
                state = self._groups[name]
                state.corpus = None  # whoever is searching it keeps it that long
                state.corpus_bytes = 0
                state.deltas.clear()

    # -------------------------------------------------------------------------------------------------------- vectors

    def _find_unembedded(self) -> None:
        """Note which documents have no vector of the embedder; those of another model go."""
        if self._embedder is None:
            return
        model = self._embedder.name

        def find() -> list[Any]:
            with self._db.transaction() as db:
                db.execute("DELETE FROM vectors WHERE doc IN (SELECT doc FROM vectors WHERE model <> ?)", (model,))
                return db.execute(
                    "SELECT number FROM docs WHERE number NOT IN (SELECT doc FROM vectors) ORDER BY number"
                ).fetchall()

        self._unembedded = {row[0]: None for row in self._db.guarded(find)}

    def _keep_vectors(self, embedded: Sequence[tuple[tuple[int, str], bytes]]) -> None:
        """Write vectors of documents that still are what was embedded, and tell their groups' corpora."""
        assert self._embedder is not None  # noqa: S101  who else embedded them
        model = self._embedder.name
        kept: dict[str, list[tuple[int, bytes]]] = {}

        def write() -> None:
            kept.clear()
            with self._db.transaction() as db:
                for (number, text), data in embedded:
                    if db.execute("SELECT 1 FROM docs WHERE number = ? AND text = ?", (number, text)).fetchone():
                        db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (number, model, data))
                        kept.setdefault(self._db.group_of(number), []).append((number, data))

        self._db.guarded(write)
        for group, some in kept.items():
            self._tell(group, partial(_Delta, [], [], some))

    def _note_embedder(self, error: WorldFailed | None) -> None:
        """Say once that the embedder fails."""
        if error is not None and not self._embedder_failed:
            log.error("vectors.failed", error=str(error), now_what="words alone are searched; see recall.vectors")
        self._embedder_failed = error is not None


def open_copy(home: Path, group: str, *, max_note_bytes: int, embedder: Embedder | None = None) -> Index:
    """Return an index in memory with all that a group may read, whether a host serves the home or not.

    It begins with a copy of what the host has indexed, and then reads what is newer; nothing is embedded but the
    question.
    """
    index = Index(home, None, max_note_bytes=max_note_bytes, max_memory_bytes=0, embedder=embedder)
    index.copy_from(home / INDEX_FILE)
    for name in dict.fromkeys((GLOBAL_GROUP, group)):
        index.compare(name)
    while index.work():
        pass
    return index


def _bring_up(state: _Group, corpus: Corpus) -> None:
    """Tell a corpus what it was not told yet. The group's lock is held."""
    while state.deltas:
        delta = state.deltas.popleft()
        corpus.remove(delta.removed)
        corpus.add(document for document in delta.added if corpus.row_of(document.number) is None)
        _put_vectors(corpus, delta.embedded)
        if len(delta.added) + len(delta.removed) >= _AT_ONCE:
            state.corpus_bytes = corpus.memory_bytes


def _session_of(file: str) -> str:
    source = source_of(file)
    return "" if source is None else source.session


def embedded_text(kind: str, author: str, text: str, names: Sequence[str] = ()) -> str:
    """Return what is embedded of a document: a turn says whose it is, as a question does, an entry its names."""
    if kind == "turn":
        return f"{author}: {text}" if author else text
    return f"{', '.join(names)}: {text}" if names else text


def _put_vectors(corpus: Corpus, embedded: Iterable[tuple[int, bytes]]) -> None:
    """Give the documents that are there their vectors."""
    if corpus.vectors is None:
        return
    import numpy as np

    for number, data in embedded:
        row = corpus.row_of(number)
        if row is not None:
            corpus.vectors.put(row, np.frombuffer(data, "<f2").astype(np.float32))
