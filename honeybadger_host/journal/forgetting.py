"""Finds a text to forget in the journal, and takes it out of there.

A row keeps its place, author and time. Its texts, and those of people's edits, become `[forgotten]` line by line, so
that the history of a file can be followed as before; digests of what held them go. Receipts stay, and what a reply
quoted goes from them.
"""

import hashlib
import re
import secrets
import sqlite3
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from honeybadger_host.files.safe_files import Signature
from honeybadger_host.journal.changes import WHOLE_KINDS
from honeybadger_host.journal.edits import (
    FORGOTTEN_DIGEST,
    LINE_KINDS,
    Looked,
    Seen,
    digest_of,
    insert_texts,
    packed_line,
    unpacked_line,
    write_looked,
)
from honeybadger_host.journal.schema import (
    EDIT_KINDS,
    FORGOTTEN_BASE,
    IS_EDIT,
    TurnKey,
    read_meta,
    read_rows,
    reading,
)
from honeybadger_host.text.phrases import FORGOTTEN, Phrases, folded

_SALT = "salt"  # in `meta`: what makes a digest of this home worthless to guess from elsewhere
_WORD = re.compile(r"\w+")
_ALL = 0  # for the number of words: the text is nothing else
_MIN_WORDS = 4


@dataclass(frozen=True, slots=True)
class Tombstones:
    """The forgotten texts of a group.

    Args:
        digests: digests of runs of words, by their number of words.
    """

    salt: bytes
    digests: Mapping[int, frozenset[bytes]]

    def knows(self, text: str) -> bool:
        """Return whether a text says, word for word, something that was forgotten."""
        return self.says_only(text) or next(self.found_in(text), None) is not None

    def says_only(self, text: str) -> bool:
        """Return whether a text is, word for word, what a record said that was forgotten."""
        known = self.digests.get(_ALL)
        return known is not None and salted(self.salt, " ".join(_words(text)).encode()) in known

    def found_in(self, text: str) -> Iterator[str]:
        """Yield the places of a text, `folded`, that say something that was forgotten wherever it is said."""
        text = folded(text) if self.digests else ""
        words = [*_WORD.finditer(text)]
        for count, known in self.digests.items():
            for at in range(len(words) - count + 1) if count != _ALL else ():
                some = words[at : at + count]
                if salted(self.salt, " ".join(word[0] for word in some).encode()) in known:
                    yield text[some[0].start() : some[-1].end()]


def _words(text: str) -> list[str]:
    return _WORD.findall(folded(text))


def salted(salt: bytes, data: bytes) -> bytes:
    """Return the digest by which something is known again."""
    return hashlib.sha256(salt + data).digest()


def salt_of(connection: sqlite3.Connection) -> bytes:
    """Return the salt of a journal, made when there is none. The transaction is the caller's."""
    connection.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (_SALT, secrets.token_bytes(32)))
    return bytes(connection.execute("SELECT value FROM meta WHERE key = ?", (_SALT,)).fetchone()[0])


def bury(connection: sqlite3.Connection, group: str, asked: Iterable[str], records: Iterable[str]) -> None:
    """Keep forgotten text from being learnt again. The transaction is the caller's.

    Args:
        asked: known wherever it is said.
        records: what records said; one of a few words is known only where nothing else is said.
    """
    salt = salt_of(connection)
    rows: list[tuple[str, int, bytes]] = []
    for text, is_asked in (*((each, True) for each in asked), *((each, False) for each in records)):
        if words := _words(text):
            count = len(words) if is_asked or len(words) >= _MIN_WORDS else _ALL
            rows.append((group, count, salted(salt, " ".join(words).encode())))
    connection.executemany("INSERT OR IGNORE INTO tombstones VALUES (?,?,?)", rows)


def read_tombstones(journal: Path, group: str) -> Tombstones:
    """Return the tombstones of a group in a journal that a host may have open. Raises JournalError."""
    digests: dict[int, set[bytes]] = {}
    if not journal.exists():
        return Tombstones(b"", {})
    with reading(journal) as connection:
        (salt,) = connection.execute("SELECT value FROM meta WHERE key = ?", (_SALT,)).fetchone() or (b"",)
        for words, digest in connection.execute("SELECT words, digest FROM tombstones WHERE grp = ?", (group,)):
            digests.setdefault(words, set()).add(digest)
    return Tombstones(bytes(salt), {words: frozenset(some) for words, some in digests.items()})


DOCUMENT_APPENDS = ("note", "history", "note_archived")  # kinds of rows that are appended to documents
_PLAN = "forgetting"  # key in `meta`: the plan of a `forget` until it is finished
QUOTED = {"forgotten": True}  # result of a reply that quoted forgotten text


