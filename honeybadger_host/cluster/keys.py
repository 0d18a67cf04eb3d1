"""Keys for the servers: one of each host, and one of each agent on a machine without a host."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import nkeys

from honeybadger_agent.mailbox import checked_name
from honeybadger_agent.relay import REPLY_PREFIX, asking_subject, credentials_of
from honeybadger_host.errors import HomeError


def make_key(path: Path) -> str:
    """Write the seed of a new key, readable by its owner alone; return the public half.

    A seed that is there stays as it is. Raises HomeError if the file cannot be written, or holds something else.
    """
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return _public_half(path)
    except OSError as error:
        raise HomeError(f"cannot write {path}: {error.strerror}") from None
    with open(fd, "wb") as file:
        file.write(seed)
        file.flush()
        os.fsync(fd)
    return _public_half(path)


def _public_half(path: Path) -> str:
    try:
        seed = credentials_of(str(path)).get("nkeys_seed_str", "")
        return str(nkeys.from_seed(bytearray(seed.encode())).public_key.decode())
    except (OSError, ValueError, nkeys.NkeysError) as error:
        raise HomeError(f"{path} is there, and is no seed that can be used: {error}; name another file") from None


def host_lines(public: str) -> list[str]:
    """Return the lines for this machine's host in `authorization { users: [ … ] }` of nats.conf."""
    return [f"{{ nkey: {public} }}  # the host on {socket.gethostname()}"]


def agent_lines(public: str, identity: str, group: str, sender: str) -> list[str]:
    """Return an agent's lines for nats.conf: it may send as one sender and read its own replies. Raises BadName."""
    checked_name("group", group)
    checked_name("sender", sender)
    return [
        f"{{ nkey: {public}, permissions: {{  # {sender} in {group}",
        f'    publish: [ "{asking_subject(identity)}.{group}.{sender}" ]',
        f'    subscribe: [ "{REPLY_PREFIX}{group}.{sender}.>" ]',
        "} }",
    ]
