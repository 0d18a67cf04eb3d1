"""Enrichment: what an agent saves gets focused entries beside it, by a model and gates (RB8)."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import HostFactory
from tests.flows.test_dream import Memory, answering
from tests.flows.world import script
from tests.hosting import PATIENCE, run_cli, status_of, wait_for

TEXT = (
    "The flat in Elm Road costs 950 EUR a month, to Mr Glanz. The heating is gas and is serviced every October by the "
    "firm Silva. The parking space number 14 belongs to it. The cellar is shared with the neighbours Ott."
)
FACTS = (
    {"content": "The flat in Elm Road costs 950 EUR a month, to Mr Glanz.", "title": "Rent"},
    {"content": "The heating is gas and is serviced every October by the firm Silva.", "category": "home/heating"},
)
SOON: dict[str, object] = {"curation.runner.LOOK_SECONDS": 0.02, "curation.jobs.FIRST_PAUSE_SECONDS": 0.2}


@pytest.fixture
def memory(home: Path) -> Memory:
    return Memory(home)


def proposing(home: Path, *facts: Mapping[str, Any], **more: Any) -> dict[str, object]:
    return {**SOON, **answering(home, json.dumps({"entries": facts}), **more)}


def noted(home: Path) -> list[str]:
    """Return the ids of what was begun, or is to be looked at, in the journal."""
    with contextlib.closing(sqlite3.connect(home / "data/journal.db")) as journal:
        return [row[0] for row in journal.execute("SELECT request FROM turns")]


def test_the_facts_of_a_saved_text_become_entries_beside_it_and_can_be_taken_back(
    make_host: HostFactory, home: Path, memory: Memory
) -> None:
    host = make_host(proposing(home, *FACTS)).start()
    whole = memory.save(TEXT, "home", tags=["flat"])
    saved = memory.entries()[whole]
    (done,) = wait_for(lambda: host.events("enrichment.finished"))
    assert (done["applied"], done["waiting"], done["refused"]) == (2, 0, 0)
    entries = memory.entries()
    assert entries.pop(whole) == saved
    told = {each["content"]: each for each in entries.values()}
    assert told.keys() == {fact["content"] for fact in FACTS}
    rent, heating = (told[fact["content"]] for fact in FACTS)
    assert (rent["category"], rent["title"], rent["tags"]) == ("home", "Rent", ["flat"])
    assert heating["category"] == "home/heating"
    assert {each["metadata"]["part_of"] for each in told.values()} == {whole}
    assert {each["by"] for each in told.values()} == {"consolidator"}
    wait_for(
        lambda: (
            status_of(memory.home)["curation"]["spent_today"]
            == [{"group": "main", "kind": "enrichment", "tokens": 780}]
        )
    )
    (proposal,) = memory.review("list", "main", "--all")["proposals"]
    assert proposal["kind"] == "enrichment"
    assert memory.review("revert", "main", proposal["id"])["applied"] == 0
    assert memory.entries() == {whole: saved}


@pytest.mark.parametrize("model", ["rules", "a model"])
def test_a_text_that_is_forgotten_takes_with_it_what_was_taken_from_it(
    make_host: HostFactory, home: Path, memory: Memory, model: str
) -> None:
    host = make_host(SOON if model == "rules" else proposing(home, *FACTS)).start()
    other = memory.save("Mr Glanz has a dog.")
    whole = memory.save(TEXT, "home")
    wait_for(lambda: host.events("enrichment.finished"))
    assert len(memory.entries()) > 3
    (home / "curation.json").unlink(missing_ok=True)  # what the model was told to say
    done = run_cli("forget", "main", "--id", whole, home=home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert memory.entries().keys() == {other}
    told = [path for path, data in memory.state().items() if b"Elm Road" in data or b"firm Silva" in data]
    assert told == []


def test_a_fact_that_the_text_does_not_say_is_refused_and_one_that_stands_is_not_written_twice(
    make_host: HostFactory, home: Path, memory: Memory
) -> None:
    rent = "The flat in Elm Road costs 950 EUR a month, to Mr Glanz."
    facts = ({"content": rent}, {"content": "The flat costs 990 EUR."}, {"content": "The heating is not gas."})
    host = make_host(proposing(home, *facts)).start()
    standing = memory.save(rent, "home")
    whole = memory.save(TEXT, "home")
    (done,) = wait_for(lambda: host.events("enrichment.finished"))
    assert (done["applied"], done["refused"]) == (0, 3)
    assert memory.entries().keys() == {standing, whole}
    failed = [[each["gate"] for each in one["gates"]["failed"]] for one in memory.proposals()[0]["operations"]]
    assert failed[0] == ["no_change"]
    assert "specifics_invented" in failed[1]
    assert "meaning_flipped" in failed[2]


@pytest.mark.parametrize("answer", ['{"entries": []}', '{"entries": [{"content": 7}]}'])
def test_an_answer_without_entries_leaves_what_was_saved_and_is_not_asked_for_again(
    make_host: HostFactory, home: Path, memory: Memory, answer: str
) -> None:
    host = make_host({**SOON, **answering(home, answer)}).start()
    memory.save(TEXT)
    wait_for(lambda: status_of(memory.home)["curation"]["tokens_today"] == 780)
    wait_for(lambda: not status_of(memory.home)["curation"]["running"])
    saved = memory.state()
    host.restart()
    memory.save("Short. And. Sweet.")
    other = memory.save(f"{TEXT} The garden has 40 roses.")
    wait_for(lambda: status_of(memory.home)["curation"]["tokens_today"] == 2 * 780)
    assert {name: memory.state()[name] for name in saved} == saved
    assert memory.proposals() == []
    assert other in memory.entries()


def test_without_a_model_rules_take_the_sentences_that_stand_by_themselves_and_say_that_they_did(
    make_host: HostFactory, home: Path, memory: Memory
) -> None:
    host = make_host(SOON).start()
    gas = memory.save("Gas is cheap in May.", "home/heating")
    whole = memory.save(TEXT, "home", tags=["flat"])
    before = memory.entries()
    (done,) = wait_for(lambda: host.events("enrichment.finished"))
    assert (done["applied"], done["waiting"], done["refused"], done["by"], done["tokens"]) == (3, 0, 0, "rules", 0)
    entries = memory.entries()
    assert {entries.pop(name)["content"] for name in (gas, whole)} == {before[gas]["content"], TEXT}
    told = {each["content"]: each for each in entries.values()}
    sentences = [f"{sentence}." for sentence in TEXT.removesuffix(".").split(". ")]
    assert told.keys() == {*sentences} - {"The parking space number 14 belongs to it."}
    assert {each["category"] for each in told.values()} == {"home"}
    for each in told.values():
        assert (each["metadata"]["part_of"], each["metadata"]["extracted_by"]) == (whole, "rules")
        assert (each["by"], each["tags"], each.get("title")) == ("consolidator", ["flat"], None)
    wait_for(lambda: status_of(memory.home)["curation"].get("by") == "rules")
    (proposal,) = memory.review("list", "main", "--all")["proposals"]
    assert memory.review("revert", "main", proposal["id"])["applied"] == 0
    assert memory.entries().keys() == {gas, whole}
    memory.save("All of this is over:\n" + TEXT.replace(". ", ".\n"))  # in pieces it would lose its sense
    host.restart()
    memory.dream("--dry-run")  # it is a job of the same group
    assert len(memory.entries()) == 3
    assert len(host.events("enrichment.finished")) == 1


def test_a_kill_forgets_no_text_that_rules_are_to_look_at(make_host: HostFactory, home: Path, memory: Memory) -> None:
    says = {"answers": [{"text": "Yes."}]}
    slow = {**script(home, says, delay_seconds=10 * PATIENCE), "model.curation": "offline"}
    host = make_host(SOON | slow).start()
    memory.bee.say("a1", "Is it so?")  # what is done in the background waits for that
    wait_for(lambda: noted(home))
    names = {memory.save(f"{TEXT} The garden {number} is Silva's.") for number in range(3)}
    wait_for(lambda: {f"enrichment-{name}" for name in names} <= {*noted(home)})
    host.kill()
    assert memory.entries().keys() == names
    script(home, says)
    host.start()
    wait_for(lambda: len(memory.proposals()) == 3)
    told = [each for each in memory.entries().values() if each["id"] not in names]
    assert sorted(each["content"] for each in told) == sorted({each["content"] for each in told})
    assert len(told) == 3 + 3


def test_nobody_pays_for_a_model_to_read_imported_entries(
    make_host: HostFactory, home: Path, memory: Memory, tmp_path: Path
) -> None:
    host = make_host(proposing(home, *FACTS)).start()
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/flat.md").write_text(TEXT)
    assert run_cli("import", "main", tmp_path / "vault", "--from", "markdown", home=home).returncode == 0
    (imported,) = memory.entries()
    whole = memory.save(f"{TEXT} The garden has 40 roses.", "home")
    wait_for(lambda: host.events("enrichment.finished"))
    host.stop()
    assert [each["id"] for each in memory.proposals()] == [f"enrichment-{whole}"]
    assert imported in memory.entries()
    assert noted(home) == []


def test_switched_off_an_entry_stays_alone(make_host: HostFactory, home: Path, memory: Memory) -> None:
    make_host(proposing(home, *FACTS) | {"curation.enrichment": False}).start()
    memory.save(TEXT)
    memory.dream("--dry-run")  # it is a job of the same group
    assert len(memory.entries()) == 1
    assert "enrichment" not in json.dumps(status_of(memory.home)["curation"])


def test_a_kill_before_the_answer_forgets_no_entry_and_writes_none_twice(
    make_host: HostFactory, home: Path, memory: Memory
) -> None:
    host = make_host(proposing(home, *FACTS, delay_seconds=10 * PATIENCE)).start()
    whole = memory.save(TEXT, "home")
    wait_for(lambda: status_of(memory.home)["curation"]["tokens_today"] > 0)
    host.kill()
    assert memory.entries().keys() == {whole}
    proposing(home, *FACTS)
    host.start()
    wait_for(lambda: len(memory.proposals()) == 1)
    wait_for(lambda: len(memory.entries()) == 3)
    host.restart()
    memory.dream("--dry-run")
    assert len(memory.entries()) == 3
    assert len(memory.proposals()) == 1
