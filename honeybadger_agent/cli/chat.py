"""`honeybadger-agent chat`: talk with an agent of a group, and look into its memory.

On a terminal it is for people; between pipes it reads one message per line and prints only the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from honeybadger_agent import wire
from honeybadger_agent.cli.chat_answer import (
    TAKEN_BACK,
    Message,
    Showing,
    answer_to,
    stopped_answer,
)
from honeybadger_agent.cli.chat_input import Typing, next_line, open_typing
from honeybadger_agent.cli.explaining import done_told, explanation_of, hit_lines
from honeybadger_agent.cli.following import Heard
from honeybadger_agent.cli.terminal import Screen, complain, takes_styles
from honeybadger_agent.client import Client, SyncClient
from honeybadger_agent.errors import (
    AgentError,
    NoMailbox,
    RateLimited,
    ReplyTimeout,
    Unavailable,
    words_of,
)
from honeybadger_agent.mailbox import TURNS, checked_name, checked_session, new_id
from honeybadger_agent.tools import made
from honeybadger_agent.turn.dispatch import Memory
from honeybadger_agent.wire import ChatResult
from honeybadger_agent.wording import meant, sentence


@dataclass(slots=True)
class Chat:
    """One chat.

    Args:
        speaker: the name shown in the history; None: the sender.
        is_for_people: on a terminal; else only answers are printed.
        notes: ids of notes that got no reply, so that a repeated note is saved once.
        unanswered: messages whose answer is still to come, or may come after a passing failure, oldest first.
        typed_ahead: lines typed while an answer came.
        answered: session and turn of the newest answer.
        exit_code: of the first failure.
    """

    client: Client
    screen: Screen
    typing: Typing
    speaker: str | None
    agent: str | None
    timeout_seconds: float
    is_for_people: bool
    notes: Memory
    unanswered: dict[str, Message] = field(default_factory=dict)
    typed_ahead: list[str] = field(default_factory=list)
    answered: tuple[str, int | None] = ("", None)
    exit_code: int = 0
    is_over: bool = False
    heard: Heard | None = None  # reads arriving messages; None: nobody is watching

    # ------------------------------------------------------------------------------------------------------- its life

    def run(self) -> int:
        """Talk until the input ends; return the exit code."""
        if self.is_for_people:
            box = self.client.mailbox.root
            self.screen.line(f"group {box.parent.name} · session {self.client.session} · /help", "dim")
            self.heard = Heard(SyncClient(box=box), lambda: self.typing.aside(self._show_heard))
        try:
            self._talk()
        finally:
            if self.heard is not None:
                self.heard.close()
        for request_id in self.unanswered:
            if self.client.mailbox.is_waiting(request_id, TURNS):
                self._note(f"Not answered yet: honeybadger-agent answer {request_id}")
        return self.exit_code

    def _talk(self) -> None:
        while not self.is_over:
            try:
                typed = self.typed_ahead.pop(0) if self.typed_ahead else self._typed()
                if typed.strip():
                    self._take(typed.strip())
            except EOFError:
                break
            except KeyboardInterrupt:
                if not self.is_for_people:
                    raise
                self.screen.line("(Ctrl-D leaves.)", "dim")
            except UnicodeDecodeError as error:
                self._failed(f"standard input is not UTF-8 at byte {error.start} of a line", 2)

    def _show_heard(self) -> None:
        if self.heard is not None:
            for line in self.heard.lines():
                self.screen.line(line, "who" if line.startswith("[") else None)

    def _typed(self) -> str:
        self._show_heard()
        return self.typing.next(f"{self.speaker or 'you'}> " if self.is_for_people else "")

    def _take(self, typed: str) -> None:
        """Run a command or send a message. `//` begins a message with a slash."""
        if typed.startswith("/") and not typed.startswith("//"):
            name, _, rest = typed.partition(" ")
            command = _COMMANDS.get("/quit" if name == "/exit" else name)
            if command is None:
                near = meant(name.removeprefix("/"), (known.removeprefix("/") for known in _COMMANDS))
                self._failed(f"There is no {name}" + (f"; /{near}?" if near else ": /help lists the commands"), 2)
                return
            try:
                command.does(self, rest.strip())
            except AgentError as error:
                self._complain(error)
            return
        content = typed[1:] if typed.startswith("//") else typed
        message = Message(new_id(), content, self.client.session, self.speaker, self.agent)
        if (result := self._wait_for(message)) is not None:
            self._keep(typed, result.neutralised)

    # -------------------------------------------------------------------------------------------------------- answers

    def _wait_for(self, message: Message) -> ChatResult | None:
        """Show the answer to a message and return it; None if there is none now, and the reason was shown."""
        showing = Showing(self.screen, is_looked_on=self.is_for_people)
        self.unanswered[message.request_id] = message
        try:
            try:
                result = asyncio.run(self._answer_or_stop(message, showing))
            except (KeyboardInterrupt, asyncio.CancelledError):
                showing.end_text()
                stopped = self._stopped(message)
                if not self.is_for_people:
                    raise
                if stopped is None:
                    return None
                result = stopped
        except AgentError as error:
            showing.end_text()
            if not isinstance(error, ReplyTimeout | Unavailable | RateLimited | NoMailbox):
                del self.unanswered[message.request_id]
            self._complain(error, message)
            return None
        del self.unanswered[message.request_id]
        showing.finish(result)
        self.answered = message.session, result.turn or None
        return result

    async def _answer_or_stop(self, message: Message, showing: Showing) -> ChatResult:
        """Wait for an answer; meanwhile `/stop` ends it, and other typed lines are kept for later."""

        def note(text: str) -> None:
            showing.end_text()  # the redrawn text would hide it
            self._note(text)

        seconds = self.timeout_seconds
        waiting = asyncio.ensure_future(answer_to(message, self.client, showing, note, timeout_seconds=seconds))
        if not self.is_for_people:
            return await waiting
        loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()

        def read() -> None:
            typed = os.read(keyboard, io.DEFAULT_BUFFER_SIZE).decode(errors="replace")
            for line in typed.splitlines():
                if line.strip() == "/stop":
                    waiting.cancel()
                else:
                    self.typed_ahead.append(line)
            if not typed:  # Ctrl-D
                loop.remove_reader(keyboard)

        loop.add_reader(keyboard, read)
        try:
            return await waiting
        finally:
            loop.remove_reader(keyboard)

    def _stopped(self, message: Message) -> ChatResult | None:
        """Withdraw a message whose answer has not begun; else stop the answer and return its text so far.

        Raises AgentError if its outcome is unknown.
        """
        try:
            result = stopped_answer(SyncClient(box=self.client.mailbox.root), message.request_id)
        except KeyboardInterrupt:
            self._note(f"Not waiting any more. Later: honeybadger-agent answer {message.request_id}")
            return None
        if result is None:
            del self.unanswered[message.request_id]
            self._note(f"{TAKEN_BACK[0].upper()}{TAKEN_BACK[1:]}.")
        return result

    # ------------------------------------------------------------------------------------------------ what is said back

    def _note(self, text: str) -> None:
        if self.is_for_people:
            self.screen.line(text, "warning")
        else:
            complain(text)

    def _complain(self, error: AgentError, message: Message | None = None) -> None:
        """Explain an error and its remedy in plain words.

        Args:
            message: the one that failed, if any.
        """
        again = "/answer asks again." if message is not None and message.request_id in self.unanswered else ""
        text = sentence(words_of(error).replace("payload.", "").removesuffix(", so you may ask again"))
        self._failed(f"{text} {again}".strip(), error.exit_code)

    def _failed(self, text: str, exit_code: int) -> None:
        self.exit_code = self.exit_code or exit_code
        if self.is_for_people:
            self.screen.line(text, "error")
            self.exit_code = 0  # a person has read it
        else:
            self._note(text)

    def _keep(self, typed: str, neutralised: Mapping[str, int] | None = None) -> None:
        """Keep the typed text for the next chat, unless the host found a credential in it."""
        if not self.is_for_people or (neutralised and "secrets" in neutralised):
            return
        with contextlib.suppress(OSError):
            self.typing.keep(typed)

    # ------------------------------------------------------------------------------------------------------- commands

    def remember(self, text: str) -> None:
        if not text:
            self._failed("/remember what?", 2)
            return
        note = asyncio.run(self.notes.ask(made(wire.UpdateMemory, text)))
        self.screen.line(done_told(note, f"Saved in {note.file}, section {note.section}"))
        self._keep(f"/remember {text}", note.neutralised)

    def context(self, message: str) -> None:
        for line in explanation_of(asyncio.run(self.client.get_context(message or None))):
            self.screen.line(line)

    def memory(self, _: str) -> None:
        files = asyncio.run(self.client.read_group_files())
        for problem in files.problems:
            self.screen.line(f"{problem.file} cannot be read: {problem.message}", "warning")
        self.screen.line((files.memory or "Nothing is remembered yet.").strip("\n"))

    def search(self, query: str) -> None:
        for line in hit_lines(asyncio.run(self.client.search_memory(query or None))):
            self.screen.line(line)

    def choose_agent(self, name: str) -> None:
        self.agent = checked_name("agent", name) if name else None
        self._told(f"From now on the agent {name} answers." if name else "The host chooses who answers.")

    def choose_session(self, name: str) -> None:
        if name:
            self.client.session = checked_session(name)
        self._told(f"Session {self.client.session}.")

    def new(self, name: str) -> None:
        self.choose_session(name or time.strftime("chat-%Y%m%d-%H%M%S"))

    def clear(self, name: str) -> None:
        if self.screen.is_styled:
            self.screen.out.write("\x1b[H\x1b[2J\x1b[3J")
        self.new(name)

    def answer(self, request_id: str) -> None:
        if not self.unanswered:
            self._told("Nothing is unanswered.")
            return
        message = self.unanswered.get(request_id) or next(iter(self.unanswered.values()))
        if (result := self._wait_for(message)) is not None:
            self._keep(message.content, result.neutralised)
            if self.unanswered:
                self._told(f"{len(self.unanswered)} more: /answer")

    def good(self, why: str) -> None:
        self._judge("praise", why)

    def bad(self, why: str) -> None:
        self._judge("correction" if why else "complaint", why)

    def _judge(self, kind: wire.FeedbackKind, why: str) -> None:
        """Record feedback on the newest answer of this chat, or of the session."""
        session, turn = self.answered
        kept = asyncio.run(
            self.client.record_feedback(kind, why or None, turn if session == self.client.session else None)
        )
        self.screen.line("Recorded." if kept.turn is None else f"Recorded for turn {kept.turn}.", "dim")
        self._keep(f"/{'good' if kind == 'praise' else 'bad'} {why}".strip(), kept.neutralised)

    def stop(self, _: str) -> None:
        stopped = asyncio.run(self.client.stop_turn())
        self._told("It had already ended." if stopped.state == "finished" else "Stopped.")

    def help(self, _: str) -> None:
        width = max(len(command.usage) for command in _COMMANDS.values())
        for command in _COMMANDS.values():
            self.screen.line(f"{command.usage:{width}}  {command.what}")
        if self.is_for_people:
            self.screen.line(
                "Ctrl-C and /stop end an answer and keep what was said; a message that nobody has begun to answer "
                "is taken back. Ctrl-D leaves, Alt-Enter begins a new line."
            )

    def quit(self, _: str) -> None:
        self.is_over = True

    def _told(self, text: str) -> None:
        if self.is_for_people:
            self.screen.line(text, "dim")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a chat."""

    usage: str
    what: str
    does: Callable[[Chat, str], None]


