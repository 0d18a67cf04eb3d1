"""The real daemon as a process, and a sender that uses nothing of ours: for tests over the whole path."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import importlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import orjson

from honeybadger_agent.wire import ErrorCode

# Settings that make a test wait less and change nothing else.
QUICK: Mapping[str, object] = {
    "ipc.sweep_seconds": 0.05,
    "spool.request.UNFINISHED_SECONDS": 0.3,
    "ops.maintenance.EDITS_SECONDS": 0.2,
}
# For a test that waits until notes have settled and people's edits are recorded.
AT_ONCE: dict[str, object] = {
    "ops.maintenance.CHECKPOINT_SECONDS": 0.05,
    "documents.saves.DELETED_SECONDS": 0.2,
    "ops.forget.SETTLE_LOOK_SECONDS": 0.05,
    "documents.saves.QUIET_SECONDS": 0.1,
    "ops.maintenance.EDITS_SECONDS": 0.05,
}
PLAIN = (sys.executable, "-W", "error", "-m", "honeybadger_host")
# The commands as they are installed, with warnings as errors.
AGENT = (sys.executable, "-W", "error", "-m", "honeybadger_agent.cli")
_COMMON = "HB_TESTS_COMMON"
_LAUNCH = Path(__file__).parent / "crash" / "launch.py"
_OF_BOTH = (
    *("honeybadger_host.daemon", "honeybadger_host.ops.doctor", "honeybadger_host.ops.maintenance"),
    *("honeybadger_host.search.ranking", "honeybadger_host.ops.backup", "honeybadger_host.ops.gist"),
    *(f"honeybadger_host.transfer.{name}" for name in ("importing", "loading", "exporting", "markdown_export")),
    *("honeybadger_agent.cli.commands", "honeybadger_agent.cli.chat", "asyncio"),
    "typer._click.decorators",
    "anyio._core._signals",
    *("prompt_toolkit.input.vt100", "prompt_toolkit.patch_stdout", "rich.live", "rich.markdown"),
    *(f"honeybadger_host.cluster.{name}" for name in ("member", "operating", "checks") if "HB_CLUSTER" in os.environ),
)
_OF_A_MODEL = (
    "honeybadger_agent.models.providers",
    *("pydantic_ai.models.openai", "pydantic_ai.providers.ollama", "pydantic_ai.models.anthropic"),
    *("pydantic_ai.providers.openai", "openai.resources.chat.completions", "openai.lib.streaming.chat"),
    *("anthropic.resources.messages", "genai_prices.data"),
)


def import_all() -> None:
    """Import what hosts and agents of the tests import late: what is compiled here is not compiled by each worker."""
    for module in (*_OF_BOTH, *_OF_A_MODEL):
        importlib.import_module(module)


# Seconds until what is waited for is given up: long enough for a busy machine, and nobody waits who is answered.
PATIENCE = 50.0

T = TypeVar("T")


def frozen_environment(**more: str) -> dict[str, str]:
    """Return an environment in which nothing of the caller's settings is left."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "XDG_CONFIG_HOME") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "TZ": "Asia/Kathmandu", **more}


@functools.cache
def common_folder() -> Path:
    """Return a folder that all test processes of a run have in common; what they share ends with the first of them."""
    if (named := os.environ.get(_COMMON)) is not None:
        return Path(named)
    folder = Path(tempfile.mkdtemp(prefix="hb-"))  # a socket's address has at most 107 bytes
    os.mkfifo(folder / "life")
    os.open(folder / "life", os.O_RDWR)  # open until this process ends: then whoever reads it hears of that
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_COMMON] = str(folder)
    return folder


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time do something in a folder."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wait_for(predicate: Callable[[], T], timeout: float = PATIENCE, *, what: str = "") -> T:
    """Return the first true value of `predicate`; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = 0.001
    while not (value := predicate()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what or predicate}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    return value


def status_of(home: Path) -> dict[str, Any]:
    """Return what a host says of itself; it may not have said anything when it begins to serve."""
    status = home / "data/status.json"
    wait_for(status.exists, what="what the host says of itself")
    value = orjson.loads(status.read_bytes())
    assert isinstance(value, dict)
    return value


def turns_of(home: Path, session: str = "main", group: str = "main") -> list[dict[str, Any]]:
    """Return the turns in a session's log, oldest first."""
    try:
        lines = (home / "data" / "sessions" / group / f"{session}.jsonl").read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [orjson.loads(line) for line in lines]


