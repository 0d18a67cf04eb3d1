"""The host's regular work beside the pipeline: it indexes files, makes them durable and removes expired ones."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from honeybadger_host.errors import JournalError, StorageFailed, WorldFailed
from honeybadger_host.ops.clock import WallClock
from honeybadger_host.ops.host import Host
from honeybadger_host.search.index import INDEX_FILE
from honeybadger_host.storage.edits import Edit
from honeybadger_host.storage.journal_position import damaged_rows, stretches

log = structlog.get_logger()

CHECKPOINT_SECONDS = 1.0
# Between two comparisons of all searched files with the index; more where one takes long, see `_COMPARE_PAUSE`.
COMPARE_SECONDS = 60.0
EDITS_SECONDS = 1.0
EMBED_SECONDS = 1.0
INDEX_SECONDS = 1.0
HOUSEKEEPING_SECONDS = 60.0
_TRIM_EVERY_SECONDS: Final = 1.0
CHECK_ROWS_SECONDS = 86_400.0  # between two checks of all rows of the journal
_CHECK_PAUSE: Final = 100  # the pause after a part of such a check, as a multiple of its duration
# The pause after a comparison, as a multiple of its duration: a million files take 10 s of a core.
_COMPARE_PAUSE: Final = 20
_SWEEP_CHANGED_SECONDS: Final = 10.0
# People's edits that no event told of: in Markdown files and folders of entries; and within any entry.
_SWEEP_SECONDS: Final = 600.0
# Seconds of service that a kill may leave uncounted: files that are kept for days are kept that much longer.
_KEEP_AGES_SECONDS: Final = 600.0
_PRUNE_SECONDS: Final = 3600.0  # between two removals of served contexts that were kept long enough
_SWEPT_AT_ONCE: Final = 64  # changes: about 1 ms, for which the pipeline waits


_DONE: Final = object()


def keep_house(host: Host, tasks: TaskGroup) -> None:
    """Start the loops; each runs until the tasks are cancelled."""
    tasks.start_soon(_checkpoint, host)
    tasks.start_soon(_index, host)
    tasks.start_soon(_record_edits, host)
    if host.settings.recall.vectors != "off":
        tasks.start_soon(_embed, host)
    tasks.start_soon(_remove_expired, host)
    tasks.start_soon(_trim, host)
    tasks.start_soon(_check_rows, host)


class _Failing:
    """Says that something which is done again and again fails, once while that lasts."""

    def __init__(self, host: Host, event: str, **members: str) -> None:
        self._host, self._event, self._members = host, event, members
        self._is_known = False

    @contextlib.contextmanager
    def said(self) -> Iterator[None]:
        try:
            yield
            self._is_known = False
        except (WorldFailed, StorageFailed, JournalError) as error:
            self._say(str(error), error=str(error), now_what="it is tried again")
        except Exception as error:  # noqa: BLE001  a bug of ours must not stop the host
            self._say(f"{self._event}: {type(error).__name__}", now_what="report it; the rest goes on", exc_info=error)

    def _say(self, message: str, **members: Any) -> None:
        self._host.counters.note_error(message)
        if not self._is_known:
            self._is_known = True
            log.error(self._event, **self._members, **members)


async def _index(host: Host) -> None:
    """Read in the background what the search does not know yet; look for changes nobody told of."""
    limiter = anyio.CapacityLimiter(1)
    failing, is_warm = _Failing(host, "index.failed", file=INDEX_FILE), False
    all_at = told_at = 0.0
    while True:
        begun = time.monotonic()
        is_all, is_told = begun >= all_at, begun >= told_at
        if is_warm and not is_all and host.memory.index.is_idle:  # else two threads a second are woken for nothing
            await anyio.sleep(INDEX_SECONDS)
            continue
        with failing.said():
            count = 0
            if is_all:
                count = await anyio.to_thread.run_sync(host.memory.index.compare_all, limiter=limiter)
                ended = time.monotonic()
                all_at = max(begun + COMPARE_SECONDS, ended + _COMPARE_PAUSE * (ended - begun))
            elif is_told:  # a folder came, or is watched only now: no search is to wait for that
                count = await anyio.to_thread.run_sync(host.memory.index.compare_told, limiter=limiter)
                told_at = time.monotonic() + _COMPARE_PAUSE * (time.monotonic() - begun)
            if count:
                log.info("index.begun", files=count)
            # what is said is embedded soon after; without vectors the next search, or comparison, reads it early enough
            is_bulk = not is_all and host.settings.recall.vectors == "off"
            while await anyio.to_thread.run_sync(partial(host.memory.index.work, is_bulk=is_bulk), limiter=limiter):
                await anyio.lowlevel.checkpoint()
            if count:
                log.info("index.finished", files=count)
            while not is_warm:  # once: what leaves memory later makes room for what is searched
                is_warm = not await anyio.to_thread.run_sync(host.memory.index.warm, limiter=limiter)
        await anyio.sleep(INDEX_SECONDS)


async def _record_edits(host: Host) -> None:
    """Find what people changed in their files, and make it versions; keep how the files are."""
    limiter = anyio.CapacityLimiter(1)
    in_use, files = host.projections.documents.in_use, host.changed_files
    all_at = changed_at = 0.0
    failing = _Failing(host, "edits.failed")
    while True:
        with failing.said():
            if (now := time.monotonic()) >= changed_at:
                sweep = files.sweep() if now >= all_at else files.sweep_changed()
                while await anyio.to_thread.run_sync(next, sweep, _DONE, limiter=limiter) is not _DONE:
                    await anyio.lowlevel.checkpoint()
                all_at = now + _SWEEP_SECONDS if now >= all_at else all_at
                took = time.monotonic() - now
                changed_at = now + took + max(_SWEEP_CHANGED_SECONDS, _COMPARE_PAUSE * took)
            async with host.forgetter.recording:
                if not host.forgetter.is_interrupted:
                    await _take_in_saves(host, limiter)
                await host.in_writers_place(lambda: in_use.keep_marks(host.projections.written_seq))
        await anyio.sleep(EDITS_SECONDS)


async def _take_in_saves(host: Host, limiter: anyio.CapacityLimiter) -> None:
    """Merge what people saved of documents into their newest versions."""
    saves = host.projections.documents.saves
    found = await anyio.to_thread.run_sync(saves.look, limiter=limiter)
    await host.edited_entries.follow(found)
    if most := 2 * len(found) + saves.overtaken:
        _tell_edits(host, await host.pipeline.commit_edits(partial(host.projections.take_in, found), most))


def _tell_edits(host: Host, edits: Sequence[Edit]) -> None:
    for edit in edits:
        host.memory.files.drop_edited(edit.file)
    if edits:
        log.info("edits.recorded", files=len(edits), seq=edits[0].seq)


async def _embed(host: Host) -> None:
    """Give what was indexed its vectors, a few at a time."""
    limiter = anyio.CapacityLimiter(1)
    failing = _Failing(host, "index.failed", file=INDEX_FILE)
    while True:
        with failing.said():
            begun, count = time.monotonic(), host.memory.index.unembedded
            while await anyio.to_thread.run_sync(host.memory.index.embed, limiter=limiter):
                await anyio.lowlevel.checkpoint()
            if count and not host.memory.index.unembedded:
                log.info("vectors.finished", documents=count, seconds=round(time.monotonic() - begun, 1))
        await anyio.sleep(EMBED_SECONDS)


async def _check_rows(host: Host) -> None:
    """Look once a day whether a row of the journal is not as it was written, with one percent of a core."""
    journal, failing = host.journal, _Failing(host, "journal.unreadable")
    while True:
        with failing.said():
            damaged = list[str]()
            for numbers in await anyio.to_thread.run_sync(stretches, journal.path):
                begun = time.monotonic()
                damaged += await anyio.to_thread.run_sync(damaged_rows, journal.path, numbers)
                await anyio.sleep(_CHECK_PAUSE * (time.monotonic() - begun))
            if damaged != journal.damaged:
                await host.in_writers_place(journal.keep_damaged, damaged)
        await anyio.sleep(CHECK_ROWS_SECONDS)


async def _checkpoint(host: Host) -> None:
    """Make projected files durable and let the journal forget that they were not."""
    journal, projections = host.journal, host.projections
    seen = -1
    is_waiting = False
    while True:
        await anyio.sleep(CHECKPOINT_SECONDS)
        if seen == journal.committed_seq == journal.projected_seq:
            continue
        seen = journal.committed_seq
        try:
            # `look` and `mark_projected` share the writer's place, which they take for a moment only; the fsync
            # between them and the checkpoint behind them keep nobody waiting
            (paths, unsettled), last = await host.in_writers_place(lambda: (projections.look(), journal.committed_seq))
            if paths:
                await anyio.to_thread.run_sync(projections.sync, paths)
            await host.in_writers_place(journal.mark_projected, last, unsettled)
            if await anyio.to_thread.run_sync(journal.checkpoint):
                await host.in_writers_place(journal.begin_wal)
            is_waiting = False
        except WorldFailed as error:  # a full disk: the next round tries again, and recovery would, too
            host.counters.note_error(str(error))
            if not is_waiting:
                is_waiting = True
                log.error("journal.waiting", error=str(error))


async def _trim(host: Host) -> None:
    """Remove replies of senders who let too many lie."""
    while True:
        await anyio.sleep(_TRIM_EVERY_SECONDS)
        if host.replies.is_too_full():
            await anyio.to_thread.run_sync(host.replies.trim)


async def _remove_expired(host: Host) -> None:
    wall = WallClock()
    then = kept_at = pruned_at = time.monotonic()
    kept = list(host.ages.moments)
    while True:
        await anyio.sleep(HOUSEKEEPING_SECONDS)
        host.memory.turn_logs.evict()
        if jump := wall.look():
            log.warning("clock.jumped", seconds=round(jump), now_what="nothing is removed for its age for a while")
        expired = await anyio.to_thread.run_sync(host.replies.expire, wall.was_watched_for, wall.seen)
        await anyio.to_thread.run_sync(host.spool.retry_stuck)
        now = time.monotonic()
        over = host.ages.pass_time(now - then, host.journal.committed_seq)
        then = now
        swept = await _sweep_working_memory(host, wall)
        if now - pruned_at >= _PRUNE_SECONDS and wall.was_watched_for(_PRUNE_SECONDS):
            await anyio.to_thread.run_sync(host.memory.ledger.prune)
            pruned_at = now
        pruned = 0
        try:
            while over and (count := await host.in_writers_place(host.journal.prune_receipts, over)):
                pruned += count
            if host.ages.moments != kept or (kept and now - kept_at >= _KEEP_AGES_SECONDS):
                await host.in_writers_place(host.journal.keep_ages, host.ages.dump())
                kept, kept_at = list(host.ages.moments), now
        except WorldFailed as error:
            log.error("journal.waiting", error=str(error))
        if expired or pruned or swept:
            log.info("house.kept", replies_expired=expired, receipts_pruned=pruned, working_expired=swept)


async def _sweep_working_memory(host: Host, wall: WallClock) -> int:
    """Remove expired entries of working memory; return how many. The pipeline waits for a few at a time only."""
    now = datetime.fromtimestamp(wall.seen, UTC)
    files = await anyio.to_thread.run_sync(host.memory.working_memory.expired, now, wall.was_watched_for)
    swept = 0
    for start in range(0, len(files), _SWEPT_AT_ONCE):
        some = files[start : start + _SWEPT_AT_ONCE]
        swept += await host.in_writers_place(_sweep_some, host, some, now, wall.was_watched_for)
    return swept


def _sweep_some(host: Host, files: list[str], now: datetime, was_watched_for: Callable[[float], bool]) -> int:
    memory = host.memory
    return memory.working_memory.sweep(files, memory.whole_files, host.projections.behind, now, was_watched_for)
