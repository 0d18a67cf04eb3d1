"""Starts the host with something wrong with it, or many programs quickly.

    launch.py [FAULTS] run --home H …    `honeybadger-host`, or with `--as-agent` `honeybadger-agent`, with faults
    launch.py --program SOURCE           a program that imports ours
    launch.py --nursery SOCKET MODULE…   imports modules, then answers commands on a socket: see `nurse`

Faults: `--constant NAME=V`         another value for a constant of a module, as ops.status.STATUS_SECONDS=0.1
        `--kill-at POINT:K`         SIGKILL at the K-th passage of a named point of the pipeline
        `--without-receipts`        forgets which requests are done: must double something
        `--without-sync`            never syncs: must lose something in a power cut
        `--without-patience`        merges nothing that a person saved: must lose something under editors
        `--source SOURCE`           runs this first
"""

import argparse
import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn


def main(argv: Sequence[str]) -> int:
    """Run one program to its end; return its exit code."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--as-agent", action="store_true")
    parser.add_argument("--program", default="")
    parser.add_argument("--source", default="")
    parser.add_argument("--constant", action="append", default=[])
    parser.add_argument("--kill-at", default="")
    parser.add_argument("--without-receipts", action="store_true")
    parser.add_argument("--without-sync", action="store_true")
    parser.add_argument("--without-patience", action="store_true")
    faults, rest = parser.parse_known_args(argv)
    for constant in faults.constant:
        change_constant(*constant.split("="))
    if faults.kill_at:
        from honeybadger_host import daemon

        point, _, passage = faults.kill_at.partition(":")
        setattr(daemon, "run", functools.partial(daemon.run, passed=_Killer(point, int(passage))))  # noqa: B010
    if faults.without_receipts:
        _forget_receipts()
    if faults.without_sync:
        _leave_out_syncs()
    if faults.without_patience:
        _lose_patience()
    exec(compile(faults.source or faults.program, "<source>", "exec", dont_inherit=True), {"__name__": "__main__"})
    if faults.program:
        return 0
    from honeybadger_agent import cli as agent
    from honeybadger_host import cli as host

    sys.argv = ["honeybadger-agent" if faults.as_agent else "honeybadger-host", *rest]
    try:
        (agent.main if faults.as_agent else host.main)()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def change_constant(name: str, value: str) -> None:
    """Give a constant of a module of the host another value; it must have one."""
    module, _, constant = name.rpartition(".")
    place = importlib.import_module(f"honeybadger_host.{module}")
    setattr(place, constant, type(getattr(place, constant))(value))


class _Killer:
    """Ends the process at a point's n-th passage."""

    def __init__(self, point: str, passage: int) -> None:
        self._point = point
        self._left = passage

    def __call__(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _forget_receipts() -> None:
    from honeybadger_host.journal.journal import Journal

    def receipts_of(self: Journal, group: str, sender: str, requests: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        return {}

    def commit(self: Journal, changes: Sequence[Any], receipts: Sequence[Any], ended: Sequence[Any] = ()) -> None:
        with self._transaction() as connection:
            connection.executemany("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", changes)
            connection.executemany("INSERT OR REPLACE INTO receipts VALUES (?,?,?,?,?,?,?)", receipts)
        self.committed_seq = changes[-1].seq

    _replace(Journal, "receipts_of", receipts_of)
    _replace(Journal, "commit", commit)


def _leave_out_syncs() -> None:
    from honeybadger_host.journal import schema

    _replace(schema, "SYNCHRONOUS", "OFF")
    for name in ("fsync", "fdatasync"):
        setattr(os, name, lambda fd: None)


def _replace(where: Any, name: str, new: object) -> None:
    """Replace what is there: a fault that is put where nothing is would do nothing."""
    assert hasattr(where, name), f"{where} has no {name}"
    setattr(where, name, new)


def _lose_patience() -> None:
    from honeybadger_host.documents.saves import Saves

    compare: Any = Saves._compare

    def take_as_it_is(self: Any, file: str, signature: Any, author: str, data: bytes | None) -> Any:
        return compare(self, file, signature, author, data)._replace(merged=data or b"")

    _replace(Saves, "_compare", take_as_it_is)


def nurse(address: str, modules: Sequence[str]) -> None:
    """Start programs by fork, with everything imported already: 30 ms instead of 400 to 2,500.

    It goes into the background as soon as it listens, and ends with its stdin. Any number of processes may connect to
    the socket. One JSON object a line, and one for an answer:
        {"start": [arguments of this script], "env": {…}, "cwd": …, "files": […], "on_terminal": …}
                         -> {"pid": …}; the files are stdin, stdout and stderr
        {"poll": pid}    -> {"code": exit code, null while it runs}
    What still runs when whoever started it has gone is killed. A child ends with what `main` returns.
    """
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    if os.fork():
        os._exit(0)
    os.setsid()
    _import(modules)
    running: dict[int, set[int]] = {}
    with selectors.DefaultSelector() as sources:
        sources.register(sys.stdin, selectors.EVENT_READ)
        sources.register(server, selectors.EVENT_READ)
        while True:
            for key, _ in sources.select():
                if key.fileobj is sys.stdin:
                    _kill({pid for pids in running.values() for pid in pids})
                    os._exit(0)
                if key.fileobj is server:
                    asker = server.accept()[0]
                    running[asker.fileno()] = set()
                    sources.register(asker, selectors.EVENT_READ, asker.makefile("rw"))
                elif line := key.data.readline():
                    answer = _obey(json.loads(line), running[key.fd])
                    key.data.write(json.dumps(answer) + "\n")
                    key.data.flush()
                else:
                    sources.unregister(key.fileobj)
                    _kill(running.pop(key.fd))
                    key.data.close()
                    key.fileobj.close()  # type: ignore[union-attr]  # it is a socket


def _obey(command: dict[str, Any], running: set[int]) -> dict[str, int | None]:
    if "start" in command:
        pid = os.fork()
        if pid == 0:
            _begin(command)
            _end(command["start"])
        running.add(pid)
        return {"pid": pid}
    pid, status = os.waitpid(command["poll"], os.WNOHANG)
    running.discard(pid)
    return {"code": os.waitstatus_to_exitcode(status) if pid else None}


def _kill(running: Iterable[int]) -> None:
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _import(modules: Sequence[str]) -> None:
    """Import everything, and build what each child would build for itself."""
    import anyio
    import typer.main

    from honeybadger_agent import wire
    from honeybadger_host import cli
    from honeybadger_host.configuration import load_settings

    for module in modules:
        importlib.import_module(module)
    for kind in (*wire.REQUEST_TYPES.values(), *wire.TURN_TYPES.values()):
        for model in (kind, kind.result_type):
            model.model_rebuild()
    wire.Reply.model_rebuild()
    wire.StreamLine.model_rebuild()
    anyio.run(anyio.sleep, 0)
    setattr(typer.main, "get_command", functools.cache(typer.main.get_command))  # noqa: B010
    program: Any = typer.main.get_command(cli.app)
    commands: list[Any] = [program, *(program.get_command(None, name) for name in program.list_commands(None))]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for parameter in command.params:
            parameter.get_runtime_param()  # what is built of it stays, too
    load_settings(Path(tempfile.gettempdir(), "no-home"))
    sqlite3.connect(":memory:").close()
    gc.freeze()


def _end(arguments: Sequence[str]) -> NoReturn:
    """Run `main` and end as a process does, but do not take apart what is imported: that copies 6,000 pages, 40 ms."""
    try:
        code = main(arguments)
    except BaseException:  # noqa: BLE001  # whatever it is, the process ends with it
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    os._exit(code)


def _begin(command: dict[str, Any]) -> None:
    """Give a child of the nursery what a process of its own would have: files, folder, environment."""
    if command["on_terminal"]:
        os.setsid()  # what a leader opens first is the terminal of its session
    for number, (name, file) in enumerate(zip(("stdin", "stdout", "stderr"), command["files"], strict=True)):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND if number else os.O_RDONLY
        os.dup2(os.open(file, flags, 0o600), number)
        old = getattr(sys, name)
        new = open(number, "w" if number else "r", encoding="utf-8", errors=old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
    os.closerange(3, 64)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes what it starts in the background deaf
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    time.tzset()
    if hasattr(process := ctypes.CDLL(None), "hb_arm"):
        process.hb_arm()


if __name__ == "__main__":
    if sys.argv[1] == "--nursery":
        nurse(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main(sys.argv[1:]))
