"""Guesses what an unknown word of a question meant. Pure.

A word of a language that few words do not tell (`Drucker Patronen`); else one typo (`typsecript`, `mongod`), or a pair
of Chinese characters that do not belong together (`猫叫`). Only words that the group does not have are guessed at, so a
correct word costs nothing and is never read as another.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from string import ascii_lowercase

from honeybadger_host.search.language.analyzer import QueryTerm, in_any_language, is_cjk

# Letters; shorter words are one typo away from too many others (`model` from `mode`, `k8s` from `k9s`).
MIN_LETTERS = 6
FIRST_HAN = "\u3400"  # below are kana, which mean nothing alone


def guess(term: QueryTerm, known: Callable[[Collection[str]], set[str]]) -> QueryTerm:
    """Return the term of an unknown word with the known words it may mean, if any.

    Args:
        known: returns those words that the group has.
    """
    word = term.forms[0]
    if len(word) == 2 and is_cjk(word):
        near = known([letter for letter in word if letter >= FIRST_HAN])
    elif term.is_of_any_language and (same := known(in_any_language(term.word))):
        return replace(term, forms=tuple(sorted(same)), is_guess=True)
    elif len(term.word) >= MIN_LETTERS and word.isascii() and word.isalpha():
        near = known({*_slips(word)})
    else:
        return term
    return replace(term, forms=tuple(sorted(near)), is_guess=True) if near else term


def _slips(word: str) -> Iterator[str]:
    """Yield every word one typo away: a letter left out, added or replaced, or two exchanged."""
    for place in range(len(word) + 1):
        head, tail = word[:place], word[place:]
        for letter in ascii_lowercase:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
