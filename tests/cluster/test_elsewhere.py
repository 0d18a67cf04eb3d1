"""Agents on machines without a host: a key of the servers says who somebody is."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import nats.aio.client
import nats.errors
import orjson
import pytest

from honeybadger_agent.client import SyncClient
from honeybadger_agent.errors import Forbidden, NoMailbox, ReplyTimeout, TooLarge, Unavailable
from honeybadger_agent.mailbox import Mailbox
from honeybadger_agent.relay import BOX_HEADER, ID_HEADER, MAX_BYTES
from honeybadger_host.cluster.lease import LEASE_SECONDS
from honeybadger_host.cluster.log import Names
from honeybadger_host.cluster.operating import agent_lines, host_lines, make_key
from honeybadger_host.cluster.servers import Servers as Connection
from tests.agent.mcp_story import tool_called
from tests.cluster.machines import Cluster, Machine
from tests.cluster.servers import Server, Servers, reached
from tests.commands import cli_error, cli_json
from tests.hosting import AGENT, RawSender, assert_refused, request, run_agent, run_cli, wait_for


@dataclass
class Guarded:
    """A home that two machines keep, behind a server that knows keys."""

    cluster: Cluster
    folder: Path
    keys: dict[str, str]  # the public half of each, by who has it

    @property
    def url(self) -> str:
        return self.cluster.servers.urls[0]

    @property
    def machines(self) -> tuple[Machine, Machine]:
        a, b = self.cluster.machines
        return a, b

    def let_in(self, *senders: str) -> None:
        """Let the server know the host and these senders, and nobody else."""
        lines = host_lines(self.keys["host"])
        for name in senders:
            lines += agent_lines(self.keys[name], self.cluster.identity, "main", name)
        users = "\n".join(lines)
        self.cluster.servers.all[0].reload(f"authorization {{ users: [\n{users}\n] }}")

    def seed(self, sender: str) -> str:
        return str(self.folder / f"{sender}.seed")

    def client(self, sender: str, **options: Any) -> SyncClient:
        usual: dict[str, Any] = {"server": self.url, "home": self.cluster.identity, "group": "main", "sender": sender}
        return SyncClient(**usual | {"credentials": self.seed(sender)} | options)

    def arguments(self, sender: str) -> list[str]:
        where = ["--server", self.url, "--home", self.cluster.identity, "--credentials", self.seed(sender)]
        return [*where, "--group", "main", "--sender", sender]

    def ask(self, sender: str, work: Callable[[nats.aio.client.Client], Any]) -> Any:
        """Do something on a bare connection with a sender's key."""

        async def connected() -> Any:
            said: list[str] = []

            async def note(error: Exception) -> None:
                said.append(str(error))

            inbox = f"_INBOX.main.{sender}"
            client = await nats.connect(self.url, nkeys_seed=self.seed(sender), error_cb=note, inbox_prefix=inbox)
            try:
                found = await work(client)
                await client.flush()
                return found, said
            finally:
                await client.close()

        return asyncio.run(connected())


@pytest.fixture
def guarded(made: Callable[..., Cluster], tmp_path: Path) -> Guarded:
    host = make_key(tmp_path / "host.seed")
    servers = Servers(tmp_path / "servers", 1, f"authorization {{ users: [ {{ nkey: {host} }} ] }}")
    settings = {"cluster.credentials": str(tmp_path / "host.seed")}
    names = ("scout", "spy", "stranger")
    keys = {"host": host, **{name: make_key(tmp_path / f"{name}.seed") for name in names}}
    guarded = Guarded(made("a", "b", servers=servers, settings=settings), tmp_path, keys)
    guarded.let_in("scout", "spy")
    guarded.cluster.begin()
    return guarded


def notes(machine: Machine, *texts: str) -> list[int]:
    found = machine.box.memory_text()
    return [found.count(f"{text}\n") for text in texts]


