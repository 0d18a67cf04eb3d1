"""LoCoMo's file format: conversations of many sessions, questions with the turns that answer them.

The data is CC BY-NC 4.0 (github.com/snap-research/locomo) and not part of this project; a path is given.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.recall.cases import Conversation, Question, Turn
from honeybadger_host.search.language.dates import dates_said

CATEGORIES = {"4": "single-hop", "1": "multi-hop", "2": "temporal", "3": "open-domain", "5": "adversarial"}
_NOT_COUNTED = {"5", "adversarial"}
_QUESTIONS = ("qa", "qas", "qa_pairs", "questions")
_SPEAKER = ("speaker", "role", "author", "name", "sender", "from")
_TEXT = ("text", "content", "message", "utterance")
_CAPTION = ("blip_caption", "image_caption", "caption")
_DATE = ("date_time", "datetime", "date", "timestamp", "time")
_NAMED = re.compile(r"[Dd]\d+:\d+")
_CLOCK = re.compile(
    r"(?<!\d)(\d{1,2})\s?(?:[:h点點時]|시 ?)\s?(\d{2})?(?::\d{2})?\s?(am|pm|a\.m\.|p\.m\.)?", re.IGNORECASE
)
_AFTERNOON = re.compile(r"下午|晚上|午後|오후")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of a file.

    Args:
        skipped: what was left out or is missing, one line for each kind and conversation.
    """

    conversations: tuple[Conversation, ...]
    skipped: tuple[str, ...]


@dataclass(slots=True)
class _Left:
    """Turns and questions left out of one conversation: reason -> what it befell."""

    what: dict[str, list[str]] = field(default_factory=dict)

    def out(self, reason: str, what: object) -> None:
        self.what.setdefault(reason, []).append(str(what)[:60])

    def lines(self, name: str) -> Iterator[str]:
        for reason, what in self.what.items():
            yield f"{name}: {len(what)} {reason}, such as {what[0]!r}"


def load(path: Path) -> list[Conversation]:
    """Return the conversations of a file, see `read`."""
    return list(read(path).conversations)


def read(path: Path) -> Loaded:
    """Return the conversations of a file and what had to be left out.

    One conversation, a list of them, or one on each line. A turn without an id is counted within its session; evidence
    is a list or a string of ids, `D30:05` is `D30:5`; what names no turn is dropped, and a question that is left
    without evidence is left out.

    Raises:
        ValueError: the file is not in this format; says what is missing.
    """
    conversations: list[Conversation] = []
    skipped: list[str] = []
    samples = _samples(path)
    for number, sample in enumerate(samples):
        if not isinstance(sample, Mapping):
            raise ValueError(f"{path}: not in LoCoMo's format: item {number} is not an object")
        left = _Left()
        conversation = _conversation(sample, number, left)
        if not conversation.turns:
            raise ValueError(f"{path}: not in LoCoMo's format: item {number} has no session_1, session_2 and so on")
        conversations.append(conversation)
        skipped += left.lines(conversation.name)
    return Loaded(tuple(conversations), tuple(skipped))


