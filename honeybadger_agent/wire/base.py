"""What all wire models have in common: how strict they are, and the shapes and limits that several of them use."""

# Without `from __future__ import annotations`, here and in the rooms beside: pydantic would compile 300 annotations
# again, 6 ms of an import.

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

PROTOCOL: Final = 1
MAX_NOTE_CHARACTERS: Final = 32_768
MAX_SECTION_CHARACTERS: Final = 80
MAX_NUMBER: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""
Role = Literal["user", "assistant", "system", "tool"]


class Wire(BaseModel):
    """Base of all wire models: exact types, no unknown members, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Result(Wire):
    """Base of what the host answers: members that a newer host adds are ignored."""

    model_config = ConfigDict(extra="ignore")


OneLine = Annotated[str, StringConstraints(min_length=1, max_length=MAX_SECTION_CHARACTERS)]
Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
