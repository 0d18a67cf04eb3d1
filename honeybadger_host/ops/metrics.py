"""Metrics for Prometheus in a text file, without texts or names of anybody (docs/decisions/012-metrics.md).

Imported only if metrics are switched on: prometheus-client is the extra `metrics`.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from honeybadger_host.files.safe_files import replace
from honeybadger_host.observe import SECONDS_BOUNDS, Counters
from honeybadger_host.spool.rate_limits import LimitName

# (name, meaning, place in the host's status)
_COUNTERS = (
    ("commits", "Batches committed to the journal.", "journal.commits"),
    ("vanished_requests", "Requests their sender removed before they were read.", "requests.vanished"),
    ("trimmed_replies", "Replies removed because their sender let too many lie.", "limits.replies_trimmed"),
    ("session_compactions", "Session documents brought within their limits.", "compactions"),
    ("sweeps", "Looks into all boxes.", "sweeps"),
    ("watcher_rebuilds", "Times the watcher's thread had died and was replaced.", "watcher.rebuilds"),
)
_GAUGES = (
    ("snapshot_timestamp_seconds", "When these numbers were taken.", "written_at"),
    ("start_timestamp_seconds", "When the host started.", "started_at"),
    ("last_sweep_timestamp_seconds", "When the last look for requests ended.", "swept_at"),
    ("journal_seq", "The last change that is durable.", "journal.seq"),
    ("journal_projected_seq", "Every change up to this one stands durably in its file.", "journal.projected_seq"),
    ("files_behind", "Files that cannot be written now.", "files_behind"),
    ("boxes", "Boxes that were found.", "boxes"),
    ("boxes_refused", "Boxes that are broken and not served.", "boxes_refused"),
    ("pending_requests", "Requests seen and not taken yet.", "pending"),
    ("dead_letters", "Requests in data/dead.", "dead_letters"),
    ("stuck_requests", "Requests that are done and cannot be removed.", "stuck"),
    ("cache_bytes", "Group files kept in memory.", "cache_bytes"),
    ("watcher_up", "1 while file events arrive; else the sweep finds every request.", "watcher.is_alive"),
    ("folders_without_events", "Folders that only the sweep looks into.", "watcher.folders_without_events"),
    ("resident_memory_bytes", "Memory of the host.", "resident_bytes"),
    ("cluster_epoch", "With which this machine owns the home; 0 while it follows.", "cluster.epoch"),
    ("cluster_log_position", "The last message of the shared log that is in the journal here.", "cluster.seq"),
    ("cluster_behind_messages", "Messages of the shared log that are not.", "cluster.behind"),
    ("cluster_renewed_seconds", "Since the owner renewed its lease.", "cluster.renewed_seconds"),
)


def publish(textfile: Path, status: Mapping[str, Any], counters: Counters) -> None:
    """Replace the text file by the status and the counters of a host. Raises OSError if it was not written."""
    replace(textfile, generate_latest(_Metrics(status, counters)), mode=0o644, is_durable=False)


class _Metrics(Collector):
    """The numbers of a host."""

    def __init__(self, status: Mapping[str, Any], counters: Counters) -> None:
        self._status, self._counters = status, counters

    def collect(self) -> Iterator[Metric]:
        if "requests" in self._status:
            requests = CounterMetricFamily("honeybadger_requests", "Requests answered.", labels=("type", "outcome"))
            for (type_, outcome), count in sorted(self._counters.requests.copy().items()):
                requests.add_metric(("unreadable" if type_ == "?" else type_, outcome), count)
            yield requests
            limited = CounterMetricFamily("honeybadger_limited_requests", "Requests over a share.", labels=("limit",))
            for limit in get_args(LimitName):
                limited.add_metric((limit,), self._status["limits"]["refused"].get(limit, 0))
            yield limited
            bounds = [*map(str, SECONDS_BOUNDS), "+Inf"]
            yield HistogramMetricFamily(
                "honeybadger_request_seconds",
                "Seconds from when a request was seen to its reply.",
                buckets=list(zip(bounds, accumulate(self._counters.seconds), strict=True)),
                sum_value=self._counters.seconds_sum,
            )
        for family, numbers in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES)):
            for name, meaning, where in numbers:
                if (value := _number(self._status, where)) is not None:
                    yield family(f"honeybadger_{name}", meaning, value=value)


def _number(status: Mapping[str, Any], where: str) -> Any:
    """Return a number of a status, or None if the status lacks it, for example without a cluster."""
    value: Any = status
    for name in where.split("."):
        if name not in value:
            return None
        value = value[name]
    return len(value) if isinstance(value, list) else value
