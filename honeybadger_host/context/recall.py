"""Long-term entries in a context (RB2, RB11): found by the message, kept while its turn is shown, cut to a budget.

An entry recalled for an earlier message stays in the context as long as that message. Once the message is out of the
context, the entry can be recalled again: a model is never assumed to know what it cannot see.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from zlib import crc32

import structlog

from honeybadger_agent.quoting import quoted
from honeybadger_host.domain import Injection, Turn
from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.budget import format_history
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.search.documents import Kind
from honeybadger_host.search.index import Index
from honeybadger_host.search.lookups import Found
from honeybadger_host.search.shown import earned
from honeybadger_host.settings import Recall
from honeybadger_host.text.neutralise import estimate_tokens, neutralise

if TYPE_CHECKING:
    from honeybadger_host.search.corpus import Corpus
    from honeybadger_host.search.scoring import Hit

log = structlog.get_logger()

_MOST_RECALLED: Final = 8
_NEAR_MISSES: Final = 5
_NEWEST: Final = 5
"""Entries shown at the beginning of a session when nothing matches."""
_ENTRIES: Final[tuple[Kind, ...]] = ("entry",)
State: TypeAlias = Literal["new", "in_view", "newest"]
_HEADINGS: Final[Mapping[State, str]] = {
    "new": "Recalled from long-term memory (relevant to this message):",
    "in_view": "Recalled earlier in this conversation:",
    "newest": "Recalled from long-term memory (the newest, nothing matches this message):",
}


@dataclass(frozen=True, slots=True)
class RecalledEntries:
    """An entry in a context.

    Args:
        turn: number of the turn it was recalled for.
        hit: its hit in the search for this message; None when it did not match.
        marks: see `entry.marks_of`.
    """

    id: str
    category: str
    content: str
    state: State
    turn: int
    hit: Hit | None = None
    marks: Mapping[str, Any] = field(default_factory=dict)

    @property
    def origin(self) -> dict[str, Any]:
        """The members that say where it comes from."""
        return {name: value for name, value in self.marks.items() if name.startswith("origin")}

    @property
    def checksum(self) -> int:
        """What tells it from another version of the entry."""
        return crc32(f"{self.category}\0{self.content}".encode("utf-8", "surrogatepass"))

    @property
    def line(self) -> str:
        content = quoted(neutralise(self.content).text.strip())
        return f"- [{self.id}] ({self.category or 'general'}): {content}\n"


class Fitted(NamedTuple):
    """The text of the entries that fit a budget, with headings, and those that did not."""

    text: str
    left_out: Sequence[RecalledEntries]


def fit(recollections: Sequence[RecalledEntries], room_tokens: int | None) -> Fitted:
    """Return the text of the first recollections that fit; an entry is left out, never cut.

    Args:
        recollections: new ones first, each kind best first.
        room_tokens: estimate for the text; None means no limit.
    """
    kept: list[RecalledEntries] = []
    left_out: list[RecalledEntries] = []
    headed: set[State] = set()
    used = 0
    for recollection in recollections:
        cost = estimate_tokens(recollection.line) + 1  # one for rounding
        if recollection.state not in headed:
            cost += estimate_tokens(_HEADINGS[recollection.state]) + 2
        if room_tokens is not None and used + cost > room_tokens:
            left_out.append(recollection)
            continue
        used += cost
        headed.add(recollection.state)
        kept.append(recollection)
    return Fitted(_render(kept), left_out)


def _render(recollections: Sequence[RecalledEntries]) -> str:
    blocks: list[str] = []
    for state, heading in _HEADINGS.items():
        lines = [recollection.line for recollection in recollections if recollection.state == state]
        if lines:
            blocks.append(heading + "\n" + "".join(lines))
    return "\n".join(blocks)


def in_view(ledger: Mapping[str, int], *, oldest: int, current: int) -> dict[str, int]:
    """Return the entries of a ledger that were recalled for an earlier message that is still shown.

    Args:
        ledger: entry id -> number of the turn it was recalled for.
        oldest: number of the oldest turn shown.
        current: number of this message's turn, recorded or not, so that a repeated request gets the same answer.
    """
    return {entry: turn for entry, turn in ledger.items() if oldest <= turn < current}


@dataclass(frozen=True, slots=True)
class Recalled:
    """The entries recalled for one message.

    Args:
        recollections: new ones first, best first; then those of earlier messages, the latest first.
        why_none: why there are none.
        near_misses: the best of the hits that were not good enough, with the reason.
        injection: to be noted in the ledger once a model has seen them.
    """

    recollections: Sequence[RecalledEntries] = ()
    why_none: str | None = None
    near_misses: Sequence[tuple[Hit, str]] = ()
    injection: Injection | None = None

    def considered(self, missing: Collection[str]) -> list[dict[str, Any]]:
        """Return a row for every entry that was considered, as `wire.Recalled`.

        Args:
            missing: ids of those that did not fit into the context.
        """
        rows: list[dict[str, Any]] = []
        for one in self.recollections:
            row: dict[str, Any] = {"id": one.id, "state": one.state, **one.origin}
            if one.hit is not None:
                row |= earned(one.hit)
            row["why"] = _WHY[one.state] if one.state != "in_view" else f"recalled for turn {one.turn}, still shown"
            if one.id in missing:
                row |= {"state": "near_miss", "why": "no room in recall.budget_tokens or context.budget_tokens"}
            rows.append(row)
        return rows + [
            {"id": hit.key, "state": "near_miss", **earned(hit), "why": why} for hit, why in self.near_misses
        ]


_WHY: Final[Mapping[State, str]] = {
    "new": "it matches the message",
    "newest": "nothing matches, and the session begins: the newest entries",
}


@dataclass(frozen=True, slots=True)
class ContextRecall:
    """Recalls entries for the contexts of all groups.

    Args:
        history_budget_tokens: decides which turns are still shown.
    """

    index: Index
    ledger: InjectionLedger
    settings: Recall
    history_budget_tokens: int

    def recall(self, group: str, session: str, message: str | None, turns: Sequence[Turn], now: datetime) -> Recalled:
        """Return the entries to recall for this message.

        Args:
            message: what the user says now; None means the newest turn, if it is the user's.
            turns: of the session's window, oldest first.
        """
        if not self.settings.enabled:
            return Recalled(why_none="recall.enabled is off")
        last = turns[-1] if turns else None
        current = (last.number if last else 0) + 1
        if message is None and last is not None and last.role == "user":
            message, current = last.content, last.number
        if message is None:
            return Recalled(why_none="there is no message to recall for")
        shown = format_history(turns, self.history_budget_tokens).turns
        oldest = shown[0].number if shown else current
        try:
            is_answered = any(turn.role == "assistant" for turn in turns)
            earlier = in_view(self.ledger.recalled(group, session), oldest=oldest, current=current)
            recalled = self._choose(group, message, earlier, current, now, is_first=not is_answered)
        except WorldFailed as error:
            log.error("recall.failed", group=group, error=str(error))
            return Recalled(why_none=f"the search index cannot be used: {error}")
        new = tuple(one.id for one in recalled.recollections if one.state != "in_view")
        return replace(recalled, injection=Injection(group, session, new, current, oldest)) if new else recalled

    def _choose(
        self, group: str, message: str, earlier: Mapping[str, int], current: int, now: datetime, *, is_first: bool
    ) -> Recalled:
        if not self.index.has_entries(group):
            return Recalled(why_none="there are no entries yet")
        limit = _MOST_RECALLED + len(earlier) + _NEAR_MISSES
        vector = self.index.vector_of(message)

        def ask(corpus: Corpus) -> tuple[list[Hit], list[int], list[int]]:
            from honeybadger_host.search.ranking import Filters, newest, search

            expired = self.index.lookups.expired(group, now.timestamp())
            # what shares no word would fail `objection` and only take up room
            entries = Filters(kinds=_ENTRIES, hidden=expired, needs_word=True)
            hits = search(corpus, message, now=now, limit=limit, filters=entries, vector=vector)
            return hits, newest(corpus, limit=_NEWEST, filters=entries) if is_first else [], expired

        (hits, fallback, expired), _ = self.index.search(group, ask)
        from honeybadger_host.search.ranking import objection

        good = {hit.key: hit for hit in hits if objection(hit) is None}
        new = [hit for hit in good.values() if hit.key not in earlier][:_MOST_RECALLED]
        numbers = {key: one for key, one in self.index.lookups.entries(group, earlier).items() if one not in expired}
        found = self.index.lookups.show([*(hit.number for hit in new), *numbers.values(), *fallback])
        recollections = [_recollection(found[hit.number], "new", current, hit) for hit in new if hit.number in found]
        for key, turn in sorted(earlier.items(), key=lambda item: -item[1]):
            if key in numbers and numbers[key] in found:
                recollections.append(_recollection(found[numbers[key]], "in_view", turn, good.get(key)))
        if not recollections:
            recollections = [
                _recollection(found[number], "newest", current, None) for number in fallback if number in found
            ]
        missed = [
            (hit, objection(hit) or f"{_MOST_RECALLED} others match better")
            for hit in hits
            if hit not in new and hit.key not in earlier
        ]
        why_none = None if recollections else "nothing in long-term memory matches the message"
        return Recalled(recollections, why_none, missed[:_NEAR_MISSES])


def _recollection(found: Found, state: State, turn: int, hit: Hit | None) -> RecalledEntries:
    return RecalledEntries(found.key, found.category, found.text, state, turn, hit, found.marks)
