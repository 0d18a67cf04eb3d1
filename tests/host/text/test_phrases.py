"""Texts that are to be forgotten are found in whatever form they stand, and nothing else goes with them."""

import json
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.text.phrases import FORGOTTEN, Phrases, folded, said_in
from honeybadger_host.work.task_files import TaskState, TaskStates, recorded

SECRET = 'Zoë\'s key / \N{GRINNING FACE} "left"\nof the door'
PHRASES = Phrases([SECRET])
PLAIN = f"above\nthe {SECRET} and\nbelow"
ESCAPED = [
    json.dumps(PLAIN),
    json.dumps(PLAIN, ensure_ascii=False),
    json.dumps(PLAIN).replace("/", "\\/"),
    json.dumps(PLAIN).replace("door", "d\\u006fo\\u0072"),
    json.dumps(json.dumps(json.dumps(PLAIN))),
]


@pytest.mark.parametrize("text", [PLAIN, *ESCAPED], ids=range(6))
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_a_text_is_removed_in_every_form(text: str, form: Any) -> None:
    for shown in (text, text.replace(" ", " \t ")):
        written = unicodedata.normalize(form, shown)
        assert PHRASES.finds(written)
        left = PHRASES.in_bytes(written.encode())
        assert not PHRASES.finds_bytes(left)
        assert FORGOTTEN.encode() in left


@pytest.mark.parametrize("written", ["İstanbul", "ISTANBUL", "istanbul", "ıstanbul", "I\u0307stanbul"])
@pytest.mark.parametrize("asked", ["istanbul", "İSTANBUL", "Istanbul"])
def test_a_dotted_i_finds_a_dotless_one(asked: str, written: str) -> None:
    phrases = Phrases([asked])
    assert phrases.finds(f"we met in {written}.")
    assert phrases.in_bytes(f"- we met in {written}\n".encode()) == b"- [forgotten]\n"


@pytest.mark.parametrize("hidden", ["\u00ad", "\u200b", "\u200d", "\u2060", "\ufeff", "\u200e", "\u034f"])
def test_characters_that_nobody_sees_hide_nothing(hidden: str) -> None:
    phrases = Phrases(["cheese fondue"])
    written = f"the che{hidden}ese f{hidden}{hidden}ondue here"
    for text in (written, json.dumps(written), json.dumps(json.dumps(written))):
        assert phrases.finds_bytes(text.encode())
        assert not phrases.finds_bytes(phrases.in_bytes(text.encode()))
    assert Phrases([f"cheese{hidden} fondue"]).finds("Cheese fondue")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
@pytest.mark.parametrize("written", ["KäSe fOnDuE \N{SNOWFLAKE} GehEim", "Kä\u00adse  Fondue\t\N{SNOWFLAKE} geHeim"])
def test_utf_16_is_found_in_any_case_and_spacing(written: str, encoding: str) -> None:
    phrases = Phrases(["käse fondue \N{SNOWFLAKE} geheim"])
    for begin in (b"", b"x", b"\0\0"):
        data = begin + f"the {written} here".encode(encoding)
        assert phrases.finds_bytes(data)
        assert not phrases.finds_bytes(phrases.in_bytes(data))


def test_lines_go_and_their_number_marks_and_signatures_stay() -> None:
    phrases = Phrases(["red apple"])
    text = "## A Red Apple (ann, 2026-11-22 10:00)\n- one\n  - a RED\n  apple pie\n\nred appl\n> no red  apple\r\n"
    assert phrases.in_text(text) == (
        "## [forgotten] (ann, 2026-11-22 10:00)\n- one\n  - [forgotten]\n  [forgotten]\n\nred appl\n> [forgotten]\r\n"
    )


def test_in_json_texts_go_and_names_and_times_stay() -> None:
    phrases = Phrases(["ann", "1234567", "token"])
    kept = {"by": "ann", "at": "2026", "m": 12345678, "token_count": 3}
    value = {**kept, "content": "of Ann\nand Bea", "n": 1234567, "ann": ["x", "ann y"]}
    for indent in (None, 2, 4):
        made = json.loads(phrases.in_bytes(json.dumps(value, indent=indent).encode()))
        assert made == {**kept, "content": "[forgotten]\nand Bea", "n": FORGOTTEN, FORGOTTEN: ["x", FORGOTTEN]}


def test_a_short_text_is_removed_only_alone() -> None:
    phrases = Phrases([], ["ok"])
    assert phrases.in_bytes(b"\n## A (b, 2026-11-22 10:00)\n- OK\n- ok then\n").endswith(b"- [forgotten]\n- ok then\n")
    line = b'{"content":"ok","state":"ok","by":"ok"}'
    assert json.loads(phrases.in_bytes(line)) == {"content": FORGOTTEN, "state": "ok", "by": "ok"}


