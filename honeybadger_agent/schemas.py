"""JSON Schemas of the file protocol from the wire models: `python -m honeybadger_agent.schemas docs/schemas`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import BaseModel

from honeybadger_agent import wire
from honeybadger_agent.wire import TURN_TYPES, StreamLine

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> Mapping[str, bytes]:
    """Return file name -> bytes: the envelope, the reply, a line of a stream; payload and result of every type."""
    models: dict[str, type[BaseModel]] = {
        "envelope.json": wire.Request,
        "reply.json": wire.Reply,
        "stream_line.json": StreamLine,
    }
    for kind in (*wire.REQUEST_TYPES.values(), *TURN_TYPES.values()):
        models[f"{kind.name}.payload.json"] = kind.payload
        models[f"{kind.name}.result.json"] = kind.result
    return {name: _dump({"$schema": DIALECT, **model.model_json_schema()}) for name, model in sorted(models.items())}


def write_schemas(folder: Path) -> None:
    """Make `folder` hold the schemas of today; payloads and results of types that are gone are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    current = schemas()
    for name, data in current.items():
        (folder / name).write_bytes(data)
    for pattern in ("*.payload.json", "*.result.json"):
        for path in folder.glob(pattern):
            if path.name not in current:
                path.unlink()


def _dump(schema: Mapping[str, Any]) -> bytes:
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m honeybadger_agent.schemas FOLDER")
    write_schemas(Path(sys.argv[1]))
