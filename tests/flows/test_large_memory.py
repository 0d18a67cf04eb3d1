"""A MEMORY.md over the limit: the newest notes of each author stay in the context, and search finds all of them."""

from functools import partial

import pytest

from honeybadger_agent.wire import SearchResult
from tests.conftest import MakeClient
from tests.hosting import RawSender, wait_for
from tests.people import newest_edit

NOTES = 40


@pytest.mark.timeout(240)
def test_a_sender_of_large_notes_takes_nobodys_memory_away(member: MakeClient, asker: RawSender) -> None:
    member("ann").update_memory("The queen is marked blue")
    asker.memory.write_text("# Kept by hand\nmilk\n" + asker.memory_text())
    newest_edit(asker.home, "MEMORY.md")
    bot = member("bot")
    for number in range(NOTES):
        bot.update_memory(f"finding{number} " + "lorem ipsum dolor " * 1800)
    bot.update_memory("The very last finding")
    assert asker.memory.stat().st_size > 1_048_576

    context = member("ann").get_context("What now?")
    for text in ("The queen is marked blue", "milk", "The very last finding"):
        assert text in context.system
    (row,) = [row for row in context.sections if row.source.endswith("/MEMORY.md")]
    assert row.state == "cut"

    files = member("ann").read_group_files()
    assert "The queen is marked blue" in (files.memory or "")
    assert [problem.file for problem in files.problems] == ["MEMORY.md"]

    for word in ("finding0", f"finding{NOTES - 1}", "queen", "milk"):
        wait_for(partial(_found, member, word), 60, what=word)


def _found(member: MakeClient, word: str) -> SearchResult | None:
    found = member("ann").search_memory(word, scope="notes")
    return found if found.is_complete and found.hits else None
