"""What a text is found by: one function from text to terms, for documents and for questions. Pure.

The same rules serve both sides, so what was written is found however it is written next time: width, case, accents,
plurals and irregular forms, identifiers (`time-zone`, `TimeZone`, `time_zone`; `C#`, `.NET`, `node.js`), numbers, and
Chinese, Japanese and Korean as pairs of characters. Stop words stay in documents and leave questions only.

Sources: RB3, docs/decisions/017-recall.md.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final

import Stemmer

from honeybadger_host.memory.words import CATEGORY_STOP, CJK_STOP, CJK_TIME, IRREGULAR, NUMBERS, STOP, TIME_WORDS

ANALYZER_VERSION: Final = 1
"""Raised whenever the terms of any text change: an index of another version is built anew."""

QUESTION_MARK: Final = "?"
"""The term of a text that ends with a question."""

_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003134f\u3005"
_LETTER: Final = f"[^\\W_{_CJK}]"
_WORD: Final = (
    "(?:(?<![^\\s(\\[\"'`,;:])\\.(?=[A-Za-z]{2}))?"  # .NET, .env; not the full stop of "end.Then"
    "_*LETTER+(?:(?:[-_.'\u2019]|(?<=\\d)[:,/](?=\\d))_*LETTER+)*(?:\\+\\+|#)?"
)
_TOKEN: Final = re.compile(f"(?P<cjk>[{_CJK}]+)|{_WORD.replace('LETTER', _LETTER)}")
_ASCII_TOKEN: Final = re.compile(_WORD.replace("LETTER", "[A-Za-z0-9]"))
_CJK_RUN: Final = re.compile(f"[{_CJK}]")
_JOINT: Final = re.compile("[-_.:/]+")
_CAMEL: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ELISION: Final = re.compile("(?:l|d|j|qu|n|s|c|m|t|jusqu|lorsqu|puisqu)'(?=..)")
_CONTRACTION: Final = re.compile("'(?:s|d|m|ll|re|ve)?$")
_ORDINAL: Final = re.compile(r"(\d+)(?:st|nd|rd|th|er|ère|º|ª)$")
_UMLAUT: Final = {ord("ä"): "ae", ord("ö"): "oe", ord("ü"): "ue", ord("å"): "aa", ord("ø"): "oe", ord("æ"): "ae"}
_PLAIN: Final = {ord("ø"): "o", ord("æ"): "ae", ord("œ"): "oe", ord("ł"): "l", ord("đ"): "d", ord("ð"): "d"}
_QUESTION_END: Final = re.compile("[?\uff1f\u061f][\\s\"')\\]!*_\U0001f300-\U0001faff]*$")

MAX_TERM: Final = 64
"""Characters; a longer word is found by its beginning (base64, minified code)."""
_CACHE_WORDS: Final = 50_000
"""About 12 MiB."""
_chunks: dict[str, tuple[str, ...]] = {}  # what stands between white space in English -> terms
_foreign_chunks: set[str] = set()  # those of them that are stop words of another language
_cache: dict[str, tuple[str, ...]] = {}  # written word -> terms; words repeat: 40 times faster than stemming again
_stemmers: dict[str, Stemmer.Stemmer] = {}
_LANGUAGES: Final = tuple(STOP)
_STOPS_IN: Final = {
    word: tuple(language for language in _LANGUAGES if word in STOP[language])
    for word in frozenset().union(*STOP.values())
}
"""Stop word -> the languages it is one of."""
_FOREIGN: Final = frozenset(_STOPS_IN) - STOP["english"]


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One thing a question asks for.

    Args:
        word: as it was written, casefolded; for explanations.
        forms: terms that all mean it; at least one, the first is the usual one.
        weight: 1 unless it says little.
        is_optional: never counted as missing (a joint of two words, `fast api` as `fastapi`).
    """

    word: str
    forms: tuple[str, ...]
    weight: float = 1.0
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A question, analysed.

    Args:
        text: as it was asked.
        terms: without stop words, each once, in order of appearance; empty when nothing is asked for.
        words: all words, casefolded and without accents: who is named is decided by who is in the corpus.
        is_first_person: asks about the asker ("I", "my").
        is_second_person: asks what the other side said ("you told me").
        asks_time: when, how long ago.
        asks_number: how many, how much.
    """

    text: str
    terms: tuple[QueryTerm, ...]
    words: frozenset[str]
    is_first_person: bool
    is_second_person: bool
    asks_time: bool
    asks_number: bool


def document_terms(text: str) -> list[str]:
    """Return the terms of a text in order, repeated as they are; empty for a text without letters and digits."""
    if text.isascii():
        return _ascii_terms(text)
    text = unicodedata.normalize("NFKC", text)
    language = _language(text)
    terms: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if match.lastgroup == "cjk":
            terms.extend(token)
            terms.extend(_pairs(token))
        else:
            terms.extend(_word_terms(token, language))
    if _QUESTION_END.search(text):
        terms.append(QUESTION_MARK)
    return terms


def _ascii_terms(text: str) -> list[str]:
    """Return the terms of a text in ASCII: the same ones, in a tenth of the time.

    No token reaches beyond white space, so what stands between it is looked up as a whole, with its punctuation.
    """
    chunks = text.split()
    try:
        terms = list(chain.from_iterable(map(_chunks.__getitem__, chunks)))
        is_english = _foreign_chunks.isdisjoint(chunks) or _language(text) == "english"
    except KeyError:  # something new
        is_english = _language(text) == "english"
        terms = list(chain.from_iterable(map(_chunk_terms, chunks))) if is_english else []
    if not is_english:
        language = _language(text)
        terms = [term for token in _ASCII_TOKEN.findall(text) for term in _word_terms(token, language)]
    if "?" in text and _QUESTION_END.search(text):
        terms.append(QUESTION_MARK)
    return terms


def _chunk_terms(chunk: str) -> tuple[str, ...]:
    """Return the terms of English without white space in it; kept for the next time unless it is long."""
    if (known := _chunks.get(chunk)) is not None:
        return known
    terms = tuple(term for token in _ASCII_TOKEN.findall(chunk) for term in _analyse(token, "english"))
    if len(chunk) <= MAX_TERM:
        if len(_chunks) >= _CACHE_WORDS:
            _chunks.clear()
        if chunk.casefold() in _FOREIGN:
            _foreign_chunks.add(chunk)
        _chunks[chunk] = terms
    return terms


def length_in_words(terms: Sequence[str]) -> int:
    """Return about how many words a text of these terms has; in Chinese and Japanese a word is about 1.6 characters."""
    if "".join(terms).isascii():
        return len(terms)
    characters = sum(1 for term in terms if len(term) == 1 and is_cjk(term))
    pairs = sum(1 for term in terms if len(term) == 2 and is_cjk(term)) if characters else 0
    return len(terms) - characters - pairs + round(characters / 1.6)


def entry_terms(content: str, category: str = "", names: Iterable[str] = ()) -> list[str]:
    """Return the terms of an entry: its content, its category with `/` and `-` as spaces, and its names.

    Args:
        names: title, tags and other names; written twice, because an entry is asked for by name.
    Source: RB3.
    """
    terms = document_terms(content)
    if category:
        terms += category_terms(category)
    for name in names:
        named = _label_terms(name.replace("/", " "))
        terms += named
        terms += named
    return terms


def category_terms(category: str) -> tuple[str, ...]:
    """Return the terms that an entry has by its category."""
    return _label_terms(category.replace("/", " ").replace("-", " "))


@lru_cache(maxsize=4096)
def _label_terms(label: str) -> tuple[str, ...]:
    """Return the terms of a category, a tag or a title; many entries have the same."""
    return tuple(document_terms(label))


def analyse_query(text: str) -> Query:
    """Return what a question asks for; stop words are out, unless it has nothing else."""
    normal = unicodedata.normalize("NFKC", text)
    language = _language(normal)
    stop = STOP["english"] | STOP[language]
    shouts = normal.isupper()
    found: list[tuple[str, QueryTerm]] = []  # with the folded word, for joints
    dropped: list[QueryTerm] = []
    words: set[str] = set()
    previous = ""
    for match in _TOKEN.finditer(normal):
        token = match.group()
        if match.lastgroup == "cjk":
            words.add(token)
            found.extend(("", QueryTerm(pair, (pair,))) for pair in _asked_pairs(token))
            previous = ""
            continue
        word = token.casefold().replace("\u2019", "'")
        folded = _fold(word.removesuffix("'s"))
        words.add(folded)
        is_name = len(token) > 1 and token.isupper() and not shouts  # UI, IT, US
        shown = word.removesuffix("'s")
        terms = [QueryTerm(shown, _forms(token, term, language)) for term in _word_terms(token, language)]
        if word in stop and not is_name:
            dropped.extend(terms)
            previous = ""
            continue
        if previous and folded.isalpha() and len(previous) + len(folded) <= MAX_TERM:
            joint = _stem(previous + folded, "english")
            found.append(("", QueryTerm(f"{previous}{folded}", (joint,), is_optional=True)))
        found.extend((folded, term) for term in terms)
        previous = folded if folded.isalpha() else ""
    asked = _once(term for _, term in found) or _once(dropped)
    lowered = f" {' '.join(normal.casefold().split())} "
    return Query(
        text=text,
        terms=asked,
        words=frozenset(words),
        is_first_person=_FIRST_PERSON.search(lowered) is not None,
        is_second_person=_SECOND_PERSON.search(lowered) is not None,
        asks_time=_ASKS_TIME.search(lowered) is not None,
        asks_number=_ASKS_NUMBER.search(lowered) is not None,
    )


def names_in(name: str) -> tuple[str, ...]:
    """Return the words of a person's name as `Query.words` writes them."""
    return tuple(
        _fold(match.group().casefold()) if match.lastgroup != "cjk" else match.group()
        for match in _TOKEN.finditer(unicodedata.normalize("NFKC", name))
    )


