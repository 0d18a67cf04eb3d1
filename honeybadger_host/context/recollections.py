"""The recalled lines of a context, and which of them fit (RB2, RB11). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from honeybadger_agent.quoting import quoted
from honeybadger_host.search.lookups import Found, name_of
from honeybadger_host.text.neutralise import estimate_tokens, neutralise, one_line

if TYPE_CHECKING:
    from honeybadger_host.search.ranking import Hit

State: TypeAlias = Literal["new", "in_view", "newest"]
ENTRIES = "Recalled from long-term memory (relevant to this message):\n"
SAID = "Recalled from long-term memory, said or noted before (relevant to this message):\n"
IN_VIEW = "Recalled earlier in this conversation:\n"
NEWEST = "Recalled from long-term memory (the newest, nothing matches this message):\n"
_HEADINGS = (ENTRIES, SAID, IN_VIEW, NEWEST)
SHORTENED = " [... shortened]"
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n")
_IN_NAMES = {ord(mark): " " for mark in "[]():"}


@dataclass(frozen=True)
class Recollection:
    """An entry, a note, a paragraph of HISTORY.md or a turn in a context.

    Args:
        found: as stored; a text that is long and not an entry is only its beginning.
        turn: number of the turn it was recalled for.
        answered: id of the matching turn that answers this one, if this is shown as its question; else empty.
        shown_as: the line of a replayed turn in the conversation; None: it is not replayed.
        hit: its hit in the search for this message; None when it did not match.
    """

    found: Found
    state: State
    turn: int
    hit: Hit | None = None
    answered: str = ""
    shown_as: str | None = None

    @property
    def id(self) -> str:
        """As `get_memory` takes it."""
        return name_of(self.found)

    @property
    def is_entry(self) -> bool:
        return self.found.kind == "entry"

    @property
    def content(self) -> str:
        return self.found.text if self.is_entry else self.found.text.removeprefix("- ")

    @property
    def about(self) -> str:
        """The text in brackets: the category of an entry, else date and speaker."""
        found = self.found
        if self.is_entry:
            return found.category or "general"
        day = "" if found.at is None else datetime.fromtimestamp(found.at, UTC).date().isoformat()
        speaker = " ".join(one_line(found.author).text.translate(_IN_NAMES).split())
        return ", ".join(part for part in (day, speaker) if part) or found.kind

    @cached_property
    def line(self) -> str:
        return f"- [{self.id}] ({self.about}): {quoted(neutralise(self.content).text.strip())}\n"

    @property
    def heading(self) -> str:
        new = ENTRIES if self.is_entry else SAID
        return {"new": new, "in_view": IN_VIEW, "newest": NEWEST}[self.state]

    def is_in(self, text: str) -> bool:
        """Return whether a prompt already has it: as a replayed turn, or as a note with all its sentences."""
        match self.found.kind:
            case "entry":
                return False
            case "turn":
                return self.shown_as is not None and self.shown_as in text
            case _:
                sentences = (one.strip("-*> \t") for one in _SENTENCE_END.split(neutralise(self.content).text))
                return all(sentence in text for sentence in sentences)


def shortened(recollection: Recollection, budget_tokens: int) -> Recollection:
    """Return a recollection with at most a fourth of a budget; an entry stays whole, and 0 means no limit."""
    content, most = recollection.content, budget_tokens // 4
    if recollection.is_entry or not most or estimate_tokens(content) <= most:
        return recollection
    characters = most * 4 if content.isascii() else most
    text = recollection.found.text[:characters].rstrip() + SHORTENED
    return replace(recollection, found=recollection.found._replace(text=text))


class Fitted(NamedTuple):
    """The text of the recollections that fit a budget, with headings.

    Args:
        tokens: estimate for the text, or a little more: each line is rounded up.
        kept, left_out: the recollections that fit, and the others.
    """

    text: str
    tokens: int
    kept: Sequence[Recollection]
    left_out: Sequence[Recollection]


def fit(recollections: Sequence[Recollection], room_tokens: int) -> Fitted:
    """Return the text of the recollections that fit, of which the most important come first; none is cut."""
    kept: list[Recollection] = []
    left_out: list[Recollection] = []
    lines: dict[str, list[str]] = {}
    used = 0
    for recollection in recollections:
        line, heading = recollection.line, recollection.heading
        cost = estimate_tokens(line) + 1  # one for rounding
        if heading not in lines:
            cost += estimate_tokens(heading) + 2
        if used + cost > room_tokens:
            left_out.append(recollection)
            continue
        used += cost
        lines.setdefault(heading, []).append(line)
        kept.append(recollection)
    blocks = [heading + "".join(lines[heading]) for heading in _HEADINGS if heading in lines]
    return Fitted("\n".join(blocks), used, kept, left_out)
