"""Boxes on real folders: which are found, what is listed of them, and in which order it is taken."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from honeybadger_host.spool import fairness
from honeybadger_host.spool import spool as spool_module
from honeybadger_host.spool.inbox import Inbox
from honeybadger_host.spool.spool import Spool
from honeybadger_host.storage.file_cache import Unchanged
from tests.host.places import Place

# ---------------------------------------------------------------------------------------------------------- discovering


def test_boxes_are_found_with_their_group_and_sender_and_forgotten_when_they_go(place: Place) -> None:
    root = place.sender("main", "alice")
    place.sender("main", "bob")
    assert {(box.group, box.sender) for box in place.sweep()} == {("main", "alice"), ("main", "bob")}
    for folder in root.iterdir():
        folder.rmdir()
    root.rmdir()
    assert {(box.group, box.sender) for box in place.sweep()} == {("main", "bob")}


@pytest.mark.parametrize(
    "name",
    ["-x", "_x", ".x", "a.b", "a b", "é", "а", "x" * 65, "a\n", "a\u202eb", b"\xff".decode(errors="surrogateescape")],
)
def test_a_folder_whose_name_the_protocol_does_not_allow_is_no_box(place: Place, name: str) -> None:
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


def test_in_closed_mode_only_known_senders_are_found_and_the_list_may_change(tmp_path: Path) -> None:
    place = Place(tmp_path, {("main", "alice"): 1001})
    place.sender("main", "alice")
    place.sender("main", "mallory")
    (alice,) = place.sweep()
    assert (alice.sender, alice.uid) == ("alice", 1001)
    place.spool.senders = {("main", "alice"): 1002, ("main", "mallory"): None}
    assert {(box.sender, box.uid) for box in place.sweep()} == {("alice", 1002), ("mallory", None)}
    place.spool.senders = {}
    assert place.sweep() == []


def test_what_was_queued_of_a_box_that_went_is_not_taken(place: Place) -> None:
    root = place.sender("main", "alice", "a.json", "b.json")
    place.sender("main", "bob", "c.json")
    place.sweep()
    root.rename(place.ipc / ".alice")
    place.sweep()
    assert place.take() == ["main/bob/c.json"]
    assert place.spool.pending == 0


# -------------------------------------------------------------------------------------------------------------- listing


def test_only_finished_names_are_requests(place: Place) -> None:
    place.sender("main", "alice", "a.json", ".b.json", "c.JSON", "d.json.tmp", "e.json ", "f", ".json", "-g.json")
    place.sweep()
    assert place.take() == ["main/alice/-g.json", "main/alice/a.json"]


def test_a_name_is_taken_once_until_it_is_removed(place: Place) -> None:
    place.sender("main", "alice", "a.json")
    (box,) = place.sweep()
    assert place.take() == ["main/alice/a.json"]
    place.sweep()
    assert place.take() == []
    box.inflight.discard("a.json")
    place.sweep()
    assert place.take() == ["main/alice/a.json"]


def test_a_file_that_is_being_written_is_looked_at_again_when_its_time_comes(place: Place) -> None:
    root = place.sender("main", "alice", "a.json")
    (box,) = place.sweep(now=10.0)
    place.take()
    box.waiting["a.json"] = (10.0, 10.05)
    box.inflight.discard("a.json")
    place.sweep(now=10.04)
    assert place.take() == []
    place.sweep(now=10.05)
    assert place.take() == ["main/alice/a.json"]
    box.inflight.discard("a.json")
    (root / "requests" / "a.json").rename(root / "requests" / "b.json")
    place.sweep(now=10.06)
    assert box.waiting == {}


def test_a_long_queue_is_served_before_its_box_is_listed_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "_LONG_QUEUE", 100)
    listened: list[str] = []
    place.spool.listen = listened.append
    root = place.sender("main", "alice", *(f"{number:04}.json" for number in range(200)))
    (box,) = place.sweep()
    assert listened == [box.requests]
    (root / "requests" / "new.json").write_bytes(b"{}")
    assert not place.spool.scan(box, 0.0)
    assert (place.spool.pending, len(listened)) == (200, 1)
    while place.spool.pending > 50:
        place.take(50)
    before = place.spool.pending
    assert place.spool.scan(box, 0.0)
    assert (place.spool.pending, len(listened)) == (before + 1, 2)


def test_a_box_with_more_names_than_one_listing_takes_gives_the_first_in_order(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is listed as far as that; what it has beyond is found later."""
    monkeypatch.setattr(spool_module, "_LISTED_AT_ONCE", 3)
    monkeypatch.setattr(spool_module, "_MAX_LISTED", 6)
    names = {f"{number}.json" for number in range(9)}
    root = place.sender("main", "alice", *names)
    (box,) = place.sweep()
    assert place.take() == []  # it is being listed
    first = place.take_all()
    assert first == sorted(first)
    assert len(first) == 6
    for name in first:
        (root / "requests" / name).unlink()
        box.inflight.discard(name)
    place.sweep()
    rest = place.take_all()
    assert rest == sorted(rest)
    assert {*first, *rest} == names


