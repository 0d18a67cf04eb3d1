"""Make, list and revoke the tokens of senders: `config/tokens.json` (honeybadger_agent/sender_tokens.py)."""

from datetime import UTC, datetime
from pathlib import Path

import orjson

from honeybadger_agent.sender_tokens import (
    TOKENS_FILE,
    BadTokenFile,
    SenderToken,
    check_holder,
    digest_of,
    load_tokens,
    new_token,
)
from honeybadger_host.errors import SettingsError
from honeybadger_host.files.safe_files import make_folders, replace
from honeybadger_host.text.time_stamps import time_stamp


def make_token(home: Path, group: str, sender: str) -> str:
    """Return a new token of a sender; its hash is durable. Raises BadName, SettingsError, OSError."""
    check_holder(home, group, sender)
    token = new_token()
    made = SenderToken(group, sender, time_stamp(datetime.now(UTC)))
    _write(home, {**_loaded(home), digest_of(token): made})
    return token


def revoke_tokens(home: Path, group: str, sender: str) -> int:
    """Remove all tokens of a sender; return their number. Raises SettingsError, OSError."""
    tokens = _loaded(home)
    kept = {digest: one for digest, one in tokens.items() if (one.group, one.sender) != (group, sender)}
    _write(home, kept)
    return len(tokens) - len(kept)


def all_tokens(home: Path) -> list[SenderToken]:
    """Return the tokens by group, sender and time. Raises SettingsError."""
    return sorted(_loaded(home).values(), key=lambda one: (one.group, one.sender, one.made_at))


def _write(home: Path, tokens: dict[str, SenderToken]) -> None:
    make_folders((home / TOKENS_FILE).parent)
    data = orjson.dumps(tokens, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    replace(home / TOKENS_FILE, data, mode=0o600)


def _loaded(home: Path) -> dict[str, SenderToken]:
    try:
        return load_tokens(home)
    except BadTokenFile as error:
        raise SettingsError(str(error)) from None