@contextlib.contextmanager
def relayed(arguments: Sequence[str], sender: str, folder: Path) -> Iterator[RawSender]:
    """Carry a folder elsewhere with the command."""
    box = RawSender(folder, sender=sender).make()
    with (folder / "said").open("wb") as said:
        command = [*AGENT, "relay", "--box", str(box.root), *arguments]
        child = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield box
    finally:
        child.terminate()
        assert child.wait(30) == 0, (folder / "said").read_text()


def test_notes_from_elsewhere_survive_a_killed_owner_once(guarded: Guarded) -> None:
    a, b = guarded.machines
    scout = guarded.client("scout", timeout_seconds=60)
    assert scout.update_memory("one of the client").file == "MEMORY.md"
    with relayed(guarded.arguments("spy"), "spy", guarded.folder / "elsewhere") as box:
        box.do("n1", content="one of the folder")
        box.wait_until_taken("n1")
        a.host.kill()
        box.note("n2", "two of the folder")
        server = [*AGENT, "mcp", "--timeout", "60", *guarded.arguments("scout")]
        tool_called(server, "update_memory", "one of MCP")
        scout.request("update_memory", {"content": "two of the client"}, request_id="c2")
        said = run_agent("remember", "one of the command", *guarded.arguments("scout"))
        assert said.returncode == 0, said.stderr
        assert box.reply("n2")["ok"]
        again = scout.request("update_memory", {"content": "two of the client"}, request_id="c2")
        assert again.ok
        wait_for(lambda: b.events("host.started"), what="b owns the home")
        texts = [f"{number} of the {kind}" for kind in ("client", "folder") for number in ("one", "two")]
        assert notes(b, *texts, "one of the command", "one of MCP") == [1] * 6
    assert "scout" in b.box.memory_text()
    assert not (guarded.folder / "data").exists()


def test_a_key_cannot_act_as_or_hear_another(guarded: Guarded) -> None:
    a, _ = guarded.machines
    identity, headers = guarded.cluster.identity, {BOX_HEADER: "requests", ID_HEADER: "n1"}
    with pytest.raises(Forbidden, match="may not ask as scout in main"):
        guarded.client("scout", credentials=guarded.seed("spy")).update_memory("a forged note")
    with pytest.raises(Forbidden, match="may not ask as spy in other"):
        guarded.client("spy", group="other").update_memory("a forged note")
    subjects = [
        *(f"hb.{identity}.{last}" for last in ("ask.main.scout", "ask.*.*", "ask.main.>", "ask.other.spy", "log.x")),
        *(f"hb.{identity}.{last}" for last in ("lease", "move", "who", "ask.main.spy.more")),
        *(f"$JS.API.STREAM.{verb}.HB_{identity}" for verb in ("INFO", "PURGE", "DELETE")),
        *("$JS.API.INFO", "_INBOX.main.scout.x", "_INBOX.x.y"),
    ]
    heard = [f"_INBOX.{last}" for last in (">", "*.*.*", "main.scout.>")] + [f"hb.{identity}.>", ">", "$JS.>"]

    async def try_all(client: nats.aio.client.Client) -> None:
        for subject in subjects:
            await client.publish(subject, request("n1"), headers=headers)
        for subject in heard:
            await client.subscribe(subject)
        await client.flush()

    _, said = guarded.ask("spy", try_all)
    assert len([one for one in said if "publish" in one.lower()]) == len(subjects), said
    assert len([one for one in said if "subscription" in one.lower()]) == len(heard), said
    assert not a.box.memory.exists()
    assert not (a.home / "data" / "ipc" / "main" / "scout").exists()


