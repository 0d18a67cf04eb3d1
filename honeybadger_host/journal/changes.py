"""The changes that the journal takes: decided by handlers, applied to files by stores. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from honeybadger_host.files.home import ARCHIVE, HISTORY, MEMORY, MESSAGES_FOLDER
from honeybadger_host.text.turn import Turn

TASK_RECORD: Final = "task_record"  # the kind of rows that record a task's runs
AddedKind: TypeAlias = Literal["note", "history", "note_archived", "feedback", "message", "task_record"]
_ADDED_TO: Final[Mapping[AddedKind, str]] = {
    "note": f"groups/%s/{MEMORY}",
    "history": f"groups/%s/{HISTORY}",
    "note_archived": f"groups/%s/{ARCHIVE}",
    "feedback": "data/feedback/%s.jsonl",
    "message": f"{MESSAGES_FOLDER}/%s.jsonl",
    "task_record": "data/tasks/%s.jsonl",
}


@dataclass(frozen=True, slots=True)
class Added:
    """Bytes are appended to a file that each group has one of.

    A note that leaves MEMORY.md is appended to the archive with its signature and a reason, after the `NotesRevised`
    that removes it.

    Args:
        row_kind: the kind of its row in the journal.
    """

    row_kind: AddedKind
    group: str
    file: str
    data: bytes

    @classmethod
    def of(cls, kind: AddedKind, group: str, data: bytes) -> Added:
        return cls(kind, group, _ADDED_TO[kind] % group, data)


@dataclass(frozen=True, slots=True)
class TurnAdded:
    """A turn is appended to the log of its session."""

    row_kind: ClassVar[str] = "turn"
    group: str
    session: str
    turn: Turn
    data: bytes

    @property
    def file(self) -> str:
        return f"data/sessions/{self.group}/{self.session}.jsonl"


MarkedKind: TypeAlias = Literal["turns_withdrawn", "turns_restored"]


@dataclass(frozen=True, slots=True)
class TurnsMarked:
    """Turns of a session are withdrawn or restored. The log keeps them; a line at its end says so.

    Args:
        ranges: first and last number of each range of turns.
    """

    row_kind: MarkedKind
    group: str
    session: str
    ranges: tuple[tuple[int, int], ...]
    data: bytes

    @property
    def file(self) -> str:
        return f"data/sessions/{self.group}/{self.session}.jsonl"


# Kinds of files that are written whole. `watermark`: how far a session is consolidated. `archived`: an entry that was
# merged into another. `text`: a person's file that the operator took back to an earlier text.
WholeKind: TypeAlias = Literal[
    "entry", "working", "session", "summary", "watermark", "proposal", "archived", "task", "text"
]
REMOVED: Final = "_removed"
NOTE_REMOVED: Final = "note_removed"
NOTE_RESTORED: Final = "note_restored"
EDIT_UNDONE: Final = "edit_undone"
NOTE_EDITED: Final = "note_edited"
RevisedKind: TypeAlias = Literal["note_removed", "note_restored", "edit_undone", "note_edited"]


@dataclass(frozen=True, slots=True)
class FileWritten:
    """A whole file is written.

    Args:
        replaces: the file's bytes when this was decided; None: there was no such file.
        upon: another file that `data` depends on: if its changes in the same batch fail, this one fails, too.
    """

    group: str
    kind: WholeKind
    file: str
    data: bytes
    replaces: bytes | None
    upon: str | None = None

    @property
    def row_kind(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class FileRemoved:
    """A file is removed; the journal keeps its bytes.

    Args:
        data: the file's bytes when this was decided.
    """

    group: str
    kind: WholeKind
    file: str
    data: bytes

    @property
    def row_kind(self) -> str:
        return f"{self.kind}{REMOVED}"


@dataclass(frozen=True, slots=True)
class NotesRevised:
    """Notes of a file that the host adds to are removed, restored or edited, or lines of an edit are undone.

    It must be the first change of its file in a request: a batch takes it only before anything is appended to the file.
    `documents.revising` makes one.

    Args:
        base: the file's bytes when this was decided; if the file has changed since then, nothing is written.
        text: the file's new bytes.
        data: the lines that take the place of others, as the journal keeps them.
    """

    group: str
    file: str
    base: bytes
    text: bytes
    data: bytes
    row_kind: RevisedKind


# `file` of each is a path below the home folder.
Appended: TypeAlias = Added | TurnAdded | TurnsMarked  # `data` is appended to `file`
Whole: TypeAlias = FileWritten | FileRemoved
Change: TypeAlias = Appended | Whole | NotesRevised
