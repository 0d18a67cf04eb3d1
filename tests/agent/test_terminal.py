"""Text for a terminal: nothing it would obey but styles, and nothing that was said is lost under them."""

import io
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from honeybadger_agent.cli.terminal import markdown, shown

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
