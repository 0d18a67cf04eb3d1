"""Several machines keep one home: one owns it, the others follow, and any of them goes on."""

import shutil
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest

from honeybadger_host.cluster.lease import OWNERS, OWNERS_SUBJECT, holder
from honeybadger_host.cluster.log import Names
from honeybadger_host.cluster.servers import Servers as Connection
from honeybadger_host.documents.saves import DELETED_SECONDS
from tests.cluster.machines import Cluster, Machine
from tests.commands import cli_error, cli_text
from tests.hosting import HostProcess, RawSender, assert_refused, request, run_agent, run_cli, wait_for

Machines: TypeAlias = tuple[Machine, Machine]


@pytest.fixture
def owned(pair: Cluster) -> Machines:
    """The machine that owns the home, and the one that follows it."""
    a, b = pair.begin()
    return a, b


@pytest.fixture
def noted(owned: Machines) -> Machines:
    """The same, with a note that both have."""
    a, b = owned
    a.box.make().do("n1", content="a note")
    wait_for(lambda: a.position() == b.position(), what="b has come as far")
    return owned


def test_a_takeover_waits_for_no_clock_of_a_server(pair: Cluster) -> None:
    """The lost machine's server was ahead: the others keep its lease for as long, here for good."""
    a, b = pair.machines
    a.own()
    with closing(Connection(a.urls)) as servers:
        servers.remove_stream(OWNERS)
        servers.make_stream(OWNERS, OWNERS_SUBJECT, of_each=1)
        wait_for(lambda: holder(servers, Names(pair.identity)) == a.node(), what="a has renewed its lease")
        b.follow()
        a.host.kill()
        b.box.make().do("n1", content="a note")
        assert holder(servers, Names(pair.identity)) == b.node()


def edit(file: Path, text: str) -> None:
    temporary = file.with_name(f".{file.name}.editor")
    temporary.write_text(text)
    temporary.rename(file)


def test_edits_on_one_machine_reach_the_next_owner_exactly(owned: Machines) -> None:
    a, b = owned
    a.box.make().do("n1", content="a note that stays")
    a.box.do("n2", content="a note that a person deletes")
    came = time.monotonic()
    wait_for(lambda: time.monotonic() > came + DELETED_SECONDS, what="notes old enough to be deleted on purpose")
    persona = a.home / "groups" / "main" / "CLAUDE.md"
    wait_for(lambda: seen(a, "groups/main/CLAUDE.md") >= 0, what="the first look is over")
    edit(persona, persona.read_text() + "\nAlways answer in French.\n")
    kept = "".join(line for line in a.box.memory.read_text().splitlines(keepends=True) if "deletes" not in line)
    edit(a.box.memory, kept)
    wait_for(lambda: edits_of(a) >= 2, what="the edits are recorded")
    a.box.do("n3", content="a note behind the edit")
    wait_for(lambda: a.position() == b.position(), what="b has come as far")
    b.replace(a)
    for file in ("groups/main/CLAUDE.md", "groups/main/MEMORY.md"):
        assert (b.home / file).read_bytes() == (a.home / file).read_bytes(), file
    assert "deletes" not in b.box.memory_text()
    edits = edits_of(b)
    b.box.make().do("n4", content="a note on b")
    wait_for(lambda: seen(b, "groups/main/MEMORY.md") > 1, what="b looked at the file")
    assert edits_of(b) == edits, "what b itself wrote is not an edit of a person"


def edits_of(machine: Machine) -> int:
    """Return how many edits of people a machine has."""
    return sum(str(row[5]).startswith("edit") and row[5] != "edit_undone" for row in machine.dump()["changes"])


def seen(machine: Machine, file: str) -> int:
    """Return up to which change a file was looked at; -1: never."""
    return max((int(str(row[1])) for row in machine.dump()["seen"] if row[0] == file), default=-1)


def test_a_text_of_one_machine_alone_is_moved_aside(pair: Cluster, owned: Machines) -> None:
    a, b = owned
    a.box.make().do("n1", content="a note")
    a.kill()
    edit(a.box.memory, a.box.memory_text() + "\nonly here\n")
    b.box.make().do("n2", content="a note on b")
    a.follow()
    pair.settle()
    a.replace(b)
    assert "only here" not in a.box.memory_text()
    (kept,) = (a.home / "data" / "replaced").rglob("MEMORY.md")
    assert "only here" in kept.read_text()
    assert a.events("cluster.kept_aside") == 1


@pytest.mark.parametrize("taken", [0, 1])
def test_the_log_restores_what_a_power_cut_took(pair: Cluster, noted: Machines, tmp_path: Path, taken: int) -> None:
    """A commit is synced on the servers alone: the files of an owner may have more than its journal then."""
    machine, kept = noted[taken], tmp_path / "kept"
    kept.mkdir()
    for path in machine.journal.parent.glob("journal.db*"):
        shutil.copy(path, kept)
    noted[0].box.note("n2", "a note that was synced on the servers")
    noted[0].box.reply("n2")
    pair.settle()
    machine.host.kill()
    for path in kept.iterdir():
        shutil.copy(path, machine.journal.parent)
    machine.host.launch()
    pair.settle()
    noted[1 - taken].kill()
    machine.box.make().do("n3", content="a third note")
    text = machine.box.memory_text()
    assert [text.count(note) for note in ("a note\n", "synced on the servers", "a third note")] == [1, 1, 1]


