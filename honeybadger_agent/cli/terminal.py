"""Terminal output: text without control sequences, and a few styles."""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import sys
import threading
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from honeybadger_agent.wording import in_words

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.markdown import Markdown

# Unicode categories of characters that move the cursor, hide or reorder text, or end a line.
_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
_HARMLESS = "\n\t\u00ad\u200c\u200d"  # scripts and emoji need joiners; a soft hyphen is invisible
_STYLES: Mapping[str, str] = {
    "dim": "2",
    "who": "1;36",
    "mark": "36",
    "good": "32",
    "warning": "33",
    "error": "31",
}
_SILENT_SECONDS = 2.0  # before a wait is shown
_CLEAR = "\r\x1b[2K"


def prepare_process() -> None:
    """Prepare the process of a command of either program.

    Of a standard stream that the caller has closed (`>&-`) nothing is read, and what is written is lost.
    """
    gc.set_threshold(100_000)  # imported modules are no garbage: looking through them takes a fifth of a call
    atexit.register(gc.freeze)  # at its end, too
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  until the program ends
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may be no UTF-8, and terminals without Unicode
        sys.stdout.reconfigure(errors="backslashreplace")


def shown(text: str) -> str:
    """Return `text` with control characters escaped, such as `\\x1b`: a model or a tool may print anything."""
    if text.isprintable():
        return text
    return "".join(ascii(character)[1:-1] if _is_obeyed(character) else character for character in text)


def json_shown(text: str) -> str:
    """Return JSON with control characters escaped as JSON does, so that it stays valid."""
    return "".join(json.dumps(character)[1:-1] if _is_obeyed(character) else character for character in text)


def _is_obeyed(character: str) -> bool:
    return character not in _HARMLESS and unicodedata.category(character) in _OBEYED


def here(text: str) -> str:
    """Return the text to print: unchanged in a pipe, escaped on a terminal."""
    return shown(text) if sys.stdout.isatty() else text


def complain(message: str) -> None:
    """Write an error to stderr, as one line of `honeybadger-agent`."""
    line = " ".join(message.split())
    who = painted("honeybadger-agent:", "error", sys.stderr)
    sys.stderr.write(f"{who} {shown(line) if sys.stderr.isatty() else line}\n")
    sys.stderr.flush()


def painted(text: str, style: str, out: TextIO) -> str:
    """Return a text in a style if `out` takes it."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if takes_styles(out) else text


def takes_styles(out: TextIO) -> bool:
    """Return whether `out` takes colours: a terminal that is not dumb, unless `NO_COLOR` is set."""
    return out.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("NO_COLOR")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of results; on a terminal, lines that begin with an [id] are highlighted."""
    for line in lines:
        print(painted(here(line), "mark", sys.stdout) if line.startswith("[") else here(line))


@contextmanager
def patience(doing: str = "waiting for the host") -> Iterator[None]:
    """Show on a terminal what is being done, and for how long, from the third second on."""
    began, is_over = time.monotonic(), threading.Event()

    def tell() -> None:
        is_shown = False
        while not is_over.wait(1.0 if is_shown else _SILENT_SECONDS):
            is_shown = True
            waited = in_words(time.monotonic() - began)
            print(f"{_CLEAR}{doing} ({waited})", end="", file=sys.stderr, flush=True)
        if is_shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=tell, daemon=True)
    if sys.stderr.isatty():
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        if thread.is_alive():
            thread.join()


@dataclass(slots=True)
class Screen:
    """A terminal for output in pieces; knows whether a line has begun. Also shows a text that comes in pieces."""

    out: TextIO
    is_styled: bool
    is_line_begun: bool = False

    def feed(self, text: str) -> None:
        if text:
            self.out.write(shown(text))
            self.out.flush()
            self.is_line_begun = not text.endswith("\n")

    def line(self, text: str, style: str | None = None) -> None:
        self.end()
        safe = shown(text)
        if style is not None and self.is_styled:
            safe = f"\x1b[{_STYLES[style]}m{safe}\x1b[0m"
        self.out.write(f"{safe}\n")
        self.out.flush()

    def end(self) -> None:
        """End the line that has begun."""
        if self.is_line_begun:
            self.feed("\n")


def open_text(screen: Screen) -> Screen | Rendered:
    """Return the output for a text: plain, or rendered by `rich` if it is installed and styles are wanted."""
    if screen.is_styled:
        try:
            return Rendered()
        except ImportError:
            pass
    return screen


class Rendered:
    """The last lines of a text while it comes, and all of it as Markdown at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._text = ""
        self._is_over = False
        self._live = Live(
            console=Console(highlight=False, markup=False, emoji=False),
            get_renderable=self._now,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def feed(self, text: str) -> None:
        self._text += shown(text)

    def end(self) -> None:
        self._is_over = True
        self._live.stop()

    def _now(self) -> RenderableType:
        return markdown(self._text) if self._is_over else _Tail(self._text)


@dataclass(slots=True)
class _Tail:
    """The end of a plain text that fits on the screen."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> list[RenderableType]:
        from rich.text import Text

        lines = Text(self.text).wrap(console, options.max_width)
        return [Text("\n").join(lines[-max(1, console.height - 1) :])]


def markdown(text: str) -> Markdown:
    """Return an escaped text as Markdown to render; nothing is hidden, and entities are not decoded."""
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    made = Markdown(text, hyperlinks=False, code_theme="ansi_dark")
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    made.parsed = parser.disable(["html_block", "html_inline", "reference", "image", "entity"]).parse(text)
    for block in made.parsed:
        if block.type == "fence" and not block.content:  # else the words after the marks would be lost
            block.content, block.info = f"{block.info}\n", ""
        for part in block.children or ():
            if part.type == "softbreak":  # keep the line ends of a chat
                part.type = "hardbreak"
    return made
