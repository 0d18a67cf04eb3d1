"""The command `tasks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from honeybadger_agent.cli.task_lines import ACTIONS, shown_task, task_lines
from honeybadger_agent.cli.terminal import print_lines
from honeybadger_host.cli.asking import asked_of
from honeybadger_host.cli.options import AsJson, Home, check_files, home_of, print_json, tell

app = typer.Typer()


@app.command()
def tasks(
    call: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[list] [GROUP] | ACTION GROUP TASK",
            help=f"All tasks, those of a group, or one: {', '.join(action for action in ACTIONS if action != 'list')}.",
        ),
    ] = None,
    home: Home = None,
    why: Annotated[str | None, typer.Option(help="With pause: the reason to show.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show, run, pause, resume or cancel tasks."""
    action, *rest = words or ["list"]
    if action not in ACTIONS:
        if rest:
            raise typer.BadParameter(f"{action} is not one of {', '.join(ACTIONS)}")
        action, rest = "list", [action]
    folder = home_of(home)
    if action == "list":
        if len(rest) > 1:
            raise typer.BadParameter("list takes one group, or none for all")
        _list(call, folder, rest or _groups(folder), as_json)
        return
    if len(rest) != 2:
        raise typer.BadParameter(f"{action} needs a group and a task, as: tasks {action} main morning-news")
    group, task = rest
    payload = {"task": task, **({"why": why} if action == "pause" else {})}
    result: Any = asked_of(call, folder, group, ACTIONS[action], payload)
    row = result["tasks"][0] if action == "show" else result
    tell(row, shown_task(row) if action == "show" else task_lines([row]), as_json=as_json)


def _groups(folder: Path) -> list[str]:
    check_files(folder)
    return sorted(path.parent.name for path in (folder / "groups").glob("*/tasks") if path.is_dir())


def _list(call: typer.Context, folder: Path, groups: list[str], as_json: bool) -> None:
    found = {group: asked_of(call, folder, group, "list_tasks", {})["tasks"] for group in groups}
    if as_json:
        print_json(found)
        return
    for group, rows in found.items():
        if rows and len(found) > 1:
            print(f"{group}:")
        print_lines(task_lines(rows))
    if not any(found.values()):
        print("there are no tasks")
