"""A model's text without its thinking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent.turn.thinking import Visible

TAGS = ("<think>", "</think>", "<thinking>", "</thinking>", "<internal>", "</internal>", "<Think>", "</THINK>")
PARTS = st.sampled_from([*TAGS, "`", "``", "```", "~~~", "\n", " ", "<", ">", "/", "th", "ink>", "word", "é", "</"])
TEXTS = st.lists(PARTS, max_size=30).map("".join)


def in_pieces(text: str, cuts: list[int]) -> tuple[str, str]:
    """Return what is shown and what is kept of a text that comes in pieces."""
    visible, shown, begin = Visible(), "", 0
    for end in sorted({min(cut, len(text)) for cut in cuts} | {len(text)}):
        shown += visible.feed(text[begin:end])
        begin = end
    return shown + visible.end(), visible.text


@given(TEXTS, st.lists(st.integers(0, 120), max_size=40))
def test_any_cut_of_a_text_shows_the_same(text: str, cuts: list[int]) -> None:
    whole = in_pieces(text, [])
    assert in_pieces(text, cuts) == whole == in_pieces(text, list(range(len(text))))
    assert whole[1] == Visible.of(text).text
    assert whole[0].endswith(whole[1])


@given(
    st.text(alphabet="ab \n<>/", max_size=20),
    TEXTS,
    st.sampled_from([("<think>", "</think>"), ("<internal>", "</internal>")]),
)
def test_nothing_of_a_thought_is_shown(before: str, thought: str, tags: tuple[str, str]) -> None:
    opening, closing = tags
    thought = "".join(thought.split("<"))  # no tag of its own
    shown, kept = in_pieces(f"{before}{opening}{thought}SECRET{thought}{closing}After", [3, 7, 11, 20])
    assert "SECRET" not in shown
    assert kept.endswith("After")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<think>plan</think>\n\nVisible", "Visible"),
        ("<thinking>\nplan\n</thinking>\nVisible", "Visible"),
        ("\n<think>a</think>\n<think>b</think>\nVisible", "Visible"),
        ("Yes.\n<internal>ask again?</internal>\nNo.", "Yes.\n\nNo."),
        ("Yes. <internal>cut off", "Yes. "),
        ("<think>cut off", ""),
        ("<think>a</thinking>Visible", "Visible"),
        ("<think>I say <internal> here</think>Visible", "Visible"),
        ("the prompt had the tag\n</think>\n\nVisible", "Visible"),
        ("Visible.\n</think>\n", "Visible.\n"),
        ("Visible. </internal>More.", "Visible. More."),
        ("Write `<think>` before and `</think>` after it.", "Write `<think>` before and `</think>` after it."),
        ("Use ``<think> ` </think>`` so.", "Use ``<think> ` </think>`` so."),
        ("```xml\n<think>x</think>\n```\n<think>y</think>z", "```xml\n<think>x</think>\n```\nz"),
        ("~~~~\n<think>\n~~~\n~~~~\nend", "~~~~\n<think>\n~~~\n~~~~\nend"),
        ("one ` mark <think>a\nb</think> end", "one ` mark  end"),
        ("x < y, <thin> and <think are text", "x < y, <thin> and <think are text"),
        ("`one ``<think>`` of two`", "`one ``<think>`` of two`"),
        (f"`{'x' * 4_000}<think>a</think>`", f"`{'x' * 4_000}`"),
        (" \n ", " \n "),
        ("", ""),
    ],
)
def test_what_is_kept(text: str, kept: str) -> None:
    assert Visible.of(text).text == kept
