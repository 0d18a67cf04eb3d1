"""Builds the text of a context from its parts, within a budget, with an explanation. Pure (HB5).

`parts` decides the content of a part and the way to cut it. A blank part has no heading in the text, but keeps its
row in the explanation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from honeybadger_agent.wire import SectionState
from honeybadger_host.context.recollections import Recollection
from honeybadger_host.memory.markdown.budget import divide
from honeybadger_host.text.neutralise import ascii_length, estimate_tokens, tokens_of

_FOR_MESSAGE = 16  # a 16th of the budget is reserved for the message, whatever its length
NO_ROOM = "the parts that are never cut leave no room in context.budget_tokens"


class Part(NamedTuple):
    """One part of a context.

    Args:
        title: its name in the explanation, and above the text unless there is a `heading`.
        source: the file or folder it comes from.
        left_out, why: the missing text and the reason; for a part without text, why there is none.
        heading: replaces the title above the text; empty when the text has its own headings.
        amount: how much there is, for a part that has no room.
        weight: its share when not everything fits; unused shares go to the other parts.
        most: tokens of text reserved for it when it changes with each message.
        tokens: the tokens of the text; None: they are estimated.
        fit: tokens of text, at least 1 -> the part cut to fit, without text if nothing fits; None: it is never cut.
        settle: (tokens of text, text of the other parts) -> the part without what the others say, cut to fit;
            None: it never repeats another part.
        missing: ids of recollections that are left out.
        recalled: the recollections in the text.
    """

    title: str
    source: str
    text: str = ""
    state: SectionState = "absent"
    left_out: str | None = None
    why: str | None = None
    heading: str | None = None
    amount: str = "the file"
    weight: float = 0.0
    most: int = sys.maxsize
    tokens: int | None = None
    fit: Callable[[int], Part] | None = None
    settle: Callable[[int, str], Part] | None = None
    missing: Sequence[str] = ()
    recalled: Sequence[Recollection] = ()

    @property
    def flexible_need(self) -> int:
        """Its tokens if it can be cut, else 0."""
        return 0 if self.fit is None else self.need

    @property
    def need(self) -> int:
        """Tokens of the whole part with its heading, rounded up."""
        return self.text_tokens + self.overhead if self.text else 0

    @property
    def text_tokens(self) -> int:
        return estimate_tokens(self.text) if self.tokens is None else self.tokens

    @property
    def overhead(self) -> int:
        """Estimated tokens of the heading, which is ASCII, and of the line ends around the text, rounded up."""
        return len(self.above) // 4 + 3

    @property
    def above(self) -> str:
        heading = self.title if self.heading is None else self.heading
        return f"{heading}\n" if heading else ""

    @property
    def is_blank(self) -> bool:
        return not self.text or self.text.isspace()

    def row(self) -> dict[str, Any]:
        """Return how the part is explained, as `wire.ContextSection`."""
        tokens = 0 if self.is_blank else self.text_tokens + self.overhead - 3
        about = {"left_out": self.left_out, "why": self.why}
        row = _row(self.title, self.source, self.state, tokens)
        return row | {name: text for name, text in about.items() if text is not None}

    def fitted(self, share_tokens: int) -> Part:
        """Return the part cut to its share; a part with `settle` only gets a lower limit."""
        if self.settle is not None:
            return self._replace(most=min(self.most, max(0, share_tokens - self.overhead)))
        if self.fit is None or self.need <= share_tokens:
            return self
        room = share_tokens - self.overhead
        cut = self.fit(room) if room > 0 else None
        if cut is not None and cut.text:
            return cut
        return self._replace(text="", tokens=0, state="left_out", left_out=self.amount, why=NO_ROOM)


@dataclass(frozen=True, slots=True)
class Context:
    """A context, explained.

    Args:
        parts: cut to fit, in the order of the text.
        sections: a row for each part, as `wire.ContextSection`.
        stable: the beginning of `system`, up to the first part that changes with each message.
        tokens: estimate of system text and message together.
    """

    system: str
    stable: str
    parts: Sequence[Part]
    sections: Sequence[Mapping[str, Any]]
    tokens: int
    budget_tokens: int

    @property
    def is_over_budget(self) -> bool:
        return 0 < self.budget_tokens < self.tokens

    def titled(self, title: str) -> list[Part]:
        """Return the parts with this title."""
        return [part for part in self.parts if part.title == title]


def build_context(
    head: str, parts: Sequence[Part], stable_parts: int, message_tokens: int | None, *, budget_tokens: int
) -> Context:
    """Return the context; the same arguments give the same bytes.

    The message and the parts that are never cut are always whole. The other parts share the rest: each gets what it
    needs, or its share when all of them need too much.

    The stable parts are cut as if the others took their maximum: so they keep their bytes while a conversation grows,
    and a provider finds this beginning in its cache.

    Args:
        head: the first line; may be empty.
        parts: in the order of the text.
        stable_parts: number of leading parts that do not change with each message.
        message_tokens: tokens of the user's message; None when nothing is asked yet.
        budget_tokens: for system text and message together, see `estimate_tokens`; 0 means no limit.
    Source: HB5, HB6, RB2.
    """
    if budget_tokens:
        fixed = estimate_tokens(head) + sum(part.need for part in parts if part.fit is None)
        parts = _fitted(parts, stable_parts, message_tokens or 0, budget_tokens, fixed)
    if any(part.settle is not None for part in parts):
        others = _joined(_shown(part for part in parts if part.settle is None))
        parts = [part if part.settle is None else part.settle(part.most, others) for part in parts]
    stable, stable_ascii = _beginning(head, _shown(parts[:stable_parts]))
    rest = _joined(_shown(parts[stable_parts:]))
    system = stable + rest
    rows = [part.row() for part in parts]
    if head:
        rows.insert(0, _row(head.strip(), "request", "whole", estimate_tokens(head)))
    if message_tokens is not None:
        rows.append(_row("message", "request", "whole", message_tokens))
    tokens = tokens_of(len(system), stable_ascii + ascii_length(rest))
    return Context(system, stable, parts, rows, tokens + (message_tokens or 0), budget_tokens)


def _row(title: str, source: str, state: SectionState, tokens: int) -> dict[str, Any]:
    return {"title": title, "source": source, "state": state, "tokens": tokens}


def _fitted(
    parts: Sequence[Part], stable_parts: int, message_tokens: int, budget_tokens: int, fixed_tokens: int
) -> list[Part]:
    """Return the parts cut to their shares. A long message may shorten the stable parts, too.

    Args:
        fixed_tokens: tokens of the head and of the parts that are never cut, without the message.
    """
    first: list[Part] = []
    for_message = budget_tokens // _FOR_MESSAGE
    if message_tokens <= for_message:
        needs = [part.flexible_need for part in parts[:stable_parts]]
        needs += [part.most + part.overhead for part in parts[stable_parts:]]
        shares = _shares(parts, needs, budget_tokens - fixed_tokens - for_message)
        first = [part.fitted(share) for part, share in zip(parts, shares[:stable_parts], strict=False)]
        fixed_tokens += sum(part.need for part, whole in zip(first, parts, strict=False) if whole.fit is not None)
    rest = parts[len(first) :]
    shares = _shares(rest, [part.flexible_need for part in rest], budget_tokens - fixed_tokens - message_tokens)
    return [*first, *(part.fitted(share) for part, share in zip(rest, shares, strict=True))]


def _shares(parts: Sequence[Part], needs: Sequence[int], room: int) -> list[int]:
    """Return the tokens for each part, by weight; no part gets more than its need."""
    weights = {place: part.weight for place, part in enumerate(parts)}
    return [*divide(room, dict(enumerate(needs)), weights).values()]


# Title of a part, the lines above its text, and the text.
_Shown: TypeAlias = tuple[str, str, str]


def _shown(parts: Iterable[Part]) -> tuple[_Shown, ...]:
    return tuple((part.title, part.above, part.text) for part in parts if not part.is_blank)


@lru_cache(maxsize=16)  # seldom changes between two contexts of a group, and has 64 KiB or more
def _beginning(head: str, shown: tuple[_Shown, ...]) -> tuple[str, int]:
    """Return the beginning of a context, and how many ASCII characters it has."""
    text = head + _joined(shown)
    return text, ascii_length(text)


def _joined(shown: Sequence[_Shown]) -> str:
    """Return the parts in order; two with the same title share it."""
    blocks: list[str] = []
    last_title = ""
    for title, above, text in shown:
        lines = text.strip("\n")
        blocks.append(f"\n{lines}\n" if title == last_title else f"\n{above}{lines}\n")
        last_title = title
    return "".join(blocks)
