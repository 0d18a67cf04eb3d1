"""Words as the numbers that BERT's uncased English vocabulary gives them: WordPiece.

Written from the description in the BERT paper and compared with its reference. The vocabulary is a file of its own,
see `vocabulary/NOTICE`; the package with the model does not bring it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Final

VOCABULARY: Final = "bert-base-uncased.txt"
_LONGEST_WORD: Final = 100
"""Characters; what is longer counts as unknown, as in the reference."""
_CJK: Final = re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f])"
)
_ASCII_MARK: Final = re.compile(r"([!-/:-@\[-`{-~])")


class WordPiece:
    """A vocabulary that cuts text into its pieces.

    Args:
        vocabulary: piece -> number; a piece that goes on within a word begins with `##`. Has [UNK], [CLS], [SEP].
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._begin, self._end = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._longest = max(map(len, vocabulary))
        self._pieces = lru_cache(maxsize=32_768)(self._cut)

    def numbers(self, text: str, most: int) -> list[int]:
        """Return the numbers of a text, between those of [CLS] and [SEP]; at most `most`, which is at least 2."""
        found = [self._begin]
        for word in words(text):
            found.extend(self._pieces(word))
            if len(found) >= most:
                break
        del found[most - 1 :]
        found.append(self._end)
        return found

    def _cut(self, word: str) -> tuple[int, ...]:
        """Return the pieces of a word, the longest that fits first each time; [UNK] when some part has none."""
        if len(word) > _LONGEST_WORD:
            return (self._unknown,)
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._vocabulary.get(mark + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(found)


def words(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case and without accents; a mark or a Chinese character is a word."""
    if text.isascii():
        text = "".join(map(_visible, text)) if not text.isprintable() else text
        yield from _ASCII_MARK.sub(r" \1 ", text.lower()).split()
        return
    text = _CJK.sub(r" \1 ", "".join(map(_visible, text)))
    text = "".join(char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn")
    for word in text.lower().split(" "):
        if word.isalnum():
            yield word
        elif word:
            yield from "".join(f" {char} " if _is_mark(char) else char for char in word).split()


@lru_cache(maxsize=8192)
def _visible(char: str) -> str:
    """Return a character, a space for any kind of space, nothing for a control character."""
    if char in " \t\n\r" or unicodedata.category(char)[0] == "Z":
        return " "
    return "" if char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs") else char


@lru_cache(maxsize=8192)
def _is_mark(char: str) -> bool:
    return _ASCII_MARK.fullmatch(char) is not None or unicodedata.category(char)[0] == "P"


def load_vocabulary() -> dict[str, int]:
    """Return the vocabulary that comes with the host: a piece a line, numbered from 0."""
    lines = (files("honeybadger_host.search") / "vocabulary" / VOCABULARY).read_text("utf-8").split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}
