"""Markdown that is styled while it comes: marks stay where they are, so what is shown is what was said.

Nothing is drawn twice, so nothing flickers; a line waits for a few characters at most, until it is known what it is.
"""

from __future__ import annotations

import re
from typing import Final

from honeybadger_agent.cli.terminal import RESET, STYLES

_OPEN: Final = re.compile(r"[ \t]{0,8}(?:#{0,6}|`{0,2}|~{0,2}|[-*+>]?|\d{1,3}[.)]?)")
"""The beginning of a line that may yet become a mark."""
_FENCE: Final = re.compile(r"[ \t]{0,8}(?:```|~~~)")
_HEADING: Final = re.compile(r"[ \t]{0,3}#{1,6} ")
_MARK: Final = re.compile(r"[ \t]{0,8}(?:[-*+>]|\d{1,3}[.)]) ")


class Markup:
    """Styles the text of one answer. Without the styles its output is its input."""

    def __init__(self) -> None:
        self._held = ""
        self._is_at_start = True
        self._is_fenced = False
        self._is_fence = False
        self._line_style: str | None = None
        self._is_code = False
        self._is_bold = False

    @property
    def is_verbatim(self) -> bool:
        """Whether the line belongs to a block of code."""
        return self._is_fenced or self._is_fence

    def feed(self, text: str) -> str:
        """Return what can be shown of everything so far and was not yet."""
        return "".join(map(self._character, text))

    def end(self) -> str:
        """Return the rest, with every style off."""
        return self._rest() + self._off()

    def _character(self, character: str) -> str:
        if character == "\n":
            return self._rest() + self._end_of_line()
        self._held += character
        return self._begun() if self._is_at_start else self._inline(is_over=False)

    def _begun(self, *, is_over: bool = False) -> str:
        """Decide what a line is as soon as it can only be one thing."""
        held = self._held
        if _FENCE.match(held):
            self._is_fence, self._line_style = True, "dim"
        elif self._is_fenced:
            if not is_over and _OPEN.fullmatch(held):
                return ""
            self._line_style = "code"
        elif _HEADING.match(held):
            self._line_style = "bold"
        elif mark := _MARK.match(held):
            self._is_at_start, self._held = False, held[mark.end() :]
            return f"{STYLES['mark']}{mark.group()}{RESET}" + self._inline(is_over=is_over)
        elif not is_over and _OPEN.fullmatch(held):
            return ""
        self._is_at_start = False
        style = STYLES[self._line_style] if self._line_style else ""
        return style + self._inline(is_over=is_over)

    def _inline(self, *, is_over: bool) -> str:
        """Return what is held with its styles, but for a star that may be the first of two."""
        held, self._held = self._held, ""
        if self._line_style is not None:
            return held
        shown = ""
        while held:
            if held[0] == "`":
                self._is_code = not self._is_code
                shown += f"{STYLES['code']}`" if self._is_code else f"`{RESET}{self._again()}"
                held = held[1:]
            elif held[0] == "*" and not self._is_code:
                if len(held) < 3 and not is_over and held in ("*", "**"):
                    self._held = held
                    break
                if held.startswith("**") and (self._is_bold or not held[2:3].isspace()):
                    self._is_bold = not self._is_bold
                    shown += f"{STYLES['bold']}**" if self._is_bold else f"**{RESET}"
                    held = held[2:]
                else:
                    shown, held = shown + held[0], held[1:]
            else:
                shown, held = shown + held[0], held[1:]
        return shown

    def _again(self) -> str:
        return STYLES["bold"] if self._is_bold else ""

    def _rest(self) -> str:
        return self._begun(is_over=True) if self._is_at_start and self._held else self._inline(is_over=True)

    def _off(self) -> str:
        return RESET if self._line_style or self._is_code or self._is_bold else ""

    def _end_of_line(self) -> str:
        off = self._off()
        self._is_fenced ^= self._is_fence
        self._is_at_start, self._is_fence, self._line_style = True, False, None
        self._is_code = self._is_bold = False
        return off + "\n"
