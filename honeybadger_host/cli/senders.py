"""Commands about senders and their dead letters: `sender …` and `dead …`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from honeybadger_agent.mailbox import NAME, OPERATOR
from honeybadger_agent.wording import count_of
from honeybadger_host.cli.shared import AsJson, Home, print_json, tell
from honeybadger_host.files.home import check_home
from honeybadger_host.ops.tokens import all_tokens, make_token, revoke_tokens
from honeybadger_host.spool.dead_letters import drop_dead, find_dead, list_dead, retry_dead
from honeybadger_host.spool.senders import add_sender, load_senders

app = typer.Typer(rich_markup_mode=None)
sender_app = typer.Typer(help="Manage senders: folders of closed mode, and tokens.", no_args_is_help=True)
app.add_typer(sender_app, name="sender")


@sender_app.command("add")
def sender_add(
    home: Home,
    group: str,
    sender: str,
    uid: Annotated[  # the next number, 2**32 - 1, would leave the owner as it is
        int | None, typer.Option(min=0, max=2**32 - 2, help="Who owns its folders and files; needs root.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a sender's folders and enter it in config/senders.json."""
    check_home(home)
    made = add_sender(home, group, sender, uid)
    tell(
        {"group": group, "sender": sender, "uid": uid, "folder": str(made)},
        [f"{made} is ready; a running host serves it within a sweep"],
        as_json=as_json,
    )


@sender_app.command("token")
def sender_token(
    home: Home,
    group: Annotated[str | None, typer.Argument()] = None,
    sender: Annotated[str | None, typer.Argument()] = None,
    list_: Annotated[bool, typer.Option("--list", help="Print whose tokens there are; not the tokens.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take back all tokens of the sender.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a token for a sender's client over HTTP, and print it once.

    `honeybadger-agent mcp --http` takes it. Only its SHA-256 is kept, in config/tokens.json.
    """
    check_home(home)
    if list_:
        rows = [{"group": one.group, "sender": one.sender, "made_at": one.made_at} for one in all_tokens(home)]
        lines = [f"{row['group']}/{row['sender']}  made {row['made_at']}" for row in rows]
        tell(rows, lines or ["no tokens yet"], as_json=as_json)
        return
    if group is None or sender is None:
        raise typer.BadParameter("name the group and the sender, as in: sender token main claude")
    if revoke:
        count = revoke_tokens(home, group, sender)
        said = f"revoked {count_of(count, 'token')} of {group}/{sender}" if count else f"{group}/{sender} has no token"
        tell({"group": group, "sender": sender, "revoked": count}, [said], as_json=as_json)
        return
    token = make_token(home, group, sender)
    tell({"group": group, "sender": sender, "token": token}, [token], as_json=as_json)


@sender_app.command("list")
def sender_list(home: Home, as_json: AsJson = False) -> None:
    """Print the senders of config/senders.json and of the inboxes."""
    known = load_senders(home)
    folders = [path for path in (home / "data" / "ipc").glob("*/*") if path.is_dir()]
    found = {(path.parent.name, path.name) for path in folders if all(map(NAME.fullmatch, path.parts[-2:]))}
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
    mode = "closed mode serves it" if row["known"] or row["sender"] == OPERATOR else "open mode only"
    folder = "" if row["has_folder"] else ", no folder"
    return f"{row['group']}/{row['sender']}  uid {'any' if row['uid'] is None else row['uid']}  {mode}{folder}"


dead_app = typer.Typer(help="List, retry or drop requests that could not be served.", no_args_is_help=True)
app.add_typer(dead_app, name="dead")


@dead_app.command("list")
def dead_list(home: Home, as_json: AsJson = False) -> None:
    """Print all dead letters with their reasons."""
    letters = list(list_dead(home))
    lines = [f"{letter.reason.get('at', '?'):20}  {letter.name}  {letter.reason.get('reason')}" for letter in letters]
    known = [{**letter.reason, "name": letter.name} for letter in letters]
    tell(known, lines or ["no dead letters"], as_json=as_json)


@dead_app.command("show")
def dead_show(home: Home, name: str, as_json: AsJson = False) -> None:
    """Print one dead letter: the reason, then its bytes."""
    letter = find_dead(home, name)
    if as_json:
        print_json({**letter.reason, "name": letter.name, "text": letter.text})
        return
    print_json(letter.reason)
    print("(it was not a regular file: nothing was kept)" if letter.text is None else ascii(letter.text)[1:-1])


@dead_app.command("retry")
def dead_retry(home: Home, names: list[str]) -> None:
    """Put dead letters back into their inboxes, after the cause was mended."""
    for letter in [find_dead(home, name) for name in dict.fromkeys(names)]:
        retry_dead(home, letter)
        print(f"{letter.name} is back in its inbox")


@dead_app.command("drop")
def dead_drop(home: Home, names: list[str]) -> None:
    """Delete dead letters permanently."""
    for letter in [find_dead(home, name) for name in dict.fromkeys(names)]:
        drop_dead(letter)
        print(f"{letter.name} is gone")
