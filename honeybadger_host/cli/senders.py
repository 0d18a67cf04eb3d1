"""Commands about senders: `sender …`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from honeybadger_host.cli.options import AsJson, Home, home_of, tell

app = typer.Typer(help="Who may send in closed mode.", no_args_is_help=True)


@app.command("add")
def sender_add(
    group: str,
    sender: str,
    home: Home = None,
    uid: Annotated[int | None, typer.Option(help="Who owns its folders and files; needs root.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a sender's folders and enter it in config/senders.json."""
    from honeybadger_agent.mailbox import BadName
    from honeybadger_host.spool.senders import add_sender
    from honeybadger_host.storage.home import check_home

    folder = home_of(home)
    check_home(folder)
    try:
        made = add_sender(folder, group, sender, uid)
    except BadName as error:
        raise typer.BadParameter(str(error)) from None
    known = {"group": group, "sender": sender, "uid": uid, "folder": str(made)}
    tell(known, [f"{made} is ready; a running host serves it within a sweep"], as_json=as_json)


@app.command("list")
def sender_list(home: Home = None, as_json: AsJson = False) -> None:
    """Print the senders of config/senders.json and those that have a folder."""
    from honeybadger_host.spool.senders import load_senders

    folder = home_of(home)
    known = load_senders(folder)
    found = {(path.parent.name, path.name) for path in (folder / "data" / "ipc").glob("*/*") if path.is_dir()}
    rows = [
        {
            "group": group,
            "sender": sender,
            "uid": known.get((group, sender)),
            "known": (group, sender) in known,
            "has_folder": (group, sender) in found,
        }
        for group, sender in sorted(found | known.keys())
    ]
    tell(rows, map(_line, rows) if rows else ["no senders yet"], as_json=as_json)


def _line(row: Mapping[str, Any]) -> str:
    mode = "closed mode serves it" if row["known"] else "open mode only"
    folder = "" if row["has_folder"] else ", no folder"
    return f"{row['group']}/{row['sender']}  uid {'any' if row['uid'] is None else row['uid']}  {mode}{folder}"
