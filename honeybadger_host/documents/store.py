"""Documents: what the journal says they hold, what the host left on disk, and what people saved.

The journal has the truth; a file is the newest version, rendered. Where the file is not as the host left it, a person
saved it: once nobody writes to it any more, what they changed is merged into the newest version and becomes one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from honeybadger_host.documents.document import Rules
from honeybadger_host.documents.in_use import DocumentsInUse
from honeybadger_host.documents.rendering import Renderer
from honeybadger_host.documents.saves import Saves
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.safe_files import Signature, path_in
from honeybadger_host.files.unsynced import Unsynced
from honeybadger_host.journal.atomic_files import read_whole
from honeybadger_host.journal.journal import Journal


class Documents:
    """Documents of a home.

    Functions that render or take in are called by the thread that writes the journal; the others by any thread.

    Args:
        group_of: returns the group of a document's file, None when it is not one.
        author_of: returns whom a file's owner is shown as.
        changed: called with a file after it was written, or its newest version changed.
        wall: seconds since the epoch; `clock` is monotonic.
        rules: returns the rules of a file's kind; None: it has none.
        saves: the class that takes in what people save.
    """

    def __init__(
        self,
        home: Path,
        journal: Journal,
        unsynced: Unsynced,
        *,
        group_of: Callable[[str], str | None],
        author_of: Callable[[int], str],
        changed: Callable[[str], None] = lambda file: None,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        rules: Callable[[str], Rules | None] = lambda file: None,
        saves: type[Saves] = Saves,
    ) -> None:
        self._home = home
        self._journal = journal
        self._changed = changed
        self.in_use = in_use = DocumentsInUse(home, journal, group_of, clock, rules)
        self.saves = saves(home, in_use, journal, unsynced, author_of=author_of, changed=changed, wall=wall)
        overtake = self.saves.overtake
        self.renderer = Renderer(home, in_use, unsynced, overtake=overtake, changed=changed, wall=wall)
        self.saves.renderer = self.renderer
        self.covers = in_use.covers
        self.touch = in_use.touch
        self.current = self.saves.current

    def hash_of(self, file: str) -> hashlib._Hash | None:
        """Return the SHA-256 of the newest version, to go on with, or None if it is empty. Raises WorldFailed."""
        with self.in_use.lock:
            document = self.in_use.load(file)
            if document.hash is None:
                document.hash = hashlib.sha256(document.text)
            return document.hash.copy() if document.text else None

    def read(self, file: str) -> bytes | None:
        """Return the same as `current`, and keep nothing in memory for a file that is as it should be.

        Raises WorldFailed.
        """
        if self.in_use.get(file) is not None:
            return self.current(file)
        data = read_whole(path_in(self._home, file))
        return self.current(file) if data is not None and not self.in_use.may_be_version(file, data) else data

    def render(self, file: str) -> None:
        """Write a document whose derived members have changed, unless somebody saves it. In the writer's place.

        Raises WorldFailed.
        """
        with self.in_use.lock:
            document = self.in_use.load(file)
            if document.is_there:
                document.pending_seq = document.pending_seq or document.seq
                self.renderer.render(document, is_durable=False)
        self._changed(file)

    def expire(self, files: Sequence[str], is_over: Callable[[bytes], bool]) -> int:
        """Remove files whose life is over, and what the journal knows of them; return how many.

        In the writer's place. No change of the journal says so: expired is expired.
        """
        gone: list[str] = []
        with self.in_use.lock:
            for file in files:
                path = path_in(self._home, file)
                with contextlib.suppress(OSError, WorldFailed):
                    data = read_whole(path)
                    if data is not None and not self.is_behind(file) and is_over(data):
                        os.unlink(path)
                        self.in_use.discard(file)
                        gone.append(file)
            if gone:
                self._journal.forget_files(gone)
        for file in gone:
            self._changed(file)
            with contextlib.suppress(OSError):  # there is something left in it
                os.rmdir(path_in(self._home, file).parent)
        return len(gone)

    def view(self, file: str, data: bytes, signature: Signature) -> bytes:
        """See `Saves.view`; a file that is no document is returned unchanged."""
        return self.saves.view(file, data, signature) if self.covers(file) else data

    def touch_changed(self) -> None:
        """Say of all documents in use which of them are not as the host left them."""
        for document in self.in_use.every():
            if self.renderer.is_disturbed(document):
                self.touch(document.file)

    @property
    def behind(self) -> list[str]:
        """Documents whose file lacks something and could not be written."""
        return [document.file for document in self.in_use.every() if document.has_failed]

    def is_behind(self, file: str) -> bool:
        """Return whether a file lacks something that the journal has."""
        document = self.in_use.get(file)
        return document is not None and document.pending_seq > 0

    @property
    def pending(self) -> dict[str, int]:
        """File -> the first change that is not in it."""
        return {one.file: one.pending_seq for one in self.in_use.every() if one.pending_seq}
