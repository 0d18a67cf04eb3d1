"""Export all of a group, so that another home can have the same group (docs/decisions/034-in-and-out.md).

A host may serve the home meanwhile: files that change while they are copied are copied again.
"""

import os
import shutil
import tarfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import orjson

from honeybadger_host import __version__
from honeybadger_host.documents.in_use import MAX_BYTES, is_json, is_whole
from honeybadger_host.errors import HostError
from honeybadger_host.files.home import JOURNAL_FILE, folders_of, has_journal, is_served, single_files_of
from honeybadger_host.files.safe_files import (
    NotRegular,
    make_folders,
    open_new,
    open_plain,
    printable,
)
from honeybadger_host.journal.changes import WHOLE_KINDS
from honeybadger_host.journal.edits import EditReader, Seen, digest_of, packed_line, text_after
from honeybadger_host.journal.reader import read_changed_files
from honeybadger_host.journal.schema import Row
from honeybadger_host.journal.transfer import last_of, read_group, read_receipts, read_unsettled
from honeybadger_host.memory.injection_ledger import LEDGER_FILE, InjectionLedger
from honeybadger_host.memory.peoples_files import document_group
from honeybadger_host.ops.archive import appearing, packing
from honeybadger_host.transfer.exported import (
    CONTENT,
    FILES,
    FORMAT,
    JOURNAL,
    LISTS,
    MANIFEST,
    RECALLED,
    RECEIPTS,
    Manifest,
    event_line,
    receipt_line,
    sha256_of,
)
from honeybadger_host.transfer.places import file_of, is_plain, place_of

_QUIET_SECONDS = 1.0  # the files of a group are written this long after its last change
_MAX_SECONDS = 60.0  # a group that changes all the time for this long is not exported


@dataclass(slots=True)
class Exported:
    """The report of an export.

    Args:
        left_out: files that are hidden or not plain, each with the reason.
    """

    files: int = 0
    changes: int = 0
    left_out: list[str] = field(default_factory=list)


def export_group(home: Path, group: str, target: Path) -> Exported:
    """Export a group into a new folder, or a new archive when the name ends with .tar.gz or .tgz.

    Raises HostError if it cannot be read or written; then there is no export.
    """
    if not has_journal(home):
        raise HostError(f"no host has served {home} yet, so nobody knows who wrote what: start one, then export again")
    with appearing(target, "export") as made:
        if not target.name.endswith((".tar.gz", ".tgz")):
            return _Exporter(home, group, made).export()
        folder = made.with_name("folder")
        exported = _Exporter(home, group, folder).export()
        with packing(made) as tar:
            for name in (MANIFEST, *LISTS, CONTENT):
                tar.add(folder / name, name, filter=_with_name_alone)
        return exported


