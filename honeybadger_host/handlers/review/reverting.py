"""Reverts the changes of a proposal: memory, the summary, and the session's watermark.

The journal has the earlier content of each file. Later changes are merged with it, and stay where they conflict. If
the pass is not the session's newest, its turns are marked to be consolidated again.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import cast

from honeybadger_agent.wire import Refusal
from honeybadger_host.curation.proposal import Proposal
from honeybadger_host.curation.proposal_files import decided, proposal_file
from honeybadger_host.documents.history import removal_of, remove_notes
from honeybadger_host.documents.in_use import merged_as
from honeybadger_host.files.home import ARCHIVE, MEMORY
from honeybadger_host.handler_kinds import Outcome
from honeybadger_host.handlers.undo import change_to, content_before
from honeybadger_host.journal.changes import (
    NOTE_REMOVED,
    REMOVED,
    WHOLE_KINDS,
    Added,
    Change,
    WholeFiles,
    WholeKind,
)
from honeybadger_host.journal.reader import read_requests_of
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.entries.entry import name_in
from honeybadger_host.memory.markdown.archive import bring_back_notes, leave_archive
from honeybadger_host.memory.markdown.notes import standing_span
from honeybadger_host.memory.turn_log_store import Watermark, dump_watermark, mark_in, watermark_file

# Kinds of changes that are not reverted: HISTORY.md only grows, and returning notes leave the archive by themselves.
_KEPT = ("history", "proposal", "note_archived")
_FIELD = "payload.proposal"


def reverted(journal: Path, files: WholeFiles, proposal: Proposal, data: bytes | None, now: datetime) -> Outcome:
    """Return the opposite of each change of a proposal; later changes stay, and their files are named in the result.

    Args:
        data: the content of its file.
    Raises WorldFailed; Refusal if the journal no longer has the changes.
    """
    group = proposal.group
    if not any(each.state == "applied" for each in proposal.operations):
        raise Refusal("conflict", f"nothing of proposal {proposal.id} is applied", field=_FIELD)
    left = _KEPT if proposal.session is not None else (*_KEPT, "watermark")
    rows = read_requests_of(journal, proposal_file(group, proposal.id))[::-1]
    rows = [row for row in rows if row.kind not in left]
    if not rows:
        raise Refusal(
            "conflict",
            f"the journal no longer knows what proposal {proposal.id} changed; nothing was changed",
            field=_FIELD,
        )
    changes, kept = _notes(journal, files, group, rows)
    mark = mark_in(files.view(watermark_file(group, proposal.session or "")))
    texts: dict[tuple[str, str], bytes | None] = {}  # kind and name of a file -> its content without the pass
    for row in rows:
        if row.kind not in WHOLE_KINDS:
            continue
        before = content_before(journal, row, _FIELD)
        place = row.kind.removesuffix(REMOVED), row.file
        held = texts.get(place, files.view(row.file))
        if row.kind == "watermark":
            texts[place] = _moved_back(mark, before, proposal) if held is not None else None
        elif row.kind != "summary" or mark.proposal in ("", proposal.id):  # else a later pass wrote another summary
            after = None if row.kind.endswith(REMOVED) else row.data
            before = b"" if before is None and row.kind == "summary" else before
            texts[place] = _undone(row.file, before, after, held)
            if held not in (before, after):
                kept.append(row.file)
    moved = {name_in(file) for file in kept}
    for (kind, file), text in texts.items():
        held = files.view(file)
        is_elsewhere = held is None and name_in(file) in moved  # an entry that was moved, and changed since
        if text != held and not is_elsewhere:
            changes.append(change_to(group, file, held, text, cast(WholeKind, kind))[0])
    if proposal.session is not None:
        said = (
            f"[{now:%Y-%m-%d %H:%M}] (taken back: what was told of turns {proposal.first_turn}-{proposal.last_turn} of "
            f"{proposal.session})\n\n"
        )
        changes.append(Added.of("history", group, said.encode()))
    outcome = decided(proposal, {each.n: "struck" for each in proposal.operations}, data, changes)
    return replace(outcome, result={**outcome.result, "kept": kept})


def _notes(journal: Path, files: WholeFiles, group: str, rows: Sequence[Row]) -> tuple[list[Change], list[str]]:
    """Return the changes that remove added notes and restore removed ones, and MEMORY.md if a note was changed."""
    file = f"groups/{group}/{MEMORY}"
    held, archive = files.view(file) or b"", files.view(f"groups/{group}/{ARCHIVE}")
    found = [standing_span(held, row.data) for row in rows if row.kind == "note"]
    kept = [file] if None in found else []
    spans = sorted({span for span in found if span is not None})
    removed = [removal_of(journal, row) for row in rows if row.kind == NOTE_REMOVED]
    gone = [note for removal in removed for note in removal.notes]
    if not spans:
        return [*(bring_back_notes(group, held, archive, removed, gone) if gone else ())], kept
    back = [Added.of("note", group, b"\n" + note.strip(b"\r\n") + b"\n") for note in gone]
    return [remove_notes(group, file, held, spans), *back, *leave_archive(group, archive, gone)], kept


def _moved_back(mark: Watermark, before: bytes | None, proposal: Proposal) -> bytes:
    """Return the session's watermark before the pass, or with its turns marked to be consolidated again.

    Args:
        mark: the present one.
        before: the content of its file before the pass.
    """
    if mark.proposal in ("", proposal.id):
        return dump_watermark(mark_in(before).model_copy(update={"again": mark.again}))
    span = (proposal.first_turn or 0, proposal.last_turn or 0)
    return dump_watermark(mark.model_copy(update={"again": tuple(sorted({*mark.again, span}))}))


def _undone(file: str, before: bytes | None, after: bytes | None, held: bytes | None) -> bytes | None:
    """Return the content of a file without a change (None: no file); later changes stay.

    Args:
        before, after: the content before and after the change.
        held: the present content.
    """
    if held == after:
        return before
    if held is None or after is None or before is None:
        return held
    return merged_as(file, after, before, held)
