"""Where the lines of a chat come from: prompt_toolkit on a terminal, readline where that is missing, or a pipe."""

from __future__ import annotations

import contextlib
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from honeybadger_agent.cli.terminal import Screen, painted, shown

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completer
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


class Typing(Protocol):
    """Asks a person for the next thing to do."""

    def next(self, prompt: str) -> str:
        """Return what was typed, perhaps many lines. Raises EOFError: no more; KeyboardInterrupt: not this one."""
        ...


@dataclass(frozen=True, slots=True)
class Keys:
    """How a terminal treats what is typed: as it was before the chat, and as it is between two prompts."""

    before: list[Any]
    between: list[Any]

    def use(self, mode: list[Any]) -> None:
        """Switch; what was typed and not read yet stays."""
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, mode)


@contextlib.contextmanager
def quiet_keys() -> Iterator[Keys]:
    """Keep what is typed while an answer comes for the next prompt, out of the middle of the text; Ctrl-C works."""
    fd = sys.stdin.fileno()
    keys = Keys(termios.tcgetattr(fd), termios.tcgetattr(fd))
    keys.between[3] &= ~(termios.ECHO | termios.ICANON)
    ended = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    keys.use(keys.between)
    try:
        yield keys
    finally:
        keys.use(keys.before)
        signal.signal(signal.SIGTERM, ended)


def open_typing(screen: Screen, commands: Mapping[str, str], history: Sequence[str], keys: Keys) -> Typing:
    """Return prompt_toolkit's editor, or readline's after a line that says what the extra would give.

    Args:
        commands: name -> what it does, for completion.
        history: what was typed before, oldest first.
    """
    try:
        return _editor(screen, commands, history)
    except ImportError:
        screen.line(
            "(pip install 'honeybadger-agent[chat]', or with the host 'honeybadger-host[chat]', gives editing of "
            "several lines, completion and suggestions.)",
            "dim",
        )
        return _Readline(screen, commands, history, keys)


def _editor(screen: Screen, commands: Mapping[str, str], history: Sequence[str]) -> Typing:
    from prompt_toolkit import PromptSession  # 0.1 s, and a library that only this needs
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.formatted_text import FormattedText
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.output import ColorDepth

    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory(history),
        auto_suggest=AutoSuggestFromHistory(),
        completer=_completer(commands),
        complete_while_typing=True,
        reserve_space_for_menu=5,
        key_bindings=_key_bindings(),
        color_depth=None if screen.is_styled else ColorDepth.DEPTH_1_BIT,
    )

    class Editor:
        def next(self, prompt: str) -> str:
            return session.prompt(FormattedText([("bold" if screen.is_styled else "", shown(prompt))]))

    return Editor()


def _completer(commands: Mapping[str, str]) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    class Commands(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            typed = document.text_before_cursor
            if typed.startswith("/"):
                for name, does in commands.items():
                    if name.startswith(typed):
                        yield Completion(name, -len(typed), display_meta=does)

    return Commands()


def _key_bindings() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class _Readline:
    """The line editor of Python, where it was built with one."""

    def __init__(self, screen: Screen, commands: Mapping[str, str], history: Sequence[str], keys: Keys) -> None:
        self._screen, self._keys = screen, keys
        try:
            import readline
        except ImportError:
            return
        readline.set_auto_history(True)
        for text in history:
            readline.add_history(text)
        readline.set_completer(_completes(commands))
        readline.set_completer_delims("")
        readline.parse_and_bind("tab: complete")

    def next(self, prompt: str) -> str:
        prompt = shown(prompt)
        if self._screen.is_styled:
            begin, end = painted("\0", "bold").split("\0")
            prompt = f"\x01{begin}\x02{prompt}\x01{end}\x02"  # readline does not count what is between those
        self._keys.use(self._keys.before)  # it shows what is typed only where the terminal would
        try:
            return input(prompt)
        finally:
            self._keys.use(self._keys.between)


def _completes(commands: Mapping[str, str]) -> Callable[[str, int], str | None]:
    def complete(typed: str, number: int) -> str | None:
        names = [name for name in commands if name.startswith(typed)] if typed.startswith("/") else []
        return names[number] if number < len(names) else None

    return complete


class Piped:
    """Lines of standard input, one message or command each."""

    def next(self, prompt: str) -> str:
        """Return the next line without its end. Raises EOFError; UnicodeDecodeError: it is not UTF-8."""
        line = sys.stdin.buffer.readline()
        if not line:
            raise EOFError
        return line.decode().rstrip("\r\n")
