"""Commands about dead letters: `dead …`."""

from __future__ import annotations

import typer

from honeybadger_host.cli.options import AsJson, Home, home_of, print_json, tell

app = typer.Typer(help="List, retry or drop requests that could not be served.", no_args_is_help=True)


@app.command("list")
def dead_list(home: Home = None, as_json: AsJson = False) -> None:
    """Print all dead letters with their reasons."""
    from honeybadger_host.spool.dead_letters import list_dead

    letters = list(list_dead(home_of(home)))
    lines = [f"{letter.reason.get('at', '?'):20}  {letter.name}  {letter.reason.get('reason')}" for letter in letters]
    known = [{"name": letter.name, **letter.reason} for letter in letters]
    tell(known, lines or ["no dead letters"], as_json=as_json)


@app.command("show")
def dead_show(name: str, home: Home = None, as_json: AsJson = False) -> None:
    """Print one dead letter: the reason, then its bytes."""
    from honeybadger_host.spool.dead_letters import find_dead

    letter = find_dead(home_of(home), name)
    if as_json:
        print_json({"name": letter.name, **letter.reason, "text": letter.text})
        return
    print_json(letter.reason)
    print("(it was not a regular file: nothing was kept)" if letter.text is None else ascii(letter.text)[1:-1])


@app.command("retry")
def dead_retry(name: str, home: Home = None) -> None:
    """Put a dead letter back into its inbox, after its cause was mended."""
    from honeybadger_host.spool.dead_letters import find_dead, retry_dead

    folder = home_of(home)
    retry_dead(folder, find_dead(folder, name))
    print(f"{name} is back in its inbox")


@app.command("drop")
def dead_drop(name: str, home: Home = None) -> None:
    """Delete a dead letter permanently."""
    from honeybadger_host.spool.dead_letters import drop_dead, find_dead

    drop_dead(find_dead(home_of(home), name))
    print(f"{name} is gone")
