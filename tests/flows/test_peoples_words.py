"""Words that a person typed into an agent's note are shown as the person's, in a context and in a search."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from tests.commands import cli_text
from tests.hosting import AT_ONCE, HostProcess, RawSender, request, run_agent, wait_for
from tests.people import newest_edit, settle, wait_until_looked_at

SERVED_WITH = AT_ONCE
_NUMBERS = count()


@pytest.fixture
def stranger(asker: RawSender) -> RawSender:
    """A sender whose group has two notes."""
    stranger = RawSender(asker.home, asker.group).make()
    wait_until_looked_at(stranger.home)
    for number, text in enumerate(("likes tea\nwith milk", "likes cake")):
        asked = request(f"n{number}", payload={"content": text, "section": "Likes"})
        assert stranger.ask(f"n{number}", asked)["ok"]
    settle(stranger.home)
    return stranger


def typed(stranger: RawSender, before: str, after: str) -> None:
    text = stranger.memory_text()
    assert before in text
    stranger.memory.write_text(text.replace(before, after))


def context(stranger: RawSender, **payload: Any) -> dict[str, Any]:
    return stranger.do(f"c{next(_NUMBERS)}", "get_context", **payload)


def heading_above(system: str, words: str) -> str:
    """Return the heading under which a context shows some words."""
    above, found, _ = system.partition(words)
    assert found, system
    return [line for line in above.splitlines() if line.startswith("## ")][-1]


def wait_until_shown(stranger: RawSender, words: str) -> None:
    """Wait until a context shows some words as a person's."""
    wait_for(lambda: "(human" in heading_above(context(stranger)["system"], words), what="the edit is known")


def hits(stranger: RawSender, words: str) -> list[Mapping[str, Any]]:
    """Return what `honeybadger-agent recall` finds of notes."""
    as_reader = ("--group", stranger.group, "--sender", "reader")
    found = run_agent("recall", words, "--scope", "notes", "--json", *as_reader, home=stranger.home)
    assert found.returncode == 0, found.stderr
    told: list[Mapping[str, Any]] = json.loads(found.stdout)["hits"]
    return told


def test_lines_below_a_note_are_the_persons_at_once(stranger: RawSender) -> None:
    typed(stranger, "- likes cake\n", "- likes cake\nOnly on Sundays,\n\nsays the baker.\n")
    system = context(stranger)["system"]
    assert heading_above(system, "likes cake").startswith("## Likes (stranger")
    assert heading_above(system, "Only on Sundays,").startswith("## Likes (human")
    assert heading_above(system, "says the baker.").startswith("## Likes (human")
    found = wait_for(lambda: hits(stranger, "Sundays baker"), what="the line is found")
    assert [(hit["author"], hit["text"]) for hit in found] == [("human", "Only on Sundays,\n\nsays the baker.")]
    (cake,) = hits(stranger, "cake")
    assert (cake["author"], cake["text"]) == ("stranger", "- likes cake")


def test_a_reworded_note_is_the_persons_with_its_time(stranger: RawSender) -> None:
    typed(stranger, "  with milk\n", "  with much honey\n")
    edit = newest_edit(stranger.home, f"groups/{stranger.group}/MEMORY.md")
    at = f"{datetime.fromtimestamp(edit.at / 1000, UTC):%Y-%m-%d %H:%M}"
    wait_until_shown(stranger, "with much honey")
    system = context(stranger)["system"]
    assert heading_above(system, "with much honey") == f"## Likes (human, {at})"
    assert heading_above(system, "likes tea") == f"## Likes (human, {at})"
    assert heading_above(system, "likes cake").startswith("## Likes (stranger")
    (honey,) = wait_for(lambda: hits(stranger, "honey"), what="the words are found")
    assert (honey["author"], honey["time"]) == ("human", f"{at.replace(' ', 'T')}:00Z")
    opened = stranger.do("opened", "get_memory", id=honey["id"])
    assert (opened["by"], opened["edited_by"], opened["updated"]) == ("stranger", "human", honey["time"])
    (cake,) = hits(stranger, "cake")
    opened = stranger.do("opened-cake", "get_memory", id=cake["id"])
    assert (opened["by"], opened.get("edited_by"), opened["updated"]) == ("stranger", None, None)


def test_a_reworded_entry_says_who_reworded_it(stranger: RawSender) -> None:
    saved = stranger.do("e", "save_memory", content="likes plum cake")
    path = stranger.home / "groups" / stranger.group / saved["file"]
    path.write_bytes(path.read_bytes().replace(b"plum", b"pear"))
    newest_edit(stranger.home, f"groups/{stranger.group}/{saved['file']}")
    opened = stranger.do("opened", "get_memory", id=saved["id"])
    assert (opened["by"], opened["edited_by"], opened["content"]) == ("stranger", "human", "likes pear cake")
    stranger.do("again", "edit_memory", id=saved["id"], content="likes apple cake")
    opened = stranger.do("opened-again", "get_memory", id=saved["id"])
    assert (opened["by"], opened.get("edited_by"), opened["content"]) == ("stranger", None, "likes apple cake")
    operator = RawSender(stranger.home, stranger.group, "operator").make()
    operator.do("tags", "edit_memory", id=saved["id"], tags=["cake"])
    assert stranger.do("tagged", "get_memory", id=saved["id"]).get("edited_by") is None
    operator.do("words", "edit_memory", id=saved["id"], content="likes quince cake")
    opened = stranger.do("opened-words", "get_memory", id=saved["id"])
    assert (opened["by"], opened["edited_by"]) == ("stranger", "operator")
    assert [hit["author"] for hit in stranger.do("found", "search_memory", query="quince")["hits"]] == ["operator"]


def test_text_typed_without_a_host_is_the_persons(served: HostProcess, stranger: RawSender) -> None:
    served.stop()
    typed(stranger, "- likes cake\n", "- likes pepper cake\nBelow it.\n")
    served.start()
    newest_edit(stranger.home, f"groups/{stranger.group}/MEMORY.md")
    wait_until_shown(stranger, "likes pepper cake")
    assert "human" in heading_above(context(stranger)["system"], "Below it.")
    (cake,) = wait_for(lambda: hits(stranger, "pepper"), what="the words are found")
    assert cake["author"] == "human"


def test_notes_in_another_encoding_are_served_and_found(stranger: RawSender) -> None:
    typed(stranger, "- likes cake\n", "- likes cake\nAt Müller's.\n")
    newest_edit(stranger.home, f"groups/{stranger.group}/MEMORY.md")
    other = stranger.memory_text().encode("latin-1")
    stranger.memory.write_bytes(other)
    told = f"cannot be read: its last good version, if any, is served: groups/{stranger.group}/MEMORY.md"
    wait_for(lambda: told in cli_text("status", home=stranger.home), what="the file is named")
    (problem,) = stranger.do("read", "read_group_files")["problems"]
    assert "save it as UTF-8; its last good version is shown" in problem["message"]
    stranger.do("more", content="likes plum jam")
    made = context(stranger)
    (part,) = (part for part in made["sections"] if part["title"] == "## Remembered Facts")
    assert ("At Müller's." in made["system"], "likes plum jam" in made["system"]) == (True, True)
    assert part["why"] == problem["message"]
    wait_for(lambda: hits(stranger, "plum jam"), what="the new note is found")
    assert [hit["author"] for hit in hits(stranger, "Müller's")] == ["human"]
    assert stranger.memory.read_bytes() == other
    stranger.memory.write_text(other.decode("latin-1"))
    wait_for(lambda: "likes plum jam" in stranger.memory_text(), what="the note is written")
    assert "At Müller's." in stranger.memory_text()
