"""LoCoMo's file format: conversations of many sessions, questions with the turns that answer them.

The data is CC BY-NC 4.0 (github.com/snap-research/locomo) and not part of this project; a path is given.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.recall.cases import Conversation, Question, Turn

CATEGORIES = {4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open-domain", 5: "adversarial"}
_FORMATS = (
    "%I:%M %p on %d %B, %Y",
    "%d %B, %Y",
    "%Y/%m/%d (%a) %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d",
    "%Y年%m月%d日 %H:%M",
    "%Y年%m月%d日",
)


def load(path: Path) -> list[Conversation]:
    """Return the conversations of a file.

    Evidence is read as libraries of this format need it: `D30:05` is `D30:5`, one string may hold several, what names
    no turn is dropped, and a question left without evidence is left out.

    Raises:
        ValueError: the file is not in this format; says what is missing.
    """
    samples = json.loads(path.read_bytes())
    if isinstance(samples, dict):
        samples = [samples]
    try:
        return [_conversation(sample, number) for number, sample in enumerate(samples)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not in LoCoMo's format: {error!r}") from error


def _conversation(sample: Mapping[str, Any], number: int) -> Conversation:
    talk = sample["conversation"]
    sessions = sorted(
        (int(match.group(1)) for key in talk if (match := re.fullmatch(r"session_(\d+)", key)) and talk[key]),
    )
    turns: list[Turn] = []
    place_of: dict[str, int] = {}
    for session in sessions:
        at = _moment(str(talk.get(f"session_{session}_date_time", "")))
        for offset, turn in enumerate(talk[f"session_{session}"]):
            caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            place_of[_plain(turn["dia_id"])] = len(turns)
            turns.append(Turn(f"session_{session}", turn["speaker"], f"{turn['text']}{caption}", at + offset))
    questions = [
        Question(
            text=str(asked["question"]),
            evidence=places,
            category=CATEGORIES.get(asked.get("category"), str(asked.get("category", "all"))),
            now=_moment(str(asked.get("question_date", ""))),
            is_counted=asked.get("category") != 5,
        )
        for asked in sample["qa"]
        if (places := _evidence(asked.get("evidence") or [], place_of))
    ]
    return Conversation(str(sample.get("sample_id", number)), tuple(turns), tuple(questions))


def _evidence(written: Sequence[Any] | str, place_of: Mapping[str, int]) -> tuple[int, ...]:
    names = re.findall(r"D\d+:\d+", written if isinstance(written, str) else " ".join(map(str, written)))
    return tuple(sorted({place_of[plain] for name in names if (plain := _plain(name)) in place_of}))


def _plain(name: str) -> str:
    session, _, turn = name.removeprefix("D").partition(":")
    return f"D{int(session)}:{int(turn)}" if session.isdigit() and turn.isdigit() else name


def _moment(written: str) -> float:
    """Return seconds of the epoch; NaN for what is not a date."""
    for form in _FORMATS:
        try:
            return datetime.strptime(written.strip(), form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    try:
        moment = datetime.fromisoformat(written.strip())
    except ValueError:
        return math.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
