"""The memory tool on a real host: every command, what a model reads, and what it cannot do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import string
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from honeybadger_agent import Client, SyncClient, wire
from honeybadger_agent.errors import CommandFailed, ReplyTimeout
from honeybadger_agent.integrations import memory_tool
from honeybadger_agent.integrations.memory_tool import AsyncMemoryTool, MemoryTool
from tests.agent.conftest import Answering
from tests.conftest import HostFactory
from tests.hosting import HostProcess, RawSender, at_once, wait_for

MakeClient = Callable[..., SyncClient]


class Agent:
    """A model that uses the tool."""

    def __init__(self, client: SyncClient) -> None:
        self.client = client
        self.tool = MemoryTool(client)

    def __call__(self, command: str, path: str | None = None, **members: Any) -> str:
        return self.tool.run({"command": command, **({} if path is None else {"path": path}), **members})

    def refused(self, command: str, path: str | None = None, **members: Any) -> tuple[str, str]:
        with pytest.raises(CommandFailed) as caught:
            self(command, path, **members)
        return caught.value.code, str(caught.value)

    def text(self, path: str) -> str:
        """Return a file's text, from its view."""
        head, _, lines = self("view", path).partition("\n")
        assert head == f"Here's the content of {path} with line numbers:"
        rows = [line.partition("\t") for line in lines.split("\n")]
        assert [int(number) for number, _, _ in rows] == list(range(1, len(rows) + 1))
        return "\n".join(line for _, _, line in rows)

    def listed(self, path: str = "/memories") -> list[str]:
        head, first, *rows = self("view", path).split("\n")
        assert head == f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        assert first.endswith(f"\t{path}")
        return [row.partition("\t")[2].removeprefix(f"{path}/") for row in rows]


@pytest.fixture
def agent(member: MakeClient) -> Agent:
    """An agent in a fresh group of a host that serves the whole module."""
    return Agent(member("claude"))


# ------------------------------------------------------------------------------------------------------------- commands


def test_a_folder_shows_two_levels_without_hidden_files(agent: Agent) -> None:
    for path, size in (("top.md", 5), ("a/one.md", 1536), ("a/b/two.md", 1024), ("a/b/c/three.md", 1), (".hidden", 3)):
        agent("create", f"/memories/{path}", file_text="x" * size)
    assert agent("view", "/memories").split("\n")[1:] == [
        "2.5K\t/memories",
        "2.5K\t/memories/a/",
        "1.0K\t/memories/a/b/",
        "1.5K\t/memories/a/one.md",
        "5B\t/memories/top.md",
    ]
    assert agent.listed("/memories/a") == ["b/", "b/c/", "b/two.md", "one.md"]
    assert agent.listed("/memories/a/b/c") == ["three.md"]
    assert agent("view", "/memories/a/") == agent("view", "/memories/a")
    assert agent.text("/memories/.hidden") == "xxx"
    assert agent.refused("view", "/memories/nowhere")[0] == "not_found"


def test_what_others_saved_is_there_and_can_be_corrected(agent: Agent, member: MakeClient) -> None:
    saved = member("cook").save_memory("User drinks tea", "likes/drinks", title="Tea or coffee?")
    plain = member("cook").save_memory("The cat is called Ada")
    name = f"tea-or-coffee~{saved.id}"
    assert agent.listed() == ["likes/", "likes/drinks/", f"the-cat-is-called-ada~{plain.id}"]
    assert agent.listed("/memories/likes") == ["drinks/", f"drinks/{name}"]
    assert agent.text(f"/memories/likes/drinks/{name}") == "User drinks tea"
    agent("str_replace", f"/memories/the-cat-is-called-ada~{plain.id}", old_str="Ada", new_str="Bo")
    assert agent.text(f"/memories/the-cat-is-called-ada~{plain.id}") == "The cat is called Bo"
    assert agent.listed()[-1] == f"the-cat-is-called-bo~{plain.id}"
    assert agent.text(f"/memories/~{plain.id}") == "The cat is called Bo"
    assert agent.refused("view", f"/memories/likes/the-cat-is-called-bo~{plain.id}")[0] == "not_found"
    assert agent.refused("create", f"/memories/x~{plain.id}", file_text="x")[0] == "conflict"
    agent("rename", old_path=f"/memories/~{plain.id}", new_path="/memories/cat.md")
    assert member().search_memory("What is the cat called?").hits[0].text == "The cat is called Bo"
    agent("delete", f"/memories/likes/drinks/{name}")
    assert agent.listed() == ["cat.md"]


