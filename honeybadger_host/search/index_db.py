"""`data/index.db`: opened, rebuilt whenever it cannot be used; gives out document, file, group and term ids.

The numbers of documents and files begin with the group's number, so the rows of a group are adjacent and are read
without another index. Terms are stored as term ids of 4 bytes, so that loading a group does not handle words. A number
is never given twice while a host runs, not even after a rebuild.
"""

import contextlib
import os
import sqlite3
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import STORE
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.safe_files import identity_of, make_file
from honeybadger_host.log import log

ResultT = TypeVar("ResultT")
Table: TypeAlias = Literal["docs", "sources"]

INDEX_FILE = "data/index.db"
# Raised whenever the schema, or the terms of any text, change: an index of another version is rebuilt.
VERSION = 17
_GROUP_SHIFT = 40
_SCHEMA = """
CREATE TABLE groups (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    documents INTEGER NOT NULL DEFAULT 0  -- how many; counting 200,000 takes 50 ms
);
CREATE TABLE sources (
    number INTEGER PRIMARY KEY,   -- the group's number << 40, and one more for every file
    file TEXT NOT NULL UNIQUE,    -- below the home folder; says kind, group and session
    inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    mark INTEGER NOT NULL         -- bytes of a log that are indexed
);
CREATE TABLE terms (number INTEGER PRIMARY KEY AUTOINCREMENT, term TEXT NOT NULL UNIQUE);
CREATE TABLE docs (
    number INTEGER PRIMARY KEY,   -- as of a source
    source INTEGER NOT NULL, kind INTEGER NOT NULL, key TEXT NOT NULL,
    author TEXT NOT NULL, role TEXT NOT NULL, at REAL, category TEXT NOT NULL,
    tags TEXT NOT NULL,           -- JSON, or empty
    length INTEGER NOT NULL,
    terms BLOB NOT NULL,          -- their numbers, 32 bits each as this machine writes them, in order
    known_by INTEGER,             -- 64 bits of what its text says, normalised
    digest BLOB NOT NULL,         -- of all that the file says of it
    name TEXT NOT NULL, title TEXT NOT NULL,  -- of an entry
    names TEXT NOT NULL,          -- further words it is found by, one on each line
    bytes INTEGER NOT NULL,       -- size of an entry's text
    marks TEXT NOT NULL DEFAULT '',  -- what else an entry knows of itself: JSON
    until REAL,                   -- when an entry ceases to be valid, seconds since the epoch
    text TEXT NOT NULL
);
CREATE INDEX docs_source ON docs (source);
CREATE INDEX docs_entry ON docs (key, kind) WHERE kind = 0;  -- `kind`: entries are counted without reading them
CREATE INDEX docs_listed ON docs (number >> 40, category, name, key, bytes, kind) WHERE kind = 0;  -- as above
CREATE INDEX docs_known ON docs (known_by) WHERE known_by IS NOT NULL;
CREATE INDEX docs_until ON docs (until) WHERE until IS NOT NULL;
CREATE TABLE vectors (
    doc INTEGER PRIMARY KEY, model TEXT NOT NULL,
    data BLOB NOT NULL            -- 16-bit floats, little end first
);
CREATE INDEX vectors_model ON vectors (model);  -- to count them without reading them
CREATE TABLE sketches (           -- by which entries that say nearly the same are found, see `similarity`
    pair INTEGER NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY (pair, doc)
) WITHOUT ROWID;
CREATE TABLE blocks (             -- documents whose postings are written, see `blocks`
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL,  -- numbers of documents
    labels TEXT NOT NULL, rows BLOB NOT NULL
);
CREATE TABLE postings (
    block INTEGER NOT NULL, term INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (block, term)
) WITHOUT ROWID;
CREATE TABLE gone (doc INTEGER PRIMARY KEY);  -- documents of blocks that were removed
CREATE TRIGGER docs_gone AFTER DELETE ON docs BEGIN
    DELETE FROM vectors WHERE doc = old.number;
    INSERT INTO gone SELECT old.number FROM (
        SELECT last FROM blocks WHERE first <= old.number ORDER BY first DESC LIMIT 1
    ) WHERE last >= old.number;
END;
"""
# The condition of documents that are searched and recalled; `LIKE` does not tell upper and lower case.
FOUND = f"category NOT LIKE '{STORE}%'"
_REMEMBERED_TERMS = 50_000  # terms whose id is cached: about 5 MiB
IN_ONE_QUERY = 500  # values of one query, or files compared with it


