"""A world that fails a running host: what was acknowledged is there once, what was not is served when it is mended.

A full or read-only disk: `test_full_disk`; the clock: `test_clock`; a watcher whose threads died, and thousands of
requests that came while the host was stopped by a signal: `test_watching`.
"""

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.journal.reader import LogFilter, read_log
from tests.commands import cli_json, cli_text
from tests.conftest import HostFactory
from tests.flows.conftest import FaultFactory
from tests.flows.world import ask, is_idle, troubles
from tests.hosting import AT_ONCE, HostProcess, RawSender, assert_refused, request, run_cli, status_of, wait_for
from tests.people import looking, newest_edit


def _count(sender: RawSender, name: str) -> int:
    return sender.memory_text().count(f"- {name}.\n")


def _are_done_once(sender: RawSender, *names: str) -> None:
    """Each note was acknowledged, its request removed, and it is there once."""
    for name in names:
        assert sender.reply(name)["ok"] is True
        sender.wait_until_taken(name)
        assert _count(sender, name) == 1


@pytest.mark.parametrize(
    ("path", "says"), [("journal.db", "nothing more can be acknowledged"), ("MEMORY.md", "a restart recovers")]
)
def test_a_failed_sync_ends_the_host_and_loses_nothing(
    path: str, says: str, fault_of: FaultFactory, make_host: HostFactory, stranger: RawSender
) -> None:
    fault = fault_of("sync", path, errno.EIO)
    host = make_host(env=fault.env).start()
    ask(stranger, "before")
    fault.begin()
    stranger.note("during", "during.")
    assert host.wait() == 8
    stranger.note("late", "late.")
    last = host.log_text().splitlines()[-1]
    assert path in last
    assert says in last
    assert "Traceback" not in host.log_text()
    acknowledged = stranger.peek("during") is not None
    assert acknowledged is (path == "MEMORY.md")  # the journal had it by then
    fault.end()
    host.stderr.unlink()
    host.start()
    _are_done_once(stranger, "before", "during", "late")
    assert host.is_running
    host.stop()


