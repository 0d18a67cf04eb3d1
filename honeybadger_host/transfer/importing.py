"""Import records by requests of the operator. If no host runs, one is started for them.

A request has turns of one conversation, or an entry; its id is a digest of their content and place. The log has the ids
of imported turns, and the journal those of entries: a second import sends nothing, and an interrupted one continues
(docs/decisions/034-in-and-out.md).
"""

import hashlib
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.mailbox import OPERATOR, REQUESTS, SESSION, Mailbox
from honeybadger_agent.wire import (
    MAX_CATEGORY_CHARACTERS,
    MAX_LINE_CHARACTERS,
    MAX_METADATA_BYTES,
    MAX_NOTE_CHARACTERS,
    MAX_ORIGIN_CHARACTERS,
    MAX_TAG_CHARACTERS,
    MAX_TAGS,
    MAX_TITLE_CHARACTERS,
    dump_request,
)
from honeybadger_host.errors import HostError
from honeybadger_host.files.home import JOURNAL_FILE, is_served
from honeybadger_host.files.safe_files import names_in
from honeybadger_host.journal.journal import IMPORTED_REQUEST
from honeybadger_host.journal.reader import read_done
from honeybadger_host.memory.entries.entry import entry_id
from honeybadger_host.memory.turn_log import imported_turns, turns_file
from honeybadger_host.ops.operator_client import WAIT_SECONDS, reply_to
from honeybadger_host.spool.rate_limits import MAX_REQUEST_BYTES
from honeybadger_host.text.time_stamps import time_stamp
from honeybadger_host.transfer.records import Fact, Found, SaidTurn, Skipped

IMPORTED = "imported"  # the category that imported entries are below
MAX_RECORDS = 200
_MOST_BYTES = int(MAX_REQUEST_BYTES * 0.7)  # of the records of a request
# Records that wait at a time: they delay others' requests for a third of a second. More if no host runs, as one is
# started each time.
_UNDER_WAY = 2_000
_UNDER_WAY_ALONE = 50_000


@dataclass(slots=True)
class Imported:
    """The report of an import.

    Args:
        added: number of `turns` and `entries`.
        known: number of records that were imported before.
        skipped: records that could not be read or were refused, with file and line.
    """

    added: Counter[str] = field(default_factory=Counter)
    known: int = 0
    neutralised: Counter[str] = field(default_factory=Counter)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(slots=True)
class _Batch:
    """The records of one request.

    Args:
        kind: `turns` or `entries`.
        session: of the turns; the default one for an entry.
        first: number of the first turn in its conversation.
        where: id of a record -> its file and line.
        size: bytes of the records.
    """

    kind: str
    session: str
    first: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)
    where: dict[str, str] = field(default_factory=dict)
    size: int = 0


