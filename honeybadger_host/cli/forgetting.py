"""The command `forget`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wording import MAX_NAMED, count_of
from honeybadger_host.cli.asking import asked_of, inbox_group
from honeybadger_host.cli.options import AsJson, Home, home_of, tell

app = typer.Typer()


@app.command()
def forget(
    call: typer.Context,
    group: str,
    home: Home = None,
    id_: Annotated[str | None, typer.Option("--id", help="An entry or a task, or a change as `log` shows it.")] = None,
    text: Annotated[str | None, typer.Option(help="Every line with this text, whoever wrote it.")] = None,
    sender: Annotated[str | None, typer.Option(help="Everything that this sender said and saved.")] = None,
    session: Annotated[str | None, typer.Option(help="What was said in this session, and learnt from it.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go; change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove something for good, from every place. Then every byte below the home is searched for it.

    The group `global` is what every group reads. It cannot be undone. Exit code 1 when something of it is left.
    """
    wanted = {"id": id_, "text": text, "sender": sender, "session": session}
    if sum(value is not None for value in wanted.values()) != 1:
        raise typer.BadParameter("give one of --id, --text, --sender and --session")
    folder, is_shared = home_of(home), group == GLOBAL_GROUP
    asked_in = inbox_group(folder) if is_shared else group
    payload = {**wanted, "shared": is_shared or None, "dry_run": dry_run}
    result = asked_of(call, folder, asked_in, "forget", payload)
    tell(result, _told(result), as_json=as_json)
    if result["left"]:
        raise SystemExit(1)


def _told(result: Mapping[str, Any]) -> Iterator[str]:
    would = "would go: " if result["dry_run"] else "forgotten: "
    kinds = ", ".join(f"{kind} {count}" for kind, count in result["changes"].items())
    counts = [f"{count_of(sum(result['changes'].values()), 'change')} ({kinds})"] if kinds else []
    counts += [count_of(result["edits"], "edit")] if result["edits"] else []
    counts += [count_of(result["replies"], "reply", "replies")] if result["replies"] else []
    yield would + (", ".join(counts) if counts else "nothing in the journal")
    for name, label in (("files", "rewritten"), ("removed", "removed")):
        files = result[name]
        yield from (f"{label}: {file}" for file in files[:MAX_NAMED])
        if len(files) > MAX_NAMED:
            yield f"{label}: {len(files) - MAX_NAMED} more"
    if not result["dry_run"]:
        for one in result["left"]:
            yield f"LEFT: {one['file']} ({one['form']})"
        if not result["left"]:
            yield "looked through every file below the home: nothing of it is left"
    for backup in result["backups"]:
        yield f"not changed, a copy or an archive: {backup}"
