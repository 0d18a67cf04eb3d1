"""The long-term entries in a context: chosen for the message, kept while its turn is shown, cut to a budget.

Pure (RB2, RB11). An entry recalled for an earlier message stays in the context as long as that message. Once the
message is out of the context, the entry can be recalled again: a model is never assumed to know what it cannot see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from zlib import crc32

from honeybadger_agent.quoting import quoted
from honeybadger_host.text.neutralise import estimate_tokens, neutralise

if TYPE_CHECKING:
    from honeybadger_host.search.scoring import Hit

State: TypeAlias = Literal["new", "in_view", "newest"]

TITLE: Final = "Recalled from long-term memory (relevant to this message):"
_EARLIER: Final = "Recalled earlier in this conversation:"
_NEWEST: Final = "Recalled from long-term memory (the newest, nothing matches this message):"
_HEADINGS: Final[Mapping[State, str]] = {"new": TITLE, "in_view": _EARLIER, "newest": _NEWEST}


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


@dataclass(frozen=True, slots=True)
class Fitted:
    """The entries that fit a budget.

    Args:
        text: with the headings; empty when nothing fits.
        left_out: entries that did not fit.
    """

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
