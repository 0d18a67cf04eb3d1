"""Start and stop of the page: lock the home, listen, print one link, serve until a signal."""

import contextlib
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import uvicorn

from honeybadger_host.errors import HomeLocked, HostError
from honeybadger_host.files.home import check_home
from honeybadger_host.files.safe_files import replace, try_lock
from honeybadger_host.ops.operator_client import check_owner
from honeybadger_host.ops.page import PAGE_LOCK
from honeybadger_host.web.app import build
from honeybadger_host.web.visits import Home

LINK_FILE = "data/page.json"  # file with the token of the page's next link, for its own user


def serve(home: Path, where: Path | int, told: Callable[[str], None], *, may_write: bool) -> None:
    """Serve the page of a home until SIGTERM or SIGINT. If it is served already, print its next link and return.

    Args:
        where: path of a socket, or a port on the loopback; 0: any free port.
        told: called with each line for the person who started it.
    Raises HostError.
    """
    check_home(home)
    check_owner(home)
    lock = try_lock(home / PAGE_LOCK)
    if lock is None:
        _tell_of_the_other(home, told, may_write=may_write)
        return
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, lock)
        listening = stack.enter_context(_listening(where))
        stack.callback((home / LINK_FILE).unlink, missing_ok=True)
        port = None if isinstance(where, Path) else int(listening.getsockname()[1])
        base = f"unix:{where}" if port is None else f"http://127.0.0.1:{port}"

        def renewed(token: str) -> None:
            link = {"link": f"{base}/enter?token={token}", "pid": os.getpid(), "may_write": may_write}
            replace(home / LINK_FILE, orjson.dumps(link), mode=0o600, is_durable=False)

        app = build(Home(home, may_write), port, renewed)
        told(orjson.loads((home / LINK_FILE).read_bytes())["link"])
        told("it can change memory" if may_write else "it only reads; --write lets it change memory")
        for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises the signal again after it has stopped
            signal.signal(number, lambda number, frame: sys.exit(0))
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,  # seconds: a stream of changes never ends
        )
        uvicorn.Server(config).run(sockets=[listening])


@contextlib.contextmanager
def _listening(where: Path | int) -> Iterator[socket.socket]:
    """Yield a listening socket. Raises HostError."""
    try:
        if isinstance(where, int):
            listening = socket.create_server(("127.0.0.1", where))
            # accepted connections inherit it; else a page that is sent in two pieces waits 40 ms between them
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            if where.is_socket() and not _is_listened_on(where):
                where.unlink(missing_ok=True)
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.bind(str(where))
            where.chmod(0o600)  # before it listens, nobody can connect
            listening.listen(128)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise HostError(
            f"cannot listen on {where}: {why}; choose another --socket"
            if isinstance(where, Path)
            else f"cannot listen on port {where}: {why}; choose another with --port or web.port"
        ) from None
    with listening:
        try:
            yield listening
        finally:
            if isinstance(where, Path):
                where.unlink(missing_ok=True)


def _is_listened_on(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        return other.connect_ex(str(path)) != errno.ECONNREFUSED


def _tell_of_the_other(home: Path, told: Callable[[str], None], *, may_write: bool) -> None:
    """Print the next link of the page that serves the home. Raises HomeLocked."""
    try:
        other = orjson.loads((home / LINK_FILE).read_bytes())
        link, pid, writes = str(other["link"]), int(other["pid"]), bool(other["may_write"])
    except (OSError, ValueError, KeyError, TypeError):
        raise HomeLocked(f"another page of {home} is starting or ending: try again in a moment") from None
    if may_write and not writes:
        raise HomeLocked(f"a page of {home} runs that only reads (process {pid}): stop it first, then use --write")
    told(link)
    told(f"the page runs already, as process {pid}" + ("" if writes else "; it only reads"))
