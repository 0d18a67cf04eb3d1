"""What turns a sentence round: negations, opposites, direction, who does it to whom, what belongs to whom. Pure.

A rewording says the same about each word that it shares with its source: `is allergic` and `is not allergic` share a
word that one denies. English and German, and the negations of some other languages. It refuses too much rather than
too little: a text that says the same with another negation is told from one that does not by a person.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from honeybadger_host.curation.ordinary import is_function_word, language_of, stem, word_forms, word_groups, word_set
from honeybadger_host.curation.quantities import number_of
from honeybadger_host.curation.specifics import said, visible
from honeybadger_host.search.nearly import in_common

_NEGATIONS: Final = word_set("negations")
_NEGATION_SIGNS: Final = re.compile("不|没|沒|未|非|ない|ません|なく|않|안 |못")
_NOT_NEGATIONS: Final = re.compile(
    r"\b(?:not only|not just|no doubt|no\. ?\d|nicht nur|nicht zuletzt|allerg\w+ (?:against|gegen)"
    r"|medic\w+ against|(?:gut|schlecht|hilft|mittel) gegen)\b"
)
_CONTRACTION: Final = re.compile(r"\b(\w+)n['’]t\b")
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3})")
_CLAUSE: Final = re.compile(
    r"[.!?;:…。！？；，、]+(?=\s|$|[^\x00-\x7f])|,(?=\s)|\n+|\s[–—-]\s|[()]|\b(?:but|aber|sondern|mais|pero)\b"
)
_JOINED: Final = re.compile(r"\s+(?:and|or|und|oder|et|ou|y|sowie)\s+")
_BEGINS_ANEW: Final = word_set("sentence_begins")
_WORD: Final = re.compile(r"[^\W_]+(?:[.:-](?=\d)[^\W_]+)*")
_ROLES: Final = word_forms("roles")
_OPPOSITES: Final = {
    word: (f"{sides[0].partition(',')[0]}/{sides[1].partition(',')[0]}", side.partition(",")[0])
    for sides in word_groups("opposites")
    for side in sides
    for word in side.split(",")
}
"""Word -> the pair it belongs to, and its side."""
PEOPLE: Final = word_set("people")
_DENIED: Final = "{word!r} is {how} in the result and {was} in its sources"
_BEHIND: Final = "{word!r} stands behind {how}, it stood behind {was}"
_COUNTED: Final = "there are {how} of {word!r}, there were {was}"
_OPPOSED: Final = "it says {how}, it said {was}"
_ALIKE: Final = 0.6
"""Share of words that two clauses have in common which say the same, or the opposite."""
_PASSIVE: Final = word_set("passive")
_PLACES: Final = word_set("places")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a text says about its words, for comparison.

    Args:
        facts: one of `_DENIED`, `_BEHIND`, `_COUNTED`, `_OPPOSED`, and a word -> what is said of it.
        actions: who, does what, to whom.
        together: specifics of each clause, names and all others.
        clauses: stems of the content words of each, and whether it is denied; None: it follows a denied one behind an
            `and`, so nobody knows.
    """

    facts: Mapping[tuple[str, str], frozenset[str]]
    actions: frozenset[tuple[str, str, str]]
    together: tuple[frozenset[str], ...]
    clauses: tuple[tuple[frozenset[str], bool | None], ...]

    @property
    def is_denying(self) -> bool:
        return any(is_denied for _, is_denied in self.clauses)


@lru_cache(maxsize=4096)
def meaning(text: str) -> Meaning:
    """Return what a text says about its words."""
    text = visible(text)  # nothing hides between the letters of a `not`
    facts: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    actions: set[tuple[str, str, str]] = set()
    clauses: list[tuple[frozenset[str], bool | None]] = []
    names = {form for form in said(text).certain if form.isalpha()} | PEOPLE
    language = language_of(_WORD.findall(text.casefold()))
    for words, is_denied in _clauses(_plain(text)):
        content = frozenset(_content(words, language))
        clauses.append((content, is_denied))
        for word in content:
            facts[_DENIED, word].add({True: "denied", False: "affirmed", None: "perhaps denied"}[is_denied])
        for form, word, how in _facts(words, language):
            facts[form, word].add(how)
        actions.update(_actions(words, names, language))
    return Meaning(
        facts={fact: frozenset(how) for fact, how in facts.items()},
        actions=frozenset(actions),
        together=tuple(_specifics(part, names) for part in clauses_of(text)),
        clauses=tuple(clauses),
    )


