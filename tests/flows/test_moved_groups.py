"""A group that went into another home: its old home says where, and does nothing in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import cli_error, cli_text
from tests.conftest import HostFactory
from tests.hosting import HostProcess, RawSender, assert_refused, request, run_cli, wait_for

WHERE = "blue, /srv/blue on machine-2"


def moved(home: Path) -> Path:
    """Let the old home know where `shop` went; return the file."""
    mark = home / "config" / "moved" / "shop.md"
    mark.parent.mkdir()
    mark.write_text(f"{WHERE}\n")
    return mark


def test_a_moved_group_says_where_it_went(host: HostProcess, home: Path) -> None:
    shop, other = RawSender(home, "shop").make(), RawSender(home, "other").make()
    shop.do("n1", content="before it went")
    mark = moved(home)
    wait_for(lambda: "moved     shop" in cli_text("status", home=home), what="the host has read it")
    for number, (kind, members) in enumerate([("update_memory", {"content": "lost"}), ("get_context", {})]):
        reply = shop.ask(f"m{number}", request(f"m{number}", kind, payload=members))
        assert_refused(reply, "not_found", says=f"another home: {WHERE}", field="group")
    operator = RawSender(home, "shop", sender="operator").make()
    operator.say("t1", "as on the page")
    assert_refused(operator.reply("t1"), "not_found", says=f"another home: {WHERE}", field="group")
    other.do("o1", content="of another group")
    assert WHERE in run_cli("doctor", home=home).stdout
    assert "before it went" in cli_text("context", "shop", home=home)
    mark.unlink()
    wait_for(lambda: "moved     shop" not in cli_text("status", home=home), what="it is served again")
    shop.do("n2", content="it came back")
    assert "lost" not in shop.memory_text()


def test_a_moved_group_is_not_curated_until_it_returns(make_host: HostFactory, home: Path) -> None:
    boxes = [RawSender(home, group).make() for group in ("other", "shop")]  # `shop` changed last: it would be first
    with make_host({"consolidation.memory_window": 0}) as host:
        host.start()
        for box in boxes:
            for number in range(12):
                box.do(f"t{number}", "append_turn", role="user", content=f"turn {number}")
    mark = moved(home)
    make_host({"consolidation.memory_window": 4}).start()
    history = home / "groups" / "shop" / "HISTORY.md"
    wait_for((home / "groups" / "other" / "HISTORY.md").exists, what="the other group is consolidated")
    assert not history.exists()
    mark.unlink()
    wait_for(history.exists, what="it is consolidated, too")


@pytest.mark.parametrize(("words", "code"), [("consolidate shop", 9), ("dream shop", 9), ("import shop {vault}", 1)])
def test_the_operator_hears_where_a_group_went(words: str, code: int, home: Path, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("A note.\n")
    (home / "groups" / "shop").mkdir()
    moved(home)
    said = cli_error(*words.format(vault=tmp_path / "note.md").split(), home=home, code=code)
    assert f"the group shop went to another home: {WHERE}" in said
