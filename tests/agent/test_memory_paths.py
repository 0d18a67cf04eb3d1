"""The paths of the memory tool: what they stand for, and that none leads out."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent.errors import CommandFailed
from honeybadger_agent.integrations.memory_paths import parse_path, shown_name
from honeybadger_agent.wire import CATEGORY, is_name


def code(path: object) -> str:
    with pytest.raises(CommandFailed) as caught:
        parse_path(path)
    assert str(caught.value).isprintable()
    return caught.value.code


@pytest.mark.parametrize(
    ("path", "category", "name"),
    [
        ("/memories/notes.md", "general", "notes.md"),
        ("/memories/a/b-c/D_1/Größe 2.md", "a/b-c/D_1", "Größe 2.md"),
        ("/memories//a/./x", "a", "x"),
        ("/memories/a/x/", "a", "x"),
        ("/memories/...", "general", "..."),
        ("/memories/a..b", "general", "a..b"),
        ("/memories/100%.md", "general", "100%.md"),
        ("/memories/50%2fx", "general", "50%2fx"),
        ("/memories/Gro\u0308ße", "general", "Gr\u00f6ße"),
    ],
)
def test_a_path_is_a_category_and_a_name(path: str, category: str, name: str) -> None:
    parsed = parse_path(path)
    assert (parsed.category, parsed.name) == (category, name)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "notes.md",
        "/etc/passwd",
        "/memoriesX/a",
        "/Memories/a",
        "memories/a",
        "\\memories\\a",
        "file:///memories/a",
        "/memories/..",
        "/memories/../etc/passwd",
        "/memories/a/../b",
        "/memories/a/../../etc",
        "/memories/%2e%2e/x",
        "/memories/%2E./x",
        "/memories/%252e%252e%252fx",
        "/memories/..%2f..%2fx",
        "/memories/..\\x",
        "/memories/a\\..\\..\\x",
        "/memories/..%5cx",
        "/memories/\u2025/x",
        "/memories/\uff0e\uff0e/x",
        "/memories/\uff0e\uff0e\uff0fx",
        "/memories/\u2024\u2024/x",
        "../memories/x",
    ],
)
def test_what_leads_out_is_forbidden(path: str) -> None:
    assert code(path) == "forbidden"


@pytest.mark.parametrize(
    "path",
    [
        None,
        5,
        ["/memories"],
        "/memories/a\0",
        "/memories/a\nb",
        "/memories/a\x1b[2J",
        "/memories/a\u202eb",
        "/memories/a\\b",
        "/memories/ a",
        "/memories/a /b",
        "/memories/" + "x" * 129,
        "/memories" + "/x" * 600,
        "/memories/\ud800",
    ],
)
def test_what_is_no_name_is_invalid(path: object) -> None:
    assert code(path) == "invalid"


@pytest.mark.parametrize("path", ["/memories/a.b/x", "/memories/ä/x", "/memories/a b/x", "/memories" + "/a" * 9 + "/x"])
def test_folders_are_categories_or_none(path: str) -> None:
    assert parse_path(path).category is None


ALPHABET = "./\\%2ef5cE~ a\0\n\u2025\uff0e\uff0f\u202e" + string.ascii_letters


@given(st.lists(st.text(ALPHABET, max_size=6), max_size=6))
def test_whatever_a_model_writes_is_names_below_the_root_or_refused(parts: list[str]) -> None:
    try:
        path = parse_path("/".join(("/memories", *parts)))
    except CommandFailed:
        return
    assert all(is_name(part) and part not in (".", "..") for part in path.parts)
    assert str(path) == "/".join(("/memories", *path.parts))
    if path.parts:
        assert path.category is None or CATEGORY.fullmatch(path.category)
        assert parse_path(str(path)).parts == path.parts


def test_an_entry_without_a_name_is_shown_by_its_first_words_and_its_id() -> None:
    assert shown_name("k3v9x2m4q7p1", None, "User prefers dark mode, for all UIs of the house") == (
        "user-prefers-dark-mode-for-all-uis-of.k3v9x2m4q7p1"
    )
    assert shown_name("mine", "Größe/../x", "other") == "größe-x.mine"
    assert shown_name("mine", None, "!?") == "mine"
    assert shown_name("mine", None, "x" * 50) == "mine"
