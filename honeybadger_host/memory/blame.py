"""The author of each line of a file, and of each member of an entry. Reads the journal; writes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from honeybadger_agent.mailbox import OPERATOR
from honeybadger_host.documents.history import BEFORE, NOT_KEPT, Origin, Past, read_past, versions
from honeybadger_host.documents.merge_json import object_in
from honeybadger_host.journal.changes import REMOVED
from honeybadger_host.journal.line_hunks import hunks_between, lines_of
from honeybadger_host.journal.reader import read_request
from honeybadger_host.journal.schema import LAST_SEQ, Row

NOT_YET: Final = "not_recorded"  # origin of a line that somebody saved and that is not recorded yet


# Origin without an author -> why nobody is named.
UNKNOWN_WHY: Final = {
    BEFORE: "stood there before the journal knew the file",
    NOT_KEPT: "came with a change of which the journal has no text",
    NOT_YET: "saved just now, or while no host runs",
}


class Blamed(NamedTuple):
    """A line, or a member as JSON, and its origin."""

    text: bytes
    origin: Origin

    @property
    def shown(self) -> str:
        """Its text without the line end."""
        return self.text.decode("utf-8", "replace").rstrip("\r\n")

    @property
    def why(self) -> str:
        """Why nobody is named; empty: somebody is."""
        return UNKNOWN_WHY[self.origin] if isinstance(self.origin, str) else ""


def blame_of(journal: Path, file: str, held: bytes | None) -> list[tuple[str, Blamed]]:
    """Return the origin of each line of a file, by its number, or of each member of an entry, by its name.

    Args:
        held: the content of the file now.
    Raises JournalError.
    """
    if file.endswith(".json"):
        return [*blame_members(journal, file, held).items()]
    return [(str(number), one) for number, one in enumerate(blame_lines(read_past(journal, file), held), 1)]


def blame_lines(past: Past, held: bytes | None) -> list[Blamed]:
    """Return the lines of a file with their origins.

    Args:
        held: the content of the file now.
    """
    *_, (_, now) = versions(past)
    lines, origins = now.lines, now.origins
    later: Origin = NOT_YET if now.is_known else NOT_KEPT if past.rows else BEFORE
    for hunk in reversed(hunks_between(lines, lines_of(held or b""))):
        end = hunk.at + len(hunk.removed)
        lines[hunk.at : end], origins[hunk.at : end] = hunk.added, [later] * len(hunk.added)
    return [Blamed(line, origin) for line, origin in zip(lines, origins, strict=True)]


def blame_members(journal: Path, file: str, held: bytes | None) -> dict[str, Blamed]:
    """Return the members of an entry with their origins, also from before it was moved. Raises JournalError.

    Args:
        held: the content of its file now.
    """
    members = _members(journal, file, LAST_SEQ)
    return _changed(members, object_in(held or b"") or {}, NOT_YET, defaultdict(list))


def _members(journal: Path, file: str, until: int) -> dict[str, Blamed]:
    past = read_past(journal, file)
    gone: defaultdict[tuple[str, bytes], list[Origin]] = defaultdict(list)
    members: dict[str, Blamed] = {}
    is_lost = False
    for event, now in versions(past, until):
        if not now.is_known:
            is_lost = True
            continue
        if event is not None and not members and (moved := _moved_from(journal, event)) is not None:
            members = _members(journal, moved.file, moved.seq - 1)
        origin: Origin = NOT_KEPT if is_lost and event is not past.rows[0] else event or BEFORE
        members = _changed(members, object_in(now.text) or {}, origin, gone)
        is_lost = False
    return members


def _moved_from(journal: Path, row: Row) -> Row | None:
    """Return the change that took an entry from its earlier place, or None if a change did not move one."""
    name = row.file.rpartition("/")[2]
    others = read_request(journal, row) if not row.kind.endswith(REMOVED) else ()
    return next((each for each in others if each.kind.endswith(REMOVED) and each.file.endswith(f"/{name}")), None)


def _changed(
    members: Mapping[str, Blamed],
    value: Mapping[str, Any],
    origin: Origin,
    gone: defaultdict[tuple[str, bytes], list[Origin]],
) -> dict[str, Blamed]:
    """Return the members after a change; a value that the operator restores has its earlier origin."""
    texts = {name: orjson.dumps(each) for name, each in value.items()}
    for name, before in members.items():
        if texts.get(name) != before.text:
            gone[name, before.text].append(before.origin)
    is_back = isinstance(origin, Row) and origin.sender == OPERATOR
    found: dict[str, Blamed] = {}
    for name, text in texts.items():
        known = members.get(name)
        if known is not None and known.text == text:
            found[name] = known
        else:
            found[name] = Blamed(text, gone[name, text].pop() if is_back and gone[name, text] else origin)
    return found
