"""Commands about curation: `review`, `consolidate`, `dream`."""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from honeybadger_agent.wire.proposals import changed_lines
from honeybadger_host.cli.shared import AsJson, Home, asked_of, tell, with_files

app = typer.Typer(rich_markup_mode=None)

_ACTIONS = ("list", "show", "accept", "strike", "revert")


@app.command()
def review(
    home: Home,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[list] [GROUP] | ACTION GROUP [PROPOSAL] [OPERATION]...",
            help="A group, to list its proposals; nothing, to list all; or an action.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List decided ones, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Decide about proposals of curation.

    An operation that is named by its number is accepted even if a gate refuses it. `revert` takes back a proposal.
    """
    action, *rest = words or ["list"]
    if action not in _ACTIONS:
        if rest:
            raise typer.BadParameter(f"{action} is not one of {', '.join(_ACTIONS)}")
        action, rest = "list", [action]
    if action == "list":
        if len(rest) > 1:
            raise typer.BadParameter("list takes one group, or none for all")
        _list(home, rest[0] if rest else None, every, as_json)
        return
    if len(rest) < 2:
        raise typer.BadParameter(f"{action} needs a group and a proposal, as: review {action} main ID")
    group, name, *more = rest
    if action == "show":
        proposal = asked_of(home, group, "list_proposals", {"proposal": name})["proposals"][0]
        tell(proposal, _shown(proposal), as_json=as_json)
        return
    numbers = [_number(word) for word in more] or None
    result = asked_of(home, group, "decide_proposal", {"proposal": name, "decision": action, "operations": numbers})
    tell(result, [_told(action, result)], as_json=as_json)


@app.command()
def consolidate(
    home: Home,
    group: str,
    session: Annotated[str, typer.Argument(help="The conversation.")] = "main",
    as_json: AsJson = False,
) -> None:
    """Consolidate a session now. All but its newest turns go to HISTORY.md and summary.md; the log keeps everything."""
    result = asked_of(home, group, "consolidate", {}, session=session)
    tell(result, [result["told"]], as_json=as_json)


@app.command()
def dream(
    home: Home,
    group: Annotated[str, typer.Argument(help="The group.")] = "main",
    as_json: AsJson = False,
) -> None:
    """Tidy a group's memory now: fold duplicates, ask the model."""
    result = asked_of(home, group, "dream", {})
    lines: list[str] = []
    for proposal in result["proposals"]:
        lines += [*_shown(proposal), ""]
    tell(result, [*lines, result["told"]], as_json=as_json)


def _number(word: str) -> int:
    if not word.isdigit():
        raise typer.BadParameter(f"{word} is not the number of an operation: review show GROUP PROPOSAL shows them")
    return int(word)


def _list(folder: Path, group: str | None, every: bool, as_json: bool) -> None:
    """Print the proposals of a group, or of every group."""
    groups = [group or ""]
    if group is None:
        groups = sorted(path.parent.name for path in with_files(folder).glob("groups/*/proposals/"))
    found = {one: asked_of(folder, one, "list_proposals", {"every": every}) for one in groups}
    lines: list[str] = []
    for one, rows in found.items():
        if listed := _listed(rows):
            lines += listed if group else [f"{one}:", *listed]
    tell(
        found[group] if group else found,
        lines or ["there are no proposals yet" if every else "nothing waits for a decision"],
        as_json=as_json,
    )


def _listed(found: Mapping[str, Any]) -> list[str]:
    lines = [_row(row) for row in found["proposals"]]
    if found["left_out"]:
        lines.append(f"and {found['left_out']} older")
    return lines


def _row(row: Mapping[str, Any]) -> str:
    if row.get("problem"):
        return f"{row['id']}  cannot be read: {row['problem']}"
    about = f"  session {row['session']}" if row.get("session") else ""
    counts = _counts(row) or "struck or taken back"
    return f"{row['made_at']}  {row['id']}  {row['kind']} by {row['by']}{about}  {counts}"


def _told(action: str, result: Mapping[str, Any]) -> str:
    done = {"accept": "accepted", "strike": "struck", "revert": "taken back"}[action]
    kept = result.get("kept") or ()
    more = [_counts(result), "later changes stay in " + ", ".join(kept) if kept else ""]
    return "; ".join([f"{result['proposal']}: {done}", *filter(None, more)])


def _counts(result: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{result[state]} {state}" for state in ("waiting", "applied", "refused", "stale") if result.get(state)
    )


def _shown(proposal: Mapping[str, Any]) -> Iterator[str]:
    yield f"{proposal['id']}: {proposal['kind']} by {proposal['by']}, {proposal['made_at']}"
    for operation in proposal["operations"]:
        yield ""
        yield from _operation(operation, proposal["before"])


def _operation(operation: Mapping[str, Any], before: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of an operation: title, difference, evidence, gates."""
    why = f": {operation['why']}" if operation.get("why") else ""
    yield f"{operation['n']}. {operation['op']} ({operation['state']}){why}"
    old, new = changed_lines(operation, before)
    for line in list(difflib.unified_diff(old, new, lineterm="", n=1))[3:] or [f" {line}" for line in new]:
        yield f"   {line}"
    evidence = operation.get("evidence", [])
    if operation["op"] in ("write_history", "write_summary"):  # its lines say who said what, and when
        turns = dict.fromkeys(f"{each['session']}#{each['turn']}" for each in evidence)
        if turns:
            yield f"   said in {', '.join(turns)}"
        evidence = []
    for each in evidence:
        by = f" by {each['by']}" if each.get("by") else ""
        yield f"   said in {each['session']}#{each['turn']}{by}: {' '.join(each['quote'].split())[:200]}"
    if operation.get("waits"):
        yield f"   waits: {operation['waits']}"
    for failed in operation.get("gates", {}).get("failed", []):
        yield f"   {failed['gate']}: {failed['what']}"
