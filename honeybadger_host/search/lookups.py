"""Queries of the index without ranking: documents to show, list, or find by text or name; and how hits are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.errors import FileProblem
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.turn_log import session_of
from honeybadger_host.search.documents import KINDS, Kind, Piece, known_by
from honeybadger_host.search.index_db import FOUND, IndexFile
from honeybadger_host.search.language.similarity import sketch
from honeybadger_host.search.pieces import as_found
from honeybadger_host.text.labels import folded
from honeybadger_host.text.time_stamps import parse_time

if TYPE_CHECKING:
    from honeybadger_host.search.ranking import Hit

_MAX_NEARLY = 32  # entries that may say nearly the same; of one pair of words, the newest
_TEXT = frozenset(("terms", "around", "session"))  # signals of the text itself, see `scoring`
# Member of `Among` -> its condition; one that is not asked for is left out: it takes as long as the rest of a query.
# "0" comes after "/".
_CONDITIONS = {
    "category": "(category = :category OR category > :category || '/' AND category < :category || '0')",
    "levels": "length(category) - length(replace(category, '/', '')) < :levels",
    "author": "author = :author",
    "name": "name = :name",
}


class Found(NamedTuple):
    """A document as stored, to be shown.

    Args:
        names: further words it is found by, one on each line; the section of a note.
        marks: what else an entry knows of itself, see `entry.marks_of`.
    """

    number: int
    group: str
    kind: Kind
    key: str
    file: str
    session: str
    author: str
    at: float | None
    category: str
    tags: tuple[str, ...]
    text: str
    names: str
    marks: Mapping[str, Any] = MappingProxyType({})


class Among(NamedTuple):
    """The entries that are asked for; None: any.

    Args:
        category: it and those below it, as it is spelled on disk.
        levels: names in a category, at most.
        name: their name.
    """

    category: str | None
    levels: int | None = None
    author: str | None = None
    name: str | None = None


class Lookups:
    """Queries of the database. Thread-safe; none reads a file."""

    def __init__(self, db: IndexFile) -> None:
        self._db = db

    def show(self, numbers: Sequence[int]) -> dict[int, Found]:
        """Return number -> document, without those removed meanwhile. Raises WorldFailed."""
        query = (
            "SELECT docs.number, kind, key, file, author, at, category, tags, text, names, marks "
            "FROM docs JOIN sources ON sources.number = source WHERE docs.number IN"
        )
        return {
            number: Found(
                number=number,
                group=self._db.group_of(number),
                kind=KINDS[kind],
                key=key,
                file=file,
                session=session_of(file),
                author=author,
                at=at,
                category=category,
                tags=tuple(orjson.loads(tags)) if tags else (),
                text=text,
                names=names,
                marks=orjson.loads(marks) if marks else {},
            )
            for number, kind, key, file, author, at, category, tags, text, names, marks in self._db.rows_in(
                query, numbers
            )
        }

    def before(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return number of a turn -> number of the turn before it in its session, where there is one."""
        rows = self._db.rows_in(
            "SELECT docs.number, (SELECT max(earlier.number) FROM docs AS earlier "
            "WHERE earlier.source = docs.source AND earlier.number < docs.number) FROM docs WHERE docs.number IN",
            numbers,
        )
        return {number: earlier for number, earlier in rows if earlier is not None}

    def opened(self, files: Sequence[str], key: str) -> Found | None:
        """Return the document with a key in the first of these files that has it; the newest if there are two."""
        marks = ",".join("?" * len(files))
        query = (
            "SELECT file, max(docs.number) FROM docs JOIN sources ON sources.number = source "  # noqa: S608  only marks
            f"WHERE file IN ({marks}) AND key = ? GROUP BY file"
        )
        there = dict(self._db.rows(query, (*files, key)))
        number = next((there[file] for file in files if file in there), 0)
        return self.show([number]).get(number)

    def known(self, group: str, category: str, normalised: str) -> str | None:
        """Return the id of an indexed entry with exactly this text; see `labels.folded`. Raises WorldFailed."""
        rows = self._db.rows("SELECT number, key, category, text FROM docs WHERE known_by = ?", (known_by(normalised),))
        for number, key, its_category, text in rows:
            if (self._db.group_of(number), its_category, folded(text)) == (group, category, normalised):
                return str(key)
        return None

    def named(self, group: str, category: str, name: str) -> str | None:
        """Return the id of an indexed entry of this name. Raises WorldFailed."""
        rows = self._db.rows(
            "SELECT key FROM docs WHERE kind = 0 AND number >> 40 = (SELECT number FROM groups WHERE name = ?) "
            "AND category = ? AND name = ? LIMIT 1",
            (group, category, name),
        )
        return str(rows[0][0]) if rows else None

    def sizes(self, group: str, author: str | None = None, category: str | None = None) -> list[tuple[str, int, int]]:
        """Return (category, entries directly in it, bytes of their texts) of indexed entries, sorted.

        Args:
            author: only entries saved by this author.
            category: only those in it and below it.
        """
        where, values = self._where(group, Among(category, author=author))
        return self._db.rows(
            f"SELECT category, count(*), sum(bytes) FROM docs WHERE {where} GROUP BY category ORDER BY category",  # noqa: S608  only marks
            values,
        )

    def last_said(self, group: str) -> float | None:
        """Return the time of the newest indexed turn of a group, seconds since the epoch; None: there is none."""
        last = "SELECT at FROM docs WHERE source = sources.number ORDER BY docs.number DESC LIMIT 1"
        query = f"SELECT max(({last})) FROM sources WHERE file BETWEEN ? AND ?"  # noqa: S608  a constant
        folder = f"data/sessions/{group}"
        at: float | None = self._db.rows(query, (f"{folder}/", f"{folder}0"))[0][0]  # 0 comes after /
        return at

    def listed(
        self, group: str, among: Among, limit: int = -1, offset: int = 0, *, newest: bool
    ) -> list[tuple[Piece, int]]:
        """Return entries, each with the beginning of its text only, and the bytes of all of it.

        They are sorted by category, then by name, those without a name last; or the newest first.

        Args:
            limit: how many at most; negative: all.
        """
        where, values = self._where(group, among)
        order = "at DESC, key" if newest else "category, name = '', name, key"
        rows = self._db.rows(
            "SELECT key, substr(text, 1, 400), at, author, category, name, title, marks, bytes FROM docs "  # noqa: S608  no values
            f"WHERE number IN (SELECT number FROM docs WHERE {where} ORDER BY {order} LIMIT :limit OFFSET :offset) "
            f"ORDER BY {order}",  # the inner query by name reads only an index, not the texts
            values | {"limit": limit, "offset": offset},
        )
        return [
            (Piece(key, text, at, author, category=category, name=name, title=title, marks=marks), size)
            for key, text, at, author, category, name, title, marks, size in rows
        ]

    def _where(self, group: str, among: Among) -> tuple[str, dict[str, str | int]]:
        """Return the conditions of a query for entries, and their values."""
        values = {name: value for name, value in among._asdict().items() if value is not None}
        where = ["kind = 0 AND number >> 40 = :group", *(_CONDITIONS[name] for name in values)]
        return " AND ".join(where), values | {"group": self._db.group(group)}

    def entries(self, group: str, keys: Iterable[str], now: float) -> dict[str, int]:
        """Return id -> number of those of the entries that are searched, valid, and that a group may read."""
        valid = f"(until IS NULL OR until > {now:f})"
        rows = self._db.rows_in(
            f"SELECT key, number FROM docs WHERE kind = 0 AND {FOUND} AND {valid} AND key IN",  # noqa: S608  no text
            list(keys),
        )
        there = [(key, number) for key, number in rows if self._db.group_of(number) in (group, GLOBAL_GROUP)]
        return dict(sorted(there, key=lambda row: row[1]))  # the group's own after the global ones

    def has_entries(self, group: str) -> bool:
        """Return whether there is an entry that a group may read."""
        groups = [self._db.group(name) for name in (group, GLOBAL_GROUP)]
        return bool(self._db.rows("SELECT 1 FROM docs WHERE kind = 0 AND number >> 40 IN (?, ?) LIMIT 1", groups))

    def expired(self, group: str, now: float) -> list[int]:
        """Return the numbers of expired entries that a group may read."""
        groups = [self._db.group(name) for name in (group, GLOBAL_GROUP)]
        rows = self._db.rows("SELECT number FROM docs WHERE until <= ? AND number >> 40 IN (?, ?)", (now, *groups))
        return [number for (number,) in rows]

    def nearly(self, group: str, text: str) -> list[Found]:
        """Return entries that a group may read and that may say nearly the same; a few at most."""
        shared: Counter[int] = Counter()
        query = "SELECT doc FROM sketches WHERE pair = ? AND doc BETWEEN ? AND ? ORDER BY doc DESC LIMIT ?"
        for pair in sketch(text):
            for name in {group, GLOBAL_GROUP}:
                span = self._db.span(self._db.group(name))
                shared.update(number for (number,) in self._db.rows(query, (pair, *span, _MAX_NEARLY)))
        return [*self.show([number for number, _ in shared.most_common(_MAX_NEARLY)]).values()]


