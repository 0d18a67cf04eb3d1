"""The files of a home that are searched, and the pieces of text in each.

Entries, the notes of MEMORY.md, the paragraphs of HISTORY.md, the turns of every session, its facts and tasks. People
may edit all of them: a malformed file is reported, and the others stay searchable.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from honeybadger_agent.mailbox import HUMAN, NAME
from honeybadger_host.domain import MEMORY
from honeybadger_host.memory.compaction import digest
from honeybadger_host.memory.entry import marks_of, parse_entry
from honeybadger_host.memory.labels import folded
from honeybadger_host.memory.notes import SIGNED, parse_notes
from honeybadger_host.memory.session_document import parse_document
from honeybadger_host.memory.turn_log import parse_turn
from honeybadger_host.search.documents import Kind
from honeybadger_host.search.hashes import Hashes
from honeybadger_host.storage.files import BOM, NotRegular, Signature, closing_fd, open_plain

HISTORY: Final = "HISTORY.md"
_DATED: Final = re.compile(r"\[?(\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d)?)\b")
"""The date of an entry of HISTORY.md, with or without brackets."""
_ENTRIES: Final = re.compile(r"\n\s*\n|\n(?=(?:#+ |[-*] )?\[?\d{4}-\d\d-\d\d\b)")
"""Separates two entries of HISTORY.md: a blank line, or the line end before a line that begins with a date."""
_BLOCK: Final = 1 << 20
_DEEPEST: Final = 9
"""Levels of folders that are scanned: one more than a category has, so that files too deep are reported."""


class Source(NamedTuple):
    """A file that is searched.

    Args:
        file: below the home folder.
        session: of a log of turns, else empty.
    """

    file: str
    kind: Kind
    group: str
    session: str = ""


class Piece(NamedTuple):
    """A part of a file that can be found on its own.

    Args:
        key: an entry's id, a turn's number, a note's hash (with a number when the note occurs twice).
        at: seconds since the epoch, UTC; None when the file does not say.
        names: other words it is found by: title, name, aliases.
        known_by: an entry's text after `labels.folded`.
        name, title: of an entry.
        marks: what else an entry knows of itself, as members to show; JSON, or empty.
        until: until when an entry is valid, seconds since the epoch.
    """

    key: str
    text: str
    at: float | None = None
    author: str = ""
    role: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    known_by: str = ""
    name: str = ""
    title: str = ""
    marks: str = ""
    until: float | None = None


class Unsearchable(Exception):
    """A file whose content is malformed; the message says how."""


def source_of(file: str) -> Source | None:
    """Return the source for a file below the home folder; None when it is not searched."""
    if not (file.isascii() or _is_text(file)):
        return None  # neither the database nor a reply can hold the name; `doctor` reports it
    match file.split("/"):
        case ["groups", group, "memory", *_, name] if name.endswith(".json") and not name.startswith("."):
            return Source(file, "entry", group)
        case ["groups", group, "archive", "memory", *_, name] if name.endswith(".json") and not name.startswith("."):
            return Source(file, "entry", archive_of(group))
        case ["groups", group, "archive", name] if name == MEMORY:
            return Source(file, "note", archive_of(group))
        case ["groups", group, name] if name == MEMORY:
            return Source(file, "note", group)
        case ["groups", group, name] if name == HISTORY:
            return Source(file, "history", group)
        case ["data", "sessions", group, name] if name.endswith(".jsonl") and not name.startswith("."):
            return Source(file, "turn", group, name.removesuffix(".jsonl"))
        case ["data", "context", group, name] if name.endswith(".json") and not name.startswith("."):
            return Source(file, "session", group)
        case _:
            return None


def archive_of(group: str) -> str:
    """Return the group that the archive of a group is for the index: what is there is found only when asked for."""
    return f"{group}/archive"


def is_archive(group: str) -> bool:
    """Return whether a group of the index is the archive of one."""
    return "/" in group


def files_called(group: str, name: str) -> list[str]:
    """Return the files whose parts are called `name#key`; the name is a file's, or the session of a log."""
    files = [f"groups/{group}/{name}", f"data/context/{group}/{name}", f"data/sessions/{group}/{name}.jsonl"]
    return [file for file in files if source_of(file) is not None]


