"""The settings of a provider: address, key, timeouts, retries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pydantic import SecretStr

# Provider -> default of `base_url`.
DEFAULT_URLS: Final = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://127.0.0.1:11434/v1",
}


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings of a provider. `offline` and `scripted` need none.

    Args:
        base_url: of the provider, or of any server with its protocol; empty: see `DEFAULT_URLS`.
        api_key: never shown; empty: none is sent.
        key_name: the setting or variable of the key, for messages.
        timeout_seconds: for a connection (10 at most), and for silence before and within the answer.
        retries: after a passing failure, while no text has come yet.
    """

    base_url: str = ""
    api_key: SecretStr | str = field(default="", repr=False)
    timeout_seconds: float = 120
    retries: int = 2
    max_output_tokens: int = 4096
    key_name: str = "HONEYBADGER_MODEL_API_KEY"

    @property
    def key(self) -> str:
        """The key, without the line end of a key file."""
        given = self.api_key if isinstance(self.api_key, str) else self.api_key.get_secret_value()
        return given.strip()
