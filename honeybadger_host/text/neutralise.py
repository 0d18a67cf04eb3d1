"""Neutralises text, renders notes and history lines, and estimates tokens. Pure.

Sources: HB2 (note), HB6 (history line, estimate), docs/decisions/004-text.md (neutralised text and the reasons).
"""

import re
from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from honeybadger_agent.quoting import quoted

_ODD_BREAK = re.compile("\r\n|[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufff9-\ufffb\ufffe\uffff]")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]")
# The property Default_Ignorable_Code_Point of Unicode 17, which Python's `unicodedata` does not have. It includes
# unassigned characters, so it rarely changes. A test compares it with the database of the package `regex`.
DEFAULT_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_KEPT_SOMEWHERE = "\u180b-\u180d\u180f\u200c\u200d\ufe0e\ufe0f"
# With the format controls of hieroglyphs, which are invisible too.
_INVISIBLE = re.compile(f"(?![{_KEPT_SOMEWHERE}])[{DEFAULT_IGNORABLE}\U00013430-\U00013440]")
# A variation selector stays after a symbol, a keycap or a Mongolian letter; a joiner stays between two characters
# beyond Latin (Persian, Hindi, families of emoji). Elsewhere they only hide something.
_LONE_SELECTOR = re.compile(
    "(?<![0-9#*\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]|(?<![\u1820-\u18aa])[\u180b-\u180d\u180f]"
)
_JOINABLE = "[^\x00-\u02ff\u2000-\u200f\u2028-\u202f\u205f\u3000]"
_VIRAMA = "[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca]"  # a joiner after it may end a word
_LONE_JOINER = re.compile(
    f"(?<!{_JOINABLE})[\u200c\u200d]|(?<!{_VIRAMA})[\u200c\u200d](?!{_JOINABLE})|[\u200c\u200d](?=[\u200c\u200d])"
)
# One character that hides or reorders text, as `neutralise` takes it out.
HIDDEN = re.compile("|".join(part.pattern for part in (_CONTROL, _BIDI, _INVISIBLE, _LONE_SELECTOR, _LONE_JOINER)))
# The common case, tested in one pass: no character that a rule below applies to.
HARMLESS = re.compile(
    "[\t\n -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u058f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u3000-\u30ff\u3400-\u9fff"
    "\uac00-\ud7a3\uff01-\uff9f]*"
)

# A quote or list marker may precede a heading; a quote marker also its underline.
_OPENERS = r"[ \t]*(?:>[ \t]*|(?:[-+*]|\d{1,9}[.)])[ \t]+)*"
_HEADING = re.compile(rf"{_OPENERS}(?=#{{1,6}}(?:[ \t]|$))")
_ANY_HASH = re.compile(rf"{_OPENERS}(?=#)")
_UNDERLINE = re.compile(r"[ \t]*(?:>[ \t]*)*(?=(?:=+|-+)[ \t]*$)")
_RULE = re.compile(r"(?:-[ \t]*){2,}$")
# The text before an unescaped comment; a pair of backslashes is one escaped backslash.
_COMMENT = re.compile(r"(?<!\\)(?:\\\\)*(?=<!--)")


class Neutral(NamedTuple):
    """Neutralised text.

    Args:
        text: lines end in `\\n` only; no control, bidi or zero-width characters.
        changed: kind of change -> count; empty when nothing changed.
    """

    text: str
    changed: dict[str, int]


def neutralise(text: str) -> Neutral:
    """Return `text` without characters that hide or reorder text, and with every kind of line break as `\\n`."""
    if HARMLESS.fullmatch(text):
        return Neutral(text, {})
    changed: dict[str, int] = {}
    for kind, pattern, replacement in (
        ("line breaks", _ODD_BREAK, "\n"),
        ("control characters", _CONTROL, "\ufffd"),
        ("bidi characters", _BIDI, ""),
        ("zero-width characters", _INVISIBLE, ""),
        ("zero-width characters", _LONE_SELECTOR, ""),
        ("zero-width characters", _LONE_JOINER, ""),
    ):
        text, count = pattern.subn(replacement, text)
        if count:
            changed[kind] = changed.get(kind, 0) + count
    return Neutral(text, changed)


def is_blank(text: str) -> bool:
    """Return whether a neutralised text has nothing visible."""
    return not text.replace("\ufffd", "").replace("\u2800", "").strip()


def one_line(text: str) -> Neutral:
    """Return `text` neutralised, on one line, without spaces around it."""
    neutral = neutralise(text)
    parts = neutral.text.split("\n")
    changed = dict(neutral.changed)
    if len(parts) > 1:
        changed["line breaks"] = max(changed.get("line breaks", 0), len(parts) - 1)
    return Neutral(" ".join(part.strip() for part in parts).strip(), changed)


class RenderedNote(NamedTuple):
    """The bytes of a note and the changes made to it."""

    data: bytes
    section: str
    changed: dict[str, int]


