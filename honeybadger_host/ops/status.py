"""The host's status file and its metrics."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from honeybadger_agent.wording import MAX_NAMED, count_of
from honeybadger_host import __version__
from honeybadger_host.curation.asking import budgets_used
from honeybadger_host.curation.proposal import RULES
from honeybadger_host.curation.proposal_files import waiting
from honeybadger_host.documents.versions import removed_unread
from honeybadger_host.journal.edits import unread_of
from honeybadger_host.observe import Counters, recent_events, resident_bytes, write_status
from honeybadger_host.ops.clock import measured, rest_after
from honeybadger_host.ops.host import Host
from honeybadger_host.ops.maintenance import logged
from honeybadger_host.settings import Settings
from honeybadger_host.spool.dead_letters import dead_names
from honeybadger_host.spool.watcher import Watcher

STATUS_SECONDS = 1.0  # between two writes of the status file: `status` is at most two seconds old
_REACHED_SECONDS = 600.0  # how long the status names a sender that was over a limit


async def report(host: Host, watcher: Watcher, cluster: Callable[[], dict[str, Any]] | None) -> None:
    """Write the status file every second, until cancelled.

    Args:
        cluster: returns the status of this machine in its cluster; None: there is no cluster.
    """
    looked, look_at = dict[str, Any](), 0.0
    while True:
        status = _status(host, watcher)
        if cluster is not None:
            status["cluster"] = cluster()
        if time.monotonic() >= look_at:
            cost = 0.0
            with logged(host, "status.failed"):
                looked, cost = await anyio.to_thread.run_sync(measured, partial(_look, host))
            look_at = time.monotonic() + rest_after(cost)
        status |= looked
        with logged(host, "status.failed"):
            await anyio.to_thread.run_sync(write_status, host.home, status)
        if host.settings.metrics.textfile:
            with logged(host, "metrics.failed"):
                await anyio.to_thread.run_sync(write_metrics, host.home, host.settings, status, host.counters)
        await anyio.sleep(STATUS_SECONDS)


def write_metrics(home: Path, settings: Settings, status: Mapping[str, Any], counters: Counters) -> None:
    """Replace the metrics' file, if there is one. Raises OSError."""
    if settings.metrics.textfile:
        from honeybadger_host.ops.metrics import publish  # needs an extra

        publish(home / settings.metrics.textfile, status, counters)


def _status(host: Host, watcher: Watcher) -> dict[str, Any]:
    """Return the host's status, without anybody's texts."""
    counters = host.counters
    now = time.monotonic()
    outcomes: dict[str, int] = {}
    for (_, outcome), count in counters.requests.copy().items():
        outcomes[outcome] = outcomes.get(outcome, 0) + count
    return {
        "version": __version__,
        "pid": os.getpid(),
        "started_at": counters.started_at,
        "uptime_seconds": round(now - host.started, 1),
        "written_at": time.time(),
        "mode": "closed" if host.settings.ipc.closed else "open",
        "settings": host.settings.model_dump(mode="json"),
        "boxes": len(host.spool.inboxes) // 2,  # each sender has two
        "pending": host.spool.pending,
        "turns": {
            "running": len(host.pipeline.turn_queue.under_way),
            "under_way": [
                {"group": asked.group, "sender": asked.sender, "session": asked.session, "turn": asked.request_id}
                for asked in host.pipeline.turn_queue.under_way.values()
            ],
            "waiting": host.spool.waiting_turns,
        },
        "agents": {"known": sorted(host.memory.agents.current), "refused": dict(host.memory.agents.problems)},
        "requests": {
            "total": sum(outcomes.values()),
            "by_outcome": outcomes,
            "vanished": counters.vanished,
        },
        "latency": counters.latency(),
        "journal": {
            "seq": host.journal.committed_seq,
            "projected_seq": host.journal.projected_seq,
            "commits": counters.commits,
            "damaged": list(host.journal.damaged[:MAX_NAMED]),
        },
        "curation": _curation(host, now),
        "tasks": host.scheduler.status,
        "push": host.pusher.status,
        "limits": _limits(host, now),
        "files_behind": host.projections.behind,
        "compactions": host.memory.sessions.compactions,
        "cache_bytes": host.memory.files.kept.size,
        "index": host.memory.index.status(),
        "sweeps": host.spool.sweeps,
        "swept_at": counters.swept_at,
        "watcher": {
            "is_alive": watcher.is_alive(),
            "rebuilds": watcher.rebuilds,
            "folders_without_events": watcher.unwatched,
        },
        "last_error": counters.last_error,
        "last_error_at": counters.last_error_at,
        "resident_bytes": resident_bytes(),
        "log": list(recent_events),
    }


def _curation(host: Host, now: float) -> dict[str, Any]:
    """Return the jobs of curation that run, wait or failed, and their cost."""
    curator, jobs, asker = host.curator, host.curator.jobs, host.curator.uses.asker
    spent = sorted(asker.spent_today, key=lambda row: -row.tokens)
    failed = sorted(jobs.failed.items(), key=lambda item: item[1].again_at)
    model = host.settings.model
    budgets = budgets_used(host.settings.curation, spent)
    return {
        "by": RULES if asker.open_model is None else model.curation or model.name,
        "running": sorted(map(str, jobs.running)),
        "waiting": list(map(str, jobs.asked)),
        "failed": [
            {"job": str(job), "why": why, "times": times, "again_in_seconds": max(0, round(again_at - now))}
            for job, (why, times, again_at) in failed[:MAX_NAMED]
        ],
        "consolidations": curator.consolidations.done,
        "tokens_today": sum(row.tokens for row in spent),
        "spent_today": [{"group": row.group, "kind": row.kind, "tokens": row.tokens} for row in spent][:MAX_NAMED],
        "budgets": [] if asker.open_model is None else [budget._asdict() for budget in budgets],
    }


def _look(host: Host) -> dict[str, Any]:
    """Return the members of the status that take a look at every group. Raises JournalError, WorldFailed."""
    boxes = [*host.spool.inboxes.values()]
    unanswered = [box for box in boxes if box.reply_fault and box.waiting][:MAX_NAMED]
    groups = [group for group, names in host.group_folders.current.items() if "proposals" in names]
    review = {group: len(waiting(host.home, group)) for group in groups}
    return {
        "boxes_refused": [f"{box.group}/{box.sender}: {box.complaint}" for box in boxes if box.complaint],
        "unanswered": [
            f"{box.group}/{box.sender}: {box.reply_fault}; "
            + count_of(len(box.waiting), "request waits", "requests wait")
            for box in unanswered
        ],
        "stuck": sum(len(box.stuck) for box in boxes),
        "review": {group: count for group, count in review.items() if count},
        "dead_letters": len(dead_names(host.home)),
        "damaged": host.projections.saves.damaged()[:MAX_NAMED],
        "removed_unread": [
            {"seq": edit.seq, "at": edit.at, "group": edit.group, "file": edit.file, "what": unread_of(edit)}
            for edit in removed_unread(host.home, host.journal.path, time.time())[:MAX_NAMED]
        ],
    }


def _limits(host: Host, now: float) -> dict[str, Any]:
    """Return how often each limit was reached, and by whom in the last ten minutes."""
    limiter = host.pipeline.limiter
    reached = sorted(
        ((at, who) for who, at in limiter.reached_at.copy().items() if now - at <= _REACHED_SECONDS), reverse=True
    )
    return {
        "refused": dict(limiter.hits),
        "replies_trimmed": host.replies.trimmed,
        "reached_lately": [who for _, who in reached[:MAX_NAMED]],
    }
