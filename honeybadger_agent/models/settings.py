"""How a provider of models is asked: where, with which key, how long and how often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pydantic import SecretStr

DEFAULT_URLS: Final = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://127.0.0.1:11434/v1",
}
"""Provider -> what `base_url` is when it is empty."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a provider is asked. `offline` and `scripted` need none of it.

    Args:
        base_url: of the provider, or of any server that speaks its protocol; empty: see `DEFAULT_URLS`.
        api_key: never shown; empty: none is sent.
        key_name: what a person sets the key with, for messages.
        timeout_seconds: for a connection (10 at most), and for silence, before the answer and within it.
        retries: how often it is asked again after a failure that may pass, before any text came.
    """

    base_url: str = ""
    api_key: SecretStr | str = field(default="", repr=False)
    timeout_seconds: float = 120
    retries: int = 2
    max_output_tokens: int = 4096
    temperature: float | None = None
    key_name: str = "HONEYBADGER_MODEL_API_KEY"

    @property
    def key(self) -> str:
        """The key itself, without the line end that a file of it has."""
        return self._given().strip()

    def _given(self) -> str:
        return self.api_key if isinstance(self.api_key, str) else self.api_key.get_secret_value()