def sources(home: Path, group: str, folders: set[str]) -> Iterator[tuple[Source, Signature]]:
    """Yield every searched file of a group with its signature. Folders that cannot be listed are skipped.

    Args:
        folders: filled with the folders of entries, below the home folder.
    """
    for name in (MEMORY, HISTORY):
        yield from _look(home, f"groups/{group}/{name}")
    yield from _walk(home, f"data/sessions/{group}", None)
    yield from _walk(home, f"data/context/{group}", None)
    yield from _walk(home, f"groups/{group}/memory", folders)


def groups_of(home: Path) -> list[str]:
    """Return the groups that have anything to search, sorted; their archives behind them."""
    found: set[str] = set()
    for folder in ("groups", "data/sessions", "data/context"):
        try:
            with os.scandir(home / folder) as entries:
                found |= {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        except OSError:
            continue
    names = sorted(name for name in found if NAME.fullmatch(name))
    return [*names, *(archive_of(name) for name in names if (home / "groups" / name / "archive").is_dir())]


def _walk(
    home: Path, folder: str, folders: set[str] | None, levels: int = _DEEPEST
) -> Iterator[tuple[Source, Signature]]:
    """Yield the files of a folder; also those below it, when `folders` is given to collect the folders' names."""
    try:
        entries = os.scandir(home / folder)
    except OSError:
        return
    if folders is not None:
        folders.add(folder)
    with entries:
        for entry in entries:
            file = f"{folder}/{entry.name}"
            try:
                if entry.is_dir(follow_symlinks=False):
                    if folders is not None and levels and not entry.name.startswith("."):
                        yield from _walk(home, file, folders, levels - 1)
                elif entry.name.endswith((".json", ".jsonl")) and (source := source_of(file)) is not None:
                    yield source, Signature.of(entry.stat(follow_symlinks=False))
            except OSError:
                continue  # removed meanwhile


def _is_text(name: str) -> bool:
    """Return whether a file's name is UTF-8; Python decodes other bytes to surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _look(home: Path, file: str) -> Iterator[tuple[Source, Signature]]:
    source = source_of(file)
    try:
        status = os.stat(home / file, follow_symlinks=False)
    except OSError:
        return
    if source is not None:
        yield source, Signature.of(status)


def read_source(
    home: Path | str, file: str, *, most_bytes: int, start: int = 0, is_cut: bool = False
) -> tuple[bytes, Signature] | None:
    """Return a file's bytes from `start` and its signature; None when the file does not exist.

    Args:
        is_cut: return only the first `most_bytes` of a larger file.
    Raises:
        Unsearchable: it is not a plain file, or it is larger than `most_bytes`.
        OSError: the world failed.
    """
    try:
        fd, status = open_plain(f"{home}/{file}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotRegular as error:
        raise Unsearchable(f"is {error}, and the host reads plain files only") from None
    with closing_fd(fd):
        end = status.st_size
        if end - start > most_bytes:
            if not is_cut:
                raise Unsearchable(f"has {status.st_size} bytes, the limit is {most_bytes}")
            end = start + most_bytes
        parts: list[bytes] = []
        at = start
        while at < end and (part := os.pread(fd, min(_BLOCK, end - at), at)):
            parts.append(part)
            at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts), Signature.of(status)


def pieces_of(source: Source, data: bytes, signature: Signature, seen: Hashes | None = None) -> list[Piece]:
    """Return the pieces of a whole file, in order. Raises Unsearchable.

    Args:
        seen: of notes, how often each occurs before `data`, see `hash_of`.
    """
    if source.kind == "entry":
        return [_entry(source, data, signature)]
    if source.kind == "session":
        return _numbered(_told(source, data), seen)
    try:
        text = data.removeprefix(BOM).decode()
    except UnicodeDecodeError:
        raise Unsearchable("is not UTF-8: save it as UTF-8") from None
    return _numbered(_notes(text) if source.kind == "note" else _paragraphs(text), seen)


def end_of_part(data: bytes, kind: Kind, most_bytes: int, *, is_end: bool) -> int:
    """Return how many bytes to take at once, so that a note or paragraph is cut only when it fills them all.

    Args:
        most_bytes: the limit, unless the first note or paragraph is longer.
        is_end: nothing follows them.
    """
    if is_end and len(data) <= most_bytes:
        return len(data)
    marks, length = ((b"\n## ",), 1) if kind == "note" else ((b"\n\n", b"\n\r\n"), 2)
    ends = [at + length for mark in marks if (at := data.rfind(mark, 0, most_bytes)) > 0]
    ends = ends or [at + length for mark in marks if (at := data.find(mark, max(0, most_bytes - len(mark)))) > 0]
    if ends or is_end:
        return max(ends, default=len(data))
    end = data.rfind(b"\n") + 1 or len(data)
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1  # not within a character
    return end


def last_note(data: bytes) -> int:
    """Return where the last note of a MEMORY.md begins; 0 when there is none, or nothing before it."""
    return data.rfind(b"\n## ") + 1


def as_found(note: str) -> tuple[str, str]:
    """Return author and text of a note of a file as search finds them; one without a heading is a person's."""
    piece, *_ = _notes(note)
    return piece.author or HUMAN, piece.text


def hash_of(key: str) -> bytes:
    """Return a note's key without the number that tells equal notes apart, as 8 bytes."""
    return bytes.fromhex(f"{key.partition('-')[0]:0<16}")


def turns_of(data: bytes) -> tuple[list[Piece], int, int]:
    """Return the turns of a part of a log, how many bytes are whole lines, and how many of these are not turns."""
    whole = data.rfind(b"\n") + 1
    pieces: list[Piece] = []
    skipped = 0
    for line in data[:whole].split(b"\n"):
        if not line.strip():
            continue
        try:
            turn = parse_turn(line)
        except ValueError:
            skipped += 1
            continue
        pieces.append(Piece(str(turn.number), turn.content, turn.at.timestamp(), author=turn.sender, role=turn.role))
    return pieces, whole, skipped


def _entry(source: Source, data: bytes, signature: Signature) -> Piece:
    try:
        entry = parse_entry(data, source.file)
    except ValueError as error:
        raise Unsearchable(str(error)) from None
    at = entry.updated or entry.created
    return Piece(
        entry.id,
        entry.content,
        signature.mtime_ns / 1e9 if at is None else at.timestamp(),
        author=entry.by or "",
        category=entry.category,
        tags=entry.tags,
        names=tuple(name for name in (entry.title, entry.name, *entry.aliases) if name),
        known_by=folded(entry.content),
        name=entry.name or "",
        title=entry.title or "",
        marks=orjson.dumps(marks).decode() if (marks := marks_of(entry)) else "",
        until=None if entry.standing.valid_until is None else entry.standing.valid_until.timestamp(),
    )


def _told(source: Source, data: bytes) -> Iterator[Piece]:
    """Yield what a session document says besides its messages, which are in the log."""
    try:
        document = parse_document(data, "")
    except ValueError as error:
        raise Unsearchable(str(error)) from None
    told = digest(document)
    for fact in told.facts:
        yield Piece("", fact)
    if told.prose:
        yield Piece("", "\n".join(told.prose))
    for task in document.active_tasks:
        yield Piece("", task.description, float(task.updated_at), names=(task.id,))


def _notes(text: str) -> Iterator[Piece]:
    book = parse_notes(text)
    if book.preface.strip():
        yield Piece("", book.preface.strip())
    for place, note in enumerate(book.notes):
        if (above := book.above(place)) is not None:
            yield Piece("", note.strip(), author=HUMAN, names=(above.section,))
            continue
        heading, _, body = note.strip().partition("\n")
        signed = SIGNED.fullmatch(heading)
        section = signed["section"] if signed else heading.removeprefix("## ").strip()
        yield Piece(
            "",
            body.strip() or section,
            _seconds(signed["at"]) if signed else None,
            author=signed["author"] if signed else "",
            names=(section,),
        )


def _paragraphs(text: str) -> Iterator[Piece]:
    for paragraph in _ENTRIES.split(text):
        if paragraph.strip():
            dated = _DATED.search(paragraph)
            yield Piece("", paragraph.strip(), _seconds(dated[1].replace("T", " ")) if dated else None)


def _numbered(pieces: Iterator[Piece], before: Hashes | None) -> list[Piece]:
    """Return the pieces, each with a key that stays the same when others come or go."""
    seen: Counter[str] = Counter()
    named: list[Piece] = []
    for piece in pieces:
        what = "\0".join((piece.text, *piece.names, str(piece.at), piece.author))
        key = hashlib.sha256(what.encode()).hexdigest()[:12]
        if before is not None and key not in seen:
            seen[key] = before.get(hash_of(key))
        seen[key] += 1
        if seen[key] > 1:
            key = f"{key}-{seen[key]}"
        named.append(piece._replace(key=key))
    return named


def _seconds(at: str) -> float | None:
    try:
        return datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
