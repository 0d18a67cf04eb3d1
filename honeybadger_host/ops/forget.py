"""`forget`: remove texts from all places where the host keeps them, and prove it (docs/decisions/033-forget.md).

The plan is written to the journal first and removed last, with the receipt of the request. The next start, or the same
command, finishes what a kill interrupted: each step may be repeated.
"""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP, OPERATOR, new_id
from honeybadger_agent.wire import Forget, Wire
from honeybadger_host.documents.projections import Projections
from honeybadger_host.errors import JournalError, WorldFailed
from honeybadger_host.files.safe_files import remove_leftovers
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.forgetting import (
    Forgetting,
    Found,
    bury_forgetting,
    empty,
    end_forgetting,
    find,
    keep_forgetting,
    read_forgetting,
)
from honeybadger_host.log import log
from honeybadger_host.memory.peoples_files import files_of, tidied
from honeybadger_host.ops.forget_files import (
    files_with,
    forget_injected,
    remove_earlier_journals,
    remove_quotes,
    request_file,
)
from honeybadger_host.ops.forget_plan import check_is_there, plan_of
from honeybadger_host.ops.residue import Residue, backups_in, scan_apart
from honeybadger_host.spool.pipeline import BATCH_REQUESTS, Pipeline
from honeybadger_host.text.phrases import Phrases

ResultT = TypeVar("ResultT")

SETTLE_LOOK_SECONDS = 0.2  # pause before the next look for texts that could not be removed yet
# Time without progress after which erasing or removing emptied lines is given up: a file may be open elsewhere.
_MAX_ERASING_SECONDS = 60.0


@dataclass(slots=True)
class Forgotten:
    """The removed things, as reported to the requester."""

    changes: Counter[str] = field(default_factory=Counter)
    edits: set[int] = field(default_factory=set)
    replies: int = 0
    files: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)

    def add(self, found: Found) -> None:
        self.changes += found.kinds
        self.edits |= found.edits
        self.replies += len(found.receipts)

    def counted(self, phrases: Phrases) -> dict[str, Any]:
        """Return the members of the answer, without forgotten texts in names of files."""
        return {
            "changes": dict(sorted(self.changes.items())),
            "edits": len(self.edits),
            "replies": self.replies,
            "files": phrases.in_value(sorted(self.files)),
            "removed": phrases.in_value(sorted(self.removed)),
        }


