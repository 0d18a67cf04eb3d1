"""Requests about the host itself: ping, groups, undo, rewind and forget."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NOTE_CHARACTERS, MAX_NUMBER, Count, Request, Result
from honeybadger_agent.wire.envelope import Session


class PingResult(Result):
    host_version: str
    protocol: int
    now: str = Field(description="UTC, RFC 3339")
    tools: list[str] | None = Field(
        default=None, description="Types the sender may use, as `config/agents/<sender>.json` lists them; null: all."
    )


class Ping(Request[PingResult], audience="programs"):
    """Ask whether the memory host is there."""


class GroupRow(Result):
    group: str
    senders: list[str] = Field(description="People and agents that have an inbox in it, at most 20 of them.")
    senders_total: int
    notes: int | None = Field(description="In MEMORY.md, as far as it is served; null when it cannot be read.")
    entries: int = Field(description="As far as they are indexed.")
    sessions: int
    last_said: str | None = Field(description="When the newest session changed: UTC, RFC 3339; null: there is none.")
    waiting: int = Field(description="Proposals with something to decide, and those that cannot be read.")
    tokens_today: int = Field(description="What models cost that looked after its memory, in this day of UTC.")


class GroupsResult(Result):
    groups: list[GroupRow] = Field(description="By name.")
    total: int = Field(description="How many there are without `limit` and `offset`.")


class ListGroups(Request[GroupsResult], audience="operator"):
    """List the groups of the home, whichever group is asked in; only the operator may."""

    named: str | None = Field(default=None, max_length=64, description="Only those whose name has this in it.")
    limit: Annotated[int, Field(ge=1, le=200)] | None = Field(default=None, description="Default 50.")
    offset: Count | None = Field(default=None, description="How many to pass over; default 0.")


class Residue(Result):
    file: str = Field(description="Below the home.")
    form: str = Field(description="How it stands there, for people.")


class ForgetResult(Result):
    changes: dict[str, int] = Field(description="Changes in the journal that were emptied, by kind.")
    edits: int = Field(description="Edits by people of which lines were emptied.")
    replies: int = Field(description="Stored replies that quoted it.")
    files: list[str] = Field(description="Files that were written anew.")
    removed: list[str] = Field(description="Replies nobody took, streams and dead letters that were removed.")
    left: list[Residue] = Field(description="Where it still stands below the home.")
    backups: list[str] = Field(description="Copies and archives below the home: they were not changed.")
    dry_run: bool = Field(description="Nothing was changed: this is what would be.")


class Forget(Request[ForgetResult], audience="operator"):
    """Remove something from everywhere, the journal included; only the operator may. Give one of the four."""

    id: str | None = Field(default=None, min_length=1, max_length=64, description="Of an entry, a task or a change.")
    text: str | None = Field(
        default=None, max_length=MAX_NOTE_CHARACTERS, description="Every line that has it goes, whoever wrote it."
    )
    sender: str | None = Field(default=None, max_length=64, description="All that this one said and saved.")
    session: Session | None = Field(default=None, description="What was said in it, and learnt from it.")
    shared: bool = Field(default=False, description="From what every group reads (`global`), not from this group.")
    dry_run: bool = Field(default=False, description="Only tell what would go.")

    @property
    def may_take(self) -> float:
        return 7200.0  # a large journal is written anew, and every byte below the home is read


class UndoResult(Result):
    file: str = Field(description="Below the group's folder; of what is for every group, below the home folder.")
    did: Literal["restored", "put_back", "removed"] = Field(
        description="What was deleted is there again; it has what it held before; it is gone (a note: archived)."
    )


class Undo(Request[UndoResult], changes=True, audience="operator"):
    """Bring back what one change of long-term memory changed; only the operator may."""

    seq: Annotated[int, Field(ge=1, le=MAX_NUMBER)] = Field(description="The change, as `honeybadger-host log` shows.")


class Rewound(Result):
    file: str = Field(description="Below the home folder.")
    did: Literal["restored", "put_back", "removed"] = Field(
        description="It is there again; it has what it held then; it is gone: it was not there then."
    )
    added: int = Field(description="Lines that come.")
    removed: int = Field(description="Lines that go.")


class RewindResult(Result):
    to: int = Field(description="The last change that counts.")
    files: list[Rewound] = Field(description="Each file that is not what it was then.")


class Rewind(Request[RewindResult], changes=True, overwrites=True, audience="operator"):
    """Bring a group's files back to what they held at an earlier moment, by new changes; only the operator may."""

    to: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        description="The number of a change, a date or a time, `yesterday`, or the hash of a context."
    )
    dry_run: bool | None = Field(default=None, description="Say what would be done, and change nothing.")