def name_of(found: Found) -> str:
    """Return a hit's name: an entry's id, `session#number` of a turn, `MEMORY.md#hash` of a note."""
    match found.kind:
        case "entry":
            return found.key
        case "turn":
            return f"{found.session}#{found.key}"
        case _:
            return f"{found.file.rpartition('/')[2]}#{found.key}"


def earned(hit: Hit) -> dict[str, Any]:
    """Return a hit's score and its parts, as shown.

    A document that is not a turn has no text around it: its own text counts instead, and is shown as one part.
    """
    points = {name: round(value, 3) for name, value in hit.parts.items()}
    if hit.kind != "turn":
        text = sum(value for name, value in hit.parts.items() if name in _TEXT)
        points = {"terms": round(text, 3), **{name: value for name, value in points.items() if name not in _TEXT}}
    return {
        "score": round(hit.score, 3),
        "points": points,
        "words": {word: round(value, 3) for word, value in hit.terms.items()},
    }


def note_as_edited(files: GroupFiles, found: Found) -> Found:
    """Return a document; a note that a person edited later has that person as its author, and the edit's time."""
    text = None
    if found.kind == "note":
        with suppress(FileProblem):
            text = files.read(found.file)
    who = None if text is None else text.edited_as(as_found).get((found.author, found.text))
    return found if who is None else found._replace(author=who.author, at=parse_time(who.at).timestamp())
