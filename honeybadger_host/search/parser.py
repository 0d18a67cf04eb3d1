"""A piece of a file as a document of the index: its row, and its terms."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from honeybadger_host.search.documents import KINDS, Document, Kind
from honeybadger_host.search.language.analyzer import document_terms, entry_terms, length_in_words
from honeybadger_host.search.sources import Piece

SAID: Final = (
    "kind, key, author, role, at, category, tags, length, known_by, digest, name, title, names, bytes, marks, until, "
    "text"
)
"""Columns of the table of documents that `Said` has, in its order."""


class Said(NamedTuple):
    """A document as its file says it, ready for its row.

    Args:
        kind: place in `KINDS`.
        tags: JSON, or empty.
        length: words, see `analyzer.length_in_words`.
        known_by: of an entry, see `known_by`.
        digest: of all that the file says of it; empty for a turn, which never changes.
        names: other words it is found by, one on each line: title, name, aliases.
        size: bytes of an entry's text.
        marks, until: see `Piece`.
    """

    kind: int
    key: str
    author: str
    role: str
    at: float | None
    category: str
    tags: str
    length: int
    known_by: int | None
    digest: bytes
    name: str
    title: str
    names: str
    size: int
    marks: str
    until: float | None
    text: str

    def document(self, number: int, session: str, terms: Sequence[str]) -> Document:
        """Return the document that ranking works on."""
        return Document(
            number=number,
            kind=KINDS[self.kind],
            key=self.key,
            terms=terms,
            length=self.length,
            session=session,
            author=self.author,
            role=self.role,
            at=float("nan") if self.at is None else self.at,
            category=self.category,
            tags=tuple(orjson.loads(self.tags)) if self.tags else (),
        )


def analysed(kind: Kind, piece: Piece, digest: bytes) -> tuple[Said, list[str]]:
    """Return a piece of a file as a document, and its terms."""
    if kind == "entry":
        terms = entry_terms(piece.text, piece.category, (*piece.names, *piece.tags))
    else:
        terms = document_terms("\n".join((*piece.names, piece.text)))
    said = Said(
        KINDS.index(kind),
        piece.key,
        piece.author,
        piece.role,
        piece.at,
        piece.category,
        orjson.dumps(piece.tags).decode() if piece.tags else "",
        length_in_words(terms),
        known_by(piece.known_by) if piece.known_by else None,
        digest,
        piece.name,
        piece.title,
        "\n".join(" ".join(name.split()) for name in piece.names),
        len(piece.text.encode("utf-8", "surrogatepass")) if kind == "entry" else 0,
        piece.marks,
        piece.until,
        piece.text,
    )
    return said, terms


def known_by(normalised: str) -> int:
    """Return the hash by which an entry with exactly this text is found; two texts share one once in 10^19."""
    return int.from_bytes(hashlib.sha256(normalised.encode("utf-8", "surrogatepass")).digest()[:8], signed=True)


def digest_of(piece: Piece) -> bytes:
    """Return a digest of all that a file says of a piece."""
    what = (
        piece.key,
        piece.text,
        str(piece.at),
        piece.author,
        piece.role,
        piece.category,
        *piece.tags,
        "",
        *piece.names,
        *([piece.marks] if piece.marks else []),
    )
    return hashlib.sha256("\0".join(what).encode("utf-8", "surrogatepass")).digest()[:16]
