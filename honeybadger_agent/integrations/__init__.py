"""Adapters for other frameworks, each with an extra.

Anthropic's memory tool: `anthropic_memory`. The OpenAI Agents SDK: `openai_agents`. LangGraph: `langgraph_store`.
PydanticAI: `pydantic_ai_store` and `pydantic_ai_memory`. docs/adapters.md lists their limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from honeybadger_agent.wire import MAX_PART_BYTES


def in_parts(items: Iterable[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    """Yield turns or operations in parts that fit into one request each.

    Args:
        most: length limit of a part.
    """
    part: list[dict[str, Any]] = []
    size = 0
    for item in items:
        length = len(json.dumps(item, ensure_ascii=False).encode())
        if part and (len(part) == most or size + length > MAX_PART_BYTES):
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    if part:
        yield part
