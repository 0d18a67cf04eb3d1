"""A piece of a file as a document of the index: its row, and its terms."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from honeybadger_agent.wire import is_store
from honeybadger_host.search.documents import KINDS, Document, Kind
from honeybadger_host.search.language.analyzer import document_terms, entry_terms, tag_mark
from honeybadger_host.search.pieces import Piece

# The columns of `Added.row`.
COLUMNS: Final = (
    "number, source, terms, kind, key, author, role, at, category, tags, length, known_by, digest, name, title, names, "
    "bytes, marks, until, text"
)


class Added(NamedTuple):
    """A piece of a file as a new document.

    Args:
        number, source: ids of the document and of its file.
        digest: of all that the file says of it; empty for a turn, which never changes.
        length: words, see `analyzer.length_in_words`.
    """

    number: int
    source: int
    kind: Kind
    piece: Piece
    digest: bytes
    terms: Sequence[str]
    length: int

    def row(self, terms: bytes) -> tuple[object, ...]:
        """Return the values of `COLUMNS`, with the terms as ids."""
        piece = self.piece
        return (
            self.number,
            self.source,
            terms,
            KINDS.index(self.kind),
            piece.key,
            piece.author,
            piece.role,
            piece.at,
            piece.category,
            orjson.dumps(piece.tags).decode() if piece.tags else "",
            self.length,
            known_by(piece.known_by) if piece.known_by else None,
            self.digest,
            piece.name,
            piece.title,
            "\n".join(" ".join(name.split()) for name in piece.names),
            len(piece.text.encode("utf-8", "surrogatepass")) if self.kind == "entry" else 0,
            piece.marks,
            piece.until,
            piece.text,
        )

    def marked_terms(self) -> list[str]:
        """Return the terms to store, with marks."""
        return [*self.terms, *map(tag_mark, self.piece.tags)]

    def document(self) -> Document:
        """Return the document that ranking works on."""
        piece = self.piece
        return Document(
            number=self.number,
            kind=self.kind,
            terms=self.terms,
            length=self.length,
            session=str(self.source),
            author=piece.author,
            role=piece.role,
            at=float("nan") if piece.at is None else piece.at,
            category=piece.category,
            tags=piece.tags,
        )


def terms_of(kind: Kind, piece: Piece) -> list[str]:
    """Return the terms by which a piece of a file is found; a program's document has none."""
    if is_store(piece.category):
        return []
    if kind == "entry":
        return entry_terms(piece.text, piece.category, (*piece.names, *piece.tags))
    return document_terms("\n".join((*piece.names, piece.text)))


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
