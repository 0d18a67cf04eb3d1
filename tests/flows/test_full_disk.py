"""A disk that is full, or may not be written: nothing is acknowledged on a guess, and all goes on when it is mended."""

import errno
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import cli_error, cli_text
from tests.conftest import HostFactory
from tests.flows.conftest import FaultFactory
from tests.flows.world import is_idle, mounted, needs_mount, remount, troubles, use_up_inodes, use_up_space
from tests.hosting import HostProcess, RawSender, assert_refused, request, status_of, wait_for

NAMES = ("r1", "r2", "r3")
CHANGING_CALLS = "write,create,rename,unlink,truncate"
# The host writes nothing to its journal that nobody has asked for.
NO_CHECKPOINT: dict[str, object] = {"ops.maintenance.CHECKPOINT_SECONDS": 600.0, "ops.maintenance.EDITS_SECONDS": 600.0}


def _drop_while_stopped(host: HostProcess, sender: RawSender) -> None:
    """Have requests lie there before the host can look at them; it goes on with SIGCONT."""
    os.kill(host.pid, signal.SIGSTOP)
    while any((host.home / "data").glob(".*.tmp")):  # its rename would free an inode for the replies
        os.kill(host.pid, signal.SIGCONT)
        os.kill(host.pid, signal.SIGSTOP)
    for name in NAMES:
        sender.drop(name, request(name, content=name))


def _assert_each_stands_once(sender: RawSender) -> None:
    for name in NAMES:
        assert sender.reply(name)["ok"] is True
        assert sender.memory_text().count(f"- {name}\n") == 1


@needs_mount
@pytest.mark.parametrize(
    ("use_up", "without"), [(use_up_space, " 0 MiB and "), (use_up_inodes, " 0 inodes free")], ids=["space", "inodes"]
)
def test_on_a_full_disk_requests_wait_and_run_once(
    disk: Path, cramped: HostProcess, use_up: Callable[[Path], list[Path]], without: str
) -> None:
    cramped.settings["ops.maintenance.CHECKPOINT_SECONDS"] = 600.0  # without a checkpoint each commit needs space
    host, home = cramped.start(), cramped.home
    sender = RawSender(home).make()
    sender.do("before", content="before")
    _drop_while_stopped(host, sender)
    fillers = use_up(disk)
    os.kill(host.pid, signal.SIGCONT)
    wait_for(lambda: host.events("pipeline.reply_failed"))
    assert is_idle(host)
    assert sorted(path.name for path in sender.requests.iterdir()) == ["r1.json", "r2.json", "r3.json"]
    assert len(host.events("pipeline.reply_failed")) == 1
    doctor = cli_text("doctor", home=home, code=1)
    assert any(without in line for line in doctor.splitlines() if line.startswith("problem   disk:"))
    assert any(without in line for line in cli_text("status", home=home).splitlines() if line.startswith("problem "))
    if use_up is use_up_space:
        assert host.events("journal.waiting")
        assert "No space left on device" in cli_error("undo", "1", home=home, code=8)
        for command in (("sender", "add", "main", "late"), ("sender", "token", "main", "late")):
            assert re.search(r"No space left on device: '\S+/config/\w", cli_error(*command, home=home, code=8))
        assert "there is no backup" in cli_error("backup", disk / "copy.tar.gz", home=home, code=8)
        assert "- r1" not in sender.memory_text()
    for path in fillers:
        path.unlink()
    wait_for(lambda: not list(sender.requests.iterdir()), timeout=100)
    _assert_each_stands_once(sender)
    assert bool(host.events("journal.recovered")) == (use_up is use_up_space)
    host.stop()


def test_a_full_journal_is_unavailable_and_later_works_once(
    fault_of: FaultFactory, make_host: HostFactory, stranger: RawSender
) -> None:
    fault = fault_of("write,create", "journal.db", errno.ENOSPC)
    settings = {**NO_CHECKPOINT, "spool.batch_writer.FULL_DISK_SECONDS": 0.3}  # a checkpoint would say it, too
    host = make_host(settings, env=fault.env).start()
    stranger.do("before", content="before")
    fault.begin()
    for name in NAMES:
        assert_refused(stranger.ask(name, request(name, content=name)), "unavailable", says="nothing was changed")
        (stranger.replies / f"{name}.json").unlink()
    stranger.do("query", "read_group_files")
    assert "- r" not in stranger.memory_text()
    assert len(host.events("journal.waiting")) == 1
    assert is_idle(host)
    fault.end()
    for name in NAMES:
        stranger.do(name, content=name)
    _assert_each_stands_once(stranger)
    assert len(host.events("journal.recovered")) == 1
    host.stop()


