"""The connection to the servers: who is let in, and what a wrong setting says."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from contextlib import closing
from pathlib import Path

import nkeys
import orjson
import pytest

from honeybadger_host.cluster import servers as connecting
from honeybadger_host.cluster.servers import Servers, Unreachable
from honeybadger_host.errors import SettingsError
from tests.cluster import servers as real


def user_key() -> tuple[bytes, str]:
    """Return the seed of a new key of a user, and its public half."""
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return seed, nkeys.from_seed(bytearray(seed)).public_key.decode()


def test_a_server_that_asks_for_a_key_lets_in_whose_seed_fits_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "_CONNECT_SECONDS", 2.0)
    seed, public = user_key()
    server = real.guarded(tmp_path, public)
    try:
        right, wrong, broken = (tmp_path / name for name in ("right", "wrong", "broken"))
        right.write_bytes(seed)
        wrong.write_bytes(user_key()[0])
        broken.write_text("no key")
        with closing(Servers([server.url], str(right))) as servers:
            assert servers.end_of("HB_x") is None
        for credentials in ("", str(wrong)):
            with pytest.raises(SettingsError, match=r"cluster\.credentials"):
                Servers([server.url], credentials)
        for credentials in (str(broken), str(tmp_path / "missing")):
            with pytest.raises(SettingsError, match="cannot be used"):
                Servers([server.url], credentials)
    finally:
        server.kill()


def test_a_refusal_is_told_whatever_becomes_of_the_connection_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_CONNECT_SECONDS", 3.0)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]

    def refuse_once() -> None:
        info = {"server_id": "a", "version": "2.15.1", "max_payload": 1 << 20, "auth_required": True}
        first, _ = listening.accept()
        with first:
            first.sendall(b"INFO " + orjson.dumps(info) + b"\r\n")
            first.recv(65536)
            first.sendall(b"-ERR 'Authorization Violation'\r\n")
        with contextlib.suppress(OSError):  # it is closed in the end
            while True:
                listening.accept()[0].close()

    refusing = threading.Thread(target=refuse_once, daemon=True)
    refusing.start()
    try:
        with pytest.raises(SettingsError, match=r"cluster\.credentials"):
            Servers([f"nats://127.0.0.1:{port}"])
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        refusing.join(5)


def test_a_server_that_is_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "LEAST_VERSION", (99, 0))
    running = real.Servers(tmp_path, 1)
    try:
        with pytest.raises(SettingsError, match="too old"):
            Servers(running.urls)
    finally:
        running.close()


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_CONNECT_SECONDS", 1.0)
    (port,) = real.free_ports(1)
    with pytest.raises(Unreachable):
        Servers([f"nats://127.0.0.1:{port}"])
