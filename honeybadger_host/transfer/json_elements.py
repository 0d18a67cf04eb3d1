"""Read the elements of a JSON array one at a time, as an export of years of conversations may not fit into memory."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any, TypeAlias

import orjson

from honeybadger_host.text.json_values import dumped
from honeybadger_host.transfer.places import MAX_PIECE_BYTES
from honeybadger_host.transfer.records import UNREADABLE, Found, Skipped, SourceFile

# Names of the conversation files of ChatGPT and Claude.
CONVERSATIONS = re.compile(r"(?:.*/)?conversations(?:[-_]\d+)?\.json")
# Everything up to the next bracket outside of a string; no match if the string is not complete yet.
_NEXT = re.compile(rb'(?:[^"\[\]{}]+|"(?:[^"\\]|\\.)*+")*+([\[\]{}])', re.DOTALL)
CHUNK_BYTES = 1 << 20
# (element, its place for people, its file) -> records.
ReadsOne: TypeAlias = Callable[[Mapping[str, Any], str, SourceFile], Iterator[Found]]
# Names of files -> the name of an element for people, and the function that reads one.
Kinds: TypeAlias = Mapping[re.Pattern[str], tuple[str, ReadsOne]]


def read_elements(kinds: Kinds, file: SourceFile) -> Iterator[Found]:
    """Yield the records of all elements of a file of one of the kinds, and each element that cannot be read."""
    for names, (what, read) in kinds.items():
        if names.fullmatch(file.name):
            yield from _read(file, what, read)


def _read(file: SourceFile, what: str, read: ReadsOne) -> Iterator[Found]:
    number = 0
    try:
        with file.open() as opened:
            for one in elements(opened):
                number += 1
                where = f"{file.name}, {what} {number}"
                if isinstance(one, orjson.JSONDecodeError):
                    yield Skipped(where, f"it is not JSON: {one}")
                    continue
                try:
                    yield from read(one, where, file)
                except (LookupError, TypeError, AttributeError, ValueError) as error:
                    yield misshapen(where, what, error)
    except (*UNREADABLE, ValueError) as error:
        yield Skipped(f"{file.name}, {what} {number + 1}", f"the file cannot be read: {error}")


def misshapen(where: str, what: str, error: Exception) -> Skipped:
    """Return what was skipped because a member was missing, or was another one than the program writes."""
    why = "a member is of another kind than expected"
    if isinstance(error, KeyError):
        why = f"{error.args[0]!r} is missing, or is not known"
    return Skipped(where, f"it has not the form of a {what}: {why}")


def read_lines(file: SourceFile) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each line of JSON; `Skipped` for one that is no object."""
    number = 0
    try:
        with file.open() as opened:
            while line := opened.readline(MAX_PIECE_BYTES):
                number += 1
                if not line.strip():
                    continue
                if not isinstance(value := _loaded(line), dict):
                    value = Skipped(f"{file.name}, line {number}", "it is not a JSON object")
                yield number, value
    except (*UNREADABLE, ValueError) as error:
        yield number, Skipped(f"{file.name}, line {number + 1}", str(error))


def elements(file: IO[bytes]) -> Iterator[Any]:
    """Yield the objects of an array, or the only object. One that is not JSON is an `orjson.JSONDecodeError`.

    Raises ValueError if the file ends too early, or an object is too large.
    """
    buffer, at, begin, depth = b"", 0, -1, 0
    is_inside, wanted = False, CHUNK_BYTES
    while data := file.read(wanted):
        buffer += data
        while (found := _NEXT.match(buffer, at)) is not None:
            at, bracket = found.end(), found[1]
            if bracket in b"{[":
                if begin < 0 and (is_inside or bracket == b"{"):
                    begin, depth = at - 1, 0
                is_inside = True
                depth += 1
            elif begin >= 0:
                depth -= 1
                if depth == 0:
                    yield _loaded(buffer[begin:at])
                    begin = -1
        keep = begin if begin >= 0 else at
        buffer, at, begin = buffer[keep:], at - keep, 0 if begin >= 0 else -1
        if len(buffer) > MAX_PIECE_BYTES:
            raise ValueError(f"it has more than {MAX_PIECE_BYTES >> 20} MiB")
        wanted = max(CHUNK_BYTES, len(buffer))  # a long element is not scanned again for each MiB
    if begin >= 0:
        raise ValueError("the file ends in the middle of it")


def _loaded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        with suppress(ValueError, RecursionError):  # Python takes half of a surrogate pair, of a text that was cut
            return orjson.loads(dumped(json.loads(data)))
        return error
