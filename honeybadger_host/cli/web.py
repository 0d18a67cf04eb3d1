"""The command `web`: the operators' page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from honeybadger_agent.wording import HOST_EXTRA
from honeybadger_host.cli.options import Home, check_files, home_of
from honeybadger_host.errors import HostError

app = typer.Typer()


@app.command()
def web(
    home: Home = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port on this machine; default: web.port. 0: any free one.")
    ] = None,
    socket: Annotated[Path | None, typer.Option(help="A unix socket to listen on instead.", metavar="PATH")] = None,
    write: Annotated[bool, typer.Option("--write", help="Let the page change memory, talk, and undo.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Serve the operators' page until Ctrl-C. The link that is printed works once.

    If the home's page already runs, print another link to it.
    """
    from honeybadger_host.configuration import load_settings
    from honeybadger_host.observe import configure_logging

    try:
        from honeybadger_host.web.server import serve
    except ImportError as error:
        raise HostError(f"the page needs an extra ({error}): {HOST_EXTRA.format('web')}") from None
    folder = home_of(home)
    check_files(folder)
    settings = load_settings(folder).settings
    configure_logging(settings.log.format, settings.log.level)
    where: Path | int = settings.web.port if port is None else port
    if socket is not None:
        where = folder / socket
    serve(folder, where, lambda line: print(line, flush=True), may_write=write, opens=open_)
