"""The models that answer turns, opened when the first turn needs them, with keys from the environment."""

from importlib.util import find_spec
from pathlib import Path

import anyio.to_thread

from honeybadger_agent.models import ModelSettings, open_model, split_name
from honeybadger_agent.models.model import Model, ModelFailed, checked_url
from honeybadger_agent.wording import HOST_EXTRA
from honeybadger_host.configuration import model_key
from honeybadger_host.errors import SettingsError
from honeybadger_host.settings import Model as Settings

RETRIES = 2  # of a request to a model that failed before any text came


def what_is_missing(name: str, settings: Settings) -> str | None:
    """Return why no model of this name can answer here, or None if one can."""
    try:
        kind, _ = split_name(name)
        if settings.base_url and kind == settings.name.partition(":")[0]:
            checked_url(name, settings.base_url)
    except ModelFailed as error:
        return str(error)
    if kind in ("openai", "anthropic", "ollama") and find_spec("pydantic_ai") is None:
        return f"{name} needs pydantic-ai, which is not installed: {HOST_EXTRA.format('llm')}"
    return None


class Models:
    """Opens each model once. Event loop."""

    def __init__(self, home: Path, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        self._models: dict[str, Model] = {}
        self._lock = anyio.Lock()

    async def open(self, name: str | None) -> Model:
        """Return a model by its name; None: the host's own. Raises ModelFailed."""
        name = name or self._settings.name
        async with self._lock:
            if (model := self._models.get(name)) is None:
                model = self._models[name] = await anyio.to_thread.run_sync(self._opened, name)
            return model

    async def aclose(self) -> None:
        for model in self._models.values():
            await model.aclose()

    def _opened(self, name: str) -> Model:
        """Open a model on a thread: a provider's library takes seconds to import."""
        ours = self._settings
        provider, rest = split_name(name)
        if provider == "scripted":
            return open_model(f"scripted:{self._home / rest}")
        is_own = provider == ours.name.partition(":")[0]
        try:
            key, key_name = model_key(provider, is_own=is_own)
        except SettingsError as error:
            raise ModelFailed(str(error), is_passing=False) from None
        return open_model(
            name,
            ModelSettings(
                base_url=ours.base_url if is_own else "",
                api_key=key,
                key_name=key_name,
                timeout_seconds=ours.timeout_seconds,
                retries=RETRIES,
                max_output_tokens=ours.max_output_tokens,
            ),
        )
