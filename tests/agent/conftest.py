"""A stand-in for the host, for what the real one never does: answers of a newer version, codes it has no reason for."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent.mailbox import Mailbox

# Request -> members of the reply beside `v` and `id`, or its very bytes, or None: taken and never answered.
Answer = Callable[[dict[str, Any]], dict[str, Any] | bytes | None]
Answering = Callable[[Answer], AbstractContextManager[list[dict[str, Any]]]]


def reply_bytes(request_id: str, **members: Any) -> bytes:
    """Return a reply as a host writes it."""
    return orjson.dumps({"v": 1, "id": request_id, **members})


def put_reply(mailbox: Mailbox, request_id: str, data: bytes) -> None:
    """Write a reply as the host does: complete when it is there."""
    temporary = mailbox.root / "replies" / ".tmp"
    temporary.write_bytes(data)
    temporary.rename(mailbox.path("replies", request_id))


@pytest.fixture
def mailbox(tmp_path: Path) -> Mailbox:
    """The mailbox of `main/researcher` below `tmp_path`; nobody serves it."""
    made = Mailbox.of(tmp_path, "main", "researcher")
    made.create()
    return made


@pytest.fixture
def answering(mailbox: Mailbox) -> Answering:
    """Serve `mailbox` from a thread inside a `with`; gives the requests it met."""

    @contextlib.contextmanager
    def serve(answer: Answer) -> Iterator[list[dict[str, Any]]]:
        met: list[dict[str, Any]] = []
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(0.001):
                for path in sorted((mailbox.root / "requests").glob("*.json")):
                    request = orjson.loads(path.read_bytes())
                    answered = answer(request)
                    if isinstance(answered, dict):
                        answered = reply_bytes(request["id"], **answered)
                    if answered is not None:
                        put_reply(mailbox, request["id"], answered)
                    path.unlink()
                    met.append(request)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield met
        finally:
            stop.set()
            thread.join()

    return serve
