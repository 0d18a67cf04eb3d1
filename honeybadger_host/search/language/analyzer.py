"""Turns text into terms, in the same way for documents and for questions. Pure.

The rules make different spellings equal: width, case, accents, plurals and irregular forms, identifiers (`time-zone`,
`TimeZone`, `time_zone`; `C#`, `.NET`, `node.js`), numbers; Chinese, Japanese and Korean become pairs of characters.
Stop words stay in documents and are removed from questions only.

Sources: RB3, docs/decisions/017-recall.md.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain

import Stemmer

from honeybadger_host.text.labels import folded


def read_words(package: str, name: str) -> dict[str, list[str]]:
    """Return key -> words of a file of a package."""
    text = (files(package) / name).read_text(encoding="utf-8").replace("\n ", " ")
    lines = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return {key: words.split() for key, _, words in lines}


# Language, by Snowball's name where it has a stemmer -> its function words, casefolded, accents as written.
STOP = {language: frozenset(words) for language, words in read_words(__package__, "function_words.txt").items()}

# Language -> words that say little about a text's subject.
COMMON = {language: frozenset(words) for language, words in read_words(__package__, "common_words.txt").items()}

# Irregular English form -> base form, applied before stemming.
IRREGULAR = {form: base for base, forms in read_words(__package__, "irregular_words.txt").items() for form in forms}

# Language -> its letters, for scripts other than Latin; its stemmer gets such words.
_SCRIPTS = (
    ("russian", re.compile("[\u0400-\u052f]")),
    ("arabic", re.compile("[\u0600-\u06ff]")),
    ("greek", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("hindi", re.compile("[\u0900-\u097f]")),
    ("hebrew", re.compile("[\u0590-\u05ff]")),
    ("armenian", re.compile("[\u0530-\u058f]")),
    ("tamil", re.compile("[\u0b80-\u0bff]")),
)

# The term of a short text that ends with a question; a long one says something before it asks.
QUESTION_MARK = "?"
_MAX_QUESTION_LENGTH = 30  # terms
_TAG_MARK = "#"  # begins the mark of a tag

_CJK = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003134f\u3005"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer: no spaces either
)
# Signs on a letter, which Python does not count as part of a word: vowels in India, points in Arabic and Hebrew.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05c1-\u05c2\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u0900-\u0903"
    "\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a03\u0a3c-\u0a4d\u0a81-\u0a83\u0abc-\u0acd"
    "\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3e-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03"
    "\u0d3b-\u0d4d\u0dca-\u0ddf\u200c\u200d"
)
_LETTER = f"(?:[^\\W_{_CJK}][{_MARKS}]*)"
_WORD = "_*LETTER+(?:(?:[-_.'\u2019]|(?<=\\d)[:,/](?=\\d))_*LETTER+)*(?:\\+\\+|#)?"
_TOKEN = re.compile(f"(?P<cjk>[{_CJK}]+)|{_WORD.replace('LETTER', _LETTER)}")
_CJK_RUN = re.compile(f"[{_CJK}]")
_JOINT = re.compile("[-_.:/,]+")
_CAMEL = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ELISION = re.compile(
    "(?:l|d|j|qu|n|s|c(?!'mon)|m|t|jusqu|lorsqu|puisqu|dell|all|nell|dall|sull|un)'(?=..)", re.IGNORECASE
)
_CONTRACTION = re.compile("'(?:s|d|m|ll|re|ve)?$")
_PLAIN = {ord("ø"): "o", ord("æ"): "ae", ord("œ"): "oe", ord("ł"): "l", ord("đ"): "d", ord("ð"): "d"}
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|my|me|mine|myself)\b", re.IGNORECASE)
_QUESTION_END = re.compile("[?\uff1f\u061f][\\s\"')\\]!*_\U0001f300-\U0001faff]*$")

MAX_TERM = 64  # characters; a longer word is found by its beginning (base64, minified code)
_ALL_STOPS = frozenset().union(*STOP.values())


# Stop word -> the languages in which it is one.
_STOPS_IN = {word: [language for language, words in STOP.items() if word in words] for word in _ALL_STOPS}


def _other_script(word: str) -> str | None:
    """Return the language whose stemmer fits a word in another script than Latin."""
    return next((language for language, letters in _SCRIPTS if letters.match(word)), None)


_ASKED_IN_ANY = STOP["english"].union(word for word in _ALL_STOPS if _other_script(word) is not None)
# Language of a question -> its stop words.
_ASKED_IN = {language: _ASKED_IN_ANY | words for language, words in STOP.items()}
_FUNCTION_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A term of a question.

    Args:
        word: as written, casefolded; for explanations.
        forms: equivalent terms; at least one, the usual one first.
        is_of_any_language: the question does not tell its language.
        is_guess: the group does not have the word itself.
    """

    word: str
    forms: tuple[str, ...]
    is_of_any_language: bool = False
    is_guess: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A question, analysed.

    Args:
        text: as it was asked.
        terms: without stop words, each once, in order of appearance; may be empty.
        words: all words, casefolded and without accents; the corpus decides which of them are names.
        is_first_person: it asks about the asker ("I", "my"), in English: in other languages this finds nothing more.
        language: Snowball's name of it; English when in doubt.
    """

    text: str
    terms: tuple[QueryTerm, ...]
    words: frozenset[str]
    is_first_person: bool
    language: str = "english"


def document_terms(text: str) -> list[str]:
    """Return the terms of a text in order, with repetitions; empty for a text without letters and digits."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    language = _language(text)
    terms: list[str] = []
    for chunk in text.split():  # no token contains white space
        is_cached = len(chunk) <= MAX_TERM and (chunk.isascii() or not _CJK_RUN.search(chunk))
        terms += _chunk_terms(chunk, language) if is_cached else _chunk_terms.__wrapped__(chunk, language)
    if ("?" in text or not text.isascii()) and len(terms) <= _MAX_QUESTION_LENGTH:
        terms += [QUESTION_MARK] * (_QUESTION_END.search(text) is not None)
    return terms


