"""Results as lines for people: the parts of a context and why, hits, changes to a text, tasks. For both programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from honeybadger_agent.quoting import quoted
from honeybadger_agent.wording import count_of

if TYPE_CHECKING:
    from honeybadger_agent.wire import (
        ContextResult,
        EntryResult,
        GroupMessage,
        Hit,
        NoteResult,
        Recalled,
        SameNote,
        SavedEntry,
        SearchResult,
        SimilarEntry,
    )


def explanation_of(context: ContextResult) -> Iterator[str]:
    """Yield a table of the parts of a context, the total, and the recalled entries."""
    rows = context.sections
    title = max((len(row.title) for row in rows), default=0)
    source = max((len(row.source) for row in rows), default=0)
    for row in rows:
        out = f"  without {row.left_out}" if row.left_out else ""
        why = f" ({row.why})" if row.why else ""
        yield f"{row.title:{title}}  {row.source:{source}}  {row.state:10}  {row.tokens:>6} tokens{out}{why}"
    over = "  OVER: the parts that are never cut are too large" if context.is_over_budget else ""
    limit = context.budget_tokens or "no limit"
    yield f"{'':{title}}  {'whole':{source}}  {'':10}  {context.tokens:>6} tokens of {limit}{over}"
    for one in context.recalled:
        score = "" if one.score is None else f" {one.score:.2f} points{_points(one.points, ' ({})')}:"
        origin = origin_told(one)
        yield f"  [{one.id}] {one.state}:{score} {one.why or ''}{f' (from: {origin})' * bool(origin)}"


def hit_lines(found: SearchResult, *, with_points: bool = False) -> Iterator[str]:
    """Yield two lines for each hit, best first, or one line that nothing was found.

    Args:
        with_points: add a third line with the parts of the score.
    """
    for hit in found.hits:
        archived = "archived" if hit.archived else ""
        parts = (archived, hit.time, hit.author, hit.category, origin_told(hit), *map(also, hit.also))
        about = ", ".join(part for part in parts if part)
        yield f"[{hit.id}] ({about})" if about else f"[{hit.id}]"
        yield f"  {quoted(' '.join(hit.text.split()))}"
        if with_points:
            yield f"  {hit.score or 0:.2f} points{_points(hit.points, ': {}')}; {hit.source}"
    if not found.hits:
        yield "nothing matches"
    if not found.is_complete:
        yield "the index is still being built: ask again in a moment"


def origin_told(one: EntryResult | Hit | Recalled) -> str:
    """Return the origin of an entry in words; empty if it is an agent's own word, or unknown."""
    if one.origin in (None, "agent"):
        return ""
    where = f" {' '.join(one.origin_from.split())}" if one.origin_from else ""
    return f"{one.origin}{where}{', as claimed' * one.origin_claimed}"


WAITS = "It waits for review"


def waiting_told(proposal: str) -> str:
    """Return in words what happened to a write that waits for review."""
    return f"{WAITS} as {proposal}: nothing is changed until a person accepts it."


def done_told(result: NoteResult | SavedEntry, said: str) -> str:
    """Return the report of a write: `said`, unless the write waits for review."""
    changed = kinds_of(result.neutralised)
    also = f"; made harmless: {changed}" if changed else ""
    return f"{said}{also}" if result.proposal is None else waiting_told(result.proposal)


def similar_told(one: SimilarEntry) -> str:
    """Return in words which entry is similar, and how it differs."""
    return f"[{one.id}] {one.score:.0%} ({one.what_differs or 'the same words'})"


def about_message(message: GroupMessage) -> str:
    """Return when a message was sent, by whom, to whom and where."""
    to = "" if message.to is None else f"to {', '.join(message.to)}"
    return ", ".join(part for part in (message.at, message.sender, to, f"session {message.session}") if part)


def also(note: SameNote) -> str:
    """Return the other authors of a note and their times."""
    return " ".join(part for part in ("also", note.author, note.time) if part)


def _points(points: Mapping[str, float], form: str) -> str:
    """Return the points of each part, formatted; empty without any."""
    text = ", ".join(f"{name} {value:g}" for name, value in points.items() if value)
    return form.format(text) if text else ""


def kinds_of(neutralised: Mapping[str, int]) -> str:
    """Return the host's changes to a text, such as `1 secret (password), 2 headings`; empty if there are none.

    Args:
        neutralised: kinds in the plural; `secrets/password` and such are counted in `secrets`, too.
    """
    secrets = [kind.partition("/")[2] for kind in neutralised if kind.startswith("secrets/")]
    return ", ".join(
        (count_of(count, kind[:-1]) if kind.endswith("s") else kind)
        + (f" ({', '.join(secrets)})" if kind == "secrets" and secrets else "")
        for kind, count in neutralised.items()
        if not kind.startswith("secrets/")
    )


# Action on a task -> type of request.
ACTIONS: Mapping[str, str] = {
    "list": "list_tasks",
    "show": "list_tasks",
    "run": "run_task",
    "pause": "pause_task",
    "resume": "resume_task",
    "cancel": "cancel_task",
}


def task_lines(tasks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    width = max((len(task["id"]) for task in tasks), default=0)
    for task in tasks:
        yield f"{task['id']:{width}}  {_line(task)}"


def shown_task(task: Mapping[str, Any]) -> Iterator[str]:
    yield f"{task['id']}  {_line(task)}"
    for name, value in (task.get("task") or {}).items():
        yield f"  {name}: {value if isinstance(value, str) else json.dumps(value)}"
    for at in task.get("next") or ():
        yield f"  next run: {at}"
    yield f"  file: {task['file']}"


def _line(task: Mapping[str, Any]) -> str:
    parts = [f"{task['state']:7}", task["schedule"]]
    if coming := task.get("next"):
        parts.append(f"next {coming[0]}")
    if task.get("last"):
        cost = f"{count_of(task.get('runs', 0), 'run')}, {count_of(task.get('tokens', 0), 'token')}"
        parts.append(f"last {task['last']}, {cost}")
    if task.get("why"):
        parts.append(str(task["why"]))
    return "  ".join(parts)
