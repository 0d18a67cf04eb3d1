"""What may reach a terminal: text without anything it would obey, and the few styles that are ours."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

from honeybadger_agent.cli.wrapping import Wrap

_OBEYED: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of what moves a cursor, hides, turns or ends a line."""
_HARMLESS: Final = "\n\t\u00ad\u200c\u200d"
"""Joiners belong to scripts and emoji, a soft hyphen is not seen."""

RESET: Final = "\x1b[0m"
STYLES: Final[Mapping[str, str]] = {
    "dim": "\x1b[2m",
    "bold": "\x1b[1m",
    "who": "\x1b[1;36m",
    "code": "\x1b[33m",
    "mark": "\x1b[36m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
}


def shown(text: str) -> str:
    """Return `text` with what a terminal would obey written out, as `\\x1b`: a model or a tool may print anything."""
    if text.isprintable():
        return text
    return "".join(ascii(character)[1:-1] if _is_obeyed(character) else character for character in text)


def json_shown(text: str) -> str:
    """Return JSON with the same written out as JSON does it, so that it still is that."""
    return "".join(json.dumps(character)[1:-1] if _is_obeyed(character) else character for character in text)


def _is_obeyed(character: str) -> bool:
    return character not in _HARMLESS and unicodedata.category(character) in _OBEYED


def complain(message: str) -> None:
    """Write what went wrong to stderr, as one line of `honeybadger-agent`."""
    line = " ".join(message.split())
    sys.stderr.write(f"honeybadger-agent: {shown(line) if sys.stderr.isatty() else line}\n")
    sys.stderr.flush()


def painted(text: str, style: str) -> str:
    """Return `text` in one of `STYLES`."""
    return f"{STYLES[style]}{text}{RESET}" if text else ""


def takes_styles(out: TextIO) -> bool:
    """Return whether colours are wanted there: on a terminal that is not dumb, unless `NO_COLOR` says no."""
    return out.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("NO_COLOR")


@dataclass(slots=True)
class Screen:
    """A terminal that is written to piece by piece; knows whether its line has begun."""

    out: TextIO
    is_styled: bool
    is_line_begun: bool = False

    @property
    def columns(self) -> int | None:
        """How wide it is now; None where that is not known."""
        try:
            return os.get_terminal_size(self.out.fileno()).columns or None
        except (OSError, ValueError):
            return None

    def write(self, text: str) -> None:
        """Write text that is `shown` already, perhaps with our styles in it, and show it now."""
        if text:
            self.out.write(text)
            self.out.flush()
            self.is_line_begun = not text.endswith("\n")

    def line(self, text: str, style: str | None = None) -> None:
        """Write anything as lines of their own; it is made harmless here."""
        self.fresh_line()
        safe = shown(text)
        self.write((painted(safe, style) if style is not None and self.is_styled else safe) + "\n")

    def paragraph(self, text: str, style: str, *, indent: int) -> None:
        """Write anything as one line, broken between words where it is too long."""
        columns = self.columns
        wrap = Wrap(None if columns is None else max(columns - indent, 1))
        broken = wrap.feed(shown(text)) + wrap.end()
        self.line(broken.replace("\n", "\n" + " " * indent), style)

    def fresh_line(self) -> None:
        """End the line when one has begun."""
        if self.is_line_begun:
            self.write("\n")
