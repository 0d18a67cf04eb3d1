"""Lines that are broken between words while their text comes."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_PIECES: Final = re.compile(r"\x1b\[[0-9;]*m|[\s\S]")
"""A style of ours, or one character."""


class Wrap:
    """Breaks lines between words while they come, where the terminal would break them anywhere.

    Args:
        columns: of the terminal; None: nothing is broken.
        column: where the text begins.
    """

    def __init__(self, columns: int | None, column: int = 0) -> None:
        self._columns = columns
        self._column = column
        self._space = ""
        self._word = ""
        self._width = 0

    def feed(self, text: str, *, is_verbatim: bool = False) -> str:
        """Return what is known to be shown; a word waits for its end.

        Args:
            text: `shown`, perhaps with our styles.
            is_verbatim: its lines are not to be broken.
        """
        if self._columns is None:
            return text
        return "".join(self._piece(piece, self._columns, is_verbatim) for piece in _PIECES.findall(text))

    def end(self) -> str:
        """Return the rest."""
        return self._flush(self._columns or 0, is_verbatim=self._columns is None) + self._take_space()

    def _piece(self, piece: str, columns: int, is_verbatim: bool) -> str:
        if piece.startswith("\x1b"):
            self._word += piece
            return ""
        if piece == "\n":
            out = self._flush(columns, is_verbatim) + self._take_space() + piece
            self._column = 0
            return out
        if piece in " \t":
            out = self._flush(columns, is_verbatim)
            self._space += piece
            return out
        wide = unicodedata.east_asian_width(piece) in "WF"
        out = self._flush(columns, is_verbatim) if wide else ""  # scripts without spaces break between any two
        self._word += piece
        self._width += 2 if wide else unicodedata.combining(piece) == 0
        return out + (self._flush(columns, is_verbatim) if wide else "")

    def _flush(self, columns: int, is_verbatim: bool) -> str:
        """Return the word that waited, on a new line where it does not fit on this one."""
        if not self._word:
            return ""
        word, width = self._word, self._width
        self._word, self._width = "", 0
        is_too_far = self._column + len(self._space) + width > columns
        if width and is_too_far and self._column and width <= columns and not is_verbatim:
            self._space, self._column = "", width
            return f"\n{word}"
        self._column = (self._column + width + len(self._space)) % max(
            columns, 1
        ) or columns  # the terminal's own breaks
        return self._take_space() + word

    def _take_space(self) -> str:
        space, self._space = self._space, ""
        return space
