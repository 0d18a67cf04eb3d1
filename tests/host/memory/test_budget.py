"""Texts that fit a budget: the newest turns, the newest notes, a fair part of the whole (HB6, HB7, HB9)."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from honeybadger_host.memory.markdown.budget import SHORTENED, cut_notes, divide, first_lines, format_history
from honeybadger_host.memory.markdown.notes import parse_notes
from honeybadger_host.memory.markdown.notes_together import NotesInContext
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import Turn

AT = datetime(2026, 11, 21, 6, 5, tzinfo=UTC)


def turn(number: int, content: str, sender: str = "user") -> Turn:
    return Turn(number, AT, "user", sender, "front", content, estimate_tokens(content))


def turns_of(*contents: str) -> list[Turn]:
    return [turn(number, content) for number, content in enumerate(contents, 1)]


contents = st.one_of(st.text(min_size=1, max_size=120), st.integers(1, 600).map(lambda size: "x" * size))
turn_logs = st.lists(contents, max_size=30).map(lambda texts: turns_of(*texts))
parts = st.floats(0, 0.999)
budgets = st.one_of(st.integers(1, 60), st.integers(1, 5000))


def part_of(tokens: int, part: float) -> int:
    """Return a budget that is too small for `tokens`."""
    assume(tokens > 1)
    return max(1, int(tokens * part))


def test_conversation_formatter_with_budget_truncates_messages_over_budget() -> None:
    turns = turns_of(*(f"message {number:02} " + "x" * 79 for number in range(50)))
    line_tokens = len(f"[user]: message 00 {'x' * 79}\n") // 4
    history = format_history(turns, 10 * line_tokens + line_tokens // 2)
    assert len(history.turns) == 10
    assert history.dropped == 40
    assert history.tokens == 10 * line_tokens
    assert history.text.count("\n") == 10


def test_conversation_formatter_with_budget_prioritises_most_recent_messages() -> None:
    turns = turns_of("the oldest " * 20, "in the middle " * 20, "the newest")
    history = format_history(turns, 80)
    assert [kept.number for kept in history.turns] == [2, 3]
    assert history.text == f"[user]: {'in the middle ' * 20}\n[user]: the newest\n"


def test_conversation_formatter_zero_budget_includes_all_messages() -> None:
    turns = turns_of(*("long " * 2000 for _ in range(20)))
    history = format_history(turns, 0)
    assert list(history.turns) == turns
    assert history.text == "".join(f"[user]: {'long ' * 2000}\n" for _ in range(20))
    assert (history.dropped, history.is_shortened) == (0, False)


def seeds_formatter(turns: Sequence[Turn], budget: int) -> str:
    """The seed's own algorithm, line for line."""
    text, tokens = "", 0
    for each in reversed(turns):
        line = f"[{each.sender}]: {each.content}\n"
        if budget > 0 and tokens + len(line) // 4 > budget:
            break
        tokens += len(line) // 4
        text = line + text
    return text


@given(st.lists(st.text("abc xyz", min_size=1, max_size=80), max_size=20), st.integers(0, 300))
def test_for_ascii_the_result_is_the_seeds(texts: list[str], budget: int) -> None:
    turns = turns_of(*texts)
    expected = seeds_formatter(turns, budget)
    history = format_history(turns, budget)
    assert history.text == expected or (expected == "" and history.is_shortened)


@given(turn_logs, budgets)
def test_a_history_is_the_newest_turns_within_budget(turns: list[Turn], budget: int) -> None:
    history = format_history(turns, budget)
    assert list(history.turns) == turns[history.dropped :]
    assert history.tokens <= budget
    assert bool(history.turns) == bool(history.text) == bool(turns)
    if not history.is_shortened:
        assert history.text == "".join(kept.line for kept in history.turns)
        assert history.tokens == sum(kept.line_tokens for kept in history.turns)
        if history.dropped:
            assert history.tokens + turns[history.dropped - 1].line_tokens > budget
    assert history == format_history(list(turns), budget)


@given(contents, st.lists(contents, max_size=5), parts)
def test_a_newest_turn_over_budget_is_shortened(newest: str, older: list[str], part: float) -> None:
    turns = turns_of(*older, newest)
    budget = part_of(turns[-1].line_tokens, part)
    history = format_history(turns, budget)
    assert history.is_shortened
    assert list(history.turns) == turns[-1:]
    assert history.dropped == len(older)
    assert estimate_tokens(history.text) == history.tokens <= budget
    kept = history.text.removesuffix(SHORTENED)
    assert turns[-1].line.startswith(kept)
    assert kept
    if budget >= 8:
        assert history.text.endswith(SHORTENED)


note_texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="#\n"), min_size=1, max_size=60),
    st.integers(1, 400).map(lambda size: "x" * size),
)


