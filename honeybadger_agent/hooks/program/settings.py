"""Home, group and sender, as `honeybadger-agent install`, the environment and a repository's file choose them."""

from __future__ import annotations

import fcntl
import json
import os

GROUP_FILE = ".honeybadger"
# Files that only a home has: its settings, and the lock of its host. Senders of other users may see only the lock.
HOME_SETTINGS = "config/honeybadger.toml"
HOME_LOCK = "data/host.lock"
HOME_MARKS = (HOME_SETTINGS, HOME_LOCK)


class Refused(Exception):
    """The hook cannot do its work; the message says why and what to do."""


def settings_file(tool: str) -> str:
    """Return the file with the home, group and sender that `honeybadger-agent install` chose."""
    return os.path.join(config_folder(), f"{tool}.json")


def config_folder() -> str:
    """Return the folder of the user's settings. Raises FileNotFoundError: the user has none."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if not config.startswith("/"):
        user = os.environ.get("HOME", os.path.expanduser("~"))  # without HOME the system's list of users
        config = os.path.join(user, ".config")
    if not config.startswith("/"):  # it would be a folder of the repository
        raise FileNotFoundError("you have no folder for it: neither XDG_CONFIG_HOME nor HOME is set")
    return os.path.join(config, "honeybadger")


def settings_of(tool: str) -> dict[str, str]:
    """Return the settings chosen for a tool, if any. Raises Refused if the file is damaged."""
    try:
        with open(settings_file(tool), encoding="utf-8") as file:
            value = json.load(file)
        return {str(name): str(member) for name, member in value.items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, AttributeError) as error:
        again = f"run `honeybadger-agent install {tool}` again"
        raise Refused(f"{settings_file(tool)} cannot be read ({error}): {again}") from None


def group_of(folder: str, default: str) -> str:
    """Return the group of a repository: the line `group = NAME` of the nearest `.honeybadger`, else the default.

    Raises Refused if that file has other lines.
    """
    folder = os.path.abspath(folder)
    while True:
        path = os.path.join(folder, GROUP_FILE)
        try:
            with open(path, encoding="utf-8") as file:
                lines = [line for line in file.read(10_000).splitlines() if line.strip() and line.strip()[0] != "#"]
        except (OSError, UnicodeDecodeError):
            lines = []
        for line in lines:
            name, is_set, value = line.partition("=")
            if is_set and name.strip() == "group":
                return value.strip()
        if lines:
            raise Refused(f"{path} has no line `group = NAME`: nothing was kept or recalled")
        above = os.path.dirname(folder)
        if above == folder:
            return default
        folder = above


def home_of(chosen: dict[str, str]) -> str:
    """Return the home: the chosen one, else `HONEYBADGER_HOME`, else the user's default. Raises Refused."""
    home = chosen.get("home") or os.environ.get("HONEYBADGER_HOME") or default_home()
    if not home:
        raise Refused("there is no home yet: run `honeybadger-host init ~/memory`")
    return home


def default_home() -> str:
    """Return the user's registered default home; empty: there is none, or it cannot be read."""
    try:
        with open(os.path.join(config_folder(), "home"), encoding="utf-8") as file:
            home = file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return home if home.startswith("/") else ""


def has_host(home: str | os.PathLike[str]) -> bool | None:
    """Return whether a host serves a home now, or None if that cannot be seen."""
    try:
        with open(os.path.join(home, HOME_LOCK), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
