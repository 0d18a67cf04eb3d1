"""Texts of an export that this home has forgotten before: they are forgotten again right after the import."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.mailbox import new_id
from honeybadger_host.journal.edits import edit_of, is_edit
from honeybadger_host.journal.forgetting import Forgetting, read_tombstones
from honeybadger_host.journal.schema import Row
from honeybadger_host.text.phrases import said_in


class ForgottenBefore:
    """Finds forgotten texts in the records of an export. Raises JournalError.

    Args:
        groups: the groups whose forgotten texts are looked for.
    """

    def __init__(self, journal: Path, groups: Collection[str]) -> None:
        known = [read_tombstones(journal, group) for group in sorted(groups)]
        self._known = [each for each in known if each.digests]
        self._parts: dict[str, None] = {}
        self._wholes: dict[str, None] = {}

    def look_at(self, event: Row) -> None:
        """Look for forgotten texts in a change."""
        if not is_edit(event):
            self.look_into(event.data)
            return
        for hunk in edit_of(event).hunks or () if self._known else ():
            for side in (hunk.removed, hunk.added):
                self.look_into(b"".join(side))

    def look_into(self, data: bytes) -> None:
        """Look for forgotten texts in a text, in JSON, or in lines of JSON."""
        for known in self._known:
            for text in _texts(data):
                self._parts.update(dict.fromkeys(known.found_in(text)))
            self._wholes.update((text, None) for text in said_in(data) if known.says_only(text))

    def plan(self, group: str) -> Forgetting | None:
        """Return the plan of what to forget in the imported group, or None if nothing was found."""
        if not self._parts and not self._wholes:
            return None
        selector = orjson.dumps({"id": new_id()}).decode()
        return Forgetting(group, selector, asked=[*self._parts], wholes=[*self._wholes])


def _texts(data: bytes) -> Iterator[str]:
    if values := _values(data):
        yield from _strings(values)
    else:
        yield data.decode("utf-8", "replace")


def _values(data: bytes) -> list[Any]:
    """Return the JSON values in a file, in its lines, or in parts of a document of several lines; empty: it is text."""
    if data.lstrip()[:1] not in (b"{", b"[", b'"'):
        return []
    with suppress(orjson.JSONDecodeError):
        return [orjson.loads(data)]
    found: list[Any] = []
    for line in (line.strip().rstrip(b",") for line in data.split(b"\n")):
        for part in (line, b"{%b}" % line):
            with suppress(orjson.JSONDecodeError):
                found.append(orjson.loads(part))
                break
    return found


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
