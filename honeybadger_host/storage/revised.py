"""Notes that leave a file people edit, come back into it, or change there (docs/decisions/026-removing-notes.md).

The file is replaced in one step, and only the very text that was read. The old file keeps a second, hidden name until
the change has settled: a program that opened it just before may save into it after that, and then its text counts.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal, NamedTuple

import orjson
import structlog

from honeybadger_host.domain import EDIT_UNDONE, NOTE_EDITED, NOTE_REMOVED, NOTE_RESTORED, NotesRevised
from honeybadger_host.errors import WorldFailed
from honeybadger_host.storage.atomic_files import fingerprint, read_whole
from honeybadger_host.storage.file_cache import signature_of
from honeybadger_host.storage.files import (
    NotRegular,
    Signature,
    alone_with,
    closing_fd,
    is_open_for_writing,
    open_plain,
    read_all,
    sync_folder,
    write_beside,
)
from honeybadger_host.storage.journal_schema import Row
from honeybadger_host.storage.line_hunks import Hunk, apply_hunks, lines_of

log = structlog.get_logger()

LINE_KINDS: Final = frozenset((EDIT_UNDONE, NOTE_EDITED))
"""Kinds of rows that say which lines took the place of which."""
REVISED_KINDS: Final = LINE_KINDS | {NOTE_REMOVED, NOTE_RESTORED}
"""Kinds of rows that take notes or lines out of a file or put them back; `Row.offset` is the fingerprint of what was
there."""


@dataclass(frozen=True, slots=True)
class NotePlace:
    """A note as it stands in a file, with the blank line before it.

    Args:
        at: its offset in the text that has it and all other notes of the same change.
        above: fingerprint of what stands above it where the notes of the change are not.
    """

    at: int
    text: str
    above: int = 0

    @property
    def data(self) -> bytes:
        return self.text.encode()


class Revision(NamedTuple):
    """What the journal keeps of a revision.

    Args:
        size: of the new text; `to` is its fingerprint.
        hunks: lines that took the place of others, of `LINE_KINDS`.
    """

    size: int
    to: int
    notes: list[NotePlace]
    hunks: Sequence[Hunk] = ()


# ------------------------------------------------------------------------------------------------------------- deciding


def remove_notes(group: str, file: str, base: bytes, spans: Sequence[tuple[int, int]]) -> NotesRevised:
    """Return the change that takes notes out of a file.

    Args:
        base: what the file holds.
        spans: begin and end of each note, in order, each apart from the others.
    Raises ValueError: a note is not UTF-8.
    """
    text = bytearray()
    notes: list[NotePlace] = []
    end = 0
    for begin, after in spans:
        text += base[end:begin]
        notes.append(NotePlace(begin, base[begin:after].decode(), fingerprint(bytes(text))))
        end = after
    text += base[end:]
    return _revised(group, file, base, bytes(text), notes, NOTE_REMOVED)


def restore_notes(group: str, file: str, base: bytes, removed: Sequence[NotePlace]) -> NotesRevised:
    """Return the change that puts notes back: at their places where all above is as it was, else at the end."""
    shifts = accumulate((len(note.data) for note in removed), initial=0)
    places = [note.at - shift for note, shift in zip(removed, shifts, strict=False)]
    text = bytearray()
    notes: list[NotePlace] = []
    last: list[NotePlace] = []
    end = 0
    for place, note in zip(places, removed, strict=True):
        if place < end or fingerprint(base[:place]) != note.above:
            last.append(note)
            continue
        text += base[end:place]
        notes.append(NotePlace(len(text), note.text, note.above))
        text += note.data
        end = place
    text += base[end:]
    for note in last:
        notes.append(NotePlace(len(text), note.text, fingerprint(base)))
        text += note.data
    return _revised(group, file, base, bytes(text), notes, NOTE_RESTORED)


def edit_note(group: str, file: str, base: bytes, span: tuple[int, int], note: bytes) -> NotesRevised:
    """Return the change that gives a note another text, in its place and with the blank lines around it.

    Args:
        span: of the note in `base`, see `remove_notes`.
        note: as it would be appended.
    Raises ValueError: a line is not UTF-8.
    """
    begin, end = base.rfind(b"\n", 0, span[0]) + 1, span[1]
    old = base[begin:end]
    new = old.replace(base[slice(*span)].strip(b"\r\n"), note.strip(b"\n"), 1)
    hunk = Hunk(base.count(b"\n", 0, begin), lines_of(old), lines_of(new))
    return put_back_lines(group, file, base, [hunk], NOTE_EDITED)


def put_back_lines(
    group: str,
    file: str,
    base: bytes,
    hunks: Sequence[Hunk],
    kind: Literal["edit_undone", "note_edited"] = EDIT_UNDONE,
) -> NotesRevised:
    """Return the change that lets lines take the place of others in a file that the host adds to.

    Args:
        hunks: of the lines of `base`.
    Raises ValueError: a line is not UTF-8.
    """
    text = b"".join(apply_hunks(lines_of(base), hunks))
    told = [[hunk.at, *([line.decode() for line in side] for side in hunk[1:])] for hunk in hunks]
    data = orjson.dumps({"size": len(text), "to": fingerprint(text), "notes": [], "hunks": told})
    return NotesRevised(group, file, base, text, data, kind)


def _revised(
    group: str,
    file: str,
    base: bytes,
    text: bytes,
    notes: Sequence[NotePlace],
    kind: Literal["note_removed", "note_restored"],
) -> NotesRevised:
    data = orjson.dumps({"size": len(text), "to": fingerprint(text), "notes": notes}, default=asdict)
    return NotesRevised(group, file, base, text, data, kind)


# ------------------------------------------------------------------------------------------------------ reading a row


def revision_of(data: bytes) -> Revision:
    """Return what a row says."""
    value = orjson.loads(data)
    hunks = [Hunk(at, *([line.encode() for line in side] for side in sides)) for at, *sides in value.get("hunks", ())]
    return Revision(value["size"], value["to"], [NotePlace(**note) for note in value["notes"]], hunks)


def count_notes(kind: str, data: bytes) -> Counter[bytes]:
    """Return how many more of each note, as it is appended, a row leaves in its file; fewer are negative."""
    sign = 1 if kind == NOTE_RESTORED else -1
    counts: Counter[bytes] = Counter()
    revision = revision_of(data)
    signed = [(note.data, sign) for note in revision.notes]
    for hunk in revision.hunks if kind == NOTE_EDITED else ():  # what a person took out was never counted
        signed += (b"".join(hunk.removed), -1), (b"".join(hunk.added), 1)
    for note, count in signed:
        counts[b"\n" + note.strip(b"\n") + b"\n"] += count
    return counts


def new_text(held: bytes, row: Row) -> bytes:
    """Return what a row makes of the text it was decided upon."""
    if row.kind in LINE_KINDS:
        return b"".join(apply_hunks(lines_of(held), revision_of(row.data).hunks))
    for note in revision_of(row.data).notes[:: 1 if row.kind == NOTE_RESTORED else -1]:
        if row.kind == NOTE_RESTORED:
            held = held[: note.at] + note.data + held[note.at :]
        else:
            held = held[: note.at] + held[note.at + len(note.data) :]
    return held


# -------------------------------------------------------------------------------------------------------------- writing


def sync_base(path: Path, base: bytes) -> None:
    """See that a file holds what a revision was decided upon, durably. Raises WorldFailed; nothing was changed."""
    if read_whole(path) != base:
        raise WorldFailed(f"{path} was changed meanwhile")
    if is_open_for_writing(path):
        raise WorldFailed(f"{path} is open for writing in another program")
    try:
        fd, _ = open_plain(path)
        with closing_fd(fd):
            os.fsync(fd)
    except (OSError, NotRegular) as error:
        raise WorldFailed(f"cannot make {path} durable: {error}") from error


def revise(path: Path, row: Row) -> Signature | None:
    """Give a file the text that a row makes of it; None: it has it, or somebody's, which stays. Raises WorldFailed.

    Durable when it returns: the journal does not have the rest of the text.
    """
    kept = _kept(path, row)
    try:
        if kept.exists():
            if not kept.samefile(path):
                return None  # it was done before the host was killed
            kept.unlink()
        fd, status = open_plain(path)
    except (FileNotFoundError, NotADirectoryError, NotRegular):
        return None
    except OSError as error:
        raise WorldFailed(f"{path} cannot be read ({error.strerror})") from error
    try:
        held = read_all(fd, status.st_size)
        if fingerprint(held) != row.offset or is_open_for_writing(path):
            revision = revision_of(row.data)
            if fingerprint(held[: revision.size]) != revision.to:
                log.info("projection.kept", file=row.file, seq=row.seq, why="somebody changed it meanwhile")
            return None
        temporary = write_beside(path, new_text(held, row), mode=stat.S_IMODE(status.st_mode) & 0o777)
        try:
            with alone_with(fd):
                if signature_of(path) != Signature.of(status):
                    log.info("projection.kept", file=row.file, seq=row.seq, why="somebody changed it meanwhile")
                    return None
                with contextlib.suppress(OSError):  # where a file can have one name only, it has one
                    os.link(path, kept, follow_symlinks=False)
                os.rename(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
        return signature_of(path)
    except OSError as error:
        raise WorldFailed(f"cannot write {path}: {error.strerror}") from error
    finally:
        os.close(fd)


def take_late_save(path: Path, row: Row, behind: bytes) -> Literal["no", "perhaps", "yes"]:
    """Give a file what a program saved into its old text after a row replaced it. Raises WorldFailed.

    Returns "perhaps": a program has the old text open.

    Args:
        behind: what the host appended since.
    """
    kept = _kept(path, row)
    beside = kept.with_name(f"{kept.name}.new")
    try:
        if beside.exists():  # a kill left it
            beside.unlink() if kept.exists() else os.rename(beside, kept)
        if not kept.exists():
            return "no"
        is_same = path.exists() and kept.samefile(path)
        if not is_same and is_open_for_writing(kept):
            return "perhaps"
        held, revision = read_whole(kept) or b"", revision_of(row.data)  # nobody can write to it any more
        rest = held[revision.size :]
        is_ours = fingerprint(held[: revision.size]) == revision.to and behind.startswith(rest)
        if is_same or is_ours or fingerprint(held) == row.offset:
            kept.unlink()
            return "no"
        now_held = read_whole(path) or b""
        if fingerprint(now_held[: revision.size]) != revision.to or now_held[revision.size :] != behind:
            aside = path.with_name(f"{path.stem}, saved over change {row.seq}{path.suffix}")
            log.warning("projection.set_aside", file=row.file, seq=row.seq, to=aside.name)
            os.rename(kept, aside)
            return "no"
        os.link(path, beside, follow_symlinks=False)  # somebody may have opened this one just now
        os.rename(kept, path)
        os.rename(beside, kept)
    except OSError as error:
        raise WorldFailed(f"cannot write {path}: {error.strerror}") from error
    log.info("projection.kept", file=row.file, seq=row.seq, why="somebody saved it meanwhile")
    return "yes"


def _kept(path: Path, row: Row) -> Path:
    """Return the second name of what a row replaced."""
    return path.with_name(f".{path.name}.before-{row.seq}")