def test_a_checkpoint_says_that_it_waits_for_space_and_has_it(
    fault_of: FaultFactory, make_host: HostFactory, stranger: RawSender
) -> None:
    fault = fault_of("write,create", "journal.db", errno.ENOSPC)
    host = make_host(env=fault.env).start()
    stranger.do("before", content="before")
    with open(stranger.memory, "r+b"):  # the note waits, and the checkpoint for it, until this is closed
        stranger.do("r1", content="r1")
        fault.begin()
    host.wait_for_event("journal.waiting")
    fault.end()
    host.wait_for_event("journal.recovered")
    host.stop()


@needs_mount
def test_notes_on_a_full_disk_are_written_once_later(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    with mounted(home / "groups", "size=64k") as groups:
        stranger.memory.parent.mkdir()
        host = make_host({"ops.status.STATUS_SECONDS": 0.1}).start()
        stranger.do("before", content="before")
        (filler,) = use_up_space(groups)
        text = "x" * 4096
        for name in NAMES:
            stranger.do(name, content=f"{name} {text}")
        wait_for(lambda: status_of(home)["files_behind"] == ["groups/main/MEMORY.md"])
        assert "cannot be written now: groups/main/MEMORY.md" in cli_text("status", home=home)
        doctor = cli_text("doctor", home=home, code=1)
        assert re.search(rf"problem   disk: 0 MiB and \d+ inodes free for {home}/groups", doctor)
        assert "problem   running: cannot be written now: groups/main/MEMORY.md" in doctor
        assert len(host.events("projection.failed")) == 1
        assert is_idle(host)

        host.restart()  # recovery finds the disk full, too, and the host serves
        stranger.do("again", content="again")
        filler.unlink()
        host.wait_for_event("projection.caught_up")
        for name in NAMES:
            assert stranger.memory_text().count(f"- {name} {text}\n") == 1
        assert stranger.memory_text().count("- again\n") == 1
        host.stop()


@pytest.mark.parametrize("kind", ["create", "write"])
def test_a_reply_without_space_is_written_later(
    kind: str, fault_of: FaultFactory, make_host: HostFactory, stranger: RawSender
) -> None:
    fault = fault_of(kind, "/replies/", errno.ENOSPC)
    host = make_host({"ops.status.STATUS_SECONDS": 0.1}, env=fault.env).start()
    fault.begin()
    for number in range(50):
        stranger.note(f"n{number:02}", f"note {number:02}.")
    wait_for(lambda: stranger.memory_text().count("- note") == 50)
    wait_for(lambda: fault.count() >= 50)
    assert is_idle(host)
    assert list(stranger.replies.glob("*.json")) == []
    unanswered = ["main/stranger: No space left on device; 50 requests wait"]
    wait_for(lambda: status_of(stranger.home)["unanswered"] == unanswered)
    assert troubles(host) == ["pipeline.reply_failed"]  # not one for each request and each try
    fault.end()
    wait_for(lambda: not os.listdir(stranger.requests), timeout=100)
    for number in range(50):
        assert stranger.reply(f"n{number:02}")["ok"] is True
        assert stranger.memory_text().count(f"- note {number:02}.\n") == 1
    host.stop()


def test_a_read_only_disk_acknowledges_nothing(
    fault_of: FaultFactory, make_host: HostFactory, stranger: RawSender
) -> None:
    fault = fault_of(CHANGING_CALLS, "", errno.EROFS)
    host = make_host({"ops.status.STATUS_SECONDS": 0.1, **NO_CHECKPOINT}, env=fault.env).start()
    stranger.do("before", content="before")
    fault.begin()
    host.wait_for_event("status.failed")
    for name in NAMES:
        stranger.note(name, name)
    host.wait_for_event("pipeline.reply_failed")
    assert is_idle(host)
    assert len(host.events("status.failed")) == 1
    assert not [name for name in NAMES if stranger.peek(name)]
    fault.end()
    _assert_each_stands_once(stranger)
    host.stop()


@needs_mount
def test_a_start_on_a_read_only_disk_says_so(disk: Path, cramped: HostProcess) -> None:
    host, home = cramped.start(), cramped.home
    sender = RawSender(home).make()
    sender.do("before", content="before")
    host.stop()
    sender.note("r1", "r1")
    remount(disk, "ro")
    assert host.launch().wait() == 8  # systemd tries it again; it would not with the code for a bad home
    assert f"{home}/data is on a file system that is mounted read-only" in host.log_text().splitlines()[-1]
    assert "no host serves" in cli_error("status", home=home, code=7)
    doctor = cli_text("doctor", home=home, code=1)
    assert "problem   home:" in doctor
    assert doctor.count("mounted read-only") == 1
    remount(disk, "rw")
    host.stderr.unlink()
    host.start()
    assert sender.reply("r1")["ok"] is True
    assert sender.memory_text().count("- r1\n") == 1
    host.stop()
