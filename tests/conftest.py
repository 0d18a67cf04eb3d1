"""Fixtures for every room: a home folder, the real daemon on it, clients."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, settings

from honeybadger_agent import SyncClient
from honeybadger_host.files.home import make_home
from tests.crash.hosts import build_shim
from tests.hosting import PATIENCE, HostProcess, RawSender, common_folder

# No time limit for each example: the machine may be busy, and every test has a limit of its own.
# The check of the project tries the same examples each time, a developer's run others: what it finds is not by luck.
settings.register_profile(
    "patient",
    deadline=None,
    max_examples=200 if os.environ.get("HB_CRASH_LONG") else 30,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.register_profile("few", settings.get_profile("patient"), max_examples=15)  # for a second interpreter
settings.load_profile("patient")


def pytest_configure() -> None:
    common_folder()  # made by the first process, before there are others
    gc.disable()  # what is collected stays: looking through it again and again takes a fifth of the time


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _frozen_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the caller's shell says about Honeybadger and systemd, and the caller's default home."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null/config")
    for name in list(os.environ):
        if name.upper().startswith("HONEYBADGER_") or name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
            monkeypatch.delenv(name)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fresh home with the group `main`."""
    folder = tmp_path / "home"
    make_home(folder)
    return folder


class HostFactory(Protocol):
    def __call__(self, settings: dict[str, object] | None = None, **more: Any) -> HostProcess: ...


@pytest.fixture
def make_host(home: Path) -> Iterator[HostFactory]:
    """Make hosts on `home` that are not started; see `HostProcess`.

    They are killed with the test: one that ended before, and was not told to, fails it.
    """
    made: list[HostProcess] = []
    with ExitStack() as hosts:

        def make(settings: dict[str, object] | None = None, **more: Any) -> HostProcess:
            made.append(hosts.enter_context(HostProcess(more.pop("home", home), settings, **more)))
            return made[-1]

        yield make
        for host in made:
            host.check()


@pytest.fixture
def host(make_host: HostFactory) -> Iterator[HostProcess]:
    """A running host on `home`. If the test leaves it running, it must stop in order and have logged JSON only."""
    process = make_host().start()
    yield process
    if process.is_running:
        process.stop()
    process.log_lines()


MakeClient = Callable[..., SyncClient]


@pytest.fixture
def client(home: Path) -> MakeClient:
    """Make clients: `client("researcher")`, `client("user", "kitchen")`."""

    def make(sender: str = "researcher", group: str = "main", **more: Any) -> SyncClient:
        return SyncClient(home, group, sender, **{"timeout_seconds": PATIENCE, **more})

    return make


@pytest.fixture
def stranger(home: Path) -> RawSender:
    """A sender of `main` that uses nothing of ours; its folders exist."""
    return RawSender(home).make()


@pytest.fixture(scope="session")
def shim() -> Path:
    """The compiled `tests/crash/faults.c`."""
    built = build_shim(common_folder())
    if isinstance(built, str):
        pytest.skip(built)
    return built


@pytest.fixture(scope="module")
def serving(request: pytest.FixtureRequest) -> Callable[[Path], HostProcess]:
    """Make the host of `served` for a home, with the module's `SERVED_WITH`; a module may replace this."""
    return lambda home: HostProcess(home, getattr(request.module, "SERVED_WITH", None))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, serving: Callable[[Path], HostProcess]) -> Iterator[HostProcess]:
    """One host for all tests of a module; each asks in a group of its own, and may kill it and start it again.

    In the end it must stop in order, have logged JSON only, and have no more files open than at the beginning.
    """
    folder = tmp_path_factory.mktemp("served") / "home"
    make_home(folder)
    with serving(folder) as process:
        yield process.start()
        descriptors = Path(f"/proc/{process.pid}/fd")
        if descriptors.is_dir():
            assert len(list(descriptors.iterdir())) < 40
        process.stop()
        process.log_lines()


@pytest.fixture
def asker(served: HostProcess) -> RawSender:
    """A sender of a fresh group of `served`, that uses nothing of ours."""
    number = sum(1 for _ in (served.home / "data" / "ipc").iterdir())
    sender = RawSender(served.home, f"group-{number}", "asker").make()
    sender.memory.parent.mkdir()
    return sender


@pytest.fixture
def member(asker: RawSender) -> MakeClient:
    """Make clients of `served`, in the group of `asker`: `member("researcher")`."""

    def make(sender: str = "researcher", **more: Any) -> SyncClient:
        return SyncClient(asker.home, more.pop("group", asker.group), sender, **{"timeout_seconds": PATIENCE, **more})

    return make
