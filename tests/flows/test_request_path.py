"""The path of a request: it becomes a durable, attributed note, is answered once, and comes back as context."""

import os
import re
import time

import pytest

from honeybadger_agent import wire
from honeybadger_agent.errors import Conflict
from honeybadger_agent.tools import made
from tests.conftest import HostFactory, MakeClient
from tests.hosting import HostProcess, RawSender, assert_refused, request, wait_for


def test_handle_update_memory_creates_and_appends_memory_md_with_attribution(
    member: MakeClient, asker: RawSender
) -> None:
    assert not asker.memory.exists()
    result = member("researcher").update_memory("User prefers dark mode", "Preferences")
    assert (result.file, result.section) == ("MEMORY.md", "Preferences")
    first = asker.memory_text()
    assert re.fullmatch(
        r"\n## Preferences \(researcher, \d{4}-\d\d-\d\d \d\d:\d\d\)\n- User prefers dark mode\n", first
    )
    member("writer").update_memory("Ships on Fridays")
    second = asker.memory_text()
    assert second.startswith(first)
    assert re.fullmatch(r"\n## Notes \(writer, [\d :-]+\)\n- Ships on Fridays\n", second[len(first) :])


def test_context_holds_persona_notes_history_and_the_message(member: MakeClient, asker: RawSender) -> None:
    (asker.memory.parent / "CLAUDE.md").write_text("You keep bees.\n")
    agent = member()
    agent.update_memory("The queen is marked blue")
    agent.append_turn("user", "How many hives?")
    context = agent.get_context("And now?")
    places = [context.system.index(text) for text in ("You keep bees.", "marked blue", "[user]: How many hives?")]
    assert places == sorted(places)
    assert [(m.role, m.content) for m in context.messages] == [("user", "And now?")]
    assert {row.source for row in context.sections} >= {
        f"groups/{asker.group}/CLAUDE.md",
        f"groups/{asker.group}/MEMORY.md",
        "request",
    }
    assert not context.is_over_budget


def test_a_query_sees_every_earlier_change_of_its_group(asker: RawSender) -> None:
    for number in range(40):
        asker.note(f"a{number:03}1", f"note {number}")
        asker.drop(f"a{number:03}2", request(f"a{number:03}2", "read_group_files"))
    for number in range(40):
        memory = asker.reply(f"a{number:03}2")["result"]["memory"]
        assert f"- note {number}\n" in memory


def test_a_request_with_a_byte_order_mark_is_served(asker: RawSender) -> None:
    assert asker.ask("m1", b"\xef\xbb\xbf" + request("m1", content="from an editor"))["ok"]


def test_an_accepted_note_has_a_journal_position(asker: RawSender) -> None:
    first = asker.ask("n1", request("n1", content="one"))
    second = asker.ask("n2", request("n2", content="two"))
    assert second["seq"] == first["seq"] + 1
    assert "seq" not in asker.ask("q1", request("q1", "get_history"))


def test_a_groups_requests_are_served_in_name_order(make_host: HostFactory, stranger: RawSender) -> None:
    other = RawSender(stranger.home, "main", "other").make()
    stems = [f"{number:04}" for number in range(200)]
    for stem in reversed(stems):
        (stranger, other)[int(stem) % 2].note(stem, stem)
    make_host({"spool.pipeline.BATCH_REQUESTS": 7}).start()
    wait_for(lambda: not os.listdir(stranger.requests) and not os.listdir(other.requests))
    assert re.findall(r"^- (\d+)$", stranger.memory_text(), re.MULTILINE) == stems


def test_groups_do_not_see_each_other(asker: RawSender, member: MakeClient) -> None:
    member().update_memory("salt")
    member().append_turn("user", "pepper")
    garden = member(group=f"{asker.group}-garden")
    assert garden.read_group_files().memory is None
    assert garden.get_history().text == ""
    assert "salt" not in garden.get_context().system


def test_the_same_request_gets_the_first_reply_once(served: HostProcess, asker: RawSender) -> None:
    data = request("twice", content="only once")
    asker.ask("twice", data)
    first = asker.peek("twice")
    memory = asker.memory_text()
    asker.again("twice", data)
    assert asker.peek("twice") == first
    assert asker.memory_text() == memory

    def outcomes() -> list[str]:
        return [line["outcome"] for line in served.events("request.answered") if line["group"] == asker.group]

    wait_for(lambda: len(outcomes()) == 2)
    assert outcomes() == ["ok", "repeated"]


def test_a_reused_id_with_other_bytes_is_a_conflict(asker: RawSender, member: MakeClient) -> None:
    asker.ask("taken", request("taken", content="first"))
    memory = asker.memory_text()
    assert_refused(asker.again("taken", request("taken", content="second")), "conflict", field="id")
    assert asker.memory_text() == memory
    agent = member()
    agent.call(made(wire.UpdateMemory, "mine"), request_id="mine-1")
    with pytest.raises(Conflict, match="use a new id"):
        agent.call(made(wire.UpdateMemory, "not mine"), request_id="mine-1")


def test_a_slow_writer_without_rename_is_waited_for(make_host: HostFactory, stranger: RawSender) -> None:
    make_host({"spool.request.UNFINISHED_SECONDS": 60}).start()
    data = request("slow", content="päälle")
    with (stranger.requests / "slow.json").open("wb", buffering=0) as file:
        for at in range(0, len(data), 7):
            file.write(data[at : at + 7])
            other = f"other-{at}"
            stranger.ask(other, request(other, "ping"))  # the host looked at the box meanwhile
    assert stranger.reply("slow")["ok"] is True
    assert "- päälle\n" in stranger.memory_text()


def test_an_unfinished_file_is_refused_after_the_grace(asker: RawSender) -> None:
    began = time.monotonic()
    asker.drop("torn", request("torn", content="never finished")[:-4])
    assert_refused(asker.reply("torn"), "invalid", says="not JSON")
    assert time.monotonic() - began >= 0.3
    asker.wait_until_taken("torn")
    assert "unexpected end" in asker.reason("torn")["reason"]
