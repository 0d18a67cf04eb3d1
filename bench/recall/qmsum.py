"""QMSum: meetings with questions about a stretch of what was said (github.com/Yale-LILY/QMSum, MIT)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.recall.cases import Conversation, Question, Turn


def load(path: Path) -> list[Conversation]:
    """Return the meetings of a file, each one session with the questions about parts of it."""
    return [_meeting(json.loads(line), number) for number, line in enumerate(path.read_text().splitlines())]


def _meeting(said: dict[str, Any], number: int) -> Conversation:
    turns = tuple(
        Turn("meeting", turn["speaker"], turn["content"], 60.0 * place)
        for place, turn in enumerate(said["meeting_transcripts"])
    )
    questions = []
    for asked in said["specific_query_list"]:
        places: set[int] = set()
        for first, last in asked["relevant_text_span"]:
            places.update(range(int(first), min(int(last) + 1, len(turns))))
        if places:
            questions.append(Question(asked["query"], tuple(sorted(places)), "meeting"))
    return Conversation(f"meeting {number}", turns, tuple(questions))
