"""JSON that people edit: files, and lines of logs, checked against a model, with errors for who wrote them."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, TypeVar

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from honeybadger_agent.wire import MAX_NUMBER
from honeybadger_agent.wire.refusals import described
from honeybadger_host.log import log
from honeybadger_host.text.json_values import BOM
from honeybadger_host.text.time_stamps import time_in, time_stamp

_SHALLOW = 250  # fewer brackets cannot be nested too deep
_MAX_PROBLEMS = 5  # problems that an error message names; it counts the others
ModelT = TypeVar("ModelT", bound=BaseModel)


class Edited(BaseModel):
    """An object in such a file. Types are exact, null is as good as missing, and unknown members are kept."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        if isinstance(value, dict) and None in value.values():
            return {name: item for name, item in value.items() if item is not None or name not in cls.model_fields}
        return value


def _time(value: object) -> datetime:
    """Return a time of RFC 3339 in UTC; one without a zone is UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if (at := time_in(value)) is None:
        raise PydanticCustomError("must_be", "a time, as 2026-11-21T06:00:00Z or 2026-11-21")
    return at


Time: TypeAlias = Annotated[datetime, BeforeValidator(_time)]
# A time that is dumped as the host writes it.
Stamp: TypeAlias = Annotated[Time, PlainSerializer(lambda at: time_stamp(at, "milliseconds"))]
Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Texts: TypeAlias = Annotated[tuple[str, ...], Field(strict=False)]


def read_json(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a file. Raises ValueError if it is not one, or too deep for a reply."""
    try:
        value = orjson.loads(data.removeprefix(BOM))
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if data.count(b"[") + data.count(b"{") > _SHALLOW:
        try:
            orjson.dumps([[[[[[[[value]]]]]]]])  # writing is allowed fewer levels than reading, and a reply adds some
        except TypeError:
            raise ValueError("it is nested too deep: 240 levels at most") from None
    if not isinstance(value, dict):
        raise ValueError("it must be a JSON object")
    return value


def checked(wanted: type[ModelT], value: object) -> ModelT:
    """Return a file's content as a model. Raises ValueError: names the fault."""
    try:
        return wanted.model_validate(value)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None


def checked_lines(wanted: type[ModelT], lines: Iterable[bytes], event: str) -> Iterator[ModelT]:
    """Yield the lines of a log as a model; a line that is none is skipped, and logged as `event`."""
    for line in lines:
        if line.strip():
            try:
                yield checked(wanted, read_json(line))
            except ValueError as error:
                log.warning(event, why=str(error), line=ascii(line[:80]))


def problem_of(error: ValidationError) -> str:
    """Return the faults of a file, each with its member's path."""
    found = error.errors(include_url=False)
    said = [" ".join(described(each)[1:]).lstrip() for each in found[:_MAX_PROBLEMS]]
    more = [f"{len(found) - _MAX_PROBLEMS} more"] if len(found) > _MAX_PROBLEMS else []
    return "; ".join(said + more)
