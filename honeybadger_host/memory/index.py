"""The search index: derived from the files, kept in `data/index.db`, deleted at any time without loss.

`touch` says that a file may have changed; the next search of its group reads it first, so that everything a group
was told is found by its next request. Changes nobody told of (an editor, a sync tool, a run that was killed) are found
by comparing every file's signature with the one it was indexed under. What is to be read in bulk is read in slices
by `work`, while searches are answered from what is there.

Of every document the analysed terms are kept, so that a group's corpus is in memory after one read of the table.
So is its vector, where an embedder is given: texts are embedded by `embed`, in the background.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import os
import sqlite3
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import orjson
import structlog

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files import FILE_MODE, Signature
from honeybadger_host.memory.analyzer import ANALYZER_VERSION, document_terms, entry_terms, length_in_words
from honeybadger_host.memory.sources import (
    Kind,
    Piece,
    Source,
    Unsearchable,
    groups_of,
    pieces_of,
    read_source,
    source_of,
    sources,
    turns_of,
)

if TYPE_CHECKING:
    from honeybadger_host.memory.corpus import Corpus, Document
    from honeybadger_host.memory.embedding import Embedder, Floats

log = structlog.get_logger()
ResultT = TypeVar("ResultT")

INDEX_FILE: Final = "data/index.db"
_SCHEMA_VERSION: Final = 3
_VERSION: Final = _SCHEMA_VERSION * 1000 + ANALYZER_VERSION
_SCHEMA: Final = """
CREATE TABLE sources (
    file TEXT PRIMARY KEY, grp TEXT NOT NULL, kind TEXT NOT NULL,
    inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    mark INTEGER NOT NULL,        -- bytes of a log that are indexed
    problem TEXT NOT NULL         -- why it cannot be searched, or empty
) WITHOUT ROWID;
CREATE INDEX sources_grp ON sources (grp);
CREATE TABLE docs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- no other document is ever given the number of one that went
    grp TEXT NOT NULL, file TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    session TEXT NOT NULL, author TEXT NOT NULL, role TEXT NOT NULL, at REAL,
    category TEXT NOT NULL, tags TEXT NOT NULL, known_by BLOB NOT NULL,
    length INTEGER NOT NULL, terms TEXT NOT NULL, text TEXT NOT NULL,
    digest BLOB NOT NULL,         -- of all that the file says of it
    name TEXT NOT NULL, title TEXT NOT NULL, bytes INTEGER NOT NULL  -- of an entry, and the size of its text
);
CREATE INDEX docs_file ON docs (file);
CREATE INDEX docs_grp ON docs (grp);
CREATE INDEX docs_entry ON docs (grp, key) WHERE kind = 'entry';
CREATE INDEX docs_listed ON docs (grp, category, name, key, bytes) WHERE kind = 'entry';
CREATE INDEX docs_known ON docs (grp, category, known_by) WHERE known_by <> x'';
CREATE TABLE vectors (
    doc INTEGER PRIMARY KEY, model TEXT NOT NULL,
    data BLOB NOT NULL            -- 16-bit floats, little end first
);
CREATE INDEX vectors_model ON vectors (model);  -- to count them without reading them
CREATE TRIGGER docs_gone AFTER DELETE ON docs BEGIN DELETE FROM vectors WHERE doc = old.id; END;
CREATE TABLE recalled (
    grp TEXT NOT NULL, session TEXT NOT NULL, entry TEXT NOT NULL, turn INTEGER NOT NULL,
    PRIMARY KEY (grp, session, entry)
) WITHOUT ROWID;
"""
_COLUMNS: Final = "id, kind, key, session, author, role, at, category, tags, length, terms"
_AT_ONCE: Final = 64
"""Files read in one transaction: about 10 ms, for which a search may wait."""
_NOW: Final = 2000
"""So many changed files are read before a search is answered; beyond that they are read in the background (0.3 s)."""
_LARGEST_ENTRY_BYTES: Final = 1 << 20
_LARGEST_READ: Final = 8 << 20
"""Bytes of a log read at once."""
_LOADED_AT_ONCE: Final = 20_000
"""Documents entered into a corpus at once: 50 MiB meanwhile, and half the time of 2,000 at once."""
_EMBEDDED_AT_ONCE: Final = 32
"""Texts embedded between two looks at what else is to be done: about 0.2 s on one core."""
_GRAIN_NS: Final = 20_000_000
"""A file this young may be written again within the same time stamp: it is looked at once more."""


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


@dataclass(slots=True)
class _Group:
    """What is known of a group in memory."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    fresh: dict[str, None] = field(default_factory=dict)
    """Files to be read before the next search is answered."""
    backlog: dict[str, None] = field(default_factory=dict)
    """Files to be read in the background."""
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
    """

    def __init__(
        self,
        home: Path,
        path: Path | None,
        *,
        max_note_bytes: int,
        max_memory_bytes: int,
        embedder: Embedder | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._home = home
        self._path = path
        self._max_note_bytes = max_note_bytes
        self._max_memory_bytes = max_memory_bytes
        self._embedder = embedder
        self._embedder_failed = False
        self._unembedded: dict[int, None] = {}
        self._wall_ns = wall_ns
        self._db_lock = threading.RLock()
        """Held for the database: taken after a group's lock, never before one."""
        self._groups: dict[str, _Group] = {}
        self._used: OrderedDict[str, None] = OrderedDict()
        """Groups whose corpus is in memory, the least recently searched first."""
        self._groups_lock = threading.Lock()
        self.rebuilds = 0
        self._inode = 0
        self._db = self._open()
        self.documents: int = self._db.execute("SELECT count(*) FROM docs").fetchone()[0]
        self._find_unembedded()

    def close(self) -> None:
        with self._db_lock:
            self._db.close()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, sqlite3.Error):
            self._db.close()  # whoever made one for a moment, as a command does, need not think of it

    def copy_from(self, path: Path) -> None:
        """Begin with what a database of another index holds, if it can be used."""
        try:
            with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
                if source.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
                    source.backup(self._db)
        except sqlite3.Error as error:
            log.debug("index.not_copied", error=str(error))  # all files are read, then
        self._find_unembedded()

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
        """Say that anything below a group's folder may have changed: the next search of the group looks."""
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
        if self._path is not None and self._inode != _inode_of(self._path):
            self._rebuild("its file was removed or replaced")
        names = {*groups_of(self._home), *self._known_groups()}
        return sum(self.compare(name) for name in sorted(names))

    def work(self) -> bool:
        """Read a slice of what waits in the background; return whether there was any."""
        for name, state in list(self._groups.items()):
            for queue in (state.backlog, state.fresh):
                if queue:
                    with state.lock:
                        self._guarded(lambda name=name, queue=queue: self._read(name, queue))  # type: ignore[misc]
                    return True
        return False

    def embed(self) -> bool:
        """Embed a few of the texts that have no vector yet; return whether it is worth to go on. Raises WorldFailed."""
        if self._embedder is None or not self._unembedded:
            return False
        numbers = list(itertools.islice(reversed(self._unembedded), _EMBEDDED_AT_ONCE))  # the newest are asked for most
        marks = ",".join("?" * len(numbers))
        query = f"SELECT id, kind, author, text FROM docs WHERE id IN ({marks})"  # noqa: S608  only question marks
        texts = {row[0]: (row[3], embedded_text(*row[1:])) for row in self._rows(query, numbers)}
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
        return sum(len(state.fresh) + len(state.backlog) for state in list(self._groups.values()))

    @property
    def resident_bytes(self) -> int:
        """What the corpora in memory take, estimated."""
        return sum(state.corpus_bytes for state in list(self._groups.values()))

    # ----------------------------------------------------------------------------------------------------- questions

    def search(self, group: str, ask: Callable[[Corpus], ResultT]) -> tuple[ResultT, bool]:
        """Return what `ask` finds in a group's corpus, and whether all its files were read.

        The corpus holds what every group may read, too. `ask` must not keep it. Raises WorldFailed.
        """
        is_complete = self._refresh(GLOBAL_GROUP) & self._refresh(group)
        state = self._group(group)
        with state.lock:
            return ask(self._corpus(group, state)), is_complete

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
        marks = ",".join("?" * len(numbers))
        query = f"SELECT id, grp, kind, key, file, session, author, role, at, category, tags, text FROM docs WHERE id IN ({marks})"  # noqa: S608, E501  only question marks
        rows = self._rows(query, numbers)
        return {row[0]: Found._make((*row[:10], tuple(orjson.loads(row[10])), row[11])) for row in rows}

    def known(self, group: str, category: str, normalised: str) -> str | None:
        """Return the id of an entry that says just this, as far as was indexed; see `entries.normalise`."""
        query = "SELECT key FROM docs WHERE grp = ? AND category = ? AND known_by = ? LIMIT 1"
        try:
            rows = self._rows(query, (group, category, _digest(normalised)))
        except WorldFailed as error:
            log.error("index.failed", file=INDEX_FILE, error=str(error), now_what="a text may be saved twice")
            return None
        return str(rows[0][0]) if rows else None

    def named(self, group: str, category: str, name: str) -> str | None:
        """Return the id of an entry of this name, as far as was indexed."""
        query = "SELECT key FROM docs WHERE kind = 'entry' AND grp = ? AND category = ? AND name = ? LIMIT 1"
        try:
            rows = self._rows(query, (group, category, name))
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
            "WHERE kind = 'entry' AND grp = ? GROUP BY category ORDER BY category"
        )
        return self._rows(query, (group,))

    def listed(self, group: str, categories: Sequence[str], limit: int, offset: int) -> list[Listed]:
        """Return entries of these categories: by category, there by name, those without one last."""
        marks = ",".join("?" * len(categories))
        query = (
            "SELECT key, category, name, title, substr(text, 1, 400), bytes, at FROM docs "  # noqa: S608  only marks
            f"WHERE kind = 'entry' AND grp = ? AND category IN ({marks}) "
            "ORDER BY category, name = '', name, key LIMIT ? OFFSET ?"
        )
        return [Listed._make(row) for row in self._rows(query, (group, *categories, limit, offset))]

    def has_entries(self, group: str) -> bool:
        """Return whether there is any entry that a group may read."""
        self._refresh(GLOBAL_GROUP)
        self._refresh(group)
        query = "SELECT 1 FROM docs WHERE kind = 'entry' AND grp IN (?, ?) LIMIT 1"
        return bool(self._rows(query, (group, GLOBAL_GROUP)))

    def entries(self, group: str, keys: Iterable[str]) -> dict[str, int]:
        """Return id -> number of those entries that a group may read and that are indexed."""
        query = "SELECT id FROM docs WHERE kind = 'entry' AND key = ? AND grp IN (?, ?) ORDER BY grp = ? DESC, id DESC"
        found = {key: self._rows(query, (key, group, GLOBAL_GROUP, group)) for key in keys}
        return {key: rows[0][0] for key, rows in found.items() if rows}

    def recalled(self, group: str, session: str) -> dict[str, int]:
        """Return entry id -> number of the turn it was recalled for."""
        query = "SELECT entry, turn FROM recalled WHERE grp = ? AND session = ?"
        return dict(self._rows(query, (group, session)))

    def note_recalled(self, group: str, session: str, entries: Iterable[str], turn: int, *, oldest: int) -> None:
        """Keep for which turn entries were recalled; what was recalled for turns before `oldest` is forgotten."""

        def write() -> None:
            with self._transaction() as db:
                db.execute("DELETE FROM recalled WHERE grp = ? AND session = ? AND turn < ?", (group, session, oldest))
                db.executemany(
                    "INSERT OR REPLACE INTO recalled VALUES (?, ?, ?, ?)",
                    [(group, session, entry, turn) for entry in entries],
                )

        self._guarded(write)

    def problems(self) -> list[tuple[str, str]]:
        """Return (file, what is wrong) of files that cannot be searched, sorted."""
        query = "SELECT file, problem FROM sources WHERE problem <> '' ORDER BY file"
        return self._rows(query)

    # ------------------------------------------------------------------------------------------------------- reading

    def _group(self, name: str) -> _Group:
        state = self._groups.get(name)
        if state is None:
            with self._groups_lock:
                state = self._groups.setdefault(name, _Group())
        return state

    def _known_groups(self) -> set[str]:
        return {row[0] for row in self._rows("SELECT DISTINCT grp FROM sources")} | set(self._groups)

    def _refresh(self, group: str) -> bool:
        """Read what may have changed; return whether nothing is left for the background."""
        state = self._group(group)
        if not (state.fresh or state.backlog) and state.is_compared:
            return True
        with state.lock:
            if not state.is_compared:
                self.compare(group)
            left = _NOW
            while state.fresh and left > 0:
                left -= self._guarded(lambda: self._read(group, state.fresh))
            return not state.fresh and not state.backlog

    def _changed(self, group: str) -> list[str]:
        """Return the files that are not what was indexed, and those that are gone."""
        query = "SELECT file, inode, size, mtime_ns, ctime_ns FROM sources WHERE grp = ?"
        known = {row[0]: row[1:] for row in self._rows(query, (group,))}
        folders: set[str] = set()
        changed = [
            source.file
            for source, signature in sources(self._home, group, folders)
            if known.pop(source.file, None) != signature
        ]
        self._group(group).folders = folders
        return changed + list(known)

    def _read(self, group: str, queue: dict[str, None]) -> int:
        """Index some of the files that wait in `queue`; return how many."""
        files = list(itertools.islice(queue, _AT_ONCE))
        for file in files:
            queue.pop(file, None)  # before it is read: whoever touches it meanwhile puts it in again
        delta = _Delta([], [])
        try:
            with self._transaction() as db:
                there = self._there(db, files)
                for file in files:
                    source = source_of(file)
                    if source is not None and not self._index(db, source, there.get(file, {}), delta):
                        queue[file] = None  # a long log goes on
        except BaseException:
            queue.update(dict.fromkeys(files))
            raise
        self.documents += len(delta.added) - len(delta.removed)
        if delta.added or delta.removed:
            self._tell(group, delta)
        if self._embedder is not None:
            for number in delta.removed:
                self._unembedded.pop(number, None)
            self._unembedded.update((document.number, None) for document in delta.added)
        return len(files)

    def _tell(self, group: str, delta: _Delta) -> None:
        """Keep a change of a group for the corpora that hold it."""
        for name, state in list(self._groups.items()):
            if group in (name, GLOBAL_GROUP) and (state.corpus is not None or state.is_loading):
                state.deltas.append(delta)

    @staticmethod
    def _there(db: sqlite3.Connection, files: Sequence[str]) -> dict[str, dict[tuple[str, bytes], int]]:
        """Return file -> (key, digest) -> number of what is indexed of files other than logs of turns."""
        marks = ",".join("?" * len(files))
        query = f"SELECT file, key, digest, id FROM docs WHERE file IN ({marks}) AND kind <> 'turn'"  # noqa: S608  only question marks
        there: dict[str, dict[tuple[str, bytes], int]] = {}
        for file, key, digest, number in db.execute(query, files):
            there.setdefault(file, {})[key, digest] = number
        return there

    def _index(
        self, db: sqlite3.Connection, source: Source, there: dict[tuple[str, bytes], int], delta: _Delta
    ) -> bool:
        """Bring the index up to date with one file; return whether all of it was read.

        Args:
            there: what is indexed of it.
        """
        if source.kind == "turn":
            return self._index_turns(db, source, delta)
        problem = ""
        limit = _LARGEST_ENTRY_BYTES if source.kind == "entry" else self._max_note_bytes
        pieces: Sequence[Piece] = ()
        signature = None
        try:
            read = read_source(self._home, source.file, most_bytes=limit)
            if read is not None:
                signature = read[1]
                pieces = pieces_of(source, *read)
        except Unsearchable as error:
            problem = str(error)
            signature = signature or _signature_of(self._home / source.file)
        except OSError as error:
            log.error("index.failed", file=source.file, error=error.strerror, now_what="it is read again later")
            return True  # the next comparison finds it
        for piece in pieces:
            digest = _digest(repr(piece))
            if there.pop((piece.key, digest), None) is None:
                delta.added.append(_insert(db, source, piece, digest))
        if there:
            db.executemany("DELETE FROM docs WHERE id = ?", [(number,) for number in there.values()])
            delta.removed.extend(there.values())
        self._note_source(db, source, signature, 0, problem)
        return True

    def _index_turns(self, db: sqlite3.Connection, source: Source, delta: _Delta) -> bool:
        """Index what was appended to a log; all of it when it is another file, or shorter than it was."""
        row = db.execute("SELECT inode, mark FROM sources WHERE file = ?", (source.file,)).fetchone()
        signature = _signature_of(self._home / source.file)
        mark = row[1] if row is not None and signature is not None and row[0] == signature.inode else 0
        if signature is not None and signature.size < mark:
            mark = 0
        problem, is_whole = "", True
        if mark == 0 and row is not None:
            removed = [row[0] for row in db.execute("SELECT id FROM docs WHERE file = ?", (source.file,))]
            db.execute("DELETE FROM docs WHERE file = ?", (source.file,))
            delta.removed.extend(removed)
        try:
            read = read_source(self._home, source.file, start=mark, most_bytes=_LARGEST_READ, is_cut=True)
        except Unsearchable as error:
            read, problem = None, str(error)
        except OSError as error:
            log.error("index.failed", file=source.file, error=error.strerror, now_what="it is read again later")
            return True
        if read is not None:
            data, signature = read
            pieces, whole, skipped = turns_of(data)
            delta.added.extend(_insert(db, source, piece, b"") for piece in pieces)
            if not whole and len(data) == _LARGEST_READ:
                whole = len(data)  # one line of so many bytes is no turn
            mark += whole
            is_whole = mark >= signature.size or not whole
            if skipped:
                log.warning("index.skipped", file=source.file, lines=skipped, why="they are no turns")
            if not is_whole:
                signature = signature._replace(size=mark)
        self._note_source(db, source, signature, mark, problem)
        return is_whole

    def _note_source(
        self, db: sqlite3.Connection, source: Source, signature: Signature | None, mark: int, problem: str
    ) -> None:
        if signature is None:
            db.execute("DELETE FROM sources WHERE file = ?", (source.file,))
            return
        if problem:
            log.warning("index.refused", file=source.file, why=problem)
        is_young = self._wall_ns() - max(signature.mtime_ns, signature.ctime_ns) < _GRAIN_NS
        db.execute(
            "INSERT OR REPLACE INTO sources VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                source.file,
                source.group,
                source.kind,
                signature.inode,
                -1 if is_young else signature.size,
                signature.mtime_ns,
                signature.ctime_ns,
                mark,
                problem,
            ),
        )

    # -------------------------------------------------------------------------------------------------------- corpora

    def _corpus(self, group: str, state: _Group) -> Corpus:
        """Return the corpus of a group, loaded and up to date. The group's lock is held."""
        corpus = state.corpus
        if corpus is None:
            started = time.monotonic()
            state.is_loading = True  # from now on deltas are kept for it
            try:
                corpus = self._load(group)
                state.corpus = corpus
                state.corpus_bytes = corpus.memory_bytes
            finally:
                state.is_loading = False
            log.debug("index.loaded", group=group, documents=len(corpus), seconds=round(time.monotonic() - started, 3))
        while state.deltas:
            delta = state.deltas.popleft()
            corpus.remove(delta.removed)
            corpus.add(document for document in delta.added if corpus.row_of(document.number) is None)
            _put_vectors(corpus, delta.embedded)
            if len(delta.added) + len(delta.removed) >= _AT_ONCE:
                state.corpus_bytes = corpus.memory_bytes
        self._use(group)
        return corpus

    def _load(self, group: str) -> Corpus:
        """Read a corpus from the table, with what every group may read."""
        from honeybadger_host.memory.corpus import Corpus
        from honeybadger_host.memory.vectors import Vectors

        corpus = Corpus()
        if self._embedder is not None:
            corpus.vectors = Vectors(self._embedder.dimensions, self._embedder.unrelated)
        query = f"SELECT {_COLUMNS} FROM docs WHERE grp = ? AND id > ? ORDER BY id LIMIT 2000"  # noqa: S608  constant
        documents: list[Document] = []
        for name in dict.fromkeys((GLOBAL_GROUP, group)):
            last = 0
            while rows := self._rows(query, (name, last)):  # the database is free for others between two reads
                documents += map(_document, rows)
                last = rows[-1][0]
                if len(documents) >= _LOADED_AT_ONCE:
                    corpus.add(documents)
                    documents = []
        corpus.add(documents)
        if self._embedder is not None:
            self._load_vectors(group, corpus, self._embedder.name)
        return corpus

    def _load_vectors(self, group: str, corpus: Corpus, model: str) -> None:
        query = (
            "SELECT doc, data FROM docs JOIN vectors ON doc = id WHERE grp = ? AND id > ? AND model = ? "
            "ORDER BY id LIMIT 1000"
        )
        for name in dict.fromkeys((GLOBAL_GROUP, group)):
            last = 0
            while rows := self._rows(query, (name, last, model)):
                _put_vectors(corpus, rows)
                last = rows[-1][0]

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
            with self._transaction() as db:
                db.execute("DELETE FROM vectors WHERE doc IN (SELECT doc FROM vectors WHERE model <> ?)", (model,))
                return db.execute(
                    "SELECT id FROM docs WHERE id NOT IN (SELECT doc FROM vectors) ORDER BY id"
                ).fetchall()

        self._unembedded = {row[0]: None for row in self._guarded(find)}

    def _keep_vectors(self, embedded: Sequence[tuple[tuple[int, str], bytes]]) -> None:
        """Write vectors of documents that still are what was embedded, and tell their groups' corpora."""
        assert self._embedder is not None  # noqa: S101  who else embedded them
        model = self._embedder.name
        kept: dict[str, list[tuple[int, bytes]]] = {}

        def write() -> None:
            kept.clear()
            with self._transaction() as db:
                for (number, text), data in embedded:
                    row = db.execute("SELECT grp FROM docs WHERE id = ? AND text = ?", (number, text)).fetchone()
                    if row is not None:
                        db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (number, model, data))
                        kept.setdefault(row[0], []).append((number, data))

        self._guarded(write)
        for group, some in kept.items():
            self._tell(group, _Delta([], [], some))

    def _note_embedder(self, error: WorldFailed | None) -> None:
        """Say once that the embedder fails."""
        if error is not None and not self._embedder_failed:
            log.error("vectors.failed", error=str(error), now_what="words alone are searched; see recall.vectors")
        self._embedder_failed = error is not None

    # ------------------------------------------------------------------------------------------------------- database

    def _open(self) -> sqlite3.Connection:
        """Open the database; one that is damaged, or of another version, is made anew."""
        if self._path is None:
            return _prepared(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
        db: sqlite3.Connection | None = None
        try:
            db = _connect(self._path)
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == _VERSION:
                db.execute("SELECT count(*) FROM (SELECT 1 FROM sources, docs, recalled, vectors LIMIT 1)")
                self._inode = _inode_of(self._path)
                return db
            why = "it is new" if version == 0 else f"it has version {version}, this host makes {_VERSION}"
        except sqlite3.Error as error:
            why = f"it is damaged ({error})"
        if db is not None:
            db.close()
        return self._make_anew(why)

    def _make_anew(self, why: str) -> sqlite3.Connection:
        assert self._path is not None  # noqa: S101  only a file can be damaged
        try:
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self._path}{end}")
            db = _prepared(_connect(self._path))
            self._inode = _inode_of(self._path)
        except (OSError, sqlite3.Error) as error:
            log.error(
                "index.failed", file=INDEX_FILE, error=str(error), now_what="it is kept in memory until a restart"
            )
            db = _prepared(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
            self._path = None
        self.rebuilds += 1
        log.info("index.rebuilt", why=why)
        return db

    def _rebuild(self, why: str) -> None:
        """Begin again with an empty index; the files are read in the background, or before the next search."""
        with self._db_lock:
            self._db.close()
            self._db = self._make_anew(why) if self._path is not None else self._open()
            self.documents = 0
            self._unembedded = {}
        for state in list(self._groups.values()):
            state.corpus = None
            state.corpus_bytes = 0
            state.deltas.clear()
            state.is_compared = False

    def _guarded(self, act: Callable[[], ResultT]) -> ResultT:
        """Do something with the database; when that is damaged, once more with a new one. Raises WorldFailed."""
        with self._db_lock:
            for is_last in (False, True):
                try:
                    return act()
                except sqlite3.Error as error:
                    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                    if is_last or code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
                        raise WorldFailed(f"the search index cannot be used ({error})") from error
                    self._rebuild(f"it is damaged ({error})")
            raise AssertionError  # the loop returns or raises

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._guarded(lambda: self._db.execute(query, values).fetchall())

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._db_lock:
            self._db.execute("BEGIN")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


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


def _connect(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))
    db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")  # after a power cut it may be damaged, and is built anew
        db.execute("PRAGMA cache_size = -8000")
    except BaseException:
        db.close()
        raise
    return db


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
    return db


