"""The host as a systemd service: a plan of files and commands, which `write` and `run` carry out."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from honeybadger_host.errors import HostError
from honeybadger_host.files.safe_files import replace

UNIT = "honeybadger-host.service"
USER = "honeybadger"
SYSTEM_HOME = Path("/var/lib/honeybadger")
SYSTEM_UNIT = Path("/etc/systemd/system") / UNIT
_DROP_IN = SYSTEM_UNIT.with_name(f"{UNIT}.d") / "closed.conf"
_TMPFILES = Path("/etc/tmpfiles.d/honeybadger.conf")
_SYSUSERS = Path("/etc/sysusers.d/honeybadger.conf")
SYSTEM_FILES = (SYSTEM_UNIT, _DROP_IN, _TMPFILES, _SYSUSERS)  # that `service install` may have written
# Folders that ProtectHome= and PrivateTmp= hide from the service.
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108  named, not used
_PLAIN = re.compile(r"/[\w./@:+-]*", re.ASCII)  # paths that need no quoting in a unit


@dataclass(frozen=True, slots=True)
class Plan:
    """The files and commands that make a service.

    Args:
        files: path and text, in the order of writing; readable by all.
        commands: to run when the files are there.
        hint: a suggestion for the operator.
    """

    files: tuple[tuple[Path, str], ...]
    commands: tuple[tuple[str, ...], ...]
    hint: str = ""


def plan_system(home: Path, command: Path, *, is_closed: bool = False) -> Plan:
    """Return the plan of a service for the whole machine, run by the user `honeybadger`. Raises HostError: bad path."""
    for path in (home, command):
        _check_plain(path)
        check_visible(path)
    is_state = home == SYSTEM_HOME
    values = {
        "HOME": str(home),
        "COMMAND": str(command),
        "MODE": "0711" if is_closed else "0700",
        "WRITABLE": "StateDirectory=honeybadger\nStateDirectoryMode=0700" if is_state else f"ReadWritePaths={home}",
        "PASSABLE": "StateDirectoryMode=0711" if is_state else f"# {home} is 0711, see tmpfiles.d",
    }
    files = [
        (SYSTEM_UNIT, _render("system.service", values)),
        (_TMPFILES, _render("tmpfiles.conf", values)),
        (_SYSUSERS, _render("sysusers.conf", values)),
    ]
    if is_closed:
        files.append((_DROP_IN, _render("closed.conf", values)))
    return Plan(
        tuple(files),
        (
            ("systemd-sysusers", str(_SYSUSERS)),
            ("systemd-tmpfiles", "--create", str(_TMPFILES)),
            ("runuser", "-u", USER, "--", str(command), "init", str(home)),
            ("systemctl", "daemon-reload"),
            ("systemctl", "enable", UNIT),
            ("systemctl", "restart", UNIT),
        ),
        "put your changes into a drop-in: systemctl edit honeybadger-host",
    )


def plan_user(home: Path, command: Path, user_home: Path, config_home: Path) -> Plan:
    """Return the plan of a service for one user. Raises HostError: bad path."""
    for path in (home, command, user_home):
        _check_plain(path)
    values = {"HOME": _from_home(home, user_home), "COMMAND": _from_home(command, user_home)}
    return Plan(
        ((user_unit(config_home), _render("user.service", values)),),
        (
            (str(command), "init", str(home)),
            ("systemctl", "--user", "daemon-reload"),
            ("systemctl", "--user", "enable", UNIT),
            ("systemctl", "--user", "restart", UNIT),
        ),
        "to keep it running while you are not logged in: loginctl enable-linger",
    )


def user_unit(config_home: Path) -> Path:
    return config_home / "systemd" / "user" / UNIT


def find_program() -> Path:
    """Return the path of `honeybadger-host` in this Python environment. Raises HostError."""
    found = Path(sys.executable).with_name("honeybadger-host")
    if not os.access(found, os.X_OK):
        raise HostError(f"there is no {found}: name the program with --command")
    return found


def show(plan: Plan) -> str:
    """Return the files and commands of a plan as text."""
    parts = [f"# {path}\n{text}" for path, text in plan.files]
    parts.append("".join(f"$ {shlex.join(command)}\n" for command in plan.commands))
    return "\n".join(parts)


def write(plan: Plan) -> list[Path]:
    """Write the files of a plan; return those that changed. Raises HostError.

    An earlier file with another text is kept as `<name>.old`.
    """
    written: list[Path] = []
    for path, text in plan.files:
        try:
            with contextlib.suppress(FileNotFoundError):
                if path.read_text() == text:
                    continue
                replace(path.with_name(f"{path.name}.old"), path.read_bytes(), mode=0o644)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            replace(path, text.encode(), mode=0o644)
        except OSError as error:
            raise HostError(
                f"cannot write {path}: {error.strerror}; run it as root, or make a service of your own with --user"
            ) from None
        written.append(path)
    return written


def remove(files: Sequence[Path]) -> list[Path]:
    """Remove files of a service; return the ones that existed. Raises HostError."""
    removed: list[Path] = []
    for path in files:
        try:
            path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(f"cannot remove {path}: {error.strerror}; run it as root, or with --user") from None
        removed.append(path)
    with contextlib.suppress(OSError):  # it has the operator's own drop-ins, or does not exist
        _DROP_IN.parent.rmdir()
    return removed


def run(commands: Sequence[Sequence[str]]) -> None:
    """Run commands one after another. Raises HostError if one failed; the following ones were not run."""
    for command in commands:
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)  # noqa: S603  ours
        except OSError as error:
            raise HostError(f"cannot run {shlex.join(command)}: {error.strerror}") from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise HostError(f"{shlex.join(command)}: {said or f'exit code {done.returncode}'}")


def is_booted() -> bool:
    """Return whether systemd runs this machine (sd_booted)."""
    return os.path.isdir("/run/systemd/system")


def check_visible(path: Path) -> None:
    """Raise HostError if a service of the whole machine cannot see a path."""
    hidden = next((folder for folder in _HIDDEN if path.is_relative_to(folder)), None)
    if hidden is not None:
        raise HostError(
            f"{path}: the service cannot see {hidden} (ProtectHome=, PrivateTmp=); use /var/lib for the home, and /opt "
            f"or /usr for the program and its Python, as `/usr/bin/python3 -m venv /opt/honeybadger`, or --user"
        )


def _from_home(path: Path, user_home: Path) -> str:
    return f"%h/{path.relative_to(user_home)}" if path.is_relative_to(user_home) else str(path)


def _check_plain(path: Path) -> None:
    if not _PLAIN.fullmatch(str(path)):
        raise HostError(f"{path}: a path in a unit must be absolute, of letters, digits and ._/@:+- only")


def _render(name: str, values: dict[str, str]) -> str:
    text = (resources.files("honeybadger_host") / "templates" / "systemd" / name).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text
