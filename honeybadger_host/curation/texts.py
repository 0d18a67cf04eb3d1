"""Reads a model's texts (AB2): what a person said word for word is found again as sentences, the rest is the model's.

`history_entry` and `conversation_summary` are prose; `memory_update` is a whole MEMORY.md. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from honeybadger_host.curation.notes import NotePlace
from honeybadger_host.curation.said import Pick, sentences_of, whole
from honeybadger_host.memory.markdown.notes import SIGNED
from honeybadger_host.text.turn import Turn

_DATED: Final = re.compile(r"^\[\d{4}-\d\d-\d\d[^\]]*\]\s*")
_BULLET: Final = re.compile(r"[-*+] +")
_QUOTES: Final = " \"'“”„«»‚‘’「」『』.。．"


class Said:
    """The sentences of people's turns by their words.

    Args:
        turns: (session, turn) of people.
    """

    def __init__(self, turns: Iterable[tuple[str, Turn]]) -> None:
        self._picks: dict[str, Pick] = {}
        for session, turn in turns:
            for number, (begin, end) in enumerate(sentences_of(turn.content)):
                self._picks[_key(turn.content[begin:end])] = Pick(session, turn, (number,))
            self._picks[_key(turn.content)] = whole(session, turn)

    def find(self, text: str) -> tuple[list[Pick], list[str]]:
        """Return the sentences of a text that people said, in order, and those that nobody said."""
        text = _DATED.sub("", text)
        if _key(text) in self._picks:
            return [self._picks[_key(text)]], []
        sentences = [_key(text[begin:end]) for begin, end in sentences_of(text)]
        merged: dict[tuple[str, int], Pick] = {}
        for pick in (self._picks[each] for each in sentences if each in self._picks):
            merged[pick.place] = pick.joined(merged.get(pick.place))
        picks = sorted(merged.values(), key=lambda pick: (pick.turn.at, pick.place))
        return picks, [each for each in sentences if each and each not in self._picks]


def new_lines(update: str, notes: Iterable[NotePlace]) -> list[tuple[str, str]]:
    """Return section and text of the facts in a MEMORY.md by a model that no note has."""
    known = {_key(text) for note in notes for text in (note.text, *(text for _, text in _bullets(note.text)))}
    return [(section, text) for section, text in _bullets(update) if _key(text) and _key(text) not in known]


def left_out(update: str, notes: Mapping[str, NotePlace]) -> list[str]:
    """Return the ids of the notes that a MEMORY.md by a model leaves out, at least in part."""
    kept = {_key(text) for _, text in _bullets(update)}
    return [name for name, note in notes.items() if not _is_kept(note, kept)]


def _is_kept(note: NotePlace, kept: set[str]) -> bool:
    """Return whether all of a note is kept; a person's note may have several bullets, or none."""
    is_heading = note.text == note.section
    return is_heading or _key(note.text) in kept or all(_key(text) in kept for _, text in _bullets(note.text))


def _key(text: str) -> str:
    """Return a sentence for comparison: without extra white space, list mark, quotes around it and final stop."""
    return _BULLET.sub("", " ".join(text.split()), count=1).strip(_QUOTES)


def _bullets(memory: str) -> Iterator[tuple[str, str]]:
    """Yield section and text of each fact in a MEMORY.md: a bullet, or a paragraph."""
    section = ""
    text: list[str] = []
    for line in [*memory.split("\n"), ""]:
        bullet = _BULLET.match(line)
        is_heading = line.startswith("#")
        if text and (bullet or is_heading or not line.strip()):
            yield section, " ".join(text)
            text = []
        if is_heading:
            signed = SIGNED.fullmatch(line)
            section = signed["section"] if signed else line.lstrip("#").strip()
        elif line.strip():
            text.append(line[bullet.end() if bullet else 0 :].strip())