def notes_of(text: str) -> NotesInContext:
    return NotesInContext(parse_notes(text))


def book_text(preface: str, notes: Sequence[str]) -> str:
    return preface + "".join(
        f"\n## Notes (a, 2026-11-21 06:05)\n- {number} {text}\n" for number, text in enumerate(notes)
    )


@given(st.sampled_from(["", "# Memory\n", "kept by hand\n" * 20]), st.lists(note_texts, max_size=12), parts)
@example("", ["x" * 400, "y" * 400], 0.025)
@example("", ["x" * 400], 0)
def test_cut_notes_stay_within_their_share(preface: str, texts: list[str], part: float) -> None:
    text = book_text(preface, texts)
    share = part_of(estimate_tokens(text), part)
    book = notes_of(text)
    cut = cut_notes(book, share)
    assert estimate_tokens(cut.text) <= share
    assert cut.text
    if cut.is_shortened or not texts or share < 25:
        return
    kept = re.findall(r"^- (?:[-0-9]* ?06:05: )?(\d+) ", cut.text, re.MULTILINE)
    assert kept == [str(number) for number in range(cut.left_out, len(texts))]
    assert (f"{cut.left_out} older note" in cut.text) == (cut.left_out > 0)
    assert cut_notes(book, share) == cut


def test_text_above_the_notes_has_a_share() -> None:
    text = book_text("kept by hand\n" * 80 + "the last line\n", ["one", "two"])
    cut = cut_notes(notes_of(text), 150)
    assert cut.text.startswith("[... text above left out]\nkept by hand\n")
    assert "the last line\n\n## Notes" in cut.text
    assert (cut.left_out, cut.has_lost_text) == (0, True)
    cut = cut_notes(notes_of(text), 40)
    assert cut.text.startswith("[... text above left out]\n## Notes")
    assert (cut.left_out, cut.has_lost_text) == (0, True)


def signed(author: str, *texts: str) -> str:
    return "".join(f"\n## Notes ({author}, 2026-11-21 06:05)\n- {text}\n" for text in texts)


def test_nobody_crowds_out_what_others_noted() -> None:
    text = (
        signed("ann", "tea", "coffee")
        + "\n## By hand\nmilk\n"
        + signed("bot", *(f"{number} {'x' * 3998}" for number in range(40)))
    )
    cut = cut_notes(notes_of(text), 3000)
    assert cut.left_out == 38
    for kept in (": tea\n", ": coffee\n", "## By hand\nmilk\n"):
        assert kept in cut.text
    shortened = cut_notes(notes_of(signed("ann", "tea") + signed("bot", "x" * 40_000)), 1000)
    assert "- tea\n" in shortened.text
    assert SHORTENED.strip() in shortened.text


@given(st.lists(contents, max_size=8).map("\n".join), parts)
def test_first_lines_stay_within_their_share(text: str, part: float) -> None:
    share = part_of(estimate_tokens(text), part)
    cut = first_lines(text, share)
    assert estimate_tokens(cut) <= share
    kept, mark, rest = cut.partition("[... ")
    assert text.startswith(kept.rstrip("\n").rstrip())
    assert rest == "" or mark


needs = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 100_000), max_size=4)
weights = st.fixed_dictionaries({name: st.floats(0.01, 1) for name in "abcd"})


@given(st.integers(-100, 200_000), needs, weights)
@example(3109, {"d": 3109}, {"d": 0.6860581138561931})
def test_shares_never_exceed_needs_or_room(room: int, needs: dict[str, int], weights: dict[str, float]) -> None:
    given_ = divide(room, needs, weights)
    assert given_.keys() == needs.keys()
    assert all(0 <= given_[name] <= needs[name] for name in needs)
    assert sum(given_.values()) <= max(0, room)
    if sum(needs.values()) <= room:
        assert given_ == needs
    else:
        assert sum(given_.values()) >= room - len(needs)  # rounding is all that is wasted


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({"memory": 900, "history": 900, "summary": 900}, {"memory": 500, "history": 350, "summary": 150}),
        ({"memory": 900, "history": 0, "summary": 0}, {"memory": 900, "history": 0, "summary": 0}),
        ({"memory": 100, "history": 900, "summary": 900}, {"memory": 100, "history": 630, "summary": 270}),
        ({"memory": 900, "history": 900, "summary": 50}, {"memory": 558, "history": 391, "summary": 50}),
        ({"memory": 300, "history": 300, "summary": 300}, {"memory": 300, "history": 300, "summary": 300}),
    ],
)
def test_what_one_part_leaves_goes_to_the_others(needs: dict[str, int], expected: dict[str, int]) -> None:
    assert divide(1000, needs, {"memory": 0.5, "history": 0.35, "summary": 0.15}) == expected
