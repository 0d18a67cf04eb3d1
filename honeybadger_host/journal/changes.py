"""The changes that the journal takes, and what decisions see of a batch of them.

Handlers decide changes. A store shows a decision the state after all that was decided before it (`view`, whose
arguments differ from store to store); it reads what it shows when a decision of the batch first asks for it. It notes
each change when it is decided (`apply`), and drops these when the batch is over (`end_batch`). One batch at a time.
`WholeFiles` is the store of files that change as a whole: the host replaces or removes only the very bytes it has seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, Protocol, TypeAlias, get_args

from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.home import ARCHIVE, HISTORY, MEMORY, MESSAGES_FOLDER
from honeybadger_host.files.safe_files import (
    NotRegular,
    closing_fd,
    kind_of,
    make_folders,
    needed,
    open_plain,
    path_in,
    read_all,
    replace,
)
from honeybadger_host.text.turn import Turn

TASK_RECORD: Final = "task_record"  # the kind of rows that record a task's runs
# Turns of a session are withdrawn or restored: the log keeps them, and a line at its end says so.
MarkedKind: TypeAlias = Literal["turns_withdrawn", "turns_restored"]
MARKED = get_args(MarkedKind)
AddedKind: TypeAlias = Literal["note", "history", "note_archived", "feedback", "message", "task_record"]
_ADDED_TO: Mapping[AddedKind, str] = {
    "note": f"groups/%s/{MEMORY}",
    "history": f"groups/%s/{HISTORY}",
    "note_archived": f"groups/%s/{ARCHIVE}",
    "feedback": "data/feedback/%s.jsonl",
    "message": f"{MESSAGES_FOLDER}/%s.jsonl",
    "task_record": "data/tasks/%s.jsonl",
}


@dataclass(frozen=True, slots=True)
class Added:
    """Bytes to append to a file of a group, such as its MEMORY.md, or a mark to append to the log of a session.

    A note that leaves MEMORY.md is appended to the archive with its signature and a reason, after the `NotesRevised`
    that removes it.

    Args:
        row_kind: the kind of its row in the journal.
    """

    row_kind: AddedKind | MarkedKind
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


# Kinds of files that are written whole. `watermark`: how far a session is consolidated. `archived`: an entry that was
# merged into another. `text`: a person's file that the operator took back to an earlier text.
WholeKind: TypeAlias = Literal[
    "entry", "working", "session", "summary", "watermark", "proposal", "archived", "task", "text"
]
REMOVED = "_removed"
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
    `documents.history` makes one.

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
Appended: TypeAlias = Added | TurnAdded  # `data` is appended to `file`
Whole: TypeAlias = FileWritten | FileRemoved
Change: TypeAlias = Appended | Whole | NotesRevised


class Store(Protocol):
    """The store of one kind of file while a batch is decided."""

    def apply(self, change: Change) -> None:
        """Take in a change that was decided and is not written yet; those of other stores are passed over."""

    def end_batch(self, written: Sequence[Change]) -> None:
        """Drop applied changes and keep the written ones, which are fewer if something was refused or failed."""


class UnitOfWork:
    """All stores, told of every change."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores

    def apply(self, changes: Sequence[Change]) -> None:
        """Show these changes to later decisions."""
        for change in changes:
            for store in self._stores:
                store.apply(change)

    def end_batch(self, written: Sequence[Change]) -> None:
        """End the batch."""
        for store in self._stores:
            store.end_batch(written)


ABSENT = -1  # the fingerprint of no file
# Kinds of rows that replace a whole file; `Row.offset` is the fingerprint of its earlier content.
WHOLE_KINDS = frozenset(kind + end for kind in get_args(WholeKind) for end in ("", REMOVED))


class WholeFiles:
    """Whole files while a batch is decided, and their writing after the journal's commit.

    See the module for `view`, `apply` and `end_batch`.

    Args:
        read: returns the newest version of a file, see `Saves.current`.
    """

    def __init__(self, home: Path, read: Callable[[str], bytes | None] | None = None) -> None:
        self._home = home
        self.read = read or (lambda file: read_whole(path_in(home, file)))
        # Held to load and to write: what a decision has seen stays as it is until that is written.
        self._lock = threading.Lock()
        self._held: dict[str, bytes | None] = {}

    def view(self, file: str) -> bytes | None:
        """Return the content of a file after all changes decided so far, or None if there is none.

        Raises WorldFailed if something that is not a file is in its place.
        """
        with self._lock:
            if file not in self._held:
                self._held[file] = self.read(file)
            return self._held[file]

    def below(self, folder: str) -> list[str]:
        """Return the files below a folder, of those that decisions saw or made, that are there after all of them."""
        return [file for file, data in self._held.copy().items() if data is not None and file.startswith(f"{folder}/")]

    def named(self, folder: str, name: str) -> list[str]:
        """Return those of a name; see `below`."""
        return [file for file in self.below(folder) if file.endswith(f"/{name}")]

    def apply(self, change: Change) -> None:
        """Take in a change that was decided and is not written yet."""
        if isinstance(change, FileWritten):
            self._held[change.file] = change.data
        elif isinstance(change, FileRemoved):
            self._held[change.file] = None
        elif isinstance(change, NotesRevised):
            self._held[change.file] = change.text
        elif change.file in self._held:  # a reader has the file that is appended to
            self._held[change.file] = (self._held[change.file] or b"") + change.data

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Roll back at the end the changes applied within: a decision may have several, each based on the last."""
        before = dict(self._held)
        try:
            yield
        finally:
            self._held = before

    def end_batch(self, written: Sequence[Change]) -> None:
        """Forget everything: the next batch reads what it needs."""
        self._held.clear()

    def refresh(self, file: str, data: bytes, replaces: bytes) -> bool:
        """Give a file what the journal has by other rows, if it still holds `replaces`; return whether it was written.

        Only in the writer's place, or for a file that no batch has loaded. Durable at once: a change that replaces it
        must find it after a power cut. Raises WorldFailed.
        """
        path = path_in(self._home, file)
        with self._lock:
            if file in self._held or read_whole(path) != replaces:
                return False
            try:
                replace(path, data, mode=stat.S_IMODE(os.stat(path).st_mode) & 0o777)
            except OSError as error:
                raise WorldFailed(f"cannot write {file}: {error.strerror}") from error
            return True


def read_whole(path: Path | str) -> bytes | None:
    """Return the content of a file, or None if there is none. Raises WorldFailed."""
    with needed(path):
        try:
            fd, status = open_plain(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with closing_fd(fd):
            return read_all(fd, status.st_size)


def fingerprint(data: bytes | None) -> int:
    """Return 63 bits that tell what a file held; `ABSENT` for no file."""
    return ABSENT if data is None else int.from_bytes(hashlib.sha256(data).digest()[:8]) >> 1


def row_offset(change: Whole | NotesRevised) -> int:
    """Return the fingerprint of what a change replaces or removes."""
    match change:
        case FileWritten(replaces=held) | FileRemoved(data=held) | NotesRevised(base=held):
            return fingerprint(held)


def make_room(path: Path) -> None:
    """Make the folders of a file and see that nothing but a file is in its place. Raises WorldFailed."""
    with needed(path):
        make_folders(path.parent)
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(path, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode):
                raise NotRegular(kind_of(mode))
