"""Builds the text of a context from its parts, within a budget, with an explanation. Pure (HB5).

`context_parts` decides the content of a part and how it is cut. A blank part has no heading in the text, but keeps its
row in the explanation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from honeybadger_agent.wire import ContextSection, SectionState
from honeybadger_host.memory.budget import divide
from honeybadger_host.text.neutralise import estimate_tokens

NO_ROOM: Final = "the parts that are never cut leave no room in context.budget_tokens"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a context.

    Args:
        title: in the explanation, and above the text unless there is a `heading`.
        source: the file or folder it comes from.
        left_out, why: what is missing and why; for a part without text, why there is none.
        heading: replaces the title above the text; empty when the text has its own headings.
        weight: its share when not everything fits; unused shares go to the other parts.
        fit: tokens of text, at least 0 -> the part cut to fit; None: it is never cut.
        missing: ids of the entries that were left out.
    """

    title: str
    source: str
    text: str = ""
    state: SectionState = "absent"
    left_out: str | None = None
    why: str | None = None
    heading: str | None = None
    weight: float = 0.0
    fit: Callable[[int], Part] | None = field(default=None, compare=False)
    missing: Sequence[str] = ()

    @property
    def need(self) -> int:
        """Tokens of the whole part with its heading, rounded up."""
        return estimate_tokens(self.text) + self.overhead if self.text else 0

    @property
    def overhead(self) -> int:
        """Tokens of the heading and the line ends around the text, and of rounding them."""
        return estimate_tokens(self.above) + 3

    @property
    def above(self) -> str:
        """The line of its heading."""
        heading = self.title if self.heading is None else self.heading
        return f"{heading}\n" if heading else ""

    @property
    def block(self) -> str:
        """The part as it stands in a context; empty for a blank part."""
        text = self.text.strip("\n")
        return f"\n{self.above}{text}\n" if text.strip() else ""

    @property
    def row(self) -> ContextSection:
        """Its row in the explanation."""
        return ContextSection(
            title=self.title,
            source=self.source,
            state=self.state,
            tokens=estimate_tokens(self.block),
            left_out=self.left_out,
            why=self.why,
        )

    def fitted(self, share_tokens: int) -> Part:
        """Return the part cut to its share."""
        if self.fit is None or self.need <= share_tokens:
            return self
        return self.fit(max(0, share_tokens - self.overhead))


@dataclass(frozen=True, slots=True)
class Context:
    """A context, explained.

    Args:
        parts: as they stand in the text, in its order.
        tokens: estimate of system text and message together.
    """

    system: str
    message: str | None
    parts: Sequence[Part]
    sections: Sequence[ContextSection]
    tokens: int
    budget_tokens: int

    @property
    def is_over_budget(self) -> bool:
        return 0 < self.budget_tokens < self.tokens

    def part(self, title: str) -> Part:
        """Return the first part with this title."""
        return next(part for part in self.parts if part.title == title)


def build_context(group: str, parts: Sequence[Part], message: str | None, *, budget_tokens: int) -> Context:
    """Return the context; the same arguments give the same bytes.

    The message and the parts that are never cut are always whole. Of the rest each other part gets what it needs, or
    its share when they need too much.

    Args:
        parts: in the order of the text.
        message: what the user says now; None when nothing is asked yet.
        budget_tokens: for system text and message together, see `estimate_tokens`; 0 means no limit.
    Source: HB5, HB6, RB2.
    """
    head = f"Group: {group}\n"
    message_tokens = 0 if message is None else estimate_tokens(message)
    if budget_tokens:
        fixed = sum(part.need for part in parts if part.fit is None)
        room = budget_tokens - message_tokens - estimate_tokens(head) - fixed
        flexible = {str(place): part for place, part in enumerate(parts) if part.fit is not None}
        needs = {place: part.need for place, part in flexible.items()}
        shares = divide(room, needs, {place: part.weight for place, part in flexible.items()})
        parts = [part.fitted(shares.get(str(place), 0)) for place, part in enumerate(parts)]
    system = head + _joined(parts)
    rows = [ContextSection(title=head.strip(), source="request", state="whole", tokens=estimate_tokens(head))]
    rows += [part.row for part in parts]
    if message is not None:
        rows.append(ContextSection(title="message", source="request", state="whole", tokens=message_tokens))
    return Context(system, message, parts, rows, estimate_tokens(system) + message_tokens, budget_tokens)


def _joined(parts: Sequence[Part]) -> str:
    """Return the blocks in order; two parts under the same heading share it."""
    blocks: list[str] = []
    last_title = ""
    for part in parts:
        if block := part.block:
            blocks.append(block.removeprefix(f"\n{part.title}") if part.title == last_title else block)
            last_title = part.title
    return "".join(blocks)
