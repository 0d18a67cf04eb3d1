"""Records of the shared log: the SQL statements of one transaction with their values, or a new owner of the home.

A record that is too large for one message has several parts. Each message carries the hash of all records up to its
own, so that two journals with the same hash have the same history.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import orjson

from honeybadger_host.errors import JournalError
from honeybadger_host.journal.schema import LOG_SEQ, SCHEMA_VERSION

# The owner's epoch: the number of the message that made it the owner; 0 in that message itself.
EPOCH_HEADER = "Hb-Epoch"
CHAIN_HEADER = "Hb-Chain"
SCHEMA_HEADER = "Hb-Schema"  # schema number of the journal in a record or a snapshot
PART_HEADER = "Hb-Part"
# In the last record of a stream of the log: the number of the first message of the next stream.
NEXT_HEADER = "Hb-Next"
PART_BYTES = 512 << 10  # A server takes 1 MiB with all headers by default
LOG_CHAIN = "log_chain"  # key in `meta`: the hash of all records up to the last one in this journal
LOG_STREAM = "log_stream"  # key in `meta`: see `Position.stream`
# Key in `meta`: the stream (see `Position.stream`) before which no forgotten text is left on this machine.
CLEAN = "clean"
NODE = "node"  # key in `meta`: this machine's name when it joined; see `name_of`

Statement: TypeAlias = tuple[str, Sequence[Sequence[Any]]]


class Message(NamedTuple):
    """One message of the log."""

    seq: int
    subject: str
    headers: Mapping[str, str]
    data: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """How far a journal has come.

    Args:
        seq: the last message of the last record that is in it.
        chain: the hash of all records up to there, hexadecimal.
        stream: the number that the stream of the next message begins with; 0: the first stream of a home.
    """

    seq: int
    chain: str
    stream: int = 0

    def behind(self, seq: int, data: bytes, following: int = 0) -> Position:
        """Return the position after a record whose last message has the number `seq`.

        Args:
            following: the next stream, if the record ends its stream; else 0.
        """
        digest = hashlib.sha256(data).digest()
        chain = hashlib.sha256(bytes.fromhex(self.chain) + digest).hexdigest()
        return Position(seq, chain, following or self.stream)


@dataclass(frozen=True, slots=True)
class Record:
    """A record with all its parts.

    Args:
        seq: of its last message.
        epoch: the owner's; see `EPOCH_HEADER`.
        schema: see `SCHEMA_HEADER`.
        chain: of all records up to this one.
        data: of all its parts.
        following: see `NEXT_HEADER`; 0: its stream goes on.
    """

    seq: int
    epoch: int
    schema: int
    chain: str
    data: bytes
    following: int = 0


def whole_record(message: Message, parts: list[Message]) -> Record | None:
    """Return the record that a message completes, else None.

    Args:
        parts: its earlier messages; kept from one call to the next. An owner that died may have left a part of a
            record, which the next first part discards.
    """
    number, _, count = message.headers[PART_HEADER].partition("/")
    if number == "1":
        parts.clear()
    parts.append(message)
    if number != count:
        return None
    headers, data = message.headers, b"".join(part.data for part in parts)
    epoch, schema, following = (int(headers.get(name, 0)) for name in (EPOCH_HEADER, SCHEMA_HEADER, NEXT_HEADER))
    return Record(message.seq, epoch, schema, headers[CHAIN_HEADER], data, following)


def dump_statements(statements: Sequence[Statement]) -> bytes:
    return orjson.dumps(statements, default=_dump_bytes)


def _dump_bytes(value: object) -> object:
    if isinstance(value, bytes):
        return {"b": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} is not a value of a statement")


def read_record(data: bytes) -> str | list[Statement]:
    """Return the statements of a record, or the new owner that it names. Raises JournalError."""
    try:
        value = orjson.loads(data)
        if isinstance(value, str):
            return value
        return [(sql, [[_load(one) for one in row] for row in rows]) for sql, rows in value]
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(
            f"a record of the shared log cannot be read ({error}): run the version that wrote it"
        ) from None


def _load(value: Any) -> Any:
    return base64.b64decode(value["b"]) if isinstance(value, dict) else value


# ---------------------------------------------------------------------------------------------------- in the journal


class Kept(NamedTuple):
    """The members of `meta` about a home.

    Args:
        node: this machine's name when it joined those that keep the home; see `name_of`.
        clean: the stream before which no forgotten text is left here; see `CLEAN`.
    """

    identity: str
    position: Position
    node: str
    clean: int


def read_kept(connection: sqlite3.Connection) -> Kept:
    """Return them, of a home that several machines keep. Raises KeyError if it is of one machine."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    position = Position(int(meta[LOG_SEQ]), meta[LOG_CHAIN], int(meta.get(LOG_STREAM, 0)))
    return Kept(str(meta["identity"]), position, str(meta.get(NODE, "")), int(meta.get(CLEAN, 0)))


def name_of(home: Path, known_as: str = "") -> str:
    """Return this machine's name among those that keep a home: the host's, the folder's, and a unique part.

    Args:
        known_as: its name when it joined, in this folder or another; empty: it joins now.
    """
    return f"{socket.gethostname()}:{home}:{unique_part(known_as) or secrets.token_hex(4)}"


def unique_part(node: str) -> str:
    """Return the part of a machine's name that stays when its home is moved to another folder."""
    return node.rpartition(":")[2]


def write_position(connection: sqlite3.Connection, position: Position) -> None:
    rows = [(LOG_SEQ, position.seq), (LOG_CHAIN, position.chain), (LOG_STREAM, position.stream)]
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


def diverged(seq: int) -> JournalError:
    """Return the error for a log whose past differs from this journal's."""
    return JournalError(
        f"the shared log does not follow what this journal has up to {seq}: the log went back and was continued "
        "without this machine, was restarted, or this journal was changed by other means; nothing was changed here, "
        'see "When the log is lost" in docs/machines.md'
    )


def foreign_schema(schema: int) -> JournalError:
    """Return the error for a log with records of another schema."""
    return JournalError(
        f"the log goes on with schema {schema} of the journal, and this version has {SCHEMA_VERSION}: run the version "
        "of the other machines here, and see Upgrades in docs/machines.md"
    )


def apply_record(connection: sqlite3.Connection, record: Record, position: Position) -> tuple[Position, str | None]:
    """Apply a record to a journal; return the position after it, and the new owner if the record names one.

    The transaction is the caller's. Raises JournalError.
    """
    behind = position.behind(record.seq, record.data, record.following)
    if record.chain != behind.chain:
        raise diverged(position.seq)
    if record.schema != SCHEMA_VERSION:
        raise foreign_schema(record.schema)
    said = read_record(record.data)
    if isinstance(said, str):
        return behind, said
    for sql, rows in said:
        connection.executemany(sql, rows)
    return behind, None
