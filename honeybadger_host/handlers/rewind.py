"""`rewind`: the operator brings a group's files back to an earlier moment (docs/decisions/015-undo.md).

All of it is one request, so one commit: a kill leaves all or nothing. If the journal cannot bring back one of the
files, the request is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from honeybadger_agent.wire import MAX_NUMBER, Refusal, Rewind
from honeybadger_agent.wording import listed
from honeybadger_host.documents.history import read_past, version_at
from honeybadger_host.errors import JournalError, NotFound, WorldFailed
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.undo import change_to
from honeybadger_host.journal.changes import WholeFiles, WholeKind
from honeybadger_host.journal.line_hunks import hunks_between, lines_of
from honeybadger_host.journal.reader import read_changed_files, read_first, read_last
from honeybadger_host.journal.schema import LAST_SEQ
from honeybadger_host.memory.moments import moment_of
from honeybadger_host.memory.peoples_files import group_of, without_forgotten
from honeybadger_host.memory.turn_log_store import watermark_file
from honeybadger_host.text.time_stamps import time_stamp


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


def prepare_rewind(deps: Dependencies, asked: Asked[Rewind]) -> tuple[int, list[Back]]:
    """Return the number of the last change that stays, and the files that go back. Raises Refusal, WorldFailed."""
    to, journal = asked.payload.to, deps.journal.path
    try:
        seq = moment_of(to, journal, deps.ledger, asked.group, datetime.now(UTC)).seq
        _check_began(journal, asked.group, seq, to)
        return seq, _found(journal, deps.whole_files, asked.group, seq)
    except NotFound as error:
        raise Refusal("not_found", f"payload.to: {error}", field="payload.to") from None
    except ValueError as error:
        raise Refusal("invalid", f"payload.to: {error}", field="payload.to") from None
    except JournalError as error:
        raise WorldFailed(str(error)) from error


def rewind(deps: Dependencies, asked: Asked[Rewind], prepared: tuple[int, list[Back]], now: datetime) -> Outcome:
    seq, backs = prepared
    if late := [back.file for back in backs if deps.whole_files.view(back.file) != back.held]:
        raise _refused([f"{file} was changed just now: ask again" for file in late])
    done = [change_to(asked.group, back.file, back.held, back.wanted, back.kind) for back in backs]
    told = [_told(back, did) for back, (_, did) in zip(backs, done, strict=True)]
    changes = () if asked.payload.dry_run else tuple(change for change, _ in done)
    return Outcome({"to": min(seq, MAX_NUMBER), "files": told}, changes)


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
            continue
        if group_of(file) != group:
            continue
        held, past = files.load(file), read_past(journal, file)
        wanted, now = version_at(past, seq), version_at(past, LAST_SEQ)
        if not wanted.is_known:
            problems.append(f"how {file} was then is not known")
        elif not now.is_known or now.text != (held or b""):
            what = f"what {file} holds now is not in the journal"
            problems.append(f"{what}: it would be lost; an edit is noticed in seconds")
        else:
            kind: WholeKind = "entry" if file.endswith(".json") else "text"
            text = without_forgotten(group, file, wanted.text) if wanted.is_there else None
            backs.append(Back(file, kind, held, text))
    if problems:
        raise _refused(problems)
    return [back for back in backs if (back.held or None) != (back.wanted or None)]


def _told(back: Back, did: str) -> dict[str, Any]:
    hunks = hunks_between(lines_of(back.held or b""), lines_of(back.wanted or b""))
    added, removed = sum(len(hunk.added) for hunk in hunks), sum(len(hunk.removed) for hunk in hunks)
    return {"file": back.file, "did": did, "added": added, "removed": removed}


def _refused(problems: Sequence[str]) -> Refusal:
    return Refusal("conflict", f"{listed(problems, '; ')}; nothing was changed", field="payload.to")