@dataclass(frozen=True, slots=True)
class Forgetting:
    """A request to forget, kept until it is done.

    Args:
        selector: the request, as JSON.
        parts, wholes: see `Phrases`; `asked` are those of them that were asked for as they are.
        rows: seqs of changes to erase completely.
        files: files to erase completely, below the home.
        entries: ids of entries that go.
        sender, request, digest: who asked for it; the digest in hex. Empty: nobody, it came with an import.
        asked_in: the group in whose inbox it was asked for.
        is_erased: only what was deleted is left to be overwritten; then nothing else is known any more but `went`.
        went: the result of the request.
    """

    group: str
    selector: str = ""
    asked: Sequence[str] = ()
    parts: Sequence[str] = ()
    wholes: Sequence[str] = ()
    rows: Sequence[int] = ()
    files: Sequence[str] = ()
    entries: Sequence[str] = ()
    session: str | None = None
    sender: str = ""
    request: str = ""
    digest: str = ""
    asked_in: str = ""
    is_erased: bool = False
    went: Mapping[str, Any] = field(default_factory=dict)

    @property
    def phrases(self) -> Phrases:
        return Phrases((*self.asked, *self.parts), self.wholes)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to forget."""
        return not (self.asked or self.parts or self.wholes or self.rows or self.files)


@dataclass(slots=True)
class Found:
    """A place in the journal, and its new content.

    Args:
        rows: seq of a change -> its bytes.
        last: the last of the host's in each file.
        edits: people's edits among them.
        files: all files of them.
        receipts: seq -> the reply.
        turns: begun turns with their steps.
        kinds: how many changes, by kind.
    """

    rows: dict[int, bytes] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    edits: set[int] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    receipts: dict[int, bytes] = field(default_factory=dict)
    turns: dict[TurnKey, bytes] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.rows or self.receipts or self.turns)


# ----------------------------------------------------------------------------------------------------------- the plan


def read_forgetting(path: Path) -> Forgetting | None:
    """Return the plan of an unfinished `forget`. Raises JournalError."""
    return _plan_of(read_meta(path, _PLAN))


def begun_in(connection: sqlite3.Connection) -> Forgetting | None:
    """Return the text to forget in a journal, while it is still known."""
    (value,) = connection.execute("SELECT value FROM meta WHERE key = ?", (_PLAN,)).fetchone() or (None,)
    plan = _plan_of(value)
    return None if plan is None or plan.is_erased else plan


def _plan_of(value: Any) -> Forgetting | None:
    return None if value is None else Forgetting(**orjson.loads(value))


def keep_forgetting(connection: sqlite3.Connection, plan: Forgetting) -> None:
    """Keep the plan before anything is erased. The transaction is the caller's."""
    salt_of(connection)
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_PLAN, orjson.dumps(plan)))


def bury_forgetting(connection: sqlite3.Connection, plan: Forgetting, went: Mapping[str, Any]) -> None:
    """Keep only digests of the forgotten texts. The transaction is the caller's."""
    bury(connection, plan.group, plan.asked, (*plan.parts, *plan.wholes))
    nothing = Forgetting(plan.group, sender=plan.sender, request=plan.request, digest=plan.digest)
    keep_forgetting(connection, replace(nothing, asked_in=plan.asked_in, is_erased=True, went=went))


def end_forgetting(connection: sqlite3.Connection) -> None:
    """Take in that it is done. The transaction is the caller's."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_PLAN,))


# ------------------------------------------------------------------------------------------------------------- finding


def find(path: Path, plan: Forgetting) -> Found:
    """Return its places in a journal that a host may have open. Raises JournalError."""
    found, phrases = Found(), plan.phrases
    selected, whole, requests = frozenset(plan.rows), frozenset(plan.files), set[tuple[str, str]]()
    query = "SELECT seq, sender, request, kind, file, data FROM changes WHERE grp = ?"
    for seq, sender, request, kind, file, data in read_rows(path, query, (plan.group,)):
        is_persons = kind in EDIT_KINDS
        is_all = file in whole or (seq in selected and not is_persons)
        if kind in LINE_KINDS:
            made = _lines_without(data, file, phrases, is_all=is_all)
        else:
            made = phrases.in_bytes(data, is_all=is_all)
        if is_all:
            requests.add((sender, request))
        if made == data:
            continue
        if is_persons:  # nobody is told of its `undo`, which is refused from now on
            made = orjson.dumps({**orjson.loads(made), "unread": 0})
            found.edits.add(seq)
        else:
            found.last[file] = max(seq, found.last.get(file, 0))
            found.kinds[kind] += 1
        found.rows[seq] = made
        found.files.add(file)
    query = "SELECT seq, sender, request, reply FROM receipts WHERE grp = ?"
    for seq, sender, request, reply in read_rows(path, query, (plan.group,)):
        value = orjson.loads(reply)
        if value.get("result") == QUOTED:
            continue
        if (sender, request) in requests or phrases.in_value(value) != value:
            found.receipts[seq] = orjson.dumps({**value, "result": QUOTED}, option=orjson.OPT_APPEND_NEWLINE)
    query = "SELECT grp, sender, request, steps FROM turns WHERE grp = ?"
    for *key, steps in read_rows(path, query, (plan.group,)):
        if (made := phrases.in_bytes(steps)) != steps:
            found.turns[TurnKey(*key)] = made
    return found


def _lines_without(data: bytes, file: str, phrases: Phrases, *, is_all: bool) -> bytes:
    """Return the data of a change of lines without the forgotten text, line by line."""
    value = orjson.loads(data)
    for hunk in value["hunks"] or ():
        for number, packed in enumerate(hunk[1:], 1):
            side = [unpacked_line(line) for line in packed]
            if file.endswith(".json"):
                made = [phrases.in_json_line(line.rstrip(b"\n"), is_all=is_all) for line in side]
            else:
                made = phrases.in_plain(b"".join(side), is_all=is_all).split(b"\n")
            made += [FORGOTTEN.encode()] * (len(side) - len(made))  # it stood over several lines
            pairs = zip(side, made, strict=False)
            hunk[number] = [packed_line(other + line[len(line.rstrip(b"\n")) :]) for line, other in pairs]
    return orjson.dumps(value)


def _without_digests_of_files(data: bytes) -> bytes:
    """Return the data of an edit's row without the digests of its file."""
    value = orjson.loads(data)
    for side in ("before", "after"):
        value[side] = None if value[side] is None else FORGOTTEN_DIGEST.hex()
    return orjson.dumps(value)


