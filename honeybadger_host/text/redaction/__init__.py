"""Finds credentials in text with two tables of rules and replaces them by `[REDACTED:kind]`. Pure.

Account numbers (an IBAN is on every invoice), public keys, hashes, ids and one-time codes are not credentials. A
password that is a plain word is not found, because `the password is wrong` looks the same.
Source: docs/decisions/010-secrets.md.

Reading order: `rules`, `keyword_rules`.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import orjson

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

_SHAPES = tuple((anchor, rule) for rule in SHAPES for anchor in rule.anchors)
_WORDS = tuple((anchor, rule) for rule in WORDS for anchor in rule.anchors)
_MARK = re.compile(r"\[REDACTED:[a-z-]+\]")


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
    lowered = text.lower()
    if len(lowered) != len(text):  # every character stays at its position
        lowered = "".join(c if len(c.lower()) != 1 else c.lower() for c in text)
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


# ----------------------------------------------------------------------------------------------------------- any bytes


def redact_bytes(data: bytes) -> tuple[bytes, dict[str, int]]:
    """Return bytes of any kind without credentials; the same bytes when there are none.

    JSON is searched string by string, because its escapes can hide a secret. Then all is searched as UTF-8, or as
    UTF-16 if it has a byte order mark; undecodable bytes stay as they are.
    """
    counts: Counter[str] = Counter()
    try:
        value = _redact_value(orjson.loads(data), counts)
        if counts:
            data = orjson.dumps(value)
    except (
        orjson.JSONDecodeError,
        orjson.JSONEncodeError,
        RecursionError,
    ):  # not JSON, or nested too deeply to be written again
        counts.clear()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = _redact_text_bytes(data, "utf-16", "replace", counts)
    return _redact_text_bytes(data, "utf-8", "surrogateescape", counts), dict(counts)


def _redact_value(value: Any, counts: Counter[str], name: str = "") -> Any:
    """Return a JSON value with every string redacted; a member's name is its heading."""
    match value:
        case str():
            return _redact_hidden(value, counts, name)
        case list():
            return [_redact_value(item, counts, name) for item in value]
        case dict():
            return {_redact_hidden(key, counts): _redact_value(item, counts, key) for key, item in value.items()}
        case _:
            return value


def _redact_hidden(text: str, counts: Counter[str], heading: str = "") -> str:
    """Return the text unchanged when it has no credential, else neutralised and redacted."""
    neutral = neutralise(text).text
    redacted, found = redact_below(heading, neutral) if heading else redact(neutral)
    counts.update(found)
    return redacted if found else text


def _redact_text_bytes(data: bytes, encoding: str, errors: str, counts: Counter[str]) -> bytes:
    text = data.decode(encoding, errors)
    redacted = _redact_hidden(text, counts)
    return data if redacted == text else redacted.encode(encoding, errors)