def test_a_name_that_a_person_gave_twice_hides_nothing(agent: Agent, asker: RawSender) -> None:
    agent("create", "/memories/docs/a.md", file_text="first")
    (asker.memory.parent / "memory/docs/mine.json").write_text('{"content": "Second one", "name": "a.md"}')
    wait_for(lambda: len(agent.listed("/memories/docs")) == 2)
    [name] = set(agent.listed("/memories/docs")) - {"a.md"}
    texts = {agent.text("/memories/docs/a.md"), agent.text(f"/memories/docs/{name}")}
    assert texts == {"first", "Second one"}


def test_what_it_saves_is_searched_and_recalled_like_everything(
    agent: Agent, asker: RawSender, member: MakeClient
) -> None:
    agent("create", "/memories/people/ann.md", file_text="Ann moved to Lisbon in May")
    [file] = (asker.memory.parent / "memory").rglob("*.json")
    entry = orjson.loads(file.read_bytes())
    assert (entry["name"], entry["by"], file.parent.name) == ("ann.md", "claude", "people")
    hit = member().search_memory("Where does Ann live?").hits[0]
    assert (hit.category, hit.author) == ("people", "claude")
    assert "Ann moved to Lisbon" in member().get_context("Where does Ann live?").system


def test_names_and_texts_are_in_any_language(agent: Agent) -> None:
    agent("create", "/memories/Größe 日本.md", file_text="naïve 👨‍👩‍👧 日本語\n")
    agent("insert", "/memories/Gro\u0308ße 日本.md", insert_line=1, insert_text="مرحبا")
    assert agent.text("/memories/Größe 日本.md") == "naïve 👨‍👩‍👧 日本語\nمرحبا\n"
    assert agent.listed() == ["Größe 日本.md"]
    assert "names of letters, digits, - and _" in agent.refused("create", "/memories/Größe/x.md", file_text="x")[1]


def test_the_largest_file_works_and_a_larger_is_refused(agent: Agent) -> None:
    text = "0123456\n" * 4096
    agent("create", "/memories/big.txt", file_text=text)
    assert agent.text("/memories/big.txt") == text
    assert agent.refused("insert", "/memories/big.txt", insert_line=0, insert_text="x")[0] == "too_large"
    assert agent.refused("create", "/memories/big2.txt", file_text="x" * 32_769)[0] == "too_large"
    agent("str_replace", "/memories/big.txt", old_str=text[:-8], new_str="")
    assert agent.text("/memories/big.txt") == "0123456\n"


def test_a_full_folder_shows_its_first_files_and_count(
    agent: Agent, asker: RawSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_tool, "MAX_SHOWN", 20)
    monkeypatch.setattr(wire, "MAX_OPERATIONS", 25)
    folder = asker.memory.parent / "memory" / "many"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"e{number}.json").write_bytes(orjson.dumps({"content": "x", "name": f"{number:03}.md"}))
    wait_for(lambda: "(10 more" in agent("view", "/memories/many"))
    shown = agent("view", "/memories/many").split("\n")
    assert shown[-1] == "(10 more files are not shown: view one of the folders.)"
    assert shown[1] == "30B\t/memories/many"
    assert len(shown) == 23
    assert agent("view", "/memories").split("\n")[1:3] == ["30B\t/memories", "30B\t/memories/many/"]
    assert agent.refused("delete", "/memories/many")[0] == "too_large"
    assert len(list(folder.iterdir())) == 30