# ------------------------------------------------------------------------------------------------------------ emptying


def empty(
    connection: sqlite3.Connection, plan: Forgetting, found: Found, files: Mapping[str, tuple[bytes, bytes]]
) -> None:
    """Erase what was found. The transaction is the caller's.

    Args:
        files: rewritten files with their earlier and their new content.
    """
    salt, phrases = salt_of(connection), plan.phrases
    for seq, data in found.rows.items():
        (held,) = connection.execute("SELECT data FROM changes WHERE seq = ?", (seq,)).fetchone()
        connection.execute("INSERT OR IGNORE INTO emptied VALUES (?, ?)", (seq, salted(salt, held)))
        connection.execute("UPDATE changes SET data = ? WHERE seq = ?", (data, seq))
    replies = [(reply, seq) for seq, reply in found.receipts.items()]
    connection.executemany("UPDATE receipts SET reply = ? WHERE seq = ?", replies)
    for key in found.turns:  # it may have gone on since
        where = "grp = ? AND sender = ? AND request = ?"
        for (steps,) in connection.execute(f"SELECT steps FROM turns WHERE {where}", key).fetchall():  # noqa: S608  a constant
            connection.execute(f"UPDATE turns SET steps = ? WHERE {where}", (phrases.in_bytes(steps), *key))  # noqa: S608  a constant
    for file in {*found.files, *files}:
        kinds = ",".join(f"'{kind}'" for kind in sorted({*WHOLE_KINDS, *LINE_KINDS, *DOCUMENT_APPENDS}))
        connection.execute(
            f"UPDATE changes SET offset = ? WHERE grp = ? AND file = ? AND offset NOT IN (-1, 0) AND kind IN ({kinds})",  # noqa: S608  constants
            (FORGOTTEN_BASE, plan.group, file),
        )
        of_file = f"SELECT seq, data FROM changes WHERE {IS_EDIT} AND grp = ? AND file = ?"  # noqa: S608  a constant
        for seq, data in connection.execute(of_file, (plan.group, file)).fetchall():
            connection.execute("UPDATE changes SET data = ? WHERE seq = ?", (_without_digests_of_files(data), seq))
    for file, digest, packed in connection.execute("SELECT file, digest, text FROM saved").fetchall():
        text = zlib.decompress(packed)
        if phrases.in_bytes(text) != text:
            connection.execute("DELETE FROM saved WHERE file = ? AND digest = ?", (file, digest))
    for file, seq, packed in connection.execute("SELECT file, seq, text FROM texts").fetchall():
        text = zlib.decompress(packed)
        if (without := phrases.in_bytes(text)) != text:
            insert_texts(connection, [(file, seq, without)])
    for row in connection.execute("SELECT * FROM seen").fetchall():
        seen = Seen(row[0], row[1], Signature(*row[2:6]), *row[6:])
        if (made := seen_without(seen, phrases, files)) != seen:
            write_looked(connection, Looked(seen=[made]))


def seen_without(seen: Seen, phrases: Phrases, files: Mapping[str, tuple[bytes, bytes]]) -> Seen:
    """Return the last seen state of a file as if the forgotten text had never been in it."""
    before, after = files.get(seen.file, (b"", b""))
    if seen.text is None:
        is_as_it_was = seen.file in files and (before == after or digest_of(before) == seen.digest)
        return replace(seen, size=len(after), digest=digest_of(after)) if is_as_it_was else seen
    text = after if before == seen.text else phrases.in_bytes(seen.text)
    if text == seen.text:
        return seen
    return replace(seen, size=len(text), digest=digest_of(text), packed=zlib.compress(text, 1))


def read_emptied(path: Path, seqs: Collection[int]) -> set[int]:
    """Return the changes among some from which something was forgotten. Raises JournalError."""
    query = "SELECT seq FROM emptied WHERE seq IN (SELECT value FROM json_each(?))"
    return {seq for (seq,) in read_rows(path, query, (orjson.dumps(list(seqs)).decode(),))}
