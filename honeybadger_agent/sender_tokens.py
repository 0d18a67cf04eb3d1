"""Bearer tokens of senders: `config/tokens.json` of a home, SHA-256 of a token -> group and sender.

Operators make it, like `config/senders.json`. It has only hashes, so that its reader gets no access.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path

import orjson

from honeybadger_agent.mailbox import OPERATOR, BadName, Mailbox

TOKENS_FILE = "config/tokens.json"
PREFIX = "hb_"  # begins every token, so that secret scanners and people recognise one


class BadTokenFile(ValueError):
    """The file of tokens cannot be read, or is not a table of tokens."""


@dataclass(frozen=True, slots=True)
class SenderToken:
    """A token of one sender, without its secret.

    Args:
        made_at: UTC, as in a reply.
    """

    group: str
    sender: str
    made_at: str


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def check_holder(home: Path, group: str, sender: str) -> None:
    """Raise `BadName` if a token may not be of this sender: its name is not allowed, or it is the operator."""
    Mailbox.of(home, group, sender)
    if sender == OPERATOR:
        raise BadName(f"sender {OPERATOR!r} is reserved for the operator's own commands: choose another name")


def load_tokens(home: Path) -> dict[str, SenderToken]:
    """Return digest -> token; empty without the file. Raises `BadTokenFile`."""
    path = home / TOKENS_FILE
    try:
        rows = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, orjson.JSONDecodeError) as error:
        raise BadTokenFile(f"{path}: {error}; nobody is let in by a token until it can be read") from None
    found: dict[str, SenderToken] = {}
    try:
        for digest, row in rows.items():
            found[digest] = token = SenderToken(**row)
            check_holder(home, token.group, token.sender)
    except (AttributeError, TypeError, BadName):
        now_what = "remove it, and make new ones with `honeybadger-host sender token`"
        raise BadTokenFile(f"{path}: not a table of tokens; {now_what}") from None
    return found


def holder_of(home: Path, token: str) -> SenderToken | None:
    """Return the sender of a token, or None if it is nobody's; a revoked one fails at once. Raises `BadTokenFile`."""
    return load_tokens(home).get(digest_of(token))
