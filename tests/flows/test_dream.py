"""Dream passes: what rules fold, what a model proposes, and what is left alone (RB9)."""

import errno
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.commands import cli_json, cli_text
from tests.conftest import HostFactory
from tests.crash.story import read
from tests.flows.conftest import FaultFactory
from tests.hosting import RawSender, at_once, run_cli, wait_for

NOTHING = "there is nothing to do"
TEA = "Ann prefers green tea over coffee."


class Memory:
    """A group's memory, and the passes over it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.group = home / "groups/main"
        self.bee = RawSender(home, sender="bee").make()
        self.said = 0

    def ask(self, type_name: str, **payload: Any) -> Mapping[str, Any]:
        self.said += 1
        return self.bee.do(f"{type_name[:8]}-{self.said:03}", type_name, **payload)

    def save(self, content: str, category: str = "general", **more: Any) -> str:
        """Save an entry; return its id."""
        name: str = self.ask("save_memory", content=content, category=category, **more)["id"]
        return name

    def say(self, *texts: str) -> None:
        for text in texts:
            self.ask("append_turn", role="user", content=text)

    def entries(self, folder: str = "memory") -> dict[str, dict[str, Any]]:
        found = [json.loads(data) for path in (self.group / folder).rglob("*.json") if (data := read(path))]
        return {each["id"]: each for each in found}

    def proposals(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((self.group / "proposals").glob("*.json"))]

    def dream(self) -> dict[str, Any]:
        value: dict[str, Any] = cli_json("dream", "main", home=self.home)
        return value

    def review(self, *words: str) -> dict[str, Any]:
        value: dict[str, Any] = cli_json("review", *words, home=self.home)
        return value

    def state(self) -> dict[str, bytes]:
        """Return all files of the group, and the archive's."""
        return {str(path): path.read_bytes() for path in self.group.rglob("*") if path.is_file()}


@pytest.fixture
def memory(home: Path) -> Memory:
    return Memory(home)


def answering(home: Path, answer: object, **more: Any) -> dict[str, object]:
    """Write a script for the model that curates; return the settings of a host that plays it."""
    turn = {"answers": [{"text": json.dumps(answer), "input_tokens": 700, "output_tokens": 80}]}
    (home / "curation.json").write_text(json.dumps({"turns": [turn], "piece_characters": 100_000, **more}))
    return {"model.curation": "scripted:curation.json"}


def test_undoing_a_fold_restores_all_and_keeps_the_proposal(make_host: HostFactory, memory: Memory) -> None:
    host = make_host().start()
    for n in range(12):
        memory.save(TEA, f"drinks/{n}")
    before = memory.entries()
    told = cli_text("dream", "main", home=host.home)
    assert ("merge (applied)" in told, told.count(TEA)) == (True, 12)
    proposals = memory.proposals()
    assert len(memory.entries()) == 1
    log = cli_json("log", "main", home=host.home)
    assert "up to turn" not in cli_text("log", "main", "--kind", "watermark", home=host.home)
    seq = next(row["seq"] for row in log if row["kind"] == "entry_removed")
    assert run_cli("undo", seq, home=host.home).stderr == ""
    assert (memory.entries(), memory.entries("archive/memory"), memory.proposals()) == (before, {}, proposals)
    assert (host.home / "data/consolidated/main.dream.json").exists()
    entry = next(row["seq"] for row in cli_json("log", "main", home=host.home))
    assert run_cli("undo", entry, home=host.home).stderr == ""
    assert len(memory.entries()) == 1