def _insert(db: sqlite3.Connection, source: Source, piece: Piece, digest: bytes) -> Document:
    """Add a document to the table; return it."""
    if source.kind == "entry":
        terms = entry_terms(piece.text, piece.category, (*piece.names, *piece.tags))
    else:
        terms = document_terms("\n".join((*piece.names, piece.text)))
    length = length_in_words(terms)
    number = db.execute(
        f"INSERT INTO docs VALUES (NULL{', ?' * 18})",  # noqa: S608  only question marks
        (
            source.group,
            source.file,
            source.kind,
            piece.key,
            source.session,
            piece.author,
            piece.role,
            piece.at,
            piece.category,
            orjson.dumps(piece.tags).decode(),
            _digest(piece.known_by) if piece.known_by else b"",
            length,
            " ".join(terms),
            piece.text,
            digest,
            piece.name,
            piece.title,
            len(piece.text.encode("utf-8", "surrogatepass")) if source.kind == "entry" else 0,
        ),
    ).lastrowid
    row = (
        number or 0,
        source.kind,
        piece.key,
        source.session,
        piece.author,
        piece.role,
        piece.at,
        piece.category,
        piece.tags,
        length,
        terms,
    )
    return _new_document(row)


def _document(row: Sequence[Any]) -> Document:
    tags = tuple(orjson.loads(row[8])) if row[8] != "[]" else ()
    return _new_document((*row[:8], tags, row[9], row[10].split(" ")))


