"""The parts of a context, in the order of its text: the content of each, and the way to cut it (HB5).

`Group: x`, `## Your Identity`, `## Global Context`, `## Available Specialist Agents` for a router, `## Group Context`,
`## Remembered Facts`, `## Conversation Summary`, recalled lines, `## This Session`, working memory,
`## Recent Conversation`. To add a part, write a function that returns a `Part` and name it in `maker`.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from honeybadger_agent.wire import PART_NAMES, PartName
from honeybadger_agent.wording import count_of
from honeybadger_host.agents import Agent
from honeybadger_host.context.recollections import Recollection, fit
from honeybadger_host.context.text import Part
from honeybadger_host.errors import FileProblem
from honeybadger_host.files.home import AGENTS_FOLDER, GLOBAL_GROUP_FILE, MEMORY, PERSONA, ROOT_GLOBAL_FILE
from honeybadger_host.files.home import SUMMARY as SUMMARY_FILE
from honeybadger_host.memory.compaction import Digest
from honeybadger_host.memory.markdown.budget import CutNotes, History, all_notes, format_history
from honeybadger_host.memory.markdown.group_files import GroupText
from honeybadger_host.memory.working_memory import HEADING, cut_inventory
from honeybadger_host.text.neutralise import estimate_tokens, list_line
from honeybadger_host.text.turn import Turn

# The result of reading a file: its text, its problem, or None when there is no file.
Loaded: TypeAlias = GroupText | FileProblem | None

SPECIALISTS = "## Available Specialist Agents"
FACTS = "## Remembered Facts"
SUMMARY = "## Conversation Summary"
RECALLED = "Recalled from long-term memory"
WORKING = "Working memory"
SESSION = "## This Session"
CONVERSATION = "## Recent Conversation"
# The share of the budget of each part when not everything fits.
WEIGHTS: Mapping[str, float] = {
    FACTS: 0.45,
    CONVERSATION: 0.3,
    RECALLED: 0.3,
    SUMMARY: 0.1,
    SESSION: 0.1,
    WORKING: 0.1,
}
_CHANGING = (RECALLED, SESSION, WORKING, CONVERSATION)
# A file of more than this many times the budget is cut at once, without joining its repeated notes first.
_FOLDED_BY = 2
_MAX_SESSION_TOKENS = 2000  # of a session document: the limit of a summary
_WORKING_TOKENS = 500  # reserved for working memory, about 15 entries; it gets more when others leave room


def in_order(parts: Mapping[PartName, Sequence[Part]], names: Collection[PartName] = PART_NAMES) -> list[Part]:
    """Return the parts of some names, in the order of the text."""
    return [part for name in PART_NAMES if name in names for part in parts.get(name, ())]


def stable_parts_of(parts: Sequence[Part]) -> int:
    """Return the number of leading parts that change only when their files change."""
    return next((place for place, part in enumerate(parts) if part.title in _CHANGING), len(parts))


def parts_of_files(
    group: str, read: Callable[[str], Loaded], budget_tokens: int, summary: Loaded
) -> dict[PartName, list[Part]]:
    """Return the parts that are files of a group, or of all groups.

    Args:
        read: reads a file below the home folder.
        budget_tokens: limit of the whole context; 0 means no limit.
        summary: the content of `summary.md`.
    """
    folder = f"groups/{group}"
    return {
        "global": [file_part("## Global Context", file, read(file)) for file in (ROOT_GLOBAL_FILE, GLOBAL_GROUP_FILE)],
        "persona": [file_part("## Group Context", f"{folder}/{PERSONA}", read(f"{folder}/{PERSONA}"))],
        "notes": [_facts(f"{folder}/{MEMORY}", read(f"{folder}/{MEMORY}"), budget_tokens)],
        "summary": [_summary(f"{folder}/{SUMMARY_FILE}", summary)],
    }


def file_part(title: str, source: str, loaded: Loaded, weight: float = 0.0) -> Part:
    match loaded:
        case None:
            return Part(title, source, weight=weight, why="there is no such file")
        case FileProblem():
            why = f"it {loaded.message}"
            return Part(title, source, weight=weight, state="unreadable", left_out="the file", why=why)
        case _ if not loaded.clean or loaded.clean.isspace():
            return Part(title, source, weight=weight, why="the file is blank")
        case _:
            return Part(title, source, loaded.clean, "whole", weight=weight, tokens=loaded.tokens, why=loaded.fault)


def specialists_part(specialists: Sequence[Agent]) -> Part:
    """Return the agents that a router can give tasks to, one on each line."""
    lines = [f"- `{one.id}` ({one.display_name}): {' '.join(one.description.split())}" for one in specialists]
    lines.append("Give one of them a task with `delegate_to_agent`. It has not heard this conversation.")
    return Part(SPECIALISTS, AGENTS_FOLDER, "\n".join(lines), "whole")


# --------------------------------------------------------------------------------------------------------------- notes


def _facts(source: str, loaded: Loaded, budget_tokens: int) -> Part:
    """Return the group's notes; when not all fit, the newest of each author."""
    part = file_part(FACTS, source, loaded, WEIGHTS[FACTS])
    if not isinstance(loaded, GroupText) or part.state != "whole":
        return part

    def cut(room: int) -> Part:
        made = loaded.newest_notes(room)
        tokens = loaded.tokens_of(made.text)
        if not (made.left_out or made.is_shortened or made.has_lost_text):
            return part._replace(text=made.text, tokens=tokens, why=made.why_together or part.why)
        why = f"the file has {loaded.tokens} tokens, its share of context.budget_tokens is {room}"
        if loaded.unread:
            why = f"{_too_large(loaded)}; its share of context.budget_tokens is {room} tokens"
        return part._replace(text=made.text, tokens=tokens, state="cut", left_out=_left_out(made), why=_also(why, made))

    if loaded.unread is None:
        if 0 < _FOLDED_BY * budget_tokens < loaded.tokens:  # it is always cut
            return part._replace(fit=cut)
        whole = loaded.notes.whole
        why = whole.why or part.why
        return part._replace(text=whole.text, tokens=loaded.tokens_of(whole.text), why=why, fit=cut)
    served = all_notes(loaded.notes, loaded.unread)
    return part._replace(
        text=served.text,
        tokens=loaded.tokens_of(served.text),
        state="cut",
        left_out=_left_out(served),
        why=_also(_too_large(loaded), served),
        fit=cut,
    )


