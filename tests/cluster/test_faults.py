"""Owners that are killed, frozen and cut off, and servers that fail: nothing is lost, doubled or written by two.

`HB_CLUSTER_FAULTS=300` is the long form, `HB_CLUSTER_SECONDS` ends it sooner, `HB_CLUSTER_SEED` draws other faults, and
with `HB_CLUSTER_TRIMS=1` the log is trimmed all the time.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from honeybadger_host.cluster.operating import agent_lines, host_lines, make_key
from tests.cluster.machines import Cluster
from tests.cluster.servers import Proxy, Servers, certificate_in
from tests.cluster.story import Story, file_systems, set_clock, stale_records

FAULTS = int(os.environ.get("HB_CLUSTER_FAULTS", "0"))
TRIMS = "HB_CLUSTER_TRIMS" in os.environ
MAX_SECONDS = float(os.environ.get("HB_CLUSTER_SECONDS", "inf"))
SEED = int(os.environ.get("HB_CLUSTER_SEED", "1"))


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    folder = tmp_path / "servers"
    with file_systems([folder / f"n{number}" / "store" for number in range(3)] if FAULTS else []):
        host, drone = (tmp_path / f"{name}.seed" for name in ("host", "drone"))
        key, certificate = certificate_in(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        users = [*host_lines(make_key(host)), *agent_lines(make_key(drone), "none", "main", "drone")]
        more = f'tls {{ cert_file: "{certificate}", key_file: "{key}", handshake_first: true }}\n'
        more += "authorization {\nusers: [\n" + "\n".join(users) + "\n] }\n"
        servers = Servers(folder, 3, more, is_divisible=True, credentials=str(host), scheme="tls")
        yield from told(tmp_path, servers, drone)


def told(tmp_path: Path, servers: Servers, drone: Path) -> Iterator[Story]:
    proxies = [[Proxy([server.client], "tls") for server in servers.all] for _ in range(3)]
    urls = [[proxy.url for proxy in some] for some in proxies]
    cluster = Cluster(tmp_path, ["a", "b", "c"], servers, urls, {"cluster.credentials": servers.credentials})
    for machine in cluster.machines:
        machine.host.env["SSL_CERT_FILE"] = os.environ["SSL_CERT_FILE"]
        if TRIMS:
            machine.host.settings |= {"cluster.member.TRIM_SHARE": 0.1, "cluster.member.HOUSEKEEPING_SECONDS": 0.5}
    made = Story(cluster, proxies, SEED, drone)
    yield made
    for thread in made.workers:
        thread.ending.set()
    for thread in made.workers:
        thread.join(5)
    cluster.close()
    for some in proxies:
        for proxy in some:
            proxy.close()


@pytest.mark.timeout(7200)
def test_whatever_fails_each_acknowledged_note_is_there_once(story: Story) -> None:
    if FAULTS:
        begun = time.monotonic()
        while sum(story.done.values()) < FAULTS and time.monotonic() - begun < MAX_SECONDS:
            story.strike(*story.draw())
            print(f"{time.monotonic() - begun:.0f} s: {sum(story.done.values())} {story.told[-1]}", flush=True)
    else:
        for machine, hours in zip(story.cluster.machines, (5, -5, 0), strict=True):
            set_clock(machine, 3600.0 * hours)
        story.strike(story.kill_owner, story.forget)
        story.strike(story.freeze_owner)
        story.strike(story.deafen_owner, story.forget)
        story.strike(story.kill_server)
        story.strike(story.downgrade, story.forge)
    print(story.figures(), flush=True)
    story.end()
    print(story.figures())


NO_FENCE = """
from honeybadger_host.cluster import lease, log

def put(self, message):
    headers = {name: value for name, value in message.headers.items() if "Expected" not in name}
    self.servers.publish(self.subject, message.data, headers)
log.Log._put = put
lease.newest_epoch = lambda servers, names: 0
put_lease = lease.put_lease
lease.put_lease = lambda *names: put_lease(*names) or 1
"""


def test_without_the_fence_a_frozen_owner_overwrites_the_next(pair: Cluster) -> None:
    """The control: the checks above see it."""
    a, b = pair.machines
    a.host.source = NO_FENCE
    a.own()
    b.follow()
    a.box.make().do("n1", content="a note")
    a.host.send_signal(signal.SIGSTOP)
    b.box.make().do("n2", content="a note of the next owner")
    a.box.note("n3", "a note of the stale one")
    a.host.send_signal(signal.SIGCONT)
    assert a.box.reply("n3")["ok"], "it is acknowledged"
    assert stale_records(pair.servers, pair.identity) != []
