"""Which capitalised words are ordinary ones, and not somebody's or something's name. Pure.

A word at the start of a sentence, and every German noun, has a capital that says nothing. What is not known as ordinary
counts as a name: a name that is missed may be lost, an ordinary word that is taken for one only costs a look.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

import Stemmer

from honeybadger_host.search.language.lexicon import AMBIGUOUS, COMMON, IRREGULAR, STOP, read_words

_TABLES: Final = read_words(__package__, "word_tables.txt")


def word_set(name: str) -> frozenset[str]:
    return frozenset(_TABLES[name])


def word_forms(name: str) -> dict[str, str]:
    """Return word -> form of a table of `form=word,word` items."""
    items = (item.partition("=") for item in _TABLES[name])
    return {word.replace("_", " "): form for form, _, words in items for word in words.split(",")}


def word_patterns(name: str) -> str:
    """Return a table of patterns as one."""
    return "|".join(_TABLES[name]).replace("_", " ")


def word_groups(name: str) -> list[list[str]]:
    """Return the items of a table, each as the parts that a colon, else a comma, separates."""
    return [item.split(":" if ":" in item else ",") for item in _TABLES[name]]


_STEMMERS: Final = {language: Stemmer.Stemmer(language) for language in ("english", "german")}
_ENGLISH_ENDS: Final = re.compile(r"\w{3,}(?:ing|tion|tions|ment|ments|ness|able|ible|ful|less|ous)|\w{5,}ly|\w{4,}ed")
_GERMAN_ENDS: Final = re.compile(r"\w{4,}(?:(?:ung|heit|keit|schaft|tion|tät)(?:en)?|ismus|erin(?:nen)?)")
_GERMAN_HEADS: Final = re.compile(rf"\w{{3,}}(?:{word_patterns('german_heads')})(?:[ens]|er|es)?")


@cache
def _ordinary() -> dict[str, frozenset[str]]:
    """Return language -> stems of its ordinary words; read when they are needed first: that takes 40 ms."""
    found = {}
    for language, words in read_words(__package__, "ordinary_words.txt").items():
        stem = _STEMMERS[language].stemWord
        found[language] = frozenset(stem(word) for word in (*words, *COMMON[language]))
    return found


@lru_cache(maxsize=50_000)
def stem(word: str, *, is_german: bool = False) -> str:
    """Return what the forms of a casefolded word share."""
    base = word if is_german else IRREGULAR.get(word, word)
    stemmed: str = _STEMMERS["german" if is_german else "english"].stemWord(base)
    return stemmed


def language_of(words: Sequence[str]) -> str:
    """Return the language that most casefolded words are function words of; English when that is open."""
    there, english = set(words), STOP["english"]
    counts = Counter({language: len(there & stop - english) for language, stop in STOP.items()})
    counts["german"] += (
        sum("ß" in word or is_ordinary_noun(word) for word in there - english) if counts["german"] else 0
    )
    best = max(counts, key=lambda language: (counts[language], language == "german"))
    if best != "german" and counts[best] < 2:
        best = "german"
    if not counts[best]:
        has_nouns = not there & english and any(map(is_ordinary_noun, there))
        return "german" if has_nouns or any(set("äöüß") & set(word) for word in there) else "english"
    return best if counts[best] > len(there & english - STOP[best]) else "english"


def is_function_word(word: str, language: str) -> bool:
    """Return whether a casefolded word is one that sentences of the language are made of; English comes everywhere."""
    return word in STOP[language] or (word in STOP["english"] and word not in AMBIGUOUS)


@lru_cache(maxsize=50_000)
def begins_a_sentence(word: str, language: str) -> bool:
    """Return whether a casefolded word is ordinary where a sentence of the language begins."""
    if is_function_word(word, language) or stem(word) in _ordinary()["english"] or is_ordinary_noun(word):
        return True
    return _ENGLISH_ENDS.fullmatch(word) is not None


@lru_cache(maxsize=50_000)
def is_ordinary_noun(word: str) -> bool:
    """Return whether a casefolded word is an ordinary German noun."""
    if stem(word, is_german=True) in _ordinary()["german"]:
        return True
    return (_GERMAN_HEADS.fullmatch(word) or _GERMAN_ENDS.fullmatch(word)) is not None
