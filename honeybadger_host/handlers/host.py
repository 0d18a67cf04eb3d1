"""The host itself: `ping`; and for the operator `list_groups`, the groups in numbers, and `forget`."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from honeybadger_agent.mailbox import GLOBAL_GROUP, OPERATOR
from honeybadger_agent.wire import PROTOCOL, Forget, ListGroups, Refusal
from honeybadger_agent.wording import MAX_NAMED
from honeybadger_host import __version__
from honeybadger_host.curation.proposal_files import waiting
from honeybadger_host.errors import FileProblem, JournalError, WorldFailed
from honeybadger_host.files.home import MEMORY, groups_in, named_folders
from honeybadger_host.handler_kinds import DEFAULT_ROWS, Asked
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.text.phrases import folded
from honeybadger_host.text.time_stamps import time_stamp


def ping(deps: Dependencies, asked: Asked, now: datetime) -> Mapping[str, Any]:
    """Return the host's version, and the request types that an agent may use if its file lists them."""
    known = {"host_version": __version__, "protocol": PROTOCOL, "now": time_stamp(now, "milliseconds")}
    agent = deps.agents.current.get(asked.sender)
    return known if agent is None or agent.tools is None else {**known, "tools": sorted(agent.tools)}


def list_groups(deps: Dependencies, asked: Asked[ListGroups], now: datetime) -> Mapping[str, Any]:
    """Return the groups in numbers. Only the groups of one page are looked at."""
    payload, home = asked.payload, deps.home
    names = sorted({*groups_in(home), *named_folders(home / "data" / "ipc")} - {GLOBAL_GROUP})
    wanted = [name for name in names if (payload.named or "").lower() in name.lower()]
    page = wanted[payload.offset or 0 :][: payload.limit or DEFAULT_ROWS]
    tokens: Counter[str] = Counter()
    for spent in deps.journal.spent(now.astimezone(UTC).date().isoformat()):
        tokens[spent.group] += spent.tokens
    rows = [{**_row(deps, name), "waiting": len(waiting(home, name)), "tokens_today": tokens[name]} for name in page]
    return {"groups": rows, "total": len(wanted)}


def _row(deps: Dependencies, group: str) -> dict[str, Any]:
    senders = [name for name in named_folders(deps.home / "data" / "ipc" / group) if name != OPERATOR]
    deps.index.bring_up(group)  # what was just saved or imported counts
    said_at = deps.index.lookups.last_said(group)
    return {
        "group": group,
        "senders": senders[:MAX_NAMED],
        "senders_total": len(senders),
        "notes": _notes(deps.files, group),
        "entries": sum(count for _, count, _ in deps.index.lookups.sizes(group)),
        "sessions": len(deps.sessions.names(group)),
        "last_said": None if said_at is None else time_stamp(datetime.fromtimestamp(said_at, UTC)),
    }


def _notes(files: GroupFiles, group: str) -> int | None:
    try:
        text = files.read(f"groups/{group}/{MEMORY}")
    except FileProblem:
        return None
    return 0 if text is None else text.note_count


async def forget(
    now: Callable[[Asked[Forget]], Awaitable[Mapping[str, Any]]], asked: Asked[Forget]
) -> Mapping[str, Any]:
    """Remove something everywhere.

    Args:
        now: removes it; see `ops/forget.py`.
    """
    payload = asked.payload
    given = [name for name in ("id", "text", "sender", "session") if getattr(payload, name) is not None]
    if len(given) != 1:
        raise Refusal(
            "invalid", "give one of payload.id, payload.text, payload.sender and payload.session", field="payload"
        )
    if payload.text is not None and len(folded(payload.text)) < 3:  # a shorter text is in too many words
        raise Refusal(
            "invalid",
            "payload.text must have 3 characters: it is forgotten wherever it stands, also in words",
            field="payload.text",
        )
    try:
        return await now(asked)
    except (WorldFailed, JournalError) as error:
        raise Refusal(
            "unavailable", f"{error}; what was begun goes on with the same command, or the next start"
        ) from None
