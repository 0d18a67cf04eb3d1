"""Working memory: scratch entries of one session that expire (RB6). Pure.

One file for each key, `data/working/<group>/<session>/<key>.json`, so that a save writes one small file and one row of
the journal, and each session sees only its own folder.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import orjson

from honeybadger_host.errors import WorldFailed
from honeybadger_host.memory.edited import Edited, Stamp, Texts, checked, read_json
from honeybadger_host.memory.markdown.budget import fitting
from honeybadger_host.text.neutralise import estimate_tokens, list_line, one_line

HEADING = "Working memory (scratch space \N{EM DASH} use search_working_memory or get_from_working_memory to retrieve):"
ROOT = "data/working"
_PLAIN = re.compile(rb"[a-z0-9_.-]")
# In bytes: with `.json` and the additions of a temporary file it stays below the 255 that file systems allow.
_MAX_NAME_LENGTH = 180


class WorkingEntry(Edited):
    """An entry, and its file.

    Args:
        key: one visible line, unique in its session; upper and lower case differ.
        tags: each once; may be empty.
        stored_at: UTC, whole milliseconds.
        expires_at: likewise; from then on the entry does not exist for anybody.
        by: the name of its sender.
        data: as it was sent.
    """

    key: str
    session: str
    category: str | None = None
    tags: Texts = ()
    stored_at: Stamp
    expires_at: Stamp
    by: str
    request: str = ""
    data: str

    def is_expired(self, now: datetime) -> bool:
        """Return whether the entry has expired.

        The wall clock decides, so that an expiry survives a restart. A clock that is set back may lengthen a life by at
        most its own length: an entry that was stored further in the future counts as expired.
        """
        return now >= self.expires_at or now < self.stored_at - (self.expires_at - self.stored_at)

    def remaining(self, now: datetime) -> timedelta:
        """Return how long the entry still lives, never longer than the life it was saved with."""
        return max(timedelta(0), min(self.expires_at - now, self.expires_at - self.stored_at))


# --------------------------------------------------------------------------------------------------------------- files


def file_name(name: str) -> str:
    """Return a unique name of a file or folder, unique also on file systems that ignore case.

    Lower-case ASCII letters, digits, `_`, `-`, and dots after the first character stay; every other byte of the UTF-8
    becomes `%` and two hex digits. A name that gets too long is cut and ends with `~` and its SHA-256.
    """
    data = name.encode()
    parts = [
        chr(byte) if _PLAIN.match(data, at) and (at or byte != ord(".")) else f"%{byte:02x}"
        for at, byte in enumerate(data)
    ]
    encoded = "".join(parts)
    if len(encoded) <= _MAX_NAME_LENGTH:
        return encoded
    return f"{encoded[: _MAX_NAME_LENGTH - 65].rpartition('%')[0] or encoded[:60]}~{hashlib.sha256(data).hexdigest()}"


def session_folder(group: str, session: str) -> str:
    return f"{ROOT}/{group}/{file_name(session)}"


def working_file(group: str, session: str, key: str) -> str:
    return f"{session_folder(group, session)}/{file_name(key)}.json"


def dump_working(entry: WorkingEntry) -> bytes:
    return orjson.dumps(entry.model_dump(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def parse_working(data: bytes) -> WorkingEntry:
    """Return the entry in a file; a time without a zone is UTC. Raises ValueError: names the fault."""
    return checked(WorkingEntry, read_json(data))


def parse_own(data: bytes, group: str, session: str, file: str) -> WorkingEntry:
    """Return the entry of one file of a session. Raises ValueError if it is none, or belongs into another file."""
    entry = parse_working(data)
    if entry.session != session or working_file(group, session, entry.key) != file:
        raise ValueError("it holds the entry of another key or session, as a copy does: rename it, or correct it")
    return entry


def own_entry(data: bytes, group: str, session: str, file: str) -> WorkingEntry:
    """Return the entry of a file. Raises WorldFailed if it is none: a person must mend it or move it away."""
    try:
        return parse_own(data, group, session, file)
    except ValueError as error:
        raise WorldFailed(f"{file} is not an entry of working memory ({error}): use another key meanwhile") from None


def is_over(data: bytes, now: datetime, was_watched_for: Callable[[float], bool]) -> bool:
    """Return whether a file's entry has certainly expired; False for a file that is no entry.

    If the clock was set, entries may only seem expired or seem to be from the future. They stay on the disk until the
    clock has run on for their whole lifetime: then they have expired by any clock.

    Args:
        was_watched_for: seconds -> whether the clock was not set during that time.
    """
    try:
        entry = parse_working(data)
    except ValueError:
        return False
    return entry.is_expired(now) and was_watched_for((entry.expires_at - entry.stored_at).total_seconds())


# ----------------------------------------------------------------------------------------------------------- inventory


def live(entries: Iterable[WorkingEntry], now: datetime) -> list[WorkingEntry]:
    """Return the entries that have not expired, sorted by key."""
    return sorted((entry for entry in entries if not entry.is_expired(now)), key=lambda entry: entry.key)


def inventory(entries: Iterable[WorkingEntry], now: datetime) -> list[str]:
    """Return a session's entries as the context lists them, without expired ones, sorted by key."""
    return [inventory_line(entry, now) for entry in live(entries, now)]


def inventory_line(entry: WorkingEntry, now: datetime) -> str:
    """Return `- key: expires in 4m32s, category: c, tags: a, b` and a line end, without blank parts (RB6)."""
    parts = [f"{one_line(entry.key).text}: expires in {span_text(entry.remaining(now))}"]
    if category := one_line(entry.category or "").text:
        parts.append(f"category: {category}")
    if tags := [text for tag in entry.tags if (text := one_line(tag).text)]:
        parts.append(f"tags: {', '.join(tags)}")
    return list_line(", ".join(parts))


def span_text(span: timedelta) -> str:
    """Return `4m32s`, `0m05s`, `1h00m00s`, rounded down to seconds."""
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m{seconds:02}s" if hours else f"{minutes}m{seconds:02}s"


def cut_inventory(lines: Sequence[str], share_tokens: int) -> tuple[str, int]:
    """Return the first lines that fit a share, and how many were left out.

    The text is empty if no line fits together with the line that says how many are left out.
    """
    mark = "[... {} more, see list_working_memory]\n"
    kept = fitting(lines, share_tokens - estimate_tokens(mark.format(len(lines))) - 1)
    left_out = len(lines) - len(kept)
    return "".join([*kept, mark.format(left_out)]) if kept else "", left_out
