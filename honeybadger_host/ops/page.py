"""The operators' page beside a host: a process of its own, started with the host and ended with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import anyio
import structlog

from honeybadger_host.settings import Web

log = structlog.get_logger()

_AGAIN_SECONDS: Final = 60.0
_ENDING_SECONDS: Final = 5.0


async def keep_page(home: Path, settings: Web) -> None:
    """Keep the page running until cancelled. It says its link on standard output.

    A host that is killed leaves its page, which says that the host is down; the next host finds it and goes on with it.
    """
    where = ["--socket", settings.socket] if settings.socket else ["--port", str(settings.port)]
    command = [sys.executable, "-m", "honeybadger_host", "web", "--home", str(home), *where]
    while True:
        process = await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stdout=None, stderr=None, start_new_session=True
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                with anyio.move_on_after(_ENDING_SECONDS, shield=True) as ending:
                    await process.wait()
                if ending.cancelled_caught:
                    process.kill()
        if code != 0:
            log.warning("page.ended", code=code, now_what="it is started again in a minute; its own lines say why")
        await anyio.sleep(_AGAIN_SECONDS)
