"""The shared log: what it acknowledged is there once and in order, whatever became of the answer."""

import copy
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from honeybadger_host.cluster import log as shared_log
from honeybadger_host.cluster.log import Committing, Log, Names, newest_epoch
from honeybadger_host.cluster.operating import START
from honeybadger_host.cluster.records import PART_BYTES, Position, Record, apply_record, read_kept, write_position
from honeybadger_host.cluster.servers import Servers, Unreachable
from honeybadger_host.errors import JournalError, StorageFailed
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import Receipt, Row, TurnKey, connect, reading, transaction
from tests.cluster import servers as real
from tests.cluster.machines import dump


@pytest.fixture(scope="module", params=[1, 3], ids=["one", "three"])
def cluster(request: pytest.FixtureRequest) -> Iterator[real.Servers]:
    with real.in_memory() as folder, closing(real.Servers(folder, request.param)) as running:
        yield running


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[real.Servers]:
    """Return one server that a test may kill."""
    with closing(real.Servers(tmp_path, 1)) as running:
        yield running


@pytest.fixture(autouse=True)
def names() -> Names:
    """Give each test a home of its own."""
    global NAMES
    NAMES = Names(uuid.uuid4().hex)
    return NAMES


def connected(urls: list[str]) -> Servers:
    """Return a connection to servers that have chosen their leader."""
    servers = Servers(urls)
    real.reached(lambda: servers.make_stream(NAMES.stream, NAMES.subjects))
    return servers


NAMES = Names("")


def records_of(log: Log) -> list[Record]:
    """Return all records up to the end, which servers may not know while they choose a leader."""
    found: list[Record] = []
    real.reached(lambda: found.extend(chain.from_iterable(log.read_to_end())))
    return found


def log_of(servers: Servers, position: Position = START) -> Log:
    made = Log(NAMES, position)
    made.servers = servers
    return made


def owner_of(servers: Servers, node: str = "a") -> Log:
    made = log_of(servers)
    records_of(made)
    assert made.own(node)
    return made


@pytest.fixture
def owner(cluster: real.Servers) -> Iterator[Log]:
    """The log as its owner has it."""
    with closing(connected(cluster.urls)) as servers:
        yield owner_of(servers)


@pytest.fixture
def lone_owner(alone: real.Servers) -> Iterator[Log]:
    """The same, of a log on one server that a test may kill."""
    with closing(connected(alone.urls)) as servers:
        yield owner_of(servers)


def said(servers: Servers) -> list[bytes]:
    """Return what all records have that are not of a new owner."""
    return [record.data for record in records_of(log_of(servers)) if record.epoch]


