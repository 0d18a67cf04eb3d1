"""A real HTTP endpoint on loopback that speaks the protocols of OpenAI and Anthropic, and fails as it is told to."""

import contextlib
import itertools
import re
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import orjson

from honeybadger_agent.models.model import ModelSaid, ToolCall

STREAM = {"Content-Type": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that came in; names of headers in small letters."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def system(self) -> str:
        """The system text, in either protocol."""
        if "system" in self.body:
            found = self.body["system"]
            return found if isinstance(found, str) else "".join(part["text"] for part in found)
        return "".join(part["content"] for part in self.body["messages"] if part["role"] in ("system", "developer"))


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the endpoint.

    Args:
        body: at once.
        pieces: after it, one by one, as they are sent by a server that writes while it thinks.
        then: `end` closes as HTTP asks for; `cut` resets the connection; `hang` says nothing more until the end.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(STREAM))
    body: bytes = b""
    pieces: Iterable[bytes] = ()
    then: Literal["end", "cut", "hang"] = "end"


Answering = Callable[[Asked], Answer]


@dataclass(slots=True)
class Endpoint:
    """A served endpoint; `url` has no path."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when a client closed a connection before its answer was whole."""

    @property
    def settings(self) -> dict[str, object]:
        """The settings of a host that asks it for all that a model is asked for, as OpenAI's."""
        return {"model.name": "openai:test", "model.base_url": f"{self.url}/v1"}


@contextlib.contextmanager
def served(answering: Answering) -> Iterator[Endpoint]:
    """Serve inside a `with`. Each request is answered in a thread of its own."""
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            asked = Asked(
                self.path,
                {name.lower(): value for name, value in self.headers.items()},
                orjson.loads(self.rfile.read(length) or b"{}"),
            )
            endpoint.asked.append(asked)
            answer = answering(asked)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in itertools.chain([answer.body], answer.pieces):
                if piece:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    self.wfile.flush()
            match answer.then:
                case "end":
                    self.wfile.write(b"0\r\n\r\n")
                case "cut":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    self.connection.close()
                case "hang":
                    self._wait()
                    self.close_connection = True

        do_GET = do_POST  # noqa: N815  # the list of models is asked for without a body

        def _wait(self) -> None:
            self.connection.settimeout(0.05)
            while not is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    if not self.connection.recv(1):
                        endpoint.gone.set()
                        return

        def finish(self) -> None:
            with contextlib.suppress(OSError, ValueError):  # the client went, or we did
                super().finish()

        def handle(self) -> None:
            try:
                super().handle()
            except (ConnectionError, ValueError):  # it went while it was answered
                endpoint.gone.set()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_address[1]}")
    with listening(server):
        try:
            yield endpoint
        finally:
            is_over.set()


@contextlib.contextmanager
def listening(server: socketserver.TCPServer) -> Iterator[int]:
    """Let a server serve on a thread of its own; gives its port."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def in_turn(*answers: Answer) -> Answering:
    """Answer with one after another, the last for ever."""
    left = list(answers)
    lock = threading.Lock()

    def answering(_: Asked) -> Answer:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answering


def refusal(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    """Answer with an error, in a shape both libraries read."""
    error = {"message": message, "type": "error", "code": code}
    body = orjson.dumps({"type": "error", "error": error})
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"Content-Type": "application/json", **names}, body)


def openai(
    said: ModelSaid,
    *,
    pieces_of_text: Sequence[str] | None = None,
    finish: str | None = None,
    then: Literal["end", "cut", "hang"] = "end",
) -> Answer:
    """Answer as OpenAI's chat completions stream it: each word a chunk, a call in two parts, usage last.

    Args:
        pieces_of_text: the chunks, where they are not words.
        finish: another reason than the one that fits; empty: the stream ends without any.
    """
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in pieces_of_text or _words(said.text)]
    for index, call in enumerate(said.calls):
        half = len(call.arguments) // 2
        head = {"index": index, "id": call.id, "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": call.name, "arguments": call.arguments[:half]}}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": call.arguments[half:]}}]})
    pieces = [_openai_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    reason = ("tool_calls" if said.calls else "stop") if finish is None else finish
    if reason:
        pieces.append(_openai_chunk([{"index": 0, "delta": {}, "finish_reason": reason}]))
        if said.input_tokens is not None:
            asked, answered = said.input_tokens, said.output_tokens or 0
            usage = {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
            pieces.append(_openai_chunk([], usage=usage))
        pieces.append(b"data: [DONE]\n\n")
    return Answer(pieces=pieces if then == "end" else pieces[: len(deltas)], then=then)


def _openai_chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "test"}
    return b"data: " + orjson.dumps({**chunk, "choices": choices, **more}) + b"\n\n"


def anthropic(said: ModelSaid, *, finish: str | None = None, then: Literal["end", "cut", "hang"] = "end") -> Answer:
    """Answer as Anthropic's messages stream it; arguments as for `openai`."""
    started: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": said.input_tokens or 0, "output_tokens": 0},
    }
    pieces = [_event("message_start", message=started), _event("ping")]
    blocks = [*([None] if said.text else []), *said.calls]
    for index, block in enumerate(blocks):
        pieces += _block(index, said.text, block)
    ended = len(pieces) - 1 if blocks else len(pieces)
    reason = ("tool_use" if said.calls else "end_turn") if finish is None else finish
    if reason:
        delta = {"stop_reason": reason, "stop_sequence": None}
        pieces.append(_event("message_delta", delta=delta, usage={"output_tokens": said.output_tokens or 0}))
        pieces.append(_event("message_stop"))
    return Answer(pieces=pieces if then == "end" else pieces[:ended], then=then)


def _block(index: int, text: str, call: ToolCall | None) -> list[bytes]:
    if call is None:
        block: dict[str, Any] = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": word} for word in _words(text)]
    else:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        half = len(call.arguments) // 2
        halves = (call.arguments[:half], call.arguments[half:])
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in halves]
    return [
        _event("content_block_start", index=index, content_block=block),
        *(_event("content_block_delta", index=index, delta=delta) for delta in deltas),
        _event("content_block_stop", index=index),
    ]


def _event(kind: str, **members: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **members}))


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)
