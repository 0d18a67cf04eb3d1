"""A home with something in it: a family that moves, its agent, a proposal, a task, a request that nobody understood."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import orjson

from honeybadger_agent import SyncClient
from honeybadger_host.files.home import make_home
from tests.commands import cli_json
from tests.hosting import PATIENCE, HostProcess, RawSender, wait_for

GROUP = "family"
REVIEWED = "careful"
SETTINGS: dict[str, object] = {
    "ops.maintenance.HOUSEKEEPING_SECONDS": 1,
    "memory.writes": f"{REVIEWED}=review",
    "context.budget_tokens": 1000,
    "curation.apply": "review",
    "model.name": "scripted:talk.json",
    "model.curation": "scripted:curation.json",
}
QUESTION = "Which movers do we have?"
ANSWER = (
    "The movers are Silva & Filhos. They want 1,850 EUR and come on 12 March at 8:00. The piano goes last, because the "
    "stairs are narrow."
)
LONG_QUESTION = "Which movers were there, one by one?"
# Takes five seconds: a busy browser sees it being written.
LONG_ANSWER = " ".join(f"The movers of the year {1900 + number}." for number in range(1, 25))
REFUSED_QUESTION = "Is anybody there?"
ENDLESS_QUESTION = "Count, please."  # its answer takes minutes: who asks it stops it
_FACTS = (
    ("The movers are Silva & Filhos, they want 1,850 EUR.", "moving", "The movers", ["moving", "money"]),
    ("We move to Lisbon on 12 March.", "moving", "The day of the move", ["moving"]),
    ("Our new address is Rua das Flores 7.", "moving/address", None, ["lisbon"]),
    ("Ann is allergic to cats.", "people/ann", "Allergies", ["health"]),
    ("Ben has football on Tuesdays at 17:00.", "people/ben", None, ["school"]),
    ("Prefers tea without sugar in the afternoon.", "people/ann", None, ["tea"]),
    ("Do not call the landlord before 10:00 - write instead.", "anti-patterns", None, None),
)
_NOTES = (
    ("ann", "The piano goes last, the stairs are narrow.", "Moving"),
    ("ann", "Ben wants the room with the balcony.", None),
    ("planner", "The landlord wants the keys on 11 March.", "Moving"),
    ("planner", "The school in Lisbon starts on 18 March.", "School"),
)
_TURNS: tuple[tuple[Literal["user", "assistant"], str, str], ...] = (
    ("user", "Who brings the piano down?", "ann"),
    ("assistant", "Silva & Filhos do. The piano goes last, because the stairs are narrow.", "planner"),
    ("user", "And when do we hand over the keys?", "ben"),
    ("assistant", "On 11 March, a day before you move.", "planner"),
)


@dataclass
class Scene:
    """The furnished home, and the names that addresses have."""

    home: Path
    names: dict[str, str] = field(default_factory=dict)

    def client(self, sender: str, group: str = GROUP, session: str = "main") -> SyncClient:
        return SyncClient(self.home, group, sender, session=session, timeout_seconds=PATIENCE)

    def make(self) -> Scene:
        """Make the home; a host may start on it with `SETTINGS`."""
        make_home(self.home)
        for group in (GROUP, REVIEWED):
            (self.home / "groups" / group).mkdir()
        (self.home / "groups" / GROUP / "CLAUDE.md").write_text("# Planner\n\nYou help a family moving to Lisbon.\n")
        call = {"name": "search_memory", "arguments": {"query": "movers"}}
        turns = [
            {"when": LONG_QUESTION, "answers": [{"text": "I look it up.", "calls": [call]}, {"text": LONG_ANSWER}]},
            {"when": ENDLESS_QUESTION, "answers": [{"text": " ".join(f"word {number}" for number in range(2000))}]},
            {"when": "movers", "answers": [{"text": "I look it up.", "calls": [call]}, {"text": ANSWER}]},
            {"when": REFUSED_QUESTION, "answers": [{"fails": "its server is down"}]},
            {"answers": [{"text": "I have noted that.", "input_tokens": 700, "output_tokens": 80}]},
        ]
        (self.home / "talk.json").write_bytes(orjson.dumps({"turns": turns, "delay_seconds": 0.08}))
        nothing = {"text": '{"join": [], "preferences": []}'}  # the proposals of the scene are made by rules
        (self.home / "curation.json").write_bytes(orjson.dumps({"turns": [{"answers": [nothing]}]}))
        return self

    def fill(self) -> Scene:
        """Let people and agents say and save things, on a host that serves the home."""
        planner = self.client("planner")
        for content, category, title, tags in _FACTS:
            saved = planner.save_memory(content, category, tags, title=title, origin="human" if title else "agent")
            self.names.setdefault("entry", saved.id)
        for sender, content, section in _NOTES:
            self.client(sender).update_memory(content, section)
        for role, content, sender in _TURNS:
            self.client(sender).append_turn(role, content, sender=sender)
        planner.edit_memory(self.names["entry"], content="The movers are Silva & Filhos, they want 1,850 EUR in cash.")
        planner.send_message("The movers have confirmed 12 March, 8:00.")
        task = planner.schedule_task(
            *("What is still to be done", "Say what is still to be done before the move.", "cron"),
            cron_expression="0 9 * * 1-5",
            time_zone="Europe/Vienna",
        )
        careful = self.client("planner", REVIEWED)
        for content in ("Ann likes the colour blue.", "Ben has a dog called Rex.", "The car is parked at the harbour."):
            proposal = careful.save_memory(content, "people").proposal
            assert proposal is not None
            self.names.setdefault("write", proposal)
        for place in ("people/ann", "drinks"):
            planner.save_memory("Ann drinks green tea at 16:00, without sugar.", place)
        dreamed = cli_json("dream", GROUP, home=self.home)
        broken = RawSender(self.home, GROUP, "scanner").make()
        broken.drop("receipt-17", b'{"v": 1, "type": "update_memory", "payload": {"content": "total 12')
        broken.reply("receipt-17")
        note = wait_for(lambda: planner.search_memory("room balcony", scope="notes").hits, what="a note")[0]
        self.names |= {
            "note": quote(note.id),
            "proposal": dreamed["proposals"][0]["id"],
            "task": task.id,
            "seq": str(wait_for(lambda: planner.get_context().seq)),
            "dead": f"{GROUP}/scanner/receipt-17",
        }
        return self


def scene_host(scene: Scene) -> HostProcess:
    return HostProcess(scene.home, SETTINGS)
