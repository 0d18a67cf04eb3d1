"""The operators' page: a separate process that the host starts and stops."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio.to_thread

from honeybadger_host.files.safe_files import is_locked
from honeybadger_host.log import log

PAGE_LOCK = "data/page.lock"  # held by the running page of a home
_RESTART_SECONDS = 60.0  # before the ended page is started again
_STOP_TIMEOUT_SECONDS = 5.0  # for the page to end in order; then it is killed


async def keep_page(home: Path, port: int, note_error: Callable[[str], None]) -> None:
    """Keep the page running until cancelled. The page prints its link on standard output.

    The page outlives a host that is killed, and shows that the host is down; the next host does not start another one.
    """
    command = [sys.executable, "-m", "honeybadger_host", "web", "--home", str(home), "--port", str(port)]
    while True:
        try:
            if not await anyio.to_thread.run_sync(is_locked, home / PAGE_LOCK) and (code := await _ended(command)) != 0:
                log.warning("page.ended", code=code, now_what="it is started again in a minute; see its output")
                note_error(f"the page on port {port} ended with code {code}; the log has why")
        except OSError as error:  # the host continues without it
            note_error(f"the page cannot be started: {error.strerror}")
            log.warning("page.ended", error=str(error), now_what="it is started again in a minute")
        await anyio.sleep(_RESTART_SECONDS)


async def _ended(command: Sequence[str]) -> int:
    """Run a command and return its exit code; end it when cancelled. Raises OSError."""
    process = await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stdout=None, stderr=None, start_new_session=True
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(_STOP_TIMEOUT_SECONDS, shield=True) as ending:
                await process.wait()
            if ending.cancelled_caught:
                process.kill()
