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
        default=None, description="Request types that `config/agents/<sender>.json` allows the sender; null: all."
    )


class Ping(Request[PingResult], audience="programs"):
    """Ask whether the memory host is there."""


class GroupRow(Result):
    group: str
    senders: list[str] = Field(description="Senders that have an inbox in it, at most 20.")
    senders_total: int
    notes: int | None = Field(description="Notes in MEMORY.md, as far as it is served; null: it cannot be read.")
    entries: int = Field(description="Entries indexed so far.")
    sessions: int
    last_said: str | None = Field(description="Time of the newest turn: UTC, RFC 3339; null: there is none.")
    waiting: int = Field(description="Proposals that wait for a decision or cannot be read.")
    tokens_today: int = Field(description="Tokens that curation of its memory used today (UTC).")


class GroupsResult(Result):
    groups: list[GroupRow] = Field(description="Sorted by name.")
    total: int = Field(description="Number of matches, regardless of `limit` and `offset`.")


class ListGroups(Request[GroupsResult], audience="operator"):
    """List all groups of the home; only the operator may."""

    named: str | None = Field(default=None, max_length=64, description="Only groups whose name contains this.")
    limit: Annotated[int, Field(ge=1, le=200)] | None = Field(default=None, description="Default 50.")
    offset: Count | None = Field(default=None, description="Number to skip; default 0.")


class Residue(Result):
    file: str = Field(description="Path below the home folder.")
    form: str = Field(description="The place where it was found, in words.")


class ForgetResult(Result):
    changes: dict[str, int] = Field(description="Number of changes erased from the journal, by kind.")
    edits: int = Field(description="Number of people's edits from which lines were erased.")
    replies: int = Field(description="Number of stored replies that quoted it.")
    files: list[str] = Field(description="Files that were rewritten.")
    removed: list[str] = Field(description="Number of uncollected replies, streams and dead letters that were removed.")
    left: list[Residue] = Field(description="Places below the home folder where it was still found.")
    backups: list[str] = Field(description="Copies and archives below the home folder, which were not changed.")
    dry_run: bool = Field(description="true: nothing was changed; this is what would be.")


# It rewrites the journal and reads every byte below the home.
class Forget(Request[ForgetResult], changes=True, audience="operator", takes_seconds=7200):
    """Remove something from everywhere, the journal included; only the operator may. Give one of the four."""

    id: str | None = Field(
        default=None, min_length=1, max_length=64, description="Id of an entry or a task, or the number of a change."
    )
    text: str | None = Field(
        default=None,
        max_length=MAX_NOTE_CHARACTERS,
        description="Every line that contains it is removed, whoever wrote it.",
    )
    sender: str | None = Field(default=None, max_length=64, description="Everything that this sender said and saved.")
    session: Session | None = Field(
        default=None, description="Everything that was said in this session and learnt from it."
    )
    shared: bool = Field(
        default=False, description="Forget from `global`, which every group reads, instead of this group."
    )
    dry_run: bool = Field(default=False, description="Only report what would be removed.")


class UndoResult(Result):
    file: str = Field(description="Below the group's folder; for `global` and profiles below the home folder.")
    did: Literal["restored", "put_back", "removed"] = Field(
        description="restored: a deleted file is back; put_back: it has its earlier content; removed: it is gone "
        "(a note: archived)."
    )


class Undo(Request[UndoResult], changes=True, audience="operator"):
    """Take back one change of long-term memory; only the operator may."""

    seq: Annotated[int, Field(ge=1, le=MAX_NUMBER)] = Field(
        description="Number of the change, as `honeybadger-host log` shows it."
    )


class Rewound(Result):
    file: str = Field(description="Below the home folder.")
    did: Literal["restored", "put_back", "removed"] = Field(
        description="restored: a deleted file is back; put_back: it has its earlier content; removed: it was not there."
    )
    added: int = Field(description="Lines added.")
    removed: int = Field(description="Lines removed.")


class RewindResult(Result):
    to: int = Field(description="Number of the last change that is kept.")
    files: list[Rewound] = Field(description="Files that differ from that moment.")


class Rewind(Request[RewindResult], changes=True, overwrites=True, audience="operator"):
    """Return a group's files to an earlier moment, by new changes; only the operator may."""

    to: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        description="The number of a change, a date or a time, `yesterday`, or the hash of a context."
    )
    dry_run: bool | None = Field(default=None, description="Report what would be done, and change nothing.")
