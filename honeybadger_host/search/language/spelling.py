"""Guesses what an unknown word of a question meant. Pure.

One typo (`typsecript`, `mongod`), or a pair of Chinese characters that do not belong together (`猫叫`). Only words that
the group does not have are guessed at, so a correct word costs nothing and is never read as another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from string import ascii_lowercase
from typing import Final

from honeybadger_host.search.language.analyzer import QueryTerm, is_cjk

# Letters; shorter words are one typo away from too many others (`model` from `mode`, `k8s` from `k9s`).
MIN_LETTERS: Final = 6
# Letters; longer ones are not words (a key, base64) and have too many typos: 20,000 letters took minutes.
MAX_LETTERS: Final = 32
CORRECT_LETTERS: Final = 2  # letters at the beginning that are assumed correct: `mango` is not `mongo`
WEIGHT: Final = 0.7  # weight of a guess
CHARACTER_WEIGHT: Final = 0.3  # weight of one Chinese character
FIRST_HAN: Final = "\u3400"  # below are kana, which mean nothing alone


def guesses(term: QueryTerm, known: Callable[[Collection[str]], set[str]]) -> list[QueryTerm]:
    """Return the known words that an unknown one may mean, if any.

    Single characters do not replace the word: it also stays, as missing.

    Args:
        known: returns those words that the group has.
    """
    word = term.forms[0]
    if len(word) == 2 and is_cjk(word):
        characters = [letter for letter in word if letter >= FIRST_HAN and known([letter])]
        return [term, *(QueryTerm(letter, (letter,), CHARACTER_WEIGHT, is_optional=True) for letter in characters)]
    if not MIN_LETTERS <= len(term.word) <= MAX_LETTERS or not (word.isascii() and word.isalpha()) or term.is_optional:
        return []
    near = tuple(sorted(known({*_slips(word)})))
    return [QueryTerm(term.word, near, term.weight * WEIGHT)] if near else []


def _slips(word: str) -> Iterator[str]:
    """Yield every word one typo away: a letter left out, added or replaced, or two exchanged."""
    for place in range(CORRECT_LETTERS, len(word) + 1):
        head, tail = word[:place], word[place:]
        for letter in ascii_lowercase:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
