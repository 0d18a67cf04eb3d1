"""The command that lists the groups of a home."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from honeybadger_host.cli.asking import asked_of, inbox_group
from honeybadger_host.cli.options import AsJson, Home, check_files, home_of, tell

app = typer.Typer()


@app.command()
def groups(
    call: typer.Context,
    named: Annotated[str | None, typer.Argument(help="Only those with this in their name.")] = None,
    home: Home = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the groups of the home. Works with and without a running host."""
    folder = home_of(home)
    check_files(folder)
    result = asked_of(call, folder, inbox_group(folder), "list_groups", {"named": named, "limit": limit})
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