def _too_large(loaded: GroupText) -> str:
    return f"the file has {loaded.size} bytes, {len(loaded.text.encode())} are served"


def _left_out(made: CutNotes) -> str:
    notes = count_of(made.left_out, "older note") if made.left_out else ""
    text = "text that is not in a note" if made.has_lost_text else ""
    return ", ".join(part for part in (notes, text) if part) or "the end of notes"


def _also(why: str, made: CutNotes) -> str:
    """Return why notes are cut, and how repeated ones are joined."""
    return f"{why}; {made.why_together}" if made.why_together else why


def _summary(source: str, loaded: Loaded) -> Part:
    """Return the summary, or its beginning when not all of it fits."""
    part = file_part(SUMMARY, source, loaded, WEIGHTS[SUMMARY])
    if not isinstance(loaded, GroupText) or not part.text:
        return part
    tokens = loaded.tokens_of(loaded.set_apart)

    def cut(room: int) -> Part:
        why = f"the file has {tokens} tokens, its share of context.budget_tokens is {room}"
        text = loaded.beginning(room)
        return part._replace(text=text, tokens=loaded.tokens_of(text), state="cut", left_out="its end", why=why)

    return part._replace(text=loaded.set_apart, tokens=tokens, fit=cut)


# -------------------------------------------------------------------------------------------------------------- recall


def recalled_part(group: str, recalled: Sequence[Recollection], why_none: str | None, most: int = sys.maxsize) -> Part:
    """Return recalled lines that no other part has: whole lines, the most important first."""
    part = Part(RECALLED, f"groups/{group}/memory", heading="", weight=WEIGHTS[RECALLED], most=most, why=why_none)
    if not recalled:
        return part
    first = fit(recalled, most)

    def settle(room: int, others: str = "") -> Part:
        unsaid = [one for one in recalled if not others or not one.is_in(others)]
        fitted = fit(unsaid, min(room, most))
        wanted = {one.id for one in (*first.kept, *fitted.kept)}
        missing = [one.id for one in fitted.left_out if one.id in wanted or one.is_entry]
        told = part._replace(missing=missing, recalled=fitted.kept)
        if not fitted.left_out:
            why = None if fitted.kept else "other parts already have all that matches the message"
            return told._replace(text=fitted.text, state="whole" if fitted.kept else "absent", why=why)
        return told._replace(
            text=fitted.text,
            state="cut" if fitted.text else "left_out",
            left_out=f"{len(fitted.left_out)} of {len(fitted.left_out) + len(fitted.kept)} lines",
            why=f"{min(room, most)} tokens are its share of context.budget_tokens, or recall.budget_tokens",
        )

    return part._replace(text=first.text, tokens=first.tokens, why=None, fit=settle, settle=settle)


