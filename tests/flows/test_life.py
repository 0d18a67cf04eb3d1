"""The life of a host: start, say so, stop in order, refuse with words that help; and the commands of its operator."""

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_host.cli.status import print_status
from honeybadger_host.files.home import make_home
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory, MakeClient
from tests.hosting import HostProcess, RawSender, assert_refused, request, run_cli, status_of, wait_for
from tests.people import save

is_root = os.geteuid() == 0
needs_root = pytest.mark.skipif(not is_root, reason="only root can be somebody else")
NOBODY = 65_534


def _fails_to_start(host: HostProcess, code: int, *says: str) -> str:
    """Start a host that cannot; check its exit code and what it says in its last line; forget the log."""
    host.launch()
    assert host.wait() == code, host.log_text()
    assert "READY=1" not in host.notifications.poll()
    text = host.log_text()
    last = text.splitlines()[-1]
    assert last.startswith("honeybadger-host: "), text
    assert "Traceback" not in text
    for words in says:
        assert words in last, last
    host.stderr.unlink()
    return last


@pytest.mark.parametrize(("number", "abstract"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_signal_stops_the_host_in_order(
    make_host: HostFactory, client: MakeClient, number: signal.Signals, abstract: bool
) -> None:
    host = make_host(abstract_socket=abstract).start()
    client().update_memory("before the end")
    host.stop(number)
    events = [line["event"] for line in host.log_lines() if line["event"].startswith("host.")]
    assert events == ["host.started", "host.stopping", "host.stopped"]
    assert host.events("host.stopping")[0]["signal"] == number.name
    wait_for(lambda: "STOPPING=1" in host.notifications.poll())
    assert host.notifications.received == ["READY=1", "STOPPING=1"]


def test_requests_before_the_signal_are_answered_others_wait(host: HostProcess, stranger: RawSender) -> None:
    for number in range(300):
        stranger.note(f"{number:05}", f"n {number}")
    host.stop()
    answered = {path.stem for path in stranger.replies.glob("*.json")}
    waiting = {path.stem for path in stranger.requests.iterdir()}
    assert len(answered) + len(waiting) == 300
    assert not answered & waiting
    assert stranger.memory_text().count("- n ") == len(answered)
    host.start()
    wait_for(lambda: not os.listdir(stranger.requests))
    assert re.findall(r"^- n (\d+)$", stranger.memory_text(), re.MULTILINE) == [str(n) for n in range(300)]
    assert len(os.listdir(stranger.replies)) == 300


SLOW = """
import os, time
from pathlib import Path
from honeybadger_host.memory.markdown.group_files import GroupFiles
home = Path(os.environ["HOME_OF_TEST"])
was = GroupFiles.read
def read(self, file):
    if file.endswith("CLAUDE.md"):
        (home / "begun").touch()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and not (home / "ended").exists():
            time.sleep(0.005)
    return was(self, file)
GroupFiles.read = read
"""


def test_an_open_query_is_answered_within_the_grace(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host(env={"HOME_OF_TEST": str(stranger.home)}, source=SLOW.replace("SECONDS", "0.5")).start()
    stranger.drop("slow", request("slow", "read_group_files"))
    wait_for((stranger.home / "begun").exists)
    host.stop()
    assert stranger.reply("slow")["ok"] is True
    assert os.listdir(stranger.requests) == []


HANGING = """
import os, time
from honeybadger_host.spool.spool import Spool
data = os.environ["HOME_OF_TEST"] + "/data"
was = Spool.discover
def discover(self):
    while os.path.exists(data + "/hang"):
        open(data + "/hangs", "w").close()
        time.sleep(0.01)
    was(self)
Spool.discover = discover
"""


def test_a_road_that_hangs_is_not_called_alive(make_host: HostFactory, client: MakeClient, home: Path) -> None:
    host = make_host(env={"WATCHDOG_USEC": "300000", "HOME_OF_TEST": str(home)}, source=HANGING).start()
    wait_for(lambda: "WATCHDOG=1" in host.notifications.poll())
    (host.home / "data" / "hang").touch()
    wait_for((host.home / "data" / "hangs").exists)
    heard, silent_since = 0, time.monotonic()
    while time.monotonic() < silent_since + 0.8:  # some messages may be on their way, and then none
        if len(host.notifications.poll()) > heard:
            heard, silent_since = len(host.notifications.received), time.monotonic()
    (host.home / "data" / "hang").unlink()
    wait_for(lambda: len(host.notifications.poll()) > heard)
    assert client().ping().protocol == 1
    host.stop()


def test_a_second_host_hears_who_serves_the_home(host: HostProcess, make_host: HostFactory, client: MakeClient) -> None:
    second = make_host()
    second.stderr = second.stderr.with_name("second.stderr")
    _fails_to_start(second, 5, f"process {host.pid} on ", str(host.home), "stop it")
    assert client().ping().protocol == 1
    host.kill()
    second.start()  # a killed host leaves no lock behind
    assert client().ping().protocol == 1


def test_what_is_no_home_is_refused_with_advice(tmp_path: Path, make_host: HostFactory) -> None:
    for name in ("missing", "empty"):
        folder = tmp_path / name
        if name == "empty":
            folder.mkdir()
        _fails_to_start(make_host(home=folder), 4, f"honeybadger-host init {folder}")
        assert not folder.exists() or os.listdir(folder) == []


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was served, and is not now; a request waits in it."""
    home = tmp_path_factory.mktemp("used") / "home"
    make_home(home)
    with HostProcess(home) as host:
        host.start()
        SyncClient(home).update_memory("safe in the file")
        SyncClient(home).append_turn("user", "safe in the log")
        host.stop()
    RawSender(home).make().note("waiting", "waits for the mended journal")
    return home


AS_NOBODY = """
import os
import honeybadger_host.daemon, honeybadger_host.cli, honeybadger_host.ops.doctor, watchdog.observers.inotify
import encodings.utf_8_sig
os.setgroups([]); os.setgid(65534); os.setuid(65534)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="hb-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _give(home: Path, uid: int) -> None:
    for path in (home, *home.rglob("*")):
        os.chown(path, uid, uid)


@needs_root
@pytest.mark.parametrize("what", ["groups", "data/ipc", "data/journal.db", "data/host.lock"])
def test_an_unwritable_home_is_refused_by_place(
    open_folder: Path, used: Path, make_host: HostFactory, what: str
) -> None:
    home = open_folder / "home"
    shutil.copytree(used, home)
    _give(home, NOBODY)
    os.chown(home / what, 0, 0)
    (home / what).chmod(0o755 if (home / what).is_dir() else 0o644)
    code = 6 if what == "data/journal.db" else 4
    host = make_host(home=home, source=AS_NOBODY)
    if what == "data/ipc":  # others may make boxes there: it can be served
        host.start()
        host.stop()
    else:
        _fails_to_start(host, code, str(home / what))


def test_a_new_home_works_as_the_readme_says(tmp_path: Path) -> None:
    home = tmp_path / "bees"
    made = run_cli("init", home)
    assert made.returncode == 0
    assert f"honeybadger-host run --home {home}" in made.stdout
    again = run_cli("init", home)
    assert (again.returncode, "is a home already" in again.stdout) == (0, True)
    assert "no host serves" in cli_error("status", home=home, code=7)
    assert f"honeybadger-host init {tmp_path}" in cli_error("status", home=tmp_path, code=7)
    with HostProcess(home, {"ops.status.STATUS_SECONDS": 0.1}) as host:
        host.start()
        SyncClient(home).update_memory("first")
        wait_for(lambda: status_of(home).get("requests", {}).get("total") == 1)
        assert cli_json("status", home=home)["requests"]["total"] == 1
        host.stop()


def test_status_tells_what_the_host_does(
    make_host: HostFactory, client: MakeClient, stranger: RawSender, capsys: pytest.CaptureFixture[str]
) -> None:
    home = stranger.home
    host = make_host({"ops.status.STATUS_SECONDS": 0.1}).start()
    client().update_memory("one")
    client().ping()
    stranger.ask("bad", b"[]")
    (stranger.root.parent / "linked").mkdir()
    (stranger.root.parent / "linked" / "requests").symlink_to(stranger.requests)

    def is_counted() -> bool:  # what was answered is counted behind its reply
        said = status_of(home)
        return bool(said.get("boxes_refused")) and said["requests"]["total"] == 3

    wait_for(is_counted)
    status = cli_json("status", home=home)
    assert (status["running"], status["pid"], status["mode"]) == (True, host.pid, "open")
    assert status["requests"]["by_outcome"] == {"ok": 2, "invalid": 1}
    assert status["journal"]["seq"] == 1
    assert status["boxes_refused"][0].startswith("main/linked: requests/ is a link")
    text = cli_text("status", home=home)
    assert f"pid {host.pid}" in text
    assert "3 (invalid 1, ok 2)" in text
    assert "not served: main/linked" in text
    assert "journal   at 1, " in text
    wait_for(lambda: status_of(home)["journal"]["projected_seq"] == 1)
    assert "journal   at 1, all in the files" in cli_text("status", home=home)
    print_status(home, {name: part for name, part in status.items() if name not in ("push", "unanswered")})
    print_status(home, {**status, "written_at": 0})
    told = capsys.readouterr().out
    assert told.startswith(f"running   pid {host.pid}")  # of a host of an earlier version
    assert f"\nsilent    pid {host.pid}" in told
    host.kill()
    assert f"last served by process {host.pid}" in cli_error("status", home=home, code=7)
    assert orjson.loads(run_cli("status", "--json", home=home).stdout)["running"] is False


def test_doctor_names_each_problem_with_what_to_do(home: Path, stranger: RawSender) -> None:
    (home / "config" / "honeybadger.toml").write_text("[ipc]\nclozed = true\n")
    stranger.memory.mkdir()
    (stranger.memory.parent / "summary.md").write_bytes(b"\xff\xfe")
    stranger.replies.rmdir()
    stranger.replies.symlink_to("/tmp")
    (home / "data" / "ipc" / "not a group").mkdir()
    (home / "data" / "ipc" / "a-file").write_text("x")
    (home / "data" / "journal.db").write_bytes(b"garbage" * 1000)
    (home / "data").chmod(0o777)
    findings = orjson.loads(cli_text("doctor", "--json", home=home, code=1))
    wrong = {(row["check"], row["level"]) for row in findings if row["level"] != "ok"}
    assert wrong >= {
        *(("settings", "problem"), ("group files", "problem"), ("boxes", "problem"), ("boxes", "warning")),
        *(("journal", "problem"), ("permissions", "warning")),
    }
    assert all(row["now_what"] for row in findings if row["level"] != "ok")
    messages = "\n".join(row["message"] for row in findings)
    for words in ("clozed", "MEMORY.md", "summary.md", "replies is a link", "not a group", "a-file", "journal.db"):
        assert words in messages


def test_dead_letters_are_listed_shown_retried_and_dropped(host: HostProcess, stranger: RawSender) -> None:
    home = host.home
    assert cli_text("dead", "list", home=home) == "no dead letters\n"
    stranger.ask("one", b"not \x1b[2J json")
    stranger.ask("two", b"[]")
    listed = cli_text("dead", "list", home=home).splitlines()
    assert [re.split(" {2,}", line)[1] for line in listed] == ["main/stranger/one", "main/stranger/two"]
    named = [row["name"] for row in cli_json("dead", "list", home=home)]
    assert named == ["main/stranger/one", "main/stranger/two"]
    shown = cli_text("dead", "show", "main/stranger/one", home=home)
    assert "not \\x1b[2J json" in shown
    assert "not JSON" in shown
    (stranger.replies / "two.json").unlink()
    assert "is back" in cli_text("dead", "retry", "main/stranger/two", home=home)
    assert_refused(stranger.reply("two"), "invalid")  # it is what it was
    wait_for(lambda: len([name for name in os.listdir(stranger.dead) if name.startswith("two.")]) == 2)
    assert "no dead letter" in cli_error("dead", "drop", named[0], "main/x/y", home=home, code=9)
    named = [row["name"] for row in cli_json("dead", "list", home=home)]
    gone = cli_text("dead", "drop", *named, home=home)
    assert gone == "".join(f"{name} is gone\n" for name in named)
    for command in ("show", "retry", "drop"):
        assert "no dead letter" in cli_error("dead", command, "main/stranger/one", home=home, code=9)


def test_a_damaged_senders_list_keeps_the_old_one(make_host: HostFactory, home: Path) -> None:
    cli_text("sender", "add", "main", "known", home=home)
    assert "reserved" in cli_error("sender", "add", "main", "operator", home=home, code=2)
    for folder in ("main/operator", "main/größe", "our team/x"):
        (home / "data" / "ipc" / folder).mkdir(parents=True)
    served = ["main/known  uid any  closed mode serves it", "main/operator  uid any  closed mode serves it"]
    assert cli_text("sender", "list", home=home).splitlines() == served
    known = RawSender(home, "main", "known")
    host = make_host({"ipc.closed": True}).start()
    save(home / "config" / "senders.json", "{ oops")
    said = host.wait_for_event("senders.refused")
    assert "senders.json" in said["error"]
    known.do("x", content="still served")
    assert len(host.events("senders.refused")) == 1
    assert "senders.json" in cli_error("sender", "add", "main", "other", home=home, code=3)
    host.stop()
    _fails_to_start(host, 3, "senders.json")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_an_unwritable_log_does_not_stop_the_host(make_host: HostFactory, client: MakeClient, home: Path) -> None:
    host = make_host()
    host.stderr = Path("/dev/full")
    host.start()
    client().update_memory("whoever listens")
    client().append_turn("user", "hello")
    RawSender(home).make().ask("bad", b"[]")
    assert client().ping().protocol == 1
    host.stop()
    assert (home / "groups" / "main" / "MEMORY.md").read_text().count("whoever listens") == 1
