"""The scripted model: in order, in pieces, and from a file that needs no memory of where it was."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

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
