"""What an entry knows about itself over the whole path: where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Invalid
from tests.conftest import HostFactory
from tests.hosting import RawSender, request, run_agent, run_cli

MakeClient = Callable[..., SyncClient]


def test_each_entry_says_where_it_comes_from_and_whether_the_host_knows(
    make_host: HostFactory, client: MakeClient, home: Path
) -> None:
    (home / "config" / "agents").mkdir(parents=True)
    (home / "config" / "agents" / "researcher.json").write_text("{}")
    memory = home / "groups" / "main" / "memory" / "trips"
    memory.mkdir(parents=True)
    (memory / "boat.json").write_text('{"content": "The boat to Texel leaves at nine"}')
    (memory / "old.json").write_text('{"content": "The boat is blue", "by": "cook", "origin": "Texel"}')
    host = make_host().start()
    own = client().save_memory("The boat to Texel needs no booking", "trips")
    page = client().save_memory(
        "The boat to Texel costs 3 EUR", "trips", origin="web", origin_from="https://example.org/texel"
    )
    said = client("cook").save_memory("The boat to Texel has a bar", "trips", origin="human")
    silent = client("cook").save_memory("The boat to Texel is slow", "trips")
    expected = {
        own.id: ("agent", False, None),
        page.id: ("web", True, "https://example.org/texel"),
        said.id: ("human", True, None),
        silent.id: (None, False, None),
        "boat": ("human", False, None),
        "old": (None, False, None),
    }
    host.kill()
    host.start()
    got = {id_: client().get_memory(id_) for id_ in expected}
    assert {id_: (one.origin, one.origin_claimed, one.origin_from) for id_, one in got.items()} == expected
    hits = client().search_memory("boat Texel", scope="entries").hits
    found = {hit.id: (hit.origin, hit.origin_claimed, hit.origin_from) for hit in hits}
    assert found == expected
    rows = client().get_context("When does the boat to Texel leave?").recalled
    recalled = {one.id: (one.origin, one.origin_claimed, one.origin_from) for one in rows if one.state == "new"}
    assert recalled.items() <= expected.items()
    assert {"boat", page.id} <= recalled.keys()
    told = run_agent("context", "--message", "When does the boat to Texel leave?", "--explain", home=home).stdout
    assert "(from: web https://example.org/texel, as claimed)" in told
    assert orjson.loads((memory / f"{page.id}.json").read_bytes())["origin_claimed"] is True
    edited = client().edit_memory("boat", content="The boat to Texel leaves at ten")
    assert (edited.origin, edited.origin_claimed) == ("agent", False)  # it is not the person's word any more
    edited = client("cook").edit_memory("old", content="The boat is green")
    assert orjson.loads((memory / "old.json").read_bytes())["origin"] == "Texel"  # a member of the person's own
    host.stop()


def test_an_origin_that_there_is_not_is_refused_and_a_place_needs_one(
    make_host: HostFactory, client: MakeClient, stranger: RawSender
) -> None:
    host = make_host().start()
    reply = stranger.ask("r", request("r", "save_memory", payload={"content": "x", "origin": "internet"}))
    assert (reply["error"]["code"], reply["error"]["field"]) == ("invalid", "payload.origin")
    with pytest.raises(Invalid, match=r"say payload\.origin, too"):
        client().save_memory("x", origin_from="https://example.org")
    saved = run_agent("save", "x", "--origin", "tool", "--from", "git log", home=host.home)
    assert saved.returncode == 0, saved.stderr
    shown = run_agent("call", "get_memory", orjson.dumps({"id": saved.stdout.split()[1]}).decode(), home=host.home)
    assert orjson.loads(shown.stdout)["result"]["origin_from"] == "git log"
    assert run_cli("doctor", home=host.home).returncode == 0
    host.stop()
