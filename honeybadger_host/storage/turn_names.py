"""What the requests of a turn's tools are called: the turn's name, and which call of it."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from honeybadger_host.storage.journal_schema import TurnKey

LONGEST_ID: Final = 60
"""Characters of a turn's id in its name."""
TOOL_REQUEST: Final = re.compile(r"(?P<turn>(?P<id>.+)\.[0-9a-f]{12})\.\d+\.\d+", re.DOTALL)
"""Name of the turn, with the beginning of its id; then the answer of the model, and the call in it."""


def turn_name(turn: TurnKey, digest: bytes) -> str:
    """Return what the requests of a turn's tools begin with, unlike those of any other turn."""
    told_apart = hashlib.sha256(f"{turn.sender}\0{turn.request}\0".encode() + digest).hexdigest()[:12]
    return f"{turn.request[:LONGEST_ID]}.{told_apart}"
