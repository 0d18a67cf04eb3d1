"""Models by name: `open_model`. A provider's library is imported only for a model that needs it.

Reading order: `model` (the interface of all models, their settings), `scripted`, `offline`, `providers`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from honeybadger_agent.models.model import DEFAULT_URLS, Model, ModelFailed, ModelSettings
from honeybadger_agent.models.offline import OfflineModel
from honeybadger_agent.models.scripted import load_script
from honeybadger_agent.wording import AGENT_EXTRA, meant

__all__ = ["NAMES", "Kind", "ModelSettings", "open_model", "split_name"]

Kind: TypeAlias = Literal["offline", "scripted", "openai", "anthropic", "ollama"]
NAMES = "offline, scripted:FILE, openai:NAME, anthropic:NAME, ollama:NAME"


def open_model(name: str, settings: ModelSettings | None = None) -> Model:
    """Return a model; nothing is contacted yet. The first of a provider imports its library, which takes a second.

    Args:
        name: one of `NAMES`, such as `openai:gpt-5-mini` or `ollama:llama3.2:3b`.
    Raises ModelFailed if there is no such model, its script cannot be read, or its library is not installed.
    """
    kind, rest = split_name(name)
    match kind:
        case "offline":
            return OfflineModel()
        case "scripted":
            return load_script(Path(rest))
        case "openai" | "anthropic" | "ollama":
            try:
                from honeybadger_agent.models.providers import open_provider
            except ModuleNotFoundError as error:
                why = f"{name} needs {error.name}, which is not installed: {AGENT_EXTRA.format('llm')}"
                raise ModelFailed(why, is_passing=False) from None
            return open_provider(kind, rest, settings or ModelSettings())


def split_name(name: str) -> tuple[Kind, str]:
    """Split a name into the kind of model and the rest: a file, or the provider's name of the model.

    Raises ModelFailed if there is no such model.
    """
    kind, _, rest = name.partition(":")
    match kind, bool(rest):
        case "offline", False:
            return "offline", ""
        case (("scripted" | "openai" | "anthropic" | "ollama") as known, True):
            return known, rest
    near = meant(kind, ["offline", "scripted", *DEFAULT_URLS])
    hint = "" if near in (None, kind) else f"; did you mean {near}?"
    raise ModelFailed(f"there is no model {name[:100]!r}: models are {NAMES}{hint}", is_passing=False)