def test_a_reply_goes_nowhere_but_into_an_inbox(guarded: Guarded) -> None:
    """The owner may publish everywhere, and who asks names the subject of the reply: it could be the log."""
    a, _ = guarded.machines
    identity = guarded.cluster.identity

    async def misdirect(client: nats.aio.client.Client) -> None:
        for number, reply in enumerate((f"hb.{identity}.log.x", f"$JS.API.STREAM.DELETE.HB_{identity}", "x", "")):
            headers = {BOX_HEADER: "requests", ID_HEADER: f"n{number}"}
            subject = f"hb.{identity}.ask.main.spy"
            await client.publish(subject, request(f"n{number}"), reply=reply, headers=headers)
        for headers in ({}, {ID_HEADER: "../x", BOX_HEADER: "requests"}, {ID_HEADER: "x", BOX_HEADER: "replies"}):
            with pytest.raises(nats.errors.TimeoutError):
                await client.request(f"hb.{identity}.ask.main.spy", b"\x00\xff", timeout=0.3, headers=headers)

    guarded.ask("spy", misdirect)
    wait_for(lambda: a.events("cluster.not_taken") == 7, what="all are refused")
    garbage = {BOX_HEADER: "requests", ID_HEADER: "g"}

    async def send_garbage(client: nats.aio.client.Client) -> bytes:
        answer = await client.request(f"hb.{identity}.ask.main.spy", b"\x00\xff{", timeout=20, headers=garbage)
        return bytes(answer.data)

    found, _ = guarded.ask("spy", send_garbage)
    assert orjson.loads(found)["error"]["code"] == "invalid"
    assert guarded.client("spy").update_memory("all is well").file
    assert a.host.is_running, "nothing took the place of its next record"
    assert a.command("verify").startswith("ok: ")


def test_a_linked_inbox_lets_nobody_ask_as_another(guarded: Guarded) -> None:
    a, _ = guarded.machines
    guarded.client("scout").update_memory("of the scout")
    scout, spy = RawSender(a.home, sender="scout"), RawSender(a.home, sender="spy").make()
    spy.requests.rmdir()
    spy.requests.symlink_to(scout.requests)
    with pytest.raises(ReplyTimeout):
        guarded.client("spy", timeout_seconds=3).update_memory("forged")
    assert a.events("cluster.not_taken")
    assert notes(a, "of the scout", "forged") == [1, 0]


def test_an_unanswered_request_says_why_and_is_done_once(guarded: Guarded) -> None:
    a, b = guarded.machines
    client = guarded.client("scout", timeout_seconds=1.0)
    with pytest.raises(TooLarge):
        client.update_memory("x" * (MAX_BYTES + 1))
    refused = run_agent("remember", "x", *guarded.arguments("stranger"))
    assert refused.returncode == 1
    assert "unavailable: the servers nats://" in refused.stderr
    assert "credentials are not accepted" in refused.stderr
    with pytest.raises(NoMailbox, match="identity of the home"):
        guarded.client("scout", home="/srv/home")
    begun = time.monotonic()
    with pytest.raises(Unavailable, match=r"nats://127\.0\.0\.1:1, nats://127\.0\.0\.1:2.*Connect call failed"):
        guarded.client("scout", server="nats://127.0.0.1:1,nats://127.0.0.1:2", timeout_seconds=60).ping()
    assert time.monotonic() - begun < 30, "it is known at once"
    b.host.stop()
    a.host.stop()
    with pytest.raises(Unavailable, match="no host owns the home"):
        client.request("update_memory", {"content": "asked again"}, request_id="n1")
    a.own()
    a.host.send_signal(signal.SIGSTOP)
    with pytest.raises(ReplyTimeout, match="a host may have taken it"):
        client.request("update_memory", {"content": "asked again"}, request_id="n1", timeout_seconds=3.0)
    a.host.send_signal(signal.SIGCONT)
    reply = client.request("update_memory", {"content": "asked again"}, request_id="n1", timeout_seconds=60)
    if not a.host.is_running:  # it had been still for too long, and ends
        a.own()
        reply = client.request("update_memory", {"content": "asked again"}, request_id="n1", timeout_seconds=60)
    assert reply.ok
    assert notes(a, "asked again") == [1]
    guarded.cluster.servers.all[0].kill()
    with pytest.raises((Unavailable, ReplyTimeout)):
        client.ping()


