"""LoCoMo's file format, as files of all kinds have it."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bench.recall.locomo import Loaded, read

TURNS = [{"speaker": "Ada", "dia_id": "D1:1", "text": "Hello"}, {"speaker": "Bo", "dia_id": "D1:2", "text": "A cat"}]


def written(path: Path, sample: object) -> Loaded:
    file = path / "talk.json"
    file.write_text(sample if isinstance(sample, str) else json.dumps(sample), encoding="utf-8")
    return read(file)


def sample(date: object = "1:56 pm on 8 May, 2023", **asked: Any) -> dict[str, object]:
    return {
        "conversation": {"session_1_date_time": date, "session_1": TURNS},
        "qa": [{"question": "What?", "evidence": ["D1:2"], "category": 4} | asked],
    }


@pytest.mark.parametrize(
    "evidence",
    [["D1:2"], "D1:2", "D01:02", ["D1:1; D1:2"], [["D1:1"], "D1:2"], "D1:1,D1:2", "(d1:2)", [{"dia_id": "D1:2"}]],
)
def test_evidence_is_a_list_or_a_string(tmp_path: Path, evidence: object) -> None:
    (conversation,) = written(tmp_path, [sample(evidence=evidence)]).conversations
    assert conversation.questions[0].evidence[-1] == 1


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56"),
        ("12:05 am on 8 May, 2023", "2023-05-08T00:05"),
        ("2023-05-08", "2023-05-08T00:00"),
        ("2023-05-08T13:56:00Z", "2023-05-08T13:56"),
        ("2023/05/08 (Mon) 13:56", "2023-05-08T13:56"),
        ("May 8, 2023", "2023-05-08T00:00"),
        ("8.5.2023", "2023-05-08T00:00"),
        ("2023年5月8日 下午1:56", "2023-05-08T13:56"),
        ("2023년 5월 8일 13:56", "2023-05-08T13:56"),
        (1683554160, "2023-05-08T13:56"),
        (1683554160000, "2023-05-08T13:56"),
    ],
)
def test_a_date_is_read_however_it_is_written(tmp_path: Path, date: object, moment: str) -> None:
    loaded = written(tmp_path, [sample(date)])
    assert loaded.conversations[0].turns[0].at == datetime.fromisoformat(f"{moment}Z").timestamp()
    assert not loaded.skipped


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    talk = sample()
    talk["conversation"] = {
        "session_1": [
            {"speaker": "Ada", "text": "Hello"},
            {"speaker": "Bo", "blip_caption": "a cat"},
            "Who?",
            {"text": None},
        ],
        "session_2": [],
        "session_3_date_time": "soon",
        "session_3": [{"role": "Cy", "content": "Bye"}],
    }
    talk["qa"] = [
        {"question": "What?", "evidence": ["D1:2", "D9:9"], "category": "5"},
        {"question": "Who?", "evidence": []},
        {"evidence": ["D1:1"]},
        {"question": "When?", "evidence": "D3:1", "category": "temporal"},
    ]
    loaded = written(tmp_path, talk)
    (conversation,) = loaded.conversations
    assert [turn.text for turn in conversation.turns] == ["Hello", "[image: a cat]", "Who?", "", "Bye"]
    assert [turn.author for turn in conversation.turns] == ["Ada", "Bo", "", "", "Cy"]
    assert math.isnan(conversation.turns[-1].at)
    assert [(asked.text, asked.category, asked.is_counted) for asked in conversation.questions] == [
        ("What?", "adversarial", False),
        ("When?", "temporal", True),
    ]
    said = "\n".join(loaded.skipped)
    assert "3 sessions have no date that is understood" in said
    assert "1 turns have no text" in said
    assert "1 ids of evidence name no turn, such as 'D9:9'" in said
    assert "1 questions have no evidence among the turns and are not asked, such as 'Who?'" in said
    assert "1 questions have no text" in said


def test_one_conversation_on_each_line_is_a_file_too(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(sample()) for _ in range(3))
    assert len(written(tmp_path, lines).conversations) == 3
    assert len(written(tmp_path, {"data": [sample()] * 2}).conversations) == 2


@pytest.mark.parametrize("content", ["[]x", "3", '["a"]', '[{"conversation": {}}]', '{"qa": []}'])
def test_what_is_another_format_is_refused_by_name(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match=r"talk\.json: no"):
        written(tmp_path, content)
