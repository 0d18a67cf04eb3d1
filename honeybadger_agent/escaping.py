"""Free names of other programs, escaped as names that categories, entries and sessions may have.

`escaped` is the one escape of the protocol (docs/protocol.md, "Free names", with test vectors).
"""

from __future__ import annotations

import hashlib
import re

MAX_ESCAPED_CHARACTERS = 64  # a longer name is replaced by its digest
_DIGITS = 40  # hexadecimal digits of that digest: 160 bits
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
_ESCAPE = re.compile(r"_([0-9a-f]{2})")


def escaped(name: str) -> str:
    """Return a name as 1-64 characters of `a-z 0-9 - _`; different names stay different.

    Raises UnicodeEncodeError if it has a lone surrogate.
    """
    data = name.encode()
    text = "".join(chr(byte) if byte in _KEPT else f"_{byte:02x}" for byte in data)
    if len(text) > MAX_ESCAPED_CHARACTERS:
        return f"__{hashlib.sha256(data).hexdigest()[:_DIGITS]}"
    return text or "_"


def unescaped(text: str) -> str | None:
    """Return the name that was escaped, or None if it was too long: then only its digest is known."""
    if text.startswith("__"):
        return None
    data = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), "" if text == "_" else text)
    return data.encode("latin-1").decode(errors="replace")
