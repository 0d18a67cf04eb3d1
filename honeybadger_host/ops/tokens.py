"""Make, list and revoke the tokens of senders: `config/tokens.json` (honeybadger_agent/sender_tokens.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from honeybadger_agent.sender_tokens import (
    TOKENS_FILE,
    BadTokenFile,
    SenderToken,
    check_holder,
    digest_of,
    dump_tokens,
    load_tokens,
    new_token,
)
from honeybadger_host.errors import HomeError, HomeLocked, SettingsError
from honeybadger_host.files.safe_files import make_folders, replace, try_lock


def make_token(home: Path, group: str, sender: str) -> str:
    """Return a new token of a sender; its hash is durable. Raises BadName, HomeError, HomeLocked, SettingsError."""
    check_holder(home, group, sender)
    token = new_token()
    made_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with _changed(home) as tokens:
        tokens[digest_of(token)] = SenderToken(digest_of(token), group, sender, made_at)
    return token


def revoke_tokens(home: Path, group: str, sender: str) -> int:
    """Remove all tokens of a sender; return their number. Raises HomeError, HomeLocked, SettingsError."""
    with _changed(home) as tokens:
        revoked = [one.digest for one in tokens.values() if (one.group, one.sender) == (group, sender)]
        for digest in revoked:
            del tokens[digest]
    return len(revoked)


def all_tokens(home: Path) -> list[SenderToken]:
    """Return the tokens by group, sender and time. Raises SettingsError."""
    return sorted(_loaded(home).values(), key=lambda one: (one.group, one.sender, one.made_at))


@contextmanager
def _changed(home: Path) -> Iterator[dict[str, SenderToken]]:
    """Yield the tokens to change, then write them. Raises HomeLocked if another command is changing them."""
    make_folders((home / TOKENS_FILE).parent)
    lock = try_lock(home / "data" / "tokens.lock")
    if lock is None:
        raise HomeLocked("another command is changing the tokens: try again")
    try:
        tokens = _loaded(home)
        yield tokens
        replace(home / TOKENS_FILE, dump_tokens(tokens), mode=0o600)
    except OSError as error:
        raise HomeError(f"cannot write {home / TOKENS_FILE}: {error.strerror}") from None
    finally:
        os.close(lock)


def _loaded(home: Path) -> dict[str, SenderToken]:
    try:
        return load_tokens(home)
    except BadTokenFile as error:
        raise SettingsError(str(error)) from None
