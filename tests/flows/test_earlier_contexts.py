"""A context as it was: made of the journal again, and compared with the hash that the served one left."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from honeybadger_host.storage.edits import digest_of
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory
from tests.flows.world import script
from tests.hosting import AT_ONCE, HostProcess, RawSender, assert_refused, request, run_cli, wait_for
from tests.people import looking, newest_edit, settle

HELLO = {"when": "hello", "answers": [{"text": "Hello to you."}]}


@pytest.fixture
def host(make_host: HostFactory, home: Path) -> HostProcess:
    return looking(make_host(AT_ONCE | script(home, HELLO, delay_seconds=0.001)))


def test_a_context_is_made_again_byte_for_byte_after_all_of_it_has_changed(
    host: HostProcess, stranger: RawSender
) -> None:
    stranger.do("n1", content="likes tea")
    entry = stranger.do("e1", "save_memory", content="The badger lives in Chicago")
    stranger.do("t1", "append_turn", role="user", content="hello there")
    stranger.do("w1", "save_to_working_memory", key="draft", data="a poem", ttl_minutes=5)
    stranger.do("s1", "update_session", add_facts=["the sky is blue"])
    (host.home / "groups/main/CLAUDE.md").write_text("Be brief.\n")
    newest_edit(host.home, "CLAUDE.md")
    shown = stranger.do("c1", "get_context", message="Where does the badger live?")
    for part in ("likes tea", "Chicago", "hello there", "draft", "sky is blue", "Be brief."):
        assert part in shown["system"]

    stranger.do("n2", content="likes cake")
    stranger.do("e2", "delete_memory", id=entry["id"])
    stranger.do("t2", "append_turn", role="assistant", content="hello yourself")
    stranger.do("w2", "save_to_working_memory", key="draft", data="another", ttl_minutes=50)
    stranger.do("s2", "update_session", add_facts=["the sky is grey"])
    (host.home / "groups/main/CLAUDE.md").write_text("Be long.\n")
    (host.home / "AGENT.md").write_text("For all.\n")
    newest_edit(host.home, "CLAUDE.md")
    newest_edit(host.home, "AGENT.md")
    later = stranger.do("c2", "get_context", message="Where does the badger live?")
    assert later["hash"] != shown["hash"]

    again = stranger.do("c3", "get_context", as_of=shown["hash"])
    assert again["as_of"] == {**again["as_of"], "is_identical": True, "served": shown["hash"], "why": []}
    assert again["system"] == shown["system"]
    host.stop()
    told = cli_json("context", "main", "--as-of", shown["hash"][:12], home=host.home)
    assert (told["system"], told["as_of"]["is_identical"]) == (shown["system"], True)
    printed = run_cli("context", "main", "--as-of", shown["seq"], home=host.home)
    assert printed.stdout == shown["system"], printed.stderr
    assert "byte for byte what was served" in printed.stderr
    memory = cli_text("show", "main/MEMORY.md", "--as-of", shown["hash"], home=host.home)
    assert ("likes tea" in memory, "likes cake" in memory) == (True, False)
    for moment, says in (("f" * 32, "no context of main with the hash"), ("last tuesday", "is not a time")):
        refused = run_cli("context", "main", "--as-of", moment, home=host.home)
        assert (refused.returncode != 0, says in refused.stderr) == (True, True), refused.stderr


def test_a_context_of_a_host_that_had_more_settings_is_made_with_the_settings_of_then(
    host: HostProcess, stranger: RawSender
) -> None:
    stranger.do("s1", "update_session", add_facts=["the sky is blue"])
    shown = stranger.do("c1", "get_context")
    host.stop()
    served = host.home / "data" / "served.jsonl"
    once = '"is":"{\\"counter\\":\\"estimate\\",\\"max_file_bytes\\":1048576,\\"budget'
    of_then = served.read_text().replace('"is":"{\\"budget', once)
    assert of_then != served.read_text()
    served.write_text(of_then)
    (host.home / "config" / "honeybadger.toml").write_text("[document]\nin_context = false\n[tokens]\n")
    told = cli_json("context", "main", "--as-of", shown["hash"], home=host.home)
    assert (told["system"], told["as_of"]["is_identical"]) == (shown["system"], True)


def test_an_edit_that_was_served_before_the_host_noticed_it_is_in_the_context_of_then(
    host: HostProcess, stranger: RawSender
) -> None:
    stranger.do("n1", content="likes tea")
    stranger.memory.write_text(stranger.memory_text().replace("tea", "green tea"))
    shown = stranger.do("c1", "get_context")
    assert "green tea" in shown["system"]
    stranger.do("n2", content="likes cake")
    newest_edit(host.home, "MEMORY.md")
    again = stranger.do("c2", "get_context", as_of=shown["hash"])
    assert (again["as_of"]["is_identical"], again["system"]) == (True, shown["system"]), again["as_of"]


def test_an_answer_keeps_the_context_it_was_given_from(host: HostProcess, stranger: RawSender) -> None:
    stranger.do("n1", content="likes tea")
    reply = stranger.chat("a1", "hello")
    stranger.do("n2", content="likes cake")
    for turn in (reply["result"]["turn"], "a1"):
        told = run_cli("why", "main", turn, home=host.home)
        assert (told.returncode, "likes tea" in told.stdout, "likes cake" in told.stdout) == (0, True, False)
        assert "byte for byte what was served" in told.stderr
    assert "turn 1 of main keeps no context" in cli_error("why", "main", 1, home=host.home, code=9)
    host.stop()
    (host.home / "data" / "served.jsonl").unlink()
    told = run_cli("why", "main", "a1", home=host.home)
    assert (told.returncode, "likes tea" in told.stdout) == (0, True), told.stderr
    assert "no context of this session was served at that moment" in told.stderr


def test_what_nobody_saw_is_said_and_not_guessed(host: HostProcess, stranger: RawSender) -> None:
    persona = host.home / "groups/main/CLAUDE.md"
    edits = itertools.count()

    def unseen() -> dict[str, Any]:
        number = next(edits)
        persona.write_text(f"Be brief, {number}.\n")
        shown = stranger.do(f"s{number}", "get_context")
        persona.write_text(f"Be long, {number}.\n")  # before anybody looked, unless the machine is busy
        now = digest_of(persona.read_bytes())
        wait_for(lambda: newest_edit(host.home, "CLAUDE.md").after == now)
        again = stranger.do(f"a{number}", "get_context", as_of=shown["hash"])
        return {} if again["as_of"]["is_identical"] else again

    again = wait_for(unseen)
    assert [why for why in again["as_of"]["why"] if why.startswith("groups/main/CLAUDE.md: ")]


def test_what_was_forgotten_is_in_no_context_of_then(host: HostProcess, stranger: RawSender) -> None:
    stranger.do("n1", content="the code is xyzzy42")
    stranger.do("t1", "append_turn", role="user", content="xyzzy42 it is")
    stranger.do("t2", "append_turn", role="user", content="nice weather")
    stranger.do("w1", "save_to_working_memory", key="code", data="xyzzy42")
    shown = stranger.do("c1", "get_context")
    assert shown["system"].count("xyzzy42") >= 2
    settle(host.home)
    forget = ("forget", "main", "--text", "xyzzy42")
    wait_for(lambda: run_cli(*forget, home=host.home).returncode == 0, what="nothing left")
    again = stranger.do("c2", "get_context", as_of=str(shown["seq"]))
    told = run_cli("context", "main", "--as-of", shown["hash"], home=host.home)
    assert "xyzzy42" not in again["system"] + told.stdout
    assert "nice weather" in again["system"]
    assert again["as_of"]["is_identical"] is not True


def test_another_group_is_not_asked_of(host: HostProcess, stranger: RawSender) -> None:
    shown = stranger.do("c1", "get_context")
    other = RawSender(host.home, "other", "stranger").make()
    assert_refused(other.ask("c1", request("c1", "get_context", payload={"as_of": shown["hash"]})), "not_found")


def test_what_was_recalled_of_talk_and_notes_is_recalled_again(host: HostProcess, stranger: RawSender) -> None:
    _said(stranger, "t1", "The weasel moved to Lisbon")
    stranger.do("n1", content="The weasel eats Gouda")
    memory = host.home / "groups/main/MEMORY.md"
    memory.write_text(memory.read_text().replace("eats Gouda", "eats old Gouda"))
    newest_edit(host.home, "MEMORY.md")
    message = "What does the weasel of caroline eat, and did it move to Lisbon?"
    shown = wait_for(
        lambda: found if "old Gouda" in (found := _asked(stranger, message))["system"] else None, what="the edit"
    )
    assert shown is not None
    assert {row["kind"] for row in shown["recalled"]} == {"turn", "note"}
    (line,) = [line for line in shown["system"].splitlines() if "old Gouda" in line]
    assert not line.split("): ")[0].endswith("stranger")

    _said(stranger, "t2", "The weasel of caroline moved to Porto")
    memory.write_text("The weasel eats all\n")
    newest_edit(host.home, "MEMORY.md")
    again = stranger.do("c9", "get_context", as_of=shown["hash"])
    assert again["as_of"] == {**again["as_of"], "is_identical": True, "why": []}
    assert again["system"] == shown["system"]


def _asked(stranger: RawSender, message: str) -> dict[str, Any]:
    return stranger.do(f"c{next(_NUMBERS)}", "get_context", message=message, parts=["recalled"])


def _said(stranger: RawSender, stem: str, content: str) -> None:
    payload = {"role": "user", "sender": "caroline", "content": content}
    assert stranger.ask(stem, request(stem, "append_turn", session="spring", payload=payload))["ok"]


_NUMBERS = itertools.count(100)
