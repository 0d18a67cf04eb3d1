"""The promises of the clients. With the real host where it can show it; `answering` stands in where it cannot."""

import inspect
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import pytest

from honeybadger_agent import AgentError, Client, ReplyTimeout, SyncClient, wire
from honeybadger_agent.errors import Invalid
from honeybadger_agent.exchange import Exchange
from honeybadger_agent.mailbox import FOLDERS, Mailbox
from honeybadger_agent.tools import made, signature_of
from honeybadger_agent.turn.dispatch import complaint_of
from tests.agent.conftest import Answering, put_reply, reply_bytes

NOTE = made(wire.UpdateMemory, "User prefers dark mode", "Preferences")
PONG = {"host_version": "9.0", "protocol": 1, "now": "2026-11-21T06:00:00.000Z"}


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def unserved(mailbox: Mailbox, timeout_seconds: float = 0.02) -> SyncClient:
    return SyncClient(box=mailbox.root, timeout_seconds=timeout_seconds)


@pytest.fixture
def sleeping(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Let something happen while the client pauses: the only way to meet its looks at known moments."""
    real = time.sleep

    def install(happens: Callable[[], None]) -> None:
        def sleep(seconds: float) -> None:
            happens()
            real(seconds)

        monkeypatch.setattr(time, "sleep", sleep)

    return install


def only_request(mailbox: Mailbox) -> str:
    [name] = names_in(mailbox.root / "requests")
    return name.removesuffix(".json")


def test_both_clients_offer_the_same_under_the_same_words() -> None:
    own = ("request", "call", "chat", "answer", "withdraw")
    types = {name for name, kind in wire.REQUEST_TYPES.items() if kind.audience != "operator"}
    for name in own:
        twins = [getattr(kind, name) for kind in (Client, SyncClient)]
        assert inspect.signature(twins[0]) == inspect.signature(twins[1]), name
        assert inspect.getdoc(twins[0]) == inspect.getdoc(twins[1]), name
    public = [{name for name in dir(kind) if not name.startswith("_")} for kind in (Client, SyncClient)]
    assert public[0] == public[1] == {*own, *types}


async def test_every_tool_is_a_method_with_its_arguments(mailbox: Mailbox, answering: Answering) -> None:
    client, sync = Client(box=mailbox.root), unserved(mailbox, 10)
    for name, kind in wire.REQUEST_TYPES.items():
        if kind.audience == "operator":
            assert not hasattr(client, name)
            continue
        for method in (getattr(client, name), getattr(sync, name)):
            assert (method.__name__, inspect.getdoc(method)) == (name, inspect.getdoc(kind))
            assert inspect.signature(method) == signature_of(kind)
        assert inspect.iscoroutinefunction(getattr(client, name))
    with answering(lambda _: {"ok": True, "result": PONG}):
        assert_type(sync.ping(), wire.PingResult)  # mypy holds it, and what follows
        assert_type(await client.ping(), wire.PingResult)
    with pytest.raises(TypeError, match="contents"):
        sync.edit_memory("x", contents="y")  # type: ignore[call-arg]


def test_a_request_answered_to_another_waiter_is_published_again(home: Path) -> None:
    mailbox = SyncClient(home, "main", "researcher").mailbox
    mailbox.publish("note-1", b"{}")
    exchange = Exchange(mailbox, "note-1", 10, again=b"{}")
    looks = exchange.looks()
    next(looks)
    mailbox.path("requests", "note-1").unlink()  # as the host does after its reply, which the other has taken
    next(looks)
    assert mailbox.waiting("note-1") == b"{}"
    mailbox.path("replies", "note-1").write_bytes(b'{"v": 1, "id": "note-1", "ok": true, "result": {}}')
    mailbox.path("requests", "note-1").unlink()
    assert list(looks) == []
    assert exchange.reply().ok
    assert mailbox.waiting("note-1") is None


def test_a_timeout_says_where_an_untaken_request_waits(mailbox: Mailbox) -> None:
    with pytest.raises(ReplyTimeout) as late:
        unserved(mailbox).update_memory("tea")
    request_id = only_request(mailbox)
    assert (late.value.request_id, "it still lies in" in late.value.state) == (request_id, True)
    assert str(late.value) == (
        f"no reply to {request_id} after 0.02 s; it still lies in {mailbox.root}/requests: does honeybadger-host run "
        f"on this home? (Asking again with request_id='{request_id}' is safe: it is never applied twice.)"
    )


def test_a_query_nobody_waits_for_any_more_is_removed(mailbox: Mailbox) -> None:
    with pytest.raises(ReplyTimeout, match=r"no host has read it .* on this home\?$") as late:
        unserved(mailbox).ping()
    assert complaint_of(late.value).endswith("does honeybadger-host run on this home?")
    assert list((mailbox.root / "requests").iterdir()) == []


def test_what_a_newer_host_adds_is_ignored(mailbox: Mailbox, answering: Answering) -> None:
    """There is no newer host yet."""
    new = {"new": {"deep": [1]}}
    turn = {"role": "user", "content": "x", "turn": 1, "at": None, **new}
    history = {"text": "", "messages": [turn], "tokens": 0, "dropped": 0, "shortened": False, **new}
    files = {"persona": None, "memory": None, "summary": None, "problems": [{"file": "a", "message": "b", **new}]}
    answers: dict[str, dict[str, Any]] = {
        "get_history": {"ok": True, "result": history, **new},
        "read_group_files": {"ok": True, "result": files},
        "ping": {"ok": False, "error": {"code": "invalid", "message": "no", **new}},
    }
    with answering(lambda request: answers[request["type"]]):
        client = unserved(mailbox, 10)
        assert client.get_history().messages == [wire.Message(role="user", content="x", turn=1)]
        assert client.read_group_files().problems == [wire.FileProblem(file="a", message="b")]
        with pytest.raises(Invalid, match=r"^no$"):
            client.ping()


NO_READER = "is not a reply this client reads"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        *((data, f"{NO_READER}: not JSON") for data in (b"SECRET", b"")),
        (b"[]", NO_READER),
        (b'{"v":1,"id":"a","ok":"SECRET"}', f"{NO_READER}: ok must be true or false"),
        (b'{"v":1,"id":"a"}', f"{NO_READER}: ok is missing"),
        ({"ok": False, "error": {"code": "SECRET", "message": "m"}}, f"{NO_READER}: error.code must be"),
        *((reply, "has neither a result nor an error") for reply in ({"ok": False}, {"ok": True})),
        ({"ok": False, "result": PONG}, "has neither a result nor an error"),
        ({"ok": True, "result": {**PONG, "protocol": "SECRET"}}, "PingResult: result.protocol must be an integer"),
        ({"ok": True, "result": {}}, "is not a PingResult: result.host_version is missing"),
    ],
)
def test_a_malformed_reply_is_an_error_without_its_content(
    mailbox: Mailbox, sleeping: Callable[[Callable[[], None]], None], answer: dict[str, Any] | bytes, says: str
) -> None:
    def arrive() -> None:
        request_id = only_request(mailbox)
        data = reply_bytes(request_id, **answer) if isinstance(answer, dict) else answer
        put_reply(mailbox, request_id, data)

    sleeping(arrive)
    with pytest.raises(AgentError) as strange:
        unserved(mailbox).ping()
    assert says in str(strange.value)
    assert "SECRET" not in str(strange.value)
    assert type(strange.value) is AgentError


@pytest.mark.parametrize("value", [{"content": object()}, {"content": "\ud800"}, {"budget": 2**70}, {1: 2}])
def test_a_payload_that_is_not_json_is_refused_locally(mailbox: Mailbox, value: Any) -> None:
    with pytest.raises(Invalid, match=r"^payload cannot be sent as JSON") as refused:
        unserved(mailbox).request("update_memory", value)
    assert refused.value.field == "payload"
    assert [names_in(mailbox.root / name) for name in FOLDERS] == [[], [], [], []]


def test_the_environment_says_where_and_who(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    assert SyncClient().mailbox.root == home / "data/ipc/main/user"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "box").mkdir()
    for name, value in (("HOME", "home"), ("GROUP", "kitchen"), ("SENDER", "cook"), ("SESSION", "dinner")):
        monkeypatch.setenv(f"HONEYBADGER_{name}", value)
    client = SyncClient()
    assert (client.mailbox.root, client.session) == (Path("home/data/ipc/kitchen/cook"), "dinner")
    monkeypatch.setenv("HONEYBADGER_BOX", "box")
    assert SyncClient().mailbox.root == Path("box")
    assert names_in(tmp_path / "box") == sorted(FOLDERS)
