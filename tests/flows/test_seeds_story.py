"""The seed's manual checks (HB8, HB9) on a real host, whose model is asked over HTTP that the test serves."""

from collections.abc import Callable
from pathlib import Path

import pytest

from honeybadger_agent.models.model import ModelSaid, ToolCall
from tests.conftest import HostFactory
from tests.endpoint import Answer, Asked, anthropic, openai, served
from tests.flows.test_turns import said
from tests.hosting import HostProcess, RawSender, files_with, request

KEY = "sk-story-0123456789abcdefghijklmn"
NOTE = ToolCall("call_1", "update_memory", '{"content": "User prefers dark mode for all UIs"}')
Write = Callable[[ModelSaid], Answer]


def thinking(write: Write) -> Callable[[Asked], Answer]:
    """Answer as a model would: save when asked to, then answer from what the system text says."""

    def answering(asked: Asked) -> Answer:
        last = str(asked.body["messages"][-1])
        if "Saved in MEMORY.md" in last:
            return write(ModelSaid("I will remember that.", (), 950, 6))
        if "Remember that" in last:
            return write(ModelSaid("", (NOTE,), 900, 20))
        return write(ModelSaid("Dark, I know." if "dark mode" in asked.system else "I do not know.", (), 990, 5))

    return answering


def host_of(make_host: HostFactory, model: str, url: str, **more: object) -> HostProcess:
    settings: dict[str, object] = {"model.name": model, "model.base_url": url, "models.RETRIES": 0, **more}
    return make_host(settings, env={"HONEYBADGER_MODEL_API_KEY": KEY}).start()


@pytest.mark.parametrize(
    ("model", "path", "write"), [("openai:test", "/v1", openai), ("anthropic:test", "", anthropic)]
)
def test_a_new_session_knows_what_memory_md_holds(
    make_host: HostFactory, home: Path, stranger: RawSender, model: str, path: str, write: Write
) -> None:
    with served(thinking(write)) as endpoint:
        host = host_of(make_host, model, endpoint.url + path)
        first = stranger.chat("a1", "Remember that I prefer dark mode for all UIs")
        assert first["result"]["content"] == "I will remember that."
        assert (first["result"]["model"], first["result"]["input_tokens"]) == (model, 1850)
        assert stranger.memory_text().count("- User prefers dark mode for all UIs\n") == 1
        assert "## Notes (assistant, " in stranger.memory_text()
        payload = {"content": "Which theme should the new page have?"}
        stranger.drop("a2", request("a2", "chat", session="new", payload=payload), "turns")
        assert stranger.reply("a2")["result"]["content"] == "Dark, I know."
        assert [role for role, _, _ in said(stranger, "new")] == ["user", "assistant"]
        system = endpoint.asked[-1].system
        order = ["## Your Identity", "## Group Context", "## Remembered Facts", "## Tools"]
        assert [line for line in system.splitlines() if line in order] == order
        assert any(KEY in value for value in endpoint.asked[0].headers.values())
        document = stranger.do("d", "load_session")
        assert document["tool_stats"]["by_tool"] == {"update_memory": 1}
        assert document["token_usage"]["total_input"] >= 1850
        host.stop()
        assert KEY not in host.stderr.read_text()
        assert files_with(home, KEY.encode()) == []


def test_after_fifty_long_messages_history_stays_near_8000_tokens(make_host: HostFactory, stranger: RawSender) -> None:
    with served(thinking(openai)) as endpoint:
        host = host_of(make_host, "openai:test", f"{endpoint.url}/v1", **{"log.level": "debug"})
        for number in range(50):
            payload = {"role": "user", "content": f"{number}: " + "word " * 800}
            stranger.drop(f"t{number:02}", request(f"t{number:02}", "append_turn", payload=payload))
        assert stranger.reply("t49")["ok"]
        assert stranger.chat("a1", "And one more?")["ok"]
        (built,) = host.events("context.built")
        assert built["turns"] == 50
        assert 7000 < built["history_tokens"] <= 8000
        system = endpoint.asked[-1].system
        assert 7000 * 4 < len(system) < 9000 * 4
        assert "49: word" in system
        assert "\n[user]: 30: word" not in system
