"""What reaches a terminal: nothing it would obey but our own styles, and nothing that was said is lost under them."""

from __future__ import annotations

import io
import re
import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent.cli.chat_answer import Showing
from honeybadger_agent.cli.markup import Markup
from honeybadger_agent.cli.terminal import Screen, json_shown, painted, shown
from honeybadger_agent.cli.wrapping import Wrap
from honeybadger_agent.wire import ChatResult, StreamLine, ToolRun

ANY = st.text(st.characters(exclude_categories=()))
MARKDOWN = st.lists(st.sampled_from(["#", " ", "`", "```", "*", "**", "- ", "> ", "1. ", "a", "word", "\n", "é", "\t"]))
OURS = re.compile(r"\x1b\[[0-9;]*m")


@given(ANY)
def test_a_terminal_obeys_nothing_of_what_is_shown(text: str) -> None:
    safe = shown(text)
    assert {c for c in safe if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} <= {"\n", "\t"}
    assert not {c for c in safe if unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI")}
    safe.encode()


@given(ANY, st.data())
def test_text_is_made_harmless_piece_by_piece_as_in_one(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert shown(text[:cut]) + shown(text[cut:]) == shown(text)


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\rb", "a\\rb"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("äß\t中文 👩\u200d👩\u200d👧 \n", "äß\t中文 👩\u200d👩\u200d👧 \n"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(said: str, seen: str) -> None:
    assert shown(said) == seen


@given(ANY.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)))
def test_json_on_a_terminal_is_still_the_same_json(text: str) -> None:
    dumped = orjson.dumps({"a": text}).decode()
    assert orjson.loads(json_shown(dumped)) == {"a": text}
    assert shown(json_shown(dumped)) == json_shown(dumped)


@given(MARKDOWN)
def test_styles_take_nothing_away_and_end_with_their_line(pieces: list[str]) -> None:
    markup = Markup()
    styled = "".join(map(markup.feed, pieces)) + markup.end()
    assert OURS.sub("", styled) == "".join(pieces)
    for line in styled.split("\n"):
        codes = OURS.findall(line)
        assert not codes or codes[-1] == "\x1b[0m"


