"""The request types as tools: requests from arguments, and names, descriptions and schemas for models."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any, Literal

from honeybadger_agent import wire
from honeybadger_agent.errors import BY_CODE
from honeybadger_agent.wire import RequestT

Choice = Literal["default", "all"]

_OF_MODELS = ("default", "all", "routers")


def made(kind: type[RequestT], *values: object, **members: object) -> RequestT:
    """Return a request with these members, which may be positional; None counts as absent.

    Raises:
        TypeError: there is no such member.
        Invalid, TooLarge: the host would refuse it; the message is the host's.
    """
    given = signature_of(kind).bind(*values, **members).arguments
    return parsed(kind, {name: _plain(value) for name, value in given.items() if value is not None})


def parsed(kind: type[RequestT], members: Mapping[str, Any]) -> RequestT:
    """Return members as the host would read them. Raises `RequestFailed` with the host's message."""
    try:
        return wire.parse_members(kind, members)
    except wire.Refusal as refusal:
        raise BY_CODE[refusal.code](refusal.message, field=refusal.field) from None


@cache
def signature_of(kind: type[wire.Request[Any]]) -> inspect.Signature:
    """Return the members of a request as parameters, in their order."""
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if member.is_required() else None,
                annotation=member.annotation,
            )
            for name, member in kind.model_fields.items()
        ],
        return_annotation=kind.result_type,
    )


def _plain(member: object) -> object:
    """Return any sequence as a list and any mapping as a dict, as JSON needs them; a text stays a text."""
    match member:
        case str() | bytes():
            return member
        case Mapping():
            return dict(member)
        case Sequence() | AbstractSet():
            return [dict(item) if isinstance(item, Mapping) else item for item in member]
        case _:
            return member


# --------------------------------------------------------------------------------------------------------- for a model


def tool_names(choice: Choice = "all", allowed: AbstractSet[str] | None = None) -> list[str]:
    """Return the names of the tools that a model is offered, in the order of the table.

    Args:
        allowed: the tools in `config/agents/<id>.json`, instead of the choice; None: it lists none, and does not
            delegate.
    """
    kinds = {name: kind for name, kind in wire.REQUEST_TYPES.items() if kind.audience in _OF_MODELS}
    if allowed is not None:
        return [name for name in kinds if name in allowed]
    if choice == "all":
        return [name for name, kind in kinds.items() if kind.audience != "routers"]
    return [name for name, kind in kinds.items() if kind.audience == "default"]


def kind_of(tool: str) -> type[wire.Request[Any]] | None:
    """Return the request type that a model means by a tool's name, or None if there is no such tool."""
    kind = wire.REQUEST_TYPES.get(tool)
    return kind if kind is not None and kind.audience in _OF_MODELS else None


def description_of(tool: str) -> str:
    return inspect.getdoc(wire.REQUEST_TYPES[tool]) or ""


def schema_of(kind: type[wire.Request[Any]]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, as short as possible: models pay for each word."""
    schema = kind.model_json_schema()
    short = _shortened(schema, schema.get("$defs", {}))
    return {name: value for name, value in short.items() if name != "description"}


def _shortened(schema: dict[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without titles, without null for optional members, and without references."""
    if "$ref" in schema:
        schema = {**shared[schema["$ref"].rpartition("/")[2]], **schema}
    if "anyOf" in schema:
        [one] = [option for option in schema["anyOf"] if option != {"type": "null"}]
        schema = {**one, **schema}
        return _shortened({name: value for name, value in schema.items() if name != "anyOf"}, shared)
    short: dict[str, Any] = {}
    for name, value in schema.items():
        match name:
            case "title" | "default" | "additionalProperties" | "$ref" | "$defs":
                pass
            case "properties":
                offered = {member: inner for member, inner in value.items() if inner.get("audience") != "programs"}
                short[name] = {member: _shortened(inner, shared) for member, inner in offered.items()}
            case "items":
                short[name] = _shortened(value, shared)
            case _:
                short[name] = value
    return short
