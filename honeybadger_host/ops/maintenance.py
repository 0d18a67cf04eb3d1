"""The host's regular work in the background: it indexes files, makes them durable and removes expired ones."""

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from honeybadger_host.documents.in_use import Found
from honeybadger_host.errors import JournalError, StorageFailed, WorldFailed
from honeybadger_host.handlers.entries.superseding import supersede_named
from honeybadger_host.journal.edits import FILES_AT_ONCE
from honeybadger_host.journal.opening import damaged_rows, stretches
from honeybadger_host.log import log
from honeybadger_host.memory.working_memory import is_over
from honeybadger_host.ops.clock import WallClock, measured, rest_after
from honeybadger_host.ops.host import Host
from honeybadger_host.search.index import INDEX_FILE

CHECKPOINT_SECONDS = 1.0  # between two looks for written files to make durable
EDITS_SECONDS = 1.0  # between two looks for people's edits, for files to index, and for texts to embed
# Between two removals of expired things (replies, receipts, records of the shared log), two comparisons of all files
# with the index, and two returns of freed memory.
HOUSEKEEPING_SECONDS = 60.0
_CHECK_ROWS_SECONDS = 86_400.0  # between two checks of all rows of the journal
# Between two looks for edits of any entry, two removals of old contexts, and two records of the time in service.
_RARE_SECONDS = 600.0
_DONE = object()


def keep_house(host: Host, tasks: TaskGroup) -> None:
    """Start the loops. Each runs until it is cancelled."""
    tasks.start_soon(_checkpoint, host)
    tasks.start_soon(_index, host)
    tasks.start_soon(_record_edits, host)
    if host.settings.recall.vectors != "off":
        tasks.start_soon(_embed, host)
    tasks.start_soon(_remove_expired, host)
    tasks.start_soon(_check_rows, host)


@contextlib.contextmanager
def logged(host: Host, event: str, **members: Any) -> Iterator[None]:
    """Log an error of the block instead of raising it; the same event at most once a minute."""
    try:
        yield
        return
    except (WorldFailed, StorageFailed, JournalError, OSError) as error:
        why = str(error)
        members |= {"error": why, "now_what": "it is tried again"}
    except Exception as error:  # noqa: BLE001  a bug of ours must not stop the host
        why = type(error).__name__
        members |= {"now_what": "report it; the rest goes on", "exc_info": error}
    _note(host, event, why, **members)


def _note(host: Host, event: str, why: str, **members: Any) -> None:
    host.counters.note_error(f"{event}: {why}")
    if (left_out := host.throttle.passes(event)) is not None:
        log.error(event, left_out=left_out, **members)


async def _index(host: Host) -> None:
    """Index files that the search does not know yet, and look for changes without an event."""
    index, compare_at = host.memory.index, 0.0
    while True:
        begun = time.monotonic()
        # decided now, not after the comparison: at a start the folders are watched only later
        is_all = begun >= compare_at
        if not is_all and index.is_idle:  # no thread is needed
            await anyio.sleep(EDITS_SECONDS)
            continue
        with logged(host, "index.failed", file=INDEX_FILE):
            # new folders are indexed here, so that no search waits for them
            cost = await _swept(host, index.compare_all() if is_all else index.compare_told())
            if is_all:
                compare_at = begun + max(HOUSEKEEPING_SECONDS, rest_after(cost, has_events=host.has_events))
            count = index.waiting
            # new turns get their vectors soon; without vectors the next search or comparison reads them early enough
            is_bulk = not is_all and host.settings.recall.vectors == "off"
            await _swept(host, index.work(is_bulk=is_bulk))
            if count:
                log.info("index.finished", files=count)
                await anyio.to_thread.run_sync(index.load_ahead)
                await anyio.to_thread.run_sync(index.trim)
        await anyio.sleep(EDITS_SECONDS)


async def _record_edits(host: Host) -> None:
    """Find people's edits of their files and record them as versions."""
    in_use, files = host.projections.in_use, host.changed_files
    all_at = changed_at = 0.0
    while True:
        with logged(host, "edits.failed"):
            now = time.monotonic()
            if now >= changed_at:
                sweep = files.sweep() if now >= all_at else files.sweep_changed()
                all_at = now + _RARE_SECONDS if now >= all_at else all_at
                cost = await _swept(host, sweep)
                changed_at = time.monotonic() + rest_after(cost, has_events=host.has_events)
            async with host.forgetter.recording:
                are_marks_due = host.forgetter.is_interrupted or await _take_in_saves(host)
                if are_marks_due:
                    await host.pipeline.writer.run(lambda: in_use.keep_marks(host.projections.written_seq))
        await anyio.sleep(EDITS_SECONDS)


async def _swept(host: Host, sweep: Iterator[None]) -> float:
    """Take the steps of a sweep on a thread, while nobody searches; return their seconds of processor time."""
    cost = 0.0

    def step() -> tuple[object, float]:
        host.memory.index.give_way()
        return measured(partial(next, sweep, _DONE))

    while True:
        found, took = await anyio.to_thread.run_sync(step)
        cost += took
        if found is _DONE:
            return cost
        await anyio.lowlevel.checkpoint()