class Forgetter:
    """Forgets one thing at a time. Event loop.

    Args:
        projections: records people's saves only while `recording` is held.
        changed: called with each file that was rewritten.
    """

    def __init__(
        self, memory: Dependencies, projections: Projections, pipeline: Pipeline, *, changed: Callable[[str], None]
    ) -> None:
        self._home = memory.entry_files.home
        self._journal = memory.journal
        self._memory = memory
        self._projections = projections
        self._pipeline = pipeline
        self._changed = changed
        self._lock = anyio.Lock()
        # held while people's edits are recorded: else a removal from a file would be recorded as an edit
        self.recording = anyio.Lock()
        # the last plan of this host, with the texts that are in the journal no longer
        self._planned: Forgetting | None = None
        begun = read_forgetting(self._journal.path)
        # whether files may lack texts that are still in the journal although no person removed them
        self.is_interrupted = begun is not None and not begun.is_erased

    async def finish(self) -> None:
        """Finish a plan that a stop of the host interrupted, as the first step of a start.

        A request that still waits does that itself: it has the texts to search for.
        """
        async with self._lock:
            try:
                plan = await self._read(read_forgetting, self._journal.path)
                if plan is not None and not await self._read(os.path.lexists, self._home / request_file(plan)):
                    log.info("forget.resumed", group=plan.group)
                    await self._end(plan, plan)
            except (WorldFailed, JournalError) as error:
                log.error("forget.failed", error=str(error), now_what="the same command, or the next start, goes on")

    async def forget(self, asked: Asked) -> dict[str, Any]:
        """Return a report of what was removed.

        Raises Refusal if there is no such thing; WorldFailed, JournalError: the same request continues it.
        """
        wanted: Forget = asked.payload
        async with self._lock:
            group = GLOBAL_GROUP if wanted.shared else asked.group
            plan = await self._read(plan_of, self._home, self._journal.path, group, wanted)
            plan = replace(
                plan,
                sender=asked.sender,
                request=asked.request_id,
                digest=asked.digest.hex(),
                asked_in=asked.group,
            )
            if wanted.dry_run:
                await self._read(check_is_there, self._home, plan, wanted)
                return await self._looked(plan)
            if (begun := await self._read(read_forgetting, self._journal.path)) is not None:
                result = await self._end(begun, plan)
                if self._with_texts(begun, begun).selector == plan.selector:  # it was refused before it was done
                    await self._pipeline.keep_answer(asked, result)
            if (kept := await self._read(self._kept, asked)) is not None:
                return kept
            await self._read(check_is_there, self._home, plan, wanted)
            await self._write(partial(keep_forgetting, plan=plan))
            self._planned = plan
            return await self._end(plan, plan)

    def _kept(self, asked: Asked) -> dict[str, Any] | None:
        """Return the result in the receipt of a request, or None if it is not done."""
        receipt = self._journal.receipts_of(asked.group, asked.sender, [asked.request_id]).get(asked.request_id)
        return None if receipt is None else dict(orjson.loads(receipt[1])["result"])

    # ---------------------------------------------------------------------------------------------------------- steps

    async def _looked(self, plan: Forgetting) -> dict[str, Any]:
        """Return a report of what would be removed."""
        done = Forgotten()
        done.add(await self._read(find, self._journal.path, plan))
        done.files.update(await self._read(self._files_with, plan))
        done.removed.update(await self._read(partial(remove_quotes, is_dry=True), self._home, plan))
        return {**await self._result(done.counted(Phrases(()))), "dry_run": True}

    async def _result(self, went: Mapping[str, Any], left: Sequence[Residue] = ()) -> dict[str, Any]:
        backups = await self._read(backups_in, self._home)
        return {**went, "left": [one._asdict() for one in left], "backups": backups, "dry_run": False}

    async def _end(self, plan: Forgetting, asked: Forgetting) -> dict[str, Any]:
        """Finish a plan, search for remains, and commit the receipt of its request.

        Args:
            asked: the plan of the request that is served now. It has the texts if `plan`, its own, no longer has them.
        """
        went = await self._forget(plan)
        if not plan.request:
            await self._write(end_forgetting)
            return await self._result(went)
        known = self._with_texts(plan, asked)
        texts = [*known.asked, *known.parts]
        left = await scan_apart(self._home, texts, {request_file(plan), request_file(asked)}) if texts else []
        if plan.is_erased and not texts:
            left = [Residue(".", "not looked through: a host that ended knew what to look for, this one does not")]
        elsewhere = await self._read(self._journal.settle_elsewhere)
        result = await self._result(went, [*left, *(Residue(*one) for one in elsewhere)])
        by = Asked(plan.asked_in, plan.sender, plan.request, "main", Wire(), bytes.fromhex(plan.digest))
        await self._pipeline.keep_answer(by, result, end_forgetting)
        log.info("forget.finished", group=plan.group, changes=sum(went["changes"].values()), left=len(left))
        return result

    def _with_texts(self, plan: Forgetting, asked: Forgetting) -> Forgetting:
        """Return a plan as it was before its texts were erased from the journal, if this host knows that."""
        known = (one for one in (self._planned, asked) if one is not None and request_file(one) == request_file(plan))
        return next(known, plan) if plan.is_erased else plan

    async def _forget(self, plan: Forgetting) -> Mapping[str, Any]:
        """Remove the texts from everything, step by step; return what was removed."""
        done, went = Forgotten(), plan.went
        if not plan.is_erased:
            done.removed.update(await self._read(remove_earlier_journals, self._home))
            await self._erase_all(plan, done)
            await self._tidy(plan.group, done)
        # also for an erased plan: a power cut may have damaged index and ledger since then
        await self._read(self._memory.index.read_all, plan.group)
        await self._read(self._memory.index.scrub)
        await self._pipeline.unbatched.settle()  # a query that began before may have read the text
        await self._read(forget_injected, self._memory.ledger, plan)
        if not plan.is_erased:
            done.removed.update(await self._read(remove_quotes, self._home, plan))
            went = done.counted(plan.phrases)
            await self._write(partial(bury_forgetting, plan=plan, went=went), is_buried=True)
        await self._pipeline.writer.run(self._journal.vacuum)
        return went

    async def _erase_all(self, plan: Forgetting, done: Forgotten) -> None:
        """Remove the texts from journal, logs and files until none is found. Raises WorldFailed."""
        until = time.monotonic() + _MAX_ERASING_SECONDS
        while time.monotonic() < until:
            done.removed.update(await self._read(remove_quotes, self._home, plan))
            found = await self._read(find, self._journal.path, plan)
            files = await self._read(self._files_with, plan)
            if not found and not files:
                self.is_interrupted = False
                return
            marks = self._journal.marks
            # recovery would rewrite changes that are not durable in their files
            if all(seq < marks.first_unsettled(file) for file, seq in found.last.items()):
                async with self.recording:
                    is_erased = await self._pipeline.writer.run(self._erase, plan, found, files, done)
                done.files.update(files)
                until = time.monotonic() + _MAX_ERASING_SECONDS
                if is_erased:
                    continue
            await anyio.sleep(SETTLE_LOOK_SECONDS)
        raise WorldFailed(
            "it is said again and again, does not settle in its file (see `honeybadger-host status`), or its file is "
            "open in another program"
        )

    def _erase(self, plan: Forgetting, found: Found, files: Sequence[str], done: Forgotten) -> bool:
        """Remove what was found; return whether all was removed. The caller holds the writer's place."""
        phrases, is_all = plan.phrases, True
        self.is_interrupted = True
        rewritten: dict[str, tuple[bytes, bytes]] = {}
        for file in {*files, *found.files}:
            held = read_whole(self._home / file)
            if held is None:
                continue
            made = phrases.in_bytes(held, is_all=file in plan.files)
            if made != held:
                if not self._memory.whole_files.refresh(file, made, held):
                    is_all = False  # a batch has read the file, or a person is saving it
                    continue
                remove_leftovers((self._home / file).parent, {Path(file).name})
                self._changed(file)
            if made != held or file.endswith(".json"):
                rewritten[file] = (held, made)
        self._journal.change_past(partial(empty, plan=plan, found=found, files=rewritten))
        self._projections.in_use.drop({*rewritten, *found.files})
        self.is_interrupted = False
        done.add(found)
        return is_all

    async def _tidy(self, group: str, done: Forgotten) -> None:
        """Remove emptied lines, notes and files, by changes. Files that are open in other programs stay."""
        files = await self._read(self._untidy, group)
        done.files.update(files)
        until = time.monotonic() + _MAX_ERASING_SECONDS
        while files and time.monotonic() < until:
            request = new_id()
            asked = Asked(group, OPERATOR, request, "main", Wire(), hashlib.sha256(request.encode()).digest())
            tidied_now = partial(self._tidied, files=files[:BATCH_REQUESTS])
            reply = orjson.loads(await self._pipeline.change(asked, "forget", ChangeHandler(tidied_now)))
            if reply["ok"]:
                files = files[BATCH_REQUESTS:]
                continue
            log.info("forget.waiting", group=group, error=reply["error"]["message"])
            await anyio.sleep(SETTLE_LOOK_SECONDS)

    def _untidy(self, group: str) -> list[str]:
        return [
            file
            for file in files_of(self._home, group)
            if (held := read_whole(self._home / file)) is not None and tidied(group, file, held) is not None
        ]

    def _tidied(self, asked: Asked, now: datetime, files: Sequence[str]) -> Outcome:
        held = ((file, self._memory.whole_files.view(file)) for file in files)
        changes = [tidied(asked.group, file, data) for file, data in held if data is not None]
        return Outcome({}, tuple(change for change in changes if change is not None))

    # ---------------------------------------------------------------------------------------------------------- files

    def _files_with(self, plan: Forgetting) -> list[str]:
        """Return the files of the group that have a text of the plan."""
        return [file for file, _, _ in files_with(self._home, plan)]

    # -------------------------------------------------------------------------------------------------------- threads

    async def _read(self, act: Callable[..., ResultT], *arguments: Any, **named: Any) -> ResultT:
        return await anyio.to_thread.run_sync(partial(act, *arguments, **named))

    async def _write(self, change: Callable[..., None], *, is_buried: bool = False) -> None:
        await self._pipeline.writer.run(self._journal.change_past, change, is_buried=is_buried)
