"""Load a group from its export, into a home without a running host.

The export is checked first, then one commit takes it in, then its files are moved into place. Before the commit nothing
of the group exists. If a kill interrupts the moves, the next host or command finishes them first.
"""

import os
import re
import zlib
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP, checked_name, new_id
from honeybadger_host.documents.in_use import MAX_BYTES
from honeybadger_host.errors import Damaged, HomeError, HomeLocked, HostError
from honeybadger_host.files.file_cache import NEVER_SEEN
from honeybadger_host.files.home import JOURNAL_FILE, HomeLock, folders_of, read_holder, single_files_of
from honeybadger_host.files.safe_files import make_folders, open_new, sync_all
from honeybadger_host.journal.edits import Seen, digest_of, edit_of, is_edit
from honeybadger_host.journal.forgetting import Forgetting, read_forgetting, read_tombstones
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import Receipt, Row, SharedLog
from honeybadger_host.journal.transfer import Arriving, last_of, write_events
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.peoples_files import document_group
from honeybadger_host.ops.archive import MAX_RATIO, unpack
from honeybadger_host.text.phrases import said_in
from honeybadger_host.transfer.exported import (
    CONTENT,
    FILES,
    JOURNAL,
    RECALLED,
    RECEIPTS,
    FileLine,
    Manifest,
    RecalledLine,
    SeenLine,
    checked,
    event_of,
    open_file,
    read_lines,
    read_manifest,
    receipt_of,
    sha256_of,
)
from honeybadger_host.transfer.places import (
    MAX_PIECE_BYTES,
    STAGING,
    file_of,
    files_below,
    finish_loading,
    is_plain,
    is_template,
    staged_file,
)

_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class Loaded:
    """The report of a load.

    Args:
        shift: added to the numbers of the group's changes, as the journal already had such numbers.
        was_there: the group's name in the export.
        forgetting: texts that this home has forgotten before, to be forgotten again before the group is served.
    """

    files: int
    changes: int
    shift: int
    was_there: str
    forgetting: Forgetting | None = None


