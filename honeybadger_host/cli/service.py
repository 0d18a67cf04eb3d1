"""Commands about systemd: `service …`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    pass

app = typer.Typer(help="The host as a systemd service.", no_args_is_help=True)


@app.command("install")
def service_install(
    home: Annotated[
        Path | None, typer.Option(help="Home folder; default /var/lib/honeybadger, or ~/.local/share/honeybadger.")
    ] = None,
    user: Annotated[bool, typer.Option("--user", help="A service of your own, without root.")] = False,
    closed: Annotated[bool, typer.Option("--closed", help="For closed mode with senders of other users.")] = False,
    command: Annotated[Path | None, typer.Option(help="The program to start; default: this one.")] = None,
    root: Annotated[Path, typer.Option(help="Write below this folder and run nothing, as for an image.")] = Path("/"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written and run.")] = False,
) -> None:
    """Write the systemd unit and what it needs, then start it, where systemd runs. What was there is kept as *.old."""
    from honeybadger_host.ops import systemd
    from honeybadger_host.settings import environment_home, user_folders

    if user and closed:
        raise typer.BadParameter("a service of your own cannot serve other users' boxes: leave out --user or --closed")
    user_home, config_home = user_folders()
    folder = home or environment_home() or (systemd.default_user_home(user_home) if user else systemd.SYSTEM_HOME)
    program = systemd.find_program() if command is None else command.absolute()
    if user:
        plan = systemd.plan_user(folder.absolute(), program, user_home, config_home)
    else:
        plan = systemd.plan_system(folder.absolute(), program, is_closed=closed)
        if command is None:
            systemd.check_visible(Path(sys.base_prefix))
    if dry_run:
        print(systemd.show(plan), end="")
        return
    for path in systemd.write(plan, root):
        print(f"wrote {path}")
    if systemd.is_booted() and root == Path("/"):
        systemd.run(plan.commands)
        print(f"{systemd.UNIT} runs; see: systemctl {'--user ' if user else ''}status {systemd.UNIT}")
    else:
        print("systemd does not run here. Where it does, run:")
        for line in plan.commands:
            print(f"  {shlex.join(line)}")
    print(plan.hint)
