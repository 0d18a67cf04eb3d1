"""Models behind a provider's HTTP API: OpenAI's protocol, spoken by many servers, and Anthropic's.

It imports `pydantic_ai`, `openai` and `anthropic` (the extra `llm`), so `models` imports it only when needed. The
library builds requests and reads streams; addresses, headers, timeouts and retries are decided here.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, assert_never
from urllib.parse import urlsplit

import httpx2
from pydantic_ai import exceptions as failed
from pydantic_ai import messages as parts
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings as LibrarySettings
from pydantic_ai.tools import ToolDefinition

from honeybadger_agent.models.model import (
    DEFAULT_URLS,
    Message,
    ModelFailed,
    ModelSaid,
    ModelSettings,
    OnText,
    Prompt,
    ToolCall,
    ToolsAnswered,
    UserSaid,
    checked_url,
    one_line,
)

MAX_CONNECT_SECONDS = 10.0  # for a connection to a provider
MAX_RETRY_AFTER_SECONDS = 30.0  # the longest pause; if a provider asks for more, the turn fails and says so

# An answer may take at most this many `timeout_seconds` in all, even if data keeps trickling in.
MAX_CALL_TIMEOUTS = 10

# About the length of the longest tokens; it limits how much memory an endless answer can fill.
MAX_CHARACTERS_OF_A_TOKEN = 64
_FIRST_PAUSE_SECONDS = 0.5
# The headers sent. The SDKs would add the platform and ANTHROPIC_CUSTOM_HEADERS, OPENAI_ORG_ID and others.
_HEADERS = {
    *("host", "accept", "accept-encoding", "connection", "content-type", "content-length", "transfer-encoding"),
    *("authorization", "x-api-key", "anthropic-version", "anthropic-beta"),
}

_NO_KEY = "none"  # the SDKs require one; local servers ignore it
_log = logging.getLogger(__name__)


def open_provider(provider: str, model: str, settings: ModelSettings) -> ProviderModel:
    """Return a model of `openai`, `anthropic` or `ollama`; nothing is contacted.

    Raises ModelFailed if the address or the key is malformed, or the provider's own address needs a key.
    """
    name = f"{provider}:{model}"
    base_url = checked_url(name, settings.base_url or DEFAULT_URLS[provider])
    if not (settings.key.isascii() and settings.key.isprintable()):
        raise ModelFailed(f"{name}: {settings.key_name} has characters that no key has; set it again", is_passing=False)
    if not settings.key and base_url == DEFAULT_URLS[provider] and provider != "ollama":
        raise ModelFailed(f"{name} needs a key: set {settings.key_name}", is_passing=False)
    client = _client(base_url, settings)
    opened = _anthropic if provider == "anthropic" else _openai
    return ProviderModel(name, opened(provider, model, base_url, settings, client), client, base_url, settings)


def _client(base_url: str, settings: ModelSettings) -> httpx2.AsyncClient:
    """Return a client that contacts only `base_url`: no proxy from the environment, no redirect."""
    home = httpx2.URL(base_url)

    async def narrowed(request: httpx2.Request) -> None:
        if (request.url.scheme, request.url.host, request.url.port) != (home.scheme, home.host, home.port):
            raise httpx2.UnsupportedProtocol("not at base_url", request=request)
        for header in [header for header in request.headers if header.lower() not in _HEADERS]:
            del request.headers[header]
        if not settings.key:
            request.headers.pop("authorization", None)
            request.headers.pop("x-api-key", None)
        request.headers["user-agent"] = "honeybadger"

    return httpx2.AsyncClient(
        timeout=_timeout(settings), trust_env=False, follow_redirects=False, event_hooks={"request": [narrowed]}
    )


def _timeout(settings: ModelSettings) -> httpx2.Timeout:
    return httpx2.Timeout(settings.timeout_seconds, connect=min(MAX_CONNECT_SECONDS, settings.timeout_seconds))


def _openai(
    provider: str, model: str, base_url: str, settings: ModelSettings, client: httpx2.AsyncClient
) -> LibraryModel:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.ollama import OllamaProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    sdk = AsyncOpenAI(
        api_key=settings.key or _NO_KEY,
        base_url=base_url,
        timeout=_timeout(settings),
        max_retries=0,
        http_client=client,
    )
    host = urlsplit(base_url).hostname or ""
    # OpenAI's newer models refuse `max_tokens`; other servers of its protocol know only that
    profile = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=host.endswith((".openai.com", ".azure.com")),
        openai_chat_streaming_requires_finish_reason=True,
        json_schema_transformer=None,  # saves 2.6 ms a call; strict mode is not used
        thinking_tags=("\0", "\0"),  # off: it recognises a tag only as a whole chunk, and else loses the text after it
    )
    kind = OllamaProvider if provider == "ollama" else OpenAIProvider
    return OpenAIChatModel(model, provider=kind(openai_client=sdk), profile=profile)


def _anthropic(_: str, model: str, base_url: str, settings: ModelSettings, client: httpx2.AsyncClient) -> LibraryModel:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk = AsyncAnthropic(
        api_key=settings.key or _NO_KEY,
        base_url=base_url,
        timeout=_timeout(settings),
        max_retries=0,
        http_client=client,
        open_telemetry=False,
    )
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=sdk))


# Errors of a server that has not begun to answer.
_REFUSALS = (
    *(failed.ModelRequestRejectedError, failed.ModelQuotaExceededError, failed.ModelRateLimitError),
    *(failed.ModelUnavailableError, failed.ModelServerError, failed.ModelHTTPError),
)


_TOO_LONG_WHY = "the context is too long for the model: lower the budget of the context, or take a larger model{said}"
_UNREACHABLE_WHY = "{at} cannot be reached: does it run, and is base_url right?"
_UNREAD_WHY = "the answer of {at} broke off or cannot be read ({name}): is base_url right?{said}"
# Errors of the library -> what happened and what now, and whether it may pass; the first row that fits counts.
_WHY: Sequence[tuple[tuple[type[Exception], ...], str, bool]] = (
    ((failed.ModelAuthenticationError,), "{at} refused the key: set {key}{said}", False),
    ((failed.ModelNotFoundError,), "{at} has no such model: check its name, and base_url{said}", False),
    ((failed.ModelQuotaExceededError,), "the account at {at} has no credit left{said}", False),
    ((failed.ModelRateLimitError,), "{at} is asked too often: try again {later}{said}", True),
    ((failed.ModelUnavailableError, failed.ModelServerError), "{at} failed{status}: try again later{said}", True),
    ((failed.ModelTimeoutError, httpx2.TimeoutException), "{at} was silent for {seconds} s (timeout_seconds)", True),
    ((failed.ModelRequestTimeout,), "the answer was not complete after {most} s", True),
    ((failed.ModelConnectionError, httpx2.TransportError), "the connection to {at} broke off", True),
    ((failed.ModelHTTPError, failed.ModelRequestRejectedError), "{at} refused the request{status}{said}", False),
)


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why an attempt failed.

    Args:
        why: what happened and what now, without a key.
        pause_seconds: the provider asks to wait this long; 0: it does not say.
        is_free: see `ModelFailed`.
    """

    why: str
    is_passing: bool
    pause_seconds: float = 0
    is_free: bool = False


