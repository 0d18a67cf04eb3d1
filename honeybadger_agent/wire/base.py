"""The base of all wire models: their strictness, request types, and shapes that several use."""

# No `from __future__ import annotations` in this package: pydantic would evaluate 300 annotations again, 6 ms.

import re
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

PROTOCOL = 1
MAX_NOTE_CHARACTERS = 32_768
MAX_LINE_CHARACTERS = 80
MAX_LISTED = 1000  # turns or entries in one reply
MAX_PART_BYTES = 200_000  # of turns or entries that a program puts into one request, which has less than 256 KiB
MAX_NUMBER = 2**53 - 1  # the largest integer that every JSON reader keeps exactly
Role = Literal["user", "assistant", "system", "tool"]


class Wire(BaseModel):
    """Base of all wire models: exact types, no unknown members, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Result(Wire):
    """Base of all results: unknown members, which a newer host may add, are ignored."""

    model_config = ConfigDict(extra="ignore")


ResultT = TypeVar("ResultT", bound=Result)
# The users of a type as a tool: all models; models with all tools; routers; only programs; only the operator.
Audience = Literal["default", "all", "routers", "programs", "operator"]

# Marks a member that is left out of the tools of models, which pay for every word of a tool.
FOR_PROGRAMS: dict[str, JsonValue] = {"audience": "programs"}


if TYPE_CHECKING:

    class _Asking(Wire, Generic[ResultT]):
        """Lets a type checker infer the result of a request from its class."""

else:

    class _Asking(Wire):
        """Base without pydantic's generic models, each of which costs 1 ms of import time."""

        def __class_getitem__(cls, result: type[Result]) -> GenericAlias:
            return GenericAlias(cls, result)


class Request(_Asking[ResultT]):
    """Base of all payloads: `class SaveMemory(Request[SavedEntry], changes=True)` defines the type `save_memory`.

    The class is the payload and the only definition of its type: the docstring tells a model when to use it, and the
    members are the arguments of the client's method, the tool and the command. A subclass registers itself.

    Args:
        changes: whether it changes memory, so that it is journaled and keeps a receipt.
        overwrites: whether it may remove or replace something.
        settles: whether repeating it changes nothing more.
        is_turn: whether it belongs into `turns/` instead of `requests/`.
        takes_seconds: see `may_take`.
    """

    type_name: ClassVar[str]
    result_type: ClassVar[type[Result]]
    changes: ClassVar[bool]
    overwrites: ClassVar[bool]
    settles: ClassVar[bool]
    audience: ClassVar[Audience]
    takes_seconds: ClassVar[float]

    def __init_subclass__(cls, **_: Any) -> None:
        super().__init_subclass__()  # the words behind the class name are for the method below

    @classmethod
    def __pydantic_init_subclass__(
        cls,
        *,
        changes: bool = False,
        overwrites: bool = False,
        settles: bool = False,
        audience: Audience = "all",
        is_turn: bool = False,
        takes_seconds: float = 0,
        **more: Any,
    ) -> None:
        super().__pydantic_init_subclass__(**more)
        cls.type_name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
        if alias := cls.__dict__.get("__orig_bases__"):  # else a type that is like another one
            (cls.result_type,) = alias[0].__args__
        cls.changes, cls.overwrites, cls.settles, cls.audience = changes, overwrites, settles, audience
        cls.takes_seconds = takes_seconds
        (TURN_TYPES if is_turn else REQUEST_TYPES)[cls.type_name] = cls

    @property
    def may_take(self) -> float:
        """Seconds for which the host may hold back the answer; a client waits that much longer."""
        return self.takes_seconds


REQUEST_TYPES: dict[str, type[Request[Any]]] = {}  # types of `requests/`: name -> type
TURN_TYPES: dict[str, type[Request[Any]]] = {}  # types of `turns/`: name -> type

OneLine = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LINE_CHARACTERS)]
Neutralised = Annotated[
    dict[str, int],
    Field(
        description="What was escaped or removed from the text, so that it forges no structure and holds no "
        "secret: kind and count."
    ),
]
Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
