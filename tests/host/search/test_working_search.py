"""The search in working memory: as elsewhere, over the entries of one session (RB6)."""

from honeybadger_host.search.working_search import find, preview
from honeybadger_host.text.labels import is_below
from tests.host.memory.test_working_memory import NOW, entry

PAGES = [
    entry("page-1", "The badger digs a sett. A badger eats worms.", "web-content/animals", "Zoo"),
    entry(
        "page-2", "Otters swim. One badger is mentioned here among many other words that say nothing.", "web-content"
    ),
    entry("draft_email", "Dear Ann, see you at noon.", "website"),
]


def test_an_entry_is_found_by_all_that_names_it() -> None:
    for query, category, tags, keys in (
        ("BADGER", None, (), ["page-1", "page-2"]),
        ("Which badgers swim?", None, (), ["page-2", "page-1"]),
        ("email", None, (), ["draft_email"]),
        ("animals", None, (), ["page-1"]),
        ("badger noon", "web-content", (), ["page-1", "page-2"]),
        ("noon", "web", (), []),
        ("badger", None, ("zoo",), ["page-1"]),
        ("badger", None, ("zoo", "other"), []),
    ):
        assert [hit.key for hit, _ in find(PAGES, query, category, tags, now=NOW)] == keys, (query, category, tags)
    assert is_below("A/B", "a")
    assert not is_below(None, "a")


def test_a_preview_shows_the_place_on_one_line() -> None:
    long = entry("k", "x\n" * 500 + "the badger\nis here" + " y" * 500)
    assert "the badger is here y" in preview(long, "Badger")
    assert len(preview(long, "badger")) <= 200
    assert preview(entry("k", "short"), "?") == "short"
    assert preview(entry("k", "\u660e\u5929\u6709\u96e8"), "\u6709\u96e8") == "\u660e\u5929\u6709\u96e8"