def test_without_a_model_equal_entries_become_one(make_host: HostFactory, memory: Memory) -> None:
    host = make_host().start()
    first = memory.save(TEA, "drinks", tags=["tea"], title="Tea")
    second = memory.save(TEA, "people/ann", tags=["ann"], title="What Ann drinks")
    other = memory.save("Ann prefers green tea over coffee, at 9:00.")
    before = memory.entries()
    done = memory.dream()
    (proposal,) = done["proposals"]
    assert (proposal["applied"], proposal["waiting"], proposal["by"]) == (1, 0, "rules")
    now = memory.entries()
    (merged,) = now.keys() - {first, second, other}
    assert now.keys() == {merged, other}
    assert now[merged]["content"] == TEA
    assert now[merged]["category"] == "drinks"
    assert now[merged]["created"] == before[first]["created"]
    assert now[merged]["tags"] == ["tea", "ann"]
    assert (now[merged]["title"], now[merged]["aliases"]) == ("Tea", ["What Ann drinks"])
    assert now[merged]["by"] == "bee"
    made_of = now[merged]["metadata"]["made_of"]
    assert [(each["id"], each["by"], each["category"]) for each in made_of] == [
        (first, "bee", "drinks"),
        (second, "bee", "people/ann"),
    ]
    assert [each["created"] for each in made_of] == [before[first]["created"], before[second]["created"]]
    assert memory.entries("archive/memory") == {first: before[first], second: before[second]}
    assert [each["id"] for each in memory.ask("search_memory", query="green tea coffee")["hits"]].count(merged) == 1
    assert host.events("dream.finished")[0]["applied"] == 1
    kept = memory.state()
    assert memory.dream()["told"] == NOTHING
    assert memory.state() == kept  # a pass without anything to do writes no proposal


def test_a_dream_is_taken_back_byte_for_byte(make_host: HostFactory, memory: Memory) -> None:
    make_host().start()
    memory.save(TEA, "drinks")
    memory.save(TEA, "people/ann")
    before = memory.state()
    (proposal,) = memory.dream()["proposals"]
    assert memory.review("revert", "main", proposal["id"])["applied"] == 0
    assert {name: data for name, data in memory.state().items() if "/memory/" in name and "/archive/" not in name} == {
        name: data for name, data in before.items() if "/memory/" in name
    }
    assert memory.entries("archive/memory") == {}
    assert memory.dream()["told"] == NOTHING  # what was taken back is not done again


RENT = "The rent of the flat is 950 EUR a month, to Mr Glanz."
ALWAYS = "Always in May: the rent of the flat, 950 EUR a month, is due to Mr Glanz."


def test_a_correction_becomes_an_anti_pattern_verbatim_once(make_host: HostFactory, home: Path, memory: Memory) -> None:
    make_host(answering(home, "")).start()
    said = "Schreib keine Mails in der Nacht, nimm den Postausgang."
    memory.ask("record_feedback", kind="correction", content=said)
    (number,) = [row["at"] for row in map(json.loads, (home / "data/feedback/main.jsonl").read_text().splitlines())]
    place = f"data:feedback#{int(datetime.fromisoformat(number).timestamp() * 1000)}"
    answering(home, {"anti_patterns": [{"take": place, "domain": "communication"}]})
    memory.dream()
    (entry,) = memory.entries().values()
    assert (entry["content"], entry["category"]) == (said, "anti-patterns/communication")
    assert (entry["tags"], entry["by"]) == (["anti-pattern"], "bee via consolidator")
    assert "there is nothing to do" in memory.dream()["told"]
    assert len(memory.entries()) == 1


def test_a_models_joins_and_refinements_are_taken_back(make_host: HostFactory, home: Path, memory: Memory) -> None:
    refine = {"of": "E3", "aliases": ["chat"], "tags": ["lie", "fish"]}
    make_host(answering(home, {"join": [["E1", "E2"]], "refine": [refine]})).start()
    first, second = memory.save(RENT, "home"), memory.save(ALWAYS, "money")
    cat = memory.save("The cat of Cora likes fish very much.")
    memory.save("The cat of Cora likes fish, and milk.", pinned=True)
    dog = memory.save("The dog of Cora likes fish very much.")
    before = memory.entries()
    (proposal,) = memory.dream()["proposals"]
    assert proposal["applied"] == 2, proposal["operations"]
    shown = cli_text("review", "show", "main", proposal["id"], home=home)
    assert "+aliases: chat" in shown
    assert not any(f"-{text}" in shown for text in (RENT, "The cat", "The dog"))
    now = memory.entries()
    (joined,) = now.keys() - before.keys()
    assert now[joined]["content"] == f"{RENT}\n{ALWAYS}"
    assert [each["id"] for each in now[joined]["metadata"]["made_of"]] == [first, second]
    refined = next(now[name] for name in (cat, dog) if now[name].get("aliases"))
    assert (refined["aliases"], refined["tags"]) == (["chat"], ["fish"])  # a tag that nobody has is not taken
    assert {*memory.entries("archive/memory")} == {first, second}
    assert memory.review("revert", "main", proposal["id"])["applied"] == 0
    assert (memory.entries(), memory.entries("archive/memory")) == (before, {})


