"""The contexts that were put before models: the hash of each, its moment, and what it takes to make it again.

Lines of JSON that are only appended; a full file becomes the earlier one. The texts of contexts are not in them: they
are in the journal.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import IO, Final

import orjson

from honeybadger_host.domain import Served
from honeybadger_host.storage.edits import digest_of
from honeybadger_host.storage.files import FILE_MODE, NotRegular, make_folders, open_plain, replace, write_all

SERVED_FILE: Final = "data/served.jsonl"
EARLIER_FILE: Final = "data/served.earlier.jsonl"
SERVED_FILES: Final = (EARLIER_FILE, SERVED_FILE)
MOST_BYTES: Final = 32 * 1024 * 1024  # of each file: 6,000 contexts that recall much, 50,000 that recall nothing
_TEXT: Final = b'{"text":'
_END: Final = b"}\n"  # of a line that no power cut tore
_MEMBERS: Final = tuple(one.name for one in fields(Served) if one.name != "injection")


class ServedContexts:
    """The contexts of a home. Whoever writes is alone.

    A kill loses nothing of what was written. A line stands between two newlines: what a power cut tore hides no other.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / SERVED_FILE
        self._earlier = home / EARLIER_FILE
        self._fd: int | None = None
        self._size = 0
        self._known: dict[str, str] = {}
        """Settings and identities that the file has for certain, with their hashes."""

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def note(self, served: Served) -> None:
        """Write one down. Raises OSError."""
        if self._fd is not None and self._size > MOST_BYTES:
            self.close()
            os.replace(self._path, self._earlier)
        if self._fd is None:
            make_folders(self._path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, FILE_MODE)
            self._size = os.fstat(self._fd).st_size
            self._known.clear()
        data = self._lines(served)
        write_all(self._fd, data)
        self._size += len(data)

    def _lines(self, served: Served) -> bytes:
        made = {name: getattr(served, name) for name in _MEMBERS}
        texts = b""
        for name in ("settings", "identity"):
            text = made[name]
            if (hash_ := self._known.get(text)) is None:
                hash_ = self._known[text] = digest_of(text.encode()).hex()
                texts += b"\n" + orjson.dumps({"text": hash_, "is": text}, option=orjson.OPT_APPEND_NEWLINE)
            made[name] = hash_
        return texts + b"\n" + orjson.dumps(made, option=orjson.OPT_APPEND_NEWLINE)

    def find(self, group: str, hash_: str) -> Served | None:
        """Return the newest context of a group with a hash that begins so. Raises OSError."""
        return self._newest(_lines_of(group, hash_.encode()).match)

    def until(self, group: str, session: str, seq: int, at: int, sender: str | None) -> Served | None:
        """Return the newest context of a session up to a moment; `sender` None: anybody's. Raises OSError."""
        of_session = _lines_of(
            group, b"", b'"session":%s,' % re.escape(orjson.dumps(session)), rb'"sender":(.*?),"seq":(\d+),"at":(\d+),'
        )
        of_sender = orjson.dumps(sender)

        def is_wanted(line: bytes) -> bool:
            found = of_session.match(line)
            return (
                found is not None
                and int(found[2]) <= seq
                and int(found[3]) <= at
                and (sender is None or found[1] == of_sender)
            )

        return self._newest(is_wanted)

    def every(self, group: str) -> Iterator[Served]:
        """Yield the contexts of a group, oldest first. Raises OSError."""
        for line, texts in self._read(_lines_of(group).match):
            if (served := _parsed(line, texts)) is not None:
                yield served

    def take_in(self, group: str, served: Iterable[Served]) -> None:
        """Keep these of a group instead of what is known of it. Raises OSError."""
        self.close()
        of_group = _lines_of(group)
        for path in (self._earlier, self._path):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                replace(path, b"".join(line for line in file if not of_group.match(line)))
        for one in served:
            self.note(one)

    def _newest(self, is_wanted: Callable[[bytes], object]) -> Served | None:
        return next((_parsed(*found) for found in deque(self._read(is_wanted), 1)), None)

    def _read(self, is_wanted: Callable[[bytes], object]) -> Iterator[tuple[bytes, dict[str, str]]]:
        """Yield whole lines of contexts, oldest first, each with the texts that its file has up to there."""
        with contextlib.ExitStack() as opened:
            files: list[IO[bytes]] = []
            for path in (self._path, self._earlier):  # in this order: the one may become the other in between
                with contextlib.suppress(FileNotFoundError, NotRegular):
                    files.append(opened.enter_context(open(open_plain(path)[0], "rb")))
            for file in reversed(files):
                texts: dict[str, str] = {}
                for line in file:
                    if line.startswith(_TEXT) and line.endswith(_END):
                        with contextlib.suppress(ValueError, KeyError):
                            said = orjson.loads(line)
                            texts[said["text"]] = said["is"]
                    elif is_wanted(line) and line.endswith(_END):
                        yield line, texts


def _lines_of(group: str, hash_: bytes = b"", *then: bytes) -> re.Pattern[bytes]:
    """Return what lines of a group begin with."""
    return re.compile(rb'\{"hash":"%s[0-9a-f]*","group":%s,' % (hash_, orjson.dumps(group)) + b"".join(then))


def _parsed(line: bytes, texts: Mapping[str, str]) -> Served | None:
    """Return the context of a line; None: the line is damaged."""
    try:
        value = orjson.loads(line)
        return Served(**{**value, **{name: texts.get(value[name], "") for name in ("settings", "identity")}})
    except (ValueError, TypeError, KeyError):
        return None
