"""The process that reads files for the index, beside a real host: it never outlives it, and holds none of its files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from honeybadger_agent import tools
from tests.conftest import HostFactory
from tests.hosting import HostProcess, wait_for

COUNT = 10_000
"""Entries: about half a second of reading, of which a test needs a moment."""

if not Path("/proc/self/stat").exists():
    pytest.skip("processes are found in /proc", allow_module_level=True)


@pytest.fixture
def host(home: Path, make_host: HostFactory) -> HostProcess:
    folder = home / "groups" / "main" / "memory" / "general"
    folder.mkdir(parents=True)
    for number in range(COUNT):
        (folder / f"e{number}.json").write_bytes(b'{"content": "number%d is what this one says"}' % number)
    return make_host()


@pytest.fixture
def stopped(host: HostProcess) -> Iterator[int]:
    """The number of a running host's reading process, which stands still."""
    pid = 0
    for _ in range(5):  # a machine that is busy elsewhere may have read them all before we looked
        host.launch()
        found = wait_for(lambda: reading_processes(host.pid) or (host.is_running and is_indexed(host)), 60)
        if isinstance(found, list):
            pid = found[0]
            os.kill(pid, signal.SIGSTOP)
            break
        host.stop()
        (host.home / "data" / "index.db").unlink()
    assert pid, "no reading process was seen"
    wait_for(lambda: state_of(pid) == "T", 30, what="it stands still")  # only what does is sent on when its parent ends
    yield pid
    if is_there(pid):
        os.kill(pid, signal.SIGKILL)


def reading_processes(parent: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                command = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            is_ready = int(stat[16]) > 0  # its priority is the first thing it changes
            if int(stat[1]) == parent and stat[0] != "Z" and is_ready and b"honeybadger-reading" in command:
                found.append(int(name))
    return found


def is_indexed(host: HostProcess) -> bool:
    return any(line["event"] == "index.finished" for line in host.log_lines())


def state_of(pid: int) -> str:
    """Return the state of a process as Linux writes it; `Z` when it is not there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def is_there(pid: int) -> bool:
    return state_of(pid) != "Z"


def test_a_killed_host_leaves_no_process_behind(host: HostProcess, stopped: int) -> None:
    host.kill()  # Linux lets it go on then: nobody else could
    wait_for(lambda: not is_there(stopped), 30, what="it ends when the host is gone")


def test_a_host_that_is_told_to_stop_ends_it_even_when_it_hangs(host: HostProcess, stopped: int) -> None:
    host.wait_for_event("host.started", 60)
    host.stop()
    assert not is_there(stopped)
    assert not [line for line in host.log_lines() if line["level"] in ("error", "warning")]


def test_it_holds_none_of_the_descriptors_of_the_host(host: HostProcess, stopped: int) -> None:
    held = [os.readlink(f"/proc/{stopped}/fd/{name}") for name in os.listdir(f"/proc/{stopped}/fd")]
    assert len([link for link in held if link.startswith("pipe:")]) >= 3
    assert not [link for link in held if f"{host.home}/data" in link or link.startswith(("socket:", "anon_inode:"))]


def test_a_process_killed_for_its_memory_costs_one_line_and_no_entry(
    host: HostProcess, stopped: int, client: object
) -> None:
    os.kill(stopped, signal.SIGKILL)
    host.wait_for_event("index.finished", 60)
    failed = [line for line in host.log_lines() if line["event"] == "index.process_failed"]
    assert [line["error"] for line in failed] == ["it was ended by SIGKILL"]
    assert callable(client)
    found = client().call(tools.search_memory("number4711"))
    assert [hit.id for hit in found.hits] == ["e4711"]
    assert found.is_complete
