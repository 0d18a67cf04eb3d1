"""What reaches a terminal: nothing it would obey but styles, and nothing that was said is lost under them."""

from __future__ import annotations

import io
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from honeybadger_agent.cli.chat_answer import Showing
from honeybadger_agent.cli.terminal import Screen, markdown, shown
from honeybadger_agent.wire import ChatResult, StreamLine, ToolRun

ANY = st.text(st.characters(exclude_categories=()))
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@given(ANY)
def test_a_terminal_obeys_nothing_of_what_is_shown(text: str) -> None:
    safe = shown(text)
    assert {c for c in safe if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} <= {"\n", "\t"}
    assert not {c for c in safe if unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI")}
    safe.encode()


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


def rendered(text: str, columns: int = 200) -> str:
    """Return what a terminal is sent for an answer that is over, without styles."""
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=columns, highlight=False).print(markdown(shown(text)))
    return STYLE.sub("", out.getvalue())


@given(ANY)
def test_a_terminal_obeys_nothing_of_what_is_rendered(text: str) -> None:
    seen = rendered(text)
    assert {c for c in seen if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} <= {"\n"}
    assert "\u202e" not in seen


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("a **b** c", "a b c"),
        ("one line\nand another", "one line\nand another"),
        ("&#x202e; &#27;[2J &lt;", "&#x202e; &#27;[2J &lt;"),
        ("<script>x</script> <!-- hidden -->", "<script>x</script> <!-- hidden -->"),
        ("[ann]: http://example.org", "[ann]: http://example.org"),
        ("[bank](http://example.org)", "bank (http://example.org)"),
        ("![bank](http://example.org)", "!bank (http://example.org)"),
    ],
)
def test_nothing_of_an_answer_is_hidden(said: str, seen: str) -> None:
    assert [line.rstrip() for line in rendered(said).splitlines()] == seen.splitlines()


# -------------------------------------------------------------------------------------------------------- one answer


def result(content: str, steps: int = 1, tools: int = 0) -> ChatResult:
    runs = [ToolRun(name=f"tool{number}", ok=True, summary="did it") for number in range(tools)]
    return ChatResult(content=content, agent="bee", model="m", turn=2, steps=steps, tools=runs)


def showing() -> tuple[Showing, io.StringIO]:
    out = io.StringIO()
    return Showing(Screen(out, is_styled=False), is_looked_on=True), out


def test_tools_appear_once_between_the_steps_texts() -> None:
    one, out = showing()
    one.line(StreamLine(kind="began", agent="bee", model="m", attempt=1))
    one.line(StreamLine(kind="text", step=1, text="Let me see. "))
    one.line(StreamLine(kind="tool_began", step=1, tool="tool0"))
    one.line(StreamLine(kind="tool_ended", step=1, tool="tool0", ok=False, summary="\x1b[2Jno"))
    one.finish(result("Let me be.", steps=2, tools=2))
    assert out.getvalue().splitlines() == [
        "bee>",
        "Let me see. ",
        "  ! tool0: \\x1b[2Jno",
        "  · tool1: did it",
        "bee>",
        "Let me be.",
        "  m · 2 steps",
    ]
