"""JSON that others wrote, read without an error where it is none. Pure."""

import json
from typing import Any

import orjson

# Some editors put it before UTF-8. The codec `utf-8-sig` is a file that Python may be unable to open just then.
BOM = b"\xef\xbb\xbf"


def dumped(value: Any, options: int = 0) -> bytes:
    """Return JSON. What UTF-8 cannot encode, as in the name of a file, becomes `?`."""
    try:
        return orjson.dumps(value, default=repr, option=options)
    except TypeError:
        return json.dumps(value, default=repr, ensure_ascii=False).encode("utf-8", "replace")


def value_in(data: bytes | str) -> Any:
    """Return a value of JSON, or None if it is not JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def object_in(data: bytes) -> dict[str, Any] | None:
    """Return the members of a JSON object, or None if a file holds anything else."""
    value = value_in(data.removeprefix(BOM))
    return value if isinstance(value, dict) else None
