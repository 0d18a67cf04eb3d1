"""Indexes files: compares each with its indexed state and writes the difference in one transaction."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from honeybadger_host.search.index_db import IN_ONE_QUERY, IndexFile
from honeybadger_host.search.indexer import READ_AT_ONCE, Changes, Grown, IndexedFile, Known, Reader
from honeybadger_host.search.language.similarity import sketch
from honeybadger_host.search.pieces import COLUMNS, Added
from honeybadger_host.search.sources import source_of, sources

_INSERT: Final = f"INSERT INTO docs ({COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS.split(',')))})"  # noqa: S608  constant
_MAX_GROWN: Final = 32  # large files of notes whose reading progress is remembered: about 150 bytes for each note


class IndexWriter:
    """Writes the index. One thread at a time for each group."""

    def __init__(self, home: Path, db: IndexFile) -> None:
        self._home = home
        self._db = db
        self._grown: dict[str, tuple[int, Grown]] = {}
        """Large file of notes -> generation of the database, and how far the file was read."""
        self.documents: Counter[int] = Counter()
        """Updates by group number."""
        self.entries: Counter[int] = Counter()

    def count(self) -> None:
        count = "SELECT number >> 40, count(*) FROM docs GROUP BY 1"
        entries = "SELECT number >> 40, count(*) FROM docs INDEXED BY docs_entry WHERE kind = 0 GROUP BY 1"
        self.documents = Counter(dict(self._db.rows(count)))
        self.entries = Counter(dict(self._db.rows(entries)))

    def forget(self) -> None:
        self.documents.clear()
        self.entries.clear()
        self._grown.clear()

    def changed(self, group: str) -> tuple[list[str], set[str]]:
        """Return a group's files that changed or are gone since they were indexed, and the folders of its entries.

        Paths are below the home folder.
        """
        least, most = self._db.span(self._db.group(group))
        counted = "SELECT count(*), coalesce(max(number), -1) FROM sources WHERE number BETWEEN ? AND ?"
        known, last = self._db.rows(counted, (least, most))[0]
        folders: set[str] = set()
        changed: list[str] = []
        met = 0
        looked_at = sources(self._home, group, folders)
        query = "SELECT file, number, inode, size, mtime_ns, ctime_ns FROM sources WHERE file IN"
        while some := list(itertools.islice(looked_at, IN_ONE_QUERY)):
            names = [source.file for source, _ in some] if known else []
            indexed = {row[0]: row[1:] for row in self._db.rows_in(query, names)}
            for source, signature in some:
                row = indexed.get(source.file)
                if row is None or row[1:] != signature:
                    changed.append(source.file)
                if row is not None and row[0] <= last:
                    met += 1
        if met < known:
            there = {source.file for source, _ in sources(self._home, group, set())}
            indexed_files = self._db.rows("SELECT file FROM sources WHERE number BETWEEN ? AND ?", (least, most))
            changed += [file for (file,) in indexed_files if file not in there]
        return changed, folders

    def take(self, group: int, files: Sequence[str]) -> tuple[Changes, Sequence[str]]:
        """Index files of a group; return what changed, and which files must be read again."""
        generation = self._db.generation
        changes, left = self._read(group, files, generation)
        if not self._write(group, changes, generation):
            return Changes(), files
        self._grown.update({file: (generation, grown) for file, grown in changes.grown.items()})
        for file in [file for file, (_, grown) in self._grown.items() if grown.left is None][:-_MAX_GROWN]:
            del self._grown[file]
        return changes, left

    def _read(self, group: int, files: Sequence[str], generation: int) -> tuple[Changes, list[str]]:
        """Read files of a group; return what they change, and which are not finished."""
        query = "SELECT file, number, inode, mark FROM sources WHERE file IN"
        known = {file: Known(*row) for file, *row in self._db.rows_in(query, files)}
        taken = {file: self._grown.pop(file) for file in files if file in self._grown}
        grown = {file: one for file, (read_for, one) in taken.items() if read_for == generation}
        there = self._indexed_pieces([each.number for file, each in known.items() if file.endswith(".json")])
        reader = Reader(
            self._home,
            lambda: self._db.take_number("sources", group),
            lambda: self._db.take_number("docs", group),
        )
        changes = Changes()
        left: list[str] = []
        size = 0
        for place, file in enumerate(files):
            if size >= READ_AT_ONCE:
                left += files[place:]
                changes.grown |= {file: grown[file] for file in files[place:] if file in grown}
                break
            before = known.get(file)
            source = source_of(file)
            if source is None:
                continue
            indexed_file = IndexedFile(self._db, before, {} if before is None else there.get(before.number, {}))
            read, is_whole = reader.read(source, indexed_file, changes, grown.get(file) if before else None)
            size += read
            if not is_whole:
                left.append(file)
        return changes, left

    def _indexed_pieces(self, files: Sequence[int]) -> dict[int, dict[tuple[str, bytes], int]]:
        """Return file number -> (key, digest) -> document number, for entries and session documents."""
        there: dict[int, dict[tuple[str, bytes], int]] = {number: {} for number in files}
        query = "SELECT source, key, digest, number FROM docs WHERE source IN"
        for file, key, digest, number in self._db.rows_in(query, files):
            there[file][key, digest] = number
        return there

    def _write(self, group: int, changes: Changes, generation: int) -> bool:
        """Write the pieces that were read; return False if the database was rebuilt since."""

        def write() -> bool:
            if self._db.generation != generation:
                return False
            with self._db.transaction() as db:
                packed = self._db.packed(db, [each.marked_terms() for each in changes.added])
                db.executemany("DELETE FROM docs WHERE number = ?", ((number,) for number in changes.removed))
                db.executemany("DELETE FROM sources WHERE number = ?", ((number,) for number in changes.gone))
                db.executemany(_INSERT, map(Added.row, changes.added, packed))
                for each in changes.added:
                    if each.kind == "entry" and each.terms:
                        pairs = sketch(each.piece.text)
                        db.executemany("INSERT INTO sketches VALUES (?, ?)", ((pair, each.number) for pair in pairs))
                db.executemany("INSERT OR REPLACE INTO sources VALUES (?, ?, ?, ?, ?, ?, ?, ?)", changes.sources)
            self.documents[group] += len(changes.added) - len(changes.removed)
            self.entries[group] += changes.entries
            return True

        return self._db.guarded(write)
