"""Hosts under faults: the shim, and a nursery that starts them quickly."""

import contextlib
import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.crash.story import Story, read
from tests.hosting import Child, arguments_of, forge, locked, wait_for

_MAX_SECONDS = 90.0
SHIM = Path(__file__).with_name("faults.c")

# Three commits where there could be one, and everything settled at the next checkpoint.
QUICK: Mapping[str, object] = {
    "ipc.sweep_seconds": 0.01,
    "ipc.watch": False,
    "spool.pipeline.BATCH_REQUESTS": 6,
    "ops.status.STATUS_SECONDS": 60,
}

# For a host that records what people edited without waiting for more of it.
RECORDED_AT_ONCE: Mapping[str, object] = {
    "documents.saves.QUIET_SECONDS": 0,
    "ops.maintenance.EDITS_SECONDS": 0.01,
    "ops.maintenance.CHECKPOINT_SECONDS": 0.05,
}

When = Literal["before", "after", "torn"]


def build_shim(folder: Path) -> Path | str:
    """Compile the shim if it is not there; return the library, or why there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux":
        return "LD_PRELOAD faults need Linux"
    if compiler is None:
        return "LD_PRELOAD faults need a C compiler"
    library = folder / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"]
    with locked(folder):
        if not library.exists():
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                return f"LD_PRELOAD faults need glibc: {made.stderr[-500:]}"
    return library


@dataclass(frozen=True, slots=True)
class Kill:
    """A point at which a host dies: the n-th call of some kinds on some paths; see `faults.c`."""

    at: int
    when: When = "before"
    kind: str = ""
    path: str = ""

    def __str__(self) -> str:
        return (
            f"{self.when} call {self.at}"
            + (f" of {self.kind}" if self.kind else "")
            + (f" on {self.path}" if self.path else "")
        )


@dataclass(frozen=True, slots=True)
class Point:
    """A point at which a host dies: the n-th passage of a named point of the pipeline."""

    name: str
    passage: int

    def __str__(self) -> str:
        return f"{self.name}, passage {self.passage}"


class Nursery:
    """Starts hosts under the shim, quickly; any thread may use it."""

    def __init__(self, shim: Path) -> None:
        self._forge = forge(LD_PRELOAD=str(shim))

    def start(
        self,
        home: Path,
        settings: Mapping[str, object] | None = None,
        *,
        faults: Sequence[str] = (),
        kill: Kill | Point | None = None,
        shadow: Path | None = None,
        base: Mapping[str, object] = QUICK,
        command: Sequence[object] = ("run",),
    ) -> Child:
        """Start a host, or another command.

        Args:
            command: without the home; settings are of a host only.
            base: settings below `settings`.
            faults: arguments of `launch.py`.
            shadow: what a power cut cannot take goes here.
        """
        stderr = home.parent / f"{home.name}.stderr"
        variables = {"HB_FAULT_HOME": str(home), "HB_FAULT_LOG": str(struck_file(home))}
        if isinstance(kill, Point):
            faults = (*faults, "--kill-at", f"{kill.name}:{kill.passage}")
        elif kill is not None:
            variables |= {
                "HB_KILL_AT": str(kill.at),
                "HB_KILL_WHEN": kill.when,
                "HB_KILL_KIND": kill.kind,
                "HB_KILL_PATH": kill.path,
            }
        if shadow is not None:
            variables["HB_SHADOW"] = str(shadow)
        constants, flags = arguments_of({**base, **(settings or {})})
        flags = flags if command[0] == "run" else []
        arguments = [*constants, *faults, *map(str, command), "--home", str(home), *flags]
        return self._forge.fork(arguments, variables, stdout=stderr, stderr=stderr)

    @contextlib.contextmanager
    def serving(self, home: Path, settings: Mapping[str, object] | None = None, **more: Any) -> Iterator[Child]:
        """Serve a home while the block lasts, once the host hears a signal; then stop it in order."""
        with ended(self.start(home, settings, **more)) as host:
            wait_for(lambda: is_up(host, home), what="a host that serves")
            yield host
            host.send_signal(signal.SIGTERM)
            assert host.wait() == 0, host.tail()


def struck_file(home: Path) -> Path:
    """Return the file that names the calls at which a host was struck."""
    return home.parent / f"{home.name}.struck"


def struck(home: Path) -> str:
    """Return the last call at which a host was struck: number, kind, path."""
    lines = read(struck_file(home)).decode(errors="replace").splitlines()
    return lines[-1] if lines else "nowhere"


def is_up(host: Child, home: Path) -> bool:
    """Return whether the host has come so far that it hears a signal."""
    try:
        return bool(json.loads(read(home / "data" / "status.json"))["pid"] == host.pid)
    except ValueError:
        return False


def attend(story: Story, host: Child) -> int:
    """Watch a host until it dies, or has answered everything and stopped when asked to; return its exit code."""
    deadline = time.monotonic() + _MAX_SECONDS
    is_ready = is_stopping = False
    while True:
        code = host.poll()
        story.look()
        if code is not None:
            return code
        if not is_stopping:
            is_ready = is_ready or is_up(host, story.home)
            if is_ready and not story.is_waiting():
                is_stopping = True
                host.send_signal(signal.SIGTERM)
        assert time.monotonic() < deadline, f"the host does not get on with it:\n{host.tail()}"
        time.sleep(0.005)


@dataclass(frozen=True, slots=True)
class Work:
    """Work of hosts while they are killed.

    Args:
        begin: makes a home in which there is something to do.
        is_done: whether all of it is done.
        check: sees that all of it is there once; told where the first host was killed.
        ask: asks again for what has no whole reply.
        write_script: gives the models other words than they had in the run before.
        stride: between the calls at which the first host is killed, in the short form.
        later: the second is killed at one of so many calls.
    """

    settings: Mapping[str, object]
    begin: Callable[[Path], object]
    is_done: Callable[[Path], bool]
    check: Callable[[Path, str], None]
    write_script: Callable[[Path, int], None] = lambda home, run: None
    ask: Callable[[Path], None] = lambda home: None
    stride: int = 1
    later: int = 60


def kill_again(
    nursery: Nursery,
    folder: Path,
    rng: random.Random,
    work: Work,
    stride: int,
    harm: Callable[[Path], object] = lambda home: None,
) -> int:
    """Kill a host at a call, the next one at another, and let the third finish; return how many were killed.

    Args:
        stride: the first host is killed at the n-th call, for every n of this stride, in a home of its own.
        harm: does more harm to the home after the first kill.
    """

    def is_killed(home: Path, run: int, kill: Kill | None) -> bool:
        work.write_script(home, run)
        return _is_killed(nursery.start(home, work.settings, kill=kill), home, work)

    kills = 0
    for home, where in deaths(folder, rng, stride, work.begin, lambda home, kill: is_killed(home, 1, kill)):
        kills += 1
        harm(home)
        if is_killed(home, 2, Kill(rng.randint(1, work.later), "after")):
            kills += 1
            is_killed(home, 3, None)
        work.check(home, where)
    return kills


def cut_again(nursery: Nursery, folder: Path, rng: random.Random, work: Work, stride: int) -> None:
    """Cut the power at a call, ask again for what has no whole reply, and let the next host finish.

    Args:
        stride: see `kill_again`.
    """
    shadow = folder / "shadow"

    def begin(home: Path) -> None:
        shutil.rmtree(shadow, ignore_errors=True)
        work.begin(home)
        keep_all(home, shadow)

    def live(home: Path, kill: Kill) -> bool:
        return _is_killed(nursery.start(home, work.settings, kill=kill, shadow=shadow), home, work)

    for home, where in deaths(folder, rng, stride, begin, live):
        cut_power(home, shadow, rng, is_mixed=rng.random() < 0.5)
        work.ask(home)
        _is_killed(nursery.start(home, work.settings), home, work)
        work.check(home, where)


def deaths(
    folder: Path,
    rng: random.Random,
    stride: int,
    begin: Callable[[Path], object],
    live: Callable[[Path, Kill], bool],
    *,
    when: When | None = None,
    path: str = "",
) -> Iterator[tuple[Path, str]]:
    """Yield homes in each of which something was killed at another call, and where, until it ends before that.

    Args:
        stride: between the calls.
        begin: makes a home in which there is something to do.
        live: lets it live until a kill; returns whether it came to that.
    """
    kills = 0
    for at in itertools.count(rng.randint(1, stride), stride):
        home = folder / f"at-{at}"
        begin(home)
        whens: Sequence[When] = [when] if when else ["before", "after"]
        kill = Kill(at, rng.choice(whens), path=path)
        if not live(home, kill):
            break
        kills += 1
        yield home, f"killed {kill}: {struck(home)}"
        shutil.rmtree(home)
    assert kills, "no call was left to be killed at"


def _is_killed(host: Child, home: Path, work: Work) -> bool:
    """Wait until a host dies, or has done its work and stopped when asked to; return whether it was killed."""
    deadline = time.monotonic() + _MAX_SECONDS
    is_stopping = False
    while (code := host.poll()) is None:
        if not is_stopping and work.is_done(home) and is_up(host, home):
            is_stopping = True
            host.send_signal(signal.SIGTERM)
        assert time.monotonic() < deadline, host.tail()
        time.sleep(0.005)
    assert code in (0, -signal.SIGKILL), host.tail()
    return code != 0


def cut_power(home: Path, shadow: Path, rng: random.Random, *, is_mixed: bool) -> None:
    """Leave of the home of a killed host what a power cut would leave.

    Every file has the bytes of its last sync: none when it never had one. Names are durable at once, but a part of the
    replies has no name yet, and removed requests may come back: see `Story.bring_back`. What a producer published is
    synced.

    Args:
        is_mixed: the kernel had written a part of what was not synced.
    """
    for path in sorted((home / "data").rglob("*")) + sorted((home / "groups").rglob("*")):
        if not path.is_file() or path.parent.name in ("requests", "tmp") or path.name == "CLAUDE.md":
            continue
        kept = shadow / f"{path.stat().st_dev:x}-{path.stat().st_ino:x}"
        synced, current = read(kept), path.read_bytes()
        if path.name.endswith("-shm"):
            left = b""
        elif path.parent.name == "replies" and rng.random() < 0.3:
            path.unlink()
            kept.unlink(missing_ok=True)
            continue
        elif not is_mixed:
            left = synced
        elif path.name.startswith("journal.db"):
            left = _mix_blocks(synced, current, rng)
        else:
            left = _mix_tail(synced, current, rng)
        if left != current:
            path.write_bytes(left)
        kept.write_bytes(left)  # what is on the disk when the power comes back is durable


def keep_all(home: Path, shadow: Path) -> None:
    """Begin a simulation: all that is on the disk is durable."""
    shadow.mkdir(exist_ok=True)
    for path in home.rglob("*"):
        if path.is_file():
            (shadow / f"{path.stat().st_dev:x}-{path.stat().st_ino:x}").write_bytes(path.read_bytes())


def _mix_blocks(synced: bytes, current: bytes, rng: random.Random) -> bytes:
    """Take every sector from before or after."""
    size = rng.choice(
        (len(synced), len(current), rng.randint(min(len(synced), len(current)), max(len(synced), len(current))))
    )
    blocks: list[bytes] = []
    for at in range(0, size, 512):
        part = rng.choice((synced, current))[at : at + 512]
        blocks.append(part.ljust(512, b"\0"))
    return b"".join(blocks)[:size]


def _mix_tail(synced: bytes, current: bytes, rng: random.Random) -> bytes:
    """Take a part of what was appended, perhaps with zeros for the rest; a replaced file as it was or is."""
    if not current.startswith(synced):
        return rng.choice((synced, current))
    cut = rng.randint(len(synced), len(current))
    return current[:cut] + bytes(rng.choice((0, len(current) - cut)))


@contextlib.contextmanager
def ended(host: Child) -> Iterator[Child]:
    """End a host with the block, whatever happened."""
    try:
        yield host
    finally:
        if host.poll() is None:
            host.kill()
