"""A random life of agents, editors and kills: contexts that were served in it are shown again, byte for byte."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson

from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.journal.reader import LogFilter
from tests.conftest import HostFactory
from tests.crash.conftest import IS_LONG
from tests.hosting import RawSender, request, wait_for
from tests.people import edits_in, looking, save

_CHANGES: Final = 10_000 if IS_LONG else 250
_CONTEXTS: Final = 500 if IS_LONG else 60
_KILLS: Final = 40 if IS_LONG else 3
_QUICKLY: Final = {
    "ops.maintenance.EDITS_SECONDS": 0.05,
    "documents.saves.QUIET_SECONDS": 0.05,
    "consolidation.memory_window": 20,
    "log.level": "warning",
}
_WORDS: Final = ("tea", "cake", "badger", "Chicago", "sunday", "meadow", "honey", "river", "lantern", "copper")
_SESSIONS: Final = ("main", "second", "third")


class Life:
    """What happens in a home, one thing after another, and the contexts that were served meanwhile."""

    def __init__(self, home: Path, rng: random.Random) -> None:
        self.home = home
        self.rng = rng
        self.agents = [RawSender(home, "main", name).make() for name in ("ada", "bob")]
        self.number = 0
        self.waiting: list[tuple[RawSender, str]] = []
        self.entries: list[str] = []
        self.edited: dict[str, int] = {}
        """File that was edited -> edits of it that were recorded before."""
        self.served: list[dict[str, Any]] = []

    def text(self, words: int = 6) -> str:
        return f"{self.number}: {' '.join(self.rng.choices(_WORDS, k=words))}"

    def send(self, type_name: str, session: str = "main", /, **payload: Any) -> tuple[RawSender, str]:
        self.number += 1
        sender, stem = self.rng.choice(self.agents), f"r{self.number:06}"
        sender.drop(stem, request(stem, type_name, session=session, payload=payload))
        self.waiting.append((sender, stem))
        return self.waiting[-1]

    def answers(self) -> list[dict[str, Any]]:
        """Wait for all replies."""
        found = [sender.reply(stem) for sender, stem in self.waiting]
        for sender, stem in self.waiting:
            sender.wait_until_taken(stem)
            (sender.replies / f"{stem}.json").unlink()
        self.waiting.clear()
        self.served += [one["result"] for one in found if one["ok"] and "stable_hash" in one["result"]]
        self.entries += [one["result"]["id"] for one in found if one["ok"] and one["result"].get("created")]
        return found

    # ------------------------------------------------------------------------------------------------------ agents

    def change(self) -> None:
        session = self.rng.choice(_SESSIONS)
        kinds: list[Callable[[], Any]] = [
            *[lambda: self.send("update_memory", content=self.text(), section=self.rng.choice(["Notes", "Plans"]))] * 3,
            *[
                lambda: self.send(
                    "append_turn", session, role=self.rng.choice(["user", "assistant"]), content=self.text()
                )
            ]
            * 4,
            lambda: self.send("save_memory", content=self.text(), category=self.rng.choice(["places", "people/close"])),
            lambda: self.send("save_to_working_memory", session, key=self.rng.choice(_WORDS), data="x", ttl_minutes=30),
            lambda: self.send("update_session", session, add_facts=[self.text()]),
            lambda: self.send("delete_session", session) if self.rng.random() < 0.1 else None,
        ]
        if self.entries and not self.is_just_edited(one := self.rng.choice(self.entries[-30:])):
            kinds.append(lambda: self.send("edit_memory", id=one, content=self.text()))
            kinds.append(lambda: self.send("delete_memory", id=one) if self.rng.random() < 0.3 else None)
        self.rng.choice(kinds)()

    def look(self) -> None:
        payload: dict[str, Any] = {}
        if self.rng.random() < 0.8:
            payload["message"] = self.text(3)
        if self.rng.random() < 0.4:
            payload["budget_tokens"] = self.rng.choice([300, 800, 3000, 0])
        self.send("get_context", self.rng.choice(_SESSIONS), **payload)

    # ----------------------------------------------------------------------------------------------------- editors

    def recorded(self, file: str) -> int:
        return len(edits_in(self.home / JOURNAL_FILE, LogFilter(file=file)))

    def is_noticed(self, file: str) -> bool:
        return file not in self.edited or self.recorded(file) > self.edited[file]

    def is_just_edited(self, entry: str) -> bool:
        """Return whether a person edited an entry and the host did not see it yet: written now, it is never told."""
        return any(file.endswith(f"/{entry}.json") and not self.is_noticed(file) for file in self.edited)

    def edit(self, *, is_served: bool = True) -> None:
        """Save a file as an editor does. The one before of the same file was noticed: else nobody saw it."""
        files = ["groups/main/MEMORY.md", "groups/main/CLAUDE.md", "groups/main/summary.md", "AGENT.md"]
        entries = sorted((self.home / "groups/main/memory").rglob("*.json"))
        if entries:
            files.append(str(self.rng.choice(entries).relative_to(self.home)))
        file = self.rng.choice(files)
        if not is_served and not self.is_noticed(file):
            return
        wait_for(lambda: self.is_noticed(file), what=f"the edit of {file}")
        self.edited[file] = self.recorded(file)
        path = self.home / file
        text = path.read_text() if path.exists() else ""
        if file.endswith(".json"):
            value = orjson.loads(text)
            value["content"] = self.text()
            made = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
        else:
            lines = text.splitlines(keepends=True)
            at = self.rng.randint(0, len(lines))
            made = "".join([*lines[:at], f"{self.text(4)}\n", *lines[at + self.rng.randint(0, 1) :]])
        if self.rng.random() < 0.5:
            save(path, made)
        else:
            path.write_text(made)
        self.number += 1


def test_a_random_life_with_kills_keeps_contexts_as_served(
    make_host: HostFactory, home: Path, rng: random.Random
) -> None:
    life = Life(home, rng)
    host = looking(make_host(dict(_QUICKLY)))
    kills = set(rng.sample(range(_CHANGES), _KILLS))
    looks = set(rng.sample(range(_CHANGES), _CONTEXTS))
    for number in range(_CHANGES):
        if rng.random() < 0.06:
            life.answers()  # who edits MEMORY.md and does not see the newest note would take it out
            life.edit()
        else:
            life.change()
        if number in looks:
            life.look()
        if number in kills:
            time.sleep(rng.random() * 0.02)
            host.kill()
            if rng.random() < 0.5 and not life.waiting:
                life.edit(is_served=False)
            host.start()
        if len(life.waiting) > rng.randint(0, 6):
            life.answers()
    life.answers()
    assert len(life.served) >= _CONTEXTS
    for shown in [*life.served]:
        life.send("get_context", as_of=shown["hash"])
        (reply,) = life.answers()
        assert reply["result"]["system"] == shown["system"]
