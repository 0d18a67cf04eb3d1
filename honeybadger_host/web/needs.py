"""The first page: what needs the operator, the agents at work, and the groups."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from starlette.responses import Response

from honeybadger_agent.wire import ListGroups, ListTasks
from honeybadger_agent.wording import count_of
from honeybadger_host.curation.proposal_files import read_stored, waiting
from honeybadger_host.documents.versions import removed_unread
from honeybadger_host.files.home import groups_in
from honeybadger_host.journal.edits import unread_of
from honeybadger_host.ops.findings import faults_in
from honeybadger_host.spool.dead_letters import dead_names, list_dead
from honeybadger_host.web.rendering import MAX_OF_A_KIND, href
from honeybadger_host.web.review import gists_of
from honeybadger_host.web.visits import PER_PAGE, Home, Visit, made

_NEARLY_SPENT = 0.8  # share of a budget from which it is listed


class Need(NamedTuple):
    """Something that needs the operator.

    Args:
        kind: in a word or two.
        text: its description.
        where: the group, or the part of the host.
        address: the page on which to act.
        action: the label of the link to that page.
        at: since when; None: unknown.
        undoes: number of a change that a button undoes; None: no button.
    """

    kind: str
    text: str
    where: str
    address: str
    action: str
    at: str | int | None = None
    undoes: int | None = None


def needs_of(home: Home, status: dict[str, Any]) -> list[Need]:
    """Return the things that need the operator, most urgent first."""
    faults = [Need(fault.level, fault.message, "host", "/health", "Look") for fault in faults_in(status)]
    groups = groups_in(home.path)
    return [*faults, *_dead(home), *_unread(home), *_tasks(home, groups), *_budgets(status), *_proposals(home, groups)]


def _dead(home: Home) -> Iterator[Need]:
    for letter in list_dead(home.path, 0, MAX_OF_A_KIND):
        yield Need(
            "dead letter",
            str(letter.reason.get("reason", "")),
            letter.name,
            "/health#dead",
            "Look",
            letter.reason.get("at"),
        )
    more = len(dead_names(home.path)) - MAX_OF_A_KIND
    if more > 0:
        yield Need("dead letter", count_of(more, "more dead letter"), "host", "/health#dead", "Look at all")


def _unread(home: Home) -> Iterator[Need]:
    for edit in removed_unread(home.path, home.journal, time.time())[:MAX_OF_A_KIND]:
        yield Need(
            "notes removed",
            f"{unread_of(edit)} went from {edit.file} in a save",
            edit.group,
            href("change", str(edit.seq)),
            "Look",
            edit.at,
            edit.seq,
        )


def _tasks(home: Home, groups: list[str]) -> Iterator[Need]:
    """Yield tasks whose last run failed. Only groups that have tasks are asked."""
    for group in groups:
        if not any((home.path / "groups" / group / "tasks").glob("*.json")):
            continue
        for task in home.ask(group, ListTasks())[0].tasks:
            if task.state in ("failed", "missed"):
                text = f"{task.name}: {task.why}" if task.why else task.name
                yield Need(f"task {task.state}", text, group, href("g", group, "tasks", task.id), "Look", task.last)


def _budgets(status: dict[str, Any]) -> Iterator[Need]:
    for budget in status.get("curation", {}).get("budgets", ()):
        if budget["used"] >= _NEARLY_SPENT * budget["limit"]:
            text = f"{budget['setting']}: {budget['used']:,} of {budget['limit']:,} tokens are used"
            yield Need("budget", text, "host", "/health#budgets", "Look")


def _proposals(home: Home, groups: list[str]) -> Iterator[Need]:
    """Yield the last changed proposals of each group that wait for a decision."""
    for group in groups:
        found = waiting(home.path, group)
        for name, changed_at in found[:MAX_OF_A_KIND]:
            one = read_stored(home.path, group, name)
            kind, text, action = "proposal", f"It cannot be read: {one.problem}", "Look"
            if one.proposal is not None:
                first, *rest = gists_of(one.proposal)
                text = first + (f" and {len(rest)} more" if rest else "")
                kind, action = "write asked for" if one.proposal.kind == "write" else kind, "Decide"
            yield Need(kind, text, group, href("g", group, "review", name), action, round(changed_at * 1000))
        if len(found) > MAX_OF_A_KIND:
            more = f"{len(found) - MAX_OF_A_KIND} more"
            yield Need("proposal", more, group, href("g", group, "review"), "Look at all")


def groups(visit: Visit) -> Response:
    home, named, offset = visit.home, visit.member("named", 64), visit.number("offset")
    found, _ = home.ask(home.any_group(), made(ListGroups, named=named, limit=PER_PAGE, offset=offset))
    status = home.status()
    is_first = named is None and not offset
    return visit.page(
        "groups.html",
        needs=needs_of(home, status) if is_first else [],
        is_first=is_first,
        under_way=status.get("turns", {}).get("under_way", []),
        found=found,
        named=named,
        offset=offset,
        per_page=PER_PAGE,
        status=status,
    )
