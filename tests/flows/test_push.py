"""Messages pushed by a real host to programs and to a webhook of the test's own, which fails in every way."""

import contextlib
import hashlib
import hmac
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from honeybadger_agent import SyncClient
from tests.commands import cli_text
from tests.conftest import HostFactory
from tests.crash.story import read
from tests.endpoint import listening
from tests.hosting import status_of, wait_for

QUICK: dict[str, object] = {
    "work.push.FIRST_PAUSE_SECONDS": 0.05,
    "work.push.MAX_PAUSE_SECONDS": 0.2,
    "work.push.DELIVERY_SECONDS": 1.0,
    "ops.status.STATUS_SECONDS": 0.1,
}


@dataclass
class Receiver:
    """A webhook: what it was sent, and what it does with the next one."""

    url: str = ""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    does: Callable[[int], str] = lambda number: "200"

    @property
    def texts(self) -> list[str]:
        return [json.loads(body)["content"] for _, body in self.got]

    @property
    def taken(self) -> list[str]:
        """All that it said yes to, each the first time."""
        return list(dict.fromkeys(json.loads(body)["content"] for _, body in self.answered))

    answered: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    receiver, numbers, is_over = Receiver(), itertools.count(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            if len(body := self.rfile.read(length)) < length:
                return  # the host was killed while it sent
            receiver.got.append((dict(self.headers), body))
            does = receiver.does(next(numbers))
            if does == "hang":
                is_over.wait(20)
            elif does == "late":
                receiver.answered.append((dict(self.headers), body))
                is_over.wait(2)
            elif does == "cut":
                self.connection.shutdown(socket.SHUT_RDWR)
            elif does == "nonsense":
                self.wfile.write(b"x" * 5000)
            else:
                self.send_response(int(does))
                if does == "302":
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                if does == "200":
                    receiver.answered.append((dict(self.headers), body))
                if does == "500":
                    for _ in range(160):
                        self.wfile.write(b"x" * 65536)

        def handle(self) -> None:
            with contextlib.suppress(OSError):  # the host went away, as it may
                super().handle()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with listening(server) as port:
        receiver.url = f"http://127.0.0.1:{port}/hook?token=hidden"
        try:
            yield receiver
        finally:
            is_over.set()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def configure(home: Path, **members: Any) -> None:
    """Add a target to the settings, as a person does."""
    lines = ["[[messages.push]]", *(f"{name} = {json.dumps(value)}" for name, value in members.items()), ""]
    with (home / "config/honeybadger.toml").open("a") as file:
        file.write("\n".join(lines))


def status(home: Path) -> list[dict[str, Any]]:
    found = status_of(home)["push"]
    assert isinstance(found, list)
    return found


def test_a_webhook_gets_signed_messages_in_order(make_host: HostFactory, home: Path, receiver: Receiver) -> None:
    host = make_host(QUICK).start()
    ann = SyncClient(home, "main", "ann")
    ann.send_message("long ago")
    host.stop()
    (home / "key").write_text("very secret\n")
    configure(home, webhook=receiver.url, key_file="key", groups=["main"])
    host.start()
    SyncClient(home, "kitchen", "ann").send_message("not for it")
    sent = [ann.send_message(f"number {number}").seq for number in range(3)]
    wait_for(lambda: len(receiver.taken) == 3, what="three messages")
    host.stop()
    sending = threading.Thread(target=lambda: SyncClient(home, "main", "ann", timeout_seconds=50).send_message("four"))
    sending.start()
    host.start()
    sending.join()
    wait_for(lambda: "four" in receiver.texts, what="the message after a restart")
    in_order = list(dict.fromkeys(receiver.texts))  # the host may have been stopped before it kept that one was taken
    assert in_order == ["number 0", "number 1", "number 2", "four"]
    headers, body = receiver.got[0]
    value = json.loads(body)
    assert (value["seq"], value["group"], value["sender"], value["to"]) == (sent[0], "main", "ann", None)
    assert headers["Idempotency-Key"] == value["id"]
    assert headers["X-Honeybadger-Signature"] == f"sha256={hmac.new(b'very secret', body, hashlib.sha256).hexdigest()}"
    assert len({json.loads(body)["id"] for _, body in receiver.got}) == 4


def test_with_an_empty_key_nothing_is_sent(make_host: HostFactory, home: Path, receiver: Receiver) -> None:
    (home / "key").write_text(" \n")
    configure(home, webhook=receiver.url, key_file="key")
    make_host(QUICK).start()
    SyncClient(home, "main", "ann").send_message("one")
    wait_for(lambda: "key_file key is empty" in json.dumps(status(home)), what="why nothing is sent")
    assert receiver.got == []
    (home / "key").write_bytes(b" very secret\n")
    wait_for(lambda: receiver.texts, what="the message")
    headers, body = receiver.got[0]
    assert headers["X-Honeybadger-Signature"] == f"sha256={hmac.new(b'very secret', body, hashlib.sha256).hexdigest()}"


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("500", "it answers 500"),
        ("302", "it answers 302: redirects are not followed, name the new place"),
        ("nonsense", "no HTTP answer"),
        ("hang", "it took longer than 1 s"),
        ("late", "it took longer than 1 s"),
    ],
)
def test_an_unaccepted_message_is_resent_in_order(
    make_host: HostFactory, home: Path, receiver: Receiver, does: str, says: str
) -> None:
    receiver.does = lambda number: does
    configure(home, webhook=receiver.url)
    host = make_host(QUICK).start()
    ann = SyncClient(home, "main", "ann")
    first = ann.send_message("one").seq
    ann.send_message("two")

    def failed() -> bool:
        found = status(home)[0]["failed"]  # on a busy machine any attempt may take longer than the second it has
        return found is not None and (found["group"], found["seq"]) == ("main", first) and found["why"].startswith(says)

    wait_for(failed, what="the failure in the status")
    shown = cli_text("status", home=home)
    assert f"push      webhook {receiver.url.partition('?')[0]}, all groups" in shown
    assert f"message {first} of main waits for" in shown
    assert "hidden" not in shown
    wait_for(lambda: len(receiver.got) >= 2, what="another attempt")
    receiver.does = lambda number: "200"
    wait_for(lambda: receiver.texts[-1] == "two", what="the second message")
    assert receiver.texts == sorted(receiver.texts)  # "one" again and again, then "two", perhaps twice
    keys = {(text, sent["Idempotency-Key"]) for text, (sent, _) in zip(receiver.texts, receiver.got, strict=False)}
    assert [text for text, _ in sorted(keys)] == ["one", "two"]
    wait_for(lambda: status(home)[0]["failed"] is None, what="no failure any more")
    host.wait_for_event("push.recovered")
    if does == "hang":
        began = time.monotonic()
        receiver.does = lambda number: "hang"
        ann.send_message("three")
        wait_for(lambda: receiver.texts[-1] == "three", what="a third")
        host.stop()
        assert time.monotonic() - began < 20  # it does not wait for who hangs


