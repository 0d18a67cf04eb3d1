"""Documents loaded from a database, as the host loads a group's."""

from __future__ import annotations

from collections.abc import Sequence

from honeybadger_host.search.blocks import Blocks
from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.documents import COLUMNS, Document
from honeybadger_host.search.index_db import IndexFile
from honeybadger_host.search.language.analyzer import tag_mark

_INSERT = f"INSERT INTO docs ({COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS.split(',')))})"


def load_documents(db: IndexFile, documents: Sequence[Document]) -> Corpus:
    """Return a corpus of documents from an empty database; their numbers, and those of files, are above 0."""
    with db.transaction() as connection:
        texts = [[*each.terms, *map(tag_mark, each.piece.tags)] for each in documents]
        for each, terms in zip(documents, db.packed(connection, texts), strict=True):
            connection.execute(_INSERT, each.row(terms))
    blocks = Blocks(db, [0])
    while blocks.pack():
        pass
    corpus = Corpus(blocks)
    for block in blocks.read():
        corpus.load(block)
    return corpus