@given(MARKDOWN, st.data())
def test_an_answer_is_styled_the_same_however_it_comes(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    at_once, in_parts = Markup(), Markup()
    parts = [in_parts.feed(text[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(parts) + in_parts.end() == at_once.feed(text) + at_once.end()


@given(st.lists(st.sampled_from(["a", "word ", ". ", "1,", "é"]), min_size=1))
def test_plain_text_is_shown_as_soon_as_it_comes(pieces: list[str]) -> None:
    markup = Markup()
    markup.feed("> ")
    for piece in pieces:
        assert markup.feed(piece) == piece


@pytest.mark.parametrize(
    ("line", "styled"),
    [
        ("# Head", painted("# Head", "bold")),
        ("a **b** c", "a " + "\x1b[1m**b**\x1b[0m c"),
        ("`x*y`", "\x1b[33m`x*y`\x1b[0m"),
        ("- item", painted("- ", "mark") + "item"),
        ("2 * 3 ** 4", "2 * 3 ** 4"),
        ("#hash", "#hash"),
    ],
)
def test_marks_are_styled_where_they_stand(line: str, styled: str) -> None:
    markup = Markup()
    assert markup.feed(line) + markup.end() == styled


@given(MARKDOWN, st.integers(1, 12), st.data())
def test_lines_are_broken_the_same_however_they_come_and_only_between_words(
    pieces: list[str], columns: int, data: st.DataObject
) -> None:
    text = "".join(pieces)
    cut = data.draw(st.integers(0, len(text)))
    in_parts, at_once, never = Wrap(columns), Wrap(columns), Wrap(None)
    broken = at_once.feed(text) + at_once.end()
    assert in_parts.feed(text[:cut]) + in_parts.feed(text[cut:]) + in_parts.end() == broken
    assert broken.split() == text.split()
    assert never.feed(text) + never.end() == text
    kept = Wrap(columns)
    assert kept.feed(text, is_verbatim=True) + kept.feed("\n", is_verbatim=True) == text + "\n"


@given(st.lists(st.sampled_from(["a", "four", "\x1b[1mbold\x1b[0m", "sixsix"]), min_size=1), st.integers(6, 12))
def test_no_line_is_longer_than_the_terminal_nor_broken_too_early(words: list[str], columns: int) -> None:
    wrap = Wrap(columns, column=3)
    lines = ("a> " + wrap.feed(" ".join(words)) + wrap.end()).split("\n")
    widths = [len(OURS.sub("", line)) for line in lines]
    assert max(widths) <= columns
    firsts = [len(OURS.sub("", line.split(" ")[0])) for line in lines[1:]]
    assert all(width + 1 + first > columns for width, first in zip(widths, firsts, strict=False))


def test_scripts_without_spaces_are_shown_as_they_come() -> None:
    wrap = Wrap(8)
    assert wrap.feed("你好世界你好") == "你好世界\n你好"


def test_a_block_of_code_is_not_broken() -> None:
    out = io.StringIO()
    one = Showing(Screen(out, is_styled=False), is_looked_on=True)
    one.line(StreamLine(kind="text", step=1, text="x"))
    one.wrap = Wrap(10)
    one.line(StreamLine(kind="text", step=1, text=" one two three\n```\none two three four\n```\none two three four\n"))
    assert out.getvalue().splitlines()[1:] == ["three", "```", "one two three four", "```", "one two", "three four"]


# -------------------------------------------------------------------------------------------------------- one answer


def result(content: str, steps: int = 1, tools: int = 0) -> ChatResult:
    runs = [ToolRun(name=f"tool{number}", ok=True, summary="did it") for number in range(tools)]
    return ChatResult(content=content, agent="bee", model="m", turn=2, steps=steps, tools=runs)


def showing() -> tuple[Showing, io.StringIO]:
    out = io.StringIO()
    return Showing(Screen(out, is_styled=False), is_looked_on=True), out


@given(st.text("ab \n*", min_size=1, max_size=30).filter(str.strip), st.data())
def test_however_much_of_it_was_streamed_the_answer_is_shown_whole_and_once(content: str, data: st.DataObject) -> None:
    one, out = showing()
    streamed = content[: data.draw(st.integers(0, len(content)))]
    cut = data.draw(st.integers(0, len(streamed)))
    one.line(StreamLine(kind="began", agent="bee", model="m", attempt=1))
    for piece in (streamed[:cut], streamed[cut:]):
        one.line(StreamLine(kind="text", step=1, text=piece))
    one.finish(result(content))
    body = re.sub(r"\A(?: *\n)+", "", content)
    assert out.getvalue() == f"bee> {body}" + "\n" * (not body.endswith("\n")) + "  m\n"


def test_tools_stand_between_the_texts_of_their_steps_and_each_once() -> None:
    one, out = showing()
    one.line(StreamLine(kind="began", agent="bee", model="m", attempt=1))
    one.line(StreamLine(kind="text", step=1, text="Let me see. "))
    one.line(StreamLine(kind="tool_began", step=1, tool="tool0"))
    one.line(StreamLine(kind="tool_ended", step=1, tool="tool0", ok=False, summary="\x1b[2Jno"))
    one.finish(result("Let me be.", steps=2, tools=2))
    assert out.getvalue().splitlines() == [
        "bee> Let me see. ",
        "  ! tool0: \\x1b[2Jno",
        "  · tool1: did it",
        "bee> Let me be.",
        "  m · 2 steps",
    ]


def test_an_answer_that_begins_anew_is_shown_anew() -> None:
    one, out = showing()
    for attempt, piece in ((1, "Half an ans"), (2, "A whole answer")):
        one.line(StreamLine(kind="began", agent="bee", model="m", attempt=attempt))
        one.line(StreamLine(kind="text", step=1, text=piece))
    one.finish(result("A whole answer."))
    assert out.getvalue().splitlines() == [
        "bee> Half an ans",
        "(The host was started again; so is the answer.)",
        "bee> A whole answer.",
        "  m",
    ]
