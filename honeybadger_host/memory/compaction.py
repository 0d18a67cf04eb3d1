"""Compaction of a session document, which keeps its size within limits (CM3). Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from honeybadger_host.memory.markdown.budget import shorten
from honeybadger_host.memory.session_document import HistoryEntry, SessionDocument
from honeybadger_host.text.neutralise import estimate_tokens, one_line

HEADER = "Previous conversation summary:"
PREVIEW_CHARACTERS = 100  # characters of a message, and of its role, in the summary
_LEFT_OUT = re.compile(r"\[\.\.\. (\d{1,15}) older messages? left out, see the session's log\]")
_SHORTENED = "\n[... shortened]"


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """Limits of a document, with the defaults that CM3 names.

    Args:
        max_entries: if there are more messages, the newest `keep_entries` stay.
        max_tokens: above it the older half of the messages is dropped, as often as needed.
        max_summary_characters: at least 200.
        finished_task_seconds: how long a task stays after it ended.
    """

    max_entries: int = 50
    keep_entries: int = 30
    max_tokens: int = 100_000
    max_summary_characters: int = 8_000
    finished_task_seconds: int = 86_400

    @property
    def max_prose_characters(self) -> int:
        """Return the length limit of a summary that somebody wrote, so that compaction never cuts it."""
        return self.max_summary_characters * 3 // 4


@dataclass(frozen=True, slots=True)
class Digest:
    """The texts of a document other than its messages, one line each.

    Args:
        tasks: open tasks.
        prose: the part of the summary that somebody wrote; `said`: summarised messages, oldest first.
    """

    tasks: tuple[str, ...]
    facts: tuple[str, ...]
    prose: tuple[str, ...]
    said: tuple[str, ...]


def digest(document: SessionDocument) -> Digest:
    """Return a document's content other than its messages."""
    prose, left_out, lines = _parts(document.long_term_summary)
    return Digest(
        tuple(
            f"{task.description} ({task.id}, {task.status}, {task.progress:.0%})"
            for task in document.active_tasks
            if not task.is_finished
        ),
        document.facts,
        tuple(line for line in prose.split("\n") if line.strip()),
        (*([_left_out(left_out)] if left_out else []), *(line.removeprefix("- ") for line in lines)),
    )


def compact(document: SessionDocument, now: datetime, limits: CompactionLimits) -> tuple[SessionDocument, int]:
    """Return the document within its limits, and the number of messages that were moved to its summary.

    Compacting it again changes nothing. Each dropped message leaves one line in the summary. If the summary is full,
    its oldest lines are dropped and counted. Facts are sorted, each once. Tokens that nobody counted are estimated.

    Args:
        now: decides which ended tasks go.
    Source: CM3.
    """
    history, dropped = _kept(document.recent_history, limits)
    summary = document.long_term_summary
    if dropped or len(summary) > limits.max_summary_characters:
        prose, left_out, lines = _parts(summary)
        lines += [line_of(entry.role, entry.content) for entry in dropped]
        summary = _assembled(prose, left_out, lines, limits)
    facts = tuple(sorted({fact.strip() for fact in document.facts} - {""}))
    cutoff = int(now.timestamp()) - limits.finished_task_seconds
    tasks = tuple(task for task in document.active_tasks if not (task.is_finished and task.updated_at <= cutoff))
    update = {"recent_history": history, "long_term_summary": summary, "facts": facts, "active_tasks": tasks}
    return document.model_copy(update=update), len(dropped)


def _kept(
    history: Sequence[HistoryEntry], limits: CompactionLimits
) -> tuple[tuple[HistoryEntry, ...], Sequence[HistoryEntry]]:
    """Return the newest messages within the limits, and the older ones; the newest alone may be cut and marked."""
    first = 0
    if len(history) > limits.max_entries:
        first = len(history) - min(limits.keep_entries, limits.max_entries)
    costs = [entry.tokens for entry in history]
    total = sum(costs[first:])
    while total > limits.max_tokens and first < len(history) - 1:
        half = first + (len(history) - first) // 2
        total -= sum(costs[first:half])
        first = half
    kept = tuple(history[first:])
    if total > limits.max_tokens:
        kept = (_cut(kept[0], limits.max_tokens),)
    return kept, history[:first]


def _cut(entry: HistoryEntry, max_tokens: int) -> HistoryEntry:
    """Return a message that alone is over the limit, cut and marked, with its tokens estimated."""
    content = entry.content
    if estimate_tokens(content) > max_tokens:
        content = shorten(content, max_tokens).rstrip("\n")
    return entry.model_copy(update={"content": content, "token_count": estimate_tokens(content)})


# ---------------------------------------------------------------------------------------------------------- the summary


def with_left_out(document: SessionDocument, count: int, limits: CompactionLimits) -> SessionDocument:
    """Return the document with `count` more messages counted in its summary that never were in its history."""
    if count <= 0:
        return document
    prose, left_out, lines = _parts(document.long_term_summary)
    return document.model_copy(update={"long_term_summary": _assembled(prose, left_out + count, lines, limits)})


def _assembled(prose: str, left_out: int, lines: Sequence[str], limits: CompactionLimits) -> str:
    """Return a summary within its bound: text above the header stays, the oldest lines below it become a count."""
    bound = limits.max_summary_characters
    if len(prose) > (most := limits.max_prose_characters if lines else bound):
        prose = prose[: most - len(_SHORTENED)].rstrip() + _SHORTENED
    head = f"{prose}\n\n{HEADER}\n" if prose else f"{HEADER}\n"
    room = bound - len(head)
    if sum(len(line) + 1 for line in lines) > room or left_out:
        room -= len(_left_out(left_out + len(lines))) + 1
    first = len(lines)
    while first and len(lines[first - 1]) < room:
        first -= 1
        room -= len(lines[first]) + 1
    left_out += first
    if not left_out and not lines:
        return prose[:bound]
    mark = f"{_left_out(left_out)}\n" if left_out else ""
    return (head + mark + "".join(f"{line}\n" for line in lines[first:]))[:bound]


def _parts(summary: str) -> tuple[str, int, list[str]]:
    """Return the text above the first header, the number of messages omitted below it, and the lines there."""
    above: list[str] = []
    below: list[str] | None = None
    left_out = 0
    for line in summary.split("\n"):
        if line == HEADER:
            below = below or []
        elif below is None:
            above.append(line)
        elif found := _LEFT_OUT.fullmatch(line):
            left_out += int(found[1])
        elif line.strip():
            below.append(line)
    return "\n".join(above).strip("\n"), left_out, below or []


def line_of(role: str, content: str) -> str:
    """Return the line of the summary that a message becomes when it is dropped."""
    text = one_line(content[: 8 * PREVIEW_CHARACTERS]).text
    if len(text) > PREVIEW_CHARACTERS:
        text = text[:PREVIEW_CHARACTERS].rstrip() + "..."
    return f"- {one_line(role).text[:PREVIEW_CHARACTERS]}: {text}"


def _left_out(count: int) -> str:
    return f"[... {count} older {'message' if count == 1 else 'messages'} left out, see the session's log]"
