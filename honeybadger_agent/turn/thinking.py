"""A model's text without its thinking, while it comes: `<think>…</think>`, `<thinking>`, `<internal>…</internal>`.

In code (a fence, or backticks that are closed on their line) a tag is text: that is how people and models talk about
tags. Everywhere else it is a tag, also one without its other half. What follows an opening tag that is never closed is
thinking. So is what precedes a lone `</think>`, because servers put the opening one into the prompt, unless nothing
follows it; a lone `</internal>` is dropped by itself.
"""

from __future__ import annotations

from typing import Final, Literal, Self

_OPENING: Final = {"<think>": "think", "<thinking>": "think", "<internal>": "internal"}
_CLOSING: Final = {tag.replace("<", "</"): kind for tag, kind in _OPENING.items()}
_BEGUN: Final = {tag[:length] for tag in (*_OPENING, *_CLOSING) for length in range(1, len(tag) + 1)}
_FENCE: Final = 3
"""Marks in a row at the beginning of a line that begin a block of code."""


class Visible:
    """Takes a text in pieces of any size and gives what may be shown of it; how it is cut makes no difference.

    A tag is held back until it is complete, and a tag in backticks until those are closed.
    """

    def __init__(self) -> None:
        self.count = 0
        """Thoughts that were taken out."""
        self._mode: Literal["text", "code", "fence", "thinking"] = "text"
        self._closes = ""
        """What ends the mode: the marks that began the code, or the kind of the thinking."""
        self._token = ""
        """The beginning of a tag, or marks in a row."""
        self._held = ""
        """Of a line with a tag in backticks that are still open: what comes from the tag on."""
        self._is_line_blank = True
        self._kept: list[str] = []
        self._ready: list[str] = []
        self._blank = ""
        """White space that nothing visible precedes; dropped when a thought follows."""
        self._is_after_thought = False
        self._is_after_lone_tag = False

    @classmethod
    def of(cls, text: str) -> Self:
        """Return what is visible of a whole text."""
        visible = cls()
        visible.feed(text)
        visible.end()
        return visible

    @property
    def text(self) -> str:
        """What is to be kept: all that was given, without what precedes a lone `</think>`."""
        return "".join(self._kept)

    def feed(self, piece: str) -> str:
        """Return what can be shown now."""
        for character in piece:
            self._take(character)
        return self._drained()

    def end(self) -> str:
        """Return the rest, when the text is over."""
        self._end_token()
        while self._mode == "code" and self._held:
            self._leave_code()
            self._end_token()
        if not self._is_after_thought:
            self._give(self._blank)
        return self._drained()

    def _take(self, character: str) -> None:
        if self._token:
            longer = self._token + character
            if longer.lower() in _BEGUN or (character == self._token[0] and character in "`~"):
                self._token = longer
                if character == ">":
                    self._token = ""
                    self._tag(longer)
                return
            self._end_token()
        if character in "<`~":
            self._token = character
        elif character == "\n" and self._mode == "code":
            self._leave_code()
            self._take(character)
        else:
            self._plain(character)

    def _tag(self, written: str) -> None:
        tag = written.lower()
        if self._mode == "thinking":
            if _CLOSING.get(tag) == self._closes:
                self._mode = "text"
        elif self._mode == "text":
            if tag in _OPENING:
                self._mode, self._closes = "thinking", _OPENING[tag]
            else:
                self._is_after_lone_tag |= _CLOSING[tag] == "think"
            self._blank, self._is_after_thought = "", True
            self.count += 1
        elif self._mode == "code":
            self._held += written
        else:
            self._plain(written)

    def _end_token(self) -> None:
        """Take marks in a row, or what is not a tag after all."""
        token, self._token = self._token, ""
        if not token or self._mode == "thinking":
            return
        begins_line = self._is_line_blank and len(token) >= _FENCE
        self._plain(token)
        if token[0] == "<":
            return
        if self._mode == "text" and (begins_line or token[0] == "`"):
            self._mode, self._closes = "fence" if begins_line else "code", token
        elif self._mode == "fence" and begins_line and token.startswith(self._closes):
            self._mode = "text"
        elif self._mode == "code" and token == self._closes:
            self._mode = "text"
            held, self._held = self._held, ""
            self._plain(held)

    def _leave_code(self) -> None:
        """Take backticks that are not closed on their line for text, and so what was held after them."""
        held, self._held, self._mode = self._held, "", "text"
        for character in held:
            self._take(character)

    def _plain(self, text: str) -> None:
        if self._mode == "thinking" or not text:
            return
        if self._held:
            self._held += text
            return
        self._is_line_blank = text.isspace() and (self._is_line_blank or text[-1] == "\n")
        if text.isspace() and (not self._kept or self._is_after_lone_tag):
            self._blank += "" if self._is_after_thought else text
            return
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
