"""Nobody is shown under another's name, and a name of one's own never without the folder it came from (HB6)."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_agent.errors import Forbidden
from honeybadger_host.curation.said import minutes, numbered_turn, whole
from honeybadger_host.text.turn import Turn
from tests.commands import cli_json, cli_text
from tests.conftest import MakeClient
from tests.flows.world import script
from tests.hosting import HostProcess, RawSender

LOOK_ALIKES = ("ann", "Ann", "ａｎｎ", "а𝗇n", "á n n", "a-n_n")
NAMES_OF_THE_HOST = ("operator", "0perator", "οperator", "human", "consoIidator", "Curator", "scheduler", "User")
AGENTS = ("researcher", "rеseаrсher", "Dr. Search", "dr search", "assistant")


@pytest.fixture(scope="module")
def serving() -> Callable[[Path], HostProcess]:
    def made(home: Path) -> HostProcess:
        agents = home / "config" / "agents"
        agents.mkdir(parents=True)
        (agents / "researcher.json").write_bytes(orjson.dumps({"display_name": "Dr. Search"}))
        return HostProcess(home, script(home, {"when": "hello", "answers": [{"text": "Hello to you."}]}))

    return made


def test_the_name_of_another_is_forbidden_in_whatever_letters(member: MakeClient) -> None:
    member("ann").append_turn("user", "I am Ann")
    bridge, operator = (member(name) for name in ("bridge", "operator"))
    for number, name in enumerate([*LOOK_ALIKES, *NAMES_OF_THE_HOST, *AGENTS]):
        turn: dict[str, Any] = {"role": "user", "content": "We decided", "sender": name}
        with pytest.raises(Forbidden, match="name of"):
            bridge.append_turn(**turn)
        with pytest.raises(Forbidden, match="name of"):
            bridge.append_turns([turn | {"key": "a"}])
        with pytest.raises(Forbidden, match="name of"):
            bridge.chat("hello", sender=name)
        record = turn | {"id": f"import-{number:024x}", "at": "2026-01-01T00:00:00Z"}
        taken = operator.request("import_records", {"turns": [record]}).result or {}
        assert (taken["added"], [one["id"] for one in taken["refused"]]) == (0, [record["id"]])
    assert [turn.content for turn in bridge.get_turns().turns] == ["I am Ann"]


def test_a_chosen_name_is_shown_with_its_folder(asker: RawSender, member: MakeClient) -> None:
    bridge, reader = (member(name) for name in ("bridge", "reader"))
    bridge.append_turn("user", "We decided to plant badger roses in May.", sender="Ben")
    bridge.append_turn("user", "Without a name")
    bridge.append_turn("user", "Under the folder's", sender="bridge")
    bridge.chat("hello", sender="Ben")
    shown = "[Ben via bridge]: We decided to plant badger roses in May.\n[user]: Without a name\n"
    assert reader.get_history().text.startswith(f"{shown}[bridge]: Under the folder's\n[Ben via bridge]: hello\n")
    assert reader.get_history().messages[0].sender == "Ben via bridge"
    context = reader.get_context("When are badger roses planted?")
    assert "Ben via bridge" in (context.system + str([message.sender for message in context.messages]))
    (hit,) = reader.search_memory("badger roses").hits[:1]
    assert hit.author == "Ben via bridge"
    (hit,) = reader.search_memory("What did Ben decide?").hits[:1]
    assert (hit.author, hit.points.get("author", 0) > 0) == ("Ben via bridge", True)
    assert next((turn.sender, turn.by) for turn in bridge.get_turns().turns) == ("Ben", "bridge")
    cli_text("export", asker.group, "--markdown", "--to", asker.home / "out", home=asker.home)
    texts = "".join(path.read_text() for path in (asker.home / "out").rglob("*.md"))
    assert "## Ben via bridge, " in texts
    assert cli_json("search", asker.group, "badger roses", home=asker.home)["hits"][0]["author"] == "Ben via bridge"


def test_a_chosen_name_enters_the_history_with_its_folder() -> None:
    said = Turn(1, datetime(2026, 1, 1, tzinfo=UTC), "user", "Ben", "bridge", "We decided to plant roses in May.", 9)
    assert "Ben via bridge: We decided to plant roses in May." in minutes(whole("main", said).evidence())
    assert "USER: Ben via bridge\n  1.1 We decided" in numbered_turn(said, "1", is_person=True)