@lru_cache(maxsize=25_000)  # words repeat: half the time in what people say; about 8 MiB
def _chunk_terms(chunk: str, language: str) -> tuple[str, ...]:
    """Return the terms of a text without white space."""
    terms: list[str] = []
    for match in _TOKEN.finditer(chunk):
        token = match.group()
        if match.lastgroup == "cjk":
            terms += [*token, *_pairs(token)]
        else:
            terms += filter(None, _word_terms(token, language))
    return tuple(terms)


def forget_words() -> None:
    """Free the memory of words that texts had."""
    _chunk_terms.cache_clear()


def entry_terms(content: str, category: str = "", names: Iterable[str] = ()) -> list[str]:
    """Return the terms of an entry: its content, its category with `/` and `-` as spaces, and its names.

    Args:
        names: title, tags and other names; counted twice, because people ask for an entry by name.
    Source: RB3.
    """
    terms = document_terms(content)
    if category:
        terms += _label_terms(category.replace("/", " ").replace("-", " "))
    for name in names:
        terms += 2 * _label_terms(name.replace("/", " "))
    return terms


def tag_mark(tag: str) -> str:
    """Return a further term of a document with a tag, which no question has."""
    return _TAG_MARK + folded(tag)


@lru_cache(maxsize=4096)
def _label_terms(label: str) -> tuple[str, ...]:
    """Return the terms of a category, a tag or a title; cached, because many entries share them."""
    return tuple(document_terms(label))


@lru_cache(maxsize=4)  # a context asks three times; a page of 50 KB takes 30 ms
def analyse_query(text: str) -> Query:
    """Return a question's terms; stop words are left out, unless it has nothing else."""
    normal = unicodedata.normalize("NFKC", text)
    language = _language(normal)
    stop = _ASKED_IN[language]
    found: list[QueryTerm] = []
    dropped: list[QueryTerm] = []
    words: set[str] = set()
    is_told = language != "english" or any(
        _STOPS_IN.get(word) == ["english"] for word in _FUNCTION_WORD.findall(normal.casefold())
    )
    for token, kind in dict.fromkeys((match.group(), match.lastgroup) for match in _TOKEN.finditer(normal)):
        if kind == "cjk":
            words.add(token)
            found.extend(QueryTerm(pair, (pair,)) for pair in _pairs(token) or (token,))
            continue
        word = token.casefold().replace("\u2019", "'")
        words.add(_fold(word.removesuffix("'s")))
        shown = word.removesuffix("'s")
        says_nothing = word in stop or (language != "english" and _says_nothing(word, stop))
        terms = dropped if says_nothing else found
        for term in _word_terms(token, language):
            terms.append(QueryTerm(shown, _forms(token, term, language), not is_told and token.isalpha()))
    return Query(
        text=text,
        terms=_once(found) or _once(dropped),
        words=frozenset(words),
        is_first_person=_FIRST_PERSON.search(normal) is not None,
        language=language,
    )


