"""The search in working memory: as elsewhere, over the entries of one session (RB6)."""

from __future__ import annotations

from honeybadger_host.search.working_search import find, preview
from honeybadger_host.text.labels import is_below
from tests.host.memory.test_working_memory import NOW, entry

PAGES = [
    entry(
        "page-1", "The badger digs a sett. Badgers are omnivores; a badger eats worms.", "web-content/animals", "Zoo"
    ),
    entry(
        "page-2", "Otters swim. One badger is mentioned here among many other words that say nothing.", "web-content"
    ),
    entry("draft_email", "Dear Ann, see you at noon.", "website"),
]


def found(query: str, category: str | None = None, *tags: str) -> list[str]:
    return [hit.key for hit, _ in find(PAGES, query, category, tags, now=NOW)]


def test_the_entry_that_says_most_of_it_comes_first() -> None:
    assert found("badger") == ["page-1", "page-2"]
    assert found("Which badgers swim?") == ["page-2", "page-1"]
    assert found("giraffe") == []


def test_a_word_is_found_in_any_spelling() -> None:
    assert found("BADGER") == found("badgers")
    entries = [entry("k", "\u660e\u5929\u6709\u96e8"), entry("l", "\u4eca\u5929\u6709\u96ea")]
    assert [hit.key for hit, _ in find(entries, "\u660e\u5929", now=NOW)] == ["k"]
    assert preview(entries[0], "\u6709\u96e8") == "\u660e\u5929\u6709\u96e8"


def test_an_entry_is_found_by_key_tags_and_category() -> None:
    assert found("email") == ["draft_email"]
    assert found("zoo") == ["page-1"]
    assert found("animals") == ["page-1"]


def test_filters_need_the_category_and_all_tags() -> None:
    assert found("badger noon", "web-content") == ["page-1", "page-2"]
    assert found("noon", "web") == []
    assert found("badger", "web-content/animals") == ["page-1"]
    assert found("badger", None, "zoo") == ["page-1"]
    assert found("badger", None, "zoo", "other") == []
    assert is_below("A/B", "a")
    assert not is_below(None, "a")


def test_a_preview_shows_the_place_on_one_line() -> None:
    long = entry("k", "x\n" * 500 + "the badger\nis here" + " y" * 500)
    assert "the badger is here y" in preview(long, "Badger")
    assert len(preview(long, "badger")) <= 200
    assert preview(entry("k", "short"), "?") == "short"
