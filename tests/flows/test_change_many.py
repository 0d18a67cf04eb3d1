"""`change_many`: several changes of entries in one commit, all of them or none."""

from typing import Any

import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Conflict
from tests.commands import cli_json
from tests.conftest import MakeClient
from tests.hosting import HostProcess, RawSender


def put(name: str, content: str, **more: Any) -> dict[str, Any]:
    return {"type": "save_memory", "payload": {"content": content, "category": "store/a", "name": name} | more}


def delete(name: str) -> dict[str, Any]:
    return {"type": "delete_memory", "payload": {"category": "store/a", "name": name}}


def edit(id_: str, **more: Any) -> dict[str, Any]:
    return {"type": "edit_memory", "payload": {"id": id_, **more}}


def held(agent: SyncClient) -> dict[str | None, str | None]:
    listed = agent.list_memory_entries(category="store/a", with_content=True)
    return {row.name: row.content for row in listed.entries}


def test_all_operations_are_one_change_undone_whole(served: HostProcess, asker: RawSender, member: MakeClient) -> None:
    agent, home, group = member("ann"), served.home, asker.group
    old = agent.save_memory("marigold", category="store/a", name="c")
    gone = agent.save_memory("gone", category="store/a", name="d")
    results = agent.change_many([put("a", "1"), put("b", "2"), edit(old.id, content="new"), delete("d")]).results
    assert [one.content for one in results] == ["1", "2", "new", "gone"]
    assert [one.id == gone.id for one in results] == [False, False, False, True]
    assert held(agent) == {"a": "1", "b": "2", "c": "new"}
    changed, *others = cli_json("log", group, home=home)[:4]
    assert {row["at"] for row in others} == {changed["at"]}
    cli_json("undo", str(changed["seq"]), home=home)
    assert held(agent) == {"c": "marigold", "d": "gone"}
    cli_json("forget", group, "--text", "marigold", home=home)
    assert held(agent) == {"d": "gone"}


def test_each_operation_meets_what_those_before_it_have_changed(asker: RawSender, member: MakeClient) -> None:
    agent = member("ann")
    first = agent.save_memory("0", category="store/a", name="kept")
    operations = [
        *(put("a", "1"), put("a", "2", replace=True), delete("a"), put("a", "3"), put("never", "was here")),
        *(delete("never"), edit(first.id, name="moved"), put("kept", "anew")),
    ]
    agent.change_many(operations)
    assert held(agent) == {"a": "3", "kept": "anew", "moved": "0"}
    kinds = [(row["kind"], row["file"].rpartition("/")[2]) for row in cli_json("log", asker.group, home=asker.home)]
    assert len(kinds) == 4, "a file has one change, however often it was changed"
    with pytest.raises(Conflict, match=r"operations.1 \(save_memory\): .* has this name"):
        agent.change_many([put("x", "1"), put("x", "2")])
    assert "x" not in held(agent)
    assert len(agent.change_many([put(str(n), "x") for n in range(100)]).results) == 100
