"""Metrics: right numbers in a form Prometheus reads, and nothing that anybody said or is called."""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from honeybadger_agent import SyncClient, new_id
from honeybadger_agent.errors import Invalid
from tests.conftest import HostFactory
from tests.hosting import PATIENCE, HostProcess, RawSender, request, wait_for

pytest.importorskip("prometheus_client", reason="needs the extra metrics")
from prometheus_client.parser import text_string_to_metric_families

MakeClient = Callable[..., SyncClient]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

WITHOUT_THE_EXTRA = "import sys; sys.modules['prometheus_client'] = None"


def samples(text: str) -> Samples:
    """Return (name, labels) -> value of everything in an exposition."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"honeybadger_{name}", frozenset(labels.items())]


def answered(found: Samples) -> float:
    return sum(number for (name, _), number in found.items() if name == "honeybadger_requests_total")


@pytest.fixture
def textfile(home: Path) -> Path:
    return home / "data/honeybadger.prom"


@pytest.fixture
def measured(make_host: HostFactory) -> HostProcess:
    """A running host that writes metrics often, into its home."""
    return make_host({"ops.status.STATUS_SECONDS": 0.1, "metrics.textfile": "data/honeybadger.prom"}).start()


def do_known_requests(client: MakeClient, stranger: RawSender) -> None:
    """Ask nine times: seven changes or questions that go well, a blank note, a file that is not a request."""
    for number in range(3):
        client("Wilhelmina", "winterthur").update_memory(f"The passphrase is xyzzy {number}", "Zugangsdaten")
    client("Wilhelmina", "winterthur").append_turn("user", "abracadabra")
    client("Wilhelmina", "winterthur").get_context("open sesame")
    client("Wilhelmina", "winterthur").ping()
    with pytest.raises(Invalid):
        client("Wilhelmina", "winterthur").update_memory(" ")
    stranger.ask(new_id(), request(new_id(), "conjure"))
    stranger.ask("broken-hocuspocus", b"hocuspocus")


def test_the_numbers_are_right_after_known_requests(
    measured: HostProcess, client: MakeClient, stranger: RawSender, textfile: Path
) -> None:
    began = time.time()
    do_known_requests(client, stranger)
    wait_for(lambda: textfile.exists() and answered(samples(textfile.read_text())) == 9, what="all nine are counted")
    wait_for(lambda: value(samples(textfile.read_text()), "journal_projected_seq") == 5, what="a checkpoint")
    wait_for(lambda: value(samples(textfile.read_text()), "dead_letters") == 1, what="what is no request is counted")
    found = samples(textfile.read_text())
    assert value(found, "requests_total", type="update_memory", outcome="ok") == 3
    assert value(found, "requests_total", type="update_memory", outcome="invalid") == 1
    assert value(found, "requests_total", type="append_turn", outcome="ok") == 1
    assert value(found, "requests_total", type="get_context", outcome="ok") == 1
    assert value(found, "requests_total", type="ping", outcome="ok") == 1
    assert value(found, "request_seconds_count") == 9
    buckets = sorted(
        (float(dict(labels)["le"]), number)
        for (name, labels), number in found.items()
        if name == "honeybadger_request_seconds_bucket"
    )
    counts = [number for _, number in buckets]
    assert counts == sorted(counts)
    assert (buckets[-2][0], counts[-1]) == (10.0, 9)  # each counts all below it; the last one has no end
    assert 0 < value(found, "request_seconds_sum") < 60
    assert value(found, "journal_seq") == 5
    assert 1 <= value(found, "commits_total") <= 4
    assert value(found, "boxes") == 2
    assert value(found, "watcher_up") == 1
    for name in ("boxes_refused", "pending_requests", "stuck_requests", "files_behind", "watcher_rebuilds_total"):
        assert value(found, name) == 0, name
    assert value(found, "folders_without_events") == 0
    assert value(found, "sweeps_total") > 0
    assert value(found, "cache_bytes") > 0
    assert 1 << 24 < value(found, "resident_memory_bytes") < 1 << 29
    assert value(found, "start_timestamp_seconds") < began + 1
    assert began < value(found, "last_sweep_timestamp_seconds") <= value(found, "snapshot_timestamp_seconds")


def test_metrics_hold_no_text_and_no_names(
    measured: HostProcess, client: MakeClient, stranger: RawSender, textfile: Path
) -> None:
    do_known_requests(client, stranger)
    client("mole").ping()
    stranger.drop("x", request("x", "abracadabra-as-a-type"))
    stranger.wait_until_taken("x")
    wait_for(lambda: textfile.exists() and answered(samples(textfile.read_text())) == 11, what="all are counted")
    text = textfile.read_text()
    assert {label for _, labels in samples(text) for label, _ in labels} == {"type", "outcome", "le", "limit"}
    for word in ("wilhelmina", "winterthur", "stranger", "mole", "main", "xyzzy", "zugang", "abracadabra"):
        assert word not in text.lower(), word
    for word in ("sesame", "conjure", "hocuspocus", "memory.md", str(textfile.parent).lower()):
        assert word not in text.lower(), word


def test_the_metrics_file_is_always_whole_and_readable(measured: HostProcess, textfile: Path) -> None:
    wait_for(textfile.exists, what="the first numbers")
    inodes: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    while len(inodes) < 5:
        assert time.monotonic() < deadline
        with textfile.open() as file:
            text = file.read()
            inodes.add(os.fstat(file.fileno()).st_ino)
        assert text.splitlines()[-1].startswith("honeybadger_resident_memory_bytes ")
    assert stat.S_IMODE(textfile.stat().st_mode) == 0o644
    assert [path.name for path in textfile.parent.glob("*.prom")] == [textfile.name]


@pytest.mark.parametrize(
    ("file", "source", "says"),
    [
        ("data/m.prom", WITHOUT_THE_EXTRA, "needs prometheus-client: pip install ./honeybadger_agent '.[metrics]'"),
        ("data/metrics.txt", "", "must end in .prom"),
        ("/nowhere/metrics.prom", "", "/nowhere is not a folder that uid"),
    ],
)
def test_a_text_file_nobody_would_read_is_refused(make_host: HostFactory, file: str, source: str, says: str) -> None:
    host = make_host({"metrics.textfile": file}, source=source)
    host.launch()
    assert host.wait() == 3
    assert says in host.stderr.read_text()


def test_without_metrics_a_host_needs_no_extra(make_host: HostFactory, client: MakeClient) -> None:
    make_host(source=WITHOUT_THE_EXTRA).start()
    assert client().ping().protocol == 1
