"""Findings of the doctor: faults in a host's status and full disks, as `status`, `doctor` and the page show them."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from honeybadger_agent.wording import count_of, in_words
from honeybadger_host.spool.dead_letters import dead_names

Level = Literal["ok", "warning", "problem"]
LATE_SECONDS = 5.0  # age at which a status is late: one is written every second
_CHECK = "running"
_MIN_FREE_BYTES = 64 << 20  # a person has to act; the host itself needs a few MiB
_MIN_FREE_FILES = 10_000  # each request and each reply is a file


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report.

    Args:
        check: name of the check.
        now_what: what to do; empty if there is nothing to do.
    """

    check: str
    level: Level
    message: str
    now_what: str = ""


def faults_in(status: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the faults in a status. A part that the status lacks has no faults."""
    age, stuck = time.time() - status.get("written_at", time.time()), status.get("stuck", 0)
    watcher = status.get("watcher", {})
    without = watcher.get("folders_without_events", 0)
    is_off = not watcher.get("is_alive", True) and status.get("sweeps")  # it begins before the first sweep
    states: tuple[tuple[object, Level, str, str], ...] = (
        (
            age > LATE_SECONDS,
            "problem",
            f"the host wrote its status {in_words(age)} ago: it hangs, is stopped, or cannot write",
            "see its log, and the disk with doctor",
        ),
        (
            stuck,
            "warning",
            f"{count_of(stuck, 'request is', 'requests are')} done and cannot be removed",
            "see inbox.unlink_failed in the log",
        ),
        (
            without,
            "warning",
            f"{count_of(without, 'folder has', 'folders have')} no file events: the sweep finds what comes there",
            "see watch.failed in the log",
        ),
        (is_off and not without, "warning", "the watcher is off: requests are found by the sweep only", ""),
    )
    yield from (Finding(_CHECK, level, message, now_what) for is_so, level, message, now_what in states if is_so)
    yield from _listed(status)


def _late_push(target: Mapping[str, Any]) -> str:
    """Return the message that could not be pushed to a target, and why."""
    failed = target["failed"]
    waits = f"message {failed['seq']} of {failed['group']} waits for {in_words(failed['for_seconds'])}"
    return f"{target['target']}: {waits}: {failed['why']}; again in {in_words(failed['again_in_seconds'])}"


def _listed(status: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the faults that are lists of lines in the status."""
    failed = status.get("curation", {}).get("failed", ())
    jobs = [f"{job['job']}: {job['why']}; again in {in_words(job['again_in_seconds'])}" for job in failed]
    pushes = [target for target in status.get("push", ()) if target["failed"] is not None]
    refused, tasks = status.get("agents", {}).get("refused", {}), status.get("tasks") or {}
    # a damaged task does not run and is among the tasks
    damaged = [file for file in status.get("damaged", ()) if "/tasks/" not in file]
    lists: tuple[tuple[Level, str, Any, str], ...] = (
        ("warning", "over a limit within 10 minutes", status.get("limits", {}).get("reached_lately", ()), ""),
        ("problem", "replies cannot be written now", status.get("unanswered", ()), "see pipeline.reply_failed"),
        (
            "warning",
            "cannot be read: its last good version, if any, is served",
            damaged,
            "mend it: a text must be UTF-8, and JSON an object",
        ),
        ("warning", "curation failed", jobs, ""),
        ("warning", "push", map(_late_push, pushes), ""),
        ("problem", "not served", status.get("boxes_refused", ()), "see inbox.refused in the log"),
        ("problem", "the journal is damaged", status.get("journal", {}).get("damaged", ()), "see doctor"),
        ("problem", "cannot be written now", status.get("files_behind", ()), "see projection.failed in the log"),
        ("warning", "agent file is not used", [f"{file}: {why}" for file, why in refused.items()], "mend it"),
        ("warning", "task does not run", tasks.get("refused", ()), "mend that; until then it does not run"),
        ("warning", "task waits", tasks.get("waiting", ()), "it is tried again within minutes"),
    )
    for level, what, found, now_what in lists:
        for each in found:
            yield Finding(_CHECK, level, f"{what}: {each}", now_what)


def disk(home: Path) -> Iterator[Finding]:
    """Check the space of each file system that a home is on."""
    folders = (home / "groups", home / "data/dead", home / "data/ipc", home / "data", home)
    topmost = {folder.stat().st_dev: folder for folder in folders if folder.is_dir()}  # of each file system
    for folder in topmost.values():
        space = os.statvfs(folder)
        free, files = space.f_bavail * space.f_frsize, space.f_favail
        what = f"{free >> 20} MiB and {files} inodes free for {folder}"
        if free < _MIN_FREE_BYTES or (space.f_files and files < _MIN_FREE_FILES):  # some file systems count no files
            yield Finding("disk", "problem", what, "free some space; every request and reply is a file")
        else:
            yield Finding("disk", "ok", what)


def dead_letters(home: Path) -> Iterator[Finding]:
    """Check for requests that could not be served."""
    if names := dead_names(home):
        yield Finding(
            "dead letters",
            "warning",
            f"{count_of(len(names), 'request')} could not be served",
            "honeybadger-host dead list",
        )
    else:
        yield Finding("dead letters", "ok", "none")
