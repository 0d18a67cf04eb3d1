"""`docs/schemas/` is what the wire models say today."""

from __future__ import annotations

from pathlib import Path

import orjson

from honeybadger_agent import wire
from honeybadger_agent.schemas import schemas, write_schemas
from honeybadger_agent.wire import TURN_TYPES

PUBLISHED = Path(__file__).parents[2] / "docs" / "schemas"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def test_the_published_schemas_are_current(tmp_path: Path) -> None:
    write_schemas(tmp_path)
    assert files_of(tmp_path) == files_of(PUBLISHED), "run `make schemas`"


def test_a_payload_is_closed_and_a_result_may_grow() -> None:
    written = {name: orjson.loads(data) for name, data in schemas().items()}
    for name in (*wire.REQUEST_TYPES, *TURN_TYPES):
        assert written[f"{name}.payload.json"]["additionalProperties"] is False
        result = written[f"{name}.result.json"]
        for model in [result, *result.get("$defs", {}).values()]:
            assert "additionalProperties" not in model, name
