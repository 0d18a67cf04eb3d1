"""The whole context of the next model call, budgeted and explained: one pure function (HB5).

Order: `Group: x`, `## Your Identity`, `## Global Context`, `## Group Context`, `## Remembered Facts`,
`## Conversation Summary`, what was recalled, working memory, `## Recent Conversation`. A part that is blank leaves no
heading, but keeps its row in the explanation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from honeybadger_agent.wire import ContextSection, SectionState
from honeybadger_host.domain import Turn
from honeybadger_host.errors import FileProblem
from honeybadger_host.handlers.recollection import Recollection, fit
from honeybadger_host.memory.budget import History, cut_notes, divide, first_lines, format_history
from honeybadger_host.memory.group_files import GroupText
from honeybadger_host.memory.working_memory import HEADING, Inventory, cut_inventory
from honeybadger_host.text.neutralise import estimate_tokens

Loaded: TypeAlias = GroupText | FileProblem | None
"""What reading a file gave: its text, what is wrong with it, or that there is none."""

_WEIGHTS: Final = {"memory": 0.45, "history": 0.3, "recalled": 0.15, "summary": 0.1, "working": 0.1}
"""What each may fill of the room when not everything fits; what one leaves goes to the others."""
_RECALLED: Final = "Recalled from long-term memory"
_WORKING: Final = "Working memory"
_NO_ROOM: Final = "the parts that are never cut leave no room in context.budget_tokens"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a context is made of, loaded.

    Args:
        identity: who the asker is, in the order shown; nothing when it is no agent of this home.
        global_files: read by every group, in the order shown.
        turns: the window of the conversation, oldest first.
        turns_file: where the conversation is kept.
        message: what the user says now; None when nothing is asked yet.
        working: None: there is no such part.
        recalled: long-term entries for this message, the most wanted first.
        not_recalled: why there are none.
    """

    group: str
    persona: Loaded
    memory: Loaded
    summary: Loaded
    global_files: Sequence[tuple[str, Loaded]]
    turns: Sequence[Turn]
    turns_file: str
    message: str | None
    working: Inventory | None = None
    recalled: Sequence[Recollection] = ()
    not_recalled: str | None = None
    identity: Sequence[GroupText | FileProblem] = ()


@dataclass(slots=True)
class _Draft:
    """One part on its way into the text."""

    title: str
    source: str
    text: str = ""
    text_tokens: int = 0
    state: SectionState = "absent"
    left_out: str | None = None
    why: str | None = None
    heading: str | None = None
    """What stands above it in the text; None: its title; empty: the text has headings of its own."""

    @property
    def need(self) -> int:
        """Tokens of the whole part with its heading, rounded up."""
        return self.text_tokens + _overhead(self) if self.text else 0

    @property
    def block(self) -> str:
        if not self.text.strip():
            return ""
        return f"\n{self.above}{self.text.strip(chr(10))}\n"

    @property
    def above(self) -> str:
        """The line of its heading."""
        return f"{self.title if self.heading is None else self.heading}\n" if self.heading != "" else ""

    def row(self) -> ContextSection:
        tokens = estimate_tokens(self.block)
        return ContextSection(
            title=self.title, source=self.source, state=self.state, tokens=tokens, left_out=self.left_out, why=self.why
        )


@dataclass(frozen=True, slots=True)
class Context:
    """A context, explained.

    Args:
        tokens: estimate of system text and message together.
        history_tokens: estimate of the recent conversation before and after the cut.
        forgotten: recollections that did not fit.
    """

    system: str
    message: str | None
    sections: Sequence[ContextSection]
    tokens: int
    budget_tokens: int
    history_tokens: tuple[int, int] = field(default=(0, 0))
    forgotten: Sequence[Recollection] = ()

    @property
    def is_over_budget(self) -> bool:
        return 0 < self.budget_tokens < self.tokens