def is_cjk(word: str) -> bool:
    """Return whether a word or a term begins with a Chinese, Japanese or Korean character."""
    return _CJK_RUN.match(word) is not None


def is_number(term: str) -> bool:
    """Return whether a term says a number."""
    return term[0].isdigit()


_FIRST_PERSON: Final = re.compile(
    r"\b(?:i|i'm|i've|i'd|i'll|my|me|mine|myself|ich|mein\w*|mir|mich|je|j'\w+|mon|ma|mes|moi|yo|mi|mis|mío|io|mio|mia|"
    r"eu|meu|minha|ik|mijn)\b|[我俺咱]|私|僕|俺|나는|내|제"
)
_SECOND_PERSON: Final = re.compile(
    r"\byou (?:\w+ )?(?:told|tell|said|say|suggest\w*|recommend\w*|mention\w*|g[ai]ve|provid\w*|list\w*|shar\w*|"
    r"explain\w*|describ\w*|ma[dk]e|wr[io]te|created?|show\w*|advis\w*)\b|"
    r"\b(?:remind me|your (?:suggest|recommend|answer|advice))|你(?:给|推荐|建议|告诉|说|提)"
)
_ASKS_TIME: Final = re.compile(
    r"\b(?:when|how long|how recently|(?:what|which) (?:\w+ )?(?:time|date|days?|month|year|week|weekend)|"
    r"wann|wie lange|quand|depuis|cuándo|quando|wanneer)\b|"
    r"什么时候|什麼時候|何时|哪天|哪年|几点|多久|いつ|何時|언제"
)
_ASKS_NUMBER: Final = re.compile(
    r"\b(?:how (?:many|much|often|old|far|tall|big|large|high)|what (?:\w+ )?(?:number|amount|price|age)|wie ?viele?|"
    r"combien|cuánt[oa]s?|quant[oiae]|hoeveel)\b|"
    r"多少|几[个次岁本只]|いくつ|いくら|何[人個回歳]|몇|얼마"
)


