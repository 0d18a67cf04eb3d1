"""A world that fails a running host and is mended again: failing calls, small disks, a clock that is set."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.commands import cli_text
from tests.hosting import HostProcess, RawSender, request, wait_for

CAN_MOUNT = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("mount") is not None
needs_mount = pytest.mark.skipif(not CAN_MOUNT, reason="needs a small tmpfs of its own, and only root can mount one")


@dataclass(frozen=True)
class Fault:
    """Calls of a host that fail while the fault is on; see `tests/crash/faults.c`.

    Args:
        switch: exists while it is on.
        env: of the host.
    """

    switch: Path
    env: dict[str, str]

    @classmethod
    def of(cls, shim: Path, home: Path, kind: str, path: str, number: int) -> Fault:
        """Return a fault that is off.

        Args:
            kind: of the calls, as `write,create`.
            path: what is in the path of the file, below the home.
            number: errno.
        """
        switch = home.parent / f"{home.name}.fault"
        env = {
            "LD_PRELOAD": str(shim),
            "HB_FAULT_HOME": str(home),
            "HB_FAULT_LOG": str(home.parent / f"{home.name}.struck"),
            "HB_FAIL_AT": "1",
            "HB_FAIL_KIND": kind,
            "HB_FAIL_PATH": path,
            "HB_FAIL_ERRNO": str(number),
            "HB_FAIL_WHILE": str(switch),
        }
        return cls(switch, env)

    def begin(self) -> None:
        self.switch.touch()

    def end(self) -> None:
        self.switch.unlink()

    def count(self) -> int:
        """Return how many calls failed so far."""
        try:
            return len(Path(self.env["HB_FAULT_LOG"]).read_bytes().splitlines())
        except FileNotFoundError:
            return 0


@dataclass(frozen=True)
class SetClock:
    """A wall clock that can be set; what files are stamped with stays the machine's."""

    file: Path
    env: dict[str, str]

    @classmethod
    def of(cls, shim: Path, home: Path) -> SetClock:
        file = home.parent / f"{home.name}.clock"
        file.write_text("0")
        return cls(file, {"LD_PRELOAD": str(shim), "HB_CLOCK": str(file)})

    def set(self, seconds: int) -> None:
        """Set it so many seconds from the right time."""
        temporary = self.file.with_suffix(".new")
        temporary.write_text(str(seconds))
        temporary.rename(self.file)


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """Mount a tmpfs, `size=3m` or `nr_inodes=100`; skip the test where that is not allowed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this root may not mount: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def remount(folder: Path, how: str) -> None:
    """Remount `ro` or `rw`; skip the test where that is not allowed."""
    done = subprocess.run(["mount", "-o", f"remount,{how}", folder], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this root may not remount: {done.stderr.decode().strip()}")


def use_up_space(folder: Path) -> list[Path]:
    """Write a file until there is no space; return it."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"\0" * 4096):
            pass
    return [path]


def use_up_inodes(folder: Path) -> list[Path]:
    """Make empty files until there can be no more; return them."""
    made: list[Path] = []
    with contextlib.suppress(OSError):
        while True:
            path = folder / f"inode-{len(made)}"
            path.touch()
            made.append(path)
    return made


def processor_seconds(host: HostProcess) -> float:
    """Return the processor time a host has used."""
    fields = Path(f"/proc/{host.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_idle(host: HostProcess, seconds: float = 0.5) -> bool:
    """Return whether a host uses less than a third of a core for a while: a hot loop takes all of it."""
    before = processor_seconds(host)
    time.sleep(seconds)
    return processor_seconds(host) - before < seconds / 3


def troubles(host: HostProcess) -> list[str]:
    """Return the events that a host logged above info."""
    return [line["event"] for line in host.log_lines() if line["level"] not in ("info", "debug")]


def wait_for_status(home: Path, is_told: Callable[[str], bool]) -> str:
    """Return what `status` prints once it is told; the command runs once for each status that the host writes."""
    file, seen = home / "data" / "status.json", 0

    def told() -> str | None:
        nonlocal seen
        before, seen = seen, file.stat().st_mtime_ns
        text = "" if seen == before else cli_text("status", home=home)
        return text if is_told(text) and text else None

    return wait_for(told, what="the status") or ""


# Answers of a scripted model.
LIKES_TEA: Mapping[str, Any] = {"calls": [{"name": "update_memory", "arguments": {"content": "Likes tea"}}]}
WRITES_DOWN: Mapping[str, Any] = {"text": "Let me write that down.", **LIKES_TEA}


def slowly(times: int) -> dict[str, Any]:
    """Return a turn that notes something and then says a sentence so many times."""
    return {"when": "remember", "answers": [LIKES_TEA, {"text": "This takes a while. " * times}]}


def script(home: Path, *turns: Mapping[str, Any], **more: Any) -> dict[str, object]:
    """Write a script for the model; return the settings of a host that plays it."""
    (home / "script.json").write_bytes(orjson.dumps({"turns": turns, **more}))
    return {"model.name": "scripted:script.json"}


def ask(sender: RawSender, name: str) -> None:
    """Have a note answered that says its own name."""
    assert sender.ask(name, request(name, content=f"{name}."))["ok"] is True


def records(home: Path, event: str, group: str = "main") -> list[dict[str, Any]]:
    """Return what is recorded of a group's tasks, of one kind."""
    try:
        lines = (home / "data" / "tasks" / f"{group}.jsonl").read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [record for record in map(orjson.loads, lines) if record["event"] == event]


def put_task(home: Path, task: str, group: str = "main", **members: Any) -> Path:
    """Save a task's file."""
    path = home / "groups" / group / "tasks" / f"{task}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps({"name": task, "description": f"remember {task}", **members}))
    return path