class Import:
    """One import into a group.

    Args:
        is_dry: the records are only counted.
        serve: serves an inbox once. Raises HomeLocked if a host was started meanwhile.
    """

    def __init__(
        self,
        home: Path,
        group: str,
        format_name: str,
        *,
        is_dry: bool,
        serve: Callable[[Path], None],
    ) -> None:
        self._home, self._group, self._format = home, group, format_name
        self._is_dry, self._serve = is_dry, serve
        self._mailbox = Mailbox.of(home, group, OPERATOR)
        self._next = _Batch("turns", "")  # the turns of the next request
        # Of sent requests: id, kind of the records, id of a record -> its file and line.
        self._under_way: deque[tuple[str, str, dict[str, str]]] = deque()
        self._waiting = 0  # number of records in them
        self._known_turns = lru_cache(1)(self._imported_into)
        # Session -> number and time of its last turn in this import.
        self._reached: dict[str, tuple[int, datetime]] = {}
        self.done = Imported()

    def run(self, found: Iterator[Found]) -> Imported:
        """Import all records; a dry run only counts them. Raises HostError, OSError."""
        if not self._is_dry:
            for path in sorted((self._mailbox.root / REQUESTS).glob("import*-*.json")):  # of an interrupted import
                reply_to(self._home, self._mailbox, path.stem, self._serve, WAIT_SECONDS)
        for one in found:
            match one:
                case Skipped():
                    self.done.skipped.append(one)
                case Fact():
                    self._take_fact(one)
                case SaidTurn():
                    self._take_turn(one)
        self._send_turns()
        while self._under_way:
            self._collect()
        return self.done

    # ------------------------------------------------------------------------------------------------------- requests

    def _take_fact(self, fact: Fact) -> None:
        record = self._entry(fact)
        request = record.pop("request")
        if request in self._done_requests:
            self.done.known += 1
            return
        self._done_requests.add(request)
        self._send(request, _Batch("entries", "main", records=[record], where={record["id"]: fact.where}))

    def _take_turn(self, said: SaidTurn) -> None:
        number, last = self._reached.get(said.session, (0, datetime.fromtimestamp(0, UTC)))
        last = max(last, said.at or last)
        known = self._copied if said.is_copied else self._known_turns(said.session)
        for record in self._turns(said, last):
            number += 1
            if record["id"] in known:
                self.done.known += 1
            else:
                known.add(record["id"])
                self._add_turn(record, said, number)
        self._reached[said.session] = number, last

    def _add_turn(self, record: dict[str, Any], said: SaidTurn, number: int) -> None:
        """Add a turn to the next request, after sending that one if it is full or of another conversation."""
        length = len(orjson.dumps(record))
        is_full = len(self._next.records) == MAX_RECORDS or self._next.size + length > _MOST_BYTES
        if is_full or self._next.session != said.session:
            self._send_turns()
            self._next = _Batch("turns", said.session, number)
        self._next.records.append(record)
        self._next.where[record["id"]] = said.where
        self._next.size += length

    def _send_turns(self) -> None:
        """Send the next request, if it has turns. Ids of requests sort by the number of their first turn."""
        batch = self._next
        if batch.records:
            digest = _digest(batch.session, *(record["id"] for record in batch.records))
            self._send(f"import-{batch.first:010}-{digest[:24]}", batch)

    def _turns(self, said: SaidTurn, at: datetime) -> Iterator[dict[str, Any]]:
        """Yield a turn as records: more than one if it is too long for a request."""
        most = _MOST_BYTES // 8  # characters: JSON writes some as six bytes
        for number, start in enumerate(range(0, len(said.content), most)):
            place = said.place if not number else f"{said.place}\0{number}"
            session = "" if said.is_copied else said.session
            yield _without_empty(
                id=f"import-{_digest(self._format, session, place)[:24]}",
                role=said.role,
                content=_text(said.content[start : start + most]),
                at=time_stamp(at, "milliseconds"),
                sender=_text(said.sender or "")[:MAX_LINE_CHARACTERS],
            )

    def _entry(self, fact: Fact) -> dict[str, Any]:
        metadata = orjson.dumps(fact.metadata, default=str)
        return _without_empty(
            request=f"{IMPORTED_REQUEST}{_digest(self._format, fact.place, fact.content)[:32]}",
            id=entry_id(IMPORTED, f"{self._format}\0{fact.place}"),
            content=_text(fact.content)[:MAX_NOTE_CHARACTERS],
            category=category_of(fact.category),
            origin_from=_line(f"{self._format}: {fact.where}")[:MAX_ORIGIN_CHARACTERS],
            title=_line(fact.title or "")[:MAX_TITLE_CHARACTERS],
            aliases=_labels(fact.aliases, MAX_TITLE_CHARACTERS),
            tags=_labels(fact.tags, MAX_TAG_CHARACTERS),
            metadata=orjson.loads(metadata) if len(metadata) <= MAX_METADATA_BYTES - 64 else {},
            created=None if fact.created is None else time_stamp(fact.created, "milliseconds"),
            updated=None if fact.updated is None else time_stamp(fact.updated, "milliseconds"),
        )

    @cached_property
    def _copied(self) -> set[str]:
        """The ids of turns of this format in any session, including those of this import."""
        logs = names_in((self._home / turns_file(self._group, "")).parent)
        sessions = [name.removesuffix(".jsonl") for name in logs if name.startswith(f"{self._format}-")]
        return {turn for session in sessions for turn in self._imported_into(session)}

    def _imported_into(self, session: str) -> set[str]:
        """Return the ids of turns that were imported into a session before."""
        return imported_turns(self._home / turns_file(self._group, session))

    @cached_property
    def _done_requests(self) -> set[str]:
        """The requests of imported entries, including those that were removed since."""
        journal = self._home / JOURNAL_FILE
        return read_done(journal, self._group, OPERATOR, IMPORTED_REQUEST) if journal.exists() else set()

    # -------------------------------------------------------------------------------------------------------- sending

    def _send(self, request_id: str, batch: _Batch) -> None:
        """Send a request, not durably: after a power cut the next import sends it again."""
        if self._is_dry:
            self.done.added[batch.kind] += len(batch.where)
            return
        self._mailbox.create()  # here, so that what cannot be read makes no group
        data = dump_request(request_id, "import_records", {batch.kind: batch.records}, session=batch.session)
        self._mailbox.publish(request_id, data, is_durable=False)
        self._under_way.append((request_id, batch.kind, batch.where))
        self._waiting += len(batch.where)
        while self._waiting >= (_UNDER_WAY if is_served(self._home) else _UNDER_WAY_ALONE):
            self._collect()

    def _collect(self) -> None:
        """Process the reply to the oldest request."""
        request_id, kind, where = self._under_way.popleft()
        self._waiting -= len(where)
        reply = reply_to(self._home, self._mailbox, request_id, self._serve, WAIT_SECONDS)
        if reply.error is not None:
            raise HostError(f"{reply.error.message}. Earlier records are imported; import again to continue")
        result = reply.result or {}
        self.done.added[kind] += result["added"]
        self.done.known += result["known"]
        self.done.neutralised.update(result.get("neutralised", {}))
        self.done.skipped += [Skipped(where[one["id"]], one["why"]) for one in result["refused"]]


def session_of(format_name: str, name: str) -> str:
    """Return the session for a conversation of another program with a name."""
    session = f"{format_name}-{name}"
    if len(session) <= 100 and SESSION.fullmatch(session):
        return session
    return f"{format_name}-{_digest(name)[:16]}"


def category_of(folders: str) -> str:
    """Return the category for folders of any names, below `imported`."""
    parts = [IMPORTED]
    for name in filter(None, folders.split("/")[:6]):
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        part = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-")[:24] or f"x{_digest(name)[:8]}"
        parts.append(part.lower())
    return "/".join(parts)[:MAX_CATEGORY_CHARACTERS]


def _without_empty(**members: object) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


def _labels(names: Iterable[str], most_characters: int) -> list[str]:
    lines = [_line(name)[:most_characters] for name in names]
    return [line for line in lines if line][:MAX_TAGS]


def _line(text: str) -> str:
    return " ".join(_text(text).split())


def _text(text: str) -> str:
    """Return a text without characters that UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()
