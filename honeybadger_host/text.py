"""The rules of text: what is made harmless, how a note and a history line look, what a text costs. Pure.

Sources: HB2 (note), HB6 (history line, estimate), docs/decisions/004-text.md (what is neutralised and why).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Final

LINE_BREAKS: Final = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
"""Everything `str.splitlines` and a Markdown reader may take for the end of a line."""

_ODD_BREAK: Final = re.compile("\r\n|[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROL: Final = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufff9-\ufffb\ufffe\uffff]")
_BIDI: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]")
# Joiners stay where writing needs them, between two characters beyond Latin (Persian, Hindi, families of emoji), and
# the emoji selector after a symbol or a keycap; anywhere else they only hide something.
_JOINABLE: Final = "[^\x00-\u02ff\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0e\ufeff]"
_ZERO_WIDTH: Final = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u2060-\u2065\u3164\ufe00-\ufe0e\ufeff\uffa0"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
    f"|(?<!{_JOINABLE})[\u200c\u200d]|[\u200c\u200d](?!{_JOINABLE})"
    "|(?<![0-9#*\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])\ufe0f"
)
_HARMLESS: Final = re.compile(
    "[\t\n -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u058f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u3000-\u30ff\u3400-\u9fff"
    "\uac00-\ud7a3\uff01-\uff9f]*"
)
"""The common case, seen in one pass: no character that any rule below looks for."""

_HEADING: Final = re.compile(r"[ \t]*#{1,6}(?:[ \t]|$)")
_ANY_HASH: Final = re.compile(r"[ \t]*#")
_UNDERLINE: Final = re.compile(r"[ \t]*(?:=+|-+)[ \t]*$")


@dataclass(frozen=True, slots=True)
class Neutral:
    """Text that forges nothing.

    Args:
        text: lines end in `\\n` only; no control, bidi or zero-width character.
        changed: what was changed, kind to count; empty when nothing was.
    """

    text: str
    changed: dict[str, int]


def neutralise(text: str) -> Neutral:
    """Return `text` without what hides or reorders characters, and with every kind of line break as `\\n`."""
    if _HARMLESS.fullmatch(text):
        return Neutral(text, {})
    changed: dict[str, int] = {}
    for kind, pattern, replacement in (
        ("line breaks", _ODD_BREAK, "\n"),
        ("control characters", _CONTROL, "\ufffd"),
        ("bidi characters", _BIDI, ""),
        ("zero-width characters", _ZERO_WIDTH, ""),
    ):
        text, count = pattern.subn(replacement, text)
        if count:
            changed[kind] = count
    return Neutral(text, changed)


def is_blank(text: str) -> bool:
    """Return whether nothing visible is left of a neutralised text."""
    return not text.replace("\ufffd", "").strip()


def one_line(text: str) -> Neutral:
    """Return `text` neutralised, on one line, without spaces around it."""
    neutral = neutralise(text)
    parts = neutral.text.split("\n")
    changed = dict(neutral.changed)
    if len(parts) > 1:
        changed["line breaks"] = max(changed.get("line breaks", 0), len(parts) - 1)
    return Neutral(" ".join(part.strip() for part in parts).strip(), changed)


@dataclass(frozen=True, slots=True)
class RenderedNote:
    """The bytes of a note and what was changed in it."""

    data: bytes
    section: str
    changed: dict[str, int]


def render_note(content: str, section: str, agent: str, at: datetime) -> RenderedNote:
    """Return a note as it stands in MEMORY.md.

    One line of content is kept byte for byte. More lines are indented by two spaces, which keeps them inside the
    list item; a line that could be a heading, a heading's underline or a comment is escaped with a backslash.

    Args:
        content: at least one visible character (`is_blank`), else ValueError.
        at: aware; shown in UTC to the minute.
    Source: HB2.
    """
    body, heading = neutralise(content), one_line(section)
    if is_blank(body.text) or is_blank(heading.text):
        raise ValueError("blank")
    lines, escaped = _escape(body.text.strip("\n"))
    changed = Counter(body.changed) + Counter(heading.changed) + Counter(escaped)
    text = f"\n## {heading.text} ({agent}, {at:%Y-%m-%d %H:%M})\n- " + "\n  ".join(lines) + "\n"
    return RenderedNote(text.encode(), heading.text, dict(changed))


def history_line(sender: str, content: str) -> str:
    """Return `[sender]: content` and a line end; further lines are indented, so none looks like another speaker's.

    Source: HB6.
    """
    name = one_line(sender).text.translate({ord("["): "(", ord("]"): ")"})
    lines, _ = _escape(neutralise(content).text.rstrip("\n"))
    return f"[{name}]: " + "\n  ".join(lines) + "\n"


def estimate_tokens(text: str) -> int:
    """Return ASCII characters // 4 plus one for every other character (HB6)."""
    if text.isascii():
        return len(text) // 4
    ascii_characters = len(text.encode("ascii", "ignore"))
    return ascii_characters // 4 + len(text) - ascii_characters


def _escape(text: str) -> tuple[list[str], dict[str, int]]:
    """Return the lines with what Markdown would read as structure escaped, and what was escaped."""
    if "\n" not in text and "#" not in text and "<!--" not in text:
        return [text], {}
    lines = [line.rstrip(" \t") for line in text.split("\n")] if "\n" in text else [text]
    changed: Counter[str] = Counter()
    for number, line in enumerate(lines):
        # A continuation line is nobody's tag: readers more lenient than CommonMark take `#x` for a heading.
        if (_ANY_HASH if number else _HEADING).match(line):
            lines[number] = _before_first_visible(line)
            changed["headings"] += 1
        elif number and _UNDERLINE.match(line):
            lines[number] = _before_first_visible(line)
            changed["underlines"] += 1
        if "<!--" in line:
            lines[number] = lines[number].replace("<!--", "\\<!--")
            changed["comments"] += 1
    return lines, dict(changed)


def _before_first_visible(line: str) -> str:
    at = len(line) - len(line.lstrip(" \t"))
    return f"{line[:at]}\\{line[at:]}"
