"""Finds the host's home folder: named, above the current folder, or the user's default; and a sender's mailbox in it.

Standard library only.

Clients look for it and never make one. `honeybadger-host init` registers the user's default home. If no host serves the
home above the current folder, such as a checkout, but one serves the default home, that is used.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from honeybadger_agent.errors import NoHome, NoMailbox
from honeybadger_agent.hooks.program.settings import HOME_MARKS, HOME_SETTINGS, config_folder, default_home, has_host
from honeybadger_agent.mailbox import REQUESTS, Mailbox

HOME_VARIABLE = "HONEYBADGER_HOME"


def find_home(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the home: `given`, else `HONEYBADGER_HOME`, else the nearest one above, else the user's default.

    The default comes first if a host serves it and no host serves the one above; a warning names both.

    Raises NoHome, whose message says where it was looked for, and what to do now.
    """
    named = os.environ.get(HOME_VARIABLE) if given is None else os.fspath(given)
    if given is not None or named:
        folder = Path(named or "")
        if not named or _mark_of(folder) is None:
            where = f"{HOME_VARIABLE} is {named}, which" if given is None else f"{str(named)!r}"
            raise NoHome(f"{where} is not a Honeybadger home: {_why_not(folder, named)}. {_advice(named)}")
        return folder
    above = home_above(Path.cwd())
    if above is not None:
        return prefer_served(above)
    default = usable_default()
    if default is None:
        gone = default_home()
        says = f"names {gone}, which is not one" if gone else "names none"
        file = "the file of your default home"
        with contextlib.suppress(FileNotFoundError):
            file = str(default_file())
        raise NoHome(
            f"no Honeybadger home was found: neither --home nor {HOME_VARIABLE} names one, {Path.cwd()} is not one "
            f"and not in one, and {file} {says}. {_advice(None)}"
        )
    return default


def home_above(folder: Path) -> Path | None:
    """Return the nearest home at or above `folder`. Raises NoHome if it belongs to another user.

    Otherwise anybody who may write to a folder above, such as /tmp, could collect other users' memories.
    """
    for candidate in (folder, *folder.parents):
        if (mark := _mark_of(candidate)) is not None:
            owner = mark.stat().st_uid
            if owner not in (os.geteuid(), 0):
                raise NoHome(
                    f"{candidate} is a Honeybadger home of another user (uid {owner}): name it with --home or "
                    f"{HOME_VARIABLE} if you mean it"
                )
            return candidate
    return None


def prefer_served(around: Path) -> Path:
    """Return the home around the current folder, or the default home if a host serves only that one; then warn."""
    default = usable_default()
    if default is None or has_host(around) is not False or not has_host(default):
        return around
    import logging  # most calls do not need it

    logging.getLogger(__name__).warning(
        "Using your default home %s: no host serves %s, which is around the current folder. To use that one, name it "
        "with --home (in a program: home=) or %s.",
        default,
        around.absolute(),
        HOME_VARIABLE,
    )
    return default


def default_file() -> Path:
    """Return the file that names the user's default home. Raises FileNotFoundError: the user has no folder for it."""
    return Path(config_folder(), "home")


def usable_default() -> Path | None:
    """Return the user's default home, or None if there is none, or it is no longer a home."""
    default = Path(default_home())
    return default if default.is_absolute() and _mark_of(default) is not None else None


def register_home(home: Path) -> Path:
    """Make a home the user's default, unless another one is; return the default. Raises OSError."""
    if (default := usable_default()) is not None:
        return default
    file, home = default_file(), home.absolute()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    temporary.write_text(f"{home}\n", encoding="utf-8")
    temporary.replace(file)
    return home


def _mark_of(folder: Path) -> Path | None:
    """Return a file that shows that a folder is a home, or None if none can be seen."""
    return next((folder / mark for mark in HOME_MARKS if os.path.isfile(folder / mark)), None)


def _why_not(folder: Path, named: str | None) -> str:
    if not named:
        return "it is empty"
    try:
        os.stat(folder / HOME_SETTINGS)
    except FileNotFoundError:
        return f"{HOME_SETTINGS} is missing" if folder.is_dir() else "there is no such folder"
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    return f"{HOME_SETTINGS} is not a file"


def _advice(named: str | None) -> str:
    from shlex import quote  # for this message alone

    return (
        f"Name a home with --home (in a program: home=) or {HOME_VARIABLE}, or make one: "
        f"`honeybadger-host init {quote(named) if named else '~/memory'}`"
    )


def box_in(home: str | os.PathLike[str] | None, group: str | None, sender: str | None) -> Mailbox:
    """Return the mailbox of a sender in a home. Raises `NoHome`, `BadName`."""
    return Mailbox.of(find_home(home), named(group, "GROUP", "main"), named(sender, "SENDER", "user"))


def box_at(box: str | os.PathLike[str]) -> Mailbox:
    """Return the mailbox in a folder. Raises `NoMailbox` if the folder does not exist, or has other files."""
    root = Path(box)
    why = "it is empty"
    if os.fspath(box):
        try:
            if (root / REQUESTS).is_dir() or not os.listdir(root):
                return Mailbox(root)
            why = f"it has other files and no {REQUESTS}/"
        except OSError as error:
            why = error.strerror or "it cannot be read"
    raise NoMailbox(
        f"{os.fspath(box)!r} is not a mailbox: {why}. Mount the sender's folder there: data/ipc/<group>/<sender> below "
        f"the home folder"
    )


def named(given: str | None, variable: str, default: str) -> str:
    """Return a name that was given, else the environment's. An empty argument counts as given."""
    return os.environ.get(f"HONEYBADGER_{variable}") or default if given is None else given
