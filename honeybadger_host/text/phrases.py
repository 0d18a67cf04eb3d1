"""Finds texts to forget in every form they may have, and returns the rest of the text around them. Pure.

Case, spaces, line ends, Unicode form, invisible characters and JSON escapes make no difference. Whole lines are
removed; their number stays, so that every version of a file still fits its history.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import Any

import orjson

from honeybadger_host.text import labels
from honeybadger_host.text.json_values import value_in
from honeybadger_host.text.neutralise import DEFAULT_IGNORABLE

FORGOTTEN = "[forgotten]"
# A shorter text is forgotten only as the whole text of a record; others may have it by chance.
MIN_CHARACTERS = 16
# The members that have a record's text.
SAID_IN = frozenset(("content", "text", "data", "description", "result", "quote", "value", "hunks"))
# Members that say whose a record is, when it was made and where it belongs.
_NAMES = frozenset(
    (
        *("id", "by", "sender", "author", "role", "at", "created", "updated", "category", "session", "session_id"),
        *("request", "turn", "task", "event", "kind", "state", "group", "made_at", "expires_at", "stored_at"),
        *("timestamp", "file", "key", "v", "op", "to", "model"),
    )
)
# Members of a task's record that have times, which a start reads.
_TIMES = frozenset(("until", "run", "missed", "asked"))
# Members whose value is an object that somebody else shapes: its names say something, too.
_FREE = frozenset(("metadata", "system_state", "system_snapshot", "by_tool"))
# Members of an entry, the only JSON whose edits are kept line by line.
_OF_ENTRIES = frozenset(
    (
        *("id", "content", "name", "title", "aliases", "category", "tags", "created", "updated", "metadata", "by"),
        *("reinforced", "pinned", "supersedes", "superseded_by", "valid_until", "origin", "origin_claimed"),
        *("origin_from", "text", "data"),
    )
)
# Names that only the host gives members, and without which it could not read its own records.
_OF_RECORDS = (
    _NAMES
    | _TIMES
    | SAID_IN
    | _FREE
    | _OF_ENTRIES
    | frozenset(
        (
            *("token_count", "tools_used", "withdrawn", "restored", "seq", "why", "runs", "tokens", "heard", "seen"),
            *("recent_history", "facts", "long_term_summary", "active_tasks", "tool_stats", "token_usage"),
            *("honeybadger", "operations", "evidence"),
            *("schedule_type", "run_at", "interval_seconds", "cron_expression", "paused"),
        )
    )
)
_NAME = re.compile(r"[\w.:/#+%~-]{1,120}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")  # as the host writes it
_ESCAPED = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\u([0-9a-f]{4})|\\([\"\\/bfnrt])", re.IGNORECASE)
_LINE = re.compile(
    r"(?P<mark>[ \t]*(?:#{1,6}[ \t]+|(?:(?:[-*+>]|\d+\.)[ \t]+)*))"
    r".*?(?P<signature> \([^(),]+, \d{4}-\d\d-\d\d \d\d:\d\d\))?(?P<end>\r?)",
    re.DOTALL,
)
_MEMBER = re.compile(rb'(?P<head>\s*(?:"(?P<name>[^"\\]*)"\s*:\s*)?)(?P<value>["\[{\w-].*?)(?P<tail>\s*,?\s*)')
_BEGUN = (b"{", b"[", b"null")  # values that are on no single line, or say nothing
_WORD = re.compile(r"\w+")
_HEADING = re.compile(r"\s*(?:#{1,6}\s.*)?", re.DOTALL)
# Of more texts, the first are looked for in UTF-16 byte by byte, too: in scripts without upper and lower case.
_MAX_DIRECT = 64
# JSON in JSON in JSON. A text that hides an escape in each escape would be looked through as often as it is long.
_MAX_ESCAPES = 6
# Bytes that may be UTF-16 of either byte order, in a script of the first 12,288 characters.
_WIDE_RUN = re.compile(rb"[\0-\x2f].[\0-\x2f].[\0-\x2f](?:.[\0-\x2f])*", re.DOTALL)
_INVISIBLE = re.compile(f"[{DEFAULT_IGNORABLE}]")


def folded(text: str) -> str:
    """Return a text as it is compared: unescaped, composed, in lower case, visible, with single spaces.

    Turkish letters i, with and without a dot, are the same.
    """
    for _ in range(_MAX_ESCAPES):
        if "\\" not in text:
            break
        text = _ESCAPED.sub(_unescaped, text)
    visible = text if text.isascii() else _INVISIBLE.sub("", text)
    return labels.folded(visible.replace("\\", "")).replace("i\u0307", "i").replace("\u0131", "i")


def _unescaped(found: re.Match[str]) -> str:
    high, low, unit, letter = found.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    return chr(int(unit, 16)) if unit else {"b": " ", "f": " ", "n": "\n", "r": "\r", "t": "\t"}.get(letter, letter)


class Phrases:
    """A text to search for.

    Args:
        parts: found anywhere in a text.
        wholes: found only as the whole text of a record.
    """

    def __init__(self, parts: Iterable[str], wholes: Iterable[str] = ()) -> None:
        texts = list(parts)
        self._wide = _wide_forms(texts[:_MAX_DIRECT])
        # The most bytes that a phrase takes, escaped and with white space between its words.
        self.longest = 24 * max(map(len, texts), default=0) + 64
        self.parts = sorted({part for part in map(folded, texts) if part})
        self.wholes = frozenset(filter(None, map(folded, wholes)))
        # Searched for in every text; the others only where their rarest word is, as there may be thousands.
        self._any: list[str] = []
        self._by_word: defaultdict[str, list[str]] = defaultdict(list)
        if len(self.parts) <= _MAX_DIRECT:
            self._any += self.parts
            return
        inner = {part: _WORD.findall(part)[1:-1] for part in self.parts}  # the others may be cut in a text
        common = Counter(word for words in inner.values() for word in {*words})
        for part, words in inner.items():
            if words:
                self._by_word[min(words, key=lambda word: (common[word], -len(word)))].append(part)
            else:
                self._any.append(part)

    def found_in(self, text: str) -> Iterator[str]:
        """Yield the parts that a folded text has."""
        yield from (part for part in self._any if part in text)
        if self._by_word:
            words = {*_WORD.findall(text)}
            yield from (part for word in words & self._by_word.keys() for part in self._by_word[word] if part in text)

    def finds(self, text: str) -> bool:
        """Return whether a text has a part."""
        return next(self.found_in(folded(text)), None) is not None

    def finds_bytes(self, data: bytes) -> bool:
        """Return whether some bytes have a part, as UTF-8 or as UTF-16."""
        return self.finds(data.decode("utf-8", "surrogateescape")) or self.finds_wide(data)

    def finds_wide(self, data: bytes) -> bool:
        """Return whether some bytes have a part as UTF-16."""
        if b"\0" not in data:
            return not data.isascii() and any(form in data for form in self._wide)
        return any(form in data for form in self._wide) or self.finds(_wide_text(data))

    # -------------------------------------------------------------------------------------------------------- removing

    def in_text(self, text: str, *, is_said: bool = True) -> str:
        """Return a text with `FORGOTTEN` in place of the lines that have a part of it: the same if there is none.

        Args:
            is_said: the text is a line of a record, or all of it; then short texts (`wholes`) are looked for, too.
        """
        lines = text.split("\n")
        shown = [folded(line) for line in lines]
        hit = {n for n, line in enumerate(shown) if is_said and self.wholes and _unmarked(line) in self.wholes}
        numbers = [n for n, line in enumerate(shown) if line]
        begins = [*accumulate((len(shown[n]) + 1 for n in numbers), initial=0)]  # of these lines in `whole`
        whole = " ".join(shown[n] for n in numbers)  # a part may begin in one line and end in another
        for part in self.found_in(whole):
            begin = whole.find(part)
            while begin >= 0:
                first, behind = bisect_right(begins, begin) - 1, bisect_left(begins, begin + len(part))
                hit.update(numbers[first:behind])
                begin = whole.find(part, begin + 1)
        for n in hit:
            lines[n] = blank_line(lines[n])
        return "\n".join(lines) if hit else text

    def in_value(self, value: Any, name: str = "") -> Any:
        """Return a value of JSON without what its texts say; names, places and times stay.

        Args:
            name: of the member that has it.
        """
        match value:
            case str():
                if _says_nothing(value, name):
                    return value
                return self.in_text(value, is_said=name in SAID_IN or name not in _NAMES | _OF_ENTRIES)
            case dict():
                return {self._in_name(key): self.in_value(each, key) for key, each in value.items()}
            case list():
                return [self.in_value(each, name) for each in value]
            case int() | float() if str(value) in self._any and len(str(value)) >= 6:
                return FORGOTTEN
        return value

    def _in_name(self, name: str) -> str:
        return name if name in _OF_RECORDS else self.in_text(name, is_said=False)

    def in_bytes(self, data: bytes, *, is_all: bool = False) -> bytes:
        """Return the rest of a text, of JSON, or of lines of JSON; the same bytes if nothing is removed.

        Args:
            is_all: remove all that it says.
        """
        if not is_all and not self.wholes and not self.finds_bytes(data):
            return data
        if data.lstrip()[:1] not in (b"{", b"["):
            return self.in_plain(data, is_all=is_all)
        value = value_in(data)  # None: lines of JSON, or something broken
        if is_all and value is not None:
            made = self._dumped(data, value, is_all)
            if made.count(b"\n") == data.count(b"\n"):
                return made
        made = b"\n".join(self.in_json_line(line, is_all=is_all) for line in data.split(b"\n"))
        is_done = _is_json(made) and not self.finds(made.decode("utf-8", "surrogateescape"))
        return made if is_done or value is None else self._dumped(data, value, is_all)

    def in_json_line(self, line: bytes, *, is_all: bool = False) -> bytes:
        """Return the rest of a line of JSON: a value, or one member of a value on several lines."""
        if not line.strip(b" \t\r{}[],"):
            return line
        if (value := value_in(line)) is not None:
            return self._dumped(line, value, is_all)
        member = _MEMBER.fullmatch(line)
        if member is None or not (member["value"] in _BEGUN or value_in(member["value"]) is not None):
            return FORGOTTEN.encode() if is_all else self.in_plain(line)
        name = (member["name"] or b"").decode("utf-8", "replace")
        value = value_in(member["value"])
        if not is_all:
            made_name, made = self._in_name(name), self.in_value(value, name)
        elif name in _OF_ENTRIES:
            made_name, made = name, blank_value(value, name)
        else:
            made_name, made = FORGOTTEN, _blank_free(value)
        head = member["head"].replace(b'"%b"' % name.encode(), orjson.dumps(made_name), 1) if name else member["head"]
        return bytes(head + (member["value"] if made == value else orjson.dumps(made)) + member["tail"])

    def in_plain(self, data: bytes, *, is_all: bool = False) -> bytes:
        """Return the rest of a text."""
        text = data.decode("utf-8", "surrogateescape")
        made = blank_text(text) if is_all else self.in_text(text)
        left = data if made == text else made.encode("utf-8", "surrogateescape")
        if self.finds_wide(left):
            lines = left.split(b"\n")
            left = b"\n".join(FORGOTTEN.encode() if self.finds_wide(line) else line for line in lines)
            if self.finds_wide(left):  # over several lines
                return FORGOTTEN.encode()
        return left

    def _dumped(self, data: bytes, value: Any, is_all: bool) -> bytes:
        """Return the rest of a JSON value."""
        made = blank_value(value) if is_all else self.in_value(value)
        if made == value:
            return data
        option = (orjson.OPT_INDENT_2 if b"\n  " in data else 0) | (
            orjson.OPT_APPEND_NEWLINE if data.endswith(b"\n") else 0
        )
        return orjson.dumps(made, option=option)


def _wide_forms(texts: Iterable[str]) -> list[bytes]:
    forms: set[str] = set()
    for text in texts:
        for one in (text, text.lower(), text.upper(), text.casefold()):
            forms |= {one, unicodedata.normalize("NFC", one), unicodedata.normalize("NFD", one)}
    return [form.encode(encoding, "surrogatepass") for form in forms for encoding in ("utf-16-le", "utf-16-be")]


def _wide_text(data: bytes) -> str:
    """Return the text in bytes that may be UTF-16, read in both byte orders at even and odd offsets."""
    texts: list[str] = []
    for run in _WIDE_RUN.finditer(data):
        start = max(run.start() - 1, 0)
        for begin in (start, start + 1):
            wide = data[begin : run.end() + 1]
            texts += wide.decode("utf-16-le", "replace"), wide.decode("utf-16-be", "replace")
    return "\0".join(texts)


def _is_json(data: bytes) -> bool:
    return value_in(data) is not None or all(value_in(line) is not None for line in data.split(b"\n") if line.strip())


# ------------------------------------------------------------------------------------------------------- blank texts


def blank_line(line: str) -> str:
    """Return the replacement of a line: it keeps the list mark, and a heading's author and time."""
    found = _LINE.fullmatch(line)
    assert found is not None  # noqa: S101  it takes everything
    return f"{found['mark']}{FORGOTTEN}{found['signature'] or ''}{found['end']}"


