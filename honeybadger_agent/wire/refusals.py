"""The answer to a wrong request: the refusal, pydantic's findings in the protocol's words, and checks of numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal

from pydantic import StringConstraints, ValidationError

from honeybadger_agent.wording import meant

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

ErrorCode = Literal[
    "invalid", "forbidden", "not_found", "conflict", "too_large", "rate_limited", "unavailable", "internal"
]


class Refusal(Exception):
    """A request that is answered with an error reply.

    Args:
        code: the protocol's error code.
        message: the fault and the remedy; never the content of the request.
        field: the place in the request, e.g. `payload.content`.
        retry_after_seconds: only with `rate_limited`.
    """

    def __init__(
        self, code: ErrorCode, message: str, *, field: str | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message
        self.field = field
        self.retry_after_seconds = retry_after_seconds


class NotARequest(Exception):
    """Bytes that are not a request and become a dead letter.

    Args:
        message: what is wrong with them.
        is_unfinished: whether they end too early, as in a file that is still being written.
    """

    def __init__(self, message: str, *, is_unfinished: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.is_unfinished = is_unfinished


def refusal_of(error: ValidationError, prefix: str = "") -> Refusal:
    """Return the first finding of pydantic as a refusal that names the member and never shows its content.

    Args:
        prefix: place of the model in the request, e.g. `payload.`.
    """
    code, where, message = described(error.errors(include_url=False)[0], prefix)
    return Refusal(code, f"{where} {message}", field=where)


def described(first: ErrorDetails, prefix: str = "") -> tuple[ErrorCode, str, str]:
    """Return one finding of pydantic: code, field and reason, without the content."""
    where = prefix + ".".join(shown_name(str(part)) for part in first["loc"])
    context = first.get("ctx", {})
    code: ErrorCode = "invalid"
    match first["type"]:
        case "missing":
            message = "is missing"
        case "string_too_long":
            code = "too_large"
            message = f"has {len(first['input'])} characters, the limit is {context['max_length']}: send less"
        case "too_long":
            code = "too_large"
            message = f"has {len(first['input'])} items, the limit is {context['max_length']}: send less"
        case "string_too_short":
            message = "is empty"
        case "string_pattern_mismatch":
            message = f"must be {_MEANT.get(context['pattern'], 'text that matches ' + context['pattern'])}"
        case "literal_error":
            message = f"must be {context['expected']}"
        case "greater_than":
            message = f"must be more than {context['gt']:g}"
        case "greater_than_equal":
            message = f"must be at least {context['ge']}"
        case "less_than_equal":
            message = f"must be at most {context['le']}"
        case "extra_forbidden":
            message = "is unknown"
        case "too_many_bytes":
            code = "too_large"
            message = f"has {context['size']} bytes, the limit is {context['limit']}: send less"
        case "must_be":
            message = f"must be {first['msg']}"
        case kind if kind in _MUST_BE:
            message = f"must be {_MUST_BE[kind]}"
        case _:
            message = f"is wrong: {first['msg']}"
    return code, where, message


_MUST_BE: Final = {
    "string_type": "a string",
    "string_unicode": "text without lone surrogates",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "dict_type": "an object",
    "list_type": "an array",
    "tuple_type": "an array",
    "model_type": "an object",
}


_MEANT: Final[dict[str, str]] = {}  # pattern -> what it means, in words and with an example


def shaped(pattern: str, words: str) -> StringConstraints:
    """Return a constraint for a pattern whose error explains the pattern in words, with an example."""
    _MEANT[f"^{pattern}$"] = words
    return StringConstraints(pattern=f"^{pattern}$")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion of known names for an unknown one, or all of them."""
    names = list(known)
    near = meant(name, names)
    return f"known: {', '.join(names)}" if near is None else f"did you mean {near}?"


def shown_name(name: str) -> str:
    """Return a name from outside, shortened and printable."""
    return name[:60] if name[:60].isprintable() else ascii(name[:60])[1:-1]


_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 19  # A run of digits that may be an integer over 64 bits; in most files there is none


def check_numbers(data: bytes) -> None:
    """Raise ValueError if JSON has an integer over 64 bits, which most parsers would turn into an inexact float."""
    if _LONG in data.translate(_ZEROS):  # 0.4 us for 300 bytes; a pattern of digits takes 2.7
        try:
            json.loads(data, parse_int=_checked)
        except RecursionError:
            raise ValueError("it is nested too deep: 250 levels at most") from None


def is_finite(value: object) -> bool:
    """Return whether a JSON value has only finite numbers; others would become null."""
    left = [value]
    while left:
        match left.pop():
            case dict() as members:
                left.extend(members.values())
            case list() as items:
                left.extend(items)
            case float() as number if not math.isfinite(number):
                return False
    return True


def _checked(digits: str) -> int:
    if len(digits) > 20 or not -(1 << 63) <= int(digits) < 1 << 64:
        shown = digits if len(digits) <= 30 else f"{digits[:30]}..."
        raise ValueError(f"{shown} is a number over 64 bits, which nobody would get back as it is: write it as text")
    return int(digits)