def _new_document(row: tuple[Any, ...]) -> Document:
    """Return a document from the values of `_COLUMNS`."""
    from honeybadger_host.memory.corpus import Document

    number, kind, key, session, author, role, at, category, tags, length, terms = row
    return Document(
        number=number,
        kind=kind,
        key=key,
        terms=terms,
        length=length,
        session=session,
        author=author,
        role=role,
        at=math.nan if at is None else at,
        category=category,
        tags=tags,
    )


def embedded_text(kind: str, author: str, text: str) -> str:
    """Return what is embedded of a document: a turn says whose it is, as a question does."""
    return f"{author}: {text}" if kind == "turn" and author else text


def _put_vectors(corpus: Corpus, embedded: Iterable[tuple[int, bytes]]) -> None:
    """Give the documents that are there their vectors."""
    if corpus.vectors is None:
        return
    import numpy as np

    for number, data in embedded:
        row = corpus.row_of(number)
        if row is not None:
            corpus.vectors.put(row, np.frombuffer(data, "<f2").astype(np.float32))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _signature_of(path: Path) -> Signature | None:
    try:
        return Signature.of(os.stat(path, follow_symlinks=False))
    except OSError:
        return None


def _inode_of(path: Path) -> int:
    signature = _signature_of(path)
    return 0 if signature is None else signature.inode
