"""What several commands take and print."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import orjson
import typer

from honeybadger_host.errors import HomeError, SettingsError
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.text.wording import in_words

_SILENT_SECONDS: Final = 2.0
_CLEAR: Final = "\r\x1b[2K"

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Home folder; default HONEYBADGER_HOME, else the one you are in, else yours."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="A setting for this run, as log.level=debug; may be repeated.")
]


def home_of(given: Path | None) -> Path:
    """Return the home a command is about: the one that is named, else as clients find it. Raises HomeError."""
    from honeybadger_agent.errors import NoHome
    from honeybadger_agent.home import find_home
    from honeybadger_host.settings import environment_home

    named = given or environment_home()
    if named is None and not Path("groups").is_dir():  # enough for a host, though not for who looks for one
        try:
            named = find_home()
        except NoHome as error:
            raise HomeError(str(error)) from None
    return (named or Path()).absolute()


def flags_of(overrides: list[str] | None) -> dict[str, Any]:
    """Return what `--set` says. Raises SettingsError."""
    flags: dict[str, Any] = {}
    for item in overrides or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"--set {item}: write name=value, as --set log.level=debug")
        flags[name] = value
    return flags


def print_json(value: Any) -> None:
    """Print a value for programs."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())


def paint(text: str, colour: str, out: TextIO | None = None) -> str:
    """Return a text in a colour, on a terminal on which colours are wanted."""
    from honeybadger_host.settings import wants_colour

    return typer.style(text, fg=colour) if wants_colour(out or sys.stdout) else text


@contextlib.contextmanager
def patience(doing: Callable[[], str]) -> Iterator[Callable[[], None]]:
    """Say on a terminal, from the third second on, what is being done and for how long already.

    Args:
        doing: asked every second, from another thread.
    Yields:
        What takes that line away, before something else is printed.
    """
    began, is_over, is_shown = time.monotonic(), threading.Event(), False

    def tell() -> None:
        nonlocal is_shown
        while not is_over.wait(1.0 if is_shown else _SILENT_SECONDS):
            is_shown = True
            print(f"{_CLEAR}{doing()} ({in_words(time.monotonic() - began)})", end="", file=sys.stderr, flush=True)

    def hush() -> None:
        if is_shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=tell, daemon=True)
    if sys.stderr.isatty():
        thread.start()
    try:
        yield hush
    finally:
        is_over.set()
        if thread.is_alive():
            thread.join()
        hush()


def moment(milliseconds: int) -> str:
    """Return milliseconds since the epoch as UTC, RFC 3339."""
    return time_stamp(datetime.fromtimestamp(milliseconds / 1000, UTC))
