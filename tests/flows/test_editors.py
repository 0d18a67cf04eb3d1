"""People's editors and the host write the same file; nobody's words are lost."""

from __future__ import annotations

import os

import pytest

from honeybadger_host.storage.home import JOURNAL_FILE
from honeybadger_host.storage.journal_reader import glance
from tests.conftest import HostFactory
from tests.hosting import HostProcess, RawSender, assert_refused, request, run_cli, wait_for


@pytest.mark.parametrize("is_killed", [True, False], ids=["kill", "stop"])
def test_an_editors_older_save_after_a_restart_drops_no_acknowledged_note(
    make_host: HostFactory, stranger: RawSender, is_killed: bool
) -> None:
    host = make_host({"storage.projections.SETTLE_SECONDS": 1}).start()
    assert stranger.ask("a", request("a", content="first"))["ok"] is True
    read_by_the_editor = stranger.memory_text()
    assert stranger.ask("b", request("b", content="second"))["ok"] is True
    if is_killed:
        host.kill()
        host.start()
    else:
        host.stop()
    saved = stranger.memory.with_suffix(".swp")
    saved.write_text(f"A person's line.\n{read_by_the_editor}")
    os.rename(saved, stranger.memory)
    if not is_killed:
        host.start()
    wait_for(lambda: stranger.memory_text().count("- second\n") == 1)
    assert stranger.memory_text().startswith("A person's line.\n")
    assert stranger.memory_text().count("- first\n") == 1
    host.stop()


def wait_until_settled(host: HostProcess, seq: int) -> None:
    wait_for(lambda: glance(host.home / JOURNAL_FILE).projected_seq >= seq, what="everything settled")


@pytest.mark.parametrize("is_served", [True, False])
def test_a_note_that_left_memory_md_is_brought_back_once_by_undo(
    make_host: HostFactory, stranger: RawSender, is_served: bool
) -> None:
    host = make_host({"storage.projections.SETTLE_SECONDS": 0.2}).start()
    for stem in ("a", "b"):
        assert stranger.ask(stem, request(stem, content=f"note {stem}"))["ok"] is True
    standing = run_cli("undo", 2, home=host.home)
    assert (standing.returncode, "take it out of MEMORY.md" in standing.stderr) == (1, True)
    wait_until_settled(host, 2)
    whole = stranger.memory_text()
    stranger.memory.write_text(whole[: whole.rindex("\n## ")])
    if not is_served:
        host.stop()
    undone = run_cli("undo", 2, home=host.home)
    assert (undone.returncode, undone.stderr) == (0, "")
    assert undone.stdout == "groups/main/MEMORY.md: restored; change 3 undoes 2\n"
    assert stranger.memory_text() == whole  # with its author and its time
    assert run_cli("undo", 2, home=host.home).returncode == 1
    if not is_served:
        host.start()
    stranger.memory.write_text("A line above.\n" + whole)
    assert stranger.ask("c", request("c", content="note c"))["ok"] is True
    wait_until_settled(host, 4)
    assert [stranger.memory_text().count(f"- note {stem}\n") for stem in "abc"] == [1, 1, 1]
    host.stop()


def test_undoing_a_note_twice_in_one_batch_brings_it_back_once(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host({"storage.projections.SETTLE_SECONDS": 0.2}).start()
    assert stranger.ask("a", request("a", content="note a"))["ok"] is True
    wait_until_settled(host, 1)
    stranger.memory.unlink()
    host.stop()
    operator = RawSender(host.home, sender="operator").make()
    for stem in ("u1", "u2"):
        operator.drop(stem, request(stem, "undo", payload={"seq": 1}))
    host.start()
    assert [operator.reply(stem)["ok"] for stem in ("u1", "u2")] == [True, False]
    assert stranger.memory_text().count("- note a\n") == 1
    host.stop()


def test_a_note_that_has_not_settled_is_not_undone_but_put_back(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host().start()
    operator = RawSender(host.home, sender="operator").make()
    assert stranger.ask("a", request("a", content="note a"))["ok"] is True
    stranger.memory.unlink()
    reply = operator.ask("u", request("u", "undo", payload={"seq": 1}))
    assert_refused(reply, "conflict" if "too new" in str(reply) else "invalid")  # it is quick, or already there again
    wait_for(lambda: stranger.memory_text().count("- note a\n") == 1)
    host.stop()
