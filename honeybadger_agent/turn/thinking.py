"""Removes thinking from a model's text as it streams: `<think>…</think>`, `<thinking>`, `<internal>…</internal>`.

In code (a fence, or backticks that are closed on their line) a tag is text, because people and models write about tags
there. Everywhere else it is a tag, even without its other half. Text after an opening tag that is never closed is
thinking. So is text before a lone `</think>`, unless nothing follows it: servers put the opening tag into the prompt.
A lone `</internal>` is just dropped.
"""

from __future__ import annotations

import re
from typing import Self

_TAG = re.compile(r"<(?P<ends>/?)(?P<name>think|thinking|internal)>", re.IGNORECASE)
_TAGS = [f"<{slash}{name}>" for slash in ("", "/") for name in ("think", "thinking", "internal")]
_BEGUN = {tag[:length] for tag in _TAGS for length in range(1, len(tag))}
_MARKS = re.compile(r"<|`+|~+")
_MAX_CODE_CHARACTERS = 4_000  # limit of code in backticks that is held back until they are closed, and read again
_FENCES = ("```", "~~~")  # at the beginning of a line they begin a block of code


class Visible:
    """Takes a text in pieces of any size and returns the visible part; the size makes no difference.

    A tag is held back until it is complete, and a line from an opening backtick on until that is closed.
    """

    def __init__(self) -> None:
        self.count = 0  # thoughts that were removed
        self._left = ""  # text that is held back
        self._thought = ""  # name of the thought's tag; empty: this is no thought
        self._fence = ""  # marks that began the block of code; empty: this is none
        self._is_line_blank = True
        self._kept: list[str] = []
        self._ready: list[str] = []
        self._blank = ""  # white space before any visible text; dropped when a thought follows
        self._is_after_thought = False
        self._is_after_lone_tag = False

    @classmethod
    def of(cls, text: str) -> Self:
        visible = cls()
        visible.feed(text)
        visible.end()
        return visible

    @property
    def text(self) -> str:
        """The text to keep: all visible text, without any before a lone `</think>`."""
        return "".join(self._kept)

    def feed(self, piece: str) -> str:
        self._read(self._left + piece, is_all=False)
        return self._drained()

    def end(self) -> str:
        self._read(self._left, is_all=True)
        if not self._is_after_thought:
            self._give(self._blank)
        return self._drained()

    def _read(self, text: str, *, is_all: bool) -> None:
        at = 0
        while (marks := _MARKS.search(text, at)) is not None:
            self._plain(text[at : marks.start()])
            at = marks.start()
            token = self._token(marks, is_all=is_all)
            if token is None:
                break
            self._take(token)
            at += len(token)
        else:
            self._plain(text[at:])
            at = len(text)
        self._left = text[at:]

    def _token(self, marks: re.Match[str], *, is_all: bool) -> str | None:
        """Return the tag, the marks, or the code in backticks that begins at a mark; None: its end has not come yet."""
        text, start = marks.string, marks.start()
        rest = text[start : start + _MAX_CODE_CHARACTERS]
        if rest[0] == "<":
            tag = _TAG.match(rest)
            is_begun = rest.lower() in _BEGUN and not is_all
            return tag[0] if tag else None if is_begun else "<"
        if marks.end() == len(text) and not is_all:
            return None
        is_fence = self._is_line_blank and marks[0].startswith(_FENCES)
        if rest[0] == "~" or is_fence or self._fence or self._thought:
            return marks[0]
        line, line_end, _ = rest.partition("\n")
        code = re.match(rf"`+[^`].*?(?<!`){marks[0]}(?!`)", line)
        is_whole = bool(line_end) or is_all or len(rest) == _MAX_CODE_CHARACTERS
        if not is_whole and (code is None or code[0] == rest):
            return None
        return code[0] if code else marks[0]

    def _take(self, token: str) -> None:
        tag = _TAG.fullmatch(token)
        name = tag["name"].lower().removesuffix("ing") if tag else ""
        if self._thought:
            if tag and tag["ends"] and name == self._thought:
                self._thought = ""
            return
        if tag and not self._fence:
            if tag["ends"]:
                self._is_after_lone_tag |= name == "think"
            else:
                self._thought = name
            self._blank, self._is_after_thought = "", True
            self.count += 1
            return
        if self._is_line_blank and token.startswith(self._fence or _FENCES):
            self._fence = "" if self._fence else token
        self._plain(token)

    def _plain(self, text: str) -> None:
        if self._thought or not text:
            return
        _, is_ended, line = text.rpartition("\n")
        self._is_line_blank = not line.strip() and (bool(is_ended) or self._is_line_blank)
        if not self._kept or self._is_after_lone_tag:
            begun = text.lstrip()
            if not self._is_after_thought:
                self._blank += text[: len(text) - len(begun)]
            if not begun:
                return
            text = begun
        if self._is_after_lone_tag:
            self._kept, self._is_after_lone_tag = [], False
        self._give(self._blank + text)
        self._blank, self._is_after_thought = "", False

    def _give(self, text: str) -> None:
        if text:
            self._kept.append(text)
            self._ready.append(text)

    def _drained(self) -> str:
        ready, self._ready = "".join(self._ready), []
        return ready
