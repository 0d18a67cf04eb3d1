"""Measures how much two texts have in common; sketches find similar texts. Pure.

The sketch of a text is the eight pairs of neighbouring words with the smallest hashes. Two texts that share most of
their words nearly always share a pair, so a few rows of an index lead from one to the other: nothing is scanned, and no
words are kept in memory. Pairs are rare even if both of their words are common.

Source: docs/decisions/032-what-a-save-meets.md; what is missed is measured in tests/host/search/test_similarity.py.
"""

import re
import zlib
from itertools import pairwise

_SKETCH_SIZE = 8
_WORD = re.compile(r"[^\W\d_]+", re.UNICODE)
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


def words_of(text: str) -> list[str]:
    """Return the words of a text, without numbers; Chinese and Japanese as pairs of characters."""
    words = _WORD.findall(text[:4000].casefold())
    if _CJK.search(text):
        words = [part for word in words for part in (map("".join, pairwise(word)) if _CJK.search(word) else (word,))]
    return words


def in_common(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of words that two sets, not both empty, have in common, of all they have."""
    return len(one & other) / len(one | other)


def sketch(text: str) -> set[int]:
    """Return at most eight numbers of 32 bits; none for a text of fewer than two words."""
    hashes = [zlib.crc32(word.encode()) for word in words_of(text)]
    pairs = {one + other & 0xFFFFFFFF for apart in (1, 2) for one, other in zip(hashes, hashes[apart:], strict=False)}
    return {*sorted(pairs)[:_SKETCH_SIZE]}
