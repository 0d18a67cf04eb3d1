"""The host's values: decisions and changes, before they are written and after they are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from honeybadger_agent.wire import Role
from honeybadger_host.text.neutralise import estimate_tokens, history_line

PERSONA: Final = "CLAUDE.md"
MEMORY: Final = "MEMORY.md"
SUMMARY: Final = "summary.md"
HISTORY: Final = "HISTORY.md"
GroupFileName: TypeAlias = Literal["CLAUDE.md", "MEMORY.md", "summary.md"]
ROOT_GLOBAL_FILE: Final = "AGENT.md"
GLOBAL_GROUP_FILE: Final = "groups/global/CLAUDE.md"
ARCHIVE: Final = "archive/MEMORY.md"  # file for notes that leave MEMORY.md
MESSAGES_FOLDER: Final = "data/messages"
TASK_RECORD: Final = "task_record"  # what the journal calls what became of a task; it finds the newest record of each
# How the names of the operator's requests begin that bring in an entry; their receipts are kept for good.
IMPORTED_REQUEST: Final = "imported-"
GROUP_FILES: Final[tuple[GroupFileName, ...]] = (PERSONA, MEMORY, SUMMARY)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was read and parsed: who asked is where it lay.

    Args:
        payload: of the request's type; the table of handlers pairs both.
        digest: SHA-256 of its bytes.
    """

    group: str
    sender: str
    request_id: str
    session: str
    payload: Any
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Identity:
    """An agent's identity, for its context (HB5, AM5).

    Args:
        text: what its entry says; empty when it is not an agent of this home.
        source: where that stands.
        files: more of it, people's Markdown in the order shown, below the home folder or absolute; each may be missing.
        specialists: the agents it can give tasks to, one a line.
    """

    text: str
    source: str
    files: tuple[str, ...] = ()
    specialists: str = ""


NOBODY: Final = Identity("", "")


@dataclass(frozen=True, slots=True)
class ShownContext:
    """The context that an answer was given from: its hash, and the change up to which memory was in it."""

    hash: str
    seq: int


VIA: Final = " via "  # stands between a shown name and the folder of its sender


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation.

    Args:
        number: from 1, in its session.
        sender: who speaks; see `shown_name`.
        by: the sender's folder the turn came from.
        at: UTC.
        context: of an answer; the log has it, who reads a turn from there does not.
        key: under which its program knows it.
        data: JSON that its program keeps with it; as with `context`.
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
        """The speaker's shown name, with the folder if that is another name (HB6)."""
        return self.sender if self.sender in (self.role, self.by) else f"{self.sender}{VIA}{self.by}"

    @cached_property
    def line(self) -> str:
        """The turn in a history, neutralised, with its line end."""
        return history_line(self.shown_name, self.content)

    @cached_property
    def line_tokens(self) -> int:
        return estimate_tokens(self.line)


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
    """Something goes to the end of a file that a group has one of.

    A note that leaves MEMORY.md goes to the archive, signed as it was, with a line that says why, behind the
    `NotesRevised` that removes it.

    Args:
        row_kind: what the journal calls it; likewise below.
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
    """A turn goes to the end of its session's log."""

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
    """Turns of a session are withdrawn, or restored: a line at the end of its log, which keeps the turns, says so.

    Args:
        ranges: first and last number of each run of turns.
    """

    row_kind: MarkedKind
    group: str
    session: str
    ranges: tuple[tuple[int, int], ...]
    data: bytes

    @property
    def file(self) -> str:
        return f"data/sessions/{self.group}/{self.session}.jsonl"


# What a file is that the host writes as a whole: a long-term entry, an entry of working memory, a session document, a
# group's summary.md, how far a session is consolidated, what curation proposes, an entry that was taken up, a task, a
# text of people that the operator took back.
WholeKind: TypeAlias = Literal[
    "entry", "working", "session", "summary", "watermark", "proposal", "archived", "task", "text"
]
REMOVED: Final = "_removed"
NOTE_REMOVED: Final = "note_removed"
NOTE_RESTORED: Final = "note_restored"
EDIT_UNDONE: Final = "edit_undone"
NOTE_EDITED: Final = "note_edited"


@dataclass(frozen=True, slots=True)
class FileWritten:
    """A file gets these bytes, whole.

    Args:
        replaces: what it held when this was decided; None: there was no such file.
        upon: another file whose changes in the same batch are in `data`, too: if they are not taken, this is not.
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
    """A file goes away; the journal keeps what it held.

    Args:
        data: what it held when this was decided.
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
    """Notes leave MEMORY.md or its archive, come back into it, or get another text, or lines of a person's edit are
    taken back; all else in the file stays as it is.

    The first change of its file in a request: a batch takes it only before anything is appended to the file. See
    `storage.revised` for how one is made.

    Args:
        base: what the file held when this was decided; if it holds anything else by then, it stays as it is.
        text: what it will hold.
        data: which notes, and where they stood; what the journal keeps.
    """

    group: str
    file: str
    base: bytes
    text: bytes
    data: bytes
    row_kind: Literal["note_removed", "note_restored", "edit_undone", "note_edited"] = NOTE_REMOVED


