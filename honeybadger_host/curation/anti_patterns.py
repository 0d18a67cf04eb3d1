"""Anti-patterns: corrections that say what to do instead become entries, without a model. Pure (RB13).

`Don't X for Y — instead Z`, in `anti-patterns/<field>`, in the words of the person who said it. A correction that is
less clear is left to a model, or to nobody.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

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
_AT_END: Final = " ,–—-"
_NEAR: Final = range(-1, 3)
"""Turns around the one that feedback concerns in which a person may have said it: the answer to it comes next."""
_LEAST_SHARED: Final = 0.5
"""Of the content words of feedback, how many such a turn must have."""

_LEAD: Final = (
    r"(?:(?:no|nope|wrong|again|please|ok|okay|well|hey|so|and|next time|from now on|nein|falsch|bitte|also|und)\b"
    r"[,.!:;\s–—-]+)*(?:(?:when|if|for|in|with|wenn|bei|für)\b[^,.;!?\n]{2,80},\s+)?(?:please\s+|bitte\s+)?"
)
"""What may stand before an order."""
_VERBS: Final = f"(?:{word_patterns('order_verbs')})"
_NOT: Final = (
    r"(?:do\s+not|don['’]?t|never|stop|avoid|you\s+(?:should|must)\s*(?:not|n['’]t)|mustn['’]t)\s"
    r"(?!you\b|we\b|i\b|(?:worry|mind|bother|hesitate|forget|know|think|see|have|want|like)\b)"
)
_ABBREVIATED: Final = "|".join(
    rf"(?<=\b{word})" for word in ("Dr", "Mr", "Mrs", "Ms", "Prof", "St", "Nr", "No", "vs", "e.g", "i.e", "z.B", "bzw")
)
_REST: Final = rf"(?:[^.;!?\n]|\.(?=[^\s.])|(?:{_ABBREVIATED})\.)"
"""A character that does not end a sentence."""
_GERMAN_VERBS: Final = f"(?:{word_patterns('german_order_verbs')})"
_PATTERNS: Final = tuple(
    re.compile(f"(?P<lead>{_LEAD})(?:{pattern})", re.IGNORECASE)
    for pattern in (
        (  # Don't X, use Z. / Don't X. Instead Z. / Don't X: Z instead.
            rf"(?P<avoid>{_NOT}{_REST}{{2,200}}?)(?:\s*[,;:.!]|\s+[–—-]+|\s+but)\s+(?:but\s+|and\s+)?"
            rf"(?:instead[,:]?\s+(?P<do>{_REST}{{2,200}})|(?P<do2>{_REST}{{2,200}}?)\s+instead\b"
            rf"|(?:please\s+|just\s+|always\s+|rather\s+)?(?P<do3>{_VERBS}\b(?!\s+not\b){_REST}{{1,200}}))"
        ),
        rf"(?P<whole>{_NOT}{_REST}{{2,150}}?\swithout\s{_REST}{{3,150}})",  # Don't X without Y.
        # Use Z instead of X. / Use Z, not X.
        rf"(?P<whole>{_VERBS}\s{_REST}{{1,150}}?(?:\s+instead\s+of\s|\s+rather\s+than\s|,\s+not\s){_REST}{{2,150}})",
        (  # Nimm nicht X, sondern Z.
            rf"(?P<whole>{_GERMAN_VERBS}(?:\s+(?:bitte|dafür|hier))?\s+(?:nicht|nie|niemals|kein\w*)\s{_REST}{{2,150}}?"
            rf"(?:[,–—-]+\s*(?:sondern|stattdessen|lieber|besser)\s){_REST}{{2,150}})"
        ),
        # Nimm Z statt X. / Statt X lieber Z.
        rf"(?P<whole>{_GERMAN_VERBS}\s{_REST}{{1,150}}?\s(?:statt|anstatt|anstelle)\s{_REST}{{2,150}})",
        rf"(?P<whole>(?:statt|anstatt|anstelle)\s{_REST}{{2,150}}?\s(?:lieber|besser|bitte)\s{_REST}{{2,150}})",
    )
)
_CONDITION: Final = re.compile(
    r"\b(?:when|if|for|in|with|wenn|bei|für)\b[^,.;!?\n]{2,80}(?=,\s+(?:please\s+|bitte\s+)?$)", re.IGNORECASE
)
_BEGINS_WITH_VERB: Final = re.compile(rf"{_VERBS}\b", re.IGNORECASE)
_BEGINS: Final = re.compile(r"(?:^|(?<=[.!?;\n])\s+|(?<=\n))(?=\S)")
"""Where a sentence begins."""
_FIELDS: Final = word_forms("fields")
_WORD: Final = re.compile(r"[^\W_][\w-]*")


class _Clear(NamedTuple):
    """A clear correction: byte for byte, and as an entry says it."""

    quote: str
    result: str


def anti_patterns(feedback: Iterable[Feedback], turns: Mapping[tuple[str, int], Turn]) -> list[Operation]:
    """Return operations that add an entry for each clear correction, in the order in which they were said first.

    Evidence is a turn of the conversation where the person said it there, else the feedback itself: for that, what is
    known to the gates needs `feedback_turns`. Whether a person said it is for the gates to see.

    Args:
        turns: (session, number) -> turn; those around the corrected ones at least.
    """
    firsts: dict[str, tuple[str, str]] = {}
    evidence: defaultdict[str, list[Evidence]] = defaultdict(list)
    about: defaultdict[str, list[str]] = defaultdict(list)
    for one in feedback:
        if one.kind != "correction":
            continue
        for clear, session, turn in _said(one, turns):
            key = folded(clear.result)
            category = f"{CATEGORY}/{_field(clear.result, turns.get((one.session, one.turn or 0)))}"
            firsts.setdefault(key, (clear.result, category))
            said = Evidence(session=session, turn=turn.number, quote=clear.quote)
            if said not in evidence[key]:
                evidence[key].append(said)
                about[key].append(f"{one.session}#{one.turn}" if one.turn else one.session)
    return [
        Operation(
            n=1,
            op="add",
            result=result,
            category=category,
            tags=(TAG,),
            evidence=tuple(evidence[key]),
            why=f"a correction of {', '.join(dict.fromkeys(about[key]))} says what to do instead",
        )
        for key, (result, category) in firsts.items()
    ]


def feedback_turns(feedback: Iterable[Feedback]) -> dict[tuple[str, int], Turn]:
    """Return feedback as turns that evidence names, for what is known to the gates."""
    return {(FEEDBACK_SESSION, turn.number): turn for turn in map(as_turn, feedback)}


def _said(one: Feedback, turns: Mapping[tuple[str, int], Turn]) -> Iterator[tuple[_Clear, str, Turn]]:
    """Yield what a piece of feedback clearly asks for, once, with the turn that says it."""
    words = content_words(one.content)
    for near in _NEAR if one.turn else ():
        turn = turns.get((one.session, (one.turn or 0) + near))
        if turn is None or turn.role != "user" or not words:
            continue
        for clear in clear_corrections(turn.content[:_MOST_READ]):
            if len(words & content_words(clear.quote)) >= _LEAST_SHARED * len(words):
                yield clear, one.session, turn
                return
    own = as_turn(one)
    for clear in clear_corrections(one.content):
        yield clear, FEEDBACK_SESSION, own


def clear_corrections(text: str) -> list[_Clear]:
    """Return the orders in a text that say what not to do and what to do instead."""
    found: list[_Clear] = []
    end = 0
    for begin in _BEGINS.finditer(text):
        start = begin.end()
        if start < end:
            continue
        for pattern in _PATTERNS:
            match = pattern.match(text, start)
            if match is None or len(match[0]) > _LONGEST or text[match.end() : match.end() + 1] == "?":
                continue
            case = _CONDITION.search(match["lead"])
            quote = match[0][len(match["lead"]) if case is None else case.start() :]
            found.append(_Clear(quote.rstrip(_AT_END), _result(match, case)))
            end = match.end()
            break
    return found


def _result(match: re.Match[str], case: re.Match[str] | None) -> str:
    """Return a correction as an entry says it: on one line, behind the case it is for."""
    parts = match.groupdict()
    said = parts.get("whole")
    if said is None:
        instead = next(parts[name] for name in ("do", "do2", "do3") if parts[name])
        if _BEGINS_WITH_VERB.match(instead):
            instead = f"{instead[0].lower()}{instead[1:]}"
        said = f"{parts['avoid']} — instead {instead}"
    said = " ".join(said.split()).rstrip(_AT_END)
    if case is not None:
        said = f"{case[0]}, {said[0].lower()}{said[1:]}"
    return said[:1].upper() + said[1:]


def _field(text: str, about: Turn | None) -> str:
    """Return what a correction is about, as the last part of a category."""
    words = [_FIELDS[word] for word in _WORD.findall(text.casefold()) if word in _FIELDS]
    if words:
        return max(dict.fromkeys(_FIELDS.values()), key=words.count)  # of as many the first
    tools: Sequence[str] = () if about is None else about.tools_used
    return "tools" if any(tool.casefold() in text.casefold() for tool in tools) else "general"