async def _take_in_saves(host: Host) -> bool:
    """Merge people's saves of documents into the newest versions; return whether marks must be kept."""
    saves, in_use = host.projections.saves, host.projections.in_use

    def look() -> tuple[list[Found], bool]:
        return saves.look(), in_use.are_marks_due(host.projections.written_seq)

    found, are_marks_due = await anyio.to_thread.run_sync(look)
    await supersede_named(host.memory, host.pipeline.change, found)
    if found or saves.overtaken:
        edits = await host.pipeline.commit_edits(partial(host.projections.take_in, found))
        for saved in found:
            host.scheduler.touch_file(saved.file)  # also where no event tells of it
        for edit in edits:
            host.memory.files.kept.drop(edit.file)
        if edits:
            log.info("edits.recorded", files=len(edits), seq=edits[0].seq)
        are_marks_due = True
    return are_marks_due


async def _embed(host: Host) -> None:
    """Compute the vectors of indexed texts, a few at a time."""
    while True:
        with logged(host, "index.failed", file=INDEX_FILE):
            while await anyio.to_thread.run_sync(host.memory.index.embed):
                await anyio.lowlevel.checkpoint()
        await anyio.sleep(EDITS_SECONDS)


async def _check_rows(host: Host) -> None:
    """Check once a day whether rows of the journal are damaged, with at most 5 % of a core."""
    journal = host.journal
    while True:
        with logged(host, "journal.unreadable"):
            damaged = list[str]()
            for numbers in await anyio.to_thread.run_sync(stretches, journal.path):
                check = partial(damaged_rows, journal.path, numbers)
                rows, cost = await anyio.to_thread.run_sync(measured, check)
                damaged += rows
                await anyio.sleep(rest_after(cost, has_events=False))
            if damaged != journal.damaged:
                await host.pipeline.writer.run(journal.keep_damaged, damaged)
        await anyio.sleep(_CHECK_ROWS_SECONDS)


async def _checkpoint(host: Host) -> None:
    """Make written files durable, and mark their changes in the journal as written."""
    journal, projections = host.journal, host.projections
    seen = -1
    full_since = 0.0  # 0: the disk was not full at the last round
    while True:
        await anyio.sleep(CHECKPOINT_SECONDS)
        journal.check_files()
        if seen == journal.committed_seq == journal.projected_seq:
            continue
        try:
            # `look` and `mark_projected` take the writer's place for a moment; no request waits for the fsync between
            (paths, unsettled), last = await host.pipeline.writer.run(
                lambda: (projections.look(), journal.committed_seq)
            )
            if paths:
                await anyio.to_thread.run_sync(projections.sync, paths)
            await host.pipeline.writer.run(journal.mark_projected, last, unsettled)
            if await anyio.to_thread.run_sync(journal.checkpoint):
                await host.pipeline.writer.run(journal.begin_wal)
            seen = last
            if full_since:
                log.info("journal.recovered", seconds=round(time.monotonic() - full_since, 1))
                full_since = 0.0
        except WorldFailed as error:  # such as a full disk: the next round tries again. A failed fsync ends the host.
            _note(host, "journal.waiting", str(error), error=str(error))
            full_since = full_since or time.monotonic()


async def _remove_expired(host: Host) -> None:
    wall = WallClock()
    then = rare_at = time.monotonic()
    cost = 0.0
    while True:
        await anyio.sleep(max(HOUSEKEEPING_SECONDS, rest_after(cost)))
        if jump := wall.look():
            log.warning("clock.jumped", seconds=round(jump), now_what="nothing is removed for its age for a while")
        await anyio.to_thread.run_sync(host.memory.index.trim)  # 11 ms with 100 MiB
        expired, cost = await anyio.to_thread.run_sync(
            measured, partial(host.replies.expire, wall.was_watched_for, wall.seen)
        )
        now = time.monotonic()
        over = host.ages.pass_time(now - then, host.journal.committed_seq)
        then = now
        swept = await _sweep_working_memory(host, wall)
        is_rare = now - rare_at >= _RARE_SECONDS
        if is_rare:
            rare_at = now
            if wall.was_watched_for(_RARE_SECONDS):
                await anyio.to_thread.run_sync(host.memory.ledger.prune)
        pruned = 0
        try:
            while over and (count := await host.pipeline.writer.run(host.journal.prune_receipts, over)):
                pruned += count
            if is_rare and host.ages.moments:
                await host.pipeline.writer.run(host.journal.keep_ages, host.ages.dump())
        except WorldFailed as error:
            _note(host, "journal.waiting", str(error), error=str(error))
        if expired or pruned or swept:
            log.info("house.kept", replies_expired=expired, receipts_pruned=pruned, working_expired=swept)


async def _sweep_working_memory(host: Host, wall: WallClock) -> int:
    """Remove expired entries of working memory, a few at a time; return their number."""
    over = partial(is_over, now=datetime.fromtimestamp(wall.seen, UTC), was_watched_for=wall.was_watched_for)
    projections, journal, swept = host.projections, host.journal, 0
    files = await anyio.to_thread.run_sync(host.memory.working_memory.over, over)
    for start in range(0, len(files), FILES_AT_ONCE):
        swept += await host.pipeline.writer.run(projections.expire, files[start : start + FILES_AT_ONCE], over)
    seqs = await anyio.to_thread.run_sync(journal.expired, over)
    for start in range(0, len(seqs), FILES_AT_ONCE):
        await host.pipeline.writer.run(journal.expire, seqs[start : start + FILES_AT_ONCE])
    return swept