@dataclass(slots=True, eq=False)
class ProviderModel:
    """A `Model` behind HTTP; it can give several answers at once. Open until `aclose`.

    Args:
        sleep: for the pauses between attempts.
    """

    name: str
    _model: LibraryModel
    _client: httpx2.AsyncClient
    _base_url: str
    _settings: ModelSettings
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def answer(self, prompt: Prompt, on_text: OnText) -> ModelSaid:
        attempt = 0
        while True:
            attempt += 1
            is_heard = False
            async with aclosing(self._attempt(prompt)) as coming:
                async for part in coming:
                    match part:
                        case str():
                            is_heard = True
                            await on_text(part)
                        case ModelSaid():
                            return part
                        case _Failure():
                            failure = part
            pause = min(MAX_RETRY_AFTER_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1))
            pause = max(pause, failure.pause_seconds)
            is_paid = is_heard or (prompt.is_booked and not failure.is_free)
            is_too_late = attempt > self._settings.retries or pause > MAX_RETRY_AFTER_SECONDS
            if is_paid or not failure.is_passing or is_too_late:
                raise self._given_up(failure, attempt, is_heard=is_heard)
            _log.info("model %s: retry in %.1f s: %s", self.name, pause, failure.why)
            await self.sleep(pause)

    async def aclose(self) -> None:
        await self._client.aclose()

    def _given_up(self, failure: _Failure, attempt: int, *, is_heard: bool) -> ModelFailed:
        where = " in the middle of its answer" if is_heard else ""
        asked = f" (asked {attempt} times)" if attempt > 1 else ""
        is_free = failure.is_free and not is_heard
        why = f"{self.name}{where}: {failure.why}{asked}"
        return ModelFailed(why, is_passing=failure.is_passing, is_free=is_free)

    async def _attempt(self, prompt: Prompt) -> AsyncGenerator[str | ModelSaid | _Failure]:
        """Yield pieces of text, and last the answer or the failure.

        The failure is a value: an exception would chain the library's own ones, which contain the request.
        """
        settings = self._settings
        asked = LibrarySettings(
            max_tokens=settings.max_output_tokens, request_timeout=settings.timeout_seconds * MAX_CALL_TIMEOUTS
        )
        system, stable = prompt.system, prompt.stable_characters
        instructions = [parts.InstructionPart(system)] if system else []
        if self.name.startswith("anthropic:") and 0 < stable < len(system):  # other providers find common beginnings
            first, rest = system[:stable], system[stable:]
            instructions = [parts.InstructionPart(first), parts.InstructionPart(rest, dynamic=True)]
            asked["anthropic_cache_instructions"] = True  # type: ignore[typeddict-unknown-key]
        definitions = [
            ToolDefinition(
                name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description, strict=False
            )
            for tool in prompt.tools
        ]
        try:
            async with model_request_stream(
                self._model,
                _conversation(prompt.messages),
                model_settings=asked,
                model_request_parameters=ModelRequestParameters(
                    function_tools=definitions, instruction_parts=instructions
                ),
                instrument=False,
            ) as stream:
                characters = 0
                async for event in stream:
                    piece, arguments = _written(event)
                    if piece:
                        yield piece
                    characters += len(piece) + len(arguments)
                    if characters > settings.max_output_tokens * MAX_CHARACTERS_OF_A_TOKEN:
                        yield _Failure("it wrote far more than max_output_tokens: is base_url right?", is_passing=False)
                        return
                end = self._end(stream)
        except Exception as error:  # noqa: BLE001  any bad response is reported as the server's failure
            is_free = isinstance(error, _REFUSALS) or getattr(error, "phase", "") == "connect"
            end = replace(self._failure(error), is_free=is_free)
        yield end

    def _end(self, stream: StreamedResponse) -> ModelSaid | _Failure:
        response = stream.get()
        if response.finish_reason is None:
            return _Failure(
                "the answer broke off before its end: does a proxy between you and the model cut it?", is_passing=True
            )
        text = "".join(part.content for part in response.parts if isinstance(part, parts.TextPart))
        calls = tuple(
            ToolCall(part.tool_call_id, part.tool_name, _arguments(part))
            for part in response.parts
            if isinstance(part, parts.ToolCallPart)
        )
        if response.finish_reason == "content_filter" and not text and not calls:
            return _Failure("the provider's content filter stopped the answer; ask differently", is_passing=False)
        is_cut = response.finish_reason == "length" and not calls
        limit = f"\n(Cut here: the answer was longer than {self._settings.max_output_tokens} tokens.)"
        usage = response.usage
        is_counted = usage.input_tokens > 0 or usage.output_tokens > 0
        return ModelSaid(
            text,
            calls,
            input_tokens=usage.input_tokens if is_counted else None,
            output_tokens=usage.output_tokens if is_counted else None,
            note=limit if is_cut else "",
        )

    def _failure(self, error: Exception) -> _Failure:
        """Return an error of the library as a failure, in words for the operator of the host."""
        pause, seconds = getattr(error, "retry_after", None), self._settings.timeout_seconds
        known = {
            "at": self._base_url,
            "key": self._settings.key_name,
            "said": self._provider_said(error),
            "status": f" with status {error.status_code}" if isinstance(error, failed.ModelHTTPError) else "",
            "later": "later" if pause is None else f"in {pause:g} s",
            "seconds": f"{seconds:g}",
            "most": f"{seconds * MAX_CALL_TIMEOUTS:g}",
            "name": type(error).__name__,
        }
        # servers share words for a request that is too long, but no code
        is_too_long = isinstance(error, failed.ModelContextWindowExceededError) or _TOO_LONG.search(known["said"])
        if isinstance(error, failed.ModelRequestRejectedError) and is_too_long:
            return _Failure(_TOO_LONG_WHY.format(**known), is_passing=False)
        if getattr(error, "phase", "") == "connect":
            return _Failure(_UNREACHABLE_WHY.format(**known), is_passing=True)
        for kinds, why, is_passing in _WHY:
            if isinstance(error, kinds):
                return _Failure(why.format(**known), is_passing=is_passing, pause_seconds=pause or 0)
        _log.debug("model %s: no answer could be read", self.name, exc_info=error)
        return _Failure(_UNREAD_WHY.format(**known), is_passing=True)

    def _provider_said(self, error: Exception) -> str:
        """Return the provider's message, shortened, on one line and without the key."""
        body = getattr(error, "body", None)
        inner = body.get("error", body) if isinstance(body, dict) else body
        words = inner.get("message") if isinstance(inner, dict) else inner
        if not isinstance(words, str) or not words.strip():
            return ""
        if self._settings.key:
            words = words.replace(self._settings.key, "[key]")
        return f"; it says: {one_line(words)}"


