"""An entry's knowledge of itself over the whole path: where it comes from, whether it still stands."""

from pathlib import Path

import orjson

from honeybadger_agent.wire import SaveMemory
from tests.conftest import HostFactory, MakeClient
from tests.flows.test_entries import log_of
from tests.hosting import AT_ONCE, HostProcess, RawSender, run_agent, run_cli, wait_for
from tests.people import looking


def test_each_entry_tells_its_origin(make_host: HostFactory, client: MakeClient, home: Path) -> None:
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


def test_a_superseded_entry_is_archived_until_undone(served: HostProcess, asker: RawSender, member: MakeClient) -> None:
    memory = asker.memory.parent
    old = member().save_memory("Ann drinks green tea", "drinks")
    new = member("cook").save_memory("Ann drinks coffee, no green tea", "drinks", supersedes=[old.id])
    served.kill()
    served.start()
    assert not (memory / old.file).exists()
    assert orjson.loads((memory / "archive" / old.file).read_bytes())["superseded_by"] == new.id
    got = member().get_memory(old.id)
    assert (got.archived, got.superseded_by, got.content) == (True, new.id, "Ann drinks green tea")
    assert [hit.id for hit in member().search_memory("green tea", scope="entries").hits] == [new.id]
    assert [hit.id for hit in member().search_memory("green tea", archived=True).hits] == [old.id]
    assert f"[{old.id}]" not in member().get_context("Who drinks green tea?").system
    seq = [row[0] for row in log_of(asker.home, asker.group) if row[2] == "entry_removed"]
    undone = run_cli("undo", *seq, home=asker.home)
    assert (undone.returncode, undone.stderr) == (0, "")
    assert member().get_memory(old.id).model_dump() == old.model_dump(exclude={"neutralised", "similar"})
    assert not (memory / new.file).exists()
    assert not (memory / "archive" / old.file).exists()


def test_supersedes_written_into_a_file_is_followed(make_host: HostFactory, client: MakeClient) -> None:
    host = looking(make_host(AT_ONCE))
    first, second, new = (client().save_memory(f"Ann drinks tea number {number}").id for number in (1, 2, 3))
    folder = host.home / "groups/main/memory/general"

    def edit(ids: list[str]) -> None:
        file = folder / f"{new}.json"
        file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | {"supersedes": ids}))

    edit([first, "nobody", new])
    wait_for(lambda: not (folder / f"{first}.json").exists(), what="the entry gives way")
    wait_for(lambda: len(host.events("entry.not_superseded")) == 2)
    told = {line["id"]: line["why"] for line in host.events("entry.not_superseded")}
    assert told[new] == f"{new} is this entry itself: it cannot supersede itself"
    assert told["nobody"].startswith("no entry of this group has the id nobody: search again; if it is in the archive")
    assert client().get_memory(first).superseded_by == new
    assert ("human", "entry_removed") in {row[1:] for row in log_of(host.home)}
    host.stop()
    edit([first, second])
    host.start()
    wait_for(lambda: client().get_memory(second).superseded_by == new, what="the second gives way")
    assert len(host.events("entry.not_superseded")) == 2  # what was done before is not done again
    assert [hit.id for hit in client().search_memory("Ann drinks tea", scope="entries").hits] == [new]


def test_a_repeated_save_names_the_similar_entries(served: HostProcess, asker: RawSender, member: MakeClient) -> None:
    first = member().save_memory("The boat to Texel leaves at nine")
    ten = SaveMemory(content="The boat to Texel leaves at ten")
    again = member("cook")(ten, request_id="r1")
    assert again.similar is not None
    assert [(one.id, one.what_differs) for one in again.similar] == [(first.id, "there: nine; here: ten")]
    served.kill()
    served.start()
    assert member("cook")(ten, request_id="r1") == again
    told = run_agent("save", "The boat to Texel leaves at noon", "--group", asker.group, home=asker.home)
    assert told.returncode == 0
    assert f"nearly the same is there, and stays: [{first.id}]" in told.stderr
    assert member().list_memory_categories().total == 3


def test_a_note_is_pinned_by_sender_or_person(asker: RawSender, member: MakeClient) -> None:
    member().update_memory("Ann is allergic to nuts\nand to figs", pinned=True)
    member().update_memory("Ann likes nuts (pinned)", pinned=True)
    member().update_memory("Ann sells nuts")
    memory = asker.memory
    assert memory.read_text().count("(pinned)") == 2
    memory.write_text(memory.read_text() + "\n## Plants (pinned)\n- The nuts grow behind the house.\n")
    member().save_memory("Ann plants nuts", pinned=True)

    def pinned() -> dict[str, bool]:
        return {hit.text: hit.pinned for hit in member().search_memory("nuts").hits}

    wait_for(lambda: len(pinned()) == 5)
    assert sorted(text for text, is_pinned in pinned().items() if not is_pinned) == ["- Ann sells nuts"]
    for hit in member().search_memory("nuts").hits:
        got = member().get_memory(hit.id)
        assert got.pinned == hit.pinned
        assert got.origin is None