def _limit_of_open_files(host: HostProcess, number: int) -> None:
    _, hard = resource.prlimit(host.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(host.pid, resource.RLIMIT_NOFILE, (number, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process is set by prlimit, which Linux has")
@pytest.mark.parametrize("spare", [0, 2])
def test_with_too_many_open_files_the_host_waits(spare: int, make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host({"ops.status.STATUS_SECONDS": 0.1}).start()
    ask(stranger, "before")
    wait_for(lambda: status_of(stranger.home).get("watcher", {}).get("is_alive"))
    before, _ = resource.prlimit(host.pid, resource.RLIMIT_NOFILE)
    wait_for(lambda: status_of(stranger.home)["journal"]["projected_seq"] == 1)
    open_files = max(map(int, os.listdir(f"/proc/{host.pid}/fd"))) + 1
    _limit_of_open_files(host, open_files + spare if spare else 3)  # at 3 none can be opened, whatever it closes
    names = [f"n{number:02}" for number in range(20)]
    for name in names:
        stranger.note(name, f"{name}.")
    if spare == 0:
        assert "raise the limit of open files" in host.wait_for_event("inbox.refused")["why"]
    assert is_idle(host)
    said = troubles(host)
    assert len(said) < 10, said  # not one for each request, nor for each sweep
    if spare == 0:
        assert not [name for name in names if stranger.peek(name)]
    _limit_of_open_files(host, before)
    _are_done_once(stranger, *names)
    assert len(host.events("inbox.found")) == 1  # it was there all the time
    wait_for(lambda: status_of(stranger.home)["journal"]["projected_seq"] == 21)
    host.stop()


def test_an_undeletable_request_runs_once(fault_of: FaultFactory, make_host: HostFactory, stranger: RawSender) -> None:
    fault = fault_of("unlink", "/requests/", errno.EPERM)
    host = make_host({"ops.status.STATUS_SECONDS": 0.1}, env=fault.env).start()
    fault.begin()
    stranger.note("a", "a.")
    stranger.drop("b", b"no request")
    assert stranger.reply("a")["ok"] is True
    assert_refused(stranger.reply("b"), "invalid")
    wait_for(lambda: status_of(stranger.home)["stuck"] == 2)
    wait_for(lambda: fault.count() >= 6)
    assert is_idle(host)
    assert troubles(host) == ["inbox.unlink_failed"] * 2
    assert "2 requests are done and cannot be removed" in cli_text("status", home=stranger.home)
    assert "2 requests are done and cannot be removed" in cli_text("doctor", home=stranger.home)
    assert len(os.listdir(stranger.dead)) == 2  # one letter and its reason
    host.restart()  # it forgot: what was done is in the journal
    stranger.note("c", "c.")
    assert stranger.reply("c")["ok"] is True
    assert _count(stranger, "a") == 1
    fault.end()
    wait_for(lambda: not os.listdir(stranger.requests))
    assert [_count(stranger, name) for name in "ac"] == [1, 1]
    host.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux'")
@pytest.mark.parametrize(
    ("number", "is_alive", "folders"), [(errno.EMFILE, False, 2), (errno.ENOSPC, True, 2)], ids=["instances", "watches"]
)
def test_without_inotify_the_sweep_serves_and_says_so(
    number: int, is_alive: bool, folders: int, fault_of: FaultFactory, make_host: HostFactory, stranger: RawSender
) -> None:
    path = "/data/ipc/" if number == errno.ENOSPC else ""
    fault = fault_of("inotify", path, number)
    fault.begin()
    other = RawSender(stranger.home, "main", "other").make()
    began = time.monotonic()
    host = make_host({"ops.status.STATUS_SECONDS": 0.1}, env=fault.env).start()
    ask(stranger, "a")
    ask(other, "b")
    failed = host.wait_for_event("watch.failed")
    assert "fs.inotify.max_user_" in failed["now_what"]

    def watcher() -> dict[str, Any]:
        found: dict[str, Any] = status_of(stranger.home)["watcher"]
        return found

    wait_for(lambda: watcher().get("is_alive") is is_alive and watcher()["folders_without_events"] >= folders)
    assert "have no file events" in cli_text("status", home=stranger.home)
    assert "have no file events" in cli_text("doctor", home=stranger.home)
    assert len(host.events("watch.failed")) <= time.monotonic() - began + 2  # not for each folder, nor for each sweep
    fault.end()
    wait_for(lambda: watcher() == {"is_alive": True, "rebuilds": 0, "folders_without_events": 0})
    ask(stranger, "c")
    assert [_count(stranger, name) for name in "abc"] == [1, 1, 1]
    host.stop()


def test_a_paused_host_continues_with_one_reply(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host(env={"WATCHDOG_USEC": "600000"}).start()
    ask(stranger, "before")
    wait_for(lambda: "WATCHDOG=1" in host.notifications.poll())
    host.send_signal(signal.SIGSTOP)
    stranger.note("during", "during.")
    (stranger.requests / "slow.json").write_bytes(request("slow", content="slow.")[:20])
    (stranger.requests / "slow.json").write_bytes(request("slow", content="slow."))
    time.sleep(1.0)  # longer than systemd waits, and than an unfinished file is waited for
    heard = -1
    while heard < len(host.notifications.received):  # what it said before
        heard = len(host.notifications.received)
        host.notifications.poll()
    host.send_signal(signal.SIGCONT)
    _are_done_once(stranger, "during", "slow")
    wait_for(lambda: "WATCHDOG=1" in host.notifications.poll()[heard:])
    host.stop()
    answered = [line["id"] for line in host.events("request.answered")]
    assert sorted(answered) == ["before", "during", "slow"]


REPLACING = """
import functools, os
from honeybadger_host import daemon
home = os.environ["HOME_OF_TEST"]
def passed(point):
    if point == "projected" and os.path.exists(home + "/second"):
        os.rename(home + "/second", home + "/data/ipc/main/stranger/requests/a.json")
daemon.run = functools.partial(daemon.run, passed=passed)
"""


def test_a_request_over_another_is_not_removed_unread(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    (home / "second").write_bytes(request("a", content="second."))
    host = make_host(env={"HOME_OF_TEST": str(home)}, source=REPLACING).start()
    stranger.note("a", "first.")
    wait_for(lambda: len(host.events("request.answered")) == 2)
    assert [line["outcome"] for line in host.events("request.answered")] == ["ok", "conflict"]
    assert_refused(stranger.reply("a"), "conflict", field="id")
    stranger.wait_until_taken("a")
    assert (_count(stranger, "first"), _count(stranger, "second")) == (1, 0)
    host.stop()


def test_torn_replies_are_removed_and_come_when_asked_again(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host().start()
    ask(stranger, "done")
    first = stranger.peek("done")
    stranger.ask("query", request("query", "ping"))
    stranger.note("waiting", "waiting.")
    assert stranger.reply("waiting")["ok"] is True
    host.stop()
    (stranger.replies / "kept.json").write_bytes(b"{}")
    assert first is not None
    for name, left in (("done", first[:40] + bytes(len(first) - 40)), ("query", b'{"v":1,'), ("waiting", b"")):
        (stranger.replies / f"{name}.json").write_bytes(left)
    stranger.note("waiting", "waiting.")  # its removal was not durable
    host.start()
    assert [stranger.peek(name) for name in ("done", "query")] == [None, None]
    ask(stranger, "done")
    assert stranger.peek("done") == first
    assert stranger.reply("waiting")["ok"] is True
    assert (stranger.replies / "kept.json").read_bytes() == b"{}"
    assert host.wait_for_event("replies.mended")["removed"] == 3
    stranger.wait_until_taken("waiting")
    assert [_count(stranger, name) for name in ("done", "waiting")] == [1, 1]
    host.restart()
    assert len(host.events("replies.mended")) == 1
    host.stop()


def test_a_fault_at_start_ends_with_code_8(fault_of: FaultFactory, make_host: HostFactory, stranger: RawSender) -> None:
    run_cli("sender", "add", stranger.group, stranger.sender, home=stranger.home)
    struck = 0
    for kind, path, number in (
        ("create", "/journal.db-wal", errno.EROFS),  # SQLite calls it "unable to open database file"
        ("create", "/host.lock", errno.ENFILE),
        ("open", "/honeybadger.toml", errno.EIO),
        ("write", "/journal.db", errno.ENOSPC),
    ):
        fault = fault_of(kind, path, number)
        fault.begin()
        host = make_host({"ipc.closed": True}, env=fault.env).launch()
        assert host.wait() == 8, host.log_text()
        assert fault.count() > struck, path
        assert "Traceback" not in host.log_text()
        struck = fault.count()
        fault.end()
    host.start()
    ask(stranger, "after")
    assert _count(stranger, "after") == 1
    host.stop()


def test_a_program_that_opens_the_journal_takes_nothing(make_host: HostFactory, stranger: RawSender) -> None:
    """The last connection of a database takes its WAL away: the host must hold a lock that says it is not the last."""
    host = make_host().start()
    journal = stranger.home / JOURNAL_FILE
    ask(stranger, "before")
    for number in range(3):
        program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM changes').fetchall()"
        subprocess.run([sys.executable, "-c", program, journal], check=True)
        ask(stranger, f"after{number}")
    host.kill()
    names = ["before", "after0", "after1", "after2"]
    rows = read_log(journal, LogFilter("main"), 9)
    assert [row.request for row in reversed(rows)] == names
    host.start()
    for name in names:
        (stranger.replies / f"{name}.json").unlink()
        ask(stranger, name)
        assert stranger.memory_text().count(f"- {name}.\n") == 1


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal"])
def test_a_host_whose_journal_somebody_removed_acknowledges_nothing_more(
    name: str, home: Path, make_host: HostFactory, stranger: RawSender
) -> None:
    host = make_host().start()
    ask(stranger, "before")
    removed = home / "data" / name
    kept = removed.rename(home / "data" / f"{name}.away")
    stranger.note("after", "after.")
    assert host.wait() == 8
    last = host.log_text().splitlines()[-1]
    assert f"{removed} was removed or replaced" in last
    assert "Traceback" not in host.log_text()
    assert stranger.peek("after") is None
    if name == "journal.db":
        kept.rename(removed)
    host.start()
    assert stranger.reply("after")["ok"] is True
    assert [_count(stranger, each) for each in ("before", "after")] == [1, 1]
    host.stop()


def test_a_home_that_is_moved_ends_its_host_and_is_served_as_it_was(
    home: Path, make_host: HostFactory, stranger: RawSender, tmp_path: Path
) -> None:
    host = make_host().start()
    ask(stranger, "before")
    home.rename(tmp_path / "moved")
    assert host.wait() == 8
    assert f"{home}/data/journal.db was removed or replaced" in host.log_text().splitlines()[-1]
    assert not home.exists()
    (tmp_path / "moved").rename(home)
    host.start()
    ask(stranger, "after")
    host.stop()
    assert [row.kind for row in read_log(home / JOURNAL_FILE, LogFilter(), 100)] == ["note", "note"]


def test_file_names_that_are_not_utf8_stop_nothing(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    looking(make_host(AT_ONCE))
    text = "The walnut tree is old"
    stranger.do("n1", content=text)
    folders = ("groups/main", "groups/main/memory/general", "groups/main/archive/memory/general", "groups/gr\udce4")
    more = ("groups/main/tasks", "groups/main/proposals", "config/agents", "config/agents/b\udce4")
    data = ("context/main", "working/main/s\udce4", "consolidated/main", "sessions/main", "dead/main/stranger")
    for folder in (*folders, *more, *(f"data/{each}" for each in data)):
        (home / folder).mkdir(parents=True, exist_ok=True)
        for name in ("b\udce4.json", "b\udce4.jsonl", "b\udce4.reason.json", "b\udce4.tar.gz"):
            (home / folder / name).write_text(f'{{"content": "{text}"}}')
    (home / "groups/main/MEMORY.md").write_text(f"{stranger.memory_text()}- A person's line\n")
    newest_edit(home, "MEMORY.md")
    for command in (("review", "list", "main"), ("dead", "list"), ("status",), ("groups",)):
        cli_text(*command, home=home)
        cli_json(*command, home=home)
    assert "old" in cli_text("search", "main", "walnut", home=home)
    cli_text("doctor", home=home)
    for to in ("export", "md", "json"):
        options = {"md": ["--markdown"], "json": ["--json"]}.get(to, [])
        cli_text("export", "main", "--to", home.parent / to, *options, home=home)
    cli_text("backup", home.parent / "backup.tar.gz", home=home)
    cli_json("forget", "main", "--text", "walnut", "--dry-run", home=home)
    left = [one["file"] for one in cli_json("forget", "main", "--text", "walnut", home=home, code=1)["left"]]
    assert "groups/main/b\\xe4.json" in left
    assert "groups/main/MEMORY.md" not in left
    assert cli_json("forget", "main", "--sender", "stranger", home=home)["left"] == []