def files_with(folder: Path, *texts: bytes) -> list[Path]:
    """Return the files below a folder that hold one of some texts; a host may make, replace and remove files there."""
    found: list[Path] = []
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                data = path.read_bytes() if path.is_file() else b""
                found += [path] * any(text in data for text in texts)
    return found


def at_once(*acts: Callable[[], T]) -> list[T]:
    """Do things at once, each in a thread; return what each gives, or raise what one of them raises."""
    with ThreadPoolExecutor(len(acts)) as threads:
        return [done.result() for done in [threads.submit(act) for act in acts]]


@contextlib.contextmanager
def little_space(most_bytes: int) -> Iterator[None]:
    """Let this process write no file that is longer: as on a full disk."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def make_socket(path: Path) -> None:
    """Make a socket at a path of any length: an address has at most 107 bytes."""
    with socket.socket(socket.AF_UNIX) as sock:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            sock.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


class Notifications:
    """A datagram socket as systemd's: keeps what the host says."""

    def __init__(self, *, abstract: bool = False) -> None:
        self._folder = tempfile.mkdtemp(prefix="hb-")  # a socket's address has at most 107 bytes
        os.chmod(self._folder, 0o755)  # the host may be somebody else
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        path = f"{self._folder}/notify"
        self.address = f"@{path}" if abstract else path
        self._socket.bind("\0" + path if abstract else path)
        if not abstract:
            os.chmod(path, 0o777)
        self._socket.settimeout(0.05)
        self.received: list[str] = []

    def poll(self) -> list[str]:
        """Wait a moment for the next message; return all so far."""
        with contextlib.suppress(TimeoutError):
            self.received.append(self._socket.recv(4096).decode())
        return self.received

    def close(self) -> None:
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def arguments_of(settings: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """Return the arguments of `launch.py` and those of the command: a name in capitals is a constant of a module."""
    constants: list[str] = []
    flags: list[str] = []
    for name, value in settings.items():
        given = f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        if name.rpartition(".")[2].isupper():
            constants += ["--constant", given]
        else:
            flags += ["--set", given]
    return constants, flags


class Child:
    """A process that was forked by a `Forge`; as `subprocess.Popen` where that is used."""

    def __init__(self, forge: Forge, pid: int, stderr: Path) -> None:
        self._forge = forge
        self.pid = pid
        self.stderr = stderr
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        if self._code is None:
            self._code = self._forge.ask({"poll": self.pid})["code"]
        return self._code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)  # the forge reaps it only when asked: the number is still its own

    def wait(self, timeout: float = 60.0) -> int:
        """Return the exit code once it has ended."""
        if self._code is None:
            with open(os.pidfd_open(self.pid), "rb") as process:  # the forge reaps it only when asked
                ended, _, _ = select.select([process], [], [], timeout)
            assert ended, f"process {self.pid} does not end:\n{self.tail()}"
        code = self.poll()
        assert code is not None
        return code

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()

    def tail(self) -> str:
        """Return the end of what it printed."""
        return self.stderr.read_text(errors="replace")[-3000:] if self.stderr.is_file() else ""


