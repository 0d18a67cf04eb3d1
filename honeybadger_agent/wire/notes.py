"""Notes and the other files of a group that people read."""

from typing import Annotated

from pydantic import Field, StringConstraints

from honeybadger_agent.wire.base import MAX_NOTE_CHARACTERS, Neutralised, OneLine, Request, Result
from honeybadger_agent.wire.labels import FoundId


class NoteResult(Result):
    file: str = Field(description="The file the note went to, below the group's folder.")
    section: str
    neutralised: Neutralised = Field(default_factory=dict)
    warning: str | None = Field(
        default=None, description="The note is saved; said when the file is more than half as large as is served."
    )
    proposal: str | None = Field(
        default=None, description="Id under which it waits for a person: nothing was written yet."
    )


class UpdateMemory(Request[NoteResult], changes=True, audience="default"):
    """Save a note to the group's persistent memory. Use this when the user asks you to remember something."""

    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] = Field(
        description="The note, 1-32,768 characters. Markdown headings in it are escaped."
    )
    section: OneLine | None = Field(default=None, description="Heading of the note, one line; default `Notes`.")
    pinned: bool | None = Field(default=None, description="True: it is never merged or retired by itself.")


class EditedNote(Result):
    file: str = Field(description="Below the group's folder.")
    id: str = Field(description="Its id from now on.")
    section: str
    neutralised: Neutralised = Field(default_factory=dict)


class EditNote(Request[EditedNote], changes=True, overwrites=True, audience="operator"):
    """Give a note of MEMORY.md another text in its place, signed by whoever asks, or pin it; only the operator may."""

    id: FoundId = Field(
        description="As search shows it. It names the text, too: of a note that changed since: conflict."
    )
    content: Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE_CHARACTERS)] | None = Field(
        default=None, description="The new text, 1-32,768 characters; when it is left out, text and signature stay."
    )
    pinned: bool | None = Field(
        default=None, description="True: `(pinned)` is written behind its text; false: it is taken out of the note."
    )


class Archived(Result):
    id: str
    file: str = Field(description="Where it is now, below the group's folder.")


class ArchiveMemory(Request[Archived], changes=True, overwrites=True, audience="operator"):
    """Move an entry, or a note of MEMORY.md, to the archive: nothing recalls it, `undo` brings it back.

    Only the operator may.
    """

    id: FoundId = Field(description="As search shows it.")


class FileProblem(Result):
    file: str
    message: str


class GroupFilesResult(Result):
    persona: str | None = Field(description="CLAUDE.md, or null when there is none.")
    memory: str | None = Field(description="MEMORY.md, or null when there is none.")
    summary: str | None = Field(description="summary.md, or null when there is none.")
    problems: list[FileProblem] = Field(
        default_factory=list, description="Files that cannot be served, or not whole; the others are not affected."
    )


class ReadGroupFiles(Request[GroupFilesResult]):
    """Read the group's persona, its remembered facts and its conversation summary as they are now."""
