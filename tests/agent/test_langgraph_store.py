"""LangGraph's store on a real host: the cases of its own tests for a store, and what this one adds."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.conftest import MakeClient

base = pytest.importorskip("langgraph.store.base", reason="needs the extra langgraph")
from honeybadger_agent.integrations.langgraph_store import GroupStore  # noqa: E402

Namespace = tuple[str, ...]


@pytest.fixture
def store(member: MakeClient) -> GroupStore:
    return GroupStore(member("graph"))


def fill(store: GroupStore, namespaces: Sequence[Namespace]) -> None:
    puts = [base.PutOp(namespace, f"id_{n}", {"data": f"value_{n:02}"}) for n, namespace in enumerate(namespaces)]
    store.batch(puts)


MANY: list[Namespace] = [
    *(("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f")),
    *(("b", "a", "f"), ("users", "123"), ("users", "456", "settings"), ("admin", "users", "789")),
]
LISTED: list[tuple[dict[str, Any], list[Namespace]]] = [
    ({}, sorted(MANY)),
    ({"prefix": ("a", "b")}, MANY[:4]),
    ({"suffix": ("f",)}, [("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]),
    ({"prefix": ("a",), "suffix": ("f",)}, [("a", "b", "f"), ("a", "c", "f")]),
    ({"prefix": ("a", "b"), "max_depth": 3}, [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]),
    ({"prefix": ("a", "b"), "limit": 2}, MANY[:2]),
    ({"prefix": ("a", "b"), "offset": 2}, MANY[2:4]),
    ({"prefix": ("a", "*", "f")}, [("a", "b", "f"), ("a", "c", "f")]),
    ({"suffix": ("*", "f")}, [("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]),
    ({"prefix": ("users", "*")}, [("users", "123"), ("users", "456", "settings")]),
    ({"prefix": ("nonexistent",)}, []),
    ({"prefix": ("users", "123")}, [("users", "123")]),
    ({"prefix": ("*", "users"), "suffix": ("*", "settings")}, []),
    ({"max_depth": 1}, [("a",), ("admin",), ("b",), ("users",)]),
]


def test_namespaces_are_listed(store: GroupStore) -> None:
    assert store.list_namespaces() == []
    fill(store, MANY)
    for asked, wanted in LISTED:
        assert store.list_namespaces(**asked) == wanted, asked


async def test_a_forbidden_namespace_is_refused_and_others_kept(store: GroupStore) -> None:
    value = {"foo": "bar"}
    for namespace in ((), ("the", "thing.about"), ("some", "fun", ""), ("langgraph", "foo")):
        with pytest.raises(base.InvalidNamespaceError):
            store.put(namespace, "foo", value)
        with pytest.raises(base.InvalidNamespaceError):
            await store.aput(namespace, "foo", value)
    within = ("foo", "langgraph", "foo")
    await store.aput(within, "bar", value)
    found = await store.aget(within, "bar")
    assert found is not None
    assert (found.value, found.namespace, found.key) == (value, within, "bar")
    assert [item.value for item in await store.asearch(within)] == [value]
    await store.adelete(within, "bar")
    assert await store.aget(within, "bar") is None
    store.batch([base.PutOp(("langgraph", "foo"), "bar", value)])  # past the public API
    assert [item.value for item in store.search(("langgraph", "foo"))] == [value]
    store.delete(("langgraph", "foo"), "bar")
    assert store.get(("langgraph", "foo"), "bar") is None


def test_a_batch_reads_first_and_its_last_put_wins(store: GroupStore) -> None:
    store.put(("test",), "a", {"n": 1})
    results: Any = store.batch(
        [
            base.PutOp(("test",), "a", {"n": 2}),
            base.GetOp(("test",), "a"),
            base.PutOp(("test",), "a", {"n": 3}),
            base.SearchOp(("test",)),
            base.PutOp(("test",), "b", {"n": 4}),
            base.GetOp(("test",), "b"),
            base.ListNamespacesOp(),
            base.PutOp(("never",), "there", None),
        ]
    )
    assert [results[n] for n in (0, 2, 4, 5, 7)] == [None] * 5
    assert results[1].value == {"n": 1}
    assert [item.value for item in results[3]] == [{"n": 1}]
    assert results[6] == [("test",)]
    assert [item.value["n"] for item in store.search(("test",))] == [3, 4]
    with pytest.raises(ValueError, match="Unknown operation"):
        store.batch([object()])


FILTERED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "a"}, "14"),
    ({"n": {"$gt": 2}}, "34"),
    ({"n": {"$gte": 2, "$lt": 4}}, "23"),
    ({"n": {"$lte": 1}}, "1"),
    ({"kind": {"$ne": "a"}}, "23"),
    ({"kind": {"$eq": "a"}, "n": {"$gt": 1}}, "4"),
    ({"deep": {"color": "red"}}, "1"),
    ({"deep": {"size": {"$gte": 3}}}, "2"),
    ({"tags": ["x", "y"]}, "3"),
    ({"missing": 1}, ""),
]


def test_items_are_found_by_their_members(store: GroupStore) -> None:
    values = [
        {"kind": "a", "n": 1, "deep": {"color": "red", "size": 1}},
        {"kind": "b", "n": 2, "deep": {"color": "blue", "size": 3}},
        {"kind": "b", "n": 3, "tags": ["x", "y"]},
        {"kind": "a", "n": 4},
    ]
    for n, value in enumerate(values, 1):
        store.put(("f", "x" if n < 3 else "y"), str(n), value)
    for wanted, keys in FILTERED:
        assert "".join(item.key for item in store.search(("f",), filter=wanted)) == keys, wanted
    assert [item.key for item in store.search(("f",), limit=2, offset=1)] == ["2", "3"]
    assert [item.key for item in store.search(("f",), filter={"kind": "a"}, limit=1, offset=1)] == ["4"]
    assert [item.key for item in store.search(("f", "y"))] == ["3", "4"]
    assert [item.key for item in store.search((), query="ignored", limit=100)] == ["1", "2", "3", "4"]
    with pytest.raises(ValueError, match=r"Unsupported operator: \$in"):
        store.search(("f",), filter={"n": {"$in": [1]}})


def test_names_of_any_shape_come_back(store: GroupStore) -> None:
    names = ["Ann", "ann", "a_b", "a b", "é", "e\u0301", "日本", "../x", "*", "__x", " ", "K" * 100]
    names.append("https://x.org/?q=1&r=2")
    for n, name in enumerate(names):
        store.put(("Users", "ä/b", "users"), name, {"n": n})
        found = store.get(("Users", "ä/b", "users"), name)
        assert found is not None
        assert (found.key, found.namespace, found.value) == (name, ("Users", "ä/b", "users"), {"n": n})
    found_items = store.search(("Users",), limit=100)
    assert {(item.key, item.value["n"]) for item in found_items} == {(name, n) for n, name in enumerate(names)}
    assert store.search(("users",)) == []
    assert store.list_namespaces() == [("Users", "ä/b", "users")]
    with pytest.raises(ValueError, match=r"a label of .* is too long"):
        store.put(("X" * 33,), "k", {})