def test_a_folder_is_renamed_and_deleted_with_its_content(agent: Agent, member: MakeClient) -> None:
    agent("create", "/memories/a/one.md", file_text="1")
    agent("create", "/memories/a/b/two.md", file_text="2")
    saved = member("cook").save_memory("three", "a/b")
    agent("create", "/memories/ab/other.md", file_text="4")
    assert agent("rename", old_path="/memories/a", new_path="/memories/c/d") == (
        "Successfully renamed /memories/a to /memories/c/d"
    )
    assert agent.listed("/memories/c") == ["d/", "d/b/", "d/one.md"]
    assert agent.listed("/memories/c/d/b") == [f"three~{saved.id}", "two.md"]
    assert agent.listed("/memories/ab") == ["other.md"]
    assert agent.refused("rename", old_path="/memories/c", new_path="/memories/ab") == (
        "conflict",
        "The destination /memories/ab already exists",
    )
    assert agent.refused("rename", old_path="/memories/c", new_path="/memories/c.d")[0] == "invalid"
    assert agent("delete", "/memories/c/d/") == "Successfully deleted /memories/c/d"
    assert agent.refused("delete", "/memories/c/d")[0] == "not_found"
    assert agent.listed() == ["ab/", "ab/other.md"]


# ---------------------------------------------------------------------------------------------------------------- notes


def test_notes_can_be_read_and_added_to_only(agent: Agent, asker: RawSender) -> None:
    path = "/memories/MEMORY.md"
    assert agent.refused("view", path)[0] == "not_found"
    agent("insert", path, insert_line=0, insert_text="User likes tea")
    text = agent.text(path)
    assert text.startswith("\n## Notes (claude, 20")
    assert text.endswith("\n- User likes tea\n")
    assert agent.listed() == ["MEMORY.md"]
    agent("insert", path, insert_line=3, insert_text="And milk")
    assert asker.memory_text().endswith("\n- And milk\n")
    before = asker.memory_text()
    assert "`insert_line` 6" in agent.refused("insert", path, insert_line=2, insert_text="x")[1]
    assert agent.refused("insert", path, insert_line=7, insert_text="x")[0] == "invalid"
    assert agent.refused("insert", path, insert_line=6, insert_text="\n")[0] == "invalid"
    assert agent.refused("create", path, file_text="x") == ("conflict", f"File {path} already exists")
    agent("create", "/memories/x.md", file_text="x")
    assert agent.refused("rename", old_path="/memories/x.md", new_path=path)[0] == "conflict"
    for command, members in (
        ("str_replace", {"path": path, "old_str": "tea", "new_str": "x"}),
        ("delete", {"path": path}),
        ("rename", {"old_path": path, "new_path": "/memories/y.md"}),
    ):
        code, why = agent.refused(command, **members)
        assert (code, "what people edit" in why) == ("forbidden", True)
    assert asker.memory_text() == before


def test_notes_that_cannot_be_served_say_why(agent: Agent, asker: RawSender) -> None:
    asker.memory.write_bytes(b"\xff\xfe not text")
    code, why = agent.refused("view", "/memories/MEMORY.md")
    assert code == "unavailable"
    assert why.startswith("/memories/MEMORY.md cannot be read: ")