class Forge:
    """A process that has imported our programs and forks them; any thread may use it.

    All test processes of a run use the same one of each kind.

    Args:
        modules: what else it imports.
        env: of that process, on top of a frozen environment.
    """

    def __init__(self, *modules: str, **env: str) -> None:
        folder, kind = common_folder(), hashlib.sha256(repr((modules, env)).encode()).hexdigest()[:12]
        address = folder / f"{kind}.sock"
        with locked(folder), (folder / "life").open("rb") as life:
            if not address.exists():
                command = [sys.executable, "-W", "error", str(_LAUNCH), "--nursery", str(address), *modules]
                alone = {"OPENBLAS_NUM_THREADS": "1"}  # numpy's threads would be lost at a fork
                subprocess.run(command, env=frozen_environment(**alone, **env), stdin=life, check=True)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(address))
            self._connection = connection.makefile("rw")
        self._lock = threading.Lock()

    def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._connection.write(json.dumps(command) + "\n")
            self._connection.flush()
            answer = json.loads(self._connection.readline())
        assert isinstance(answer, dict)
        return answer

    def fork(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        *,
        stdout: Path,
        stderr: Path,
        stdin: Path | None = None,
        cwd: Path | None = None,
        on_terminal: bool = False,
    ) -> Child:
        """Start `launch.py` with these arguments; its output is appended to the files.

        Args:
            on_terminal: the files are a terminal, which is to be its own.
        """
        command = {"start": [*arguments], "env": frozen_environment(**env), "cwd": str(cwd or Path.cwd())}
        files = [str(stdin or os.devnull), str(stdout), str(stderr)]
        return Child(self, self.ask({**command, "files": files, "on_terminal": on_terminal})["pid"], stderr)


@functools.cache
def forge(*modules: str, **env: str) -> Forge:
    """Return a forge of this test process; one for each kind."""
    return Forge(*_OF_BOTH, *modules, **env)


def forge_of(command: Sequence[str]) -> tuple[Forge, list[str]] | None:
    """Return what forks a command and its arguments there; None: it is not one of our programs."""
    match tuple(command[: len(PLAIN)]), list(command[len(PLAIN) :]):
        case program, rest if program == AGENT:
            return forge(), ["--as-agent", *rest]
        case program, rest if program == PLAIN:
            return forge(), rest
    return None


class HostProcess:
    """A host on a home folder, from `start` to `stop` or `kill`; may be started again.

    Args:
        settings: passed as `--set`, on top of `QUICK`; see `arguments_of`.
        env: added to a frozen environment.
        source: a program that the host's process runs first, which puts a fault into it.
    """

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, object] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        source: str = "",
        abstract_socket: bool = False,
    ) -> None:
        self.home = home
        self.settings: dict[str, object] = {**QUICK, **(settings or {})}
        self.env = dict(env or {})
        self.source = source
        self.stderr = home.parent / f"{home.name}.stderr"
        self.notifications = Notifications(abstract=abstract_socket)
        self._process: Child | None = None
        self._is_awaited = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process(self) -> Child:
        assert self._process is not None, "the host was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> HostProcess:
        """Start the process and do not wait."""
        assert not self.is_running, "the host runs already"
        self.notifications.received.clear()
        self._is_awaited = False
        constants, flags = arguments_of(self.settings)
        arguments = [*constants, "--source", self.source, "run", "--home", str(self.home), *flags]
        env = {"NOTIFY_SOCKET": self.notifications.address, **self.env}
        preloaded = {"LD_PRELOAD": self.env["LD_PRELOAD"]} if "LD_PRELOAD" in self.env else {}
        models = [str(self.settings.get(name, "")) for name in ("model.name", "model.curation")]
        asks_a_model = any(model.startswith(("openai:", "anthropic:")) for model in models)
        forked = forge(*(_OF_A_MODEL if asks_a_model else ()), **preloaded)
        self._process = forked.fork(arguments, env, stdout=self.stderr, stderr=self.stderr)
        return self

    def start(self, timeout: float = PATIENCE) -> HostProcess:
        """Start the process and wait until it says that it serves."""
        self.launch()
        deadline = time.monotonic() + timeout
        while "READY=1" not in self.notifications.poll():
            if self.process.poll() is not None or time.monotonic() > deadline:
                code = self.process.poll()
                self.close()
                raise AssertionError(f"the host did not start (exit code {code}):\n{self.log_text()[-4000:]}")
        return self

    def wait(self, timeout: float = PATIENCE) -> int:
        """Return the exit code once the process has ended."""
        self._is_awaited = True
        return self.process.wait(timeout)

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM, timeout: float = PATIENCE) -> None:
        """Stop it as an operator does; it must end in order."""
        self.send_signal(number)
        assert self.wait(timeout) == 0, self.log_text()[-4000:]

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self.process.kill()
        self.wait(20)

    def restart(self) -> HostProcess:
        """Stop it when it runs, then start it."""
        if self.is_running:
            self.stop()
        return self.start()

    def close(self) -> None:
        """End the process, if it still runs, and forget the socket."""
        if self.is_running:
            self.kill()
        self.notifications.close()

    def check(self) -> None:
        """Fail when it has ended by itself: no test has waited for that."""
        assert self._process is None or self._is_awaited or self.is_running, self.log_text()[-4000:]

    def log_text(self) -> str:
        """Return all it printed."""
        return self.stderr.read_text() if self.stderr.is_file() else ""

    def log_lines(self) -> list[dict[str, Any]]:
        """Return every line it printed to its end; fails when one is not a JSON object."""
        lines = []
        printed = self.stderr.read_bytes() if self.stderr.is_file() else b""
        for line in printed[: printed.rfind(b"\n") + 1].splitlines():
            try:
                value = orjson.loads(line)
            except orjson.JSONDecodeError:
                raise AssertionError(f"a broken log line: {line[:2000]!r}") from None
            assert isinstance(value, dict), line
            lines.append(value)
        return lines

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the log lines of one event."""
        return [line for line in self.log_lines() if line["event"] == name]

    def wait_for_event(self, name: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """Return the first log line of one event."""
        return wait_for(lambda: self.events(name), timeout, what=f"log event {name}")[0]


def run_cli(
    *arguments: object, home: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one `honeybadger-host` command to its end."""
    where = () if home is None else ("--home", str(home))
    return run([*PLAIN, *map(str, arguments), *where], env=env)


