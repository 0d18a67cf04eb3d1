"""Finds credentials in text with two tables of rules and replaces them by `[REDACTED:kind]`. Pure.

Account numbers (an IBAN is on every invoice), public keys, hashes, ids and one-time codes are not credentials. A
password that is a plain word is not found, because `the password is wrong` looks the same.
Source: docs/decisions/010-secrets.md.

Reading order: `rules`, `keyword_rules`, `any_bytes`.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from honeybadger_host.text.neutralise import neutralise
from honeybadger_host.text.redaction.keyword_rules import WORDS
from honeybadger_host.text.redaction.rules import (
    LONG_WORD,
    SHAPES,
    Found,
    card_numbers,
    discord_tokens,
    private_keys,
)

_SHAPES: Final = tuple((anchor, rule) for rule in SHAPES for anchor in rule.anchors)
_WORDS: Final = tuple((anchor, rule) for rule in WORDS for anchor in rule.anchors)
_MARK: Final = re.compile(r"\[REDACTED:[a-z-]+\]")


def find_secrets(text: str) -> list[Found]:
    """Return the credentials in a text, in order, without overlaps.

    Neutralise the text first: an invisible character inside a secret hides it.
    """
    found: list[Found] = []
    if long_words := "\n".join([word for word in text.split() if len(word) >= LONG_WORD]):
        for anchor, rule in _SHAPES:
            if anchor in long_words:
                found += rule.find(text, anchor, text)
        found += private_keys(text)
        found += discord_tokens(text)
    found += card_numbers(text)
    lowered = _lowered(text)
    for anchor, rule in _WORDS:
        if anchor in lowered:
            found += rule.find(text, anchor, lowered)
    return _apart(found, text) if found else found


def redact(text: str) -> tuple[str, dict[str, int]]:
    """Return the text with every credential replaced, and the count of each kind."""
    counts: Counter[str] = Counter()
    while found := find_secrets(text):  # seldom twice: text next to a mark may now look like a secret
        parts: list[str] = []
        end = 0
        for one in found:
            parts += (text[end : one.start], f"[REDACTED:{one.kind}]")
            end = one.end
            counts[one.kind] += 1
        text = "".join(parts) + text[end:]
    return text, dict(counts)


def redact_below(heading: str, text: str) -> tuple[str, dict[str, int]]:
    """Redact a text below a heading: any text below `Wi-Fi password` is a credential."""
    head = f"{heading}: "
    redacted, counts = redact(head + text)
    return (redacted[len(head) :], counts) if redacted.startswith(head) else redact(text)


def redact_line(text: str) -> str:
    """Return a message without credentials, for logs and replies."""
    return redact(neutralise(text).text)[0]


def _lowered(text: str) -> str:
    """Return the text in lower case, with every character at its old position."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c if len(c.lower()) != 1 else c.lower() for c in text)


def _apart(found: Iterable[Found], text: str) -> list[Found]:
    """Return findings in order; overlapping ones become one, of the first one's kind; `[REDACTED:…]` marks stay."""
    marks = [mark.span() for mark in _MARK.finditer(text)] if "[REDACTED:" in text else []
    apart: list[Found] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if any(start < one.end and one.start < end for start, end in marks):
            continue
        if apart and one.start < apart[-1].end:
            apart[-1] = Found(apart[-1].kind, apart[-1].start, max(apart[-1].end, one.end))
        else:
            apart.append(one)
    return apart
