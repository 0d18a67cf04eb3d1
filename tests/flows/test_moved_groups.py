"""A group that went into another home: its old home says where, and does nothing in it."""

from __future__ import annotations

from pathlib import Path

from tests.commands import cli_text
from tests.hosting import HostProcess, RawSender, assert_refused, request, run_cli, wait_for

WHERE = "blue, /srv/blue on machine-2"


def test_a_moved_group_says_where_it_went(host: HostProcess, home: Path) -> None:
    shop, other = RawSender(home, "shop").make(), RawSender(home, "other").make()
    shop.do("n1", content="before it went")
    mark = home / "config" / "moved" / "shop.md"
    mark.parent.mkdir()
    mark.write_text(f"{WHERE}\n")
    wait_for(lambda: "moved     shop" in cli_text("status", home=home), what="the host has read it")
    for number, (kind, members) in enumerate([("update_memory", {"content": "lost"}), ("get_context", {})]):
        reply = shop.ask(f"m{number}", request(f"m{number}", kind, payload=members))
        assert_refused(reply, "not_found", says=f"another home: {WHERE}", field="group")
    other.do("o1", content="of another group")
    assert WHERE in run_cli("doctor", home=home).stdout
    assert "before it went" in cli_text("context", "shop", home=home)
    mark.unlink()
    wait_for(lambda: "moved     shop" not in cli_text("status", home=home), what="it is served again")
    shop.do("n2", content="it came back")
    assert "lost" not in shop.memory_text()
