"""Models over HTTP, against an endpoint on loopback that speaks both protocols and fails as it is told to."""

from __future__ import annotations

import logging
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

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
    ToolSpec,
    UserSaid,
)
from tests.commands import finished
from tests.endpoint import Answer, Endpoint, anthropic, in_turn, openai, refusal, served

if TYPE_CHECKING:  # its library takes a second
    from honeybadger_agent.models.providers import ProviderModel

KEY = "sk-very-secret-0123456789"
NOTE = ToolCall("call_1", "update_memory", '{"content": "tea"}')
TOOLS = [ToolSpec("update_memory", "Save a note.", {"type": "object", "properties": {"content": {"type": "string"}}})]
HELLO = ModelSaid("Hello Sheila, good morning", (), 11, 4)
POISON = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"), "http://127.0.0.1:1"),
    **dict.fromkeys(("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL"), "http://127.0.0.1:1/wrong"),
    **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_API_KEY"), "sk-poison"),
    **dict.fromkeys(("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"), "poison"),
    "ANTHROPIC_CUSTOM_HEADERS": "X-Poison: poison",
    "OPENAI_CUSTOM_HEADERS": "X-Poison: poison",
}


@dataclass(frozen=True)
class Protocol:
    provider: str
    path: str
    write: Callable[..., Answer]
    too_long: str

    @contextmanager
    def model(self, endpoint: Endpoint | str, **settings: Any) -> Iterator[ProviderModel]:
        """Open a model on an endpoint; pauses between attempts are counted, not slept."""
        url = endpoint if isinstance(endpoint, str) else endpoint.url
        settings = {"base_url": url + self.path, "api_key": KEY, "timeout_seconds": 10, **settings}
        yield cast("ProviderModel", open_model(f"{self.provider}:test-model", ModelSettings(**settings)))


PROTOCOLS = [
    Protocol("openai", "/v1", openai, "This model's maximum context length is 8192 tokens"),
    Protocol("ollama", "/v1", openai, "the request exceeds the available context size"),
    Protocol("anthropic", "", anthropic, "prompt is too long: 210000 tokens > 200000 maximum"),
]


@pytest.fixture(params=PROTOCOLS, ids=[protocol.provider for protocol in PROTOCOLS])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    return request.param  # type: ignore[no-any-return]


TOO_LONG = "the context is too long for the model: lower the budget"
# Where it is not about what a provider is sent: OpenAI's protocol is the same code whoever speaks it.
BOTH_PROTOCOLS = pytest.mark.parametrize(
    "protocol", [each for each in PROTOCOLS if each.provider != "ollama"], ids=["openai", "anthropic"], indirect=True
)


@dataclass
class Ears:
    """Hears pieces of text and pauses."""

    pieces: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    async def hear(self, piece: str) -> None:
        self.pieces.append(piece)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def ask(
    model: ProviderModel, *messages: Message, ears: Ears | None = None, tools: list[ToolSpec] = TOOLS
) -> ModelSaid:
    ears = ears or Ears()
    model.sleep = ears.pause
    try:
        return await model.answer(Prompt("You are Ada.", messages or (UserSaid("Hi"),), tools), ears.hear)
    finally:
        await model.aclose()


async def failure(model: ProviderModel, ears: Ears | None = None) -> ModelFailed:
    """Return how the model fails; the key is in nothing that anybody could print."""
    with pytest.raises(ModelFailed) as failed:
        await ask(model, ears=ears)
    assert KEY not in "".join(traceback.format_exception(failed.value))
    assert failed.value.__context__ is None
    assert KEY not in repr(model)
    assert str(failed.value).startswith(model.name)
    return failed.value


async def test_calls_come_as_the_model_wrote_them(protocol: Protocol) -> None:
    said = ModelSaid("Wait.", (NOTE, ToolCall("call_2", "update_memory", '{"content":  "é"}')), 9, 3)
    with served(in_turn(protocol.write(said))) as endpoint, protocol.model(endpoint) as model:
        assert await ask(model) == said


