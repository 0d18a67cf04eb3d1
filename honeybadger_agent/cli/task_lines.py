"""Tasks as lines for people, in both programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from honeybadger_agent.wording import count_of

# Action on a task -> type of request.
ACTIONS: Final[Mapping[str, str]] = {
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