def test_later_changes_stay_when_a_pass_is_reverted(make_host: HostFactory, home: Path, memory: Memory) -> None:
    refine = {"of": "E3", "aliases": ["chat"], "tags": ["fish"]}
    make_host(answering(home, {"join": [["E1", "E2"]], "refine": [refine]})).start()
    sources = {memory.save(RENT, "home"), memory.save(ALWAYS, "money")}
    cats = {memory.save("The cat of Cora likes fish very much."), memory.save("The cat of Cora likes fish, and milk.")}
    (proposal,) = memory.dream()["proposals"]
    assert proposal["applied"] == 2, proposal["operations"]
    now = memory.entries()
    refined = next(name for name in cats if now[name].get("aliases"))
    (joined,) = now.keys() - cats
    memory.ask("edit_memory", id=refined, content="The cat of Cora likes fish, and sleeps.", tags=["fish", "cora"])
    memory.ask("edit_memory", id=joined, content="The rent is 990 EUR.")
    reverted = memory.review("revert", "main", proposal["id"])
    assert {Path(file).stem for file in reverted["kept"]} == {joined, refined}
    now = memory.entries()
    assert now.keys() == {*sources, *cats, joined}
    assert now[joined]["content"] == "The rent is 990 EUR."
    assert now[refined]["content"] == "The cat of Cora likes fish, and sleeps."
    assert (now[refined].get("aliases"), now[refined]["tags"]) == (None, ["cora"])
    assert memory.entries("archive/memory") == {}


def test_retirements_and_unlike_joins_wait(make_host: HostFactory, home: Path, memory: Memory) -> None:
    make_host(answering(home, {"join": [["E1", "E3"]], "retire": [{"of": ["E2"], "said": ["main#1"]}]})).start()
    memory.say("Das gilt nicht mehr.")
    for text in (RENT, ALWAYS, "The cat of Cora likes fish.", "The cat of Cora likes fish too."):
        memory.save(text)
    before = memory.entries()
    (proposal,) = memory.dream()["proposals"]
    assert (proposal["applied"], proposal["waiting"]) == (0, 2)
    assert memory.entries() == before
    assert memory.dream()["proposals"] == []  # what waits is not proposed again
    shown = cli_text("review", "show", "main", proposal["id"], home=home)
    assert "waits: only a person retires" in shown
    assert f"\n    {RENT}\n" in shown  # a join that takes no line out
    assert "said in main#1 by bee: Das gilt nicht mehr." in shown or "said in main#1" in shown
    retire = next(each["n"] for each in proposal["operations"] if each["op"] == "retire")
    assert memory.review("accept", "main", proposal["id"], str(retire))["applied"] == 1
    left = memory.entries().keys()
    assert len(left) == 3
    assert memory.review("accept", "main", proposal["id"])["applied"] == 2
    (joined,) = memory.entries().keys() - left
    log = cli_json("log", "main", home=home)
    seq = next(row["seq"] for row in log if row["kind"] == "entry" and joined in row["file"])
    cli_text("undo", seq, home=home)
    assert memory.entries().keys() == left, "what was retired beside it stays so"


def test_two_dreams_at_once_run_one_after_the_other(make_host: HostFactory, memory: Memory) -> None:
    host = make_host().start()
    for number in range(8):
        memory.save(f"Fact number {number} of many.", "a")
        memory.save(f"Fact number {number} of many.", "b")
    assert sorted(len(each["proposals"]) for each in at_once(*[memory.dream] * 3)) == [0, 0, 1]
    assert len(memory.entries()) == 8
    assert len(memory.entries("archive/memory")) == 16
    assert len(host.events("dream.finished")) == 1


@pytest.mark.parametrize("full", ["journal.db", "groups/main/memory", "groups/main/archive"])
def test_a_full_disk_during_a_pass_loses_nothing(
    fault_of: FaultFactory, make_host: HostFactory, memory: Memory, full: str
) -> None:
    fault = fault_of("write,create", full, errno.ENOSPC)
    host = make_host({"spool.batch_writer.FULL_DISK_SECONDS": 0.3}, env=fault.env).start()
    saved = {memory.save(TEA, category) for category in ("a", "b", "c")}
    before = memory.state()
    fault.begin()
    done = run_cli("dream", "main", "--home", str(memory.home))
    assert "nothing was changed" in done.stderr
    assert memory.state() == before
    fault.end()
    assert memory.dream()["proposals"][0]["applied"] == 1
    (merged,) = memory.entries().values()
    assert (merged["content"], merged["category"]) == (TEA, "a")
    assert memory.entries("archive/memory").keys() == saved
    assert len(host.events("dream.finished")) == 1