def blank_text(text: str) -> str:
    """Return a text in which every line but headings and empty ones is replaced."""
    return "\n".join(line if _HEADING.fullmatch(line) else blank_line(line) for line in text.split("\n"))


def blank_value(value: Any, name: str = "") -> Any:
    """Return a value of JSON without its texts. Names, places, times and numbers stay, unless people made them up."""
    if name in _FREE:
        return _blank_free(value)
    match value:
        case str():
            if name == "hunks":
                return blank_text(value)  # lines of a file
            if _says_nothing(value, name):
                return value
            return "\n".join(FORGOTTEN if line else line for line in value.split("\n"))
        case dict():
            made: dict[str, Any] = {}
            for n, (key, each) in enumerate(value.items(), 1):
                if _NAME.fullmatch(key):
                    made[key] = blank_value(each, key)
                else:
                    made[f"{FORGOTTEN} {n}"] = _blank_free(each)
            return made
        case list():
            return [blank_value(each, name) for each in value]
    return value


def _says_nothing(value: str, name: str) -> bool:
    """Return whether the text of a member is a name, a place or a time."""
    if name in _NAMES:
        return _NAME.fullmatch(value) is not None
    return name in _TIMES and _TIME.fullmatch(value) is not None


def _blank_free(value: Any) -> Any:
    """Return the emptiest value of JSON with the same members and items."""
    match value:
        case str():
            return FORGOTTEN
        case bool():
            return False
        case int() | float():
            return 0
        case dict():
            return {f"{FORGOTTEN} {n}": _blank_free(each) for n, each in enumerate(value.values(), 1)}
        case list():
            return [_blank_free(each) for each in value]
    return value


