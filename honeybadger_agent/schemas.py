"""Files generated from the request types: `make schemas` writes them, a test keeps them current.

JSON Schemas for readers of the protocol, the rows of the protocol's tables, and the clients' methods for type checkers.
"""

from __future__ import annotations

import collections.abc
import re
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel

from honeybadger_agent import wire
from honeybadger_agent.tools import signature_of
from honeybadger_agent.wire import REQUEST_TYPES, TURN_TYPES, Request, StreamLine

DIALECT = "https://json-schema.org/draft/2020-12/schema"
STUB = Path(__file__).with_name("methods.pyi")
_ROW = re.compile(r"^\| `(\w+)` \|.*\n", re.MULTILINE)


def schemas() -> Mapping[str, bytes]:
    """Return file name -> bytes: the envelope, the reply, a line of a stream; payload and result of every type."""
    models: dict[str, type[BaseModel]] = {
        "envelope.json": wire.Envelope,
        "reply.json": wire.Reply,
        "stream_line.json": StreamLine,
    }
    for name, kind in {**REQUEST_TYPES, **TURN_TYPES}.items():
        models[f"{name}.payload.json"] = kind
        models[f"{name}.result.json"] = kind.result_type
    return {name: _dump({"$schema": DIALECT, **model.model_json_schema()}) for name, model in sorted(models.items())}


def _dump(schema: Mapping[str, Any]) -> bytes:
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


# -------------------------------------------------------------------------------------------------- the protocol's page


def with_rows(page: str) -> str:
    """Return the protocol's page with the rows of its tables made from the present types.

    Each row stays in its table. The row of a new type comes last in the last table of its kind: move it to its family.
    """
    for table in (REQUEST_TYPES, TURN_TYPES):
        rows = {match[1]: match for match in _ROW.finditer(page) if match[1] in table}
        for name, match in reversed(rows.items()):
            page = page[: match.start()] + row_of(table[name]) + page[match.end() :]
        end = max((match.end() for match in _ROW.finditer(page) if match[1] in table), default=None)
        if end is not None:
            new = (row_of(kind) for name, kind in table.items() if name not in rows)
            page = page[:end] + "".join(new) + page[end:]
    return page


def row_of(kind: type[Request[Any]]) -> str:
    """Return the row of a type: its name, its members with their limits, the members of its result."""
    asked, given = kind.model_json_schema(), kind.result_type.model_json_schema(mode="serialization")
    may_ask = {"operator": "; only the operator", "routers": "; only agents that delegate"}.get(kind.audience, "")
    members, results = (_members(schema, schema.get("$defs", {})) for schema in (asked, given))
    return f"| `{kind.type_name}` | {members or '–'}{may_ask} | {results} |\n"


def _members(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"`{name}`{'' if name in required else '?'}{_limits(member, shared)}"
        for name, member in schema.get("properties", {}).items()
    )


def _limits(member: Mapping[str, Any], shared: Mapping[str, Any]) -> str:
    """Return the limits of a member in brackets; empty if its type says everything."""
    options = [option for option in member.get("anyOf", [member]) if option.get("type") != "null"]
    match options[0]:
        case {"enum": values}:
            return f" ({', '.join(map(str, values))})"
        case {"maxLength": most, **rest}:
            return f" ({rest.get('minLength', 0)}-{most:,} characters)"
        case {"type": "array", "items": {"$ref": str(reference)}}:
            return f" (each {_members(shared[reference.rpartition('/')[2]], shared)})"
        case {"type": "array", "maxItems": most}:
            return f" (at most {most})"
        case {"type": "integer", "minimum": least, "maximum": most} if most != wire.MAX_NUMBER:
            return f" ({least}-{most:,})"
        case _:
            return ""


# -------------------------------------------------------------------------------------------- methods for type checkers


def stub() -> str:
    """Return `methods.pyi`: every type as a method of both clients, with its members as arguments."""
    kinds = [kind for kind in REQUEST_TYPES.values() if kind.audience != "operator"]
    return (
        "# The request types as methods of the clients. Generated from them: `make schemas`.\n"
        "# ruff: noqa: A002, E501\n"
        "from collections.abc import Mapping, Sequence\n"
        "from typing import Any, Literal\n\n"
        "from honeybadger_agent import wire\n\n"
        f"class Methods:\n{''.join(_stub_method(kind, 'def') for kind in kinds)}\n"
        f"class AwaitedMethods:\n{''.join(_stub_method(kind, 'async def') for kind in kinds)}"
    )


def _stub_method(kind: type[Request[Any]], define: str) -> str:
    arguments = "".join(
        f", {name}: {(source := _source(parameter.annotation))}"
        + ("" if parameter.default is parameter.empty else " = None" if source.endswith("None") else " = ...")
        for name, parameter in signature_of(kind).parameters.items()
    )
    return f"    {define} {kind.type_name}(self{arguments}) -> wire.{kind.result_type.__name__}: ...\n"


def _source(annotation: Any) -> str:
    """Return an annotation as source text: any sequence for a list, any mapping for an object or a model."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _source(inner[0])
    if origin in (types.UnionType, typing.Union):
        return " | ".join(map(_source, inner))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, inner))}]".replace("'", '"')
    if origin in (list, collections.abc.Sequence):
        return f"Sequence[{_source(inner[0])}]"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "Mapping[str, Any]"
    return "None" if annotation in (None, type(None)) else str(annotation.__name__)


def main(*arguments: str) -> None:
    """Write everything: schemas into the folder given, the rows into `protocol.md` above it, the methods here."""
    folder = Path(*arguments)
    if len(arguments) != 1 or not folder.is_dir():
        raise SystemExit("usage: python -m honeybadger_agent.schemas FOLDER, which is there, as docs/schemas")
    for name, data in schemas().items():
        (folder / name).write_bytes(data)
    page = folder.parent / "protocol.md"
    if page.exists():
        page.write_text(with_rows(page.read_text(encoding="utf-8")), encoding="utf-8")
    STUB.write_text(stub(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