def _samples(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8-sig")
    try:
        samples = json.loads(text)
    except json.JSONDecodeError as error:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            raise ValueError(f"{path}: no JSON: {error}") from error
    if isinstance(samples, dict):
        lists = [value for key, value in samples.items() if key in ("data", "samples", "conversations")]
        return lists[0] if lists and isinstance(lists[0], list) else [samples]
    if not isinstance(samples, list):
        raise ValueError(f"{path}: not in LoCoMo's format: neither an object nor a list")
    return samples


def _conversation(sample: Mapping[str, Any], number: int, left: _Left) -> Conversation:
    talk = sample.get("conversation", sample)
    if not isinstance(talk, Mapping):
        talk = sample
    sessions = sorted(
        int(match.group(1))
        for key in talk
        if (match := re.fullmatch(r"session_(\d+)", key)) and isinstance(talk[key], list)
    )
    turns: list[Turn] = []
    place_of: dict[str, int] = {}
    for session in sessions:
        written = next((talk[key] for form in _DATE if (key := f"session_{session}_{form}") in talk), "")
        at = _moment(written)
        if math.isnan(at):
            left.out("sessions have no date that is understood", f"session_{session}: {written}")
        for offset, said in enumerate(talk[f"session_{session}"]):
            turn = said if isinstance(said, Mapping) else {"text": said}
            text, author = _first(turn, _TEXT), _first(turn, _SPEAKER)
            if caption := _first(turn, _CAPTION):
                text = f"{text} [image: {caption}]".strip()
            if not text:
                left.out("turns have no text", turn.get("dia_id", f"session_{session}, {offset + 1}"))
            place_of[_plain(str(turn.get("dia_id", f"D{session}:{offset + 1}")))] = len(turns)
            said_at = _moment(_first(turn, _DATE))
            turns.append(Turn(f"session_{session}", author, text, at + offset if math.isnan(said_at) else said_at))
    questions = list(_questions(sample, place_of, left))
    return Conversation(str(sample.get("sample_id", number)), tuple(turns), tuple(questions))


def _questions(sample: Mapping[str, Any], place_of: Mapping[str, int], left: _Left) -> Iterator[Question]:
    asked_for: list[Any] = next((sample[key] for key in _QUESTIONS if isinstance(sample.get(key), list)), [])
    if not asked_for:
        left.out("conversation has no questions (qa)", ", ".join(sample))
    for asked in asked_for:
        text = str(asked.get("question") or "").strip() if isinstance(asked, Mapping) else ""
        if not text:
            left.out("questions have no text", asked)
            continue
        names = list(_names(asked.get("evidence"), place_of))
        places = {place_of[name] for name in names if name in place_of}
        for name in names:
            if name not in place_of:
                left.out("ids of evidence name no turn", name)
        if not places:
            left.out("questions have no evidence among the turns and are not asked", text)
            continue
        category = str(asked.get("category", "all"))
        yield Question(
            text=text,
            evidence=tuple(sorted(places)),
            category=CATEGORIES.get(category, category),
            now=_moment(asked.get("question_date", "")),
            is_counted=category.casefold() not in _NOT_COUNTED,
        )


def _first(turn: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """Return the first of the members that is there and not empty, as text."""
    return next((str(turn[key]).strip() for key in keys if turn.get(key)), "")


def _names(written: object, place_of: Mapping[str, int]) -> Iterator[str]:
    """Yield the ids of evidence: a list, lists in it, or strings that hold several."""
    if isinstance(written, list | tuple):
        for each in written:
            yield from _names(each, place_of)
    elif isinstance(written, Mapping):
        yield from _names(written.get("dia_id"), place_of)
    elif written is not None:
        text = str(written).strip()
        if _plain(text) in place_of:
            yield _plain(text)
        else:
            yield from map(_plain, _NAMED.findall(text) or filter(None, re.split(r"[\s,;]+", text)))


def _plain(name: str) -> str:
    session, _, turn = name.strip().upper().removeprefix("D").partition(":")
    return f"D{int(session)}:{int(turn)}" if session.isdecimal() and turn.isdecimal() else name.strip()


def _moment(written: object) -> float:
    """Return seconds of the epoch; NaN for what is not a date.

    ISO, seconds or milliseconds of the epoch, or any date a question may say, with a time of day or without.
    """
    text = str(written).strip() if written is not None else ""
    if re.fullmatch(r"\d{9,13}(\.\d+)?", text):
        seconds = float(text)
        return seconds / 1000 if seconds >= 1e11 else seconds
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    days = [start for start, _ in dates_said(text, None)]
    if not days:
        return math.nan
    clock = _CLOCK.search(text)
    if clock is None:
        return days[0]
    hour, minute = int(clock[1]), int(clock[2] or 0)
    if ((clock[3] or "").casefold().startswith("p") or _AFTERNOON.search(text)) and hour < 12:
        hour += 12
    elif (clock[3] or "").casefold().startswith("a") and hour == 12:
        hour = 0
    return days[0] + (hour * 3600 + minute * 60 if hour < 24 and minute < 60 else 0)
