"""Documents loaded from a database, as the host loads a group's."""

from __future__ import annotations

from collections.abc import Sequence

from honeybadger_host.search.blocks import Blocks
from honeybadger_host.search.corpus import Corpus
from honeybadger_host.search.documents import KINDS, Document
from honeybadger_host.search.index_db import IndexFile
from honeybadger_host.search.language.analyzer import tag_mark

_INSERT = """INSERT INTO docs (number, source, terms, kind, key, author, role, at, category, tags, length, digest, name,
    title, names, bytes, text) VALUES (?, ?, ?, ?, '', ?, ?, ?, ?, '', ?, '', '', '', '', 0, '')"""


def load_documents(db: IndexFile, documents: Sequence[Document]) -> Corpus:
    """Return a corpus of documents from an empty database; their numbers, and names of sessions, are above 0."""
    with db.transaction() as connection:
        texts = [[*each.terms, *map(tag_mark, each.tags)] for each in documents]
        for each, terms in zip(documents, db.packed(connection, texts), strict=True):
            kind, at = KINDS.index(each.kind), None if each.at != each.at else each.at
            row = (each.number, int(each.session or 0), terms, kind, each.author, each.role, at, each.category)
            connection.execute(_INSERT, (*row, len(each.terms)))
    blocks = Blocks(db, [0])
    while blocks.pack():
        pass
    corpus = Corpus(blocks)
    for block in blocks.read():
        corpus.load(block)
    return corpus