def is_blank_line(line: str) -> bool:
    """Return whether nothing but `FORGOTTEN` is left of a line."""
    return FORGOTTEN in line and _unmarked(line.replace(FORGOTTEN, "", 1)) == ""


def _unmarked(line: str) -> str:
    return line.strip(" \t\r\n>*+-")


def said_in(data: bytes) -> list[str]:
    """Return the texts of a record: the lines of a note without its heading, or the strings in JSON."""
    if (value := value_in(data)) is not None:
        texts = _texts(value)
    elif data.lstrip()[:1] == b"{":
        texts = list(chain.from_iterable(_texts(value_in(line)) for line in data.split(b"\n")))
    else:
        lines = data.decode("utf-8", "replace").strip("\n").split("\n")
        kept = [line.removeprefix("- ") for line in lines if not _HEADING.fullmatch(line)]
        texts = ["\n".join(line for line in kept if not line.startswith("> Archived "))]
    left = map(_without_blank_lines, texts)
    return [said for said in left if said.strip()]


def _without_blank_lines(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not is_blank_line(line))


def _texts(value: Any, name: str = "") -> list[str]:
    match value:
        case str():
            return [value] if name in SAID_IN else []
        case dict():
            return list(chain.from_iterable(_texts(each, key) for key, each in value.items()))
        case list():
            return list(chain.from_iterable(_texts(each, name) for each in value))
    return []