def run_agent(
    *arguments: object, home: Path | None = None, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run one `honeybadger-agent` command to its end."""
    where = () if home is None else ("--home", str(home))
    return run([*AGENT, *map(str, arguments), *where], env=env, stdin=stdin)


def run(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run one of our programs to its end."""
    found = forge_of(command)
    assert found is not None, command
    with tempfile.TemporaryDirectory(prefix="hb-") as folder:
        given, stdout, stderr = (Path(folder, name) for name in ("stdin", "stdout", "stderr"))
        given.write_bytes(stdin)
        child = found[0].fork(found[1], env or {}, stdin=given, stdout=stdout, stderr=stderr)
        code, printed, complained = child.wait(100), stdout.read_bytes().decode(), stderr.read_bytes().decode()
        return subprocess.CompletedProcess([*command], code, printed, complained)


def begin(*arguments: object, home: Path) -> Child:
    """Begin one `honeybadger-host` command, for who ends it before its time; it prints into a file beside the home."""
    said = home.parent / f"{home.name}.said"
    return forge().fork([*map(str, arguments), "--home", str(home)], {}, stdout=said, stderr=said)


def request(request_id: str, type_name: str = "update_memory", /, **members: Any) -> bytes:
    """Return the bytes of a request; `content="…"` is short for a note's payload, any other member overrides."""
    value: dict[str, Any] = {"v": 1, "id": request_id, "type": type_name}
    if "content" in members:
        value["payload"] = {"content": members.pop("content")}
    return orjson.dumps(value | members)


@dataclass(frozen=True)
class RawSender:
    """A sender that writes files and renames them, with nothing of ours."""

    home: Path
    group: str = "main"
    sender: str = "stranger"

    @property
    def root(self) -> Path:
        return self.home / "data" / "ipc" / self.group / self.sender

    @property
    def requests(self) -> Path:
        return self.root / "requests"

    @property
    def replies(self) -> Path:
        return self.root / "replies"

    @property
    def memory(self) -> Path:
        return self.home / "groups" / self.group / "MEMORY.md"

    @property
    def dead(self) -> Path:
        return self.home / "data" / "dead" / self.group / self.sender

    def make(self) -> RawSender:
        """Make the folders a client makes."""
        for name in ("tmp", "requests", "replies", "turns"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        return self

    @property
    def turns(self) -> Path:
        return self.root / "turns"

    def drop(self, stem: str, data: bytes, box: str = "requests") -> None:
        """Write and rename into `requests/`, or into `turns/`."""
        temporary = self.root / "tmp" / f"{stem}.tmp"
        temporary.write_bytes(data)
        temporary.rename(self.root / box / f"{stem}.json")

    def say(self, stem: str, content: str, **members: Any) -> None:
        """Drop a message for the group's agent; `members` go into the payload."""
        self.drop(stem, request(stem, "chat", payload={"content": content, **members}), "turns")

    def chat(self, stem: str, content: str, timeout: float = PATIENCE, **members: Any) -> dict[str, Any]:
        """Say something and wait for the reply, and for the message to be taken."""
        self.say(stem, content, **members)
        value = self.reply(stem, timeout)
        self.wait_until_taken(stem, box="turns")
        return value

    def note(self, stem: str, content: str) -> None:
        """Drop a note."""
        self.drop(stem, request(stem, content=content))

    def peek(self, stem: str) -> bytes | None:
        """Return the reply's bytes, None while there is none."""
        try:
            return (self.replies / f"{stem}.json").read_bytes()
        except FileNotFoundError:
            return None

    def reply(self, stem: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """Wait for a reply."""
        try:
            data = wait_for(lambda: self.peek(stem), timeout, what=f"reply to {self.group}/{self.sender}/{stem}")
        except AssertionError as error:
            if (printed := self.home.parent / f"{self.home.name}.stderr").is_file():  # the host may have died
                error.add_note(printed.read_text(errors="replace")[-3000:])
            raise
        assert data is not None
        value = orjson.loads(data)
        assert isinstance(value, dict)
        return value

    def ask(self, stem: str, data: bytes, timeout: float = PATIENCE) -> dict[str, Any]:
        """Drop a request and wait for its reply and for its removal."""
        self.drop(stem, data)
        value = self.reply(stem, timeout)
        self.wait_until_taken(stem)
        return value

    def again(self, stem: str, data: bytes) -> dict[str, Any]:
        """Ask once more, as one does whose reply was lost."""
        (self.replies / f"{stem}.json").unlink(missing_ok=True)
        return self.ask(stem, data)

    def do(self, stem: str, type_name: str = "update_memory", /, **payload: Any) -> dict[str, Any]:
        """Have a request served, which must be well; return its result."""
        reply = self.ask(stem, request(stem, type_name, payload=payload))
        assert reply["ok"], reply
        result: dict[str, Any] = reply["result"]
        return result

    def wait_until_taken(self, stem: str, timeout: float = PATIENCE, box: str = "requests") -> None:
        """Wait until the host has removed the request."""
        path = self.root / box / f"{stem}.json"
        wait_for(lambda: not os.path.lexists(path), timeout, what=f"{path} removed")

    def reason(self, stem: str) -> dict[str, Any]:
        """Return why a request is among the dead letters."""
        value = orjson.loads((self.dead / f"{stem}.reason.json").read_bytes())
        assert isinstance(value, dict)
        return value

    def memory_text(self) -> str:
        """Return MEMORY.md, an empty text when there is none."""
        try:
            return self.memory.read_text()
        except FileNotFoundError:
            return ""


def assert_refused(reply: Mapping[str, Any], code: ErrorCode, *, says: str = "", field: str | None = None) -> None:
    """Check an error reply: its code, that it can be read, and what it says."""
    assert reply["ok"] is False
    assert "result" not in reply
    error = reply["error"]
    assert error["code"] == code, error
    assert says in error["message"], error
    assert error["message"].isprintable()
    if field is not None:
        assert error["field"] == field, error
