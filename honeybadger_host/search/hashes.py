"""Numbers by 64-bit hash, 16 to 48 bytes each: a dict with the hashes of a large file's notes takes 300."""

from __future__ import annotations

from array import array
from collections.abc import Iterator


class Hashes:
    """A hash table in two arrays. Two hashes are one with a chance of 1 in 10^19."""

    def __init__(self) -> None:
        self._keys, self._numbers = array("Q", bytes(64)), array("Q", bytes(64))
        self._used = 0

    def get(self, key: bytes) -> int:
        """Return the number of a hash, of at least 8 bytes; 0 when there is none."""
        return self._numbers[self._place(_first_bytes(key))]

    def put(self, key: bytes, number: int) -> None:
        """Set the number of a hash; it is above 0."""
        self._put(_first_bytes(key), number)

    def pop(self, key: bytes) -> int:
        """Remove the number of a hash and return it; 0 when there is none."""
        place = self._place(_first_bytes(key))
        number, self._numbers[place] = self._numbers[place], 0
        return number

    def numbers(self) -> Iterator[int]:
        return filter(None, self._numbers)

    def _put(self, key: int, number: int) -> None:
        if 3 * self._used >= 2 * len(self._keys):
            keys, numbers = self._keys, self._numbers
            self._keys, self._numbers = (array("Q", bytes(16 * len(keys))) for _ in range(2))
            self._used = 0
            for old, its_number in zip(keys, numbers, strict=True):
                if its_number:
                    self._put(old, its_number)
        place = self._place(key)
        self._used += not self._keys[place]
        self._keys[place], self._numbers[place] = key, number

    def _place(self, key: int) -> int:
        """Return where a key is, or may be put."""
        keys = self._keys
        last = len(keys) - 1
        place = (key >> 16) & last
        while keys[place] and keys[place] != key:
            place = (place + 1) & last
        return place


def _first_bytes(key: bytes) -> int:
    return int.from_bytes(key[:8]) | 1  # 0 is an empty place