def test_appended_records_of_any_size_are_read_and_chained(owner: Log) -> None:
    appended = [b"one", bytes(range(256)) * (PART_BYTES // 100), b"behind one of several messages"]
    for data in appended:
        owner.append(data)
    position = START
    for record in records_of(log_of(owner.servers)):
        position = position.behind(record.seq, record.data)
        assert record.chain == position.chain
    assert said(owner.servers) == appended
    assert position == owner.position


def test_of_two_would_be_owners_one_may_append(cluster: real.Servers) -> None:
    with closing(connected(cluster.urls)) as one, closing(Servers(cluster.urls)) as other:
        logs = [log_of(one), log_of(other)]
        won: list[bool] = []
        threads = [
            threading.Thread(target=lambda log=log, name=name: won.append(log.own(name)))
            for log, name in zip(logs, "ab", strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == [False, True]
        assert newest_epoch(one, NAMES) == 1


def test_an_owner_that_was_replaced_appends_nothing_more(cluster: real.Servers, owner: Log) -> None:
    owner.append(b"one")
    with closing(Servers(cluster.urls)) as other:
        next_one = owner_of(other, "b")
        for late in (b"late", b"later"):
            with pytest.raises(StorageFailed, match="another machine owns"):
                owner.append(late)
        next_one.append(b"two")
        assert said(other) == [b"one", b"two"]


def test_without_the_epoch_record_a_replaced_owner_writes_on(cluster: real.Servers, owner: Log) -> None:
    """The control: two that know the same end and append nothing before they own it are not told apart."""
    with closing(Servers(cluster.urls)) as other:
        records_of(log_of(other))  # and appends no epoch
        owner.append(b"late")
        assert said(other) == [b"late"]


class Answers:
    """Spoils the answers to the first messages; the servers themselves are real.

    Args:
        faults: for each message: its `answer` or the `message` is lost, or the answer has another number.
    """

    def __init__(self, servers: Servers, faults: Sequence[str | int]) -> None:
        self._publish, self.left = servers.publish, list(faults)
        servers.publish = self  # type: ignore[assignment, method-assign]

    def __call__(self, subject: str, data: bytes, headers: dict[str, str]) -> int:
        fault = self.left.pop(0) if self.left else None
        if isinstance(fault, int):
            return fault
        if fault != "message":
            number = self._publish(subject, data, headers)
        if fault is not None:
            raise Unreachable("lost")
        return number


@pytest.mark.parametrize("faults", [["answer"], ["message"], ["message", "message"], [9, 1]])
def test_a_lost_message_or_answer_leaves_one_record(owner: Log, faults: list[str | int]) -> None:
    for number in range(4):
        answers = Answers(owner.servers, faults)
        owner.append(b"%d" % number)
        assert answers.left == []
    assert said(owner.servers) == [b"0", b"1", b"2", b"3"]


def test_a_machines_copy_does_not_hear_of_its_record(owner: Log) -> None:
    copied = copy.copy(owner)  # as a copy of the whole machine has the log: same epoch, same place, same subject
    owner.append(b"mine")
    with pytest.raises(StorageFailed, match="another machine owns"):
        copied.append(b"other bytes in the same place")


def test_without_comparing_bytes_a_copy_loses_acknowledged_records(owner: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(shared_log, "is_same", lambda found, message: found.subject == message.subject)
    copied = copy.copy(owner)
    owner.append(b"mine")
    copied.append(b"other bytes in the same place")
    assert said(owner.servers) == [b"mine"]


class Behind:
    """A server that answers as it was earlier, as one does that has not noticed that it leads no more."""

    def __init__(self, servers: Servers, end: tuple[int, int, int] | None, times: float) -> None:
        self._end_of = servers.end_of
        self._end, self.left = end, times
        servers.end_of = self  # type: ignore[method-assign]

    def __call__(self, stream: str) -> tuple[int, int, int] | None:
        self.left -= 1
        return self._end if self.left >= 0 else self._end_of(stream)


@pytest.mark.parametrize("end", [(1, 2, 0), None], ids=["shorter", "none"])
def test_a_lagging_server_does_not_mean_a_lost_log(owner: Log, end: tuple[int, int, int] | None) -> None:
    for number in range(4):
        owner.append(b"%d" % number)
    reader = log_of(owner.servers, owner.position)
    behind = Behind(owner.servers, end, 3)
    for _ in range(3):
        with pytest.raises(Unreachable, match=r"the log ends at 2|no log"):
            list(reader.read_to_end())
    assert list(reader.read_to_end()) == []
    assert behind.left < 0
    owner.append(b"4")
    assert [record.data for record in records_of(reader)] == [b"4"]


def begin_anew(urls: list[str], servers: Servers) -> None:
    """Let the servers lose the log, and have an empty one."""
    servers.remove_stream(NAMES.stream)
    connected(urls).close()


@pytest.mark.parametrize("last", [b"2", b"2" * (PART_BYTES + 1)], ids=["one part", "two parts"])
def test_no_machine_owns_a_log_with_another_past(alone: real.Servers, lone_owner: Log, last: bytes) -> None:
    owner, servers = lone_owner, lone_owner.servers
    owner.append(b"1")
    owner.append(last)
    assert log_of(servers, owner.position).own("a"), "whoever has its past may own it"
    begin_anew(alone.urls, servers)
    other = owner_of(servers, "b")
    while other.last < owner.last:
        other.append(b"3")
    ahead = log_of(servers, owner.position)
    assert records_of(ahead) == []
    with pytest.raises(JournalError, match="went back"):
        ahead.own("a")
    assert newest_epoch(servers, NAMES) == other.epoch


@pytest.mark.parametrize("is_continued", [True, False], ids=["continued", "empty"])
def test_servers_with_another_past_refuse_an_owner(
    cluster: real.Servers, owner: Log, is_continued: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They went back to an older state, and another machine may have gone on before the owner noticed."""
    monkeypatch.setattr(shared_log, "UNCLEAR_SECONDS", 1.0)
    owner.append(b"1")
    begin_anew(cluster.urls, owner.servers)
    others: list[bytes] = []
    if is_continued:
        other = owner_of(owner.servers, "b")
        while other.last < owner.last:
            others.append(b"of another history")
            other.append(others[-1])
    with pytest.raises(StorageFailed, match=r"did not agree|gone|another"):
        owner.append(b"2")
    assert said(owner.servers) == others


def test_without_servers_nothing_is_acknowledged(
    alone: real.Servers, lone_owner: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_log, "UNCLEAR_SECONDS", 1.0)
    alone.all[0].kill()
    with pytest.raises(StorageFailed, match="did not agree"):
        lone_owner.append(b"x")
    alone.all[0].start()
    with pytest.raises(StorageFailed, match="did not agree"):
        lone_owner.append(b"y")


def shared_journal(path: Path, servers: Servers) -> tuple[Journal, Log]:
    with closing(connect(path)) as connection, transaction(connection, path) as writing:
        is_shared = writing.execute("SELECT 1 FROM meta WHERE key = 'log_seq'").fetchone() is not None
        position = read_kept(writing).position if is_shared else START
        write_position(writing, position)
    log = log_of(servers, position)
    records_of(log)
    assert log.own("a")
    with closing(connect(path)) as connection, transaction(connection, path) as writing:
        write_position(writing, log.position)
    return Journal.open(path, shared=Committing(log, list)), log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a new journal."""
    Journal.open(tmp_path / "journal.db").close()
    return tmp_path / "journal.db"


def copy_of(path: Path, to: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


def commit_note(journal: Journal, seq: int) -> None:
    row = Row(seq, seq, "main", "ada", f"r{seq}", "note", "groups/main/MEMORY.md", -1, b"\n\xff\x00note %d\n" % seq)
    journal.commit([row], [Receipt(seq, seq, "main", "ada", f"r{seq}", b"\x01" * 32, b'{"ok":true}')])


def follow(path: Path, log: Log) -> Position:
    """Take all of the log into a journal, as a machine does that follows."""
    position = log.position
    with closing(connect(path)) as connection, transaction(connection, path) as writing:
        for record in records_of(log):
            position, _ = apply_record(writing, record, position)
        write_position(writing, position)
    return position


def test_a_journal_that_another_thread_reads_keeps_its_lock(alone: real.Servers, path: Path) -> None:
    """An owner may publish a snapshot while it opens its journal; another program must not pass for the last user."""
    with closing(connected(alone.urls)) as servers, reading(path) as copied:
        copied.execute("SELECT count(*) FROM meta").fetchall()
        journal, _ = shared_journal(path, servers)
        program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM meta').fetchall()"
        subprocess.run([sys.executable, "-c", program, path], check=True)
        commit_note(journal, 1)
        journal.close()


def test_a_following_journal_has_all_committed_records(cluster: real.Servers, path: Path) -> None:
    other = path.with_name("other.db")
    copy_of(path, other)
    with closing(connected(cluster.urls)) as servers:
        journal, log = shared_journal(path, servers)
        turn = TurnKey("main", "ada", "t1")
        for seq in range(1, 6):
            commit_note(journal, seq)
        journal.begin_turn(turn, b"d" * 32)
        journal.keep_step(turn, b'{"a":1}')
        journal.give_up_turn(turn)
        journal.keep_pushed({"x": {"main": 3}})
        assert journal.prune_receipts(2) == 2
        journal.change_past(lambda connection: connection.execute("UPDATE changes SET data = ? WHERE seq = 1", (b"",)))
        before = log.position
        journal.mark_projected(5)
        journal.keep_ages([1.0])
        assert log.position == before, "what is of this machine's files is not for the others"
        journal.close()
        assert follow(other, log_of(servers)) == log.position
    assert dump(path) == dump(other)
    assert [len(rows) for rows in dump(path).values()][:3] == [5, 3, 1]


def test_what_the_log_refused_is_not_in_the_journal(alone: real.Servers, path: Path) -> None:
    with closing(connected(alone.urls)) as servers, closing(Servers(alone.urls)) as others:
        journal, _ = shared_journal(path, servers)
        commit_note(journal, 1)
        owner_of(others, "b")
        with pytest.raises(StorageFailed):
            commit_note(journal, 2)
        assert journal.committed_seq == 1
        journal.close()
    assert len(dump(path)["changes"]) == 1


def test_a_shared_journal_is_not_opened_alone(alone: real.Servers, path: Path) -> None:
    with closing(connected(alone.urls)) as servers:
        journal, _ = shared_journal(path, servers)
        journal.close()
    with pytest.raises(JournalError, match="kept by several machines"):
        Journal.open(path)