def test_a_missed_dream_is_made_once_after_a_restart(make_host: HostFactory, home: Path, memory: Memory) -> None:
    host = make_host({"dream.schedule": "0 0 1 1 *"}).start()
    memory.dream()
    for category in ("a", "b"):
        memory.save(TEA, category)
    host.stop()
    mark = home / "data/consolidated/main.dream.json"
    dreamt = json.loads(mark.read_text())
    mark.write_text(json.dumps({**dreamt, "at": "2024-12-31T12:00:00.000Z"}))
    os.utime(mark, (0, 0))  # and the first of January came and went
    host.start()
    wait_for(lambda: len(memory.proposals()) == 1)
    assert len(memory.entries()) == 1
    wait_for(lambda: "2024" not in mark.read_text())
    host.restart()
    memory.save("Something new.")  # is for the next first of January
    cli_text("status", home=home)
    assert len(host.events("dream.finished")) == 1
    host.stop()
    said = "setting dream.schedule: cron line 'sometimes' cannot be read"
    for command in ("config", "run"):  # `run` may log before it comes to that
        refused = run_cli(command, "--set", "dream.schedule=sometimes", home=home)
        assert (refused.returncode, said in refused.stderr) == (3, True), refused


def preference(strength: str, *refs: str) -> dict[str, Any]:
    return {"take": [f"main#{ref}" for ref in refs], "strength": strength}


def inferring(home: Path, *preferences: Mapping[str, Any]) -> dict[str, object]:
    return answering(home, {"preferences": preferences})


SAID = (
    "Please write short answers.",
    "I like short answers, really.",
    "Again: short answers without lists!",
    "Pay my invoices with the blue card.",
)


def test_preferences_need_enough_quoted_turns_of_a_person(make_host: HostFactory, home: Path, memory: Memory) -> None:
    casual = preference("casual", "1.1", "2.1", "2.1")
    mild = preference("mild", "1.1", "3.1")
    strong = preference("strong", "4.1")
    invented = preference("strong", "9.1")
    host = make_host(inferring(home, casual, mild, strong, invented)).start()
    memory.say(*SAID)
    (proposal,) = memory.dream()["proposals"]
    assert (proposal["kind"], proposal["applied"], proposal["refused"]) == ("preferences", 2, 1), proposal
    found = {each["content"]: each for each in memory.entries().values()}
    short, card = f"{SAID[0]}\n{SAID[2]}", SAID[3]
    assert found.keys() == {short, card}
    for entry in found.values():
        assert (entry["category"], entry["tags"]) == ("user-preferences/inferred", ["inferred"])
        assert entry["metadata"]["source"] == "inferred"
    assert found[card]["metadata"]["requires_user_permission"] == "true"
    assert "requires_user_permission" not in found[short]["metadata"]
    (few,) = [each for each in memory.proposals()[0]["operations"] if each["state"] == "refused"]
    assert [each["what"] for each in few["gates"]["failed"]] == [
        "a casual preference needs 3 turns of one person; this one has 2"
    ]
    spent = json.loads((home / "data/consolidated/main.json").read_text())
    assert spent["proposal"] == proposal["id"]
    assert memory.dream()["told"] == "there is nothing to do"  # nothing was said since; no model is asked
    host.stop()
    # one more turn, and what was too little counts again
    make_host(inferring(home, preference("casual", "1.1", "2.1", "5.1"))).start()
    memory.say("As always, short answers.")
    memory.dream()
    again = "\n".join((*SAID[:2], "As always, short answers."))
    assert {each["content"] for each in memory.entries().values()} == found.keys() | {again}
    assert memory.review("revert", "main", proposal["id"])["applied"] == 0
    assert [each["content"] for each in memory.entries().values()] == [again]


def test_preferences_need_a_model_and_can_be_switched_off(make_host: HostFactory, home: Path, memory: Memory) -> None:
    host = make_host().start()
    memory.say(*SAID)
    assert memory.dream()["told"] == NOTHING
    host.stop()
    make_host(inferring(home) | {"dream.preferences": False}).start()
    assert memory.dream()["told"] == "there is nothing to do"
    assert not (home / "data/consolidated/main.json").exists()