def test_a_long_listing_is_read_bit_by_bit_given_out_in_order_and_counted_as_pending(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "_LISTED_AT_ONCE", 10)
    monkeypatch.setattr(spool_module, "_LONG_QUEUE", 5)
    root = place.sender("main", "alice", *(f"{number:02}.json" for number in range(95)))
    place.sender("main", "bob", "50-bob.json")
    place.sweep()
    assert place.take() == ["main/bob/50-bob.json"]
    for _ in range(10):
        assert place.spool.go_on(0.0)
    assert place.spool.pending == 95
    (root / "requests" / "94.json").unlink()  # it goes meanwhile: the reader finds that
    (root / "requests" / "00-new.json").write_bytes(b"{}")  # it comes meanwhile: the next listing finds it
    assert place.take_all() == [f"{number:02}.json" for number in range(95)]
    assert place.spool.pending == 0
    place.sweep()
    assert place.take_all() == ["00-new.json"]


def test_two_long_listings_go_on_in_turn_and_one_that_has_enough_in_the_queue_waits(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "_LISTED_AT_ONCE", 10)
    monkeypatch.setattr(spool_module, "_LONG_QUEUE", 5)
    for sender in ("alice", "bob"):
        place.sender(sender, "a", *(f"{number:02}.json" for number in range(40)))
    boxes = place.sweep()
    for _ in range(10):
        assert place.spool.go_on(0.0)
    assert [len(box.queued) for box in boxes] == [10, 10]
    assert not place.spool.go_on(0.0)


def test_a_box_that_goes_while_it_is_being_listed_is_forgotten(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "_LISTED_AT_ONCE", 3)
    root = place.sender("main", "alice", *(f"{number}.json" for number in range(9)))
    place.sweep()
    root.rename(place.ipc / ".alice")
    place.sweep()
    assert not place.spool.go_on(0.0)
    assert (place.take(), place.spool.pending) == ([], 0)


