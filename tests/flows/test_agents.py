"""Agents of a home: who they are, what they may use, and that people may edit them while the host runs."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import cli_text
from tests.conftest import HostFactory
from tests.flows.test_turns import HELLO, REMEMBER, said
from tests.flows.world import script
from tests.hosting import HostProcess, RawSender, assert_refused, request, run_cli, status_of, wait_for
from tests.people import save


def agent(home: Path, name: str, **members: Any) -> None:
    """Save an agent's file as an editor does."""
    folder = home / "config" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / f"{name}.json", json.dumps(members))


def profile(home: Path, name: str, **texts: str) -> None:
    folder = home / "config" / "agents" / name
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in texts.items():
        (folder / f"{part}.md").write_text(text)


@pytest.fixture
def host(make_host: HostFactory, home: Path) -> HostProcess:
    return make_host(script(home, REMEMBER, HELLO) | {"ops.status.STATUS_SECONDS": 0.1}).start()


def context_of(home: Path, sender: str) -> dict[str, Any]:
    asker = RawSender(home, sender=sender).make()
    result = asker.do("c", "get_context")
    (asker.replies / "c.json").unlink()
    assert isinstance(result, dict)
    return result


def test_an_agents_identity_comes_second_in_its_context(home: Path, host: HostProcess) -> None:
    agent(home, "keeper", display_name="Bee Keeper", description="Knows bees.")
    profile(home, "keeper", soul="You hum.\n", style="Short sentences.\n")
    (home / "groups" / "main" / "CLAUDE.md").write_text("A family.\n")
    wait_for(lambda: "Bee Keeper" in context_of(home, "keeper")["system"])
    context = context_of(home, "keeper")
    assert context["system"].startswith(
        "Group: main\n\n## Your Identity\nYou are Bee Keeper (agent `keeper`). Knows bees.\n\nYou hum.\n\n"
        "Short sentences.\n\n## Group Context\nA family.\n"
    )
    sources = [row["source"] for row in context["sections"] if row["title"] == "## Your Identity"]
    assert sources == ["config/agents/keeper.json", "config/agents/keeper/soul.md", "config/agents/keeper/style.md"]
    assert "## Your Identity" not in context_of(home, "researcher")["system"]


def test_a_folder_with_a_profile_is_an_agent(home: Path, host: HostProcess) -> None:
    (home / "config/agents/empty").mkdir(parents=True)
    profile(home, "keeper", soul="You hum.\n")
    host.wait_for_event("agents.loaded")
    assert "You are keeper (agent `keeper`).\n\nYou hum." in context_of(home, "keeper")["system"]
    assert "agent `empty`" not in context_of(home, "empty")["system"]
    agent(home, "keeper", display_name="Bee Keeper")
    wait_for(lambda: "You are Bee Keeper" in context_of(home, "keeper")["system"])
    (home / "config/agents/keeper.json").unlink()
    wait_for(lambda: "You are keeper (agent" in context_of(home, "keeper")["system"])


def test_a_soul_elsewhere_is_read_and_followed(home: Path, host: HostProcess, tmp_path: Path) -> None:
    soul = tmp_path / "soul.txt"
    soul.write_text("You sing.\n")
    agent(home, "keeper", soul=str(soul), profile="config/shared")
    (home / "config" / "shared").mkdir()
    (home / "config" / "shared" / "directives.md").write_text("Never lie.\n")
    wait_for(lambda: "You sing.\n\nNever lie." in context_of(home, "keeper")["system"])
    soul.write_text("You whisper.\n")
    assert "You whisper.\n\nNever lie." in context_of(home, "keeper")["system"]


def test_only_the_tools_listed_are_offered_and_taken(home: Path, host: HostProcess, stranger: RawSender) -> None:
    agent(home, "reader", tools=["search_memory"])
    reader, numbers = RawSender(home, sender="reader").make(), itertools.count()

    def is_forbidden() -> bool:
        stem = f"n{next(numbers)}"
        return not reader.ask(stem, request(stem, content="a note"))["ok"]

    wait_for(is_forbidden)
    before = reader.memory_text()
    assert_refused(reader.ask("m", request("m", content="another")), "forbidden", says="config/agents/reader.json")
    reader.do("s", "search_memory", query="tea")
    reader.do("t", "append_turn", role="assistant", content="hi")
    result = stranger.chat("a1", "remember", agent="reader")["result"]
    assert [(tool["name"], tool["ok"]) for tool in result["tools"]] == [("update_memory", False)]
    assert reader.memory_text() == before
    stranger.do("n", content="mine")  # others are not affected


