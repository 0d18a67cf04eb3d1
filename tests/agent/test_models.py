"""Models by their names, and what a name or an address that is wrong says."""

from pathlib import Path

import orjson
import pytest

from honeybadger_agent.models import ModelSettings, open_model
from honeybadger_agent.models.model import (
    Message,
    ModelFailed,
    ModelSaid,
    Prompt,
    ToolAnswer,
    ToolCall,
    ToolsAnswered,
    UserSaid,
)
from honeybadger_agent.models.scripted import ScriptedModel, load_script

KEY = "sk-very-secret-0123456789"


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
    settings = ModelSettings(api_key=KEY)
    assert KEY not in repr(settings)
    assert settings.key == KEY


async def ask(model: ScriptedModel, *messages: Message) -> tuple[ModelSaid, list[str]]:
    pieces: list[str] = []

    async def on_text(piece: str) -> None:
        pieces.append(piece)

    return await model.answer(Prompt("", messages), on_text), pieces


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "story.json"
    asks = {"calls": [{"name": "update_memory", "arguments": {"content": "dark mode"}}]}
    turns = [
        {"when": "dark mode", "answers": [asks, {"text": "Noted.", "input_tokens": 9, "output_tokens": 2}]},
        {"when": "down", "answers": [{"fails": "on purpose", "is_passing": False}]},
        {"when": "hello", "answers": [{"text": "Hello."}]},
    ]
    path.write_bytes(orjson.dumps({"turns": turns}))
    return path


async def test_a_script_plays_the_matching_turn_across_restarts(script: Path) -> None:
    before = (UserSaid("hello"), ModelSaid("Hello."))
    asked = UserSaid("Remember: I prefer Dark Mode")
    first, _ = await ask(load_script(script), *before, asked)
    assert first == ModelSaid("", (ToolCall("call-1-0", "update_memory", '{"content":"dark mode"}'),))
    answered = ToolsAnswered((ToolAnswer(first.calls[0], True, "Saved.", "saved"),))
    second, pieces = await ask(load_script(script), *before, asked, first, answered)
    assert (second, pieces) == (ModelSaid("Noted.", (), 9, 2), ["Noted."])
    with pytest.raises(ModelFailed, match="has 2 answers for this message"):
        await ask(load_script(script), asked, first, answered, second)


async def test_a_script_fails_where_told_or_without_a_match(script: Path) -> None:
    for text, says in (("go down", r"scripted:story\.json: on purpose"), ("who?", "no turn of the script is for")):
        with pytest.raises(ModelFailed, match=says) as failed:
            await ask(load_script(script), UserSaid(text))
        assert not failed.value.is_passing


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "cannot be read: No such file"),
        (b"{", "is not JSON"),
        (b"[]", "is not a script"),
        (b'{"turns": [{"answers": []}]}', "is not a script: .*answers"),
        (b'{"turns": [{"answers": [{"txt": "x"}]}]}', "is not a script: .*txt is unknown"),
    ],
)
def test_a_file_that_is_no_script_is_named(tmp_path: Path, data: bytes | None, says: str) -> None:
    path = tmp_path / "story.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ModelFailed, match=says) as failed:
        load_script(path)
    assert str(path) in str(failed.value)
    assert not failed.value.is_passing


async def test_the_script_of_the_documentation_plays(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/models.md").read_text()
    path = tmp_path / "story.json"
    path.write_text(page.partition("```json\n")[2].partition("```")[0])
    said, _ = await ask(load_script(path), UserSaid("Remember that I prefer dark mode"))
    assert said.calls[0].arguments == '{"content":"User prefers dark mode"}'
    assert (await ask(load_script(path), UserSaid("Hello")))[0].text == "I only know dark mode."
