"""Dream pass 2: preferences that people show in what they say. Code counts how often, not a model. Pure (RB10).

Irritated once, gently twice, in passing three times: so many turns of one person must be quoted. Quotes of an earlier
pass that were too few count again when a model finds the same preference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from honeybadger_host.curation.dream import checked, members_of, sections_text, turn_text
from honeybadger_host.curation.gates import Known
from honeybadger_host.curation.proposal import Evidence, FailedGate, Gates, Operation, Part, Proposal
from honeybadger_host.domain import Turn
from honeybadger_host.memory.labels import folded, is_below

CATEGORY: Final = "user-preferences/inferred"
TAG: Final = "inferred"
THRESHOLDS: Final[Mapping[str, int]] = {"strong": 1, "mild": 2, "casual": 3}
_STRENGTH: Final = "strength"
_MOST_TOKENS: Final = 12_000
"""Of the turns that one pass takes, oldest first; what is left is the next one's."""
_MOST_KNOWN: Final = 100
_MOST: Final = 200
_LONGEST: Final = 1000
"""Characters of a preference."""
_LEAD: Final = re.compile(
    r"(?:(?:the )?user )?((?:[^\W\d_]+ )?)(?:prefers?|likes?|wants?|would like|bevorzugt|mag|möchte|will)(?: to)? ",
    re.IGNORECASE,
)
"""What a model puts before a preference; that it is one is what quotes are counted for."""
_SENSITIVE: Final = re.compile(
    r"""\b(?:secur\w*|passw\w*|passphrase|credential\w*|secrets?|tokens?|api[ -]?keys?|log[ -]?ins?|2fa|mfa|ssh|sudo
    |root|encrypt\w*|certificate\w*|firewall|permission\w*|access|admin\w*|private|public\w*|deploy\w*|delet\w*
    |pay|pays|paid|paying|payment\w*|money|bank\w*|cards?|invoice\w*|budget\w*|pric\w+|buy\w*|bought|purchas\w*|orders?
    |spend\w*|invest\w*|transfer\w*|salar\w+|tax\w*|loan\w*|insur\w*|subscri\w+|donat\w*
    |passwort|passwörter|kennw\w+|geheim\w*|zugang\w*|berechtig\w*|sicherheit\w*|geld\w*|zahl\w+|konto|konten|bezahl\w*
    |überweis\w*|kauf\w*|rechnung\w*|preis\w*|bestell\w*|kredit\w*|steuer\w*|versicher\w*
    |eur|euros?|usd|dollars?|gbp|chf)\b|[€$£]""",
    re.IGNORECASE | re.VERBOSE,
)


class _Preference(Part):
    """A preference as a model answers it."""

    content: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]
    strength: Literal["strong", "mild", "casual"]
    requires_user_permission: bool = False
    evidence: Annotated[tuple[Evidence, ...], Field(strict=False, max_length=1000)] = ()


def taken(turns: Iterable[tuple[str, Turn]]) -> list[tuple[str, Turn]]:
    """Return the oldest of (session, turn), as many as a pass takes."""
    found: list[tuple[str, Turn]] = []
    room = _MOST_TOKENS
    for session, turn in sorted(turns, key=lambda each: (each[1].at, each[0], each[1].number)):
        room -= turn.line_tokens
        if found and room < 0:
            break
        found.append((session, turn))
    return found


def request_text(turns: Sequence[tuple[str, Turn]], known: Iterable[str], seen: Iterable[str]) -> str:
    """Return what a model is asked.

    Args:
        turns: (session, turn) of people.
        known: preferences that are known.
        seen: those that were not quoted often enough so far.
    """
    return sections_text(
        {
            "Known Already": [f"- {text}\n" for text in [*known][-_MOST_KNOWN:]],
            "Seen Before, Not Often Enough (use the same words if it shows again)": [f"- {text}\n" for text in seen],
            "What People Said": [turn_text((session, turn.number), turn) for session, turn in turns],
        }
    )


def known_preferences(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return the texts of (category, text) that are preferences."""
    return [text for category, text in texts if is_below(category, "user-preferences")]


def seen_before(earlier: Iterable[Proposal]) -> dict[str, Operation]:
    """Return the preferences that were refused because too few turns were quoted, by their text, folded."""
    found: dict[str, Operation] = {}
    for proposal in earlier:
        for each in proposal.operations if proposal.kind == "preferences" else ():
            if each.state == "refused" and each.result:
                found[folded(each.result)] = each
    return found


def parse_preferences(text: str, seen: Mapping[str, Operation]) -> list[Operation]:
    """Return the operations of a model's answer. Raises WrongAnswer.

    Args:
        seen: see `seen_before`; what was quoted then is quoted again.
    """
    return [_operation(row, n, seen) for n, row in enumerate(members_of(text, "preferences", _MOST), 1)]


def _operation(row: Any, n: int, seen: Mapping[str, Operation]) -> Operation:
    with checked(f"preference {n}"):
        said = _Preference.model_validate(row)
    evidence = [*said.evidence]
    if (before := seen.get(folded(said.content))) is not None:
        evidence += [each for each in before.evidence if each not in evidence]
    texts = (said.content, *(each.quote for each in evidence))
    asks = said.requires_user_permission or any(map(_SENSITIVE.search, texts))
    return Operation(
        n=n,
        op="add",
        result=said.content,
        category=CATEGORY,
        tags=(TAG,),
        metadata={"source": "inferred", _STRENGTH: said.strength}
        | ({"requires_user_permission": "true"} if asks else {}),
        evidence=tuple(evidence[:1000]),
        why=f"a {said.strength} preference",
    )


def bare(operation: Operation) -> Operation:
    """Return an operation as gates look at it: without `prefers`, which people do not say when they do."""
    result = operation.result or ""
    found = _LEAD.match(result)
    return operation.model_copy(update={"result": f"{found[1]}{result[found.end() :]}" if found else result})


def counted(operation: Operation, known: Known) -> Operation:
    """Return an operation that was checked: refused when too few turns of one person are quoted for its strength."""
    needed = THRESHOLDS[operation.metadata[_STRENGTH]]
    found = _turns_of_one(operation.evidence, known.turns, known.is_person)
    if found >= needed:
        return operation
    what = f"{found} of {needed} turns of one person: a {operation.metadata[_STRENGTH]} preference needs so many"
    failed = (*operation.gates.failed, FailedGate(gate="unquoted", what=what))
    gates = Gates(passed=tuple(each for each in operation.gates.passed if each != "unquoted"), failed=failed)
    return operation.model_copy(update={"gates": gates, "state": "refused"})


def _turns_of_one(
    evidence: Iterable[Evidence], turns: Mapping[tuple[str, int], Turn], is_person: Callable[[Turn], bool]
) -> int:
    """Return in how many different turns the person speaks who is quoted most."""
    speakers: Counter[str] = Counter()
    for session, number in {(each.session, each.turn) for each in evidence}:
        turn = turns.get((session, number))
        quotes = [each.quote for each in evidence if (each.session, each.turn) == (session, number)]
        if turn is not None and is_person(turn) and any(quote in turn.content for quote in quotes):
            speakers[turn.sender] += 1
    return max(speakers.values(), default=0)
