"""The plan of a request to forget: the records to remove, and the texts to search for.

Among them are texts that were derived from those records: by consolidation, compaction, enrichment, chat and updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from honeybadger_agent.mailbox import NAME, OPERATOR, SCHEDULER
from honeybadger_agent.wire import Forget, Refusal
from honeybadger_host.curation.enrichment import enrichment_of
from honeybadger_host.curation.proposal import Operation, Proposal, parse_proposal
from honeybadger_host.curation.proposal_files import readable
from honeybadger_host.files.home import SUMMARY
from honeybadger_host.journal.changes import EDIT_UNDONE, TASK_RECORD, read_whole
from honeybadger_host.journal.edits import REVISED_KINDS, edit_of, hunks_of, is_edit
from honeybadger_host.journal.forgetting import Forgetting
from honeybadger_host.journal.reader import read_change, read_turns_behind
from honeybadger_host.journal.schema import IS_EDIT, Row, read_rows
from honeybadger_host.memory.compaction import line_of
from honeybadger_host.memory.markdown.summary_parts import part_of
from honeybadger_host.memory.peoples_files import files_of
from honeybadger_host.memory.session_document import parse_document, session_file
from honeybadger_host.memory.turn_log import parse_turn, session_of, turns_file
from honeybadger_host.memory.working_memory import session_folder
from honeybadger_host.text.json_values import object_in
from honeybadger_host.text.phrases import FORGOTTEN, MIN_CHARACTERS, Phrases, folded, said_in
from honeybadger_host.text.turn import Turn

_MIN_PER_LINE = 40  # a line of a text with at least this many characters is also searched for alone


def plan_of(home: Path, journal: Path, group: str, wanted: Forget) -> Forgetting:
    """Return the plan for a request, from journal and files as they are now. Raises JournalError, WorldFailed."""
    selector = orjson.dumps(wanted.model_dump(exclude_none=True, exclude={"dry_run", "shared"})).decode()
    if wanted.text is not None:
        return Forgetting(group, selector, asked=(wanted.text,))
    rows: list[int] = []
    said: list[str] = []
    documents: dict[str, bytes] = {}
    proposals = [*readable(home, group)]
    conversations = Conversations()
    own = set() if wanted.sender is None else _own_files(journal, group, wanted.sender)
    for row in _rows(journal, group):
        if row.kind == "proposal":  # as the host wrote it: a person may have broken or removed the file
            with suppress(ValueError):  # of another version
                proposals.append(parse_proposal(row.data))
        if wanted.sender is not None:
            conversations.add(row, wanted.sender)
            if row.kind == "session":  # it has words of others, too
                if row.sender == wanted.sender:
                    before = {*_texts_put(documents.get(row.file, b""))}
                    said += (text for text in _texts_put(row.data) if text not in before)
                documents[row.file] = row.data
                continue
        if _is_wanted(row, wanted) or row.file in own:
            rows.append(row.seq)
            said += _said_by(row)
            if wanted.session is not None and row.kind == "session":  # others may have a short one by chance
                said += (text for text in _texts_put(row.data) if len(folded(text)) >= MIN_CHARACTERS)
    wanted_files = (file for file in files_of(home, group) if file in own or _is_wanted_file(group, file, wanted))
    files = [file for file in wanted_files if not _is_emptied(read_whole(home / file) or b"")]
    for file in files:
        said += said_in(read_whole(home / file) or b"")
    if wanted.id is not None and wanted.id.isdigit() and (edit := read_change(journal, int(wanted.id))) is not None:
        hunks = edit_of(edit).hunks if edit.group == group and is_edit(edit) else ()
        said += (line.decode("utf-8", "replace") for hunk in hunks or () for line in hunk.added)
    said += _derived(home, group, wanted, conversations, proposals)
    for row in _noted_in_chat(journal, group, wanted, conversations):
        rows.append(row.seq)
        said += _said_by(row)
    said = [text for text in dict.fromkeys(said) if text.strip()]
    parts = [text for text in said if len(folded(text)) >= MIN_CHARACTERS]
    parts += (line for text in said for line in text.split("\n") if len(folded(line)) >= _MIN_PER_LINE)
    wholes = [text for text in said if len(folded(text)) < MIN_CHARACTERS]
    entries = [file.rpartition("/")[2].removesuffix(".json") for file in files if "/memory/" in file]
    return Forgetting(
        group,
        selector,
        parts=list(dict.fromkeys(parts)),
        wholes=wholes,
        rows=rows,
        files=files,
        entries=entries,
        session=wanted.session,
    )


def check_is_there(home: Path, plan: Forgetting, wanted: Forget) -> None:
    """Raise Refusal if a group has no such entry, task, change, sender or session."""
    is_sender = wanted.sender is not None and NAME.fullmatch(wanted.sender)
    if plan.is_empty and not (is_sender and (home / f"data/ipc/{plan.group}/{wanted.sender}").is_dir()):
        what = f"entry, task or change {wanted.id!r}"
        if wanted.id is None:
            what = f"session {wanted.session!r}" if wanted.sender is None else f"sender {wanted.sender!r}"
        raise Refusal(
            "not_found",
            f"{plan.group} has no {what}, or it was forgotten already: see `honeybadger-host log {plan.group}`",
            field="payload",
        )


def _rows(journal: Path, group: str) -> Iterator[Row]:
    """Yield the changes of a group that have something left to forget, without people's edits."""
    query = f"SELECT * FROM changes WHERE grp = ? AND NOT {IS_EDIT} ORDER BY seq"  # noqa: S608  a constant
    rows = map(Row._make, read_rows(journal, query, (group,)))
    return (row for row in rows if not _is_emptied(row.data))


