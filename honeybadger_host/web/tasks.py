"""The tasks of a group: their next runs, the outcome of their last one, and the operator's actions."""

from __future__ import annotations

from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from honeybadger_agent.wire import CancelTask, ListTasks, PauseTask, ResumeTask, RunTask
from honeybadger_agent.wire import Request as Asked
from honeybadger_host.web.asking import made
from honeybadger_host.web.forms import PER_PAGE, action_in, go, group_of, home_of, member, number, shown_of
from honeybadger_host.web.rendering import href, page

_ACTIONS: Final[dict[str, type[Asked[Any]]]] = {
    "run": RunTask,
    "pause": PauseTask,
    "resume": ResumeTask,
    "cancel": CancelTask,
}


def tasks(request: Request) -> Response:
    group, offset = group_of(request), number(request, "offset")
    found = home_of(request).read(group, ListTasks()).tasks
    return page(
        "tasks.html",
        shown_of(request),
        tasks=found[offset : offset + PER_PAGE],
        total=len(found),
        offset=offset,
        per_page=PER_PAGE,
        done=member(request, "done", 20),
        task=member(request, "task", 80),
    )


def task(request: Request) -> Response:
    group, name = group_of(request), str(request.path_params["task"])
    task = home_of(request).read(group, made(ListTasks, task=name)).tasks[0]
    told = {
        key: value if isinstance(value, str) else orjson.dumps(value).decode()
        for key, value in (task.task or {}).items()
    }
    return page("task.html", shown_of(request), task=task, told=told)


def acted(request: Request, form: dict[str, str]) -> Response:
    """Run, pause, resume or cancel a task; cancelling asks for confirmation first."""
    group, home = group_of(request), home_of(request)
    action, task = action_in(form, _ACTIONS), form.get("task", "")
    if action == "cancel" and form.get("confirm") != "yes":
        return page("cancel.html", shown_of(request), task=home.read(group, made(ListTasks, task=task)).tasks[0])
    home.ask(group, made(_ACTIONS[action], task))
    return go(href("g", group, "tasks", done=action, task=task))