_COMMANDS: Mapping[str, Command] = {
    command.usage.partition(" ")[0]: command
    for command in (
        Command("/remember TEXT", "save a note", Chat.remember),
        Command("/memory", "print MEMORY.md", Chat.memory),
        Command("/search QUERY", "search what is remembered and what was said", Chat.search),
        Command("/context [MESSAGE]", "explain what the agent would be told", Chat.context),
        Command("/agent [NAME]", "who answers; without a name the host chooses", Chat.choose_agent),
        Command("/session NAME", "change the conversation", Chat.choose_session),
        Command("/new [NAME]", "begin a new conversation; the earlier one stays", Chat.new),
        Command("/clear", "clear the screen and begin a new conversation", Chat.clear),
        Command("/good [WHY]", "the answer was good", Chat.good),
        Command("/bad [WHY]", "it was not; say what was wrong, and what to do instead", Chat.bad),
        Command("/stop", "end the answer that is being written in this session", Chat.stop),
        Command("/answer", "wait again for an answer that was not waited for", Chat.answer),
        Command("/help", "this", Chat.help),
        Command("/quit", "leave", Chat.quit),
    )
}


def talk(client: Client, *, speaker: str | None, agent: str | None, timeout_seconds: float) -> int:
    """Chat on standard input and output; return the exit code."""
    is_for_people = sys.stdin.isatty() and sys.stdout.isatty()
    screen = Screen(sys.stdout, is_styled=is_for_people and takes_styles(sys.stdout))

    def chat(typing: Typing) -> int:
        return Chat(client, screen, typing, speaker, agent, timeout_seconds, is_for_people, Memory(client)).run()

    if not is_for_people:
        return chat(Typing(next_line))
    return chat(open_typing(screen, {name: command.what for name, command in _COMMANDS.items()}))