_TOO_LONG = re.compile(
    r"context.?(length|window|size)|too (long|large|many tokens)|maximum.{1,40}tokens", re.IGNORECASE
)


def _conversation(messages: Sequence[Message]) -> list[parts.ModelMessage]:
    said: list[parts.ModelMessage] = []
    for message in messages:
        match message:
            case UserSaid():
                said.append(parts.ModelRequest([parts.UserPromptPart(message.text)]))
            case ModelSaid():
                said.append(parts.ModelResponse(_said_parts(message)))
            case ToolsAnswered():
                said.append(
                    parts.ModelRequest(
                        [
                            parts.ToolReturnPart(
                                answer.call.name,
                                answer.content,
                                answer.call.id,
                                outcome="success" if answer.ok else "failed",
                            )
                            for answer in message.answers
                        ]
                    )
                )
            case _:
                assert_never(message)
    return said


def _said_parts(message: ModelSaid) -> list[parts.ModelResponsePart]:
    calls: list[parts.ModelResponsePart] = [
        parts.ToolCallPart(call.name, call.arguments, call.id) for call in message.calls
    ]
    if message.text.strip() or not calls:  # providers refuse an empty answer
        calls.insert(0, parts.TextPart(message.text if message.text.strip() else "(no text)"))
    return calls


def _arguments(part: parts.ToolCallPart) -> str:
    """Return the arguments as the model wrote them; `{}` for none."""
    return (part.args or "{}") if part.args is None or isinstance(part.args, str) else part.args_as_json_str()


def _written(event: Any) -> tuple[str, str]:
    """Return the piece of text, and the piece of a tool's arguments, in an event."""
    match event:
        case (
            parts.PartStartEvent(part=parts.TextPart(content=piece))
            | parts.PartDeltaEvent(delta=parts.TextPartDelta(content_delta=piece))
        ):
            return piece, ""
        case parts.PartDeltaEvent(delta=parts.ToolCallPartDelta(args_delta=str(arguments))):
            return "", arguments
        case _:
            return "", ""
