"""The specifics of a text: numbers, dates, times, amounts, paths, URLs, identifiers, quoted strings, names. Pure.

Each has one form however it is written, so that sets of them can be compared. Two questions are asked of a rewording:
what is `lost`, and what is `invented`. Both are lenient about the form of a word, and neither lets one thing be
exchanged for another unseen.

Sources: docs/decisions/029-gates.md; precision and recall are measured in tests/host/curation/test_specifics.py.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from honeybadger_host.curation.ordinary import begins_a_sentence, is_ordinary_noun, language_of, stem, word_set
from honeybadger_host.curation.ordinary import is_function_word as says_nothing
from honeybadger_host.curation.quantities import PATTERNS, Read
from honeybadger_host.curation.quantities import WORDS as QUANTITY_WORDS
from honeybadger_host.text.neutralise import neutralise

_QUOTED: Final = re.compile(
    r'"([^"\n]{2,200})"|[“„”]([^“”\n]{2,200})[“”]|«\s?([^«»\n]{2,200}?)\s?»|»([^«»\n]{2,200})«|‘([^‘’\n]{2,200})’(?!\w)'
    r"|(?<![\w`])`([^`\n]{1,200})`|(?<!\w)'([^'\n]{2,80})'(?!\w)|[「『]([^「」『』\n]{1,200})[」』]|《([^《》\n]{1,200})》"
)
_LETTER: Final = r"[^\W\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
"""Of a script that writes words apart."""
_INNER: Final = r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
"""Of an identifier."""
_EXACT: Final = "|".join(
    (
        r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)[^\s<>\"'`]+",  # URL
        r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # mail address
        r"(?<![\w/.~])(?:~|\.\.?)?(?:/[\w.@%+~*-]+)+/?|(?<!\w)[a-z]:\\[^\s\"'<>|]+",  # paths
        r"(?<![\w/])[\w@.-]+(?:/[\w@.*-]+)*/[\w@*-]*\.[a-z]\w{0,7}\b|(?<![\w/])[\w@.-]+(?:/[\w@.-]+){2,}/?",
        r"(?<![\w.])\.[a-z][\w-]+(?:\.\w+)*",
        r"(?<![\w.,])(?!\d\d?\.\d\d?\.\d{4}\b)\d+\.\d+\.\d+(?:[-+.]?[\w.]*\w)?(?<!\.)(?!\w)",  # version
    )
)
_IDENTIFIER: Final = "|".join(
    (
        r"(?<!\w)[@\#][\w-]*\w",  # handle
        rf"(?<!{_INNER})(?=(?:{_INNER}|[.:-])*[\d_])(?=(?:{_INNER}|[.:-])*{_LETTER}){_INNER}+(?:[.:-]{_INNER}+)*(?!{_INNER})",
        rf"(?<![\w.]){_INNER}+(?:-{_INNER}+)*(?:\.(?={_INNER}{{2}})(?:{_INNER}|-)+)+",
        rf"{_LETTER}+(?:\+\+|\#)(?!\w)|(?<!\w)--?{_LETTER}[\w-]+",
        r"[\u30a1-\u30fa\u30fc]{2,}",  # a name in katakana
    )
)
_WORD: Final = rf"{_LETTER}+(?:['’]{_LETTER}+)*"
_AROUND: Final = re.compile("^(?:[jldcnmst]|qu)['’](?=[a-zà-ÿ])|['’]s?$", re.IGNORECASE)
"""`Anna's`, `J'ai`; not `L'Oréal`."""
_SENTENCE_ENDS: Final = ".!?:…;。！？•\n"
_SKIPPED: Final = " \t\"'“„”‘’«»([*_-–—>`#"
_TITLES: Final = word_set("titles")
_HAS_INNER_CAPITAL: Final = re.compile(rf"{_LETTER}*[a-zß-ÿ]{_LETTER}*[A-Z]")
_LETTERS: Final = re.compile(rf"{_LETTER}{{2,}}")
_CHUNK: Final = re.compile(r"\S+")
_LONGEST: Final = 400
"""Characters of one specific; the rest of a longer one is a further specific."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, where it stands, as written and without capitals and endings."""

    start: int
    end: int
    written: str
    bare: str


@dataclass(frozen=True, slots=True)
class Said:
    """What a text says.

    Args:
        certain: normal form -> as written, in order.
        forms: all that counts as said, beside the words.
        words: casefolded, with the stems of ordinary ones.
        prose: casefolded, white space as one blank, without numbers, paths and the like.
        text: all of it, casefolded.
    """

    certain: Mapping[str, str]
    forms: frozenset[str]
    words: frozenset[str]
    prose: str
    text: str

    def says(self, specific: str) -> bool:
        """Return whether a specific, in its normal form, is said in some way."""
        if specific in self.forms:
            return True
        if specific.startswith('"'):
            return specific[1:-1] in self.text
        return specific.islower() and specific[0].isalpha() and self.has_word(specific)

    def has_word(self, word: str) -> bool:
        """Return whether a word, or a form of it, is said; also a first and last name."""
        if " " in word:
            return word in self.prose
        return not self.words.isdisjoint((word, stem(word), stem(word, is_german=True)))


def specifics(text: str) -> frozenset[str]:
    """Return the specifics of a text in their normal forms."""
    return frozenset(said(text).certain)


