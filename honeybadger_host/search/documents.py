"""The documents that ranking works on, and their kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["entry", "note", "history", "turn", "session"]
KINDS: Final[tuple[Kind, ...]] = ("entry", "note", "history", "turn", "session")
# `Hit.shared` of a hit with two rare words of a message: of 100 messages that need no memory 2 reach it, of 1,395
# questions 57 %.
TWO_RARE_WORDS: Final = 1.3
# Documents of a block of postings, which takes 50 ms to write; of fewer, a word is looked up in more blocks.
BLOCK_DOCUMENTS: Final = 4096


@dataclass(frozen=True, slots=True)
class Document:
    """Something that can be found.

    Args:
        number: its row in the index, unique in the group; turns of one session are numbered in order.
        terms: from `document_terms` or `entry_terms`.
        session: the name of a turn's session, unique in the group; ignored of others.
        author: as shown; empty when unknown.
        role: of a turn (`user`, `assistant`, ...); else empty.
        at: seconds since the epoch, UTC; NaN when unknown.
        category: of an entry; else empty.
    """

    number: int
    kind: Kind
    terms: Sequence[str]
    session: str = ""
    author: str = ""
    role: str = ""
    at: float = math.nan
    category: str = ""
    tags: tuple[str, ...] = field(default=())
