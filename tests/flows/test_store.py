"""Programs' documents in `store/…`, and lists with texts and conditions."""

from typing import Any

import orjson

from honeybadger_agent import SyncClient
from tests.commands import cli_json
from tests.conftest import MakeClient
from tests.hosting import AT_ONCE, HostProcess, RawSender

SERVED_WITH = AT_ONCE  # else `forget` waits for seconds until the notes have settled
DOCUMENT = '{"animal":  "quokka", "n": 1.50, "hidden": "a\u200bb", "deep": {"year": 2021, "tags": ["x"]}}'


def put(agent: SyncClient, name: str, content: str, category: str = "store/zoo", **more: Any) -> None:
    agent.save_memory(content, category=category, name=name, replace=True, **more)


def test_documents_are_kept_exactly_never_recalled(served: HostProcess, asker: RawSender, member: MakeClient) -> None:
    agent = member()
    put(agent, "quokka", DOCUMENT, title="The quokka")
    agent.save_memory("a quokka without a name", category="Store/zoo")
    seen = agent.save_memory("the wombat digs", category="zoo")
    for again in range(2):  # from what is added to an index, and from what is loaded from it
        assert agent.get_memory(category="store/zoo", name="quokka").content == DOCUMENT
        assert [hit.id for hit in agent.search_memory("quokka wombat").hits] == [seen.id]
        assert [hit.id for hit in agent.search_memory(category="store/zoo").hits] == []
        context = agent.get_context("Tell me of the quokka and the wombat")
        assert [(one.id, one.state) for one in context.recalled] == [(seen.id, "new")]
        assert "quokka without" not in context.system
        listed = agent.list_memory_entries(category="store")
        assert [(row.category, row.name) for row in listed.entries] == [("store/zoo", "quokka"), ("store/zoo", None)]
        assert listed.folders[-1].total == 2
        assert agent.save_memory("a quokka without a name at all", category="zoo").similar == []
        agent.delete_memory(agent.search_memory("quokka").hits[0].id)
        if not again:
            served.restart()
    cli_json("forget", asker.group, "--text", "quokka", home=asker.home)
    assert agent.list_memory_entries(category="store").total == 0
    assert b"quokka" not in (asker.home / "data/journal.db").read_bytes()


def test_nothing_of_a_store_is_curated(asker: RawSender, member: MakeClient) -> None:
    agent = member()
    for category in ("zoo", "store/zoo"):
        agent.save_memory("The wombat of the zoo eats leaves at noon", category=category)
        agent.save_memory("The wombat of the zoo eats leaves at noon.", category=f"{category}/more")
    assert cli_json("dream", asker.group, home=asker.home)["looked_at"] == 2


def test_credentials_in_a_document_leave_it_json(member: MakeClient) -> None:
    agent = member()
    saved = agent.save_memory('{"key": "AKIAIOSFODNN7EXAMPLE", "n": 1}', category="store/zoo", name="k")
    assert saved.neutralised["secrets"] == 1
    assert orjson.loads(saved.content) == {"key": "[REDACTED:aws-key-id]", "n": 1}


def test_a_list_with_texts_pages_by_a_mebibyte(member: MakeClient) -> None:
    agent = member()
    text = '"' + "a" * 32_000 + '"'
    for n in range(40):
        put(agent, f"{n:02}", f'{{"n": {n}, "t": {text}}}', metadata={"n": n})
    found: list[tuple[str | None, object]] = []
    listed = agent.list_memory_entries(category="store/zoo", with_content=True)
    while True:
        assert 0 < len(listed.entries) < 40
        assert listed.total == 40
        assert all((row.content or "").endswith(text + "}") and row.version and row.created for row in listed.entries)
        found += [(row.name, (row.metadata or {})["n"]) for row in listed.entries]
        if not listed.has_more:
            break
        listed = agent.list_memory_entries(category="store/zoo", with_content=True, offset=len(found))
    assert found == [(f"{n:02}", n) for n in range(40)]
    assert agent.list_memory_entries(category="store/zoo", limit=2).has_more
    one = agent.list_memory_entries(category="store/zoo", name="07", with_content=True).entries[0]
    assert orjson.loads(one.content or "")["n"] == 7
    assert agent.list_memory_entries(category="store/zoo").entries[0].content is None


CONDITIONS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcde"),
    ({"content.kind": "cat"}, "ab"),
    ({"content.kind": {"$ne": "cat"}}, "cde"),
    ({"content.deep.year": {"$gt": 2020}}, "b"),
    ({"content.deep.year": {"$gte": 2020, "$lt": 2022}}, "ab"),
    ({"content.deep.year": {"$lte": 2020.0}}, "a"),
    ({"content.deep.year": "2020"}, ""),
    ({"content.kind": {"$gt": "bat"}}, "abc"),
    ({"content.flag": True}, "c"),
    ({"content.flag": 1}, ""),
    ({"content.tags": ["x", 1]}, "c"),
    ({"content.missing": None}, "abcde"),
    ({"content.kind.length": {"$gt": 1}}, ""),
    ({"metadata.owner": "ann"}, "ad"),
    ({"metadata.owner": "ann", "content.kind": "cat"}, "a"),
    ({"metadata.a.b": 1}, "e"),
]


def test_conditions_on_contents_and_metadata(asker: RawSender, member: MakeClient) -> None:
    agent = member()
    put(agent, "a", '{"kind": "cat", "deep": {"year": 2020}}', metadata={"owner": "ann"})
    put(agent, "b", '{"kind": "cat", "deep": {"year": 2021}}')
    put(agent, "c", '{"kind": "dog", "flag": true, "tags": ["x", 1]}')
    put(agent, "d", "not JSON", metadata={"owner": "ann"})
    put(agent, "e", "[1]", metadata={"a": {"b": 1}})
    for where, wanted in CONDITIONS:
        listed = agent.list_memory_entries(category="store/zoo", where=where)
        assert ("".join(row.name or "" for row in listed.entries), listed.total) == (wanted, len(wanted)), where
    listed = agent.list_memory_entries(where={"content.kind": "cat"}, limit=1, offset=1, with_content=True)
    assert (listed.total, listed.has_more, listed.entries[0].name) == (2, False, "b")
    assert agent.list_memory_entries(where={"content.kind": "cat"}, limit=1).has_more
    assert agent.list_memory_entries(category="store/zoo", name="a", where={"content.kind": "dog"}).total == 0
    path = asker.memory.parent / agent.get_memory(category="store/zoo", name="b").file
    path.write_bytes(path.read_bytes().replace(b"2021", b"1999"))
    assert agent.list_memory_entries(where={"content.deep.year": {"$lt": 2000}}).entries[0].name == "b"
