"""Redacts bytes of any kind, such as a request that nobody could read."""

import codecs
from collections import Counter
from typing import Any

import orjson

from honeybadger_host.text.neutralise import neutralise
from honeybadger_host.text.redaction import redact, redact_below


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
