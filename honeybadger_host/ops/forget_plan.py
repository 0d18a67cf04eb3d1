"""The plan of a request to forget: the records to remove, and the texts to search for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from honeybadger_agent.mailbox import NAME
from honeybadger_agent.wire import Forget, Refusal
from honeybadger_host.journal.changes import EDIT_UNDONE, read_whole
from honeybadger_host.journal.edits import REVISED_KINDS, edit_of, hunks_of, is_edit
from honeybadger_host.journal.forgetting import Forgetting
from honeybadger_host.journal.reader import read_change
from honeybadger_host.journal.schema import IS_EDIT, Row, read_rows
from honeybadger_host.memory.forgotten_files import files_of
from honeybadger_host.memory.session_document import session_file
from honeybadger_host.memory.turn_log import turns_file
from honeybadger_host.memory.working_memory import session_folder
from honeybadger_host.ops.forget_derived import (
    Conversations,
    derived_of_sender,
    learnt_in,
    notes_of_chat,
    put_into_document,
    taken_from,
)
from honeybadger_host.text.phrases import MIN_CHARACTERS, folded, said_in

_MIN_PER_LINE = 40  # a line of a text with at least this many characters is also searched for alone


def plan_of(home: Path, journal: Path, group: str, wanted: Forget) -> Forgetting:
    """Return the plan for a request, from journal and files as they are now. Raises JournalError, WorldFailed."""
    selector = orjson.dumps(wanted.model_dump(exclude_none=True, exclude={"dry_run", "shared"})).decode()
    if wanted.text is not None:
        return Forgetting(group, selector, asked=(wanted.text,))
    rows: list[int] = []
    said: list[str] = []
    documents: dict[str, bytes] = {}
    conversations = Conversations()
    for row in _rows(journal, group):
        if wanted.sender is not None:
            conversations.add(row, wanted.sender)
            if row.kind == "session":  # it has words of others, too
                if row.sender == wanted.sender:
                    said += put_into_document(documents.get(row.file, b""), row.data)
                documents[row.file] = row.data
                continue
        if _is_wanted(row, wanted):
            rows.append(row.seq)
            said += _said_by(row)
    files = [file for file in files_of(home, group) if _is_wanted_file(group, file, wanted)]
    for file in files:
        said += said_in(read_whole(home / file) or b"")
    if wanted.id is not None and wanted.id.isdigit() and (edit := read_change(journal, int(wanted.id))) is not None:
        hunks = edit_of(edit).hunks if edit.group == group and is_edit(edit) else ()
        said += (line.decode("utf-8", "replace") for hunk in hunks or () for line in hunk.added)
    if wanted.sender is not None:
        said += derived_of_sender(home, group, conversations)
    if wanted.session is not None:
        said += learnt_in(home, group, wanted.session)
    for row in _noted_in_chat(journal, group, wanted, conversations):
        rows.append(row.seq)
        said += _said_by(row)
    if wanted.id is not None:
        said += taken_from(home, group, wanted.id)
    said = [text for text in dict.fromkeys(said) if text.strip()]
    parts = [text for text in said if len(folded(text)) >= MIN_CHARACTERS]
    parts += (line for text in said for line in text.split("\n") if len(folded(line)) >= _MIN_PER_LINE)
    wholes = [text for text in said if len(folded(text)) < MIN_CHARACTERS]
    entries = [file.rpartition("/")[2].removesuffix(".json") for file in files if "/memory/" in file]
    if not (rows or files or said):
        return Forgetting(group, selector)
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
    named = {"entry, task or change": wanted.id, "sender": wanted.sender, "session": wanted.session}
    what, name = next(((what, name) for what, name in named.items() if name is not None), ("text", ""))
    is_sender = wanted.sender is not None and NAME.fullmatch(wanted.sender)
    if plan.is_empty and not (is_sender and (home / f"data/ipc/{plan.group}/{wanted.sender}").is_dir()):
        log = f"`honeybadger-host log {plan.group}`"
        why = f"{plan.group} has no {what} {name!r}, or it was forgotten already: see {log}"
        raise Refusal("not_found", why, field="payload")


def _rows(journal: Path, group: str) -> Iterator[Row]:
    """Yield the changes of a group from which nothing was forgotten, without people's edits."""
    emptied = "SELECT seq FROM emptied"
    query = f"SELECT * FROM changes WHERE grp = ? AND NOT {IS_EDIT} AND seq NOT IN ({emptied}) ORDER BY seq"  # noqa: S608  constants
    return map(Row._make, read_rows(journal, query, (group,)))


def _noted_in_chat(journal: Path, group: str, wanted: Forget, conversations: Conversations) -> list[Row]:
    """Return the changes that agents made while they answered the sender or spoke in the session."""
    if wanted.sender is not None:
        return notes_of_chat(journal, [*_rows(journal, group)], lambda of, turn: turn in conversations.said.get(of, ()))
    if wanted.session is not None:
        return notes_of_chat(journal, [*_rows(journal, group)], lambda of, turn: of == wanted.session)
    return []


def _said_by(row: Row) -> Iterator[str]:
    """Yield the texts of a change; of a change of notes, the texts before and after."""
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
    if wanted.id is not None and row.kind == "task_record":
        return _member(row.data, "task") == wanted.id
    return str(row.seq) == wanted.id or _is_wanted_file(row.group, row.file, wanted)


def _member(data: bytes, name: str) -> object:
    try:
        return orjson.loads(data).get(name)
    except (orjson.JSONDecodeError, AttributeError):
        return None


def _is_wanted_file(group: str, file: str, wanted: Forget) -> bool:
    if wanted.session is not None:
        document, log = session_file(group, wanted.session), turns_file(group, wanted.session)
        begins = (f"{document}.", f"{log}.", f"{session_folder(group, wanted.session)}/")
        return file in (document, log) or file.startswith(begins)
    return wanted.id is not None and file.startswith("groups/") and file.endswith(f"/{wanted.id}.json")