def build_context(
    parts: Parts, *, budget_tokens: int, history_budget_tokens: int, recall_budget_tokens: int = 0
) -> Context:
    """Return the context; the same arguments give the same bytes.

    Identity, persona, global context and the message are never cut. What they leave is shared by memory, recent
    conversation, what was recalled, summary and working memory: each gets what it needs, and when that is too much, a
    share of the room, what one leaves going to the others.

    Args:
        budget_tokens: for system text and message together, see `estimate_tokens`; 0 means no limit.
        history_budget_tokens: for the recent conversation, whatever room there is; 0 means no limit of its own.
        recall_budget_tokens: for what was recalled, as above.
    Source: HB5, HB6, RB2.
    """
    head = f"Group: {parts.group}\n"
    fixed = [
        *(_whole("## Your Identity", loaded.file, loaded) for loaded in parts.identity),
        *(_whole("## Global Context", file, loaded) for file, loaded in parts.global_files),
        _whole("## Group Context", f"groups/{parts.group}/CLAUDE.md", parts.persona),
    ]
    memory = _whole("## Remembered Facts", f"groups/{parts.group}/MEMORY.md", parts.memory)
    summary = _whole("## Conversation Summary", f"groups/{parts.group}/summary.md", parts.summary)
    working = _inventory(parts.working)
    history = _Draft("## Recent Conversation", parts.turns_file)
    all_tokens = sum(turn.line_tokens for turn in parts.turns)
    fitting = format_history(parts.turns, history_budget_tokens)
    message_tokens = 0 if parts.message is None else estimate_tokens(parts.message)

    room = budget_tokens - message_tokens - estimate_tokens(head) - sum(draft.need for draft in fixed)
    # the estimate of the lines together: one by one they round down
    history_need = estimate_tokens(fitting.text) + _overhead(history) if parts.turns else 0
    recalled = _Draft(_RECALLED, f"groups/{parts.group}/memory", heading="", why=parts.not_recalled)
    fitted = _fill_recalled(recalled, parts.recalled, recall_budget_tokens or None)
    needs = {
        "memory": memory.need,
        "history": history_need,
        "recalled": recalled.need,
        "summary": summary.need,
        "working": working.need,
    }
    shares = divide(room, needs, _WEIGHTS) if budget_tokens else needs

    is_squeezed = shares["history"] < needs["history"]
    kept = _newest_within(parts.turns, shares["history"] - _overhead(history)) if is_squeezed else fitting
    _fill_history(history, kept, all_tokens, is_squeezed=is_squeezed)
    if isinstance(parts.memory, GroupText) and shares["memory"] < needs["memory"]:
        _fit_memory(memory, parts.memory, shares["memory"])
    if isinstance(parts.summary, GroupText) and shares["summary"] < needs["summary"]:
        _fit_summary(summary, parts.summary, shares["summary"])
    if parts.working is not None and shares["working"] < needs["working"]:
        _fit_inventory(working, parts.working, shares["working"])

    if shares["recalled"] < needs["recalled"]:
        fitted = _fill_recalled(recalled, parts.recalled, max(0, shares["recalled"] - _overhead(recalled)))

    drafts = [*fixed, memory, summary, recalled, *([] if parts.working is None else [working]), history]
    system = head + _joined(drafts)
    rows = [_head_row(head), *(draft.row() for draft in drafts)]
    if parts.message is not None:
        rows.append(ContextSection(title="message", source="request", state="whole", tokens=message_tokens))
    return Context(
        system=system,
        message=parts.message,
        sections=rows,
        tokens=estimate_tokens(system) + message_tokens,
        budget_tokens=budget_tokens,
        history_tokens=(all_tokens, kept.tokens),
        forgotten=fitted,
    )


def _fill_recalled(draft: _Draft, recalled: Sequence[Recollection], room: int | None) -> Sequence[Recollection]:
    """Put what fits into the draft; return what does not."""
    fitted = fit(recalled, room)
    draft.text, draft.text_tokens = fitted.text, estimate_tokens(fitted.text)
    if recalled:
        draft.state, draft.left_out, draft.why = "whole", None, None
    if fitted.left_out:
        draft.state = "cut" if fitted.text else "left_out"
        draft.left_out = f"{len(fitted.left_out)} of {len(recalled)} entries"
        draft.why = f"{room} tokens are its share of context.budget_tokens, or recall.budget_tokens"
    return fitted.left_out


def _head_row(head: str) -> ContextSection:
    return ContextSection(title=head.strip(), source="request", state="whole", tokens=estimate_tokens(head))