def flips(sources: Sequence[str], result: str, *, is_whole: bool = True) -> list[str]:
    """Return in which ways a result says something else about the words it shares with its sources, for a person.

    Args:
        is_whole: the result says all that the sources say, as a merge does; else it is one thing out of several.
    """
    before, after = [meaning(source) for source in sources], meaning(result)
    found = []
    for (form, word), says in after.facts.items():
        was = frozenset[str]().union(*(each.facts.get((form, word), ()) for each in before))
        if was and (says - was or (form == _DENIED and is_whole and says != was)):
            found.append(form.format(word=word, how=" and ".join(sorted(says)), was=" and ".join(sorted(was))))
    denies = any(each.is_denying for each in before)
    if not found and (after.is_denying != denies if is_whole else after.is_denying and not denies):
        one, other = ("the result", "its sources do") if after.is_denying else ("a source", "the result does")
        found.append(f"{one} denies something that {other} not")
    acted = {action for each in before for action in each.actions}
    found += [
        f"{who} and {whom} have changed places"
        for who, what, whom in sorted(after.actions - acted)
        if (whom, what, who) in acted
    ]
    return found + _exchanged(before, after)


def contradicted(sources: Iterable[str], result: str) -> list[str]:
    """Return the clauses of a result that say the opposite of a clause of its sources in nearly the same words.

    For long texts, where a word is said in many clauses; see `flips`.
    """
    before = [clause for source in sources for clause in meaning(source).clauses if len(clause[0]) > 1]
    found = []
    for words, is_denied in meaning(result).clauses:
        alike = [was_denied for other, was_denied in before if words and in_common(words, other) >= _ALIKE]
        if alike and all(was_denied is not None and was_denied != is_denied for was_denied in alike):
            found.append(" ".join(sorted(words)))
    return found


def clauses_of(text: str) -> list[str]:
    """Return the parts of a text that each say one thing."""
    return [part.strip() for part in _CLAUSE.split(text) if part.strip()]


@lru_cache(maxsize=4096)
def content_words(text: str) -> frozenset[str]:
    """Return the stems of the words and numbers that a text is about."""
    words = _WORD.findall(_plain(text))
    return frozenset(_content(words, language_of(words)))


def _exchanged(before: Sequence[Meaning], after: Meaning) -> list[str]:
    """Return what stands with another name than in the sources: `Anna is 8, Ben is 10` with the ages exchanged."""
    parts = [part for each in before for part in each.together]

    def partners(specific: str) -> frozenset[str]:
        return frozenset().union(*(part for part in parts if specific in part)) - {specific}

    found = []
    for together in after.together:
        for specific in together:
            names = {partner for partner in partners(specific) if partner.isalpha()}
            others = {other for other in together - {specific} if other.isalpha() and partners(other)}
            if others and names and not others & names:
                here, there = ", ".join(sorted(others)), ", ".join(sorted(names))
                found.append(f"{specific!r} stands with {here}, in the sources with {there}")
    return found


def _plain(text: str) -> str:
    """Return a text casefolded, its contracted negations in full and what only looks like one removed."""
    text = _THOUSANDS.sub("", _CONTRACTION.sub(r"\1 not", visible(text).casefold()))
    return _NOT_NEGATIONS.sub(" ", _NEGATION_SIGNS.sub(r" not \g<0>", text))


def _clauses(text: str) -> Iterator[tuple[list[str], bool | None]]:
    """Yield the words of each clause, and whether it is denied."""
    for sentence in _CLAUSE.split(text):
        was_denied = False
        for part in _JOINED.split(sentence):
            words = _WORD.findall(part)
            is_denied: bool | None = sum(word in _NEGATIONS for word in words) % 2 == 1
            if was_denied and not is_denied and words and words[0] not in _BEGINS_ANEW:
                is_denied = None
            if words:
                yield words, is_denied
            was_denied = is_denied is True


def _content(words: Iterable[str], language: str) -> Iterator[str]:
    for word in words:
        if word not in _NEGATIONS and word not in _ROLES and not is_function_word(word, language):
            yield stem(word, is_german=language == "german")


def _facts(words: Sequence[str], language: str) -> Iterator[tuple[str, str, str]]:
    """Yield what a clause says of a word: which preposition it follows, how many there are, which of two opposites."""
    role, left = "", 0
    for word in words:
        if word in _ROLES:
            role, left = _ROLES[word], 2
        elif left and not is_function_word(word, language):
            yield _BEHIND, stem(word, is_german=language == "german"), role
            left -= 1
        if (pair := _OPPOSITES.get(word)) is not None:
            yield _OPPOSED, *pair
    for number, word in pairwise(words):
        if word[0].isalpha() and not is_function_word(word, language) and (form := number_of(number)) is not None:
            yield _COUNTED, stem(word, is_german=language == "german"), form


def _actions(words: Sequence[str], names: set[str], language: str) -> Iterator[tuple[str, str, str]]:
    """Yield who does what to whom, for each two people with something between them."""
    people = [at for at, word in enumerate(words) if word in names]
    for first, second in pairwise(people):
        between = words[first + 1 : second]
        if _PLACES & {*words[max(0, first - 1) : first], *between[-2:]}:
            continue
        who, whom = words[first], words[second]
        if _PASSIVE & set(between[-2:]):
            who, whom = whom, who
        for verb in _content(between, language):
            yield who, verb, whom


def _specifics(part: str, names: set[str]) -> frozenset[str]:
    """Return the specifics of a clause and those names of the whole text that stand in it."""
    return frozenset(said(part).certain) | ((names - PEOPLE) & set(_WORD.findall(part.casefold())))
