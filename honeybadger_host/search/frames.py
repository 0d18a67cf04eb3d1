"""What the host and its reading process say to each other: plain values in frames, over pipes that nobody else holds.

A frame has a mark, its length and a checksum, so that anything else in the pipe (what a library prints) is recognised
before it is looked into. Values are pickled: of what keeps text as it is, names of files that are no UTF-8 among it,
that is the quickest; JSON refuses such names. Only numbers, text, bytes, lists and tuples can be in it: a pickle that
would call anything is refused.
"""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from typing import Any, Final, NoReturn

_HEADER: Final = struct.Struct("<4sII")
_MARK: Final = b"HBR1"
_LARGEST: Final = 1 << 28


class NoFrame(Exception):
    """What came is no frame; the message says what it is."""


def frame(value: object) -> bytes:
    """Return a value in its frame."""
    data = pickle.dumps(value, protocol=5)
    return _HEADER.pack(_MARK, len(data), zlib.crc32(data)) + data


def take_frame(received: bytearray) -> Any | None:
    """Take the first frame from what was received; return its value, None when it is not whole yet. Raises NoFrame."""
    begin = bytes(received[: len(_MARK)])
    if not _MARK.startswith(begin):
        raise NoFrame(f"{bytes(received[:80])!r}")
    if len(received) < _HEADER.size:
        return None
    _, length, checksum = _HEADER.unpack_from(received)
    end = _HEADER.size + length
    if length > _LARGEST:
        raise NoFrame(f"a frame of {length} bytes")
    if len(received) < end:
        return None
    data = bytes(memoryview(received)[_HEADER.size : end])
    del received[:end]
    if zlib.crc32(data) != checksum:
        raise NoFrame("a frame with a wrong checksum")
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # noqa: BLE001  whatever is in it
        raise NoFrame(f"a frame that holds no value ({error})") from None


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")