def test_a_name_that_a_listing_shows_twice_is_taken_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As tmpfs does (Linux 6.18) when others come and go meanwhile."""
    real = os.scandir

    class Twice:
        def __init__(self, folder: int) -> None:
            with real(folder) as entries:
                self._entries = [entry for entry in entries for _ in range(2)]

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self._entries)

        def __exit__(self, *_: object) -> None: ...

    place.sender("main", "alice", *(f"{number}.json" for number in range(9)))
    place.spool.discover()
    monkeypatch.setattr(os, "scandir", Twice)
    for at_once in (1024, 4):
        monkeypatch.setattr(spool_module, "_LISTED_AT_ONCE", at_once)
        (box,) = place.spool.inboxes.values()
        box.inflight.clear()
        place.spool.scan(box, 0.0)
        assert place.take_all() == [f"{number}.json" for number in range(9)]


def test_requests_that_is_a_link_is_refused_and_not_listed(place: Place, tmp_path: Path) -> None:
    victim = place.sender("main", "victim", "secret.json")
    root = place.sender("main", "mallory")
    (root / "requests").rmdir()
    (root / "requests").symlink_to(victim / "requests")
    boxes = {box.sender: box for box in place.sweep()}
    assert boxes["mallory"].queued == set()
    assert "link" in (boxes["mallory"].complaint or "")
    assert boxes["victim"].queued == {"secret.json"}


def test_what_comes_into_an_empty_box_is_found_even_when_the_time_stamp_of_the_folder_is_set_back(
    place: Place,
) -> None:
    root = place.sender("main", "alice")
    place.sweep(now=0.0)
    place.sweep(now=100.0)  # by now the time stamp is believed
    before = (root / "requests").stat()
    (root / "requests" / "a.json").write_bytes(b"{}")
    os.utime(root / "requests", ns=(before.st_atime_ns, before.st_mtime_ns))
    place.sweep(now=100.1)
    assert place.take() == ["main/alice/a.json"]


def _status(stamp_ns: int) -> os.stat_result:
    values = list(os.stat("/"))
    return os.stat_result((*values, 0.0, 0.0, 0.0, stamp_ns, stamp_ns, stamp_ns))


def test_a_folder_is_listed_again_while_its_time_stamp_is_young_by_our_own_clock() -> None:
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


def test_a_box_is_not_listed_again_while_all_in_it_wait_for_something_to_come(place: Place) -> None:
    root = place.sender("main", "alice", "a.json", "b.json")
    (box,) = place.sweep()
    box.held |= {"a.json", "b.json"}
    place.spool.scan(box, 0.0)
    place.spool.scan(box, 10.0)
    assert box.empty.holds(os.stat(box.requests))
    box.held.discard("a.json")
    box.empty.forget()  # as when one is answered
    place.spool.scan(box, 20.0)
    assert not box.empty.holds(os.stat(box.requests))
    assert (root / "requests" / "a.json").exists()


def test_distrust_lists_everything_again(place: Place) -> None:
    place.sender("main", "alice")
    for now in (0.0, 100.0):
        (box,) = place.sweep(now)
    status = os.stat(box.requests)
    assert box.empty.holds(status)
    place.spool.distrust()
    assert not box.empty.holds(status)


# --------------------------------------------------------------------------------------------------------------- taking


def test_within_a_group_requests_are_taken_in_the_order_of_names_over_its_senders(place: Place) -> None:
    place.sender("main", "bob", "1.json", "4.json")
    place.sender("main", "alice", "2.json", "3.json")
    place.sweep()
    assert place.take() == ["main/bob/1.json", "main/alice/2.json", "main/alice/3.json", "main/bob/4.json"]


def test_what_came_later_is_put_in_its_place_of_the_queue(place: Place) -> None:
    root = place.sender("main", "alice", "2.json", "4.json")
    place.sweep()
    (root / "requests" / "1.json").write_bytes(b"{}")
    (root / "requests" / "3.json").write_bytes(b"{}")
    place.sweep()
    assert [name[-6] for name in place.take()] == ["1", "2", "3", "4"]


def test_a_flood_of_one_group_leaves_the_others_their_turn(place: Place) -> None:
    place.sender("flood", "a", *(f"{number:04}.json" for number in range(200)))
    for group in ("quiet-1", "quiet-2", "quiet-3"):
        place.sender(group, "a", "x.json")
    place.sweep()
    taken = Counter(name.split("/")[0] for name in place.take(16))
    assert taken == {"quiet-1": 1, "quiet-2": 1, "quiet-3": 1}  # a batch of their own
    assert len(place.take(512)) == 8  # the flood's batches are short while others come
    place.spool.fairness.expects_few = 0
    assert len(place.take(512)) == 32


def test_who_had_few_beside_a_flood_is_expected_again_while_that_lasts(place: Place) -> None:
    place.sender("flood", "a", *(f"{number:04}.json" for number in range(200)))
    place.sender("quiet", "a", "x.json")
    place.sweep()
    assert place.spool.expected == []
    place.take()
    assert [box.group for box in place.spool.expected] == ["quiet"]
    for number in range(2 * spool_module._MAX_EXPECTED):
        place.sender(f"quiet-{number:02}", "a", "x.json")
    place.sweep()
    place.take()
    assert len(place.spool.expected) == spool_module._MAX_EXPECTED
    assert all(box.group.startswith("quiet-") for box in place.spool.expected)
    shutil.rmtree(place.ipc / place.spool.expected[0].group)
    place.spool.discover()
    assert len(place.spool.expected) == spool_module._MAX_EXPECTED - 1
    while place.take():
        pass
    place.spool.fairness.expects_few = 0
    assert place.spool.expected == []


def test_groups_begin_in_turn_so_that_a_slice_smaller_than_their_number_reaches_all(place: Place) -> None:
    for group in range(7):
        place.sender(f"g{group}", "a", *(f"{number}.json" for number in range(50)))
    place.sweep()
    taken = Counter(name.split("/")[0] for _ in range(7) for name in place.take(2))
    assert set(taken) == {f"g{group}" for group in range(7)}


def test_a_slice_opens_a_bounded_number_of_boxes_and_the_rest_follows(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "_MAX_OPEN", 4)
    for number in range(10):
        place.sender("main", f"s{number}", f"{number}.json")
    place.sweep()
    batches = [place.take() for _ in range(3)]
    assert [len(names) for names in batches] == [4, 4, 2]
    assert [name for names in batches for name in names] == [f"main/s{number}/{number}.json" for number in range(10)]


def test_a_group_may_be_left_out_for_a_slice(place: Place) -> None:
    place.sender("busy", "a", "1.json")
    place.sender("free", "a", "1.json")
    place.sweep()
    assert [box.group for _, box in place.spool.take(10, except_groups={"busy"})] == ["free"]
    assert place.take() == ["busy/a/1.json"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    waiting=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 40), min_size=1),
    most=st.integers(1, 50),
)
def test_every_request_is_taken_once_in_order_and_no_group_waits_for_another(
    waiting: dict[str, int], most: int
) -> None:
    spool = Spool(Path("/nowhere"), senders=None)
    expected: dict[str, list[str]] = {}
    for group, count in waiting.items():
        box = Inbox(group, "a", f"/nowhere/{group}")
        names = [f"{number:02}.json" for number in range(count)]
        box.queued.update(names)
        spool._queues[group] = [(name, box) for name in reversed(names)]
        expected[group] = names
    left = {group: count for group, count in waiting.items() if count}
    taken: dict[str, list[str]] = {group: [] for group in waiting}
    passed_over_before: set[str] = set()
    while slice_ := spool.take(most):
        got = Counter(box.group for _, box in slice_)
        assert 0 < len(slice_) <= most
        assert max(got.values()) <= fairness.MAX_PER_QUEUE
        if most >= len(left):
            passed_over = {group for group in left if not got[group]}
            assert not passed_over & passed_over_before  # nobody twice
            passed_over_before = passed_over
        for name, box in slice_:
            taken[box.group].append(name)
            left[box.group] -= 1
        left = {group: count for group, count in left.items() if count}
    assert taken == expected


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
