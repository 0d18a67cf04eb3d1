"""Notes and the other files of a group that people read."""

from typing import Annotated

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NOTE_CHARACTERS, Neutralised, OneLine, Request, Result
from honeybadger_agent.wire.labels import FoundId


class NoteResult(Result):
    file: str = Field(description="File of the note, below the group's folder.")
    section: str
    neutralised: Neutralised = Field(default_factory=dict)
    proposal: str | None = Field(
        default=None, description="Id of the proposal that waits for a person; nothing was written yet."
    )


class UpdateMemory(Request[NoteResult], changes=True, audience="default"):
    """Save a note to the group's persistent memory. Use this when the user asks you to remember something."""

    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] = Field(
        description="The note, 1-32,768 characters. Markdown headings in it are escaped."
    )
    section: OneLine | None = Field(default=None, description="Heading of the note, one line; default `Notes`.")
    pinned: bool | None = Field(default=None, description="true: curation never merges or retires it.")


class EditedNote(Result):
    file: str = Field(description="Below the group's folder.")
    id: str = Field(description="New id of the note.")
    section: str
    neutralised: Neutralised = Field(default_factory=dict)


class EditNote(Request[EditedNote], changes=True, overwrites=True, audience="operator"):
    """Replace the text of a note in MEMORY.md in place, signed by the operator, or pin it; only the operator may."""

    id: FoundId = Field(description="Id that search showed; conflict if the note has changed since.")
    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] | None = Field(
        default=None, description="New text, 1-32,768 characters; default: text and signature stay."
    )
    pinned: bool | None = Field(default=None, description="true: add `(pinned)` to the note; false: remove it.")


class Archived(Result):
    id: str
    file: str = Field(description="Its new place, below the group's folder.")


class ArchiveMemory(Request[Archived], changes=True, overwrites=True, audience="operator"):
    """Move an entry or a note of MEMORY.md to the archive: it is no longer recalled; `undo` brings it back.

    Only the operator may.
    """

    id: FoundId = Field(description="Id that search showed.")


class FileProblem(Result):
    file: str
    message: str


class GroupFilesResult(Result):
    persona: str | None = Field(description="CLAUDE.md, or null when there is none.")
    memory: str | None = Field(description="MEMORY.md, or null when there is none.")
    summary: str | None = Field(description="summary.md, or null when there is none.")
    problems: list[FileProblem] = Field(
        default_factory=list, description="Files that cannot be served, or only in part; the others are not affected."
    )


class ReadGroupFiles(Request[GroupFilesResult]):
    """Read the group's persona, its remembered facts and its conversation summary as they are now."""