def _once(terms: Iterable[QueryTerm]) -> tuple[QueryTerm, ...]:
    """Return every term once; one that is asked for wins over the same as a joint."""
    kept: dict[str, QueryTerm] = {}
    for term in terms:
        if term.forms[0] != QUESTION_MARK and (term.forms[0] not in kept or not term.is_optional):
            kept[term.forms[0]] = term
    return tuple(kept.values())


def _language(text: str) -> str:
    """Return the language whose function words stand most often in a text; English unless another is ahead."""
    words = text.casefold().split(maxsplit=200)[:200]
    if sum(map(_FOREIGN.__contains__, words)) <= 1:
        return "english"  # as counting would say
    counts = dict.fromkeys(_LANGUAGES, 0)
    for word in words:
        for language in _STOPS_IN.get(word, ()):
            counts[language] += 1
    best = max(_LANGUAGES, key=counts.__getitem__)
    return best if counts[best] > counts["english"] + 1 else "english"


def _word_terms(token: str, language: str) -> tuple[str, ...]:
    """Return the terms of a written word: itself, and the parts of an identifier."""
    key = token if language == "english" else f"{language} {token}"
    if (known := _cache.get(key)) is not None:
        return known
    if len(_cache) >= _CACHE_WORDS:
        _cache.clear()
    terms = _cache[key] = tuple(_analyse(token, language))
    return terms


