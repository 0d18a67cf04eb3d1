"""The form of an export of a group, and the checks of one that is read (docs/in-and-out.md).

```
export.json      the group, and the digest of each of the four lists
journal.jsonl    the changes, and the edits by people, oldest first
receipts.jsonl   the requests that are done
recalled.jsonl   the entries that contexts recalled
files.jsonl      every file below files/: digest, time, and its state when the host last saw it
files/           group/ sessions/ context/ working/ consolidated/ tasks.jsonl feedback.jsonl messages.jsonl
```
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from honeybadger_agent.mailbox import NAME
from honeybadger_host.errors import Damaged, HostError
from honeybadger_host.files.safe_files import open_plain
from honeybadger_host.journal.changes import MARKED, TASK_RECORD
from honeybadger_host.journal.edits import REVISED_KINDS, edit_of, hunks_of, is_edit, packed_line, unpacked_line
from honeybadger_host.journal.folding import in_new_form
from honeybadger_host.journal.reader import CHANGE_KINDS
from honeybadger_host.journal.schema import Receipt, Row
from honeybadger_host.memory import edited
from honeybadger_host.memory.turn_log import parse_mark
from honeybadger_host.transfer.places import MAX_PIECE_BYTES, file_of, place_of

FORMAT = 2
MANIFEST = "export.json"
JOURNAL = "journal.jsonl"
RECEIPTS = "receipts.jsonl"
RECALLED = "recalled.jsonl"
FILES = "files.jsonl"
LISTS = (JOURNAL, RECEIPTS, RECALLED, FILES)
CONTENT = "files"
Digest = Annotated[str, Field(pattern=r"[0-9a-f]{64}")]
_Number = Annotated[int, Field(ge=0, lt=1 << 62)]


# --------------------------------------------------------------------------------------------------------------- models


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _unpacked(value: Any) -> bytes:
    match value:
        case str() | {"base64": str()}:
            return unpacked_line(value)
    raise ValueError("neither a text nor base64")


Bytes: TypeAlias = Annotated[bytes, BeforeValidator(_unpacked)]  # a text; base64 if it is not UTF-8


class Manifest(_Model):
    """The manifest of an export.

    Args:
        unsettled: place -> number of its oldest change that may not be in the file.
        lists: the SHA-256 of each.
    """

    kind: Literal["honeybadger export"]
    format: int
    version: str
    group: Annotated[str, Field(pattern=NAME.pattern)]
    unsettled: dict[str, _Number]
    lists: dict[str, Digest]


class SeenLine(_Model):
    """A file as the host last saw it, if a person has changed it since.

    Args:
        digest: 16 bytes, hexadecimal.
        text: its text then; None: it was not kept.
    """

    size: _Number
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    text: Bytes | None


class FileLine(_Model):
    """One file.

    Args:
        sha256: None: a person has removed it since the host last looked.
        mtime_ns: when it was written; of a removed file 0.
        seen: True: unchanged since the host last looked; None: it never looked.
    """

    file: str
    sha256: Digest | None
    mtime_ns: int
    seen: Literal[True] | SeenLine | None


class RecalledLine(_Model):
    """An entry that a context recalled for a turn."""

    session: str
    entry: str
    turn: _Number


class _Line(_Model):
    """The members of changes, edits and receipts."""

    seq: _Number
    at: _Number
    by: str
    request: str


class _Change(_Line):
    """A change of the host, or an edit by a person."""

    kind: str
    file: str
    offset: int
    data: Bytes


class _Receipt(_Line):
    digest: Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$")]
    reply: Bytes


# ---------------------------------------------------------------------------------------------------------------- lines


def event_line(event: Row) -> dict[str, Any]:
    """Return a change or an edit as a line of `journal.jsonl` has it."""
    return {
        "seq": event.seq,
        "at": event.at,
        "by": event.sender,
        "request": event.request,
        "kind": event.kind,
        "file": place_of(event.file, event.group),
        "offset": event.offset,
        "data": packed_line(event.data),
    }


def event_of(value: Any, group: str, shift: int) -> Row:
    """Return the change or edit in a line of `journal.jsonl`. Raises Damaged.

    Args:
        group: the group that it is loaded as.
        shift: added to its number.
    """
    line = checked(_Change, value)
    file = file_of(line.file, group)
    row = Row(line.seq + shift, line.at, group, line.by, line.request, line.kind, file, line.offset, line.data)
    try:
        if is_edit(row):
            edit = edit_of(row)
            overtaken_by = edit.overtaken_by + shift if edit.overtaken_by else 0
            moved = edit._replace(event=edit.event + shift, overtaken_by=overtaken_by)
            return row._replace(data=moved.row(row.seq, row.at, row.group, row.sender, row.file).data)
        _check_data(row)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Damaged(f"change {line.seq} is not a {line.kind}: {error!r}") from None
    return row


def _check_data(row: Row) -> None:
    """Raise an error if a host could not read the data of a change at its start."""
    if row.kind not in CHANGE_KINDS:
        raise ValueError("this version does not know this kind")
    if row.kind in REVISED_KINDS:
        hunks_of(in_new_form(row))
    elif row.kind == TASK_RECORD:
        if not isinstance(orjson.loads(row.data)["task"], str):  # a state that cannot be read is skipped
            raise ValueError("it names no task")
    elif row.kind == "turn":
        int(orjson.loads(row.data)["turn"])
    elif row.kind in MARKED and parse_mark(row.data) is None:
        raise ValueError("it marks no turns")


def receipt_line(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as a line of `receipts.jsonl`."""
    return {
        "seq": receipt.seq,
        "at": receipt.at,
        "by": receipt.sender,
        "request": receipt.request,
        "digest": receipt.digest.hex(),
        "reply": packed_line(receipt.reply),
    }


def receipt_of(value: Any, group: str, shift: int) -> Receipt:
    """Return the receipt in a line of `receipts.jsonl`. Raises Damaged."""
    line = checked(_Receipt, value)
    return Receipt(line.seq + shift, line.at, group, line.by, line.request, bytes.fromhex(line.digest), line.reply)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of an export. Raises Damaged, HostError if it has another format."""
    try:
        with open(open_file(folder / MANIFEST), "rb") as file:
            value = orjson.loads(file.read(MAX_PIECE_BYTES))  # what is cut is not JSON
    except orjson.JSONDecodeError:
        raise Damaged(f"its {MANIFEST} is not JSON") from None
    if isinstance(value, Mapping) and value.get("format") not in (None, FORMAT):
        raise HostError(
            f"the export has format {value['format']!r}, this version reads {FORMAT}: use {value.get('version')!a}"
        )
    return checked(Manifest, value)


def read_lines(folder: Path, name: str, sha256: str | None) -> Iterator[Any]:
    """Yield the lines of a list after comparing its digest with the manifest. Raises Damaged."""
    if sha256_of(folder / name) != sha256:
        raise Damaged(f"{name} is not what {MANIFEST} says")
    with open(open_file(folder / name), "rb") as file:
        while line := file.readline(MAX_PIECE_BYTES):
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                raise Damaged(f"a line of {name} is not JSON") from None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file of an export. Raises Damaged."""
    with open(open_file(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_file(path: Path) -> int:
    """Return a descriptor of a file of an export. Raises Damaged."""
    try:
        return open_plain(path)[0]
    except OSError as error:
        raise Damaged(f"{path.name!r}: {error.strerror}") from None


def checked(model: type[edited.ModelT], value: Any) -> edited.ModelT:
    """Return a value as a model. Raises Damaged."""
    try:
        return edited.checked(model, value)
    except ValueError as error:
        raise Damaged(str(error)) from None
