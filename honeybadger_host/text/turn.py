"""One turn of a conversation, and its line in a history. Pure."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from honeybadger_agent.wire import Role
from honeybadger_host.text.neutralise import estimate_tokens, history_line


@dataclass(frozen=True, slots=True)
class ShownContext:
    """The context that an answer was given from: its hash, and the number of the last change that it includes."""

    hash: str
    seq: int


VIA = " via "  # between a shown name and the sender's folder


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation.

    Args:
        number: from 1, in its session.
        at: UTC.
        sender: the speaker; see `shown_name`.
        by: the folder of the sender that the turn came from.
        context: of an answer; written to the log, not read from it.
        key: the key that its program gave it, unique in the session.
        data: JSON that its program keeps with it; read from the log only to compare it.
    """

    number: int
    at: datetime
    role: Role
    sender: str
    by: str
    content: str
    token_count: int
    tools_used: tuple[str, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    context: ShownContext | None = None
    key: str | None = None
    data: str | None = None

    @property
    def shown_name(self) -> str:
        """The speaker's name, followed by the sender's folder if that is another name (HB6)."""
        return self.sender if self.sender in (self.role, self.by) else f"{self.sender}{VIA}{self.by}"

    @cached_property
    def line(self) -> str:
        """The turn in a history, neutralised, with its line end."""
        return history_line(self.shown_name, self.content)

    @cached_property
    def line_tokens(self) -> int:
        return estimate_tokens(self.line)