def _joined(drafts: Sequence[_Draft]) -> str:
    """Return the blocks in order; two parts under the same heading share it."""
    blocks: list[str] = []
    last_title = ""
    for draft in drafts:
        block = draft.block
        if not block:
            continue
        blocks.append(block.removeprefix(f"\n{draft.title}") if draft.title == last_title else block)
        last_title = draft.title
    return "".join(blocks)


def _whole(title: str, source: str, loaded: Loaded) -> _Draft:
    match loaded:
        case None:
            return _Draft(title, source, why="there is no such file")
        case FileProblem():
            return _Draft(title, source, state="unreadable", left_out="the file", why=f"it {loaded.message}")
        case _ if not loaded.clean.strip():
            return _Draft(title, source, why="the file is blank")
        case _:
            return _Draft(title, source, text=loaded.clean, text_tokens=loaded.tokens, state="whole")


def _inventory(inventory: Inventory | None) -> _Draft:
    if inventory is None:
        return _Draft(_WORKING, "")
    if inventory.problem is not None:
        return _Draft(
            _WORKING, inventory.source, state="unreadable", left_out="the folder", why=f"it {inventory.problem}"
        )
    if not inventory.lines:
        return _Draft(_WORKING, inventory.source, why=inventory.absent_why)
    text = "".join(line.text for line in inventory.lines)
    return _Draft(
        _WORKING, inventory.source, text=text, text_tokens=estimate_tokens(text), state="whole", heading=HEADING
    )


def _overhead(draft: _Draft) -> int:
    """Tokens of the heading and the line ends around a part, and of rounding heading and text."""
    return estimate_tokens(draft.above) + 3


def _newest_within(turns: Sequence[Turn], room: int) -> History:
    """Return the newest turns whose text costs at most `room`; none when there is no room."""
    if room < 1:
        return History("", (), 0, len(turns))
    budget = room
    while (over := estimate_tokens((kept := format_history(turns, budget)).text) - room) > 0:
        budget -= over
    return kept


def _fill_history(draft: _Draft, kept: History, all_tokens: int, *, is_squeezed: bool) -> None:
    draft.text, draft.state = kept.text, "whole"
    if not kept.turns and not kept.dropped:
        draft.state, draft.why = "absent", "nothing was said in this session"
    elif not kept.turns:
        draft.state, draft.left_out, draft.why = "left_out", f"{kept.dropped} turns", _NO_ROOM
    elif kept.dropped or kept.is_shortened:
        draft.state = "cut"
        draft.left_out = f"{kept.dropped} older turns" + (", the end of the newest turn" if kept.is_shortened else "")
        name = "context.budget_tokens, shared with memory and summary" if is_squeezed else "history.budget_tokens"
        draft.why = f"{all_tokens} tokens in the window, {kept.tokens} of them fit {name}"


def _fit_memory(draft: _Draft, loaded: GroupText, share: int) -> None:
    room = share - _overhead(draft)
    if room < 1:
        _leave_out(draft)
        return
    cut = cut_notes(loaded.notes, room)
    draft.text, draft.state = cut.text, "cut"
    draft.left_out = f"{cut.left_out} older notes" if cut.left_out else "text above the notes kept"
    draft.why = f"the file has {loaded.tokens} tokens, its share of context.budget_tokens is {room}"


def _fit_summary(draft: _Draft, loaded: GroupText, share: int) -> None:
    room = share - _overhead(draft)
    if room < 1:
        _leave_out(draft)
        return
    draft.text, draft.state = first_lines(loaded.clean, room), "cut"
    draft.left_out = "its end"
    draft.why = f"the file has {loaded.tokens} tokens, its share of context.budget_tokens is {room}"


def _fit_inventory(draft: _Draft, inventory: Inventory, share: int) -> None:
    whole = draft.text_tokens
    draft.text, left_out = cut_inventory(inventory.lines, share - _overhead(draft))
    draft.state, draft.left_out = "cut" if draft.text else "left_out", f"{left_out} entries that expire sooner"
    draft.why = f"its lines have {whole} tokens, its share of context.budget_tokens is {share - _overhead(draft)}"
    if not draft.text:
        draft.left_out, draft.why = f"{left_out} entries", _NO_ROOM


def _leave_out(draft: _Draft) -> None:
    draft.text, draft.state, draft.left_out, draft.why = "", "left_out", "the file", _NO_ROOM
