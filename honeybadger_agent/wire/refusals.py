"""The answer to a wrong request: the refusal, pydantic's findings in the protocol's words, and checks of numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import orjson
from pydantic import StringConstraints, ValidationError
from pydantic_core import PydanticCustomError, from_json

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
    kind = first["type"]
    code: ErrorCode = "too_large" if kind in _TOO_LARGE else "invalid"
    context = {**first.get("ctx", {}), "msg": first["msg"], "length": len(first["input"]) if kind in _TOO_LARGE else 0}
    if kind == "string_pattern_mismatch":
        return code, where, f"must be {_MEANT.get(context['pattern'], 'text that matches ' + context['pattern'])}"
    said = _SAID.get(kind, "is wrong: {msg}").format(**context)
    return code, where, said.removesuffix(".0")  # of a limit; it may also be a time


_TOO_LARGE = ("string_too_long", "too_long", "too_many_bytes")
# Kind of pydantic's finding -> what it says of a member.
_SAID = {
    "missing": "is missing",
    "string_too_long": "has {length} characters, the limit is {max_length}: send less",
    "too_long": "has {length} items, the limit is {max_length}: send less",
    "too_many_bytes": "has {size} bytes, the limit is {limit}: send less",
    "string_too_short": "is empty",
    "too_short": "is empty",
    "literal_error": "must be {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "extra_forbidden": "is unknown",
    "must_be": "must be {msg}",
    "string_type": "must be a string",
    "string_unicode": "must be text without lone surrogates",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "dict_type": "must be an object",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "model_type": "must be an object",
}


_MEANT: dict[str, str] = {}  # pattern -> what it means, in words and with an example


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


_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * 19  # A run of digits that may be an integer over 64 bits; in most files there is none


def check_numbers(data: bytes) -> None:
    """Raise ValueError if JSON has an integer over 64 bits, which most parsers would turn into an inexact float."""
    if _LONG in data.translate(_ZEROS):  # 0.4 us for 300 bytes; a pattern of digits takes 2.7
        try:
            json.loads(data, parse_int=_checked)
        except RecursionError:
            raise ValueError("it is nested too deep: 250 levels at most") from None


def checked_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object that every JSON reader takes, also in a file and a reply. Raises PydanticCustomError."""
    try:
        from_json(orjson.dumps([[[[[[[[[[value]]]]]]]]]]))  # clients read 200 levels; a file and a reply add some
        json.dumps(value, allow_nan=False, default=str)  # orjson makes null of numbers that are not finite
    except (TypeError, ValueError):
        why = "JSON with finite numbers, integers of 64 bits and at most 190 levels"
        raise PydanticCustomError("must_be", why) from None
    return value


def _checked(digits: str) -> int:
    if len(digits) > 20 or not -(1 << 63) <= int(digits) < 1 << 64:
        shown = digits if len(digits) <= 30 else f"{digits[:30]}..."
        raise ValueError(f"{shown} is a number over 64 bits, which nobody would get back as it is: write it as text")
    return int(digits)
