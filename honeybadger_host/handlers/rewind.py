"""`rewind`: the operator brings a group's files back to what they held at an earlier moment, by new changes.

All of it is one request, so one commit: a kill leaves all or nothing. If the journal cannot bring back one of the
files, the request is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from honeybadger_agent.wire import Refusal, Rewind
from honeybadger_agent.wording import listed
from honeybadger_host.documents.history import read_past, version_at
from honeybadger_host.documents.revising import revise
from honeybadger_host.errors import JournalError, NotFound, WorldFailed
from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome
from honeybadger_host.handlers.undo_edits import APPENDED, TEXT
from honeybadger_host.journal.atomic_files import WholeFiles
from honeybadger_host.journal.changes import EDIT_UNDONE, Added, Change, FileRemoved, FileWritten, WholeKind
from honeybadger_host.journal.line_hunks import hunks_between, lines_of
from honeybadger_host.journal.reader import read_changed_files, read_first, read_last
from honeybadger_host.journal.schema import LAST_SEQ
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.moments import moment_of
from honeybadger_host.memory.peoples_files import group_of
from honeybadger_host.memory.watermarks import watermark_file
from honeybadger_host.text.time_stamps import time_stamp

MAX_FILES = 5000  # files of one rewind at most: all are in memory and in one commit


@dataclass(frozen=True, slots=True)
class Back:
    """A file that goes back.

    Args:
        held, wanted: its content now and after the rewind; None: there is no file.
    """

    file: str
    kind: WholeKind
    held: bytes | None
    wanted: bytes | None


def rewind(journal: Path, ledger: InjectionLedger, files: WholeFiles) -> ChangeHandler[tuple[int, list[Back]]]:
    def prepare(asked: Asked) -> tuple[int, list[Back]]:
        payload: Rewind = asked.payload
        try:
            seq = moment_of(payload.to, journal, ledger, asked.group, datetime.now(UTC)).seq
            _check_began(journal, asked.group, seq, payload.to)
            return seq, _found(journal, files, asked.group, seq)
        except NotFound as error:
            raise Refusal("not_found", f"payload.to: {error}", field="payload.to") from None
        except ValueError as error:
            raise Refusal("invalid", f"payload.to: {error}", field="payload.to") from None
        except JournalError as error:
            raise WorldFailed(str(error)) from error

    def decide(asked: Asked, prepared: tuple[int, list[Back]], now: datetime) -> Outcome:
        payload: Rewind = asked.payload
        seq, backs = prepared
        if late := [back.file for back in backs if files.view(back.file) != back.held]:
            raise _refused([f"{file} was changed just now: ask again" for file in late])
        changes = [_change(asked.group, back) for back in backs]
        told = {"to": min(seq, (1 << 53) - 1), "files": [_told(back) for back in backs]}
        return Outcome(told, () if payload.dry_run else tuple(changes))

    return ChangeHandler(decide, prepare)


def _check_began(journal: Path, group: str, seq: int, to: str) -> None:
    """Raise Refusal if a moment is before the first change of a group; only `0` asks for that."""
    first = read_first(journal, group)
    if to != "0" and first is not None and seq < first[0]:
        when = time_stamp(datetime.fromtimestamp(first[1] / 1000, UTC))
        why = f"{group} was empty then: its first change is {first[0]}, of {when}; 0 empties it again"
        raise Refusal("invalid", f"payload.to: {why}", field="payload.to")


def _found(journal: Path, files: WholeFiles, group: str, seq: int) -> list[Back]:
    """Return the files that changed since a moment. Raises Refusal if one of them cannot be brought back."""
    changed = read_changed_files(journal, group, seq, LAST_SEQ)
    marks = watermark_file(group, "").rpartition("/")[0]
    backs: list[Back] = []
    problems: list[str] = []
    for file in changed:
        if file.startswith(f"{marks}/"):  # else turns that are no longer summarised would not be replayed
            backs.append(Back(file, "watermark", files.load(file), read_last(journal, file, seq)))
        elif group_of(file) == group:
            backs += _persons_file(journal, files.load(file), file, seq, problems)
    backs = [back for back in backs if (back.held or None) != (back.wanted or None)]
    if len(backs) > MAX_FILES:
        problems.append(f"{len(backs)} files would change, and {MAX_FILES} are the most: go back in steps, or restore")
    if problems:
        raise _refused(problems)
    return backs


def _persons_file(journal: Path, held: bytes | None, file: str, seq: int, problems: list[str]) -> Iterator[Back]:
    past = read_past(journal, file)
    wanted, now = version_at(past, seq), version_at(past, LAST_SEQ)
    if not wanted.is_known:
        problems.append(f"how {file} was then is not known")
    elif not now.is_known or now.text != (held or b""):
        problems.append(f"what {file} holds now is not in the journal: it would be lost; an edit is noticed in seconds")
    else:
        text = wanted.text if wanted.is_there else None
        yield Back(file, "entry" if file.endswith(".json") else TEXT, held, text)


def _change(group: str, back: Back) -> Change:
    """Return the change that brings a file back. Raises Refusal."""
    name = back.file.removeprefix(f"groups/{group}/")
    if name in APPENDED and back.held is not None:
        return revise(group, back.file, back.held, back.wanted or b"", EDIT_UNDONE)
    if back.wanted is None:
        return FileRemoved(group, back.kind, back.file, back.held or b"")
    if name in APPENDED:
        return Added.of(APPENDED[name], group, back.wanted)
    return FileWritten(group, back.kind, back.file, back.wanted, back.held)


def _told(back: Back) -> dict[str, Any]:
    did = "restored" if back.held is None else "put_back"
    if back.wanted is None:
        did = "removed"
    hunks = hunks_between(lines_of(back.held or b""), lines_of(back.wanted or b""))
    added, removed = sum(len(hunk.added) for hunk in hunks), sum(len(hunk.removed) for hunk in hunks)
    return {"file": back.file, "did": did, "added": added, "removed": removed}


def _refused(problems: Sequence[str]) -> Refusal:
    return Refusal("conflict", f"{listed(problems, '; ')}; nothing was changed", field="payload.to")
