"""The documents of the index: pieces of files, each found separately, and their kinds. Pure."""

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import orjson

from honeybadger_host.text.labels import folded

Kind: TypeAlias = Literal["entry", "note", "history", "turn", "session"]
KINDS: tuple[Kind, ...] = ("entry", "note", "history", "turn", "session")
# `Hit.shared` of a hit with two rare words of a message: of 100 messages that need no memory 2 reach it, of 1,395
# questions 57 %.
TWO_RARE_WORDS = 1.3
# Documents of a block of postings, which takes 50 ms to write; of fewer, a word is looked up in more blocks.
BLOCK_DOCUMENTS = 4096
# The columns of `Document.row`.
COLUMNS = (
    "number, source, terms, kind, key, author, role, at, category, tags, length, known_by, digest, name, title, names, "
    "bytes, marks, until, text"
)


class Piece(NamedTuple):
    """A part of a file that is found separately.

    Args:
        key: an entry's id, a turn's number, a note's hash (with a number when the note occurs twice).
        at: seconds since the epoch, UTC; None when the file does not say.
        names: other words it is found by: title, name, aliases.
        name, title: of an entry.
        marks: what else an entry knows of itself, as members to show; JSON, or empty.
        until: until when an entry is valid, seconds since the epoch.
    """

    key: str
    text: str
    at: float | None = None
    author: str = ""
    role: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    name: str = ""
    title: str = ""
    marks: str = ""
    until: float | None = None


class Document(NamedTuple):
    """A piece of a file as a document.

    Args:
        number: its id in the index; turns of one session are numbered in order.
        terms: from `terms_of`.
        source: id of its file.
        digest: of all that the file says of it; empty for a turn, which never changes.
    """

    number: int
    kind: Kind
    terms: Sequence[str]
    piece: Piece
    source: int = 0
    digest: bytes = b""

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
            len(self.terms),
            known_by(folded(piece.text)) if self.kind == "entry" else None,
            self.digest,
            piece.name,
            piece.title,
            "\n".join(" ".join(name.split()) for name in piece.names),
            len(piece.text.encode("utf-8", "surrogatepass")) if self.kind == "entry" else 0,
            piece.marks,
            piece.until,
            piece.text,
        )


def known_by(normalised: str) -> int:
    """Return the hash by which an entry with exactly this text is found; two texts share one once in 10^19."""
    return int.from_bytes(hashlib.sha256(normalised.encode("utf-8", "surrogatepass")).digest()[:8], signed=True)
