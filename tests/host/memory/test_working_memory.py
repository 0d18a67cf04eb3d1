"""Working memory without the world: names of files, expiry, the inventory, search (RB6)."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from honeybadger_host.memory.working_memory import (
    WorkingEntry,
    cut_inventory,
    dump_working,
    file_name,
    inventory,
    inventory_line,
    parse_own,
    session_folder,
    working_file,
)
from honeybadger_host.text.neutralise import estimate_tokens

NOW = datetime(2026, 11, 21, 6, 5, 59, 123000, tzinfo=UTC)
FIVE = timedelta(minutes=5)


def entry(
    key: str, data: str = "x", category: str | None = None, *tags: str, ttl: timedelta = FIVE, session: str = "main"
) -> WorkingEntry:
    return WorkingEntry(
        key=key,
        session=session,
        category=category,
        tags=tags,
        stored_at=NOW,
        expires_at=NOW + ttl,
        by="researcher",
        request="r1",
        data=data,
    )


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)
alike = st.text("aAbB.%~/é\u00c9\\: \x00", min_size=1, max_size=100)


@given(st.lists(names | alike, min_size=2, max_size=6, unique=True))
@example(["a", "A"])
@example(["a/b", "a%2fb"])
@example(["é", "e\u0301"])
@example(["x" * 100, "X" * 100])
@example(["ÄÖ" * 50, "ÄÖ" * 49 + "ÄÜ"])
def test_no_two_names_share_a_file(given_names: list[str]) -> None:
    files = [file_name(name) for name in given_names]
    assert len({file.casefold() for file in files}) == len(files)


sessions = st.text("abAB.:_-", min_size=1, max_size=4)


@given(sessions, sessions, names, names)
@example("a", "ab", "b", "b")
@example("a", "A", "k", "k")
@example("a", "..", "k", "k")
def test_no_two_sessions_share_a_file(one: str, other: str, key: str, other_key: str) -> None:
    file = working_file("main", one, key)
    assert file.startswith(f"{session_folder('main', one)}/")
    if one != other:
        assert not file.startswith(f"{session_folder('main', other)}/")
        assert working_file("main", other, other_key) != file
    assert "/../" not in file


@given(names, names, st.none() | names, st.lists(names, max_size=3), st.integers(1, 10**9))
def test_what_is_written_is_read_again(
    key: str, data: str, category: str | None, tags: list[str], milliseconds: int
) -> None:
    written = entry(key, data, category, *tags, ttl=timedelta(milliseconds=milliseconds), session="a")
    file = working_file("main", "a", key)
    assert parse_own(dump_working(written), "main", "a", file) == written
    with pytest.raises(ValueError, match="another key or session"):
        parse_own(dump_working(written), "main", "ab", file)


@given(st.integers(1, 10**6), st.integers(-(10**7), 10**7))
def test_a_clock_set_back_at_most_doubles_a_life(ttl: int, later: int) -> None:
    short = entry("a", ttl=timedelta(seconds=ttl))
    now = NOW + timedelta(seconds=later)
    assert short.remaining(now) <= timedelta(seconds=ttl)
    if short.is_expired(now):
        assert later >= ttl or later < -ttl
    else:
        assert -ttl <= later < ttl


def test_the_inventory_is_the_seeds_line_for_line() -> None:
    """Source: RB6, its example; there is no line for what has expired."""
    page = entry("chunked-page-1", "x", "web-content", "github", "rockbot", ttl=timedelta(minutes=4, seconds=32.9))
    draft = entry("draft-email", ttl=timedelta(minutes=2, seconds=1))
    lines = inventory([draft, entry("gone", ttl=timedelta(0)), page], NOW)
    assert "".join(lines) == (
        "- chunked-page-1: expires in 4m32s, category: web-content, tags: github, rockbot\n"
        "- draft-email: expires in 2m01s\n"
    )


@given(names, st.none() | names, st.lists(names, max_size=4))
@example("a\n## Forged", "b\u2028- c", ["\r\n", "# x"])
@example("# Heading", None, [])
@example("#", None, [])
@example("<!-- hidden", None, [])
def test_any_name_is_one_line_of_the_inventory(key: str, category: str | None, tags: list[str]) -> None:
    line = inventory_line(entry(key, "x", category, *tags), NOW)
    assert line.startswith("- ")
    assert len(line.splitlines()) == 1
    assert re.match(r"- #{1,6}[ \t]", line) is None  # `#:` is not a heading, nor is one before a no-break space
    assert "\\<!--" in line or "<!--" not in line
    assert ": expires in 5m00s" in line


lines_strategy = st.lists(st.integers(1, 200).map(lambda size: f"- {'x' * size}\n"), min_size=1, max_size=50)


@given(lines_strategy, st.integers(0, 1500))
def test_a_cut_inventory_says_how_many_are_left_out(lines: list[str], share: int) -> None:
    text, left_out = cut_inventory(lines, share)
    if not text:
        assert left_out == len(lines)
        return
    assert estimate_tokens(text) <= share
    *kept, mark = text.splitlines(keepends=True)
    assert mark == f"[... {left_out} more, see list_working_memory]\n"
    assert kept == lines[: len(lines) - left_out]