class IndexFile:
    """The database of an index. Thread-safe.

    Args:
        path: of its file; None keeps it in memory.
        emptied: called after a rebuild.
    """

    def __init__(self, path: Path | None, emptied: Callable[[], None]) -> None:
        self._path = path
        self._emptied: Callable[[], None] = lambda: None  # nothing to tell while it is opened
        self._lock = threading.RLock()
        self._place: tuple[int, int, int] | None = None
        self.groups: dict[str, int] = {}  # the number of each, by name
        self._names: dict[int, str] = {}
        self.documents: Counter[int] = Counter()  # number of documents, by group number
        self._last: dict[tuple[Table, int], int] = {}  # the last number given, by table and group
        self._terms: dict[str, int] = {}
        self.rebuilds = 0
        # Raised by every rebuild, and when blocks are deleted: data read from an earlier generation is void.
        self.generation = 0
        self._db = self._open()
        self._look_up_groups()
        self._emptied = emptied

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # ------------------------------------------------------------------------------------------------------- content

    def rows(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Return the rows of a query. Raises WorldFailed."""
        return self.guarded(lambda: self._db.execute(query, values).fetchall())

    def rows_in(self, query: str, values: Sequence[Any]) -> Iterator[Any]:
        """Yield the rows of a query that ends with `IN`, for any number of values. Raises WorldFailed."""
        for start in range(0, len(values), IN_ONE_QUERY):
            some = values[start : start + IN_ONE_QUERY]
            yield from self.rows(f"{query} ({','.join('?' * len(some))})", some)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Lock the database for one thread; commit on success, else roll back. Raises sqlite3.Error."""
        with self._lock:
            self._db.execute("BEGIN")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                self._terms = {}  # some may have been rolled back
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def guarded(self, act: Callable[[], ResultT]) -> ResultT:
        """Run `act`; if the database is damaged, rebuild it and run `act` once more. Raises WorldFailed."""
        with self._lock:
            for is_last in (False, True):
                try:
                    return act()
                except sqlite3.Error as error:
                    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                    if is_last or code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
                        raise WorldFailed(f"the search index cannot be used ({error})") from error
                    self.rebuild(f"it is damaged ({error})")
            raise AssertionError  # the loop returns or raises

    # -- numbers ----------------------------------------------------------------------------------------------------

    def group(self, name: str) -> int:
        """Return the number of a group; a new group gets a new one. Raises WorldFailed."""
        if name not in self.groups:
            self.guarded(lambda: self._add_group(name))
        return self.groups[name]

    def _add_group(self, name: str) -> None:
        if name not in self.groups:  # else another thread was faster
            number = len(self.groups)
            self._db.execute("INSERT INTO groups (number, name) VALUES (?, ?)", (number, name))
            self.groups[name], self._names[number] = number, name

    def group_of(self, number: int) -> str:
        """Return the group of a document or a file."""
        return self._names.get(number >> _GROUP_SHIFT, "")

    @staticmethod
    def span(group: int) -> tuple[int, int]:
        """Return the least and the greatest number of anything in a group."""
        return group << _GROUP_SHIFT, ((group + 1) << _GROUP_SHIFT) - 1

    def take_number(self, table: Table, group: int) -> int:
        """Return the next number of a document or a file. The group's lock is held. Raises WorldFailed."""
        last = self._last.get((table, group))
        if last is None:
            query = f"SELECT max(number) FROM {table} WHERE number BETWEEN ? AND ?"  # noqa: S608  one of two names
            last = self.rows(query, self.span(group))[0][0] or self.span(group)[0]
        self._last[table, group] = last + 1
        return last + 1

    def packed(self, db: sqlite3.Connection, texts: Sequence[Sequence[str]]) -> list[bytes]:
        """Return the terms of texts packed as term ids; new terms get an id. Called in a transaction."""
        if len(self._terms) > _REMEMBERED_TERMS:
            self._terms = {}
        packed: list[bytes] = []
        for text in texts:
            try:
                numbers = array("I", map(self._terms.__getitem__, text))
            except KeyError:
                self._note_terms(db, texts[len(packed) :])
                numbers = array("I", map(self._terms.__getitem__, text))
            packed.append(numbers.tobytes())
        return packed

    def _note_terms(self, db: sqlite3.Connection, texts: Iterable[Sequence[str]]) -> None:
        """Look up the ids of all terms of some texts; new terms get one."""
        new = list(set(chain.from_iterable(texts)).difference(self._terms))
        db.executemany("INSERT OR IGNORE INTO terms (term) VALUES (?)", ((term,) for term in new))
        self._terms.update(self.rows_in("SELECT term, number FROM terms WHERE term IN", new))

    def drop_blocks(self, most_gone: int) -> None:
        """Delete the blocks of groups from whose blocks more documents were removed. Raises WorldFailed."""
        for (group,) in self.rows("SELECT doc >> 40 FROM gone GROUP BY 1 HAVING count(*) > ?", (most_gone,)):
            self.guarded(partial(self._drop_blocks, self.span(group)))

    def _drop_blocks(self, span: tuple[int, int]) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM postings WHERE block BETWEEN ? AND ?", span)
            db.execute("DELETE FROM blocks WHERE first BETWEEN ? AND ?", span)
            db.execute("DELETE FROM gone WHERE doc BETWEEN ? AND ?", span)
            self.generation += 1

    def scrub(self) -> None:
        """Erase what was deleted, and words that are in no text; a power cut restores nothing. Raises WorldFailed."""
        self.drop_blocks(0)
        self.guarded(self._scrub)

    def _scrub(self) -> None:
        used: set[int] = set()
        for (terms,) in self._db.execute("SELECT terms FROM docs"):
            used.update(array("I", terms))
        unused = [(number,) for (number,) in self._db.execute("SELECT number FROM terms") if number not in used]
        with self.transaction() as db:
            db.executemany("DELETE FROM terms WHERE number = ?", unused)
        self._terms = {}
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # else the WAL is synced with deleted texts
        self._db.execute("PRAGMA synchronous = FULL")
        try:
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._db.execute("PRAGMA synchronous = OFF")

    def _look_up_groups(self) -> None:
        """Read the groups of a database that was opened; nobody else uses it yet."""
        rows = self.rows("SELECT number, name, documents FROM groups")
        self._names = {number: name for number, name, _ in rows}
        self.groups = {name: number for number, name, _ in rows}
        self.documents = Counter({number: documents for number, _, documents in rows})
        self._terms = {}

    # -- the file ---------------------------------------------------------------------------------------------------

    @property
    def is_gone(self) -> bool:
        """Whether its file was removed or replaced."""
        return self._path is not None and self._place != identity_of(self._path)

    def rebuild(self, why: str) -> None:
        """Start over with an empty database."""
        with self._lock:
            self._db.close()
            self._db = self._open(why)
            self.generation += 1
            self._look_up_groups()
        self._emptied()

    def _open(self, why: str = "") -> sqlite3.Connection:
        """Open the database; an empty one if it is damaged or of another version, or for another reason.

        It is kept in memory where there can be no file.
        """
        if self._path is None:
            return _prepared(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
        try:
            db = _connect(self._path, is_new=why != "")
            self._place = identity_of(self._path)
        except (OSError, sqlite3.Error) as error:
            if not why:
                return self._open(str(error))
            log.error(
                "index.failed", file=INDEX_FILE, error=str(error), now_what="it is kept in memory until a restart"
            )
            self._path = None
            db = self._open()
        if why:
            self.rebuilds += 1
            log.info("index.rebuilt", why=why)
        return db


def _connect(path: Path, *, is_new: bool) -> sqlite3.Connection:
    """Return the database of a file, or a new one in its place. Raises OSError, sqlite3.Error: it cannot be used."""
    for end in ("", "-wal", "-shm") if is_new else ():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{end}")
    make_file(path)
    db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")  # after a power cut it may be damaged, and is rebuilt
        db.execute("PRAGMA cache_size = -4000")
        db.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: some are rewritten often during bulk indexing
        if is_new:
            return _prepared(db)
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise sqlite3.DatabaseError(
                f"it has version {version}, this host makes {VERSION}" if version else "it is new"
            )
    except BaseException:
        db.close()
        raise
    return db


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
    db.execute("INSERT INTO groups (number, name) VALUES (0, ?)", (GLOBAL_GROUP,))  # first, as in every corpus
    return db