# --------------------------------------------------------------------------------------------------------------- errors

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"command": "view", "path": "/etc/passwd"}, "forbidden", "Path must start with /memories, got: /etc/passwd"),
    ({"command": "view", "path": "/memoriesX/a"}, "forbidden", "Path must start with /memories"),
    ({"command": "delete", "path": "/memories/../x"}, "forbidden", "would escape /memories directory"),
    ({"command": "create", "path": "/memories/%2e%2e/x", "file_text": "x"}, "forbidden", "would escape"),
    ({"command": "create", "path": "/memories/..%5cx", "file_text": "x"}, "forbidden", "would escape"),
    ({"command": "create", "path": "/memories/a\0", "file_text": "x"}, "invalid", "a name as a file has"),
    ({"command": "create", "path": "/memories/" + "x" * 129, "file_text": "x"}, "too_large", "payload.name"),
    ({"command": "rename", "old_path": "/memories/a.md", "new_path": "/tmp/x"}, "forbidden", "got: /tmp/x"),
    ({"command": "rename", "old_path": "/memories/a.md"}, "invalid", "a member is missing"),
    ({"command": "delete", "path": "/memories"}, "forbidden", "Cannot delete the /memories directory itself"),
    ({"command": "rename", "old_path": "/memories/", "new_path": "/memories/x"}, "forbidden", "Cannot rename"),
    ({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories"}, "conflict", "already exists"),
    ({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/a.md"}, "conflict", "already exists"),
    ({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/d"}, "conflict", "already exists"),
    ({"command": "rename", "old_path": "/memories/no", "new_path": "/memories/x"}, "not_found", "does not exist"),
    ({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/a b/x"}, "invalid", "names of letters"),
    ({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/d.e"}, "invalid", "names of letters"),
    ({"command": "create", "path": "/memories/a.md", "file_text": "x"}, "conflict", "File /memories/a.md already ex"),
    ({"command": "create", "path": "/memories/d/", "file_text": "x"}, "conflict", "File /memories/d already exists"),
    ({"command": "create", "path": "/memories", "file_text": "x"}, "conflict", "already exists"),
    ({"command": "create", "path": "/memories/e.md"}, "invalid", "a member is missing"),
    ({"command": "create", "path": "/memories/e.md", "file_text": " \n"}, "invalid", "is blank"),
    ({"command": "create", "path": "/memories/e.md", "file_text": "\ud800"}, "invalid", "JSON object"),
    ({"command": "str_replace", "path": "/memories/no.md", "old_str": "a", "new_str": "b"}, "not_found", "not exist"),
    ({"command": "str_replace", "path": "/memories/d", "old_str": "a", "new_str": "b"}, "not_found", "not exist"),
    ({"command": "str_replace", "path": "/memories/a.md", "old_str": ""}, "invalid", "did not appear verbatim"),
    ({"command": "str_replace", "path": "/memories/a.md", "old_str": "four"}, "invalid", "did not appear verbatim"),
    ({"command": "str_replace", "path": "/memories/a.md", "old_str": "t"}, "invalid", "in lines: 2, 3. Please"),
    ({"command": "str_replace", "path": "/memories/a.md", "old_str": "one\ntwo\nthree"}, "invalid", "payload.content"),
    ({"command": "insert", "path": "/memories/a.md", "insert_line": 4, "insert_text": "x"}, "invalid", "[0, 3]."),
    ({"command": "insert", "path": "/memories/a.md", "insert_line": -1, "insert_text": "x"}, "invalid", "[0, 3]"),
    ({"command": "insert", "path": "/memories/a.md", "insert_line": "1", "insert_text": "x"}, "invalid", "or wrong"),
    ({"command": "insert", "path": "/memories/no.md", "insert_line": 0, "insert_text": "x"}, "not_found", "not exist"),
    ({"command": "view", "path": "/memories/a.md", "view_range": "1-"}, "invalid", "is wrong"),
    ({"command": "delete", "path": "/memories/no.md"}, "not_found", "The path /memories/no.md does not exist"),
    ({"command": "undo_edit", "path": "/memories/a.md"}, "invalid", "Unknown command"),
    ({"command": "view", "path": object()}, "invalid", "JSON object"),
]


@pytest.fixture(scope="module")
def stocked(served: HostProcess) -> tuple[Agent, Path]:
    """An agent whose memory holds `a.md` of three lines and `d/b.md`; nothing of it changes."""
    agent = Agent(SyncClient(served.home, "stocked", "claude"))
    agent("create", "/memories/a.md", file_text="one\ntwo\nthree")
    agent("create", "/memories/d/b.md", file_text="x")
    return agent, served.home / "groups/stocked"


@pytest.mark.parametrize(("command", "code", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_says_why_and_changes_nothing(
    stocked: tuple[Agent, Path], command: dict[str, Any], code: str, says: str
) -> None:
    agent, group = stocked
    before = {path: path.read_bytes() for path in group.rglob("*") if path.is_file()}
    assert len(before) == 2
    with pytest.raises(CommandFailed) as caught:
        agent.tool.run(command)
    assert (caught.value.code, says in str(caught.value)) == (code, True), str(caught.value)
    assert {path: path.read_bytes() for path in group.rglob("*") if path.is_file()} == before


def test_what_was_made_harmless_is_told(agent: Agent) -> None:
    said = agent("create", "/memories/a.md", file_text="my password is hunter2horse\r\nx")
    assert "made harmless: 1 line break, 1 secret (password). View the file." in said
    assert "hunter2horse" not in agent.text("/memories/a.md")
    assert "made harmless" in agent("str_replace", "/memories/a.md", old_str="x", new_str="\u202ex")


ALPHABET = "./\\%2ef5cE~ a\0\n\u2025\uff0e\uff0f\u202e" + string.ascii_letters


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(ALPHABET, max_size=6), max_size=4))
def test_any_path_is_a_file_or_refused(agent: Agent, asker: RawSender, parts: list[str]) -> None:
    path = "/".join(("/memories", *parts))
    group = asker.memory.parent
    with contextlib.suppress(CommandFailed):
        agent("create", path, file_text="x")
        assert agent("view", path).endswith(":\n     1\tx")
    assert {found.relative_to(group).parts[0] for found in group.rglob("*")} <= {"memory"}
    assert not [found for found in group.rglob("*") if not found.resolve().is_relative_to(group.resolve())]


# ---------------------------------------------------------------------------------------------- others at the same time


def test_two_agents_at_once_lose_nothing_of_each_other(agent: Agent, member: MakeClient) -> None:
    agent("create", "/memories/log.md", file_text="log\n")

    def write(sender: str) -> None:
        mine = Agent(member(sender))
        for number in range(8):
            while True:
                try:
                    mine("insert", "/memories/log.md", insert_line=1, insert_text=f"{sender} {number}")
                except CommandFailed as error:
                    if error.code != "conflict":
                        raise
                else:
                    break

    at_once(*(partial(write, sender) for sender in ("ann", "bob")))
    lines = agent.text("/memories/log.md").split("\n")
    assert sorted(lines[1:-1]) == sorted(f"{sender} {number}" for sender in ("ann", "bob") for number in range(8))
    for sender in ("ann", "bob"):
        assert [line for line in lines if line.startswith(sender)] == [
            f"{sender} {number}" for number in range(7, -1, -1)
        ]


def test_of_two_creators_one_hears_that_it_exists(agent: Agent, member: MakeClient) -> None:
    def create(sender: str) -> str:
        try:
            return Agent(member(sender))("create", "/memories/a.md", file_text=sender)
        except CommandFailed as error:
            return str(error.code)

    told = at_once(*(partial(create, f"s{number}") for number in range(6)))
    assert sorted(told) == ["File created successfully at: /memories/a.md", *["conflict"] * 5]
    assert agent.listed() == ["a.md"]


def test_an_editor_that_is_quicker_is_never_overwritten(
    agent: Agent, asker: RawSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent("create", "/memories/a.md", file_text="tea")
    [file] = (asker.memory.parent / "memory").rglob("*.json")
    ask = agent.client.call

    def editing(call: Any, **more: Any) -> Any:
        if call.type_name == "edit_memory":
            edited = orjson.loads(file.read_bytes()) | {"content": "tea and milk"}
            file.with_suffix(".tmp").write_bytes(orjson.dumps(edited))
            os.rename(file.with_suffix(".tmp"), file)
        return ask(call, **more)

    monkeypatch.setattr(agent.client, "call", editing)
    assert agent.refused("str_replace", "/memories/a.md", old_str="tea", new_str="coffee")[0] == "conflict"
    monkeypatch.undo()
    assert agent.text("/memories/a.md") == "tea and milk"
    agent("str_replace", "/memories/a.md", old_str="tea", new_str="coffee")
    assert agent.text("/memories/a.md") == "coffee and milk"


# ---------------------------------------------------------------------------------------------------- kills and silence


def test_an_unanswered_command_continues_when_repeated(make_host: HostFactory, client: MakeClient) -> None:
    host = make_host().start()
    agent = Agent(client("claude"))
    agent("create", "/memories/a.md", file_text="one\n")
    command = {"command": "insert", "path": "/memories/a.md", "insert_line": 1, "insert_text": "two"}
    ask = agent.client.call

    def deaf(call: Any, **more: Any) -> Any:
        answer = ask(call, **more)
        if call.type_name == "edit_memory":
            raise ReplyTimeout(more["request_id"], 0.0, waiting_in=None)  # it was done, and the reply is lost
        return answer

    object.__setattr__(agent.client, "call", deaf)
    with pytest.raises(CommandFailed, match="never applied twice") as caught:
        agent.tool.run(command)
    assert caught.value.code == "no_reply"
    agent.client.call = ask  # type: ignore[method-assign]
    host.kill()
    host.start()
    assert agent.tool.run(command) == "The file /memories/a.md has been edited."
    assert agent.text("/memories/a.md") == "one\ntwo\n"
    agent.tool.run(command)  # and once more is another insert
    assert agent.text("/memories/a.md") == "one\ntwo\ntwo\n"
    host.stop()


def test_killed_again_and_again_every_command_is_done_once(make_host: HostFactory, client: MakeClient) -> None:
    """A random story beside one that is only remembered: what the model is told and what is there are the same."""
    rng = random.Random(20251121)
    host = make_host().start()
    agent = Agent(client("claude", timeout_seconds=0.05))
    files: dict[str, list[str]] = {}
    paths = [f"/memories/{folder}{name}.md" for folder in ("", "a/", "a/b/") for name in "xy"]
    kills = Kills(host)
    kills.start()
    silent = 0
    try:
        for number in range(200):
            if number >= 30 and kills.count >= 5 and silent >= 5:
                break
            command = random_command(rng, paths, number)
            wanted = remembered(files, command)
            said = "no_reply"
            while said == "no_reply":
                try:
                    said = agent.tool.run(command)[:12]
                except CommandFailed as error:
                    said = error.code
                silent += said == "no_reply"
            assert said == wanted, (number, command)
    finally:
        kills.stop()
    assert min(kills.count, silent) >= 5
    agent.client.timeout_seconds = 10.0
    for path in paths:
        there = agent.text(path).split("\n") if path in files else agent.refused("view", path)[0]
        assert there == (["log", *files[path], ""] if path in files else "not_found")
    host.stop()


def random_command(rng: random.Random, paths: list[str], number: int) -> dict[str, Any]:
    path, other = rng.sample(paths, 2)
    match rng.randrange(8):
        case 0 | 1:
            return {"command": "create", "path": path, "file_text": "log\n"}
        case 2 | 3 | 4:
            return {"command": "insert", "path": path, "insert_line": 1, "insert_text": f"line {number}"}
        case 5:
            return {"command": "str_replace", "path": path, "old_str": "log\n", "new_str": f"log\nnew {number}\n"}
        case 6:
            return {"command": "rename", "old_path": path, "new_path": other}
        case _:
            return {"command": "delete", "path": path}


def remembered(files: dict[str, list[str]], command: dict[str, Any]) -> str:
    """Do a command on what is remembered; return the code of its error, or how its text begins."""
    path = command.get("path", command.get("old_path", ""))
    if command["command"] == "create":
        if path in files:
            return "conflict"
        files[path] = []
        return "File created"
    if path not in files:
        return "not_found"
    match command["command"]:
        case "insert":
            files[path].insert(0, command["insert_text"])
            return "The file /me"
        case "str_replace":
            files[path].insert(0, command["new_str"].split("\n")[1])
            return "The memory f"
        case "rename":
            if command["new_path"] in files:
                return "conflict"
            files[command["new_path"]] = files.pop(path)
            return "Successfully"
        case _:
            del files[path]
            return "Successfully"


class Kills(threading.Thread):
    """Kills a host and starts it again, until stopped; then the host runs."""

    def __init__(self, host: HostProcess) -> None:
        super().__init__()
        self.count = 0
        self._host = host
        self._over = threading.Event()

    def run(self) -> None:
        rng = random.Random(7)
        while not self._over.wait(rng.uniform(0.05, 0.4)):
            self._host.kill()
            self._host.start()
            self.count += 1

    def stop(self) -> None:
        self._over.set()
        self.join()


def test_without_a_host_it_says_so(home: Path) -> None:
    agent = Agent(SyncClient(home, "main", "claude", timeout_seconds=0.01))
    code, why = agent.refused("view", "/memories")
    assert (code, "does honeybadger-host run on this home?" in why) == ("no_reply", True)


def test_files_that_may_exist_are_not_called_missing(mailbox: Any, answering: Answering) -> None:
    agent = Agent(SyncClient(box=mailbox.root))
    nothing = {"entries": [], "total": 0, "folders": [], "is_complete": False}
    missing = {"code": "not_found", "message": "no entry has this name"}

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        is_list = request["type"] == "list_memory_entries"
        return {"ok": True, "result": nothing} if is_list else {"ok": False, "error": missing}

    with answering(answer):
        assert agent.refused("view", "/memories/a md")[0] == "unavailable"
        assert agent.refused("delete", "/memories/d/")[0] == "unavailable"


async def test_the_async_tool_behaves_the_same(home: Path, host: HostProcess) -> None:
    client = Client(home, "main", "claude")
    tool = AsyncMemoryTool(client)
    assert await tool.run({"command": "create", "path": "/memories/a.md", "file_text": "one\n"}) == (
        "File created successfully at: /memories/a.md"
    )
    with pytest.raises(CommandFailed, match="already exists"):
        await tool.run({"command": "create", "path": "/memories/a.md", "file_text": "x"})
    command = {"command": "insert", "path": "/memories/a.md", "insert_line": 1, "insert_text": "two"}
    ask = client.call

    async def cancelled(call: Any, **more: Any) -> Any:
        answer = await ask(call, **more)
        if call.type_name == "edit_memory":
            raise asyncio.CancelledError
        return answer

    object.__setattr__(client, "call", cancelled)
    with pytest.raises(asyncio.CancelledError):
        await tool.run(command)
    client.call = ask  # type: ignore[method-assign]
    assert await tool.run(command) == "The file /memories/a.md has been edited."
    assert (await tool.run({"command": "view", "path": "/memories/a.md"})).endswith(
        "     1\tone\n     2\ttwo\n     3\t"
    )


def test_a_command_says_that_its_write_waits_for_review(make_host: HostFactory, client: MakeClient) -> None:
    host = make_host({"memory.writes": "main=review"}).start()
    agent = Agent(client("claude"))
    for told in (
        agent("create", "/memories/plan.md", file_text="tea"),
        agent("insert", "/memories/MEMORY.md", insert_line=0, insert_text="tea"),
    ):
        assert told.startswith("It waits for review as write-")
    assert agent.refused("view", "/memories/plan.md")[0] == "not_found"
    host.stop()
