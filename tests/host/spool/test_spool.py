"""Boxes on real folders: which are found, what is listed of them, and in which order it is taken."""

import copy
import itertools
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.files.group_folders import Unchanged
from honeybadger_host.spool import rate_limits
from honeybadger_host.spool.inbox import Inbox
from honeybadger_host.spool.rate_limits import Buckets, Limiter
from honeybadger_host.spool.spool import QUANTUM
from tests.host.places import Place

NUMBERS = itertools.count()


@pytest.mark.parametrize(
    "name",
    ["-x", "_x", ".x", "a.b", "a b", "é", "а", "x" * 65, "a\n", "a\u202eb", b"\xff".decode(errors="surrogateescape")],
)
def test_a_folder_with_a_forbidden_name_is_no_box(place: Place, name: str) -> None:
    place.sender(name, "alice")
    place.sender("main", name)
    assert place.sweep() == []


def test_a_link_or_a_file_is_no_box(place: Place, tmp_path: Path) -> None:
    place.sender("main", "alice", "a.json")
    (place.ipc / "main" / "link").symlink_to("alice")
    (place.ipc / "linked-group").symlink_to("main")
    (place.ipc / "main" / "file").write_text("x")
    (place.ipc / "file").write_text("x")
    assert [box.sender for box in place.sweep()] == ["alice"]


def test_only_finished_names_are_requests(place: Place) -> None:
    place.sender("main", "alice", "a.json", ".b.json", "c.JSON", "d.json.tmp", "e.json ", "f", ".json", "-g.json")
    place.sweep()
    assert place.take() == ["main/alice/-g.json", "main/alice/a.json"]


def test_a_longer_box_is_listed_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "PENDING_FILES", 3)
    names = {f"{number}.json" for number in range(9)}
    root = place.sender("main", "alice", *names)
    (box,) = place.sweep()
    first = place.take_all()
    assert first == sorted(first)
    assert (len(first), len(box.over)) == (6, 3)
    for name in first:
        (root / "requests" / name).unlink()
        box.release(name)
    place.spool.look(0.0)
    assert {*first, *place.take_all()} == names


def test_the_first_look_is_into_all_inboxes(place: Place) -> None:
    """Else what waits at a start is served in the order in which the inboxes are watched."""
    alice = place.sender("main", "alice", "b.json")
    place.sender("main", "bob", "a.json")
    place.spool.discover()
    place.spool.mark(f"{alice}/requests")
    place.spool.look(0.0)
    assert place.take_all() == ["a.json", "b.json"]


def test_what_waits_in_a_removed_inbox_is_not_taken(place: Place) -> None:
    root = place.sender("main", "alice", "a.json", "b.json")
    place.sender("main", "bob", "a.json")
    place.sweep()
    shutil.rmtree(root)
    place.sweep()
    assert place.take() == ["main/bob/a.json"]
    place.sender("main", "alice", "c.json")
    place.sweep()
    assert place.take() == ["main/alice/c.json"]


