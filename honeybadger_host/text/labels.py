"""Compares tags and categories without case, width and white space."""

import unicodedata
from collections.abc import Iterable


def folded(text: str) -> str:
    """Return a text without differences of case, width and white space, for comparing."""
    if text.isascii():
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def each_once(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that are not blank, in order; of texts that differ only in case, the first."""
    first: dict[str, str] = {}
    for text in texts:
        if text.strip():
            first.setdefault(folded(text), text)
    return tuple(first.values())


def is_below(category: str | None, wanted: str) -> bool:
    """Return whether a category is the wanted one or lies below it: `a` and `a/b` are below `A`, `ab` is not."""
    have, want = folded(category or "").strip("/"), folded(wanted).strip("/")
    return have == want or have.startswith(f"{want}/")
