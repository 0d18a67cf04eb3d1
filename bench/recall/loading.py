"""Documents loaded into an empty corpus, as the host loads a group's from its database."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from honeybadger_host.search.corpus import Columns, Corpus, Names, view
from honeybadger_host.search.documents import KINDS, Document

_AT_ONCE = 2_000


def load_documents(corpus: Corpus, documents: Sequence[Document], at_once: int = _AT_ONCE) -> Corpus:
    """Load documents whose numbers ascend, and return the corpus."""
    terms = Names()

    def slices() -> Iterator[Columns]:
        waiting = iter(documents)
        while some := list(islice(waiting, at_once)):
            said = array("I")
            for document in some:
                said.extend(map(terms.number, document.terms))
            yield Columns(
                numbers=[document.number for document in some],
                kinds=[KINDS.index(document.kind) for document in some],
                keys=[document.key for document in some],
                terms=view(said, np.uint32),
                counts=[len(document.terms) for document in some],
                lengths=[document.length for document in some],
                sessions=[document.session for document in some],
                authors=[document.author for document in some],
                roles=[document.role for document in some],
                at=[document.at for document in some],
                categories=[document.category for document in some],
                tags=[document.tags for document in some],
            )

    corpus.load(slices(), lambda numbers: [terms.names[number] for number in numbers.tolist()])
    return corpus