def test_a_name_listed_twice_is_taken_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As tmpfs does (Linux 6.18) when others come and go meanwhile."""
    real = os.listdir
    place.sender("main", "alice", *(f"{number}.json" for number in range(9)))
    monkeypatch.setattr(os, "listdir", lambda folder: [name for name in real(folder) for _ in range(2)])
    place.sweep()
    assert place.take_all() == [f"{number}.json" for number in range(9)]


def _status(stamp_ns: int) -> os.stat_result:
    values = list(os.stat("/"))
    return os.stat_result((*values, 0.0, 0.0, 0.0, stamp_ns, stamp_ns, stamp_ns))


def test_a_folder_with_a_young_stamp_is_listed_again() -> None:
    unchanged = Unchanged()
    long_ago = _status(1)  # a file server whose clock is years behind
    unchanged.listed(long_ago, 0.0)
    assert not unchanged.holds(long_ago)
    unchanged.listed(long_ago, 2.9)
    assert not unchanged.holds(long_ago)  # a file may have come within the same two seconds of a coarse stamp
    unchanged.listed(long_ago, 3.0)
    assert unchanged.holds(long_ago)
    assert not unchanged.holds(_status(2))
    unchanged.forget()
    assert not unchanged.holds(long_ago)
    unchanged.listed(_status(2), 10.0)
    assert not unchanged.holds(_status(2))


def test_turns_begin_in_turn_over_their_groups(place: Place) -> None:
    for group in "abc":
        folder = place.sender(group, "a") / "turns"
        folder.mkdir()
        for number in range(3):
            (folder / f"{number}.json").write_bytes(b"{}")
    place.sweep()
    begun = [place.spool.take(8, most_turns=2) for _ in range(3)]
    groups = [{inbox.group for _, inbox in taken} for taken in begun]
    assert [len(each) for each in groups] == [2, 2, 2]
    assert {each for taken in groups[:2] for each in taken} == {"a", "b", "c"}
    assert [name for taken in begun for name, inbox in taken if inbox.group == "a"] == ["0.json", "1.json"]


def test_a_complaint_ends_with_its_cause_though_nobody_sends(place: Place) -> None:
    root = place.sender("main", "alice")
    (box,) = place.sweep()
    (root / "replies").rmdir()
    (root / "replies").symlink_to("/nowhere")
    assert place.spool.open(box) is None
    place.sweep()
    assert box.complaint is not None
    (root / "replies").unlink()
    place.sweep()
    assert box.complaint is None


MOST = 128


def put(place: Place, queue: str, count: int) -> None:
    """Let requests wait in a queue, without files."""
    inbox = place.spool.inboxes.get(f"/{queue}/requests", Inbox(queue, "a", f"/{queue}"))
    place.spool.inboxes = {**place.spool.inboxes, inbox.requests: inbox}
    place.spool._queue(inbox, [f"{next(NUMBERS):09}.json" for _ in range(count)], 0.0)


def batch(place: Place, most: int = MOST) -> dict[str, int]:
    """Return how many requests of each queue are in the next batch."""
    return dict(Counter(inbox.group for _, inbox in place.spool.take(most)))


def test_a_newcomer_beside_a_flood_is_served_next(place: Place) -> None:
    put(place, "flood", 20_000)
    for _ in range(MOST):
        batch(place)
    assert batch(place) == {"flood": MOST}
    for _ in range(3):
        put(place, "ann", 1)
        put(place, "bob", 2)
        assert batch(place) == {"ann": 1, "bob": 2}
        put(place, "ann", 1)
        assert batch(place) == {"ann": 1, "flood": QUANTUM}
        assert batch(place) == {"flood": QUANTUM + 1}


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 400), min_size=2), st.integers(1, 50))
def test_everything_is_taken_in_fair_shares(waiting: dict[str, int], most: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        for queue, count in waiting.items():
            put(place, queue, count)
        got = Counter[str]()
        while taken := batch(place, most):
            assert sum(taken.values()) <= most
            got.update(taken)
            if all(got[queue] < count for queue, count in waiting.items()):  # nobody is done yet
                assert max(got[queue] for queue in waiting) - min(got[queue] for queue in waiting) <= 2 * QUANTUM
        assert got == waiting


def test_new_senders_without_end_do_not_stop_a_flood(place: Place) -> None:
    put(place, "flood", 1000)
    served = 0
    for number in range(10):
        for each in range(20):
            put(place, f"{number}-{each}", QUANTUM)
        served += batch(place).get("flood", 0)
    assert served >= 3 * QUANTUM


ALICE = ("main", "alice")


def test_a_burst_is_served_then_one_per_token() -> None:
    limits = Limiter(2)
    assert [limits.admit(*ALICE, now=100.0) for _ in range(20)] == [None] * 20  # ten seconds of it
    over = limits.admit(*ALICE, now=100.0)
    assert over is not None
    name, refusal = over
    assert (name, refusal.code, refusal.retry_after_seconds) == ("rate", "rate_limited", 0.5)
    assert "limits.requests_per_second" in refusal.message
    for now in (100.1, 100.2, 100.49):  # a refused request takes no token
        assert limits.admit(*ALICE, now=now) is not None
    assert limits.admit(*ALICE, now=100.5) is None
    assert limits.admit(*ALICE, now=100.5) is not None
    assert limits.admit("main", "bob", now=100.5) is None


@given(
    per_second=st.floats(0.1, 100), burst=st.floats(0, 50), pauses=st.lists(st.floats(0, 3), min_size=1, max_size=80)
)
def test_no_span_exceeds_its_burst_and_rate(per_second: float, burst: float, pauses: list[float]) -> None:
    buckets = Buckets(per_second, burst)
    now, served = 0.0, []
    for pause in pauses:
        now += pause
        if (wait := buckets.take(ALICE, now)) == 0:
            served.append(now)
        else:
            assert copy.deepcopy(buckets).take(ALICE, now + wait + 1e-6) == 0  # what is said is when it is so
    for first, since in enumerate(served):
        for last, until in enumerate(served[first:], first):
            assert last - first + 1 <= max(1.0, burst) + (until - since) * per_second + 1e-6


def test_a_stopped_or_returning_clock_gives_no_tokens() -> None:
    buckets = Buckets(1, 1)
    assert buckets.take(ALICE, 100.0) == 0
    assert buckets.take(ALICE, 50.0) == 1.0


def test_zero_is_no_limit() -> None:
    limits = Limiter(0)
    assert {limits.admit("main", f"s{number}", now=0.0) for number in range(3000)} == {None}