def test_a_withdrawn_key_refuses_nothing_possibly_taken(guarded: Guarded) -> None:
    a, b = guarded.machines
    said = guarded.folder / "elsewhere" / "said"
    with relayed(guarded.arguments("spy"), "spy", said.parent) as box:
        box.do("n0", content="the first note")
        a.host.send_signal(signal.SIGSTOP)
        box.note("n1", "a note")
        wait_for(lambda: b"from the host that owns" in said.read_bytes(), what="nobody answered")
        guarded.let_in("scout")
        wait_for(lambda: b"uthorization" in said.read_bytes(), what="the key is not let in")
        box.note("n2", "not sent")
        assert_refused(box.reply("n2"), "unavailable")
        assert box.peek("n1") is None
        guarded.let_in("scout", "spy")
        a.host.send_signal(signal.SIGCONT)
        assert box.reply("n1")["ok"]
    wait_for(lambda: b.events("host.started") or a.host.is_running, what="somebody owns the home")
    assert max(notes(machine, "a note") for machine in guarded.machines) == [1]


def test_a_sender_over_its_share_waits_alone(guarded: Guarded) -> None:
    a, b = guarded.machines
    for machine in (b, a):
        machine.host.stop()
        machine.host.settings |= {"cluster.forwarding.REQUESTS_PER_SECOND": 0.001}
    a.own()
    guarded.client("spy").update_memory("the first")
    with pytest.raises(ReplyTimeout):
        guarded.client("spy", timeout_seconds=5).update_memory("over its share")
    guarded.client("scout").update_memory("of another")
    assert [notes(a, text) for text in ("the first", "over its share", "of another")] == [[1], [0], [1]]


FLOOD = """
import asyncio, sys, time
import nats
from honeybadger_agent.relay import BOX_HEADER, ID_HEADER

async def flood(url, seed, subject, seconds):
    client = await nats.connect(url, nkeys_seed=seed)
    until, number = time.monotonic() + float(seconds), 0
    while time.monotonic() < until:
        for number in range(number + 1, number + 51):
            headers = {BOX_HEADER: "requests", ID_HEADER: f"f{number}"}
            await client.publish(subject, b"{" * 1000, reply="_INBOX.main.spy.f", headers=headers)
        await client.flush(60)
    await client.close()

asyncio.run(flood(*sys.argv[1:]))
"""


def test_an_owner_that_is_flooded_keeps_the_lease(guarded: Guarded) -> None:
    a, b = guarded.machines
    subject = f"hb.{guarded.cluster.identity}.ask.main.spy"
    where = [guarded.url, guarded.seed("spy"), subject, str(4 * LEASE_SECONDS)]
    # with little priority, as a flood comes from elsewhere; with the least it would not begin on a busy machine
    floods = [subprocess.Popen(["nice", "-n", "5", sys.executable, "-c", FLOOD, *where]) for _ in range(2)]
    assert [flood.wait(60) for flood in floods] == [0, 0]
    assert a.box.make().ask("n1", request("n1", content="behind the flood"))["ok"]
    assert (a.events("cluster.owns"), b.events("cluster.owns")) == (1, 0)
    assert a.host.is_running


def test_new_keys_let_in_their_host_or_agent_only(guarded: Guarded) -> None:
    a, _ = guarded.machines
    lines = host_lines(guarded.keys["host"])
    for name, arguments in (("second", ()), ("drone", ("main", "drone"))):
        path = guarded.folder / f"{name}.seed"
        made = cli_json("cluster", "key", *arguments, "--to", path, "--json", home=a.home)
        assert (path.stat().st_mode & 0o777, made["file"]) == (0o600, str(path))
        assert cli_json("cluster", "key", *arguments, "--to", path, "--json", home=a.home) == made, "it stays"
        lines += made["lines"]
    users = "\n".join(lines)
    guarded.cluster.servers.all[0].reload(f"authorization {{ users: [\n{users}\n] }}")
    with closing(reached(lambda: Connection([guarded.url], guarded.seed("second")))) as servers:
        assert reached(lambda: servers.end_of(Names(guarded.cluster.identity).stream)) is not None
    assert guarded.client("drone").update_memory("of the drone").file
    with pytest.raises(Forbidden):
        guarded.client("scout", credentials=guarded.seed("drone")).update_memory("forged")
    for wrong in (("main",), ("main", "no name!"), ("no group!", "drone")):
        assert run_cli("cluster", "key", *wrong, home=a.home).returncode == 2
    (guarded.folder / "mine").touch(0o600)
    (guarded.folder / "mine").write_text("something else")
    assert "no seed" in cli_error("cluster", "key", "--to", guarded.folder / "mine", home=a.home, code=4)
    assert (guarded.folder / "mine").read_text() == "something else"