def _own_files(journal: Path, group: str, sender: str) -> set[str]:
    """Return the entries, tasks and entries of working memory that one sender alone has written."""
    query = (
        "SELECT file FROM changes WHERE grp = ? AND (file GLOB 'groups/*.json' OR file GLOB 'data/working/*') "
        "GROUP BY file HAVING max(sender = ?) AND NOT max(sender NOT IN (?, ?))"
    )
    return {file for (file,) in read_rows(journal, query, (group, sender, sender, OPERATOR))}


def _noted_in_chat(journal: Path, group: str, wanted: Forget, conversations: Conversations) -> Iterator[Row]:
    """Yield the changes that agents' tools made while they answered the sender or spoke in the session."""
    if wanted.sender is None and wanted.session is None:
        return
    rows = [row for row in _rows(journal, group) if row.kind != "turn"]
    behind = read_turns_behind(journal, rows)
    for row, answer in [(row, behind[row.seq]) for row in rows if row.seq in behind]:
        if answer.session == wanted.session or answer.turn - 1 in conversations.said.get(answer.session, ()):
            yield row


def _is_emptied(data: bytes) -> bool:
    """Return whether a forget has left nothing to forget in a change or a file."""
    return FORGOTTEN.encode() in data and Phrases(()).in_bytes(data, is_all=True) == data


def _said_by(row: Row) -> Iterator[str]:
    """Yield the texts of a change; of a change of notes, the texts before and after, of a task's pause its reason."""
    if row.kind == TASK_RECORD and row.sender != SCHEDULER:
        yield str(_member(row.data, "why") or "")
    if row.kind not in REVISED_KINDS:
        yield from said_in(row.data)
        return
    for hunk in hunks_of(row):
        for side in (hunk.added,) if row.kind == EDIT_UNDONE else (hunk.removed, hunk.added):
            yield from said_in(b"".join(side))


def _is_wanted(row: Row, wanted: Forget) -> bool:
    if wanted.sender is not None:
        return row.sender == wanted.sender or (row.kind == "turn" and _member(row.data, "by") == wanted.sender)
    if wanted.session is not None:
        is_said = row.kind in ("message", "feedback") and _member(row.data, "session") == wanted.session
        return is_said or _is_wanted_file(row.group, row.file, wanted)
    if row.kind == TASK_RECORD and _member(row.data, "task") == wanted.id:
        return True
    return str(row.seq) == wanted.id or _is_wanted_file(row.group, row.file, wanted)


def _member(data: bytes, name: str) -> object:
    return (object_in(data) or {}).get(name)


def _is_wanted_file(group: str, file: str, wanted: Forget) -> bool:
    if wanted.session is not None:
        document, log = session_file(group, wanted.session), turns_file(group, wanted.session)
        begins = (f"{document}.", f"{log}.", f"{session_folder(group, wanted.session)}/")
        return file in (document, log) or file.startswith(begins)
    return wanted.id is not None and file.startswith("groups/") and file.endswith(f"/{wanted.id}.json")


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
        if row.kind == "turn":
            with suppress(ValueError):  # it is damaged
                turn, session = parse_turn(row.data), session_of(row.file)
                if turn.by == sender:
                    self.said.setdefault(session, {})[turn.number] = turn
                else:
                    self.others.setdefault(session, {})[turn.number] = turn.content

    def without_others(self, session: str, text: str) -> Iterator[str]:
        """Yield the lines of a text that repeat no turn of another sender in the session, with or without its name."""
        others = [folded(other) for other in self.others.get(session, {}).values()]
        for line in text.split("\n"):
            said = folded(line.partition(": ")[2] or line)
            if len(said) < MIN_CHARACTERS or not any(said in other for other in others):
                yield line


def _derived(
    home: Path, group: str, wanted: Forget, conversations: Conversations, proposals: Sequence[Proposal]
) -> Iterator[str]:
    """Yield the texts that compaction, consolidation and enrichment made from what is forgotten.

    Lines that repeat other people's turns are left out. A rewording of several people's turns is yielded whole.
    """
    summary = (read_whole(home / f"groups/{group}/{SUMMARY}") or b"").decode("utf-8", "replace")
    for session in conversations.said if wanted.session is None else (wanted.session,):
        yield from conversations.without_others(session, part_of(summary, session) or "")
    for turns in conversations.said.values():
        yield from (line_of(turn.role, turn.content) for turn in turns.values())
    for proposal in proposals:
        for operation in proposal.operations:
            if _comes_from(proposal, operation, wanted, conversations):
                yield from conversations.without_others(proposal.session or "", operation.result or "")


def _comes_from(proposal: Proposal, operation: Operation, wanted: Forget, conversations: Conversations) -> bool:
    """Return whether a model or the rules made an operation from what is forgotten."""
    if wanted.session is not None:
        return proposal.session == wanted.session
    if wanted.id is not None:
        return operation.state == "applied" and proposal.id == enrichment_of(wanted.id)
    covered = range(proposal.first_turn or 0, (proposal.last_turn or -1) + 1)
    places = [each.place for each in operation.evidence] or [(proposal.session or "", number) for number in covered]
    return any(number in conversations.said.get(session, ()) for session, number in places)


def _texts_put(data: bytes) -> list[str]:
    """Return the facts, tasks, states and lines of the summary in a session document."""
    try:
        document = parse_document(data, "")
    except ValueError:
        return []
    tasks = [task.description for task in document.active_tasks]
    prose = [line for line in document.long_term_summary.split("\n") if not line.startswith("- ")]  # others are turns
    states = [document.system_state, document.last_known_environment.system_snapshot]
    return [*document.facts, *tasks, *prose, *_leaves(states)]


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value