def render_note(content: str, section: str, agent: str, at: datetime) -> RenderedNote:
    """Return a note as written to MEMORY.md.

    A single line of content is kept byte for byte. Further lines are indented by two spaces, which keeps them inside
    the list item; blank lines and indentation at the beginning are removed for this. Headings, underlines of headings
    and comments are escaped with a backslash.

    Args:
        content: with at least one visible character (`is_blank`), else ValueError.
        at: aware; shown in UTC to the minute.
    Source: HB2.
    """
    body, heading = neutralise(content), _heading(section)
    if is_blank(body.text) or is_blank(heading.text):
        raise ValueError("blank")
    lines, escaped = _item_lines(body.text.strip("\n"))
    changed: dict[str, int] = {}
    if body.changed or heading.changed or escaped:
        changed = dict(Counter(body.changed) + Counter(heading.changed) + Counter(escaped))
    text = f"\n## {heading.text} ({agent}, {_minute(at)})\n- " + "\n  ".join(lines) + "\n"
    return RenderedNote(text.encode(), heading.text, changed)


@lru_cache(maxsize=64)
def _minute(at: datetime) -> str:
    """Cached: all notes of a batch have the same time."""
    return at.astimezone(UTC).isoformat(" ", "minutes")[:16]  # unlike strftime, always four digits of the year


@lru_cache(maxsize=1024)
def _heading(section: str) -> Neutral:
    """Cached: sections repeat (`Notes`, `Preferences`)."""
    heading = one_line(section)
    text, count = escape_comments(heading.text)
    return Neutral(text, {**heading.changed, "comments": 1}) if count else heading


def history_line(sender: str, content: str) -> str:
    """Return `[sender]: content` and a line end; no line of it can pass for another speaker's, see `quoted`.

    Source: HB6.
    """
    name = one_line(sender).text.translate({ord("["): "(", ord("]"): ")"})
    lines = _split(neutralise(content).text.rstrip("\n"))
    _escape(lines, is_item=False)
    return f"[{name}]: {quoted(chr(10).join(lines))}\n"


def list_line(text: str) -> str:
    """Return `- text` and a line end, neutralised and on one line, without headings or comments."""
    lines = [one_line(text).text]
    _escape(lines, is_item=True)
    return f"- {quoted(lines[0])}\n"


def estimate_tokens(text: str) -> int:
    """Return ASCII characters // 4 plus one for every other character (HB6)."""
    return tokens_of(len(text), ascii_length(text))


def tokens_of(characters: int, ascii_characters: int) -> int:
    """Return the estimate for a text with these numbers of characters; those of joined texts add up."""
    return ascii_characters // 4 + characters - ascii_characters


def ascii_length(text: str) -> int:
    """Return how many ASCII characters a text has; a text of 60 KB with umlauts takes 0.2 ms."""
    return len(text) if text.isascii() else len(text.encode("ascii", "ignore"))


def _item_lines(text: str) -> tuple[list[str], dict[str, int]]:
    """Return the lines of a list item, all inside it, and the changes made."""
    if "\n" not in text and "#" not in text and "<!--" not in text:
        return [text], {}
    lines = _split(text)
    changed: Counter[str] = Counter()
    if len(lines) > 1:
        # An item that begins blank ends at the next blank line; one that begins indented needs the rest indented as
        # far; and `- ---` is a rule, not an item. In all three cases the following lines would be outside the item,
        # where an unclosed fence swallows every later note.
        lines = lines[next(number for number, line in enumerate(lines) if line) :]
        while not lines[-1]:
            lines.pop()
        if indentation := lines[0][: -len(lines[0].lstrip(" \t"))]:
            lines = [line.removeprefix(indentation) for line in lines]
            changed["indentation"] = 1
        if len(lines) > 1 and _RULE.match(lines[0]):
            lines[0] = f"\\{lines[0]}"
            changed["rules"] = 1
    return lines, changed + _escape(lines, is_item=True)


def escape_comments(text: str) -> tuple[str, int]:
    """Return a text with a backslash before each comment of HTML, which would hide what follows; and their number."""
    return _COMMENT.subn(r"\g<0>\\", text)


def _split(text: str) -> list[str]:
    return [line.rstrip(" \t") for line in text.split("\n")] if "\n" in text else [text]


def _escape(lines: list[str], *, is_item: bool) -> Counter[str]:
    """Escape Markdown structure in place; return the escapes.

    Args:
        is_item: the first line begins a list item, which may start with a heading.
    """
    changed: Counter[str] = Counter()
    for number, line in enumerate(lines):
        # Parsers more lenient than CommonMark take `#x` for a heading; a continuation line is never meant as a tag.
        if (number or is_item) and (found := (_ANY_HASH if number else _HEADING).match(line)):
            lines[number] = f"{line[: found.end()]}\\{line[found.end() :]}"
            changed["headings"] += 1
        elif number and (found := _UNDERLINE.match(line)):
            lines[number] = f"{line[: found.end()]}\\{line[found.end() :]}"
            changed["underlines"] += 1
        if "<!--" in line:
            lines[number], count = escape_comments(lines[number])
            changed["comments"] += bool(count)
    return changed
