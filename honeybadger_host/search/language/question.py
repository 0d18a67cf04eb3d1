"""Whether a question asks for a time, or about the asker. Pure.

Both in English alone: in other languages neither found anything more.

Sources: docs/decisions/017-recall.md.
"""

from __future__ import annotations

import re
from typing import Final


def asks_of_oneself(text: str) -> bool:
    """Return whether a casefolded question is about the asker."""
    return _FIRST_PERSON.search(text) is not None


def asks_time(text: str) -> bool:
    """Return whether a casefolded question asks when, or how long."""
    return _TIME.search(text) is not None


_FIRST_PERSON: Final = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|my|me|mine|myself)\b")
_TIME: Final = re.compile(
    r"\b(?:when|how long|how recently|(?:what|which) (?:\w+ )?(?:time|date|days?|month|year|week|weekend))\b"
)
