"""A context as it was served; where none was, the files as they were."""

from pathlib import Path

import pytest

from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.ops.residue import scan
from honeybadger_host.text.phrases import Phrases
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory
from tests.flows.world import script
from tests.hosting import AT_ONCE, HostProcess, RawSender, assert_refused, request, run_cli
from tests.people import looking, newest_edit, settle

HELLO = {"when": "hello", "answers": [{"text": "Hello to you."}]}


@pytest.fixture
def host(make_host: HostFactory, home: Path) -> HostProcess:
    return looking(make_host(AT_ONCE | script(home, HELLO, delay_seconds=0.001)))


def test_a_context_is_shown_as_served_after_changes(host: HostProcess, stranger: RawSender) -> None:
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
    assert again["as_of"] == {**again["as_of"], "served": shown["hash"]}
    assert {**again, "as_of": None} == {**shown, "messages": [], "as_of": None}
    host.stop()
    told = cli_json("context", "main", "--as-of", shown["hash"][:12], home=host.home)
    assert (told["system"], told["as_of"]["served"]) == (shown["system"], shown["hash"])
    printed = run_cli("context", "main", "--as-of", shown["seq"], home=host.home)
    assert printed.stdout == shown["system"], printed.stderr
    assert "byte for byte what was served" in printed.stderr
    memory = cli_text("show", "main/MEMORY.md", "--as-of", shown["hash"], home=host.home)
    assert ("likes tea" in memory, "likes cake" in memory) == (True, False)
    for moment, says in (("f" * 32, "no context of main with the hash"), ("last tuesday", "is not a time")):
        refused = run_cli("context", "main", "--as-of", moment, home=host.home)
        assert (refused.returncode != 0, says in refused.stderr) == (True, True), refused.stderr


def test_an_edit_served_before_it_was_noticed_is_kept(host: HostProcess, stranger: RawSender) -> None:
    stranger.do("n1", content="likes tea")
    stranger.memory.write_text(stranger.memory_text().replace("tea", "green tea"))
    shown = stranger.do("c1", "get_context")
    assert "green tea" in shown["system"]
    stranger.do("n2", content="likes cake")
    newest_edit(host.home, "MEMORY.md")
    again = stranger.do("c2", "get_context", as_of=shown["hash"])
    assert (again["as_of"]["served"], again["system"]) == (shown["hash"], shown["system"]), again["as_of"]
    other = RawSender(host.home, "other", "stranger").make()  # is another group's
    assert_refused(other.ask("c1", request("c1", "get_context", payload={"as_of": shown["hash"]})), "not_found")


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
    (host.home / "data" / "recalled.db").unlink()
    told = run_cli("why", "main", "a1", home=host.home)
    assert (told.returncode, "likes tea" in told.stdout, "likes cake" in told.stdout) == (0, True, False), told.stderr
    assert "the files as they were" in told.stderr


def test_a_context_with_what_was_forgotten_is_removed(host: HostProcess, stranger: RawSender) -> None:
    stranger.do("n0", content="likes tea")
    earlier = stranger.do("c0", "get_context")
    stranger.do("n1", content="the code is xyzzy42")
    shown = stranger.do("c1", "get_context")
    stranger.do("n2", content="likes cake")
    stranger.do("t1", "append_turn", role="user", content="it is XYZZY42, as I said")
    later = stranger.do("c2", "get_context", parts=["conversation"])
    stranger.do("t2", "append_turn", role="user", content="nice weather")
    settle(host.home)
    assert cli_json("forget", "main", "--text", "xyzzy42", home=host.home)["left"] == []
    for gone in (shown, later):
        assert "is kept" in cli_error("context", "main", "--as-of", gone["hash"], home=host.home, code=9)
    assert cli_json("context", "main", "--as-of", earlier["hash"], home=host.home)["system"] == earlier["system"]
    again = stranger.do("c3", "get_context", as_of=str(shown["seq"]))
    assert ("likes tea" in again["system"], "xyzzy42" in again["system"]) == (True, False)


def test_the_scan_finds_a_kept_context(host: HostProcess, stranger: RawSender) -> None:
    stranger.do("n1", content="the code is xyzzy42")
    shown = stranger.do("c1", "get_context")
    host.stop()
    phrases = Phrases(["xyzzy42"])
    left = {one.file: one.form for one in scan(host.home, phrases, ())}
    assert "in its table" in left["data/recalled.db"]
    ledger = InjectionLedger(host.home)
    ledger.forget("main", (), None, lambda result, session, sender: result["hash"] == shown["hash"])
    ledger.close()
    assert "data/recalled.db" not in {one.file for one in scan(host.home, phrases, ())}


def test_where_none_was_served_the_files_are_shown(host: HostProcess, stranger: RawSender) -> None:
    stranger.do("n1", content="likes tea")
    (host.home / "groups/main/CLAUDE.md").write_text("Be brief.\n")
    edit = newest_edit(host.home, "CLAUDE.md")
    shown = stranger.do("c1", "get_context")
    assert shown["seq"] == edit.seq
    seq = stranger.ask("n2", request("n2", content="likes cake"))["seq"]
    (host.home / "groups/main/CLAUDE.md").write_text("Be long.\n")
    stranger.do("n3", content="likes pie")
    newest_edit(host.home, "CLAUDE.md", 2)
    then = stranger.do("c2", "get_context", as_of=str(seq))
    assert then["as_of"]["served"] is None
    for words, is_in in (("likes tea", True), ("likes cake", True), ("likes pie", False), ("Be brief.", True)):
        assert (words in then["system"]) == is_in, words
    at_shown = stranger.do("c3", "get_context", as_of=str(shown["seq"]))
    assert at_shown["system"] == shown["system"]
    assert stranger.do("c4", "get_context", as_of=str(seq), budget_tokens=1)["is_over_budget"] is True