def test_a_closed_home_serves_a_known_senders_key(guarded: Guarded) -> None:
    a, b = guarded.machines
    b.host.stop()
    a.host.stop()
    a.host.settings |= {"ipc.closed": True}
    assert run_cli("sender", "add", "main", "scout", home=a.home).returncode == 0
    a.own()
    assert guarded.client("scout").update_memory("of one who is known").file
    with pytest.raises(Forbidden, match="does not know spy in main"):
        guarded.client("spy").update_memory("of one who is not")
    assert not (a.home / "data" / "ipc" / "main" / "spy").exists()


def leader_of(servers: Servers, stream: str) -> Server:
    """Return the server that leads a stream, once they have chosen one."""

    def chosen() -> list[Server]:
        with closing(Connection([server.url for server in servers.all if server.is_listening()])) as asked:
            info = orjson.loads(asked.ask(f"$JS.API.STREAM.INFO.{stream}", b"") or b"{}")
        return [server for server in servers.all if server.folder.name == info.get("cluster", {}).get("leader")]

    return wait_for(lambda: reached(chosen), what="a leader")[0]


def test_killing_servers_in_turn_does_each_request_once(made: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = made("a", count=3)
    servers, (a,) = cluster.servers, cluster.machines
    where: dict[str, Any] = {"server": ",".join(servers.urls), "home": cluster.identity, "group": "main"}
    arguments = [*(f"--{name}={value}" for name, value in where.items()), "--sender", "folder"]
    a.own()
    client = SyncClient(**where, sender="scout", timeout_seconds=60)
    with relayed(arguments, "folder", tmp_path / "elsewhere") as box:
        for name in ("n0", "n1", "n2"):
            leader = leader_of(servers, Names(cluster.identity).stream)
            other = next(server for server in servers.all if server is not leader)
            killed = {"n0": None, "n1": other, "n2": leader}[name]
            if killed is not None:
                killed.kill()
            box.note(name, f"{name} of the folder")
            said = client.request("update_memory", {"content": f"{name} of the client"}, request_id=name)
            assert said.ok
            assert box.reply(name)["ok"]
            if killed is not None:
                killed.start()
                wait_for(killed.is_listening, what="it listens again")
    assert notes(a, *(f"n{number} of the {who}" for number in range(3) for who in ("folder", "client"))) == [1] * 6
    assert a.events("cluster.owns") == 1


def test_an_unsent_message_elsewhere_can_be_withdrawn(guarded: Guarded) -> None:
    a, b = guarded.machines
    b.host.stop()
    a.host.stop()
    folder = guarded.folder / "elsewhere"
    with relayed(guarded.arguments("spy"), "spy", folder) as box:
        mailbox = Mailbox(box.root)
        box.say("t1", "what is taken back")
        wait_for(lambda: b"no host owns" in (folder / "said").read_bytes(), what="it is said that nobody answers")
        wait_for(lambda: mailbox.withdraw("t1"), what="it was not under way just then")
        a.own()
        assert box.chat("t2", "what stays")["ok"]
        assert not mailbox.withdraw("t2"), "it is answered"
        assert box.peek("t1") is None
        text = "".join(path.read_text() for path in (a.home / "data" / "sessions").rglob("*.jsonl"))
        assert ("what is taken back" in text, "what stays" in text) == (False, True)
