"""The host itself: `ping`; and for the operator `list_groups`, the groups in numbers, and `forget`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from honeybadger_agent.mailbox import GLOBAL_GROUP, OPERATOR
from honeybadger_agent.wire import PROTOCOL, Forget, ListGroups, Refusal
from honeybadger_agent.wording import MAX_NAMED
from honeybadger_host import __version__
from honeybadger_host.curation.proposal_files import WaitingProposals
from honeybadger_host.errors import FileProblem, JournalError, WorldFailed
from honeybadger_host.files.home import groups_in, named_folders
from honeybadger_host.handler_kinds import Asked, QueryHandler, WaitingHandler
from honeybadger_host.journal.journal import Journal
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.search.index import Index
from honeybadger_host.text.phrases import folded
from honeybadger_host.text.time_stamps import time_stamp


def ping(tools_of: Callable[[str], frozenset[str] | None]) -> QueryHandler:
    """Return the handler of `ping`.

    Args:
        tools_of: sender -> the types it may use; None: all.
    """

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        at = time_stamp(now, "milliseconds")
        known = {"host_version": __version__, "protocol": PROTOCOL, "now": at}
        tools = tools_of(asked.sender)
        return known if tools is None else {**known, "tools": sorted(tools)}

    return QueryHandler(answer)


def list_groups(home: Path, files: GroupFiles, sessions: Sessions, index: Index, journal: Journal) -> QueryHandler:
    """Return the handler of `list_groups`. Only the groups of one page are looked at."""
    proposals = WaitingProposals(home)

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload: ListGroups = asked.payload
        names = sorted({*groups_in(home), *named_folders(home / "data" / "ipc")} - {GLOBAL_GROUP})
        wanted = [name for name in names if (payload.named or "").lower() in name.lower()]
        page = wanted[payload.offset or 0 :][: payload.limit or 50]
        tokens: Counter[str] = Counter()
        for row in journal.spent(now.astimezone(UTC).date().isoformat()):
            tokens[row.group] += row.tokens
        return {"groups": [{**_row(name), "tokens_today": tokens[name]} for name in page], "total": len(wanted)}

    def _row(group: str) -> dict[str, Any]:
        said = sessions.names(group)
        newest = max((changed for _, changed in said), default=None)
        senders = [name for name in named_folders(home / "data" / "ipc" / group) if name != OPERATOR]
        index.read_few(group)  # an entry that was just saved counts
        return {
            "group": group,
            "senders": senders[:MAX_NAMED],
            "senders_total": len(senders),
            "notes": _notes(group),
            "entries": sum(count for _, count, _ in index.lookups.sizes(group)),
            "sessions": len(said),
            "last_said": None if newest is None else time_stamp(datetime.fromtimestamp(newest, UTC)),
            "waiting": len(proposals.of(group)),
        }

    def _notes(group: str) -> int | None:
        try:
            text = files.memory(group)
        except FileProblem:
            return None
        return 0 if text is None else text.note_count

    return QueryHandler(answer)


def forget(now: Callable[[Asked], Awaitable[Mapping[str, Any]]]) -> WaitingHandler:
    """Return the handler of `forget`, which removes something everywhere for the operator.

    Args:
        now: removes it; see `ops/forget.py`.
    """

    async def answer(asked: Asked) -> Mapping[str, Any]:
        payload: Forget = asked.payload
        given = [name for name in ("id", "text", "sender", "session") if getattr(payload, name) is not None]
        if len(given) != 1:
            raise Refusal("invalid", "payload must have one of id, text, sender and session", field="payload")
        if payload.text is not None and len(folded(payload.text)) < 3:  # a shorter text is in too many words
            why = "payload.text must have 3 characters: it is forgotten wherever it stands, also in words"
            raise Refusal("invalid", why, field="payload.text")
        try:
            return await now(asked)
        except (WorldFailed, JournalError) as error:
            why = f"{error}; what was begun goes on with the same command, or the next start"
            raise Refusal("unavailable", why) from None

    return WaitingHandler(answer)