def _analyse(token: str, language: str) -> list[str]:
    word = token.replace("\u2019", "'").lstrip("_")
    if word.startswith("."):
        return [word.casefold()[:MAX_TERM], _stem(_fold(word[1:].casefold()), language)]
    if word.endswith(("#", "++")):
        return [word.casefold()[:MAX_TERM]]
    word = _CONTRACTION.sub("", _ELISION.sub("", word)) if "'" in word else word
    if word[:1].isdigit():
        return _number_terms(word.casefold())
    parts = [part for joined in _JOINT.split(word) for part in _CAMEL.split(joined) if part]
    whole = _fold("".join(parts).replace("'", "").casefold())
    if len(parts) == 1:
        return _with_variant(word.casefold(), whole, language)
    terms = [_stem(whole, language)]
    for part in parts:
        terms.extend(_number_terms(part) if part[0].isdigit() else [_stem(_fold(part.casefold()), language)])
    return terms


def _with_variant(word: str, folded: str, language: str) -> list[str]:
    """Return the stem, and for `über` also the stem of `ueber`."""
    stem = _stem(folded, language)
    if word.isascii() or not any(ord(letter) in _UMLAUT for letter in word):
        return [stem]
    variant = _stem(_fold(word.translate(_UMLAUT)), language)
    return [stem, variant] if variant != stem else [stem]


def _number_terms(word: str) -> list[str]:
    """Return a number without separators of thousands; a version also as its first two parts."""
    if match := _ORDINAL.match(word):
        return [match.group(1)]
    plain = re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", word)
    parts = [part for part in re.split("[-_.:/,]+", plain) if part]
    if len(parts) == 1:
        return [plain[:MAX_TERM]]
    if plain.count(".") >= 2:
        return [plain[:MAX_TERM], ".".join(plain.split(".")[:2])]
    if "." in plain and len(parts) == 2 and all(part.isdigit() for part in parts):
        return [plain[:MAX_TERM]]
    return [
        plain[:MAX_TERM],
        *(part.lstrip("0") or "0" if part.isdigit() else _stem(_fold(part), "english") for part in parts),
    ]


def _forms(token: str, term: str, language: str) -> tuple[str, ...]:
    """Return the term, and what a text in English would have made of the same word."""
    if language == "english" or not token.isalpha():
        return (term,)
    plain = _stem(_fold(token.casefold()), "english")
    return (term, plain) if plain != term else (term,)


def _fold(word: str) -> str:
    """Return a casefolded word without accents."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFKD", word.translate(_PLAIN))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def _stem(word: str, language: str) -> str:
    word = word[:MAX_TERM]
    if language == "english":
        if (number := NUMBERS.get(word)) is not None:
            return number
        word = IRREGULAR.get(word, word)
    if language not in _stemmers:
        _stemmers[language] = Stemmer.Stemmer(language)
    stem: str = _stemmers[language].stemWord(word)
    return stem


def _pairs(run: str) -> Sequence[str]:
    """Return the pairs of neighbours in a run; none in a run of one."""
    return [run[start : start + 2] for start in range(len(run) - 1)]


_CJK_CUT: Final = re.compile("|".join(sorted(map(re.escape, CJK_STOP), key=len, reverse=True)))


def _asked_pairs(run: str) -> list[str]:
    """Return the pairs of a question's run, without what only asks; all of them when nothing is left."""
    pairs = [pair for part in _CJK_CUT.split(run) if part for pair in _pairs(part) or (part,)]
    return pairs or list(_pairs(run) or (run,))


CATEGORY_STOP_TERMS: Final = frozenset(term for word in CATEGORY_STOP for term in document_terms(word))
"""Terms of a category that say nothing of what is in it."""

TIME_TERMS: Final = frozenset(term for word in TIME_WORDS for term in document_terms(word)) | frozenset(CJK_TIME)
"""Terms that say when something was."""
