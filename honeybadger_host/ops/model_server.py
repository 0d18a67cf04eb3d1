"""Whether the server of a model answers: an operator's own is asked, a provider is not."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from honeybadger_agent.models import split_name
from honeybadger_agent.models.settings import DEFAULT_URLS
from honeybadger_host.settings import Model as Settings

_PATIENCE_SECONDS: Final = 3.0


def own_server(name: str, settings: Settings) -> str:
    """Return the address of a model's server when that is the operator's own: configured, or on this machine."""
    kind, _ = split_name(name)
    if kind == settings.name.partition(":")[0] and settings.base_url:
        return settings.base_url
    return DEFAULT_URLS["ollama"] if kind == "ollama" else ""


def why_silent(url: str) -> str | None:
    """Return why a model's server does not answer a request for its list of models; None: it does."""
    try:
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        with closing(kind(parts.hostname or "", parts.port, timeout=_PATIENCE_SECONDS)) as connection:
            connection.request("GET", f"{parts.path.rstrip('/')}/models")
            status = connection.getresponse().status
    except (OSError, HTTPException, ValueError) as error:
        return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return f"it answers with status {status}" if status >= 500 else None
