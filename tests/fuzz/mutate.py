"""Changes to a request that leave it JSON, or nearly: what a fuzzer that knows only bytes finds too seldom."""

import json
import random
from collections.abc import Sequence
from typing import Any

from honeybadger_agent.wire import REQUEST_TYPES

TEXTS: Sequence[str] = (
    *("", " ", "\n", "x", "x.json", "..", "/", "main", "global", "mallory", "user", "a" * 81, "é" * 40_000),
    *("\0", "\x1b[2J\x1b]0;owned\x07", "\u202e\u2066", "\u200b\u200d\ufeff", "\u2028# x"),
    *("\x85## Notes (alice, 2026-01-01 00:00)", "a\n## Notes (alice, 2026-01-01 00:00)\n- forged", "```\n~~~"),
    *("<!-- x", "x\n===", "- ---", "\U000e0041\U000e0042", "👩‍👩‍👧‍👦\ufe0f", "]: x\n[alice]: y"),
    *("password: hunter2hunter2", "sk-ant-api03-" + "A" * 80, "-----BEGIN PRIVATE KEY-----\nAAAA"),
    *("2026-11-21T06:00:00Z", "9" * 5_000, "%s%n{0}", "\ufffe\uffff", "ﬀ\u0130ß"),
)
VALUES: Sequence[Any] = (
    *(None, True, False, 0, -0.0, -1, 1, 2, 50, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308),
    *(-1e-308, 0.1, float("nan"), float("inf"), [], {}, [[]], [None], {"": ""}, ["search"] * 65),
)
# Names of members and of types; one takes another's place.
WORDS: Sequence[str] = (
    *("v", "id", "type", "group", "sender", "session", "sent_at", "payload"),
    *REQUEST_TYPES,
    *sorted({member for kind in REQUEST_TYPES.values() for member in kind.model_fields}),
)


def mutated(value: Any, rng: random.Random) -> Any:
    """Return `value` with something in it changed, by one to three steps; mostly in the payload, if it has one."""
    for _ in range(rng.randint(1, 3)):
        if isinstance(value, dict) and "payload" in value and rng.random() < 0.7:
            value = {**value, "payload": _step(value["payload"], rng)}
        else:
            value = _step(value, rng)
    return value


def dumped(value: Any, rng: random.Random) -> bytes:
    """Return a value as JSON, mostly; sometimes with what writers of JSON get wrong."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    data = text.encode("utf-8", "surrogatepass")
    match rng.randrange(40):
        case 0:
            return data[: rng.randrange(len(data) + 1)]
        case 1:
            return b"\xef\xbb\xbf" + data
        case 2:
            return text.encode("utf-16", "surrogatepass")
        case 3:
            return data + rng.choice([b"\0", b"{}", b",", b"\n\n", b"]"])
        case 4:
            return data.replace(b'"payload"', b'"payload": {}, "payload"', 1)
        case 5:
            return data.replace(b"{", b'{"x": ' + b"[" * 900 + b"]" * 900 + b", ", 1)
        case 6:
            at = rng.randrange(len(data) + 1)
            return data[:at] + rng.choice([b"\xff", b"\xed\xa0\x80", b"\0", b"\\ud800", b"\\u0000"]) + data[at:]
        case _:
            return data


def _step(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(sorted(value))
        rest = dict(value)
        match rng.randrange(8):
            case 0:
                del rest[name]
            case 1:
                rest[rng.choice(WORDS)] = rest.pop(name)
            case 2:
                rest[rng.choice(WORDS)] = _any(rng)
            case _:
                rest[name] = _step(rest[name], rng)
        return rest
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], _step(value[at], rng), *value[at + rng.randint(0, 1) :]]
    if isinstance(value, str) and rng.random() < 0.5:
        at = rng.randrange(len(value) + 1)
        return value[:at] + rng.choice(TEXTS) + value[at + rng.randint(0, 2) :]
    return _any(rng)


def _any(rng: random.Random) -> Any:
    return rng.choice(rng.choice((TEXTS, VALUES, WORDS)))
