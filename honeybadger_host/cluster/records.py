"""What the shared log holds: a transaction as its statements with their values, or who owns the home from here on.

A record too large for one message is several, its parts; the last one makes it whole. Each record says the hash of all
before it, so that two journals with the same hash have had the same life.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import socket
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from honeybadger_host.errors import JournalError
from honeybadger_host.storage.journal_schema import LOG_SEQ, SCHEMA_VERSION

EPOCH_HEADER: Final = "Hb-Epoch"
"""The number of the message with which the owner of the moment began; of that message itself, 0."""
BEFORE_HEADER: Final = "Hb-Before"
PART_HEADER: Final = "Hb-Part"
PART_BYTES: Final = 512 << 10
"""A server takes 1 MiB with all headers unless it is told otherwise."""
LOG_CHAIN: Final = "log_chain"
"""In `meta`: the hash of all records up to the last one that is in this journal."""
NODE: Final = "node"
"""In `meta`: what this machine is called among those that keep the home; no two have the same."""

Statement: TypeAlias = tuple[str, Sequence[Sequence[Any]]]


class Message(NamedTuple):
    """One message of the log."""

    seq: int
    id: str
    headers: Mapping[str, str]
    data: bytes
    subject: str = ""


class Epoch(NamedTuple):
    """Who owns the home from a message on."""

    node: str
    schema: int


@dataclass(frozen=True, slots=True)
class Position:
    """How far a journal has come.

    Args:
        seq: the last message of the last record that is in it.
        chain: the hash of all records up to there, hexadecimal.
    """

    seq: int
    chain: str

    def behind(self, seq: int, data: bytes) -> Position:
        """Return the position after a record whose last message has the number `seq`."""
        digest = hashlib.sha256(data).digest()
        return Position(seq, hashlib.sha256(bytes.fromhex(self.chain) + digest).hexdigest())


@dataclass(frozen=True, slots=True)
class Record:
    """A record that is whole.

    Args:
        seq: of its last message.
        epoch: the owner's; see `EPOCH_HEADER`.
        before: the chain before it.
        data: of all its parts.
    """

    seq: int
    epoch: int
    before: str
    data: bytes


def whole_records(messages: Iterable[Message], parts: list[Message]) -> Iterable[Record]:
    """Yield the records that messages come to.

    Args:
        parts: of a record that is not whole yet; kept from one call to the next. An owner that died left it so, and the
            next one begins anew.
    """
    for message in messages:
        number, _, count = message.headers[PART_HEADER].partition("/")
        if number == "1":
            parts.clear()
        parts.append(message)
        if number == count:
            first = parts[0].headers
            data = b"".join(part.data for part in parts)
            parts.clear()
            yield Record(message.seq, int(first[EPOCH_HEADER]), first[BEFORE_HEADER], data)


def dump_statements(statements: Sequence[Statement]) -> bytes:
    return orjson.dumps(statements, default=_dump_bytes)


def _dump_bytes(value: object) -> object:
    if isinstance(value, bytes):
        return {"b": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} is not a value of a statement")


def dump_epoch(epoch: Epoch) -> bytes:
    return orjson.dumps(epoch._asdict())


def read_record(data: bytes) -> Epoch | list[Statement]:
    """Return what a record says. Raises JournalError."""
    try:
        value = orjson.loads(data)
        if isinstance(value, dict):
            return Epoch(**value)
        return [(sql, [[_load(one) for one in row] for row in rows]) for sql, rows in value]
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(
            f"a record of the shared log cannot be read ({error}): run the version that wrote it"
        ) from None


def _load(value: Any) -> Any:
    return base64.b64decode(value["b"]) if isinstance(value, dict) else value


# ---------------------------------------------------------------------------------------------------- in the journal


def read_home(connection: sqlite3.Connection) -> tuple[str, Position | None, str]:
    """Return the home's identity, how far its journal has come, and this machine's name; None: it is of one machine."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    position = Position(int(meta[LOG_SEQ]), meta[LOG_CHAIN]) if LOG_SEQ in meta else None
    return str(meta["identity"]), position, str(meta.get(NODE, ""))


def name_machine(connection: sqlite3.Connection, home: Path) -> None:
    """Give this machine a name."""
    name = f"{socket.gethostname()}:{home}:{secrets.token_hex(4)}"
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (NODE, name))


def write_position(connection: sqlite3.Connection, position: Position) -> None:
    rows = [(LOG_SEQ, position.seq), (LOG_CHAIN, position.chain)]
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


def another_past(seq: int) -> JournalError:
    """Return what to raise where the log has another past than this journal."""
    return JournalError(
        f"the shared log does not follow what this journal has up to {seq}: the log went back and was continued "
        "without this machine, was begun anew, or this journal was changed by other means; nothing was changed here, "
        'see "When the log is lost" in docs/machines.md'
    )


def apply_record(connection: sqlite3.Connection, record: Record, position: Position) -> tuple[Position, Epoch | None]:
    """Take a record into a journal; return the position behind it, and whose it is from here on if it says so.

    The transaction is the caller's. Raises JournalError.
    """
    if record.before != position.chain:
        raise another_past(position.seq)
    said = read_record(record.data)
    if isinstance(said, Epoch):
        if said.schema != SCHEMA_VERSION:
            raise JournalError(
                f"{said.node} owns the home with schema {said.schema} of the journal, this host knows "
                f"{SCHEMA_VERSION}: run the same version on all machines"
            )
    else:
        for sql, rows in said:
            connection.executemany(sql, rows)
    return position.behind(record.seq, record.data), said if isinstance(said, Epoch) else None
