"""The host's reports about itself: log lines, counters, the status file."""

import contextlib
import logging
import os
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Hashable, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO, cast

import orjson

from honeybadger_agent.wording import MAX_NAMED
from honeybadger_host.files.home import STATUS_FILE, is_served, read_holder
from honeybadger_host.files.safe_files import replace
from honeybadger_host.log import structlog
from honeybadger_host.text.json_values import dumped, object_in
from honeybadger_host.text.redaction import redact_line

# Seconds between two log lines about the same problem; also the longest pause before a failed reply is tried again.
LOG_PAUSE_SECONDS = 60.0
_MAX_THROTTLED = 10_000  # problems that are remembered: anybody may make inboxes
SECONDS_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def configure_logging(format_: Literal["auto", "json", "console"], level: str) -> None:
    """Print events on standard error: as JSON lines, or in colours on a terminal."""
    global _is_json, _is_info, _outlet
    is_console = format_ == "console" or (format_ == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        _keep_recent,
    ]
    _is_json, _is_info, _outlet = not is_console, level in ("debug", "info"), Outlet()
    if is_console:
        processors = [*shared, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        factory: Any = structlog.WriteLoggerFactory(cast(TextIO, _outlet))
    else:
        processors = [
            *shared,
            structlog.processors.format_exc_info,
            _redact_exception,
            structlog.processors.JSONRenderer(serializer=lambda event, **_: dumped(event)),
        ]
        factory = structlog.BytesLoggerFactory(cast(BinaryIO, _outlet))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )


def warn_on_stderr() -> None:
    """Print warnings on standard error, for a command that does some of a host's work."""
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.dev.ConsoleRenderer(colors=False)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


class RequestLog:
    """The canonical line of each request, written for a batch at once.

    The same lines as `log.info("request.answered", …)`, at 2 us instead of 20: there is one for every request.
    """

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()

    def add(self, **fields: Any) -> None:
        if not _is_info:
            return
        if not _is_json:
            structlog.get_logger().info("request.answered", **fields)
            return
        fields["level"] = "info"
        fields["timestamp"] = datetime.now(UTC)
        fields["event"] = "request.answered"
        self._lines.append(orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z))

    def flush(self) -> None:
        lines: list[bytes] = []
        with contextlib.suppress(IndexError):  # a query's thread may add meanwhile
            while True:
                lines.append(self._lines.popleft())
        if lines and _outlet is not None:
            _outlet.write(b"".join(lines))


class Throttle:
    """Limits repeated log lines: the first one passes, then one in a minute, with the number of those left out.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[Hashable, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def passes(self, *key: Hashable) -> int | None:
        """Return how many lines of this kind were left out since the last one; None: leave out this one, too."""
        with self._lock:
            now = self._clock()
            said_at, left_out = self._said.get(key, (now - LOG_PAUSE_SECONDS, 0))
            if now - said_at < LOG_PAUSE_SECONDS:
                self._said[key] = (said_at, left_out + 1)
                return None
            if len(self._said) >= _MAX_THROTTLED:
                self._said.clear()
            self._said[key] = (now, 0)
            return left_out


class Outlet:
    """Standard error, unbuffered, one whole line after another from any thread.

    Lines that cannot be written are lost: a full disk, or a reader that ended, must not stop the pipeline.
    """

    def __init__(self) -> None:
        buffer: Any = sys.stderr.buffer
        self._file = getattr(buffer, "raw", buffer)
        self._lock = threading.Lock()

    def write(self, data: bytes | str) -> None:
        if isinstance(data, str):
            data = data.encode("utf-8", "backslashreplace")
        with self._lock, contextlib.suppress(OSError):
            while data:
                written = self._file.write(data)
                if not written:  # a pipe that does not wait is full
                    return
                data = data[written:]

    def flush(self) -> None:
        """Do nothing: no line is buffered."""


_outlet: Outlet | None = None
_is_json = False
_is_info = True


# The last events that were logged, requests and debug left out, oldest first: for the page.
recent_events: deque[dict[str, str]] = deque(maxlen=MAX_NAMED)


def _keep_recent(_logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if method != "debug" and event.get("event") != "request.answered":
        kept = {name: str(value)[:200] for name, value in event.items() if name not in ("event", "exc_info")}
        recent_events.append({"event": str(event.get("event")), **kept})
    return event


def _redact_exception(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Remove credentials from a traceback: an exception may quote its input."""
    if "exception" in event:
        event["exception"] = redact_line(str(event["exception"]))
    return event


@dataclass(slots=True)
class Counters:
    """Counters since the start. Written by the pipeline's threads; reading needs no lock.

    Attributes:
        requests: (type, outcome) -> how many.
        vanished: files that their sender removed before they were read.
        swept_at: when the pipeline last ended a look for requests, seconds since the epoch.
        seconds: number of answers that took up to each of `SECONDS_BOUNDS`, and more than the one before; last: longer.
    """

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    commits: int = 0
    vanished: int = 0
    swept_at: float | None = None
    started_at: float = field(default_factory=time.time)
    seconds: list[int] = field(default_factory=lambda: [0] * (len(SECONDS_BOUNDS) + 1))
    seconds_sum: float = 0.0
    last_error: str | None = None
    last_error_at: float | None = None
    _milliseconds: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, type_: str, outcome: str, seconds: float | None) -> None:
        """Count an answer; `seconds` is None if it waited for a model, since that says nothing about the host."""
        with self._lock:
            self.requests[type_, outcome] += 1
            if seconds is None:
                return
            self.seconds[bisect_left(SECONDS_BOUNDS, seconds)] += 1
            self.seconds_sum += seconds
        self._milliseconds.append(seconds * 1000)

    def note_error(self, message: str) -> None:
        self.last_error = message[:500]
        self.last_error_at = time.time()

    def latency(self) -> dict[str, float]:
        """Return the median and the 99th percentile of the last 1000 answers, in milliseconds."""
        with self._lock:
            sample = sorted(self._milliseconds)
        if not sample:
            return {}
        return {"p50_ms": round(sample[len(sample) // 2], 2), "p99_ms": round(sample[int(len(sample) * 0.99)], 2)}


def write_status(home: Path, status: dict[str, Any]) -> None:
    """Replace the status file; it is a snapshot for `honeybadger-host status`, not durable. Raises OSError."""
    replace(home / STATUS_FILE, dumped(status, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), is_durable=False)


def read_status(home: Path) -> dict[str, Any]:
    """Return the status of the running host; empty: none runs, or it has not written one yet."""
    with contextlib.suppress(OSError):
        status = object_in((home / STATUS_FILE).read_bytes()) or {}
        if is_served(home) and status.get("pid") == read_holder(home).pid:
            return status
    return {}


def resident_bytes() -> int | None:
    """Return the resident memory of this process, None where /proc does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
