"""The snapshot that a pass works on: the newest entries, what is protected, and how many were taken out."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from honeybadger_agent.mailbox import SCHEDULER
from honeybadger_host.curation.candidates import alike
from honeybadger_host.curation.dreams import DueDreams, folds
from honeybadger_host.curation.passes import PassDependencies, standing, take
from honeybadger_host.curation.proposal import Operation
from honeybadger_host.memory.entries.entry import Entry, dump_entry, entry_file, entry_id
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.turn_log_store import Watermark, dreamt_file, dump_watermark
from honeybadger_host.text.labels import folded
from honeybadger_host.text.turn import Turn
from honeybadger_host.work.times import Cron

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


def write(home: Path, stem: str, content: str, **more: Any) -> Path:
    members: dict[str, Any] = {"created": NOW, "by": "bee", **more}
    entry = Entry(stem, members.pop("category", "general"), content, **members)
    path = home / entry_file("main", entry.category, stem)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dump_entry(entry))
    return path


def test_written_pinned_and_named_texts_are_protected(uses: PassDependencies) -> None:
    write(uses.home, "mine", "x", by=None)
    write(uses.home, "edited", "x", by="human")
    write(uses.home, "pinned", "x", pinned=True)
    write(uses.home, "document", "x", name="plan.md")
    write(uses.home, "free", "x", reinforced=9)
    memory = "Ours.\n\n## Own\n- Mine.\n\n## Notes (bee, 2026-11-01 09:00)\n- Free.\n"
    memory += "\n## Notes (bee, 2026-11-01 09:01)\n- Kept. (pinned)\n\n## Notes (human, 2026-11-01 09:02)\n- Said.\n"
    (uses.home / "groups/main/MEMORY.md").write_text(memory)
    snapshot = take(uses, "main")
    free = [text for name, text in snapshot.texts.items() if name not in snapshot.protected]
    assert free == ["x", "Free."]
    assert {each.partition(" ")[0] for each in snapshot.protected.values()} == {"a", "it"}
    assert len(snapshot.texts) == 9


def test_a_pass_reads_a_thousand_entries_and_says_so(uses: PassDependencies) -> None:
    names = ["Ann", "Bob", "Carla", "Dieter", "Eve"]
    for number in range(1100):
        person, day = names[number % 5], number % 27 + 1
        text = f"{person} paid {number // 2 * 7} EUR to firm number {number // 3} for the move on {day} March 2026."
        write(uses.home, f"e{number:04}", text if number % 10 else "The same again.", category=f"c{number % 4}")
    snapshot = take(uses, "main")
    assert (len(snapshot.texts), snapshot.left_out) == (1000, 100)
    assert len(folds(snapshot)[0].sources) > 90


@pytest.mark.parametrize("text", ["It is free.", 'She said "yes".\nÜber all: C:\\x'])
def test_an_entry_with_the_text_of_an_operation_is_found(uses: PassDependencies, text: str) -> None:
    name = entry_id("general", folded(text))
    write(uses.home, name, text)
    asked = [Operation(n=1, op="add", result=said, category="general") for said in (text, f"{text} No.")]
    assert standing(uses.home, "main", asked) == {name: text}


def test_what_agents_and_tasks_say_is_not_a_persons(uses: PassDependencies) -> None:
    def said(by: str) -> Turn:
        return Turn(1, NOW, "user", by, by, "I like tea.", 3)

    assert [uses.is_person(said(by)) for by in ("ann", "bee", SCHEDULER)] == [True, False, False]


def items(*texts: str) -> dict[str, str]:
    return {f"e{n}": text for n, text in enumerate(texts)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User prefers dark mode in the editor.", "The user prefers dark mode in the editor!"),
        ("Der Hund von Anna heißt Bello.", "Bello heißt der Hund, ein Dackel."),
        ("家賃は二万円です。駅の近く。", "家賃は2万円です。駅の近くです。"),
        ("Le loyer est de 950 euros.", "Depuis mai, le loyer est de 990 euros par mois."),
        ("预算是四千欧元。", "第一组的预算是五千欧元。"),
        ("Ann moved to Graz.", "In March Ann moved to Graz with her dog Bello and the firm Silva."),
    ],
)
def test_texts_that_mostly_contain_another_are_found(one: str, other: str) -> None:
    (pair,) = alike(items(one, "Something else about boats.", other, "Tomorrow it rains in Rome."))
    assert pair.ids == ("e0", "e2")


def test_a_real_duplicate_is_found_among_templates() -> None:
    many = [f"Setting {n} of the oven is for thing {n * 7}." for n in range(3000)]
    found = alike(items(*many, "User likes warm bread in the morning.", "In the morning the user likes warm bread."))
    assert ("e3000", "e3001") in [pair.ids for pair in found]
    assert len(found) <= 500


MADE = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_missed_nights_count_as_one_across_restarts(home: Path) -> None:
    ledger, now = InjectionLedger(home, clock=MADE.timestamp), MADE

    def restarted() -> DueDreams:
        return DueDreams(home, Cron("30 3 * * *", ZoneInfo("UTC")), ledger, lambda: now)

    def at(day: int, hour: int, minute: int = 0) -> list[str]:
        nonlocal now
        now = datetime(2026, 11, day, hour, minute, tzinfo=UTC)
        return due.groups()

    def write(file: str, data: bytes = b"A note.\n") -> None:
        path = home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (now.timestamp(), now.timestamp()))

    due = restarted()
    write("groups/main/MEMORY.md")
    assert (at(1, 23), at(2, 3, 29), at(2, 3, 30), at(2, 3, 31)) == ([], [], ["main"], [])
    assert at(5, 12) == ["main"]
    due = restarted()
    assert at(5, 12, 1) == ["main"]  # it did not come to it
    write(dreamt_file("main"), dump_watermark(Watermark(turn=0, at=now)))
    write("groups/main/MEMORY.md")
    due = restarted()
    assert at(5, 12, 6) == []
    assert at(6, 4) == []  # what was changed in the same second is not newer
    write("groups/main/MEMORY.md")
    assert at(7, 4) == ["main"]
    write(dreamt_file("main"), dump_watermark(Watermark(turn=0, at=now)))
    write("groups/main/MEMORY.md")
    assert at(6, 12) == []  # the clock was ahead, and was set back
    assert at(7, 3, 45) == ["main"]
    ledger.close()
