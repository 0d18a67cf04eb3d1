"""Every row of the protocol's table of errors, as the real host gives it; `rate_limited` is in `test_limits.py`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import SyncClient, wire
from honeybadger_agent.errors import NoMailbox
from honeybadger_agent.wire import ErrorCode
from tests.commands import cli_error
from tests.conftest import HostFactory
from tests.flows.refusals import REFUSED
from tests.hosting import HostProcess, RawSender, assert_refused, make_socket, request, wait_for

Item = dict[str, Any]
FOR_OPERATORS = [name for name, kind in wire.REQUEST_TYPES.items() if kind.audience == "operator"]


def _note(**members: Any) -> bytes:
    return request("x", **{"content": "never saved", **members})


# What it is -> its bytes, and what it is answered; `tests/agent/test_wire.py` has what the parser refuses.
WRONG: dict[str, tuple[bytes, ErrorCode, str | None, str]] = {
    "an unknown type": (_note(type="update_memry"), "invalid", "type", "did you mean update_memory?"),
    "another group": (_note(group="kitchen"), "forbidden", "group", "you are where you write"),
    "another sender": (_note(sender="somebody"), "forbidden", "sender", "you are where you write"),
    "a group that only looks the same": (_note(group="grоup-0"), "forbidden", "group", "you are where you write"),
    "a request over the limit": (_note(padding="a" * 262_144), "too_large", None, "262144"),
    "an unknown member that is an escape sequence": (
        request("x", payload={"content": "c", "\x1b[2J\n\u202e": 1}),
        "invalid",
        None,
        "unknown",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_told_what_where_what_now(asker: RawSender, case: str) -> None:
    data, code, field, says = WRONG[case]
    assert_refused(asker.ask("x", data), code, says=says, field=field)
    assert "never saved" not in asker.memory_text()
    asker.do("after", content="honest")


class Scene:
    """A group in which something is remembered, for requests about it that are refused."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asker = RawSender(home, "scene", "asker").make()
        self.operator = RawSender(home, "scene", "operator").make()
        self.asker.do("n", content="The badger drinks rum")
        self.asker.memory.write_text(f"{self.asker.memory_text()}\n## Rules\nBe kind to the cat.\n")
        entry = self.asker.do("e", "save_memory", content="likes tea", category="docs", name="taken.md")
        self.asker.do("t", "append_turns", turns=[{"key": "a", "role": "user", "content": "Hello"}])
        self.asker.do("w", "save_to_working_memory", key="chunked-page-1", data="x")
        session = self.asker.do("s", "update_session", add_facts=["a"])
        (note,) = self.asker.do("o", "search_memory", query="badger rum", scope="notes")["hits"]
        (typed,) = self.asker.do("q", "search_memory", query="kind cat", scope="notes")["hits"]
        ids = {"<entry>": entry["id"], "<typed>": typed["id"], "<note>": note["id"]}
        self.names = {**ids, "<version>": session["version"]}
        self.number = 0

    def named(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(name, value)
        return text

    def drop(self, type_name: str, payload: Item) -> tuple[RawSender, str]:
        """Ask for something; return who did, and under which id."""
        sender = self.operator if type_name in FOR_OPERATORS else self.asker
        self.number += 1
        stem = f"x{self.number:03}"
        about = self.names.get(payload.get("id", ""))
        data = request(stem, type_name, payload={**payload, "id": about} if about else payload)
        sender.drop(stem, data, "turns" if type_name == "chat" else "requests")
        return sender, stem

    def files(self) -> dict[Path, bytes]:
        """Return what is remembered."""
        places = [path for path in self.home.glob("data/*/scene") if path.parent.name not in ("ipc", "dead")]
        found = (path for place in (self.home / "groups", *places) for path in place.rglob("*"))
        return {path: path.read_bytes() for path in found if path.is_file()}


@pytest.fixture(scope="module")
def scene(served: HostProcess) -> Scene:
    return Scene(served.home)


@pytest.mark.parametrize("type_name", REFUSED)
def test_each_documented_refusal_says_why_and_changes_nothing(scene: Scene, type_name: str) -> None:
    rows, before = REFUSED[type_name], scene.files()
    asked = [scene.drop(type_name, payload) for payload, *_ in rows]
    for (sender, stem), (payload, code, field, says) in zip(asked, rows, strict=True):
        reply = sender.reply(stem)
        assert not reply["ok"], payload
        assert_refused(reply, code, says=scene.named(says), field=field)
    assert scene.files() == before


def test_group_global_is_reserved(served: HostProcess) -> None:
    sender = RawSender(served.home, "global", "asker").make()
    assert_refused(sender.ask("x", request("x", content="for all")), "forbidden", says="'global'", field="group")
    assert not (served.home / "groups" / "global").exists()


@pytest.mark.parametrize("name", FOR_OPERATORS)
def test_what_is_the_operators_is_refused_to_everybody_else(served: HostProcess, asker: RawSender, name: str) -> None:
    reply = asker.ask("x", request("x", name, payload={}))
    assert_refused(reply, "forbidden", says=f"only the operator may ask for {name}", field="type")


@pytest.mark.parametrize("name", ["human", "consolidator", "curator", "scheduler", "Human"])
def test_nobody_sends_under_a_reserved_name(served: HostProcess, name: str) -> None:
    sender = RawSender(served.home, "signing", name).make()
    reply = sender.ask("x", request("x", content="I am the host."))
    assert_refused(reply, "forbidden", says="is reserved for what the host itself writes down", field="sender")
    assert not (served.home / "groups" / "signing").exists()
    with pytest.raises(NoMailbox, match="is reserved for what the host itself"):
        SyncClient(served.home, "signing", name)
    assert "is reserved" in cli_error("sender", "add", "signing", name, home=served.home, code=2)


def _link(path: Path) -> None:
    path.with_name("elsewhere.txt").write_text("somebody's file\n")
    path.symlink_to("elsewhere.txt")


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a link": _link,
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a FIFO": os.mkfifo,
    "a socket": make_socket,
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_a_memory_md_that_is_no_file_is_unavailable(asker: RawSender, what: str) -> None:
    IN_THE_WAY[what](asker.memory)
    data = request("x", content="later")
    reply = asker.ask("x", data)
    assert_refused(reply, "unavailable", says="MEMORY.md")
    assert str(asker.memory.parent) not in str(reply)  # where the home lies is not the asker's business
    assert not list(asker.dead.glob("*"))
    if what == "a link":
        assert asker.memory.with_name("elsewhere.txt").read_text() == "somebody's file\n"
    # what else the group has is not affected
    asker.do("t", "append_turn", role="user", content="hi")
    files = asker.do("f", "read_group_files")
    assert files["memory"] is None
    if what != "a dangling link":
        assert [problem["file"] for problem in files["problems"]] == ["MEMORY.md"]
    asker.memory.rename(asker.memory.with_name("moved"))
    assert asker.again("x", data)["ok"] is True
    wait_for(lambda: asker.memory_text().count("later") == 1)


BROKEN = """
from honeybadger_host.handlers import conversation, notes
def broken(*_):
    raise ZeroDivisionError("a bug, for a test")
notes.render_note = broken
conversation.format_history = broken
"""


def test_a_bug_in_a_change_keeps_the_request(make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host(source=BROKEN).start()
    data = request("bug", content="unlucky")
    assert_refused(stranger.ask("bug", data), "internal", says="data/dead/")
    assert (stranger.dead / "bug.json").read_bytes() == data
    assert "ZeroDivisionError" in stranger.reason("bug")["reason"]
    (failed,) = host.events("pipeline.failed")
    assert "a bug, for a test" in failed["exception"]
    assert (failed["group"], failed["sender"], failed["id"]) == ("main", "stranger", "bug")
    stranger.do("after", "ping")
    assert not stranger.memory.exists()


def test_a_bugs_batch_neighbours_are_served(make_host: HostFactory, stranger: RawSender) -> None:
    source = BROKEN.replace("def broken(*_):", "was = notes.render_note\ndef broken(text, *more):").replace(
        "    raise", "    if text != 'bad': return was(text, *more)\n    raise"
    )
    for number in range(9):
        stranger.note(f"{number}", "bad" if number == 4 else f"good {number}")
    make_host(source=source).start()
    assert [stranger.reply(f"{number}")["ok"] for number in range(9)] == [number != 4 for number in range(9)]
    assert stranger.memory_text().count("- good") == 8
