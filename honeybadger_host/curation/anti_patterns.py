"""Anti-patterns: corrections that say what to do instead become entries, without a model. Pure (RB13).

`Don't X for Y, use Z`, in `anti-patterns/<field>`, in the words of the person who said it. A correction that is less
clear is left to a model, or to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Final

from honeybadger_host.curation.extraction import whole_sentences
from honeybadger_host.curation.meaning import content_words
from honeybadger_host.curation.ordinary import word_forms, word_patterns
from honeybadger_host.curation.proposal import Evidence, Operation
from honeybadger_host.domain import Turn
from honeybadger_host.memory.feedback import FEEDBACK_SESSION, Feedback, as_turn
from honeybadger_host.memory.labels import folded

CATEGORY: Final = "anti-patterns"
TAG: Final = "anti-pattern"
_LONGEST: Final = 300
"""Characters of a clear correction."""
_MOST_READ: Final = 8_000
"""Characters of a turn that are looked at."""
NEAR: Final = range(-1, 3)
"""Turns around the one that feedback concerns in which a person may have said it: the answer to it comes next."""
_LEAST_SHARED: Final = 0.5
"""Of the content words of feedback, how many such a turn must have."""

_LEAD: Final = re.compile(
    r"^(?:(?:no|nope|wrong|again|please|ok|okay|well|hey|so|and|next time|from now on|nein|falsch|bitte|also|und)\b"
    r"[,.!:;\s–—-]+)*",
    re.IGNORECASE,
)
"""What may stand before an order and says nothing; a condition, as `when you write to Ann,`, belongs to it."""
_CONDITION: Final = r"(?:(?:when|if|for|in|with|wenn|bei|für)\b[^,]{2,80},\s+)?"
_NOT: Final = (
    r"(?:do\s+not|don['’]?t|never|stop|avoid|you\s+(?:should|must)\s*(?:not|n['’]t)|mustn['’]t)\s"
    r"(?!you\b|we\b|i\b|(?:worry|mind|bother|hesitate|forget|know|think|see|have|want|like)\b)"
)
_ORDER: Final = f"(?:{word_patterns('order_verbs')})"
_GERMAN_ORDER: Final = f"(?:{word_patterns('german_order_verbs')})"
_INSTEAD: Final = rf"(?:instead\b.{{3}}|[^,]{{2,200}}\sinstead\b|{_ORDER}\b(?!\s+not\b).{{2}})"
_CLEAR: Final = re.compile(
    _CONDITION
    + "(?:"
    + "|".join(
        (
            # Don't X, use Z. / Don't X. Instead Z. / Don't X: Z instead.
            rf"{_NOT}.{{2,200}}?(?:[,;:.!]|\s[–—-]|\sbut)\s+(?:please\s+|just\s+)?{_INSTEAD}",
            rf"{_NOT}.{{2,150}}\swithout\s.{{3}}",  # Don't X without Y.
            rf"{_ORDER}\s.{{1,150}}(?:\sinstead\s+of\s|\srather\s+than\s|,\snot\s).{{2}}",  # Use Z instead of X.
            # Nimm nicht X, sondern Z. / Nimm Z statt X. / Statt X lieber Z.
            rf"{_GERMAN_ORDER}\s.{{,40}}\b(?:nicht|nie|niemals|kein\w*)\s.{{2,150}}\b(?:sondern|stattdessen|lieber)\s.{{2}}",
            rf"{_GERMAN_ORDER}\s.{{1,150}}\s(?:statt|anstatt|anstelle)\s.{{2}}",
            r"(?:statt|anstatt|anstelle)\s.{2,150}\s(?:lieber|besser|bitte)\s.{2}",
        )
    )
    + ")",
    re.IGNORECASE,
)
_FIELDS: Final = word_forms("fields")
_WORD: Final = re.compile(r"[^\W_][\w-]*")


def anti_patterns(feedback: Iterable[Feedback], turns: Mapping[tuple[str, int], Turn]) -> list[Operation]:
    """Return operations that add an entry for each clear correction, in the order in which they were said first.

    Evidence is a turn of the conversation where the person said it there, else the feedback itself: for that, what is
    known to the gates needs `feedback_turns`. Whether a person said it is for the gates to see.

    Args:
        turns: (session, number) -> turn; those around the corrected ones at least.
    """
    found: dict[str, Operation] = {}
    for one in feedback:
        for quote, session, turn in _said(one, turns) if one.kind == "correction" else ():
            evidence = Evidence(session=session, turn=turn.number, quote=quote)
            result = f"{quote[0].upper()}{' '.join(quote[1:].split())}"
            known = found.setdefault(
                folded(quote),
                Operation(
                    n=1,
                    op="add",
                    result=result,
                    category=f"{CATEGORY}/{_field(quote)}",
                    tags=(TAG,),
                    why="a correction says what to do instead",
                ),
            )
            if evidence not in known.evidence:
                found[folded(quote)] = known.model_copy(update={"evidence": (*known.evidence, evidence)})
    return [*found.values()]


def feedback_turns(feedback: Iterable[Feedback]) -> dict[tuple[str, int], Turn]:
    """Return feedback as turns that evidence names, for what is known to the gates."""
    return {(FEEDBACK_SESSION, turn.number): turn for turn in map(as_turn, feedback)}


def _said(one: Feedback, turns: Mapping[tuple[str, int], Turn]) -> Iterator[tuple[str, str, Turn]]:
    """Yield what a piece of feedback clearly asks for, with the turn that says it."""
    words = content_words(one.content)
    places = [(one.session, (one.turn or 0) + near) for near in NEAR if one.turn and words]
    for turn in (turns[place] for place in places if place in turns and turns[place].role == "user"):
        for quote in clear_corrections(turn.content[:_MOST_READ]):
            if len(words & content_words(quote)) >= _LEAST_SHARED * len(words):
                yield quote, one.session, turn
                return
    for quote in clear_corrections(one.content):
        yield quote, FEEDBACK_SESSION, as_turn(one)


def clear_corrections(text: str) -> list[str]:
    """Return the orders in a text, byte for byte, that say what not to do and what to do instead."""
    found: list[str] = []
    sentences = [*whole_sentences(text)]
    for sentence, following in zip_longest(sentences, sentences[1:], fillvalue=""):
        for said in (sentence, f"{sentence} {following}"):
            quote = _LEAD.sub("", said).rstrip(" ,–—-.!")
            if len(quote) <= _LONGEST and "?" not in quote and _CLEAR.match(quote) and quote in text:
                found.append(quote)
                break
    return found


def _field(text: str) -> str:
    """Return what a correction is about, as the last part of a category."""
    words = [_FIELDS[word] for word in _WORD.findall(text.casefold()) if word in _FIELDS]
    return max(dict.fromkeys(_FIELDS.values()), key=words.count) if words else "general"
