"""Models by their names, and what a name or an address that is wrong says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from honeybadger_agent.models import ModelSettings, open_model
from honeybadger_agent.models.model import Model, ModelFailed

KEY = "sk-very-secret-0123456789"


async def test_every_kind_of_name_opens_and_contacts_nothing(tmp_path: Path) -> None:
    script = tmp_path / "story.json"
    script.write_text('{"turns": []}')
    settings = ModelSettings(api_key=SecretStr(KEY))
    for name in ("offline", "openai:gpt-5-mini", "anthropic:claude-sonnet-5", "ollama:llama3.2:3b"):
        model: Model = open_model(name, settings)
        assert model.name == name
        await model.aclose()
    assert open_model(f"scripted:{script}").name == "scripted:story.json"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "there is no model ''"),
        ("gpt-5", "models are offline, scripted:FILE, openai:NAME"),
        ("opanai:gpt-5", "did you mean openai?"),
        ("openai:", "there is no model 'openai:'"),
        ("offline:x", "there is no model 'offline:x'"),
        ("scripted:/nowhere.json", "cannot be read"),
    ],
)
def test_a_name_that_is_none_says_which_there_are(name: str, says: str) -> None:
    with pytest.raises(ModelFailed) as failed:
        open_model(name)
    assert says in str(failed.value)
    assert not failed.value.is_passing


@pytest.mark.parametrize("name", ["openai:gpt-5-mini", "anthropic:claude-sonnet-5"])
def test_only_the_providers_own_address_needs_a_key(name: str) -> None:
    with pytest.raises(ModelFailed, match="needs a key: set HONEYBADGER_MODEL_API_KEY"):
        open_model(name)
    with pytest.raises(ModelFailed, match="needs a key: set THE_KEY"):
        open_model(name, ModelSettings(key_name="THE_KEY"))
    assert open_model(name, ModelSettings(base_url="http://127.0.0.1:1/v1")).name == name


@pytest.mark.parametrize(
    "base_url",
    [
        *("127.0.0.1:8080", "ftp://host/v1", "http://", "http://[::1", "http://host:99999/v1", "http://host:x/v1"),
        *(f"http://user:{KEY}@host/v1", f"http://host/v1?key={KEY}", f"http://host/#{KEY}"),
    ],
)
def test_a_bad_address_is_refused_without_being_shown(base_url: str) -> None:
    with pytest.raises(ModelFailed, match=r"base_url must be http\(s\)") as failed:
        open_model("openai:x", ModelSettings(base_url=base_url))
    assert KEY not in str(failed.value)


@pytest.mark.parametrize("key", ["sk-1\nsk-2", "schlüssel", "sk\x00"])
def test_a_key_unfit_for_headers_is_refused_unseen(key: str) -> None:
    with pytest.raises(ModelFailed, match="HONEYBADGER_MODEL_API_KEY has characters that no key has") as failed:
        open_model("openai:gpt-5-mini", ModelSettings(api_key=key))
    assert key not in str(failed.value)


def test_settings_do_not_show_the_key() -> None:
    for key in (KEY, SecretStr(KEY)):
        settings = ModelSettings(api_key=key)
        assert KEY not in repr(settings)
        assert settings.key == KEY
