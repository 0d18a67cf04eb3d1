"""A home and its index, for the tests of the index."""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson

from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.search.embeddings import Embedder
from honeybadger_host.search.index import INDEX_FILE, Index
from honeybadger_host.text.turn import Turn
from tests.host.indexes import made

NOW = datetime(2026, 11, 21, 6, 5, tzinfo=UTC)


def done(steps: Iterator[None]) -> None:
    """Take all steps of a work of the index."""
    deque(steps, maxlen=0)


class Indexed:
    """A home and its index, from one start to the next."""

    def __init__(self, home: Path, *, max_memory_bytes: int = 100_000_000, embedder: Embedder | None = None) -> None:
        self.home = home
        self.max_memory_bytes = max_memory_bytes
        (home / "data").mkdir()
        self.index = self.open(embedder)

    def open(self, embedder: Embedder | None = None) -> Index:
        path = self.home / INDEX_FILE
        index = Index(self.home, path, max_memory_bytes=self.max_memory_bytes, embedder=embedder)
        made.append(index)
        return index

    def restart(self, embedder: Embedder | None = None) -> None:
        self.index.close()
        self.index = self.open(embedder)

    def put(self, file: str, data: bytes | str, *, touch: bool = True) -> None:
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        if touch:
            self.index.touch(file)

    def entry(self, name: str, content: str, group: str = "main", **more: object) -> str:
        file = f"groups/{group}/memory/general/{name}.json"
        self.put(file, orjson.dumps({"content": content, **more}))
        return file

    def turns(self, session: str, *contents: str, first: int = 1) -> str:
        file = f"data/sessions/main/{session}.jsonl"
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            for number, content in enumerate(contents, first):
                log.write(dump_turn(Turn(number, NOW, "user", "ann", "front", content, 1), f"r{number}"))
        self.index.touch(file)
        return file
