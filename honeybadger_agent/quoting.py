"""Marks texts of people and agents, so that no line of them looks like one that the host writes into a context. Pure.

The host writes headings, `Group: x`, `[speaker]: ...`, `- [id] (category): ...`. Neither a person nor a model must
mistake a line of a note, an entry or a message for one of these.
"""

from __future__ import annotations

import re

_MARK = "> "
_TITLES = (
    r"your identity|global context|available specialist agents|group context|remembered facts|conversation summary"
    r"|this session|recent conversation|tools"
)
_LINES = (
    r"[\[［][^\]］\n]*[\]］][ \t]*(?:\([^)\n]*\))?[ \t]*[:：]|\[\.\.\.|group[ \t]*[:：]|working memory[ \t]*\("
    r"|recalled (?:from long-term memory|earlier in this conversation)"
)
_OPENED = rf"[ \t]*(?:[-+*>][ \t]*)*(?:\\?#+[ \t]*(?:(?:{_TITLES})\b|{_LINES})|{_LINES})"
# The same for text that follows something on its line, including `## `.
_BEGINS = re.compile(rf"{_OPENED}|(?:{_TITLES})[ \t]*(?:\(|$)", re.IGNORECASE)
_LINE = re.compile(rf"^(?={_OPENED})", re.IGNORECASE | re.MULTILINE)


def quoted(text: str) -> str:
    """Return a text for a line that begins with something else, such as `[speaker]: ` or `- `.

    Every further line is indented and begins with `> `; so does the first one if it looks like a line of a context.
    """
    if "\n" not in text:
        return f"{_MARK}{text}" if _BEGINS.match(text) else text
    first, *more = text.split("\n")
    return "\n".join([quoted(first), *(f"  {_MARK}{line}".rstrip(" \t") for line in more)])


def set_apart(text: str) -> str:
    """Return a text with `> ` before each line that looks like one of a context."""
    return _LINE.sub(_MARK, text)