def load_export(
    home: Path,
    group: str,
    source: Path,
    *,
    is_dry: bool = False,
    shared: SharedLog | None = None,
) -> Loaded:
    """Load a group from a folder or an archive. The group must not have anything yet.

    Args:
        shared: the log of a home that several machines keep; then the home is this process's already.
    Raises HomeLocked if a host serves the home. Raises HostError; nothing was changed.
    """
    checked_name("group", group)
    if group == GLOBAL_GROUP:
        raise HomeError(f"{GLOBAL_GROUP!r} is for all groups: choose another group")
    with _alone(home) if shared is None else nullcontext():
        finish_loading(home)
        if (begun := read_forgetting(home / JOURNAL_FILE)) is not None:
            raise HostError(f"a forget in {begun.group} was interrupted: start a host to finish it, then import again")
        try:
            folder = source
            if not source.is_dir():  # an archive that nobody vouches for
                folder = home / "data" / STAGING / ".export"
                make_folders(folder)
                unpack(source, folder, is_plain, MAX_RATIO * source.stat().st_size)
            loader = _Loader(home, group, folder, shared)
            loader.check_empty()
            return loader.check() if is_dry else loader.load()
        except OSError as error:
            what = error.filename or source
            raise HostError(f"cannot read or write {what}: {error.strerror}; nothing was changed") from None
        finally:
            finish_loading(home)


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Lock a home, with its journal closed. Raises HostError."""
    try:
        lock = HomeLock(home)
    except HomeLocked:
        raise HomeLocked(
            f"{home} is served by {read_holder(home)}: stop that host, import, and start it again; nothing was changed"
        ) from None
    with closing(lock):
        with closing(Journal.open(home / JOURNAL_FILE, expected_identity=lock.previous.journal)) as journal:
            lock.sign(journal.identity)
        yield


class _Loader:
    def __init__(self, home: Path, group: str, folder: Path, shared: SharedLog | None) -> None:
        self._home, self._group, self._folder, self._shared = home, group, folder, shared
        self._journal = home / JOURNAL_FILE
        self._manifest: Manifest = read_manifest(folder)
        last = last_of(self._journal)[0]
        first = next((event.seq for event in self._events(0)), 1)
        self._shift = 0 if last < first else last
        self._last = self._shift
        self._staged: list[Path] = []
        self._forgotten = _ForgottenBefore(self._journal, {group, self._manifest.group})

    def check_empty(self) -> None:
        """Raise HostError if the group has anything."""
        now_what = "an export is loaded into a new group: name one that is not there yet"
        if last_of(self._journal, self._group)[0]:
            raise HostError(f"the journal has changes of {self._group}; {now_what}")
        for place in (*single_files_of(self._group).values(), *folders_of(self._group).values()):
            path = self._home / place
            for found in [path] if path.is_symlink() or path.is_file() else files_below(path):
                if not is_template(found):
                    raise HostError(f"{self._group} has {found.relative_to(self._home)}; {now_what}")

    def check(self) -> Loaded:
        """Read the whole export, and stage its files. Raises HostError."""
        for line in self._file_lines():
            self._stage(line)
        changes = 0
        for event in self._events(self._shift):
            changes += 1
            self._last = event.seq
            self._forgotten.look_at(event)
        for _ in self._receipts():
            pass
        self._recalled()
        return Loaded(len(self._staged), changes, self._shift, self._manifest.group, self._forgotten.plan(self._group))

    def load(self) -> Loaded:
        """Check the export, and commit it. Raises HostError."""
        found = self.check()
        sync_all(self._staged, self._home)
        with closing(InjectionLedger(self._home)) as ledger:
            ledger.take_in(self._group, self._recalled())
        unsettled = {
            file_of(place, self._group): first + self._shift for place, first in self._manifest.unsettled.items()
        }
        write_events(
            self._journal,
            self._group,
            self._events(self._shift),
            Arriving(self._receipts(), self._seen(), unsettled, found.forgetting),
            self._shared,
        )
        return found

    # -------------------------------------------------------------------------------------------------------- reading

    def _lines(self, name: str) -> Iterator[Any]:
        return read_lines(self._folder, name, self._manifest.lists.get(name))

    def _events(self, shift: int) -> Iterator[Row]:
        seq = at = 0
        for value in self._lines(JOURNAL):
            event = event_of(value, self._group, shift)
            if event.seq <= max(seq, shift) or event.at < at:
                raise Damaged(f"{JOURNAL} is not in order")
            seq, at = event.seq, event.at
            yield event

    def _receipts(self) -> Iterator[Receipt]:
        return (receipt_of(value, self._group, self._shift) for value in self._lines(RECEIPTS))

    def _recalled(self) -> list[tuple[str, str, int]]:
        lines = [checked(RecalledLine, value) for value in self._lines(RECALLED)]
        return [(line.session, line.entry, line.turn) for line in lines]

    def _file_lines(self) -> Iterator[FileLine]:
        return (checked(FileLine, value) for value in self._lines(FILES))

    def _stage(self, line: FileLine) -> None:
        """Copy a file to where it is moved from later, after comparing it with its digest."""
        target = staged_file(self._home, file_of(line.file, self._group))
        if line.sha256 is None:
            return
        make_folders(target.parent)
        with open(open_file(self._folder / CONTENT / line.file), "rb") as source, open(open_new(target), "wb") as copy:
            # the end of a line comes along, so that no text is in two pieces; a document is one piece
            while data := source.read(MAX_BYTES) + source.readline(MAX_PIECE_BYTES):
                copy.write(data)
                self._forgotten.look_into(data)
        if sha256_of(target) != line.sha256:
            raise Damaged(f"{line.file!r} is not what {FILES} says")
        os.utime(target, ns=(line.mtime_ns, line.mtime_ns))
        self._staged.append(target)

    def _seen(self) -> Iterator[Seen]:
        """Yield people's files as the host last saw them, so that it notices later edits."""
        for line in self._file_lines():
            file = file_of(line.file, self._group)
            if document_group(file) is None:
                continue
            if isinstance(line.seen, SeenLine):
                packed = None if line.seen.text is None else zlib.compress(line.seen.text, 1)
                yield Seen(file, self._last, NEVER_SEEN, line.seen.size, bytes.fromhex(line.seen.digest), packed)
            elif line.seen:
                data = staged_file(self._home, file).read_bytes()
                packed = zlib.compress(data, 1) if len(data) <= MAX_BYTES else None
                yield Seen(file, self._last, NEVER_SEEN, len(data), digest_of(data), packed)


class _ForgottenBefore:
    """Finds texts in an export that this home has forgotten before. Raises JournalError.

    Args:
        groups: the groups whose forgotten texts are looked for.
    """

    def __init__(self, journal: Path, groups: Collection[str]) -> None:
        known = [read_tombstones(journal, group) for group in sorted(groups)]
        self._known = [each for each in known if each.digests]
        self._parts: dict[str, None] = {}
        self._wholes: dict[str, None] = {}

    def look_at(self, event: Row) -> None:
        """Look for forgotten texts in a change."""
        if is_edit(event):
            for hunk in edit_of(event).hunks or () if self._known else ():
                for side in (hunk.removed, hunk.added):
                    self.look_into(b"".join(side))
        else:
            self.look_into(event.data)

    def look_into(self, data: bytes) -> None:
        """Look for forgotten texts in a text, in JSON, or in lines of JSON."""
        text = data.decode("utf-8", "replace")
        texts = _JSON_STRING.findall(text) if text.lstrip()[:1] in ("{", "[", '"') else [text]
        for known in self._known:
            for one in texts:
                self._parts.update(dict.fromkeys(known.found_in(one)))
            self._wholes.update((text, None) for text in said_in(data) if known.says_only(text))

    def plan(self, group: str) -> Forgetting | None:
        """Return the plan of what to forget in the imported group, or None if nothing was found."""
        if not self._parts and not self._wholes:
            return None
        return Forgetting(group, orjson.dumps({"id": new_id()}).decode(), asked=[*self._parts], wholes=[*self._wholes])