Appended: TypeAlias = Added | TurnAdded | TurnsMarked  # `data` goes to the end of `file`, a path below the home folder
Whole: TypeAlias = FileWritten | FileRemoved  # `file`, a path below the home folder, changes as a whole
Change: TypeAlias = Appended | Whole | NotesRevised  # A change that the journal takes


@dataclass(frozen=True, slots=True)
class Outcome:
    """A handler's decision: the answer, and the changes it stands for."""

    result: Mapping[str, Any]
    changes: tuple[Change, ...] = field(default=())


Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True)
class ChangeHandler(Generic[Prepared]):
    """Decides what a request changes.

    Args:
        decide: (asked, prepared, now) -> outcome; runs on the event loop, without I/O; raises `wire.Refusal`.
        prepare: loads what `decide` needs, on a worker thread; what it returns travels with the request and dies with
            it, decided or refused. Raises `wire.Refusal`, WorldFailed.
    """

    decide: Callable[[Asked, Prepared, datetime], Outcome]
    prepare: Callable[[Asked], Prepared]


def without_preparation(decide: Callable[[Asked, datetime], Outcome]) -> ChangeHandler[None]:
    """Return a handler that needs nothing but the request."""
    return ChangeHandler(lambda asked, prepared, now: decide(asked, now), lambda asked: None)


@dataclass(frozen=True, slots=True)
class Injection:
    """The recollections that a context puts before a model.

    Args:
        entries: ids.
        said: id and number in the index of turns and notes.
        turn: number of the turn they were recalled for.
        oldest: number of the oldest turn that is still shown.
    """

    group: str
    session: str
    entries: tuple[str, ...]
    turn: int
    oldest: int
    said: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """A context that was put before a model.

    Args:
        sender: whose it is.
        at: milliseconds since the epoch.
        result: its `ContextResult`.
        injection: what was recalled.
    """

    group: str
    session: str
    sender: str
    at: int
    result: Mapping[str, Any]
    injection: Injection | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a query, and the rows to record about it."""

    result: Mapping[str, Any]
    served: Served | None = None


@dataclass(frozen=True, slots=True)
class QueryHandler:
    """Answers from what is.

    Args:
        answer: (asked, now) -> result; runs on a worker thread, may read, writes nothing; raises `wire.Refusal`.
    """

    answer: Callable[[Asked, datetime], Mapping[str, Any] | Answer]

    def ask(self, asked: Asked, now: datetime) -> Answer:
        """Return what it answers, with what is to be noted of that."""
        answer = self.answer(asked, now)
        return answer if isinstance(answer, Answer) else Answer(answer)


@dataclass(frozen=True, slots=True)
class WaitingHandler:
    """Answers when something has come, or when the time is over. It holds no batch and no thread while it waits.

    Args:
        answer: asked -> result; on the event loop; raises `wire.Refusal`, WorldFailed. Cancelled when the host ends:
            the request stays in its inbox, and the next start asks again. What changes something keeps a receipt, see
            `Pipeline.keep_answer`.
    """

    answer: Callable[[Asked], Awaitable[Mapping[str, Any]]]


# Keeps the answer of one that changed something; see `Pipeline.keep_answer`.
Keeps: TypeAlias = Callable[[Asked, Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The turn to stop, and the requester.

    Args:
        sender: whose turn; None: anybody's.
        turn: its id; None: the one that runs.
        session: then, of this session; None: of any.
    """

    group: str
    sender: str | None
    turn: str | None
    session: str | None
    by: str


@dataclass(slots=True)
class Stop:
    """How a turn is ended early.

    Args:
        scope: what runs in it is cancelled, and the scope left, when somebody asks for that.
        cancel: does it.
        by: who asked.
    """

    scope: AbstractContextManager[object, bool]
    cancel: Callable[[], object]
    by: str = ""

    def ask(self, by: str) -> None:
        self.by = self.by or by
        self.cancel()


@dataclass(frozen=True, slots=True)
class TurnUnderWay:
    """A turn of an agent, while it runs.

    Args:
        name: unlike that of any other turn; of request ids' characters, at most 80.
        attempt: 2 and more after an end of the host cut it short.
        steps: what was kept by attempts before, oldest first.
        keep: makes one more step durable, a line of JSON. Raises WorldFailed, StorageFailed.
        show: passes a line of JSON on to who waits for the answer; lost when that is impossible.
        stop: the answer is made in its scope, so that it can be ended.
    """

    name: str
    attempt: int
    steps: Sequence[bytes]
    keep: Callable[[bytes], Awaitable[None]]
    show: Callable[[bytes], None]
    stop: Stop


@dataclass(frozen=True, slots=True)
class TurnHandler:
    """Runs an agent's turn, which takes its time. One that came through `requests/` is asked for by another turn, and
    does not wait in a turn queue.

    Args:
        run: (asked, turn) -> what decides the changes it ends with; on the event loop; raises `wire.Refusal`,
            WorldFailed.
    """

    run: Callable[[Asked, TurnUnderWay], Awaitable[ChangeHandler[Any]]]


Handler: TypeAlias = ChangeHandler[Any] | QueryHandler | WaitingHandler | TurnHandler
