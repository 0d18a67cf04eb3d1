"""Divides a searched file into pieces, each of which is found separately, as a document of the index.

An entry, a note of MEMORY.md, a paragraph of HISTORY.md, a turn, a fact or a task of a session. People may edit all of
these files: a malformed one is reported, and the others stay searchable.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import orjson

from honeybadger_agent.mailbox import HUMAN
from honeybadger_agent.wire import is_store
from honeybadger_host.files.safe_files import Signature
from honeybadger_host.memory.compaction import digest
from honeybadger_host.memory.entries.entry import marks_of, parse_entry
from honeybadger_host.memory.markdown.notes import PREFACE, SIGNED, parse_notes
from honeybadger_host.memory.session_document import parse_document
from honeybadger_host.memory.turn_log import Mark, parse_mark, parse_turn
from honeybadger_host.search.documents import Kind, Piece
from honeybadger_host.search.language.analyzer import document_terms, entry_terms
from honeybadger_host.search.sources import Source, Unsearchable
from honeybadger_host.text.json_values import BOM
from honeybadger_host.text.time_stamps import time_in
from honeybadger_host.text.turn import Turn

# The date of an entry of HISTORY.md, with or without brackets.
_DATED = re.compile(r"\[?(\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d)?)\b")
# Separates two entries of HISTORY.md: a blank line, or the line end before a line that begins with a date.
_ENTRIES = re.compile(r"\n\s*\n|\n(?=(?:#+ |[-*] )?\[?\d{4}-\d\d-\d\d\b)")


def pieces_of(source: Source, data: bytes, signature: Signature, seen: Mapping[str, int] | None = None) -> list[Piece]:
    """Return the pieces of a whole file, in order. Raises Unsearchable.

    Args:
        seen: of notes, how often each occurs before `data`, see `Grown`.
    """
    if source.kind == "entry":
        return [_entry_piece(source, data, signature)]
    if source.kind == "session":
        return _numbered(_session_pieces(source, data), seen)
    try:
        text = data.removeprefix(BOM).decode()
    except UnicodeDecodeError:
        raise Unsearchable("is not UTF-8: save it as UTF-8") from None
    return _numbered(_note_pieces(text) if source.kind == "note" else _history_pieces(text), seen)


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


def as_found(note: str) -> tuple[str, str]:
    """Return author and text of a note of a file as search finds them; one without a heading is a person's."""
    piece, *_ = _note_pieces(note)
    return piece.author or HUMAN, piece.text


def turns_of(data: bytes) -> tuple[list[Piece | Mark], int, int]:
    """Return the turns of a part of a log and what withdraws or restores turns, in order, how many bytes are whole
    lines, and how many of these are neither.
    """
    whole = data.rfind(b"\n") + 1
    pieces: list[Piece | Mark] = []
    skipped = 0
    for line in data[:whole].split(b"\n"):
        if not line.strip():
            continue
        if (mark := parse_mark(line)) is not None:
            pieces.append(mark)
            continue
        try:
            pieces.append(turn_piece(parse_turn(line)))
        except ValueError:
            skipped += 1
    return pieces, whole, skipped


def turn_piece(turn: Turn) -> Piece:
    return Piece(str(turn.number), turn.content, turn.at.timestamp(), author=turn.shown_name, role=turn.role)


def _entry_piece(source: Source, data: bytes, signature: Signature) -> Piece:
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
        name=entry.name or "",
        title=entry.title or "",
        marks=orjson.dumps(marks).decode() if (marks := marks_of(entry)) else "",
        until=None if entry.valid_until is None else entry.valid_until.timestamp(),
    )


def _session_pieces(source: Source, data: bytes) -> Iterator[Piece]:
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


def _note_pieces(text: str) -> Iterator[Piece]:
    book = parse_notes(text)
    for place in book.places:
        if place == PREFACE:
            yield Piece("", book.preface.strip())
            continue
        note = book.notes[place]
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


def _history_pieces(text: str) -> Iterator[Piece]:
    for paragraph in _ENTRIES.split(text):
        if paragraph.strip():
            dated = _DATED.search(paragraph)
            yield Piece("", paragraph.strip(), _seconds(dated[1]) if dated else None)


def _numbered(pieces: Iterator[Piece], before: Mapping[str, int] | None) -> list[Piece]:
    """Return the pieces, each with a key that stays the same when others come or go."""
    seen: Counter[str] = Counter()
    named: list[Piece] = []
    for piece in pieces:
        what = "\0".join((piece.text, *piece.names, str(piece.at), piece.author))
        key = hashlib.sha256(what.encode()).hexdigest()[:12]
        if before is not None and key not in seen:
            seen[key] = before.get(key, 0)
        seen[key] += 1
        if seen[key] > 1:
            key = f"{key}-{seen[key]}"
        named.append(piece._replace(key=key))
    return named


def _seconds(text: str) -> float | None:
    at = time_in(text)
    return None if at is None else at.timestamp()


def terms_of(kind: Kind, piece: Piece) -> list[str]:
    """Return the terms by which a piece of a file is found; a program's document has none."""
    if is_store(piece.category):
        return []
    if kind == "entry":
        return entry_terms(piece.text, piece.category, (*piece.names, *piece.tags))
    return document_terms("\n".join((*piece.names, piece.text)))


def digest_of(piece: Piece) -> bytes:
    """Return a digest of all that a file says of a piece."""
    what = (
        piece.key,
        piece.text,
        str(piece.at),
        piece.author,
        piece.role,
        piece.category,
        *piece.tags,
        "",
        *piece.names,
        *([piece.marks] if piece.marks else []),
    )
    return hashlib.sha256("\0".join(what).encode("utf-8", "surrogatepass")).digest()[:16]
