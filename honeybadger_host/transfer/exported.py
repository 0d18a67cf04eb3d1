"""The form of an export of a group, and the checks of one that is read (docs/in-and-out.md).

```
export.json      the group; size and digest of each of the five lists
journal.jsonl    the changes, and the edits by people, oldest first
receipts.jsonl   the requests that are done
recalled.jsonl   the entries that contexts recalled
served.jsonl     empty: contexts that were served are not exported
files.jsonl      every file below files/: size, digest, time, and its state when the host last saw it
files/           group/ sessions/ context/ working/ consolidated/ tasks.jsonl feedback.jsonl messages.jsonl
```
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from honeybadger_agent.mailbox import NAME
from honeybadger_host.errors import HostError
from honeybadger_host.files.safe_files import NotRegular, open_plain
from honeybadger_host.journal.changes import TASK_RECORD, MarkedKind
from honeybadger_host.journal.edits import REVISED_KINDS, Edit, is_edit, packed_line
from honeybadger_host.journal.folding import check_lines
from honeybadger_host.journal.line_hunks import Hunk
from honeybadger_host.journal.reader import CHANGE_KINDS
from honeybadger_host.journal.schema import EDIT_KINDS, Receipt, Row
from honeybadger_host.memory.turn_log import parse_mark
from honeybadger_host.transfer.places import MAX_PIECE_BYTES, ExportDamaged, file_of, place_of
from honeybadger_host.work.task_states import TaskStates

FORMAT: Final = 1
MANIFEST: Final = "export.json"
JOURNAL: Final = "journal.jsonl"
RECEIPTS: Final = "receipts.jsonl"
RECALLED: Final = "recalled.jsonl"
SERVED: Final = "served.jsonl"  # always empty; earlier versions wrote hashes of contexts
FILES: Final = "files.jsonl"
LISTS: Final = (JOURNAL, RECEIPTS, RECALLED, SERVED, FILES)
CONTENT: Final = "files"
_DIGEST: Final = r"[0-9a-f]{64}"
_Number = Annotated[int, Field(ge=0, lt=1 << 62)]


# --------------------------------------------------------------------------------------------------------------- models


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Encoded(_Model):
    """Bytes that are not UTF-8."""

    base64: str


Bytes: TypeAlias = str | Encoded
ModelT = TypeVar("ModelT", bound=BaseModel)


class ListFile(_Model):
    size: _Number
    sha256: Annotated[str, Field(pattern=_DIGEST)]


class Manifest(_Model):
    """The manifest of an export.

    Args:
        seq: number of the last change or edit.
        unsettled: place -> number of its oldest change that may not be in the file.
    """

    kind: Literal["honeybadger export"]
    format: int
    version: str
    group: Annotated[str, Field(pattern=NAME.pattern)]
    seq: _Number
    unsettled: dict[str, _Number]
    files: _Number
    bytes: _Number
    lists: dict[str, ListFile]


class SeenLine(_Model):
    """A file as the host last saw it, if a person has changed it since.

    Args:
        digest: 16 bytes, hexadecimal.
        text: its text then; None: it was not kept.
    """

    size: _Number
    digest: Annotated[str, Field(pattern=r"[0-9a-f]{32}")]
    text: Bytes | None


class FileLine(_Model):
    """One file.

    Args:
        size: None: a person has removed it since the host last looked.
        seen: `known`: unchanged since the host last looked; `kept`: also, its text was kept; None: never looked at.
    """

    file: str
    size: _Number | None
    sha256: Annotated[str, Field(pattern=_DIGEST)] | None = None
    mtime_ns: int | None = None
    seen: Literal["kept", "known"] | SeenLine | None = None


class RecalledLine(_Model):
    """An entry that a context recalled for a turn."""

    session: str
    entry: str
    turn: _Number


class _Event(_Model):
    seq: _Number
    at: _Number
    by: str
    kind: str
    file: str
    request: str | None = None
    offset: int | None = None
    data: Bytes | None = None
    event: _Number | None = None
    before: str | None = None
    after: str | None = None
    hunks: list[tuple[int, list[Bytes], list[Bytes]]] | None = None


class _Receipt(_Model):
    seq: _Number
    at: _Number
    by: str
    request: str
    digest: str
    reply: Bytes


# ---------------------------------------------------------------------------------------------------------------- lines


def bytes_of(value: Bytes) -> bytes:
    """Return the bytes. Raises ExportDamaged."""
    try:
        return value.encode() if isinstance(value, str) else base64.b64decode(value.base64, validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ExportDamaged(str(error)) from None


def event_line(event: Row) -> dict[str, Any]:
    """Return a change or an edit as a line of `journal.jsonl` has it."""
    place = place_of(event.file, event.group)
    if place is None:
        raise HostError(f"change {event.seq} is of {event.file}, which is not a file of {event.group}: report this")
    if not is_edit(event):
        line = {"seq": event.seq, "at": event.at, "by": event.sender, "request": event.request, "kind": event.kind}
        return line | {"file": place, "offset": event.offset, "data": packed_line(event.data)}
    told = orjson.loads(event.data)
    line = {"seq": event.seq, "at": event.at, "by": event.sender, "event": told["event"], "kind": event.kind}
    return line | {"file": place, **{name: told[name] for name in ("before", "after", "hunks")}}


def event_of(value: Any, group: str, shift: int) -> Row:
    """Return the change or edit in a line of `journal.jsonl`. Raises ExportDamaged.

    Args:
        group: the group that it is loaded as.
        shift: added to its number.
    """
    line = _checked(_Event, value)
    file = file_of(line.file, group)
    if line.kind in EDIT_KINDS and line.event is not None:
        made: list[Hunk] | None = None
        if line.hunks is not None:
            made = [Hunk(at, [*map(bytes_of, old)], [*map(bytes_of, new)]) for at, old, new in line.hunks]
        before, after = (None if side is None else _hex(side) for side in (line.before, line.after))
        edit = Edit(line.event + shift, before, after, made)
        return edit.row(line.seq + shift, line.at, group, line.by, file)
    if (
        line.kind not in CHANGE_KINDS
        or line.kind in EDIT_KINDS
        or line.request is None
        or line.offset is None
        or line.data is None
    ):
        raise ExportDamaged(f"change {line.seq} is of a kind this version does not know: {line.kind!a}")
    data = bytes_of(line.data)
    row = Row(line.seq + shift, line.at, group, line.by, line.request, line.kind, file, line.offset, data)
    try:
        _check_data(row)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ExportDamaged(f"change {line.seq} is not a {line.kind}: {error!r}") from None
    return row


def _check_data(row: Row) -> None:
    """Raise an error if a host could not read the data of a change at its start."""
    if row.kind in REVISED_KINDS:
        check_lines(row)
    elif row.kind == TASK_RECORD:
        TaskStates([("", row.data)])
    elif row.kind == "turn":
        int(orjson.loads(row.data)["turn"])
    elif row.kind in get_args(MarkedKind) and parse_mark(row.data) is None:
        raise ValueError("it marks no turns")


def receipt_line(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as a line of `receipts.jsonl`."""
    line = {"seq": receipt.seq, "at": receipt.at, "by": receipt.sender, "request": receipt.request}
    return line | {"digest": receipt.digest.hex(), "reply": packed_line(receipt.reply)}