def test_a_followers_agent_is_answered_from_its_own_folder(owned: Machines) -> None:
    a, b = owned
    there = RawSender(b.home, sender="scout").make()
    there.do("n1", content="a note from the other machine")
    there.wait_until_taken("n1")
    assert "scout" in a.box.memory_text()
    assert not b.box.memory.exists()
    (there.replies / "n1.json").unlink()
    again = there.ask("n1", request("n1", content="a note from the other machine"))
    assert again["ok"]
    (there.replies / "n1.json").unlink()
    assert_refused(there.ask("n1", request("n1", content="another")), "conflict")
    assert a.box.memory_text().count("a note from the other machine") == 1
    found = there.ask("q1", request("q1", "search_memory", payload={"query": "other machine"}))
    assert "a note from the other machine" in str(found["result"])
    remembered = run_agent("remember", "said through the command", "--group", "main", "--sender", "cmd", home=b.home)
    assert remembered.returncode == 0, remembered.stderr
    cli_text("log", "main", home=b.home)
    assert "said through the command" in cli_text("search", "main", "through the command", home=b.home)


def test_waiting_requests_of_a_new_owner_are_served_once(pair: Cluster, owned: Machines) -> None:
    a, b = owned
    there = RawSender(b.home, sender="scout").make()
    a.host.send_signal(signal.SIGSTOP)
    for number in range(20):
        there.note(f"n{number:02}", f"note {number:02}.")
    for number in range(20):
        assert there.reply(f"n{number:02}")["ok"]
    a.host.send_signal(signal.SIGCONT)
    wait_for(lambda: not a.host.is_running, what="the stale owner ends")
    assert a.host.process.poll() == 8
    a.follow()
    pair.settle()
    assert [b.box.memory_text().count(f"note {number:02}.") for number in range(20)] == [1] * 20
    assert a.dump() == b.dump()


def test_a_command_without_a_host_respects_other_machines(noted: Machines) -> None:
    _, b = noted
    b.host.stop()
    assert "kept by several machines" in cli_error("undo", "1", home=b.home, code=6)


def test_a_leaving_machine_keeps_the_whole_home(noted: Machines) -> None:
    a, b = noted
    b.host.stop()
    assert run_cli("cluster", "leave", home=b.home).returncode == 0
    assert b.box.memory_text() == a.box.memory_text()
    with HostProcess(b.home) as host:
        host.start()
        b.box.make().do("n2", content="alone")


def test_verify_detects_a_journal_off_the_log(noted: Machines) -> None:
    a, b = noted
    for machine in (a, b):
        assert machine.command("verify").startswith("ok: ")
    b.host.stop()
    with closing(sqlite3.connect(b.journal)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'log_chain'", ("f" * 64,))
    said = cli_error("cluster", "verify", "--set", f"cluster.servers={b.urls[0]}", home=b.home, code=6)
    assert "not on the line" in said


def test_a_long_absent_machine_begins_with_a_snapshot(pair: Cluster) -> None:
    a, b = pair.machines
    for machine in (a, b):
        machine.host.settings |= {"cluster.member.TRIM_SHARE": 0.03, "cluster.member.HOUSEKEEPING_SECONDS": 0.2}
    a.own()
    a.box.make()
    for number in range(40):
        a.box.do(f"n{number:02}", content=f"note {number:02}.")
    wait_for(lambda: a.events("cluster.trimmed"), what="the log is trimmed")
    b.follow()
    pair.settle()
    assert b.events("cluster.begins_anew") == 1
    assert a.dump() == b.dump()
    b.replace(a)
    assert [b.box.memory_text().count(f"note {number:02}.") for number in range(40)] == [1] * 40


def test_a_machine_whose_servers_lost_the_log_ends(pair: Cluster, noted: Machines) -> None:
    (server,) = pair.servers.all
    for machine in reversed(noted):
        machine.host.stop()
    server.kill()
    shutil.rmtree(server.store)
    server.start()
    wait_for(server.is_listening, what="the server listens again")
    for machine in noted:
        machine.host.settings |= {"cluster.log.LOST_SECONDS": 2, "cluster.member.UNCLEAR_SECONDS": 0.5}
        machine.host.launch()
    for machine in noted:
        assert machine.host.wait() == 6
        assert "docs/machines.md" in machine.host.log_text()


@pytest.mark.parametrize("is_trimmed", [False, True], ids=["as long", "trimmed"])
def test_a_machine_ahead_of_the_log_keeps_its_past(
    pair: Cluster, noted: Machines, tmp_path: Path, is_trimmed: bool
) -> None:
    """Its servers were restored from an older store, and a machine that knew no more went on."""
    a, b = noted
    (server,) = pair.servers.all
    b.kill()
    server.kill()
    shutil.copytree(server.store, tmp_path / "older")
    server.start()
    for number in range(10):
        a.box.do(f"a{number}", content=f"only a has {number}.")
    a.kill()
    server.kill()
    shutil.rmtree(server.store)
    shutil.copytree(tmp_path / "older", server.store)
    server.start()
    if is_trimmed:
        b.host.settings |= {"cluster.member.TRIM_SHARE": 0.03, "cluster.member.HOUSEKEEPING_SECONDS": 0.2}
    b.own()
    b.box.make()
    number = 0
    while b.position()[0] < a.position()[0] or (is_trimmed and b.events("cluster.trimmed") == 0):
        b.box.do(f"b{number:02}", content=f"b went on {number}.")
        number += 1
    b.host.stop()
    b.host.settings.pop("cluster.member.TRIM_SHARE", None)  # else the log may be trimmed while it is verified
    a.host.launch()
    assert a.host.wait() == 6
    assert "went back" in a.host.log_text().splitlines()[-1]
    b.own()
    assert b.command("verify").startswith("ok: ")
    assert "only a has" not in b.box.memory_text()
    assert run_cli("cluster", "leave", home=a.home).returncode == 0
    assert [a.box.memory_text().count(f"only a has {number}.") for number in range(10)] == [1] * 10
    assert "b went on" not in a.box.memory_text()