async def test_a_conversation_has_our_headers_only(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in POISON.items():
        monkeypatch.setenv(name, value)
    broken = ToolCall("call_2", "update_memory", '{"content": ')
    answers = (ToolAnswer(NOTE, True, "Saved.", ""), ToolAnswer(broken, False, "invalid: no JSON", ""))
    conversation = (
        UserSaid("Remember tea"),
        ModelSaid("", (NOTE, broken)),
        ToolsAnswered(answers),
        ModelSaid(""),
        UserSaid("Thanks"),
    )
    with served(in_turn(protocol.write(HELLO))) as endpoint, protocol.model(endpoint, max_output_tokens=77) as model:
        await ask(model, *conversation)
    [asked] = endpoint.asked
    assert asked.system == "You are Ada."
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["user-agent"] == "honeybadger"
    assert not {name for name in asked.headers if name.startswith(("x-", "openai"))}
    assert "poison" not in str(asked)
    assert (asked.body["model"], asked.body["max_tokens"]) == ("test-model", 77)
    said = [message for message in asked.body["messages"] if message["role"] != "system"]
    assert [said[0]["role"], said[1]["role"], said[-1]["role"]] == ["user", "assistant", "user"]
    for text in ("Remember tea", "Saved.", "invalid: no JSON", "Thanks", "call_1", "call_2"):
        assert text in orjson.dumps(said).decode()


async def test_a_stable_beginning_is_marked_for_the_cache(protocol: Protocol) -> None:
    stable, rest = "Group: main\n\n## Facts\n- tea\n", "\n## Recent Conversation\n[user]: Hi"
    prompt = Prompt(stable + rest, [UserSaid("Hi")], TOOLS, len(stable))
    with served(in_turn(protocol.write(HELLO))) as endpoint, protocol.model(endpoint) as model:
        await model.answer(prompt, Ears().hear)
        await model.aclose()
    [asked] = endpoint.asked
    if protocol.provider != "anthropic":
        assert asked.system == prompt.system
        return
    first, second = asked.body["system"]
    assert (first["text"], second["text"]) == (stable, rest)
    assert ("cache_control" in first, "cache_control" in second) == (True, False)


async def test_without_a_key_none_is_sent(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in POISON.items():
        monkeypatch.setenv(name, value)
    with served(in_turn(protocol.write(HELLO))) as endpoint, protocol.model(endpoint, api_key="") as model:
        await ask(model)
    assert not {"authorization", "x-api-key"} & set(endpoint.asked[0].headers)


async def test_an_answer_cut_by_max_tokens_says_so(protocol: Protocol) -> None:
    finish = "max_tokens" if protocol.provider == "anthropic" else "length"
    ears = Ears()
    with served(in_turn(protocol.write(HELLO, finish=finish))) as endpoint, protocol.model(endpoint) as model:
        said = await ask(model, ears=ears)
    assert said.note == "\n(Cut here: the answer was longer than 4096 tokens.)"
    assert "".join(ears.pieces) == said.text == HELLO.text


@BOTH_PROTOCOLS
@pytest.mark.parametrize(
    ("answer", "says", "is_passing"),
    [
        (refusal(401, f"Incorrect API key: {KEY}"), "refused the key: set HONEYBADGER_MODEL_API_KEY", False),
        *((refusal(400, each.too_long), TOO_LONG, False) for each in PROTOCOLS),
        (refusal(403, "not in your region"), "refused the key: set HONEYBADGER_MODEL_API_KEY; it says: not in", False),
        (refusal(404, "no such model"), "has no such model: check its name, and base_url", False),
        (refusal(429, "slow down"), "is asked too often: try again later; it says: slow down (asked 3 times)", True),
        (refusal(400, "bad\x1b[2J parameter"), "refused the request with status 400; it says: bad [2J param", False),
        (refusal(500, "oops"), "failed with status 500: try again later; it says: oops (asked 3 times)", True),
        (Answer(502, {"Content-Type": "text/html"}, b"<html>Bad gateway"), "failed with status 502", True),
        (Answer(200, {"Content-Type": "text/html"}, b"<html>Welcome"), "is base_url right?", True),
        (Answer(body=b"data: {broken\n\ndata: [1]\n\n"), "is base_url right?", True),
        (Answer(body=b""), "is base_url right?", True),
    ],
)
async def test_endpoint_failures_say_what_to_do(
    protocol: Protocol, answer: Answer, says: str, is_passing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ears = Ears()
    with served(in_turn(answer)) as endpoint, protocol.model(endpoint) as model:
        failed = await failure(model, ears)
    assert says in str(failed)
    assert failed.is_passing == is_passing
    assert len(endpoint.asked) == (3 if is_passing else 1)
    assert KEY not in caplog.text
    assert str(failed).isprintable()


async def test_an_account_without_credit_is_not_asked_again() -> None:
    answer = refusal(429, "You exceeded your quota", "insufficient_quota")
    with served(in_turn(answer)) as endpoint, PROTOCOLS[0].model(endpoint) as model:
        assert "has no credit left" in str(await failure(model))
    assert len(endpoint.asked) == 1


LATER = refusal(429, "slow down", Retry_After="7")
CALLED = ModelSaid("", (NOTE,))


@BOTH_PROTOCOLS
@pytest.mark.parametrize("how", ["refused", "asks for a pause", "cut before text"])
async def test_what_failed_before_its_text_is_asked_again(protocol: Protocol, how: str) -> None:
    ears = Ears()
    answers = {
        "refused": (refusal(500, "oops"), refusal(503, "busy")),
        "asks for a pause": (LATER,),
        "cut before text": (Answer(then="cut"), protocol.write(CALLED, then="cut")),
    }[how]
    with served(in_turn(*answers, protocol.write(HELLO))) as endpoint, protocol.model(endpoint) as model:
        assert await ask(model, ears=ears) == HELLO
    assert ears.pauses == ([7.0] if how == "asks for a pause" else [0.5, 1.0])
    assert "".join(ears.pieces) == HELLO.text
    assert endpoint.asked[0].body == endpoint.asked[-1].body


@BOTH_PROTOCOLS
async def test_too_long_a_pause_ends_the_turn(protocol: Protocol) -> None:
    ears = Ears()
    with served(in_turn(refusal(429, "", Retry_After="3600"))) as endpoint, protocol.model(endpoint) as model:
        assert "again in 3600 s" in str(await failure(model, ears))
    assert (ears.pauses, len(endpoint.asked)) == ([], 1)


@BOTH_PROTOCOLS
@pytest.mark.parametrize("how", [{"then": "cut"}, {"finish": ""}])
async def test_a_stream_that_breaks_off_is_no_answer(protocol: Protocol, how: dict[str, str]) -> None:
    ears = Ears()
    answers = in_turn(protocol.write(HELLO, **how), protocol.write(HELLO))
    with served(answers) as endpoint, protocol.model(endpoint) as model:
        failed = await failure(model, ears)
    assert "in the middle of its answer" in str(failed)
    assert failed.is_passing
    assert len(endpoint.asked) == 1
    assert ears.pieces


@BOTH_PROTOCOLS
async def test_a_booked_call_is_retried_only_when_unpaid(protocol: Protocol) -> None:
    cut = Answer(then="cut")
    with served(in_turn(refusal(503, "later"), cut)) as endpoint, protocol.model(endpoint) as model:
        model.sleep = Ears().pause
        with pytest.raises(ModelFailed, match="broke off"):
            await model.answer(Prompt("You are Ada.", [UserSaid("Hi")], is_booked=True), Ears().hear)
        await model.aclose()
    assert len(endpoint.asked) == 2


@BOTH_PROTOCOLS
@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_silent_endpoint_is_not_waited_for_too_long(protocol: Protocol, has_begun: bool) -> None:
    answer = protocol.write(HELLO, then="hang") if has_begun else Answer(then="hang")
    retries = 0 if has_begun else 1  # a slow machine may notice the silence before the text
    ears = Ears()
    with served(in_turn(answer)) as endpoint, protocol.model(endpoint, timeout_seconds=0.2, retries=retries) as model:
        failed = await failure(model, ears)
    assert "was silent for 0.2 s (timeout_seconds)" in str(failed)
    assert failed.is_passing
    assert len(ears.pauses) == retries  # a busy endpoint may meet fewer attempts
    assert len(endpoint.asked) <= retries + 1


@BOTH_PROTOCOLS
async def test_an_endpoint_that_is_not_there_says_so(protocol: Protocol) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    ears = Ears()
    with protocol.model(url) as model:
        failed = await failure(model, ears)
    assert f"{url}{protocol.path} cannot be reached: does it run, and is base_url right? (asked 3 times)" in str(failed)
    assert failed.is_passing


@BOTH_PROTOCOLS
async def test_a_redirect_is_not_followed(protocol: Protocol) -> None:
    with served(in_turn(protocol.write(HELLO))) as elsewhere:
        redirect = Answer(307, {"Location": f"{elsewhere.url}/v1/chat/completions"})
        with served(in_turn(redirect)) as endpoint, protocol.model(endpoint) as model:
            await failure(model)
    assert endpoint.asked
    assert elsewhere.asked == []


def test_nothing_is_contacted_but_base_url() -> None:
    """In a process whose every connection and every name looked up is written down, with a hostile environment."""
    program = """
import asyncio, sys
contacted = []
def watch(event, arguments):
    if event == "socket.connect":
        contacted.append(arguments[1])
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        contacted.append((str(arguments[0]), arguments[1]))
sys.addaudithook(watch)
from honeybadger_agent.models.model import Prompt, UserSaid
from honeybadger_agent.models import ModelSettings, open_model
async def hear(_): pass
async def main():
    for provider, url in zip(sys.argv[1::2], sys.argv[2::2]):
        contacted.clear()
        model = open_model(f"{provider}:gpt-5", ModelSettings(base_url=url, api_key="sk-ours"))
        said = await model.answer(Prompt("", (UserSaid("Hi"),)), hear)
        await model.aclose()
        print(said.text, sorted({(str(address[0]), int(address[1])) for address in contacted}))
asyncio.run(main())
"""
    with ExitStack() as endpoints:
        arguments, expected = [], ""
        for protocol in PROTOCOLS:
            endpoint = endpoints.enter_context(served(in_turn(protocol.write(HELLO))))
            arguments += [protocol.provider, endpoint.url + protocol.path]
            expected += f"{HELLO.text} [('127.0.0.1', {int(endpoint.url.rpartition(':')[2])})]\n"
        run = finished([sys.executable, "-W", "error", "-c", program, *arguments], env={"PATH": "", **POISON})
    assert (run.stdout, run.stderr) == (expected, "")


@BOTH_PROTOCOLS
async def test_a_server_that_floods_is_given_up(protocol: Protocol) -> None:
    answers = in_turn(protocol.write(ModelSaid("word " * 2000)))
    with served(answers) as endpoint, protocol.model(endpoint, max_output_tokens=100) as model:
        failed = await failure(model)
    assert "far more than max_output_tokens" in str(failed)
    assert not failed.is_passing
    assert len(endpoint.asked) == 1
