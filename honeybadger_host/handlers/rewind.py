"""`rewind`: the operator brings a group's files back to an earlier moment (docs/decisions/015-undo.md).

All of it is one request, so one commit: a kill leaves all or nothing. If the journal cannot bring back one of the
files, the request is refused.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from honeybadger_agent.wire import MAX_NUMBER, Refusal, Rewind
from honeybadger_agent.wording import listed
from honeybadger_host.documents.history import read_past, version_at
from honeybadger_host.errors import NotFound
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.undo import change_to
from honeybadger_host.journal.changes import Change, WholeFiles, WholeKind
from honeybadger_host.journal.line_hunks import hunks_between, lines_of
from honeybadger_host.journal.reader import read_changed_files, read_first, read_last
from honeybadger_host.journal.schema import LAST_SEQ
from honeybadger_host.memory.moments import moment_of
from honeybadger_host.memory.peoples_files import group_of, without_forgotten
from honeybadger_host.memory.turn_log_store import watermark_file
from honeybadger_host.text.time_stamps import time_stamp

# The change that brings a file back, and its row in the reply.
_Back: TypeAlias = tuple[Change, dict[str, Any]]


def rewind(deps: Dependencies, asked: Asked[Rewind], now: datetime) -> Outcome:
    """Bring the files of a group back. Raises Refusal, JournalError."""
    to, journal = asked.payload.to, deps.journal.path
    try:
        seq = moment_of(to, journal, deps.ledger, asked.group, now).seq
        _check_began(journal, asked.group, seq, to)
        backs = _found(journal, deps.whole_files, asked.group, seq)
    except NotFound as error:
        raise Refusal("not_found", f"payload.to: {error}", field="payload.to") from None
    except ValueError as error:
        raise Refusal("invalid", f"payload.to: {error}", field="payload.to") from None
    result = {"to": min(seq, MAX_NUMBER), "files": [row for _, row in backs]}
    return Outcome(result, () if asked.payload.dry_run else tuple(change for change, _ in backs))


def _check_began(journal: Path, group: str, seq: int, to: str) -> None:
    """Raise Refusal if a moment is before the first change of a group; only `0` asks for that."""
    first = read_first(journal, group)
    if to != "0" and first is not None and seq < first[0]:
        when = time_stamp(datetime.fromtimestamp(first[1] / 1000, UTC))
        raise Refusal(
            "invalid",
            f"payload.to: {group} was empty then: its first change is {first[0]}, of {when}; 0 empties it again",
            field="payload.to",
        )


def _found(journal: Path, files: WholeFiles, group: str, seq: int) -> list[_Back]:
    """Return what brings back the files that changed since a moment. Raises Refusal if one cannot be brought back."""
    changed = read_changed_files(journal, group, seq, LAST_SEQ)
    marks = watermark_file(group, "").rpartition("/")[0]
    backs: list[_Back] = []
    problems: list[str] = []
    for file in changed:
        if file.startswith(f"{marks}/"):  # else turns that are no longer summarised would not be replayed
            backs += _back(group, file, files.view(file), read_last(journal, file, seq), "watermark")
            continue
        if group_of(file) != group:
            continue
        held, past = files.view(file), read_past(journal, file)
        wanted, now = version_at(past, seq), version_at(past, LAST_SEQ)
        if not wanted.is_known:
            problems.append(f"how {file} was then is not known")
        elif not now.is_known or now.text != (held or b""):
            problems.append(
                f"what {file} holds now is not in the journal: it would be lost; an edit is noticed in seconds"
            )
        else:
            text = without_forgotten(group, file, wanted.text) if wanted.is_there else None
            backs += _back(group, file, held, text, "entry" if file.endswith(".json") else "text")
    if problems:
        raise Refusal("conflict", f"{listed(problems, '; ')}; nothing was changed", field="payload.to")
    return backs


def _back(group: str, file: str, held: bytes | None, wanted: bytes | None, kind: WholeKind) -> list[_Back]:
    """Return what brings one file back, unless it is as it was.

    Args:
        held, wanted: its content now and after the rewind; None: there is no file.
    """
    if (held or None) == (wanted or None):
        return []
    change, did = change_to(group, file, held, wanted, kind)
    hunks = hunks_between(lines_of(held or b""), lines_of(wanted or b""))
    added, removed = sum(len(hunk.added) for hunk in hunks), sum(len(hunk.removed) for hunk in hunks)
    return [(change, {"file": file, "did": did, "added": added, "removed": removed})]