def session_part(source: str, session: Digest | None, why_none: str = "") -> Part:
    """Return the session document's tasks, facts and summary; its oldest messages are cut first."""
    part = Part(SESSION, source, weight=WEIGHTS[SESSION], most=_MAX_SESSION_TOKENS, why=why_none)
    if session is None:
        return part
    lines, tokens = _session_lines(session)
    if not lines:
        return part._replace(why="the session has no facts, summary or running tasks")
    part = part._replace(amount=f"{len(lines)} lines")

    def cut(room: int) -> Part:
        count = bisect_right(tokens, room)
        if count == len(lines):
            return part._replace(text="".join(lines), state="whole", why=None, fit=cut)
        return part._replace(
            text="".join(lines[:count]),
            state="cut",
            left_out=f"the last {len(lines) - count} of {len(lines)} lines",
            why=f"its share of a context is {room} tokens",
            fit=cut,
        )

    return cut(_MAX_SESSION_TOKENS)


@lru_cache(maxsize=32)  # every context of a session has the same 70 lines, which take 0.3 ms
def _session_lines(session: Digest) -> tuple[Sequence[str], Sequence[int]]:
    """Return the lines of a session document, with headings, and the tokens of each with all above it."""
    blocks = [
        ("Running tasks:\n", session.tasks),
        ("Facts:\n", session.facts),
        ("Summary:\n", session.prose),
        ("Earlier messages, the newest first:\n", session.said[::-1]),
    ]
    lines = [
        ("" if place else heading) + list_line(line) for heading, said in blocks for place, line in enumerate(said)
    ]
    return lines, list(accumulate(estimate_tokens(line) + 1 for line in lines))


def working_part(
    source: str,
    lines: Sequence[str] | None,
    why_none: str = "there is nothing in the working memory of this session",
) -> Part:
    """Return the labels in working memory; when not all fit, the first ones.

    Args:
        lines: None: the folder cannot be read.
        why_none: why there are no lines.
    """
    part = Part(
        WORKING,
        source,
        why=why_none,
        heading=HEADING,
        amount=f"{len(lines or ())} entries",
        weight=WEIGHTS[WORKING],
        most=_WORKING_TOKENS,
    )
    if lines is None:
        return part._replace(
            state="unreadable", left_out="the folder", why="it cannot be read: the host needs a folder there"
        )
    text = "".join(lines)

    def cut(room: int) -> Part:
        kept, left_out = cut_inventory(lines, room)
        why = f"its lines have {estimate_tokens(text)} tokens, its share of context.budget_tokens is {room}"
        return part._replace(text=kept, state="cut", left_out=f"{left_out} entries", why=why)

    return part._replace(text=text, state="whole", why=None, fit=cut) if lines else part


# -------------------------------------------------------------------------------------------------------- conversation


class Older(NamedTuple):
    """Turns of the window that are not replayed: their number, and why."""

    number: int = 0
    why: str = ""


def conversation_part(source: str, turns: Sequence[Turn], older: Older, budget_tokens: int, why_none: str) -> Part:
    """Return the newest turns that fit.

    Args:
        turns: replayed turns, oldest first.
        budget_tokens: their limit within the budget of the context; 0 means no separate limit.
        why_none: why there are no turns.
    """
    part = Part(
        CONVERSATION,
        source,
        why=why_none,
        amount=f"{len(turns) + older.number} turns",
        weight=WEIGHTS[CONVERSATION],
        most=budget_tokens or sys.maxsize,
    )
    if not turns:
        return part

    def shown(history: History, budget: str) -> Part:
        reasons = [older.why] if older.number else []
        if history.dropped or history.is_shortened:
            tokens = sum(turn.line_tokens for turn in turns)
            reasons.append(f"{tokens} tokens are replayed, {history.tokens} of them fit {budget}")
        if not reasons:
            return part._replace(text=history.text, state="whole", why=None, fit=cut)
        left_out = f"{history.dropped + older.number} older turns"
        if history.is_shortened:
            left_out += ", the end of the newest turn"
        return part._replace(text=history.text, state="cut", left_out=left_out, why="; ".join(reasons), fit=cut)

    def cut(room: int) -> Part:
        return shown(_newest_within(turns, room), "context.budget_tokens, shared with memory and summary")

    return shown(format_history(turns, budget_tokens), "history.budget_tokens")


def _newest_within(turns: Sequence[Turn], room: int) -> History:
    """Return the newest turns whose text has at most `room` tokens."""
    budget = room
    while (over := estimate_tokens((kept := format_history(turns, budget)).text) - room) > 0:
        budget -= over
    return kept
