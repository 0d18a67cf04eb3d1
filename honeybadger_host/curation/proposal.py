"""A proposal: operations on a group's memory, each with its evidence and its gates, as a file that people edit. Pure.

`groups/<group>/proposals/<id>.json`. A proposal by a model or by rules changes nothing itself: gates check it, then it
is applied or waits for a person (docs/decisions/040-curation-copies.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import ConfigDict, Field, PlainSerializer, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from honeybadger_agent.mailbox import NAME
from honeybadger_agent.wire import Category, FoundId, Session, Title, shaped
from honeybadger_host.memory.edited import Count, Edited, Texts, Time, checked, read_json
from honeybadger_host.memory.entries.entry import show_time
from honeybadger_host.settings import CuratedKind

RULES = "rules"  # `by` of a proposal that no model made
ONLY_A_PERSON = "only a person retires"  # `waits` of each retirement
MAX_TEXT = 65_536  # characters of a result: twice those of the longest note or entry that an agent may save

Op: TypeAlias = Literal["add", "merge", "retire", "refine", "write_history", "write_summary", "write"]
# `refused`: a gate refused it. `struck`: a person does not want it. `stale`: a source has changed.
OperationState: TypeAlias = Literal["waiting", "applied", "refused", "struck", "stale"]
# States whose operations are counted for people.
COUNTED: tuple[OperationState, ...] = ("applied", "waiting", "refused", "stale")
GateName: TypeAlias = Literal[
    "not_copied",
    "not_a_person",
    "protected",
    "too_much",
    "too_few",
    "forgotten",
    "no_change",
]
_At: TypeAlias = Annotated[Time, PlainSerializer(show_time)]
_Name: TypeAlias = Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")]
_Digest: TypeAlias = Annotated[str, shaped("[0-9a-f]{64}", "a SHA-256: 64 hexadecimal digits")]
_Number: TypeAlias = Annotated[Count, Field(ge=1)]


class Part(Edited):
    """A part of a proposal, or of an answer that becomes one; an unknown member is an error."""

    model_config = ConfigDict(extra="forbid")


class Evidence(Part):
    """A quote from a turn, byte for byte.

    Args:
        by, at: who spoke, and when.
        is_cut: the quote ends before the turn does.
    """

    session: Session
    turn: _Number
    quote: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    by: str = ""
    at: _At | None = None
    is_cut: bool = False

    @property
    def place(self) -> tuple[str, int]:
        return self.session, self.turn


class FailedGate(Part):
    """The name of a gate that refuses, and its reason for a person."""

    gate: str
    what: str


class Gates(Part):
    """The results of the last check of an operation; empty when it was never checked."""

    passed: Texts = ()
    failed: Annotated[tuple[FailedGate, ...], Field(strict=False)] = ()

    def refuse(self, *gates: GateName) -> bool:
        """Return whether one of these gates refused."""
        return any(each.gate in gates for each in self.failed)


class WriteAsked(Part):
    """A write that a sender asked for, in a group whose writes are reviewed."""

    type: Literal["update_memory", "save_memory", "edit_memory", "delete_memory", "change_many"]
    session: Session
    payload: dict[str, Any]


class Operation(Part):
    """One proposed change.

    Args:
        n: its number in the proposal.
        sources: ids of entries (`k3v9x2m4q7p1`) and of notes (`MEMORY.md#4f0c21`) that it replaces, retires or refines.
            An `add` is only linked to them: it corrects them, or is a part of one.
        result: the new text; None when nothing new is written.
        category, tags, aliases, title, metadata: labels of the entry that it makes or refines; without a category, the
            result is a note in the section `title`.
        evidence: the quotes of people that the result copies.
        by: the model that wrote the result; empty when code copied it.
        waits: why a person has to accept it; empty when nothing is against it.
        write: the request, for the op `write`; `result` is its text, if it has one.
    """

    n: _Number
    op: Op
    sources: Annotated[tuple[FoundId, ...], Field(strict=False, max_length=1000)] = ()
    result: Annotated[str, StringConstraints(max_length=MAX_TEXT)] | None = None
    category: Category | None = None
    tags: Texts = ()
    aliases: Texts = ()
    title: Title | None = None
    metadata: dict[str, Any] = Field(default={})
    evidence: Annotated[tuple[Evidence, ...], Field(strict=False, max_length=1000)] = ()
    by: str = ""
    waits: str = ""
    why: str = ""
    write: WriteAsked | None = None
    gates: Gates = Gates()
    state: OperationState = "waiting"

    @model_validator(mode="after")
    def _is_whole(self) -> Operation:
        """Refuse an operation that could not be applied: a source named twice, a missing result."""
        if len(set(self.sources)) != len(self.sources):
            raise _must_be(f"different ids: operation {self.n} names one of its sources twice")
        if self.op not in _WITHOUT_RESULT and self.op != "write" and not (self.result or "").strip():
            raise _must_be(f"complete: operation {self.n}, {self.op}, needs a text in `result`")
        if self.op in _WITHOUT_RESULT and self.result is not None:
            raise _must_be(f"without `result`: operation {self.n}, {self.op}, writes no text")
        return self


RETIRED = ("merge", "retire")  # their sources go to the archive and are no longer recalled (RB9)
TAKEN = (*RETIRED, "refine")  # they change or archive their sources; `add` is only linked to them
_WITHOUT_RESULT = ("retire", "refine")


def _must_be(what: str) -> PydanticCustomError:
    return PydanticCustomError("must_be", "{what}", {"what": what})


class Tokens(Part):
    """The tokens that the model used."""

    input: Count = 0
    output: Count = 0


class Proposal(Part):
    """A proposal.

    Args:
        made_at: UTC.
        by: name of the model, or `rules`.
        prompt: SHA-256 of the model's prompt; None without a model.
        base: id of an entry -> SHA-256 of the file that was read; a note's id has the hash of its text.
        session, first_turn, last_turn: the consolidated turns; all three or none.
    """

    v: Literal[1] = 1
    id: _Name
    group: _Name
    kind: Literal[CuratedKind, "write"]
    made_at: _At
    by: str = RULES
    prompt: _Digest | None = None
    tokens: Tokens = Tokens()
    base: dict[str, _Digest] = Field(default={})
    session: Session | None = None
    first_turn: _Number | None = None
    last_turn: _Number | None = None
    operations: Annotated[tuple[Operation, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _is_consistent(self) -> Proposal:
        if len({operation.n for operation in self.operations}) != len(self.operations):
            raise _must_be("numbered: no two operations have the same `n`")
        return self


def numbered(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return operations numbered from 1, in order."""
    return tuple(each.model_copy(update={"n": n}) for n, each in enumerate(operations, 1))


def counts_of(operations: Iterable[Operation]) -> dict[str, int]:
    """Return the number of operations by state, without struck ones."""
    states = [operation.state for operation in operations]
    return {state: states.count(state) for state in COUNTED}


def parse_proposal(data: bytes) -> Proposal:
    """Return the proposal in a file. Raises ValueError with the problem and its place, for the person who edits it."""
    return checked(Proposal, read_json(data))


def dump_proposal(proposal: Proposal) -> bytes:
    """Return the bytes of a proposal's file: indented JSON without members that are None."""
    return orjson.dumps(proposal.model_dump(exclude_none=True), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
