"""Recognises forgotten texts without keeping them: salted digests of their words.

Curation and import, which learn without a person, ask `Tombstones.knows` first.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from honeybadger_host.errors import JournalError
from honeybadger_host.journal.connection import reading
from honeybadger_host.text.phrases import folded

_SALT: Final = "salt"  # in `meta`: what makes a digest of this home worthless to guess from elsewhere
_WORD: Final = re.compile(r"\w+")
_ALL: Final = 0  # for the number of words: the text is nothing else
_MIN_WORDS: Final = 4


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
    try:
        with reading(journal) as connection:
            (salt,) = connection.execute("SELECT value FROM meta WHERE key = ?", (_SALT,)).fetchone() or (b"",)
            for words, digest in connection.execute("SELECT words, digest FROM tombstones WHERE grp = ?", (group,)):
                digests.setdefault(words, set()).add(digest)
    except JournalError as error:
        if "no such table" in str(error):  # of an older host, and no new one has opened it yet
            return Tombstones(b"", {})
        raise
    return Tombstones(bytes(salt), {words: frozenset(some) for words, some in digests.items()})