def _says_nothing(word: str, stop: frozenset[str]) -> bool:
    """Return whether all parts of a joined word are stop words: `est-ce`, `qu'on`, `s'est-elle`."""
    return all(part in stop or _ELISION.sub("", part) in stop for part in word.split("-") if part)


def names_in(name: str) -> tuple[str, ...]:
    """Return the words of a person's name as `Query.words` writes them."""
    return tuple(
        _fold(match.group().casefold()) if match.lastgroup != "cjk" else match.group()
        for match in _TOKEN.finditer(unicodedata.normalize("NFKC", name))
    )


def is_cjk(word: str) -> bool:
    """Return whether a word or a term begins with a Chinese, Japanese or Korean character."""
    return _CJK_RUN.match(word) is not None


def _once(terms: Iterable[QueryTerm]) -> tuple[QueryTerm, ...]:
    return tuple({term.forms[0]: term for term in terms if term.forms[0] not in ("", QUESTION_MARK)}.values())


def _language(text: str) -> str:
    """Return the language whose function words are most frequent in a text in Latin letters; English when in doubt.

    A function word of English counts for English alone.
    """
    said = _FUNCTION_WORD.findall(text.casefold().replace("\u2019", "'"))
    words = [word for word in said if word in _STOPS_IN or ("'" in word and _ELISION.match(word))]
    english = [word for word in words if word in STOP["english"]]
    others = (_STOPS_IN.get(word, ("french",)) for word in words if word not in STOP["english"])
    counts = Counter(chain.from_iterable(others))
    best = max(counts, key=counts.__getitem__, default="english")
    only_english = sum(1 for word in english if word not in STOP[best])
    return best if counts[best] > only_english else "english"


@lru_cache(maxsize=4096)  # words of messages repeat: half the time of `analyse_query`
def _word_terms(token: str, language: str) -> Sequence[str]:
    """Return the terms of a word: itself, and the parts of an identifier; one may be empty (a lone Arabic tatweel)."""
    word = token.replace("\u2019", "'").lstrip("_")
    if word.endswith(("#", "++")):
        return [word.casefold()[:MAX_TERM]]
    word = _CONTRACTION.sub("", _ELISION.sub("", word)) if "'" in word else word
    parts = [part for joined in _JOINT.split(word) for part in _CAMEL.split(joined) if part]
    if not word.isascii() and (other := _other_script(word)) is not None:
        # accents are removed last: Russian suffixes have some
        return list(dict.fromkeys(_fold(_stem(part.casefold(), other)) for part in ("".join(parts), *parts)))
    whole = "".join(parts).replace("'", "")
    return [_stem(_fold(part.casefold()), language) for part in ([whole, *parts] if len(parts) > 1 else [whole])]


def _forms(token: str, term: str, language: str) -> tuple[str, ...]:
    """Return the term, and the term of the same word in an English text."""
    if language == "english" or not token.isalpha() or _other_script(token) is not None:
        return (term,)
    plain = _stem(_fold(token.casefold()), "english")
    return (term, plain) if plain != term else (term,)


def in_any_language(word: str) -> frozenset[str]:
    """Return the terms of a casefolded word in texts of each language, without common words of English."""
    return frozenset(_stem(_fold(word), language) for language in STOP) - common_terms("english")


def _fold(word: str) -> str:
    """Return a casefolded word without accents."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFKD", word.translate(_PLAIN))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def _stem(word: str, language: str) -> str:
    word = word[:MAX_TERM]
    if language == "english":
        word = IRREGULAR.get(word, word)
    return _stemmer(language)(word) or word  # Turkish `leri`, as in `URL'leri`, is all suffix


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    # its own cache takes 2 MiB, and more time than it saves behind ours
    return Stemmer.Stemmer(language, 0).stemWord if language in Stemmer.algorithms() else str


def _pairs(run: str) -> Sequence[str]:
    """Return the pairs of neighbouring characters in a run; none for one character."""
    return [run[start : start + 2] for start in range(len(run) - 1)]


@cache
def common_terms(language: str) -> frozenset[str]:
    """Return the terms of words that say little in a text of a language; those of English in any."""
    words = [(word, known) for known in {"english", language} for word in COMMON.get(known, ())]
    return frozenset(_stem(_fold(word), known) for word, known in words)
