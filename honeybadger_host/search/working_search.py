"""The search in working memory: a session's entries, ranked as everything else is (RB6)."""

import re
from collections.abc import Sequence
from datetime import datetime

from honeybadger_host.memory.working_memory import WorkingEntry
from honeybadger_host.search.documents import Document, Piece
from honeybadger_host.search.language.analyzer import analyse_query, entry_terms
from honeybadger_host.text.neutralise import one_line

_PREVIEW = 200


def find(
    entries: Sequence[WorkingEntry],
    query: str,
    category: str | None = None,
    tags: Sequence[str] = (),
    *,
    now: datetime,
) -> list[tuple[WorkingEntry, float]]:
    """Return the entries that contain words of the question, best first, with their scores.

    Args:
        category: see `labels.is_below`.
        tags: an entry must have all of them; case is ignored.
    Source: RB6; the text of an entry is key, data, tags and category.
    """
    from honeybadger_host.search.corpus import Corpus  # with numpy
    from honeybadger_host.search.ranking import Filters, search

    corpus = Corpus()
    corpus.add([_document(number, entry) for number, entry in enumerate(entries)])
    hits = search(
        corpus,
        query,
        now=now,
        limit=len(entries),
        filters=Filters(category=category or "", tags=tags, needs_word=True),
    )
    return [(entries[hit.number], hit.score) for hit in hits if hit.terms]


def _document(number: int, entry: WorkingEntry) -> Document:
    category = entry.category or ""
    return Document(
        number,
        "entry",
        entry_terms(entry.data, category, (entry.key, *entry.tags)),
        Piece(entry.key, entry.data, entry.stored_at.timestamp(), category=category, tags=entry.tags),
    )


def preview(entry: WorkingEntry, query: str) -> str:
    """Return the data around the first word of the query, on one line, at most 200 characters."""
    words = {re.escape(word) for term in analyse_query(query).terms for word in (term.word, *term.forms)}
    first = re.search(rf"(?<![A-Za-z0-9])(?:{'|'.join(sorted(words))})", entry.data, re.IGNORECASE) if words else None
    start = max(0, first.start() - _PREVIEW // 4) if first else 0
    return one_line(entry.data[start : start + _PREVIEW]).text
