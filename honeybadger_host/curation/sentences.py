"""The sentences of a text as places in it, in any language, without a word list. Pure.

Sentences are spans of the text, so that a copy of one has the bytes of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_END: Final = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[」』”’）]*|\n")
# A number, a letter, a title (`Dr.`), an abbreviation (`e.g.`): a sentence too long is better than half of one.
_NO_END: Final = re.compile(r"(?:^|[\s(\"'“„«])(?:\d{1,3}|\w|[B-DF-HJ-NP-TV-XZ][b-df-hj-np-tv-xz]{1,3}|\w+\.\w+)\.$")
_MAX_SHORT_FORM: Final = 20  # characters before a full stop that may be one of these


@lru_cache(maxsize=1024)
def sentences_of(text: str) -> Sequence[tuple[int, int]]:
    """Return (begin, end) of each sentence of a text, without white space around it, in order.

    A sentence ends behind a full stop, a question or exclamation mark, wide ones too, and at the end of a line, never
    within a number, an address or code.
    """
    code = [found.span() for found in _CODE.finditer(text)]
    ends, place = [0], 0
    for found in _END.finditer(text):
        while place < len(code) and code[place][1] <= found.end() - 1:
            place += 1
        is_in_code = place < len(code) and code[place][0] < found.end() < code[place][1]
        begin = max(ends[-1], found.start() - _MAX_SHORT_FORM)
        if not is_in_code and not _NO_END.search(text, begin, found.end()):
            ends.append(found.end())
    spans: list[tuple[int, int]] = []
    for begin, end in pairwise([*ends, len(text)]):
        said = text[begin:end]
        if said.strip():
            spans.append((end - len(said.lstrip()), begin + len(said.rstrip())))
    return tuple(spans)
