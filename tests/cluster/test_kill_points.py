"""A host is killed at each step between a request and its answer, and between one owner and the next."""

import os
import signal
from collections.abc import Sequence

import pytest

from tests.cluster.machines import Cluster, Machine
from tests.hosting import RawSender, wait_for

# What it is to be killed at is the commit of the request with the id `meant`.
KILL = """
import os, signal
from honeybadger_host.cluster import files, log, member

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def around(owner, name, before=None, after=None, when=lambda *given: True):
    act = getattr(owner, name)

    def acting(*given, **more):
        is_meant = when(*given)
        if is_meant and before is not None:
            before()
        done = act(*given, **more)
        if is_meant and after is not None and done is not False:
            after()
        return done

    setattr(owner, name, acting)

def has_it(*given):
    return any(b'"meant"' in one for one in given if isinstance(one, bytes))

def holds_it(committing, connection):
    return any("meant" in row for _, rows in committing._recorded.statements for row in rows)
"""
COMMITS = {
    "before the record is published": "around(log.Log, 'append', before=die, when=has_it)",
    "between two parts of the record": """
def halve():
    log.PART_BYTES = 200
    around(log.Log, '_put', after=die, when=lambda self, message: message.headers['Hb-Part'].startswith('2/'))

around(log.Log, 'append', before=halve, when=has_it)
""",
    "between the answer of the log and the commit": "around(log.Log, 'append', after=die, when=has_it)",
    "between the commit and the reply": "around(log.Committing, 'commit', after=die, when=holds_it)",
}
TAKEOVERS = {
    "before the epoch": "around(log.Log, 'own', before=die)",
    "between the epoch and the commit": "around(log.Log, 'own', after=die)",
    "before the files": "around(member, 'place_files', before=die)",
    "in the middle of the files": "around(files, '_place', after=die)",
    "behind the files": "around(member, 'place_files', after=die)",
}
FOLLOWS = {
    "before the record is in the journal": "around(member, 'apply_record', before=die)",
    "between the record and the commit": "around(member, 'apply_record', after=die)",
    "behind the commit": """
around(member.Member, '_apply', after=die, when=lambda self, writer, records: len(records) > 0)
""",
}
IS_LONG = "HB_CLUSTER_FAULTS" in os.environ
SOME_COMMITS = [*COMMITS] if IS_LONG else [*COMMITS][1:3]
SOME_TAKEOVERS = (
    [(point, survivor) for point in TAKEOVERS for survivor in ("the same machine", "another")]
    if IS_LONG
    else [("between the epoch and the commit", "another"), ("in the middle of the files", "the same machine")]
)
COMMIT_FIRST = """
def commit(self, connection, *, is_last):
    statements = self._recorded.statements
    connection.execute("COMMIT")
    if holds_it(self, connection):
        die()
    if statements:
        self._log.append(log.dump_statements(statements))
log.Committing.commit = commit
"""


def die_at(machine: Machine, point: str) -> None:
    """Let the next start of a host end at a point."""
    machine.host.source = KILL + point


def wait_until_dead(machine: Machine) -> None:
    wait_for(lambda: not machine.host.is_running, what=f"{machine.home.name} is killed")
    assert machine.host.process.poll() == -signal.SIGKILL, machine.host.log_text()
    machine.host.source = ""
    machine.end_lease()


def check(pair: Cluster, owner: Machine, stems: Sequence[str]) -> None:
    """See that the note of each sender is there once, on both machines, when both have come to the end of the log."""
    for machine in pair.machines:
        if not machine.host.is_running:
            machine.follow()
    pair.settle()
    dumps = [machine.dump() for machine in pair.machines]
    assert dumps[0] == dumps[1]
    for machine, dump in zip(pair.machines, dumps, strict=True):
        assert sorted(str(row[3]) for row in dump["changes"] if row[5] == "note") == sorted(stems), machine.home.name
        assert sorted(str(row[3]) for row in dump["receipts"]) == sorted(stems), machine.home.name
        machine.command("verify")
    files = [path.read_text() for path in (owner.home / "groups").glob("*/MEMORY.md")]
    assert [sum(text.count(f"note {stem}.") for text in files) for stem in stems] == [1] * len(stems)


def note(machine: Machine, stem: str, request_id: str, group: str = "main") -> None:
    RawSender(machine.home, group, stem).make().note(request_id, f"note {stem}.")


def tell(machine: Machine, stem: str, request_id: str, group: str = "main") -> None:
    RawSender(machine.home, group, stem).make().do(request_id, content=f"note {stem}.")


def test_a_killed_and_restarted_owner_leaves_notes_once(pair: Cluster) -> None:
    a, _ = pair.machines
    a.own()
    for number, point in enumerate(COMMITS.values()):
        a.host.kill()
        die_at(a, point)
        a.own()
        tell(a, f"before-{number}", "n1")
        note(a, f"at-{number}", "meant")
        wait_until_dead(a)
        a.own()
        assert RawSender(a.home, sender=f"at-{number}").reply("meant")["ok"]
    check(pair, a, [f"{when}-{number}" for when in ("before", "at") for number in range(len(COMMITS))])


@pytest.mark.parametrize("point", SOME_COMMITS)
def test_a_killed_and_replaced_owner_leaves_notes_once(pair: Cluster, point: str) -> None:
    a, b = pair.machines
    die_at(a, COMMITS[point])
    a.own()
    b.follow()
    tell(a, "first", "n1")
    note(a, "at", "meant")
    wait_until_dead(a)
    tell(b, "at", "meant")
    tell(b, "behind", "n1")
    check(pair, b, ["first", "at", "behind"])


def test_committing_before_the_log_has_the_record_is_seen(pair: Cluster) -> None:
    """The control."""
    a, b = pair.machines
    die_at(a, COMMIT_FIRST)
    a.own()
    b.follow()
    note(a, "at", "meant")
    wait_until_dead(a)
    tell(b, "at", "meant")
    b.host.stop()
    a.host.launch()
    assert a.host.wait() == 6, a.host.log_text()
    assert a.position() != b.position()


@pytest.mark.parametrize(("point", "survivor"), SOME_TAKEOVERS)
def test_a_host_killed_during_takeover_leaves_notes_once(pair: Cluster, point: str, survivor: str) -> None:
    a, b = pair.machines
    a.own()
    die_at(b, TAKEOVERS[point])
    b.follow()
    groups = {"first": "main", "second": "other", "third": "third"}
    for stem, group in groups.items():
        tell(a, stem, "n1", group)
    pair.settle()
    a.kill()
    wait_until_dead(b)
    owner = b if survivor == "the same machine" else a
    owner.host.launch()
    tell(owner, "fourth", "n1", "third")
    check(pair, owner, [*groups, "fourth"])


def test_a_host_killed_while_following_has_records_once(pair: Cluster) -> None:
    a, b = pair.machines
    a.own()
    for number, point in enumerate(FOLLOWS.values()):
        die_at(b, point)
        b.host.launch()
        tell(a, f"at-{number}", "n1")
        wait_until_dead(b)
    check(pair, a, [f"at-{number}" for number in range(len(FOLLOWS))])
