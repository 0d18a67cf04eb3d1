"""A history entry, a summary, and the facts of a text without a model: sentences, word for word, chosen by rules. Pure.

What a model would write may be wrong; these are only incomplete. All of them say that they are extracted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from honeybadger_host.curation.evidence import is_unsure
from honeybadger_host.curation.ordinary import language_of, word_patterns, word_set
from honeybadger_host.curation.specifics import said
from honeybadger_host.domain import Turn
from honeybadger_host.memory.labels import folded
from honeybadger_host.text.neutralise import one_line

MARK: Final = "(extracted)"
MAX_SUMMARY_WORDS: Final = 500
_MAX_HISTORY_LINES: Final = 12
_MAX_CHARACTERS: Final = 240
"""Of one sentence; the rest of a longer one is in its turn."""
_LEAST_SCORE: Final = 1.0
_SENTENCE_END: Final = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_OUT_OF_CONTEXT: Final = re.compile(r"```|:\s*$|^\s*[#|>]", re.MULTILINE)
"""Code, a heading, a table, a quotation, or what introduces the next line: what follows leans on that."""
_BULLET: Final = re.compile(r"^(?:[-*•]|\d{1,2}[.)])\s+")
_ENDS_NO_SENTENCE: Final = re.compile(
    rf"(?:\b(?:{'|'.join(map(re.escape, sorted(word_set('abbreviations') | word_set('titles'))))}|\w)|\b\d\d?)\.\s*$",
    re.IGNORECASE,
)
_LEANS: Final = word_set("leans") | word_set("somebody") | word_set("first_person")
_LEANS_FIRST: Final = word_set("leans_first")
_ARTICLES: Final = ("der", "die", "das")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_LEAST_WORDS: Final = 4
_LEAST_FACTS: Final = 2
_DECIDES: Final = re.compile(rf"\b(?:{word_patterns('decides')})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Sentence:
    turn: Turn
    text: str
    score: float

    @property
    def line(self) -> str:
        return f"[{self.turn.at:%Y-%m-%d %H:%M}] {one_line(self.turn.shown_name).text}: {self.text}"


def history_entry(turns: Sequence[Turn], session: str, is_person: Callable[[Turn], bool]) -> str:
    """Return the entry for HISTORY.md: a line for each sentence that is kept, with its time. One turn at least."""
    first, last = turns[0], turns[-1]
    head = f"[{last.at:%Y-%m-%d %H:%M}] {MARK} session {session}, turns {first.number}-{last.number}"
    best = _best(_sentences(turns, is_person))[:_MAX_HISTORY_LINES]
    return "\n".join((head, *_lines(best)))


def conversation_summary(
    turns: Sequence[Turn],
    is_person: Callable[[Turn], bool],
    *,
    earlier: str = "",
) -> str:
    """Return the summary of a session up to its last turn, at most 500 words.

    Args:
        earlier: the summary so far; what it says is kept first, a summary of ours loses its oldest lines.
    """
    old = [line for line in earlier.splitlines() if line.strip() and line.strip() != MARK]
    room = MAX_SUMMARY_WORDS - _words(MARK)
    chosen: list[_Sentence] = []
    known = {folded(line) for line in old}
    for sentence in _best(_sentences(turns, is_person)):
        words = _words(sentence.line)
        if words <= room - min(sum(map(_words, old)), room // 2) and folded(sentence.line) not in known:
            chosen.append(sentence)
            room -= words
    while old and sum(map(_words, old)) > room:
        old.pop(0)
    return "\n".join((MARK, *old, *_lines(chosen)))


def facts(text: str) -> list[str]:
    """Return the sentences of a text that say something without the others, word for word, each once.

    None where fewer than two do, where the text would lose its sense in pieces, and in languages other than English and
    German, whose pronouns the rules do not know.
    """
    words = [word.casefold() for word in _LETTERS.findall(text)]
    if _OUT_OF_CONTEXT.search(text) or language_of(words) not in ("english", "german"):
        return []
    found = list(dict.fromkeys(each for each in whole_sentences(text) if _stands_alone(each)))
    return found if len(found) >= _LEAST_FACTS else []


def whole_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text; `Mr. Glanz` and `am 7. Mai` are not cut."""
    for line in text.splitlines():
        begun = ""
        for piece in _SENTENCE_END.split(_BULLET.sub("", line.strip())):
            begun = f"{begun} {piece}" if begun else piece
            if not _ENDS_NO_SENTENCE.search(begun):
                yield begun
                begun = ""
        if begun:
            yield begun


def _stands_alone(sentence: str) -> bool:
    """Return whether a sentence names what it is about, and points at nothing outside it."""
    words = _LETTERS.findall(sentence)
    if len(words) < _LEAST_WORDS or len(sentence) > _MAX_CHARACTERS or is_unsure(sentence):
        return False
    first = words[0].casefold()
    is_article = first in _ARTICLES and not words[1].islower()  # `Das Haus kostet`, not `das kostet`
    if sentence[0].islower() or (first in _LEANS_FIRST and not is_article):
        return False
    names = any(any(letter.isalpha() for letter in form) for form in said(sentence).certain)
    return names and not _LEANS.intersection(word.casefold() for word in words)


def _sentences(turns: Iterable[Turn], is_person: Callable[[Turn], bool]) -> Iterator[_Sentence]:
    """Yield what is worth keeping, each sentence once."""
    seen: set[str] = set()
    for turn in turns:
        for text in whole_sentences(_CODE.sub("\n", turn.content)):
            line = one_line(text).text.strip()
            score = _score(line, is_person=is_person(turn))
            if score >= _LEAST_SCORE and folded(line) not in seen:
                seen.add(folded(line))
                yield _Sentence(turn, line if len(line) <= _MAX_CHARACTERS else f"{line[:_MAX_CHARACTERS]}…", score)


def _score(sentence: str, *, is_person: bool) -> float:
    """Return how much a sentence tells: specifics, a decision, and that a person says it."""
    if _words(sentence) < 3:
        return 0.0
    score = min(len(said(sentence).certain), 4) + 2.0 * bool(_DECIDES.search(sentence))
    if sentence.endswith(("?", "？")):
        score /= 2
    return score * (1.5 if is_person else 1.0)


def _best(sentences: Iterable[_Sentence]) -> list[_Sentence]:
    return sorted(sentences, key=lambda sentence: (-sentence.score, sentence.turn.number))


def _lines(sentences: Iterable[_Sentence]) -> list[str]:
    return [sentence.line for sentence in sorted(sentences, key=lambda sentence: sentence.turn.number)]


def _words(text: str) -> int:
    """Return the length in words; two Chinese or Japanese characters are one."""
    return len(text.split()) + len(_CJK.findall(text)) // 2