def receipt_of(value: Any, group: str, shift: int) -> Receipt:
    """Return the receipt in a line of `receipts.jsonl`. Raises ExportDamaged."""
    line = _checked(_Receipt, value)
    return Receipt(line.seq + shift, line.at, group, line.by, line.request, _hex(line.digest), bytes_of(line.reply))


def file_line(value: Any) -> FileLine:
    """Return the file in a line of `files.jsonl`. Raises ExportDamaged."""
    line = _checked(FileLine, value)
    if line.size is not None and (line.sha256 is None or line.mtime_ns is None):
        raise ExportDamaged(f"{line.file!a} is listed without its digest")
    return line


def recalled_line(value: Any) -> RecalledLine:
    """Return the recall in a line of `recalled.jsonl`. Raises ExportDamaged."""
    return _checked(RecalledLine, value)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of an export. Raises ExportDamaged, HostError if it has another format."""
    try:
        value = orjson.loads(read_plain(folder / MANIFEST, 1 << 20))
    except orjson.JSONDecodeError:
        raise ExportDamaged(f"its {MANIFEST} is not JSON") from None
    if isinstance(value, Mapping) and value.get("format") not in (None, FORMAT):
        version = ascii(value.get("version"))
        raise HostError(f"the export has format {value['format']!a}, this version reads {FORMAT}: use {version}")
    manifest = _checked(Manifest, value)
    if {*manifest.lists} != {*LISTS}:
        raise ExportDamaged(f"its {MANIFEST} does not name its lists")
    return manifest


def read_lines(folder: Path, name: str, listed: ListFile) -> Iterator[Any]:
    """Yield the lines of a list, and compare its digest with the manifest at its end. Raises ExportDamaged."""
    digest, size = hashlib.sha256(), 0
    with open(open_file(folder / name), "rb") as file:
        while line := file.readline(MAX_PIECE_BYTES):
            digest.update(line)
            size += len(line)
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                raise ExportDamaged(f"a line of {name} is not JSON") from None
    if (size, digest.hexdigest()) != (listed.size, listed.sha256):
        raise ExportDamaged(f"{name} is not what {MANIFEST} says")


def read_plain(path: Path, most: int) -> bytes:
    """Return the bytes of a small file. Raises ExportDamaged."""
    with open(open_file(path), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ExportDamaged(f"{path.name} is too large")
    return data


def open_file(path: Path) -> int:
    """Return a descriptor of a file of an export. Raises ExportDamaged."""
    try:
        return open_plain(path)[0]
    except NotRegular as error:
        raise ExportDamaged(f"{path.name!a} is {error}") from None
    except OSError as error:
        raise ExportDamaged(f"{path.name!a}: {error.strerror}") from None


def _checked(model: type[ModelT], value: Any) -> ModelT:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ExportDamaged(f"{where}: {first['msg']}") from None


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ExportDamaged("a digest is not hexadecimal") from None
