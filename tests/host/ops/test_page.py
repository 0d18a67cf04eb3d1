"""The page as a process of the host: its end is told to the operator."""

import socket
from pathlib import Path

import anyio

from honeybadger_host.ops.page import keep_page
from tests.hosting import PATIENCE


def test_a_page_without_its_port_is_noted(home: Path) -> None:
    noted = anyio.Event()
    told: list[str] = []

    def note(error: str) -> None:
        told.append(error)
        noted.set()

    async def keep(port: int) -> None:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep_page, home, port, note)
                await noted.wait()
                tasks.cancel_scope.cancel()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        anyio.run(keep, port)
    assert told == [f"the page on port {port} ended with code 1; the log has why"]