def test_a_broken_agent_file_changes_nothing(home: Path, host: HostProcess, stranger: RawSender) -> None:
    agent(home, "good", display_name="Good")
    agent(home, "keeper", display_name="Bee Keeper")
    wait_for(lambda: "Bee Keeper" in context_of(home, "keeper")["system"])
    agent(home, "keeper", display_nam="Wasp Keeper")

    def problem() -> str:
        return str(status_of(host.home)["agents"]["refused"].get("config/agents/keeper.json", ""))

    wait_for(lambda: "did you mean display_name?" in problem())
    assert "Bee Keeper" in context_of(home, "keeper")["system"]
    assert "You are Good" in context_of(home, "good")["system"]
    agent(home, "keeper", display_name="Wasp Keeper")
    wait_for(lambda: "Wasp Keeper" in context_of(home, "keeper")["system"])
    wait_for(lambda: not problem())
    (home / "config" / "agents" / "keeper.json").unlink()
    wait_for(lambda: "Keeper" not in context_of(home, "keeper")["system"])
    assert_refused(stranger.chat("a1", "hello", agent="keeper"), "not_found", says="assistant, good")


BROKEN = {
    "half": (b"{", "it is not JSON"),
    "list": (b"[]", "it must be a JSON object"),
    "misnamed": (b'{"id": "other"}', "make them the same"),
    "misspelt": (b'{"tools": ["serch_memory"]}', "did you mean search_memory?"),
    "text": (b'{"tools": "all"}', "tools must be an array"),
    "nameless": (b'{"display_name": ""}', "display_name is empty"),
    "Curator": (b'{"display_name": "Curator"}', "rename the file"),
}


def test_agent_files_with_reserved_names_are_refused(home: Path, make_host: HostFactory) -> None:
    folder = home / "config" / "agents"
    folder.mkdir(parents=True)
    for name, (data, _) in BROKEN.items():
        (folder / f"{name}.json").write_bytes(data)
    (folder / "gone.json").symlink_to("nowhere.json")
    host = make_host().start()
    refused = status_of(host.home)["agents"]["refused"]
    logged = {line["file"]: line["why"] for line in host.events("agent.refused")}
    for name, (_, says) in BROKEN.items():
        file = f"config/agents/{name}.json"
        assert says in refused[file]
        assert says in logged[file]
    assert refused["config/agents/gone.json"] == "No such file or directory"  # and it hides no other agent


def test_an_agent_may_have_a_model_of_its_own(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    settings = script(home, HELLO)
    (home / "other.json").write_text(json.dumps({"turns": [{"answers": [{"text": "From the other model."}]}]}))
    agent(home, "keeper", model="scripted:other.json")
    agent(home, "lost", model="scripted:missing.json")
    make_host(settings).start()
    result = stranger.chat("a1", "hello", agent="keeper")["result"]
    assert (result["content"], result["model"], result["agent"]) == (
        "From the other model.",
        "scripted:other.json",
        "keeper",
    )
    assert stranger.chat("a2", "hello")["result"]["content"] == "Hello to you."
    assert_refused(stranger.chat("a3", "hello", agent="lost"), "unavailable", says="missing.json")
    assert [speaker for role, speaker, _ in said(stranger) if role == "assistant"] == ["keeper", "assistant"]


def test_the_operator_sees_agents_turns_and_their_faults(home: Path, host: HostProcess) -> None:
    agent(home, "keeper", display_nam="Bee Keeper")
    agent(home, "oracle", display_name="Oracle", description="Knows it.", model="opnai:gpt")
    wait_for(lambda: "oracle" in status_of(host.home)["agents"]["known"])
    wait_for(lambda: "config/agents/keeper.json" in status_of(host.home)["agents"]["refused"])
    shown = run_cli("status", home=home)
    assert "agents    2; 0 answers being written, 0 waiting" in shown.stdout
    assert "agent file is not used: config/agents/keeper.json: 'display_nam' is unknown" in shown.stdout
    examined = cli_text("doctor", home=home, code=1)
    assert "agents: config/agents/keeper.json: 'display_nam' is unknown; did you mean display_name?" in examined
    assert "problem   model: agent oracle: there is no model 'opnai:gpt': models are " in examined
    context = run_cli("context", "main", "--agent", "oracle", home=home)
    assert "## Your Identity\nYou are Oracle (agent `oracle`). Knows it.\n" in context.stdout
    assert run_cli("context", "main", "--agent", "nobody", home=home).returncode == 9


MODELS = {
    "offline": "ok        model: offline (model.name): remembers and recalls",
    "scripted:missing.json": "problem   model: scripted:missing.json (model.name): there is no such file",
    "openai:gpt": "warning   model: openai:gpt (model.name) has no key in this environment",
    "gpt": "problem   model: model.name: there is no model 'gpt': models are offline, scripted:FILE, ",
}


@pytest.mark.parametrize("name", MODELS)
def test_the_doctor_says_whether_a_model_can_be_asked(home: Path, name: str) -> None:
    (home / "config" / "honeybadger.toml").write_text(f'[model]\nname = "{name}"\n')
    says = MODELS[name]
    assert says in cli_text("doctor", home=home, code=int(says.startswith("problem")))