class _Exporter:
    def __init__(self, home: Path, group: str, to: Path) -> None:
        self._home, self._group, self._to = home, group, to
        self._journal = home / JOURNAL_FILE
        self._files: dict[str, tuple[str, int]] = {}  # place -> SHA-256 and time of a copied file
        self._done = Exported()

    def export(self) -> Exported:
        make_folders(self._to / CONTENT)
        seq = self._copy_until_quiet()
        self._done.files = len(self._files)
        lines = {
            JOURNAL: self._event_lines(seq),
            RECEIPTS: map(receipt_line, read_receipts(self._journal, self._group, seq)),
            RECALLED: self._recalled_lines(),
            FILES: self._file_lines(seq),
        }
        manifest = Manifest(
            kind="honeybadger export",
            format=FORMAT,
            version=__version__,
            group=self._group,
            unsettled=self._unsettled(seq),
            lists={name: self._write(name, lines[name]) for name in LISTS},
        )
        with open(open_new(self._to / MANIFEST), "wb") as file:
            file.write(orjson.dumps(manifest.model_dump(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return self._done

    def _copy_until_quiet(self) -> int:
        """Copy all files; return the number of the last change in them. Raises HostError."""
        deadline = time.monotonic() + _MAX_SECONDS
        seq, _ = last_of(self._journal, self._group)
        for file in self._walk():
            self._copy(file)
        while True:
            newest, at = last_of(self._journal, self._group)
            if is_served(self._home) and abs(time.time() - at / 1000) < _QUIET_SECONDS:  # not in the files yet
                if time.monotonic() > deadline:
                    raise HostError(
                        f"{self._group} changes all the time: stop its agents or the host, then export again"
                    )
                time.sleep(_QUIET_SECONDS / 10)
                continue
            changed = read_changed_files(self._journal, self._group, seq, newest) if newest > seq else []
            if not changed:
                return newest
            seq = newest
            for file in changed:
                self._copy(file)

    # ---------------------------------------------------------------------------------------------------------- files

    def _walk(self) -> Iterator[str]:
        """Yield the files that the group may have, below the home, and links in their place."""
        for folder in folders_of(self._group).values():
            for root, folders, names in os.walk(self._home / folder, onerror=_fail):
                below = os.path.relpath(root, self._home)
                names += [name for name in folders if os.path.islink(f"{root}/{name}")]
                folders[:] = [name for name in folders if self._is_exported(f"{below}/{name}")]
                yield from (f"{below}/{name}" for name in names if self._is_exported(f"{below}/{name}"))
        yield from single_files_of(self._group).values()

    def _is_exported(self, file: str) -> bool:
        name = os.path.basename(file)
        if not is_plain(name) and not name.endswith(".tmp"):
            self._leave_out(file, "hidden, or its name is not UTF-8")
        return is_plain(name)

    def _unsettled(self, seq: int) -> dict[str, int]:
        """Return place -> its oldest change that may not be in the file.

        Raises HostError if changes wait for a document that a person broke: they would not be in the export.
        """
        unsettled: dict[str, int] = {}
        for file, first in sorted(read_unsettled(self._journal, self._group, seq).items()):
            place = place_of(file, self._group)
            is_document = place in self._files and document_group(file) is not None
            if is_document and not is_whole(file, (self._to / CONTENT / place).read_bytes()):
                what = "JSON object" if is_json(file) else "UTF-8"
                raise HostError(f"{file} is no {what}, and changes wait for it: mend it, then export again")
            unsettled[place] = first
        return unsettled

    def _leave_out(self, file: str, why: str) -> None:
        self._done.left_out.append(f"{printable(file)}: {why}")

    def _copy(self, file: str) -> None:
        place = place_of(file, self._group)
        target = self._to / CONTENT / place
        try:
            fd, status = open_plain(self._home / file)
        except (FileNotFoundError, NotADirectoryError):
            target.unlink(missing_ok=True)
            self._files.pop(place, None)
            return
        except NotRegular as error:
            self._leave_out(file, str(error))
            return
        except OSError as error:
            raise HostError(f"cannot read {file}: {error.strerror}; there is no export without it") from None
        make_folders(target.parent)
        target.unlink(missing_ok=True)
        with open(fd, "rb") as source, open(open_new(target), "wb") as copy:
            shutil.copyfileobj(source, copy)
        self._files[place] = sha256_of(target), status.st_mtime_ns

    # ---------------------------------------------------------------------------------------------------------- lists

    def _write(self, name: str, lines: Iterable[Mapping[str, Any]]) -> str:
        """Write a list; return its SHA-256."""
        with open(open_new(self._to / name), "wb") as file:
            file.writelines(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
        return sha256_of(self._to / name)

    def _event_lines(self, seq: int) -> Iterator[Mapping[str, Any]]:
        for event in read_group(self._journal, self._group, seq):
            self._done.changes += 1
            yield event_line(event)

    def _recalled_lines(self) -> Iterator[Mapping[str, Any]]:
        if not (self._home / LEDGER_FILE).exists():
            return
        with closing(InjectionLedger(self._home)) as ledger:
            for session, entry, turn in ledger.all_of(self._group):
                yield {"session": session, "entry": entry, "turn": turn}

    def _file_lines(self, seq: int) -> Iterator[Mapping[str, Any]]:
        """Yield the line of each file, and of each file that a person has removed since the host last looked."""
        reader = EditReader(self._journal)
        below = [f"{folder}/" for folder in folders_of(self._group).values()]
        last_seen = reader.seen([file for folder in below for file in reader.names_below(folder)])
        since: defaultdict[str, list[Row]] = defaultdict(list)  # file -> the host's changes after it was seen
        for row in reader.unmarked():
            if row.seq <= seq:
                since[row.file].append(row)
        for place, (sha256, mtime_ns) in sorted(self._files.items()):
            file = file_of(place, self._group)
            seen = self._seen_as(place, last_seen.pop(file, None), since[file])
            yield {"file": place, "sha256": sha256, "mtime_ns": mtime_ns, "seen": seen}
        for file, known in sorted(last_seen.items()):
            if not since[file]:
                yield {"file": place_of(file, self._group), "sha256": None, "mtime_ns": 0, "seen": _seen_line(known)}

    def _seen_as(self, place: str, seen: Seen | None, rows: Sequence[Row]) -> Literal[True] | dict[str, Any] | None:
        """Return the member `seen` of a file's line; see `FileLine`."""
        if seen is None:
            return None
        data = (self._to / CONTENT / place).read_bytes()
        if len(data) > MAX_BYTES or digest_of(data) == seen.digest:
            return True
        if seen.packed is not None or (rows and rows[0].kind in WHOLE_KINDS):
            with suppress(ValueError):
                if reduce(text_after, rows, seen.text or b"") == data:
                    return True
        return _seen_line(seen)


def _fail(error: OSError) -> None:
    """Raise HostError unless a folder is not there. For `os.walk`."""
    if not isinstance(error, FileNotFoundError):
        raise HostError(f"cannot read {error.filename}: {error.strerror}; there is no export without it")


def _seen_line(known: Seen) -> dict[str, Any]:
    text = None if known.text is None else packed_line(known.text)
    return {"size": known.size, "digest": known.digest.hex(), "text": text}


def _with_name_alone(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member without owner and time."""
    plain = tarfile.TarInfo(member.name)
    plain.type, plain.size, plain.mode = member.type, member.size, 0o700 if member.isdir() else 0o600
    return plain
