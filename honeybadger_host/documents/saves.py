"""People's saves: each is noticed when nobody writes to the file any more, merged, and made a version."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from weakref import ref

from honeybadger_host.documents.in_use import (
    MAX_BYTES,
    MAX_SAVE_SECONDS,
    BegunSave,
    Document,
    DocumentsInUse,
    Extent,
    Found,
    Text,
    is_json,
    merged_as,
)
from honeybadger_host.documents.merge import nearest_json, units_of
from honeybadger_host.documents.rendering import Renderer
from honeybadger_host.documents.versions import (
    MAX_CANDIDATES,
    EarlierText,
    Saved,
    read_events,
    taken_back,
    unread_notes,
    versions_back,
    with_unread,
)
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.file_cache import MAX_ATTEMPTS, signature_of
from honeybadger_host.files.safe_files import (
    NotRegular,
    Signature,
    closing_fd,
    is_open_for_writing,
    open_plain,
    read_all,
)
from honeybadger_host.journal.changes import fingerprint, read_whole
from honeybadger_host.journal.edits import (
    FILES_AT_ONCE,
    KEPT_SAVED_MS,
    Edit,
    Looked,
    SavedText,
    Seen,
    digest_of,
    is_append,
    is_edit,
)
from honeybadger_host.journal.line_hunks import hunks_between, lines_of
from honeybadger_host.journal.schema import Row

QUIET_SECONDS = 0.5  # time without a change after which a changed file is read
# A note this much older than a save that goes back to an earlier version was read before it was deleted.
DELETED_SECONDS = 2.0
# The same text saved again within this time is the same editor's; later it goes back to that text. So is a text with
# what was deleted within this time: who deletes, saves and undoes it is more frequent than two people with a text each.
_SAVED_AGAIN_SECONDS = 60.0
# Files that are saved one after the other, as by `git checkout`, are one event of at most this length.
_MAX_GROUPING_SECONDS = 5.0


class Saves:
    """People's saves of the documents of a home; see `Projections`."""

    renderer: Renderer

    def __init__(self, in_use: DocumentsInUse) -> None:
        self._in_use = in_use
        self._damaged: set[str] = set()

    # -------------------------------------------------------------------------------------------------------- reading

    def current(self, file: str) -> bytes | None:
        """Return the newest version with what a person saved, or None if there is no such file. Raises WorldFailed."""
        in_use = self._in_use
        if in_use.is_nothing(file):
            return None
        path = self._in_use.path_of(file)
        for _ in range(MAX_ATTEMPTS):
            signature = signature_of(path)
            with in_use.lock:
                document = in_use.load(file)
                if signature == document.left:
                    return document.newest
            data = read_whole(path)
            if signature_of(path) == signature:
                return self.view(file, data, signature)
        raise WorldFailed(f"{path} is being saved by another program")

    def view(self, file: str, data: bytes | None, signature: Signature | None) -> bytes | None:
        """Return the text for a reader who found `data` in a file: the newest version merged with a person's save.

        None: there is no such file. A removed one is there again if notes came that it did not have.
        """
        in_use, document = self._in_use, self._in_use.get(file)
        if document is None and (data is None or not in_use.covers(file) or in_use.may_be_version(file, data)):
            return data
        with in_use.lock:
            document = document or in_use.load(file)
            if signature == document.left:
                return document.newest
            if data is not None and document.newest is not None and not in_use.may_be_version(file, data):
                return document.newest
        merged = self._compare(file, signature, "", data).merged
        return None if data is None and not merged else merged

    def extent_of(self, file: str, signature: Signature) -> Extent | None:
        """Return the extent of a document whose file is its newest version; None: the file must be read."""
        document = self._in_use.get(file)
        if document is None:
            return None
        with self._in_use.lock:
            if signature != document.left or document.rendered is not None or document.lacking:
                return None
            return Extent(ref(document.text), len(document.text))

    def damaged(self) -> list[str]:
        """Return files that were saved as something that is no JSON object; their last good version is served."""
        for file in [*self._damaged]:
            with contextlib.suppress(WorldFailed):
                data = read_whole(self._in_use.path_of(file))
                if data is None or self._in_use.may_be_version(file, data):
                    self._damaged.discard(file)
        return sorted(self._damaged)

    # -------------------------------------------------------------------------------------------------------- looking

    def look(self) -> list[Found]:
        """Return the files that people saved and nobody is saving any more. Raises StorageFailed."""
        in_use = self._in_use
        in_use.journal.check_files()  # of a home that was moved or unmounted, no file is there
        self.renderer.look_at_replaced()
        in_use.evict()
        for document in in_use.every():
            if not document.is_checked or document.pending_seq:
                self.renderer.check_written(document.file)
        found: list[Found] = []
        if self._is_going_on():
            return found
        for file in [*in_use.touched][:FILES_AT_ONCE]:
            try:
                one = self._look_at(file)
            except (OSError, WorldFailed) as error:
                if isinstance(error, NotRegular) or not os.path.lexists(self._in_use.path_of(file)):
                    in_use.touched.pop(file, None)
                continue
            if one is not None:
                found.append(one)
        return found

    def _is_going_on(self) -> bool:
        """Return whether a series of files is being saved; drop files that the host itself wrote."""
        now, touched = self._in_use.clock(), self._in_use.touched
        is_recent = is_long = False
        for file, (before, since, first) in [*touched.items()]:
            signature = signature_of(f"{self._in_use.home}/{file}")
            document = self._in_use.get(file)
            if document is not None and signature == document.left:
                touched.pop(file, None)
                continue
            if signature != before:
                since = now
                touched[file] = signature, since, first
            is_long = is_long or now - first > _MAX_GROUPING_SECONDS
            is_recent = is_recent or self._age(signature, since) < QUIET_SECONDS
        return is_recent and not is_long

    def _age(self, signature: Signature | None, since: float) -> float:
        """Return for how many seconds a file has been as it is."""
        age = self._in_use.clock() - since
        return age if signature is None else max(age, self._in_use.wall() - _stamp_of(signature))

    def _saved_at(self, signature: Signature | None) -> float:
        """Return when a file was saved, in seconds since the epoch; of a removed file the time now."""
        return self._in_use.wall() if signature is None else min(self._in_use.wall(), _stamp_of(signature))

    def _look_at(self, file: str) -> Found | None:
        """Return a person's save, or None if there is none yet. Raises OSError, WorldFailed."""
        path, touched = self._in_use.path_of(file), self._in_use.touched
        signature = signature_of(path)
        if file not in touched or signature != touched[file][0]:  # see `_is_going_on`
            return None
        _, since, first = touched[file]
        with self._in_use.lock:
            document = self._in_use.load(file)
            if signature == document.left and not (signature is None and document.pending_seq):
                touched.pop(file, None)
                self.renderer.check_written(file)
                return None
        if self._age(signature, since) < QUIET_SECONDS:
            return None
        if signature is None:
            touched.pop(file, None)
            return self._compare(file, None, "", None)
        is_patient = self._in_use.clock() - first < MAX_SAVE_SECONDS and self.renderer.is_recent(signature)
        if is_patient and is_open_for_writing(path):
            return None
        fd, status = open_plain(path)
        with closing_fd(fd):
            data = read_all(fd, status.st_size)
            if Signature.of(os.fstat(fd)) != signature or signature_of(path) != signature:
                return None
        touched.pop(file, None)
        if not self._in_use.may_be_version(file, data):
            self._damaged.add(file)
            return None  # whoever mends it saves it again
        return self._compare(file, signature, self._in_use.author_of(status.st_uid), data)

    def _compare(self, file: str, signature: Signature | None, author: str, data: bytes | None) -> Found:
        """Return the version that a save was made from, and the result of merging it into the newest version."""
        with self._in_use.lock:
            document = self._in_use.load(file)
            newest, on_disk, begun, seq = bytes(document.text), document.on_disk, document.begun_save, document.seq
            in_file = document.pending_seq - 1 if document.pending_seq else seq
            recent = [SavedText(file, digest_of(saved), 0, saved) for _, saved in document.overtaken]
        text = on_disk if data == on_disk else self._in_use.as_version(file, data or b"", newest)
        author = author or self._in_use.author_of(os.geteuid())
        found = Found(file, signature, author, data, text, on_disk, newest, newest)
        if data == on_disk:
            return found
        if begun is not None and begun.is_continued_by(text, newest, self._in_use.wall()):
            whole = merged_as(file, begun.after, newest, begun.before)  # as if its beginning had not been saved
            merged = merged_as(file, begun.base, whole, text)
            return found._replace(base=begun.base, merged=merged, begun_save=begun)
        saved_at = self._saved_at(signature)
        since = int(saved_at * 1000) - KEPT_SAVED_MS
        events = read_events(self._in_use.reader, file, since, seq)
        recent += self._in_use.reader.saved(file, since)
        recent = [one._replace(text=self._in_use.as_version(file, one.text, newest)) for one in recent]
        same = next((one for one in recent if data is not None and one.text == text), None)
        is_again = same is not None and saved_at - same.at / 1000 < _SAVED_AGAIN_SECONDS
        is_earlier = data is None or same is not None
        if not (is_earlier or is_json(file)):  # it takes 0.3 s in a million changes: not for each of many entries
            is_earlier = self._in_use.reader.has_version(file, digest_of(text))
        versions = [] if data is None else [*islice(versions_back(newest, events), MAX_CANDIDATES)]
        if is_json(file):
            versions = [one._replace(text=self._in_use.as_version(file, one.text, newest)) for one in versions]
        base: bytes | None = None
        if not is_earlier:
            older = sum(event.at < since for event in events)  # nobody has had a text open for that long
            versions = [one for one in versions if one.end >= older]
            undone_since = int((saved_at - _SAVED_AGAIN_SECONDS) * 1000)
            base = _base_of(file, text, newest, versions, events, recent, undone_since)
        elif versions:
            base = taken_back(text, 0 if same is None else same.at, versions, events, recent)
        if base is not None and base != text:
            return found._replace(base=base, merged=merged_as(file, base, newest, text))
        if is_again:
            return found._replace(base=text)
        # somebody brought an earlier version back: notes stay that they cannot have read and nobody removed since
        young_since = int((saved_at - DELETED_SECONDS) * 1000)
        unread = [row.data for row in events if is_append(row) and (row.at >= young_since or row.seq > in_file)]
        kept = [note for note in unread if note.strip() in newest and note.strip() not in text]
        return found._replace(base=text, merged=text + b"".join(kept))

    # ------------------------------------------------------------------------------------------------------ taking in

    def overtake(self, document: Document, row: Row) -> None:
        """Take in that a change was decided upon a text that somebody had saved just before."""
        if fingerprint(document.newest) == row.offset:
            return
        path = self._in_use.path_of(document.file)
        with contextlib.suppress(WorldFailed):
            left, data = signature_of(path), read_whole(path)
            read = self.view(document.file, data, left)
            if fingerprint(read) == row.offset:
                saved = replace(document, text=Text(read or b""), is_there=read is not None)
                edit = self._edit(document, saved)._replace(overtaken_by=row.seq)
                document.overtaken.append((edit, data or b""))
                document.is_rendered_as(data or b"", left)

    @property
    def overtaken(self) -> int:
        """Number of edits to keep that are no longer in any file."""
        return sum(len(document.overtaken) for document in self._in_use.every())

    def take_in(self, some: Sequence[Found], first: int) -> list[Row]:
        """Keep what people saved, and write it where it was merged; return the edits, numbered from `first` on.

        Raises WorldFailed, StorageFailed; nothing was changed.
        """
        edits: list[Row] = []
        seen: list[Seen] = []
        gone: list[str] = []
        recent: list[SavedText] = []
        begun: list[tuple[str, int, bytes]] = []
        done: list[tuple[Found, Document]] = []
        in_use = self._in_use
        at = max(in_use.journal.last_at, int(in_use.wall() * 1000))

        def row_of(edit: Edit, file: str, author: str) -> Row:
            group = in_use.group_of(file) or ""
            return edit._replace(event=first).row(first + len(edits), at, group, author, file)

        with in_use.lock:
            for document in in_use.every():
                for edit, text in document.overtaken:
                    edits.append(row_of(edit, document.file, self._in_use.author_of(os.geteuid())))
                    recent += [SavedText(document.file, digest_of(text), at, text)] if text else []
                document.overtaken = []
            for found in some:
                if signature_of(self._in_use.path_of(found.file)) != found.signature:
                    in_use.touch(found.file)
                    continue
                document = in_use.load(found.file)
                taken = self._taken(document, found)
                if taken.newest != document.newest:
                    for edit in self._edits(document, taken, found, first + len(edits)):
                        edits.append(row_of(edit, found.file, found.author))
                    if edit.hunks is None and len(taken.text) <= MAX_BYTES:
                        begun.append((found.file, taken.seq + 1, bytes(taken.text)))
                    if taken.is_there:
                        seen.append(in_use.mark_of(taken))
                    else:
                        gone.append(found.file)
                is_recent = self._saved_at(found.signature) * 1000 > at - KEPT_SAVED_MS
                if found.data is not None and taken.pending_seq and found.text != bytes(taken.text) and is_recent:
                    recent.append(SavedText(found.file, digest_of(found.data), at, found.data))
                done.append((found, taken))
            if edits or recent:
                self._in_use.journal.keep_looked(Looked(edits, seen, gone, saved=recent, begun=begun))
            units_of.cache_clear()
            for found, taken in done:
                in_use.put(taken)
                if taken.pending_seq:
                    self.renderer.render(taken)
                else:
                    self._in_use.unsynced.add(self._in_use.path_of(found.file))
                self._in_use.changed(found.file)
        return edits

    def _taken(self, document: Document, found: Found) -> Document:
        """Return a document as it is once a save is taken in."""
        file, newest = document.file, bytes(document.text)
        merged = merged_as(file, found.newest, newest, found.merged)
        is_changed = found.data is not None and (document.is_there or found.data != document.on_disk)
        is_there = is_changed or bool(merged)
        taken = replace(document, text=Text(merged), is_there=is_there, hash=None)
        is_rendered = merged == (found.data or b"") and is_there == (found.data is not None)
        taken.is_rendered_as(None if is_rendered else found.data or b"", found.signature)
        taken.pending_seq = 0 if is_rendered else document.pending_seq or document.seq or 1
        taken.is_checked = not is_rendered or is_json(file)
        if merged == newest and is_there == document.is_there:
            return taken
        taken.unkept_seq, taken.is_written, taken.begun_save = 0, False, None
        if found.data is not None and found.text != found.base:
            begun = found.begun_save
            before = newest if begun is None else merged_as(file, begun.after, newest, begun.before)
            taken.begun_save = BegunSave(self._in_use.wall(), found.text, found.base, before, merged)
        return taken

    def _edits(self, document: Document, taken: Document, found: Found, first: int) -> list[Edit]:
        """Return the edits of a save; removed unread notes are a separate edit, which can be undone alone."""
        newest, merged = bytes(document.text), bytes(taken.text)
        is_text = found.data is not None and not is_json(found.file)
        unread = unread_notes(newest, merged, found.text) if is_text else []
        stayed = replace(document, seq=first)
        if unread:
            stayed.text = Text(with_unread(newest, merged, unread))
        is_only_that = stayed.text == document.text
        taken.seq = first if is_only_that else first + 1
        last = self._edit(stayed, taken)._replace(unread=len(unread))
        return [last] if is_only_that else [self._edit(document, stayed), last]

    def _edit(self, document: Document, taken: Document) -> Edit:
        before, after = (None if one.newest is None else digest_of(one.newest) for one in (document, taken))
        texts = bytes(document.text), bytes(taken.text)
        hunks = None if max(map(len, texts)) > MAX_BYTES else hunks_between(*map(lines_of, texts))
        return Edit(0, before, after, hunks)


def _stamp_of(signature: Signature) -> float:
    """Return when a file was saved, in seconds since the epoch; a copy may have the time of another file."""
    return max(signature.mtime_ns, signature.ctime_ns) / 1e9


def _base_of(
    file: str,
    text: bytes,
    newest: bytes,
    versions: Sequence[EarlierText],
    events: Sequence[Row],
    recent: Sequence[SavedText],
    undone_since: int,
) -> bytes:
    """Return the version that a save was most likely made from.

    Args:
        versions: the newest first.
        events: changes of the file within the last hour, oldest first.
        recent: texts that people saved in that time.
        undone_since: see `Saved.candidates`.
    """
    if is_json(file):
        removed = next((version.end for version in versions if not version.text), -1)
        removed_at = events[removed - 1].at if removed > 0 else 0
        since = [version.text for version in versions if version.end > removed]
        since += [one.text for one in recent if not 0 < one.at < removed_at]
        earlier = [*(version.text for version in versions), *(one.text for one in recent)]
        before_edit = versions[1].text if len(versions) > 1 and is_edit(events[-1]) else newest
        return nearest_json(since, earlier, before_edit, newest, text)
    saved = Saved(text, newest)
    return saved.nearest(saved.candidates(versions, events, recent, undone_since))