def test_a_removed_record_keeps_author_and_time() -> None:
    note = b"\n## Notes (bee, 2026-11-22 10:00)\n- first\n  second\n"
    assert said_in(note) == ["first\n  second"]
    made = Phrases([]).in_bytes(note, is_all=True)
    assert made == b"\n## Notes (bee, 2026-11-22 10:00)\n- [forgotten]\n  [forgotten]\n"
    assert said_in(made) == []
    turn = b'{"turn":3,"role":"user","by":"ann","content":"hello","at":"2026-11-22T10:00:00.000Z","token_count":1}\n'
    assert said_in(turn) == ["hello"]
    left = json.loads(Phrases([]).in_bytes(turn, is_all=True))
    assert left == {**json.loads(turn), "content": FORGOTTEN}
    at = datetime(2026, 11, 22, 10, 0, 0, 5000, tzinfo=UTC)
    members = TaskState("t", at, "done", at, at, (at, at), "hello", asked=at, runs=2)
    record = Phrases(["2026-11"]).in_bytes(recorded("g", members).data, is_all=True)
    assert TaskStates([("g", record)]).current("g", "t") == replace(members, why=FORGOTTEN)


def test_no_name_or_number_of_people_stays() -> None:
    metadata = {"safe of tim": 4711, "key": "k-4711", "in": {"a": [1, True]}}
    entry = {"id": "k3v9", "content": "hello", "metadata": metadata, "number of tim": 4711}
    for indent in (None, 2, 4):
        data = json.dumps(entry, indent=indent).encode()
        made = Phrases([]).in_bytes(data, is_all=True)
        for gone in (b"safe", b"tim", b"4711", b'"in"', b'"key"'):
            assert gone not in made
        assert (json.loads(made)["id"], made.count(b"\n")) == ("k3v9", data.count(b"\n"))
        assert Phrases([]).in_bytes(made, is_all=True) == made
    usage = {"token_usage": {"by_session": 9}}
    document = {"system_state": {"pin": 4711}, "tool_stats": {"by_tool": {"call tim": 3}}, **usage}
    made = json.loads(Phrases([]).in_bytes(json.dumps(document, indent=2).encode(), is_all=True))
    emptied = {"[forgotten] 1": 0}
    assert made == {"system_state": emptied, "tool_stats": {"by_tool": emptied}, **usage}


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ('    "safe of tim": "x",', '    "[forgotten]": "[forgotten]",'),
        ('    "safe of tim": {', '    "[forgotten]": {'),
        ('    "safe of tim": null', '    "[forgotten]": null'),
        ('    "key": "k-4711"', '    "[forgotten]": "[forgotten]"'),
        ('  "content": "torn', "[forgotten]"),
        ('  "metadata": {', '  "metadata": {'),
        ('  "created": "2026-11-22T10:00:00Z",', '  "created": "2026-11-22T10:00:00Z",'),
        ('  "reinforced": 4711,', '  "reinforced": 4711,'),
        ('  "safe": 4711,', '  "[forgotten]": 0,'),
        ('    "a tag of tim",', '    "[forgotten]",'),
        ("  },", "  },"),
    ],
)
def test_a_removed_line_keeps_an_entrys_own_names(line: str, made: str) -> None:
    assert Phrases([]).in_json_line(line.encode(), is_all=True).decode() == made


@given(st.text(min_size=3, max_size=40), st.text(max_size=30), st.text(max_size=30), st.integers(0, 2))
def test_no_escaped_text_is_left(secret: str, before: str, after: str, levels: int) -> None:
    text = f"{before}\n{secret}\n{after}"
    for _ in range(levels):
        text = json.dumps(text)
    phrases = Phrases([secret])
    if not phrases.parts or not text.isprintable():
        return
    left = phrases.in_bytes(text.encode("utf-8", "surrogatepass"))
    assert not phrases.finds(left.decode("utf-8", "replace").replace(FORGOTTEN, " "))


def test_escapes_within_escapes_end() -> None:
    assert folded("\\u005c" + "u005c" * 500_000 + " badger").endswith("badger")


@given(st.lists(st.text("ab c\n", min_size=1, max_size=8), min_size=65, max_size=80), st.text("ab c\n", max_size=60))
def test_many_texts_are_found_as_each_alone(asked: list[str], text: str) -> None:
    parts = Phrases(asked).parts + [f"{n} is a part" for n in range(65)]
    many = Phrases([*asked, *parts])
    shown = folded(text)
    assert {*many.found_in(shown)} == {part for part in many.parts if part in shown}
