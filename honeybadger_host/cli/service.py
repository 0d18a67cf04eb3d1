"""Commands about the processes of a home: `service …`, and `web`, the operators' page."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from honeybadger_agent.home import usable_default
from honeybadger_agent.wording import HOST_EXTRA
from honeybadger_host.cli.shared import HomeWithFiles
from honeybadger_host.configuration import environment_home, load_settings, user_folders
from honeybadger_host.errors import HostError
from honeybadger_host.ops import systemd

app = typer.Typer(rich_markup_mode=None)
service_app = typer.Typer(help="Run the host as a systemd service.", no_args_is_help=True)
app.add_typer(service_app, name="service")


OfUser = Annotated[bool, typer.Option("--user", help="A service of your own, without root.")]


def _plan(home: Path | None, is_user: bool, is_closed: bool, command: Path | None) -> systemd.Plan:
    if is_user and is_closed:
        raise typer.BadParameter("a service of your own cannot serve other users' boxes: leave out --user or --closed")
    user_home, config_home = user_folders()
    folder = home or environment_home()
    if folder is None and is_user:
        folder = usable_default() or user_home / ".local/share/honeybadger"
    folder = (folder or systemd.SYSTEM_HOME).absolute()
    print(f"the service serves the home {folder}", file=sys.stderr)
    program = systemd.find_program() if command is None else command.absolute()
    if is_user:
        return systemd.plan_user(folder, program, user_home, config_home)
    plan = systemd.plan_system(folder, program, is_closed=is_closed)
    if command is None:
        systemd.check_visible(Path(sys.base_prefix))
    return plan


@service_app.command("install")
def service_install(
    home: Annotated[
        Path | None,
        typer.Option("--home", help="Home folder; default /var/lib/honeybadger; with --user your default home."),
    ] = None,
    user: OfUser = False,
    closed: Annotated[bool, typer.Option("--closed", help="For closed mode with senders of other users.")] = False,
    command: Annotated[Path | None, typer.Option("--command", help="The program to start; default: this one.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done.")] = False,
) -> None:
    """Write the systemd unit and its files, and start it if systemd runs. Earlier files are kept as *.old."""
    plan = _plan(home, user, closed, command)
    if dry_run:
        print(systemd.show(plan), end="")
        return
    for path in systemd.write(plan):
        print(f"wrote {path}")
    if systemd.is_booted():
        systemd.run(plan.commands)
        print(f"{systemd.UNIT} runs; see: systemctl {'--user ' if user else ''}status {systemd.UNIT}")
    else:
        print("systemd does not run here. Where it does, run:")
        for line in plan.commands:
            print(f"  {shlex.join(line)}")
    print(plan.hint)


@service_app.command("uninstall")
def service_uninstall(user: OfUser = False) -> None:
    """Stop the service and remove the files of `service install`. The home and its user stay."""
    _, config_home = user_folders()
    files = [systemd.user_unit(config_home)] if user else systemd.SYSTEM_FILES
    systemctl = ["systemctl", *(["--user"] if user else [])]
    is_live = systemd.is_booted()
    if is_live and any(path.exists() for path in files):
        systemd.run([[*systemctl, "disable", "--now", systemd.UNIT]])
    removed = systemd.remove(files)
    for path in removed:
        print(f"removed {path}")
    if not removed:
        print("there is nothing to remove")
    if is_live and removed:
        systemd.run([[*systemctl, "daemon-reload"]])
    print("the home folder, with everything that was remembered, stays where it is")


@app.command()
def web(
    home: HomeWithFiles,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port on this machine; default: web.port. 0: any free one.")
    ] = None,
    socket: Annotated[Path | None, typer.Option(help="A unix socket to listen on instead.", metavar="PATH")] = None,
    write: Annotated[bool, typer.Option("--write", help="Let the page change memory, talk, and undo.")] = False,
) -> None:
    """Serve the operators' page until Ctrl-C. The link that is printed works once.

    If the home's page already runs, print another link to it.
    """
    from honeybadger_host.observe import configure_logging

    try:
        from honeybadger_host.web.server import serve
    except ImportError as error:
        raise HostError(f"the page needs an extra ({error}): {HOST_EXTRA.format('web')}") from None
    settings = load_settings(home).settings
    configure_logging(settings.log.format, settings.log.level)
    where: Path | int = settings.web.port if port is None else port
    if socket is not None:
        where = home / socket
    serve(home, where, lambda line: print(line, flush=True), may_write=write)
