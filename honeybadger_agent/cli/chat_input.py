"""Input of a chat: prompt_toolkit on a terminal, `input` if that is not installed, or a pipe."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from honeybadger_agent.cli.terminal import Screen, shown
from honeybadger_agent.wording import AGENT_EXTRA

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


@dataclass(frozen=True, slots=True)
class Typing:
    """The source of what a person says next, or of the next command.

    Args:
        next: returns the typed text after a prompt, perhaps many lines. Raises EOFError at the end; KeyboardInterrupt:
            it was discarded; UnicodeDecodeError: it is not UTF-8.
        keep: keeps the typed text in the history of the next chat. Raises OSError.
        aside: shows something above the line being typed, if possible; any thread.
    """

    next: Callable[[str], str]
    keep: Callable[[str], None] = lambda typed: None
    aside: Callable[[Callable[[], None]], None] = lambda show: None


def history_path() -> Path:
    """Return the file of the input history: below `XDG_STATE_HOME`, else `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path("~/.local/state").expanduser()
    return base / "honeybadger" / "chat_history"


def open_typing(screen: Screen, commands: Mapping[str, str]) -> Typing:
    """Return prompt_toolkit's editor, or `input` after a hint at the extra.

    Args:
        commands: name -> description, for completion.
    """
    try:
        return _editor(screen, commands)
    except ImportError:
        screen.line(
            f"({AGENT_EXTRA.format('chat')} gives editing of several lines, completion, history, and rendered "
            f"answers.)",
            "dim",
        )
        return Typing(lambda prompt: input(shown(prompt)))


def _editor(screen: Screen, commands: Mapping[str, str]) -> Typing:
    from prompt_toolkit import PromptSession  # takes 0.1 s, and only this needs it
    from prompt_toolkit.application import run_in_terminal
    from prompt_toolkit.application.current import set_app
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.formatted_text import FormattedText
    from prompt_toolkit.history import FileHistory, InMemoryHistory
    from prompt_toolkit.output import ColorDepth

    path = history_path()
    kept = FileHistory(path)
    typed: list[str] = []
    with contextlib.suppress(OSError):  # without a file the history is that of this chat
        typed = list(reversed(list(kept.load_history_strings())))
    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory(typed),
        auto_suggest=AutoSuggestFromHistory(),
        completer=WordCompleter(list(commands), meta_dict=commands, sentence=True),
        complete_while_typing=True,
        reserve_space_for_menu=5,
        key_bindings=_key_bindings(),
        color_depth=None if screen.is_styled else ColorDepth.DEPTH_1_BIT,
    )

    def ask(prompt: str) -> str:
        return session.prompt(FormattedText([("bold" if screen.is_styled else "", shown(prompt))]))

    def keep(typed: str) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        kept.store_string(typed)

    def aside(show: Callable[[], None]) -> None:
        def shown_above() -> None:
            with set_app(session.app):
                run_in_terminal(show)

        if session.app.is_running and session.app.loop is not None:
            with contextlib.suppress(RuntimeError):  # it ended meanwhile
                session.app.loop.call_soon_threadsafe(shown_above)

    return Typing(ask, keep, aside)


def _key_bindings() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def next_line(_: str) -> str:
    """Return the next line of standard input without its end: a message or a command. Raises as `Typing.next`."""
    line = sys.stdin.buffer.readline()
    if not line:
        raise EOFError
    return line.decode().rstrip("\r\n")
