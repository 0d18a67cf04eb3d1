"""The tasks of a group: their next runs, the outcome of their last one, and the operator's actions."""

from typing import Any

import orjson
from starlette.responses import Response

from honeybadger_agent.wire import CancelTask, ListTasks, PauseTask, ResumeTask, RunTask
from honeybadger_agent.wire import Request as Asked
from honeybadger_host.web.rendering import href
from honeybadger_host.web.visits import PER_PAGE, Visit, action_in, go, made

_ACTIONS: dict[str, type[Asked[Any]]] = {
    "run": RunTask,
    "pause": PauseTask,
    "resume": ResumeTask,
    "cancel": CancelTask,
}


def tasks(visit: Visit) -> Response:
    offset = visit.number("offset")
    found = visit.read(ListTasks()).tasks
    return visit.page(
        "tasks.html",
        tasks=found[offset : offset + PER_PAGE],
        total=len(found),
        offset=offset,
        per_page=PER_PAGE,
        done=visit.member("done", 20),
        task=visit.member("task", 80),
    )


def task(visit: Visit) -> Response:
    task = visit.read(made(ListTasks, task=str(visit.path["task"]))).tasks[0]
    told = {
        key: value if isinstance(value, str) else orjson.dumps(value).decode()
        for key, value in (task.task or {}).items()
    }
    return visit.page("task.html", task=task, told=told)


def acted(visit: Visit, form: dict[str, str]) -> Response:
    """Run, pause, resume or cancel a task; cancelling asks for confirmation first."""
    action, task = action_in(form, _ACTIONS), form.get("task", "")
    if action == "cancel" and form.get("confirm") != "yes":
        return visit.page("cancel.html", task=visit.read(made(ListTasks, task=task)).tasks[0])
    visit.ask(made(_ACTIONS[action], task))
    return go(href("g", visit.group, "tasks", done=action, task=task))
