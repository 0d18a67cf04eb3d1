"""The token counters: an estimate, or the vocabulary of a model (an extra)."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from honeybadger_host.errors import SettingsError
from honeybadger_host.settings import TokenCounter
from honeybadger_host.text.neutralise import by_characters


def counter_of(choice: TokenCounter) -> Callable[[str], int]:
    """Return a counter with its vocabulary loaded (0.2 s). Raises SettingsError: its package is missing."""
    if choice == "estimate":
        return by_characters
    try:
        batch_count = importlib.import_module("toktok").batch_count
    except ModuleNotFoundError as error:
        if error.name != "toktok":
            raise
        raise SettingsError("tokens.counter = o200k needs toktok-rs: pip install 'honeybadger-host[tokens]'") from None

    def count(text: str) -> int:
        """Count in one thread: a pool costs more than the few microseconds of a line."""
        try:
            counted = batch_count((text,), "o200k_base", 1)
        except UnicodeEncodeError:  # half a surrogate pair, which is never sent to a model
            counted = batch_count((text.encode(errors="replace").decode(),), "o200k_base", 1)
        return int(counted[0])

    count("ready")
    return count