def lost(sources: Iterable[str], result: str) -> list[str]:
    """Return the specifics of sources that a result does not say, as they are written there."""
    told = said(result)
    missing = {form: written for source in sources for form, written in said(source).certain.items()}
    return [written for form, written in missing.items() if not told.says(form)]


def invented(result: str, sources: Iterable[str]) -> list[str]:
    """Return the specifics of a result that none of its sources says, as they are written there."""
    told = [said(source) for source in sources]
    return [written for form, written in said(result).certain.items() if not any(source.says(form) for source in told)]


@lru_cache(maxsize=4096)
def said(text: str) -> Said:
    text = visible(text)
    certain: dict[str, str] = {}
    forms: set[str] = set()
    words: list[_Token] = []
    told = list(text)
    for start, end, written, read in _tokens(text):
        if read is None:
            words.append(_Token(start, end, written, _bare(written)))
            continue
        told[start:end] = " " * (end - start)  # a name in a path does not say the name
        for form in read[0]:
            certain.setdefault(form, written)
        forms.update(*read)
    certain |= {form: written for form, written in _names(text, words) if form not in certain}
    for match in _QUOTED.finditer(text):
        quoted = next(each for each in match.groups() if each is not None)
        certain.setdefault(f'"{_folded(quoted)}"', match[0])
    forms.update(certain)
    folded = _folded("".join(told))
    is_german = language_of([word.bare for word in words]) == "german"
    known = {*_LETTERS.findall(folded), *(word.bare for word in words)}
    for word in words:
        known |= {f"{word.bare}s", word.bare.removesuffix("s")}
        if is_german or word.written.islower():  # the stem of a name is another name: Daniele, Daniel
            known |= {stem(word.bare), stem(word.bare, is_german=True)}
    return Said(certain, frozenset(forms), frozenset(known), folded, _folded(text))


@cache
def _patterns() -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], Read | None]]]:
    """Return what specifics look like, and what reads each; compiled when it is needed first: 0.15 s."""
    table = [(_EXACT, _as_written), *PATTERNS, (_IDENTIFIER, _as_written), (_WORD, lambda found: None)]
    return [(re.compile(pattern, re.IGNORECASE), read) for pattern, read in table]


def _as_written(found: re.Match[str]) -> Read:
    return (found[0].strip().rstrip(".,;:!?)]}"),), ()


def _tokens(text: str) -> Iterator[tuple[int, int, str, Read | None]]:
    """Yield start, end, what is written there, and what that says; None: it is a word."""
    at = 0
    while (chunk := _CHUNK.search(text, at)) is not None:
        at, end = chunk.span()
        word = chunk[0].rstrip(".,;:!?)")
        if word.isalpha() and word.isascii() and word.casefold() not in QUANTITY_WORDS:
            yield at, at + len(word), word, None
            at = end
            continue
        while at < end:  # a date goes on behind a blank, and no part of a long text is looked at again and again
            most = min(at + _LONGEST, len(text))
            found = ((match, read) for pattern, read in _patterns() if (match := pattern.match(text, at, most)))
            match, read = next(found, (None, None))
            if match is None or read is None:
                at += 1
                continue
            at = match.end()
            yield match.start(), at, match[0].strip().rstrip(".,;:!?)]}"), read(match)


def _names(text: str, words: list[_Token]) -> Iterator[tuple[str, str]]:
    """Yield the names in a text: normal form, as written; also first and last name together."""
    language = language_of([word.bare for word in words])
    before: _Token | None = None  # when it begins with a capital
    named = ""
    for word in words:
        if _HAS_INNER_CAPITAL.match(word.written):
            yield word.bare, word.written
        follows = before is not None and not text[before.end : word.start].strip(" .")
        titled = follows and before is not None and (before.bare in _TITLES or named != "")
        if not word.written[0].isupper() or (len(word.bare) == 1 and not titled):
            before, named = None, ""
            continue
        is_name = _is_name(text, word, language, titled=titled)
        if is_name:
            yield word.bare, word.written
            if follows and named:
                yield f"{named} {word.bare}", f"{named.title()} {word.written}"
        before, named = word, word.bare if is_name else ""


def _is_name(text: str, word: _Token, language: str, *, titled: bool) -> bool:
    written, bare = word.written, word.bare
    if says_nothing(bare, language) and not written[:2].isupper():
        return False
    if written.isupper() and len(written) > 1:
        return True
    if titled or bare in _TITLES:
        return bare not in _TITLES
    if _is_first(text, word.start):
        return not begins_a_sentence(bare, language)
    return not (language == "german" and is_ordinary_noun(bare))


def _is_first(text: str, start: int) -> bool:
    """Return whether a sentence, a line or an item of a list begins here."""
    before = text[max(0, start - 40) : start].rstrip(_SKIPPED)
    return not before or before[-1] in _SENTENCE_ENDS


def visible(text: str) -> str:
    """Return a text with visible characters only and the digits of every script, full width too, as ASCII."""
    text = unicodedata.normalize("NFC", neutralise(text).text)
    if text.isascii():
        return text
    return "".join(
        str(unicodedata.decimal(letter))
        if letter.isdecimal()
        else unicodedata.normalize("NFKC", letter)
        if "\uff01" <= letter <= "\uff5e"
        else letter
        for letter in text
    )


def _bare(word: str) -> str:
    """Return a word casefolded, without a genitive's end or an article's rest."""
    return _AROUND.sub("", word).casefold()


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
