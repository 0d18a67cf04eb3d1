"""The counter of tokens is chosen once, and every budget follows it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.compose import build
from honeybadger_host.domain import Turn
from honeybadger_host.errors import SettingsError
from honeybadger_host.memory.budget import cut_notes, first_lines, format_history, shorten
from honeybadger_host.memory.notes import parse_notes
from honeybadger_host.memory.notes_together import NotesInContext
from honeybadger_host.settings import Settings
from honeybadger_host.storage.home import make_home
from honeybadger_host.text.neutralise import by_characters, estimate_tokens, use_counter
from honeybadger_host.text.tokens import counter_of

needs_vocabulary = pytest.mark.skipif(
    importlib.util.find_spec("toktok") is None, reason="needs toktok-rs: pip install 'honeybadger-host[tokens]'"
)
AT = datetime(2026, 11, 21, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300) | st.text("ab 12\n.,é中🙂", max_size=300)


@pytest.fixture(autouse=True)
def _estimate_again() -> Iterator[None]:
    yield
    use_counter(by_characters)


def turns(*contents: str) -> list[Turn]:
    return [Turn(number, AT, "user", "user", "front", content, 0) for number, content in enumerate(contents, 1)]


@needs_vocabulary
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 8),
        ("<|endoftext|>", 7),
    ],
)
def test_o200k_counts_as_openais_cookbook_does(text: str, tokens: int) -> None:
    assert counter_of("o200k")(text) == tokens


@needs_vocabulary
def test_half_a_character_costs_as_much_as_the_mark_it_is_replaced_by() -> None:
    count = counter_of("o200k")
    assert count("a\ud800b") == count("a?b")


@needs_vocabulary
def test_a_history_holds_what_the_vocabulary_lets_in() -> None:
    said = turns(*["こんにちは、元気ですか" for _ in range(20)])
    few = format_history(said, 100)
    use_counter(counter_of("o200k"))
    said = turns(*[turn.content for turn in said])  # a line keeps what it cost
    many = format_history(said, 100)
    assert len(many.turns) > len(few.turns) > 0
    assert many.tokens == sum(estimate_tokens(turn.line) for turn in many.turns) <= 100


@needs_vocabulary
@given(TEXTS, st.integers(20, 200))
def test_what_is_cut_by_the_vocabulary_is_within_its_budget(text: str, budget: int) -> None:
    use_counter(counter_of("o200k"))
    assert estimate_tokens(shorten(text, budget)) <= budget
    if estimate_tokens(text) > budget:
        assert estimate_tokens(first_lines(text, budget)) <= budget
        notes = "\n".join(f"## Notes (ann, 2026-11-21 06:05)\n- {line}\n" for line in text.split("\n"))
        assert estimate_tokens(cut_notes(NotesInContext(parse_notes(notes)), budget).text) <= budget


def test_a_missing_vocabulary_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toktok", None)
    with pytest.raises(SettingsError, match=r"toktok-rs: pip install 'honeybadger-host\[tokens\]'"):
        counter_of("o200k")


def test_a_host_counts_as_its_settings_say(tmp_path_factory: pytest.TempPathFactory) -> None:
    use_counter(len)
    home = tmp_path_factory.mktemp("home")
    make_home(home)
    build(home, Settings()).close()
    assert estimate_tokens("four") == 1
