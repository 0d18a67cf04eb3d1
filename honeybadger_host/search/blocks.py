"""The inverted index in `data/index.db`: blocks of documents, each with its columns and the postings of its terms.

A block is written once, when a group has enough new documents; documents since its last block are read from their rows.
Removed documents stay in their block and are listed in `gone`.

Sources: docs/decisions/017-recall.md.
"""

import math
import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from honeybadger_host.search.documents import BLOCK_DOCUMENTS, KINDS
from honeybadger_host.search.index_db import FOUND, IndexFile

# Postings, ascending: each is `row << TF_BITS | frequency`; a frequency of 63 means 63 or more.
Packed: TypeAlias = npt.NDArray[np.uint32]
TF_BITS = 6
TF_MASK = (1 << TF_BITS) - 1

_BLOCK_TERM_BYTES = 1 << 21  # a block of longer documents ends here: it takes at most 30 MiB to write
_ROW = np.dtype(
    [
        ("number", np.int64),
        ("at", np.float64),
        ("length", np.float32),
        ("session", np.int32),  # this and the next three: places in the block's labels
        ("author", np.int32),
        ("role", np.int32),
        ("category", np.int32),
        ("kind", np.int8),
    ]
)
_SESSION = f"CASE kind WHEN {KINDS.index('turn')} THEN CAST(source AS TEXT) ELSE '' END"
_COLUMNS = f"number, {_SESSION}, at, length, author, role, category, kind, terms"
_WHICH = f"FROM docs WHERE number > ? AND number <= ? AND {FOUND} ORDER BY number"
_DOCUMENTS = f"SELECT {_COLUMNS} {_WHICH}"


class Postings(NamedTuple):
    """The postings of some documents: sorted by term, then by row.

    Args:
        terms: term ids, each once, ascending.
        starts: where the postings of each term begin, and the end of the last.
    """

    terms: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    packed: Packed

    def of(self, term: int) -> Packed:
        place = int(np.searchsorted(self.terms, term))
        if place == len(self.terms) or self.terms[place] != term:
            return self.packed[:0]
        return self.packed[self.starts[place] : self.starts[place + 1]]


class Block(NamedTuple):
    """Documents of a group, ascending by number.

    Args:
        rows: of the type `_ROW`.
        labels: authors, roles, categories, and numbers of the logs of its turns.
        postings: rows count from the block's first document; None when they are in the database.
    """

    rows: npt.NDArray[Any]
    labels: Sequence[str]
    postings: Postings | None


def block_of(documents: Iterable[tuple[Any, ...]]) -> Block:
    """Return a block of documents, at least one, as the database has them, see `_COLUMNS`."""
    rows: list[tuple[Any, ...]] = []
    place_of: dict[str, int] = {}
    counts: list[int] = []
    terms = bytearray()
    for number, session, at, length, author, role, category, kind, said in documents:
        labels = [place_of.setdefault(label, len(place_of)) for label in (session, author, role, category)]
        rows.append((number, math.nan if at is None else at, max(1, length), *labels, kind))
        counts.append(len(said) // array("I").itemsize)
        terms += said
    return Block(np.array(rows, _ROW), list(place_of), _postings(np.frombuffer(terms, np.uint32), counts))


def _postings(terms: npt.NDArray[np.uint32], counts: Sequence[int]) -> Postings:
    """Return the postings of documents.

    Args:
        terms: of all documents, one after another.
        counts: how many terms each document has.
    """
    many = max(1, len(counts))
    rows = np.repeat(np.arange(len(counts)), counts)
    pairs, frequencies = np.unique(terms.astype(np.int64) * many + rows, return_counts=True)
    terms_of, rows = pairs // many, pairs % many
    begins = np.flatnonzero(np.diff(terms_of, prepend=-1))
    packed = (rows << TF_BITS | np.minimum(frequencies, TF_MASK)).astype(np.uint32)
    return Postings(terms_of[begins].astype(np.uint32), np.append(begins, len(packed)), packed)


class Blocks:
    """The blocks of some groups. Thread-safe; every method raises WorldFailed.

    Args:
        groups: numbers of groups, ascending.
    """

    def __init__(self, db: IndexFile, groups: Sequence[int]) -> None:
        self._db = db
        self._spans = [db.span(group) for group in groups]

    def pack(self) -> bool:
        """Write the next block of the first group that has enough documents for one; return whether one had."""
        return any(self._db.guarded(partial(self._pack, span)) for span in self._spans)

    def _pack(self, span: tuple[int, int]) -> bool:
        with self._db.transaction() as db:
            last = db.execute("SELECT max(last) FROM blocks WHERE first BETWEEN ? AND ?", span).fetchone()[0]
            after = span[0] if last is None else last
            sizes = db.execute(f"SELECT number, length(terms) {_WHICH} LIMIT {BLOCK_DOCUMENTS}", (after, span[1]))
            count = size = 0
            for last, length in sizes:  # noqa: B007  the last one is where the block ends
                count, size = count + 1, size + length
                if size >= _BLOCK_TERM_BYTES:
                    break
            is_full = count == BLOCK_DOCUMENTS or size >= _BLOCK_TERM_BYTES
            if is_full:
                _write(db, block_of(db.execute(_DOCUMENTS, (after, last))))
            return is_full

    def read(self) -> Iterator[Block]:
        """Yield the blocks of the groups, each with the documents since its last, by ascending number.

        After `pack` these are too few for a block.
        """
        query = "SELECT last, labels, rows FROM blocks WHERE first > ? AND first <= ? ORDER BY first LIMIT 1"
        for last, most in self._spans:
            while rows := self._db.rows(query, (last, most)):
                last, labels, data = rows[0]
                yield Block(np.frombuffer(data, _ROW), orjson.loads(labels), None)
            if documents := self._db.rows(_DOCUMENTS, (last, most)):
                yield block_of(documents)

    def gone(self) -> list[int]:
        """Return the numbers of removed documents in the blocks."""
        query = "SELECT doc FROM gone WHERE doc BETWEEN ? AND ?"
        return [number for span in self._spans for (number,) in self._db.rows(query, span)]

    def numbers(self, words: Collection[str]) -> dict[str, int]:
        """Return word -> term id, for words that any group has."""
        return dict(self._db.rows_in("SELECT term, number FROM terms WHERE term IN", list(words)))

    def postings(self, term: int, blocks: Collection[int]) -> list[tuple[int, bytes]]:
        """Return the postings of a term in those of the blocks that have it.

        Args:
            blocks: the first document of each.
        """
        query = f"SELECT block, data FROM postings WHERE term = ? AND block IN ({','.join('?' * len(blocks))})"  # noqa: S608  only question marks
        return self._db.rows(query, (term, *blocks)) if blocks else []


def _write(db: sqlite3.Connection, block: Block) -> None:
    """Write a block and its postings."""
    assert block.postings is not None  # noqa: S101  they were just made
    numbers, labels = block.rows["number"], orjson.dumps(block.labels)
    first = int(numbers[0])
    db.execute("INSERT INTO blocks VALUES (?, ?, ?, ?)", (first, int(numbers[-1]), labels, block.rows.tobytes()))
    terms, starts, packed = block.postings
    data, bounds = packed.tobytes(), (starts * packed.itemsize).tolist()
    slices = zip(terms.tolist(), bounds, bounds[1:], strict=False)
    rows = ((first, term, data[begin:end]) for term, begin, end in slices)
    db.executemany("INSERT INTO postings VALUES (?, ?, ?)", rows)
