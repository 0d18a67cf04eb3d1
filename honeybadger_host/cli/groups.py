"""The commands that list the groups of a home and their tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from honeybadger_agent.cli.explaining import ACTIONS, shown_task, task_lines
from honeybadger_host.cli.asking import asked_of, inbox_group
from honeybadger_host.cli.options import AsJson, Home, HomeWithFiles, action_in, groups_with, tell

app = typer.Typer(rich_markup_mode=None)


@app.command()
def groups(
    home: HomeWithFiles,
    named: Annotated[str | None, typer.Argument(help="Only those with this in their name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the groups of the home. Works with and without a running host."""
    result = asked_of(home, inbox_group(home), "list_groups", {"named": named, "limit": limit})
    tell(result, _table(result), as_json=as_json)


def _table(result: Mapping[str, Any]) -> Iterator[str]:
    rows = result["groups"]
    width = max((len(row["group"]) for row in rows), default=0)
    width = max(width, len("group"))
    yield f"{'group':{width}}  notes  entries  sessions  waiting  last said             who"
    for row in rows:
        notes = "?" if row["notes"] is None else row["notes"]
        more = row["senders_total"] - len(row["senders"])
        who = ", ".join(row["senders"]) + (f" and {more} more" if more else "")
        counts = f"{notes:>5}  {row['entries']:>7}  {row['sessions']:>8}  {row['waiting']:>7}"
        yield f"{row['group']:{width}}  {counts}  {row['last_said'] or 'never':20}  {who}".rstrip()
    if result["total"] > len(rows):
        yield f"and {result['total'] - len(rows)} more: -n shows up to 200, or give a part of the name"


@app.command()
def tasks(
    home: Home,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[list] [GROUP] | ACTION GROUP TASK",
            help=f"All tasks, those of a group, or one: {', '.join(action for action in ACTIONS if action != 'list')}.",
        ),
    ] = None,
    why: Annotated[str | None, typer.Option(help="With pause: the reason to show.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show, run, pause, resume or cancel tasks."""
    action, rest = action_in(words, ACTIONS)
    if action == "list":
        found = {
            group: asked_of(home, group, "list_tasks", {})["tasks"] for group in rest or groups_with(home, "tasks")
        }
        tell(found, _tasks_of(found), as_json=as_json)
        return
    if len(rest) != 2:
        raise typer.BadParameter(f"{action} needs a group and a task, as: tasks {action} main morning-news")
    group, task = rest
    payload = {"task": task, **({"why": why} if action == "pause" else {})}
    result: Any = asked_of(home, group, ACTIONS[action], payload)
    row = result["tasks"][0] if action == "show" else result
    tell(row, shown_task(row) if action == "show" else task_lines([row]), as_json=as_json)


def _tasks_of(found: Mapping[str, Any]) -> Iterator[str]:
    for group, rows in found.items():
        if rows and len(found) > 1:
            yield f"{group}:"
        yield from task_lines(rows)
    if not any(found.values()):
        yield "there are no tasks"
