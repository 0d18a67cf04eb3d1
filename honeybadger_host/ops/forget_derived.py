"""Texts that were derived from records to forget: by consolidation, compaction, enrichment, chat and updates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from honeybadger_host.curation.enrichment import enrichment_of
from honeybadger_host.curation.proposal_files import proposal_file
from honeybadger_host.documents.merge import object_in
from honeybadger_host.files.home import SUMMARY
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.reader import read_turns_behind
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.compaction import line_of
from honeybadger_host.memory.forgotten_files import files_of
from honeybadger_host.memory.markdown.summary_parts import part_of
from honeybadger_host.memory.turn_log import parse_turn
from honeybadger_host.text.phrases import MIN_CHARACTERS, folded
from honeybadger_host.text.turn import Turn


@dataclass(slots=True)
class Conversations:
    """The turns of the sessions in which a sender spoke.

    Args:
        said: session -> number -> a turn of the sender.
        others: session -> number -> the text of any other turn.
    """

    said: dict[str, dict[int, Turn]] = field(default_factory=dict)
    others: dict[str, dict[int, str]] = field(default_factory=dict)

    def add(self, row: Row, sender: str) -> None:
        """Add a change if it is a turn."""
        if row.kind != "turn":
            return
        try:
            turn = parse_turn(row.data)
        except ValueError:
            return
        session = row.file.rpartition("/")[2].removesuffix(".jsonl")
        if turn.by == sender:
            self.said.setdefault(session, {})[turn.number] = turn
        else:
            self.others.setdefault(session, {})[turn.number] = turn.content

    def is_anothers(self, session: str, line: str) -> bool:
        """Return whether a line repeats a turn of another sender in the session, with or without its name."""
        said = folded(line.partition(": ")[2] or line)
        return len(said) >= MIN_CHARACTERS and any(
            said in folded(text) for text in self.others.get(session, {}).values()
        )


def derived_of_sender(home: Path, group: str, conversations: Conversations) -> Iterator[str]:
    """Yield the texts that compaction and consolidation made from a sender's turns.

    Lines that repeat other people's turns are left out. A rewording of several people's turns is yielded whole.
    """
    summary = _text_of(home, f"groups/{group}/{SUMMARY}")
    for session, turns in conversations.said.items():
        made = (part_of(summary, session) or "").split("\n")
        yield from (line for line in made if not conversations.is_anothers(session, line))
        yield from (line_of(turn.role, turn.content) for turn in turns.values())
    for proposal in _proposals(home, group):
        session = str(proposal.get("session"))
        numbers = {(session, number) for number in _covered(proposal)}
        for operation in operations_of(proposal):
            quoted = {(str(each.get("session")), each.get("turn")) for each in _objects(operation.get("evidence"))}
            if any(number in conversations.said.get(of, ()) for of, number in quoted or numbers):
                made = str(operation.get("result") or "").split("\n")
                yield from (line for line in made if not conversations.is_anothers(session, line))


def notes_of_chat(journal: Path, rows: Sequence[Row], is_wanted: Callable[[str, int], bool]) -> list[Row]:
    """Return the changes that agents' tools made in answers to certain turns.

    Args:
        rows: changes of the group.
        is_wanted: (session, number) of the answered turn -> whether to return its changes.
    """
    asked = [row for row in rows if row.kind != "turn"]
    behind = read_turns_behind(journal, asked)
    return [row for row in asked if row.seq in behind and is_wanted(behind[row.seq].session, behind[row.seq].turn - 1)]


def put_into_document(before: bytes, after: bytes) -> list[str]:
    """Return the facts, tasks, states and lines of the summary that one version of a session document adds."""
    return [text for text in _texts_put(after) if text not in set(_texts_put(before))]


def _texts_put(data: bytes) -> list[str]:
    document = object_in(data) or {}
    environment = document.get("last_known_environment")
    shaped = [
        document.get("system_state"),
        environment.get("system_snapshot") if isinstance(environment, dict) else None,
    ]
    facts = [fact for fact in document.get("facts") or () if isinstance(fact, str)]
    tasks = [str(task.get("description") or "") for task in _objects(document.get("active_tasks"))]
    summary = str(document.get("long_term_summary") or "").split("\n")
    prose = [line for line in summary if not line.startswith("- ")]  # compaction's lines are of turns
    return [*facts, *tasks, *prose, *(text for value in shaped for text in _leaves(value))]


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value


def learnt_in(home: Path, group: str, session: str) -> Iterator[str]:
    """Yield the texts that consolidation made from a session: in summary.md and in proposals."""
    yield from (part_of(_text_of(home, f"groups/{group}/{SUMMARY}"), session) or "").split("\n")
    for proposal in _proposals(home, group):
        if proposal.get("session") == session:
            for operation in operations_of(proposal):
                yield from str(operation.get("result") or "").split("\n")


def taken_from(home: Path, group: str, entry: str) -> Iterator[str]:
    """Yield the facts of an entry from which enrichment made entries."""
    for operation in operations_of(
        object_in(read_whole(home / proposal_file(group, enrichment_of(entry))) or b"") or {}
    ):
        if operation.get("state") == "applied":
            yield from str(operation.get("result") or "").split("\n")


def operations_of(proposal: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the operations in a proposal's file; none if the file is broken."""
    return _objects(proposal.get("operations"))


def _proposals(home: Path, group: str) -> Iterator[Mapping[str, Any]]:
    for file in files_of(home, group):
        if file.startswith(f"groups/{group}/proposals/"):
            yield object_in(read_whole(home / file) or b"") or {}


def _covered(proposal: Mapping[str, Any]) -> Collection[int]:
    first, last = proposal.get("first_turn"), proposal.get("last_turn")
    return range(first, last + 1) if isinstance(first, int) and isinstance(last, int) else ()


def _text_of(home: Path, file: str) -> str:
    return (read_whole(home / file) or b"").decode("utf-8", "replace")


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
