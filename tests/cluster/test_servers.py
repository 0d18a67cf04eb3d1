"""The connection to the servers: who is let in, and what a wrong setting says."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from honeybadger_agent.client import SyncClient
from honeybadger_agent.errors import NoMailbox
from honeybadger_host.cluster import servers as connecting
from honeybadger_host.cluster.operating import make_key
from honeybadger_host.cluster.servers import Servers, Unreachable
from honeybadger_host.errors import SettingsError
from honeybadger_host.files.home import JOURNAL_FILE, make_home
from tests.cluster import servers as real
from tests.hosting import run_agent, run_cli, wait_for


def see_refused(kind: type[Exception], says: str, urls: Sequence[str], credentials: object = "") -> None:
    """See that a connection is refused with some words; a busy machine may not hear them in its time."""

    def is_told() -> bool:
        with pytest.raises((kind, Unreachable)) as caught:
            Servers(urls, str(credentials))
        return isinstance(caught.value, kind) and says in str(caught.value)

    wait_for(is_told, what=says)


def test_a_server_with_keys_lets_in_matching_seeds_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong, broken = (tmp_path / name for name in ("right", "wrong", "broken"))
    key = f"authorization {{{{ users: [ {{{{ nkey: {make_key(right)} }}}} ] }}}}"
    with real.one(tmp_path, "guarded", real.ALONE + key) as server:
        make_key(wrong)
        broken.touch(0o600)
        broken.write_bytes(b"no key")
        with closing(real.reached(lambda: Servers([server.url], str(right)))) as servers:
            assert real.reached(lambda: servers.end_of("HB_x")) is None
        monkeypatch.setattr(connecting, "ANSWER_SECONDS", 1.0)
        for credentials in ("", wrong):
            see_refused(SettingsError, "cluster.credentials", [server.url], credentials)
        for credentials in (broken, tmp_path / "missing"):
            see_refused(SettingsError, "cannot be used", [server.url], credentials)
        right.chmod(0o644)
        see_refused(SettingsError, f"chmod 600 {right}", [server.url], right)
        with pytest.raises(NoMailbox, match="chmod 600"):
            SyncClient(server=server.url, home="x", group="main", sender="scout", credentials=str(right))


def test_a_server_that_is_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "MIN_VERSION", (99, 0))
    with closing(real.Servers(tmp_path, 1)) as running, pytest.raises(SettingsError, match="too old"):
        Servers(running.urls)


def test_tls_certificates_are_checked_and_endings_stay_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "ANSWER_SECONDS", 0.5)
    key, certificate = real.certificate_in(tmp_path)
    files = f'tls {{{{ cert_file: "{certificate}", key_file: "{key}", handshake_first: true }}}}'
    with real.one(tmp_path, "tls", real.ALONE + files) as server:
        url = server.url.replace("nats:", "tls:")
        see_refused(Unreachable, "SSL_CERT_FILE", [url])
        place = ("--server", url, "--home", "x", "--group", "main", "--sender", "scout", "--timeout", "1")

        def said() -> str:
            told = run_agent("remember", "x", *place, env={"SSL_CERT_FILE": certificate}).stderr
            return told if "no host owns the home" in told else ""

        assert (told := wait_for(said)).count("\n") == 1, told


def test_a_plain_text_server_gets_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "ANSWER_SECONDS", 1.0)
    make_key(tmp_path / "seed")
    proxy = real.Proxy([])
    proxy.is_lying.set()
    port, got = proxy.url.rpartition(":")[2], proxy.heard
    with closing(proxy):
        with pytest.raises((Unreachable, SettingsError)):
            Servers([f"tls://127.0.0.1:{port}"], str(tmp_path / "seed"))
        place = ("--server", f"tls://127.0.0.1:{port}", "--home", "x", "--group", "main", "--sender", "scout")
        done = run_agent("remember", "x", *place, "--credentials", tmp_path / "seed", "--timeout", "2")
        assert done.returncode == 1, done
        assert bytes(got).startswith(b"\x16\x03")  # a TLS handshake
        assert b"CONNECT" not in got
        with pytest.raises((Unreachable, SettingsError)):  # the control: without TLS it gets a signature
            Servers([f"nats://127.0.0.1:{port}"], str(tmp_path / "seed"))
        assert b"CONNECT" in got


def test_servers_are_named_with_tls_all_or_none(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="name all alike"):
        Servers(["tls://127.0.0.1:1", "nats://127.0.0.1:2"])


WITHOUT_JETSTREAM = "server_name: {name}\nlisten: 127.0.0.1:{client}\n# {store}\n"


def allowed(public: str, permissions: str) -> str:
    return f"{real.ALONE}authorization {{{{ users: [ {{{{ nkey: {public}, permissions: {permissions} }}}} ] }}}}"


def fill(servers: Servers) -> None:
    servers.make_stream("HB_x", "hb.x.log")
    servers.publish("hb.x.log", b"x", {})


def test_an_unfit_server_says_why_and_what_now(tmp_path: Path) -> None:
    denied = allowed(make_key(tmp_path / "seed"), '{{ publish: {{ deny: ["hb.*.log"] }} }}')
    for name, config, credentials, why in (
        ("bare", WITHOUT_JETSTREAM, "", "no server answers for JetStream: see that nats.conf has it"),
        ("denied", denied, str(tmp_path / "seed"), "mend the permissions of the key"),
    ):
        with (
            real.one(tmp_path, name, config) as server,
            closing(Servers([server.url], credentials)) as servers,
            pytest.raises(Unreachable, match=why),
        ):
            fill(servers)


def test_without_servers_nothing_is_begun(tmp_path: Path) -> None:
    make_home(tmp_path / "home")
    servers = f"--set=cluster.servers=nats://127.0.0.1:{real.free_ports(1)[0]}"
    assert run_cli("cluster", "init", servers, home=tmp_path / "home").returncode == 8
    assert not (tmp_path / "home" / JOURNAL_FILE).exists()  # it may join another home instead