def test_a_command_gets_messages_on_its_input(make_host: HostFactory, home: Path) -> None:
    program = home / "tell.sh"
    program.write_text("#!/bin/sh\necho no paper >&2\nexit 3\n")
    program.chmod(0o755)
    configure(home, command=[str(program), "$HOME; argument"])
    configure(home, command=["no-such-program"], groups=["main"])
    make_host(QUICK).start()
    ann = SyncClient(home, "main", "ann")
    ann.send_message("one", ["ann"])
    whys = ["exit code 3: no paper", "it cannot be run: No such file or directory"]  # or the second is over before
    wait_for(lambda: [(target["failed"] or {}).get("why") for target in status(home)] == whys, what="both failures")
    assert status(home)[0]["target"] == f"command {program}"
    program.write_text("#!/bin/sh\nsleep 300 & echo $! > child\nwait\n")
    wait_for(lambda: "longer than 1 s" in str(status(home)[0]["failed"]), what="the one that hangs")
    pid = int(wait_for(lambda: read(home / "child"), what="what it started"))
    wait_for(lambda: not is_alive(pid), what="the end of what it started")
    program.write_text('#!/bin/sh\n(cat; echo "$1") >> told\n')
    wait_for(lambda: (home / "told").exists() and (home / "told").read_text().count("\n") >= 2, what="the message")
    line, argument = (home / "told").read_text().splitlines()[:2]
    assert (json.loads(line)["content"], json.loads(line)["to"], argument) == ("one", ["ann"], "$HOME; argument")


def is_alive(pid: int) -> bool:
    stat = read(Path(f"/proc/{pid}/stat")).decode()
    return bool(stat) and stat.rpartition(")")[2].split()[0] != "Z"


def test_without_its_library_a_webhook_names_what_to_install(make_host: HostFactory, home: Path) -> None:
    configure(home, webhook="http://127.0.0.1:9/")
    host = make_host(QUICK, source="import sys; sys.modules['httpx2'] = None")
    host.launch()
    assert host.wait() == 3
    assert "needs httpx2: pip install ./honeybadger_agent '.[webhooks]'" in host.stderr.read_text()


def test_an_impossible_target_is_named_and_delays_nobody(make_host: HostFactory, home: Path) -> None:
    configure(home, webhook="https://example..org/hook")
    configure(home, command=["sh", "-c", "exit 0", "a\0b"])
    configure(home, command=["sh", "-c", "cat >> pushed"])
    host = make_host(QUICK).start()
    SyncClient(home, "main", "ann").send_message("one")
    wait_for(lambda: (home / "pushed").is_file() and "one" in (home / "pushed").read_text())
    wait_for(lambda: [target["failed"] is not None for target in status(home)] == [True, True, False])
    SyncClient(home, "main", "ann").send_message("two")
    wait_for(lambda: "two" in (home / "pushed").read_text())
    assert host.is_running
