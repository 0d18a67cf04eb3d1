"""Numbers for Prometheus: a text file, without text and without names (docs/decisions/012-metrics.md).

Imported only by a host that was asked for metrics: prometheus-client is the extra `metrics`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from honeybadger_host.errors import SettingsError
from honeybadger_host.observe import SECONDS_BOUNDS
from honeybadger_host.spool.dead_letter_files import DeadCount
from honeybadger_host.spool.rate_limits import LimitName
from honeybadger_host.storage.files import replace

_READABLE: Final = 0o644
"""The reader is another user, and there is nothing in it to hide."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is counted and measured, as of one moment. Times are seconds since the epoch.

    Args:
        requests: (type, outcome) -> how many since the start.
        seconds: how many took at most each of `SECONDS_BOUNDS`, and not less than the one before; last: longer.
        swept_at: when the last look into all boxes ended; None before the first.
        limited: limit -> requests refused with `rate_limited` for it since the start.
        resident_bytes: None where it is not known.
    """

    taken_at: float
    started_at: float
    requests: Mapping[tuple[str, str], int]
    seconds: tuple[int, ...]
    seconds_sum: float
    commits: int
    vanished: int
    limited: Mapping[LimitName, int]
    replies_trimmed: int
    compactions: int
    consolidations: int
    consolidation_failures: int
    curation_tokens: Mapping[str, int]
    journal_seq: int
    projected_seq: int
    files_behind: int
    inboxes: int
    boxes_refused: int
    pending: int
    stuck: int
    sessions: int
    cache_bytes: int
    sweeps: int
    swept_at: float | None
    watcher_is_alive: bool
    watcher_rebuilds: int
    folders_without_events: int
    resident_bytes: int | None


_COUNTERS: Final[tuple[tuple[str, str, Callable[[Numbers], int]], ...]] = (
    ("commits", "Batches committed to the journal.", lambda n: n.commits),
    ("vanished_requests", "Requests their sender removed before they were read.", lambda n: n.vanished),
    ("trimmed_replies", "Replies removed because their sender let too many lie.", lambda n: n.replies_trimmed),
    ("session_compactions", "Session documents brought within their limits.", lambda n: n.compactions),
    ("consolidations", "Sessions consolidated.", lambda n: n.consolidations),
    ("consolidation_failures", "Consolidations that are tried again.", lambda n: n.consolidation_failures),
    ("sweeps", "Looks into all boxes.", lambda n: n.sweeps),
    ("watcher_rebuilds", "Times the watcher's thread had died and was replaced.", lambda n: n.watcher_rebuilds),
)
_GAUGES: Final[tuple[tuple[str, str, Callable[[Numbers], float | None]], ...]] = (
    ("snapshot_timestamp_seconds", "When these numbers were taken.", lambda n: n.taken_at),
    ("start_timestamp_seconds", "When the host started.", lambda n: n.started_at),
    ("last_sweep_timestamp_seconds", "When the last look into all boxes ended.", lambda n: n.swept_at),
    ("journal_seq", "The last change that is durable.", lambda n: n.journal_seq),
    ("journal_projected_seq", "Every change up to this one stands durably in its file.", lambda n: n.projected_seq),
    ("files_behind", "Files that cannot be written now.", lambda n: n.files_behind),
    ("boxes", "Boxes that were found.", lambda n: n.inboxes),
    ("boxes_refused", "Boxes that are broken and not served.", lambda n: n.boxes_refused),
    ("pending_requests", "Requests seen and not taken yet.", lambda n: n.pending),
    ("stuck_requests", "Requests that are done and cannot be removed.", lambda n: n.stuck),
    ("sessions_in_memory", "Conversations kept in memory.", lambda n: n.sessions),
    ("cache_bytes", "Group files kept in memory.", lambda n: n.cache_bytes),
    ("watcher_up", "1 while file events arrive; else the sweep finds every request.", lambda n: n.watcher_is_alive),
    ("folders_without_events", "Folders that only the sweep looks into.", lambda n: n.folders_without_events),
    ("resident_memory_bytes", "Memory of the host.", lambda n: n.resident_bytes),
)


class Metrics(Collector):
    """Renders the numbers it is handed, and replaces the text file with them.

    Args:
        textfile: relative to `home`.
    Raises SettingsError: the file cannot be written.
    """

    def __init__(self, home: Path, textfile: Path) -> None:
        self._numbers: Numbers | None = None
        self._dead = DeadCount(home)
        self._dead_letters = 0
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._textfile = _checked(home / textfile)

    def publish(self, numbers: Numbers) -> None:
        """Replace the text file. Raises OSError: it was not written."""
        self._dead_letters = self._dead.count()
        self._numbers = numbers
        replace(self._textfile, generate_latest(self._registry), mode=_READABLE, is_durable=False)

    def collect(self) -> Iterator[Metric]:
        numbers = self._numbers
        if numbers is None:
            return
        requests = CounterMetricFamily("honeybadger_requests", "Requests answered.", labels=("type", "outcome"))
        for (type_, outcome), count in sorted(numbers.requests.items()):
            requests.add_metric(("unreadable" if type_ == "?" else type_, outcome), count)
        yield requests
        tokens = CounterMetricFamily(
            "honeybadger_curation_tokens", "Tokens of models that look after memory.", labels=("kind",)
        )
        for kind, count in sorted(numbers.curation_tokens.items()):
            tokens.add_metric((kind,), count)
        yield tokens
        limited = CounterMetricFamily("honeybadger_limited_requests", "Requests over a share.", labels=("limit",))
        for limit in get_args(LimitName):
            limited.add_metric((limit,), numbers.limited.get(limit, 0))
        yield limited
        bounds = [*map(str, SECONDS_BOUNDS), "+Inf"]
        yield HistogramMetricFamily(
            "honeybadger_request_seconds",
            "Seconds from when a request was seen to its reply.",
            buckets=list(zip(bounds, accumulate(numbers.seconds), strict=True)),
            sum_value=numbers.seconds_sum,
        )
        for name, meaning, total_of in _COUNTERS:
            yield CounterMetricFamily(f"honeybadger_{name}", meaning, value=total_of(numbers))
        for name, meaning, value_of in _GAUGES:
            if (value := value_of(numbers)) is not None:
                yield GaugeMetricFamily(f"honeybadger_{name}", meaning, value=value)
        yield GaugeMetricFamily("honeybadger_dead_letters", "Requests in data/dead.", value=self._dead_letters)


def _checked(path: Path) -> Path:
    if path.suffix != ".prom":
        raise SettingsError(f"metrics.textfile {path} must end in .prom: node_exporter reads no other names")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise SettingsError(
            f"metrics.textfile {path}: {path.parent} is not a folder that uid {os.geteuid()} may write to: make it, "
            f"or choose another"
        )
    return path
