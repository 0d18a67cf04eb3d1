"""The envelope of every request, the reply, and their bytes."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from honeybadger_agent.mailbox import REQUEST_ID, SESSION
from honeybadger_agent.wire.base import PROTOCOL, REQUEST_TYPES, Request, Result, Wire
from honeybadger_agent.wire.refusals import ErrorCode, NotARequest, Refusal, nearest, refusal_of, shown_name

RequestT = TypeVar("RequestT", bound=Request[Any])


def _checked_session(value: str) -> str:
    if not SESSION.fullmatch(value):
        raise PydanticCustomError("must_be", "1-100 characters of A-Z a-z 0-9 . _ : -, not only dots (example: main)")
    return value


Session = Annotated[
    str,
    AfterValidator(_checked_session),
    Field(json_schema_extra={"pattern": r"^(?!\.+$)[A-Za-z0-9._:-]{1,100}$"}),
]


class Envelope(BaseModel):
    """The envelope. Unknown members next to `payload` are ignored, so that version 1 can grow."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, defer_build=True)

    v: int = Field(description="Protocol version, 1.", json_schema_extra={"const": PROTOCOL})
    id: str = Field(
        pattern=f"^{REQUEST_ID.pattern}$", description="The file's name without `.json`; used for one request only."
    )
    type: str
    group: str | None = Field(default=None, description="If present, must equal the folder.")
    sender: str | None = Field(default=None, description="If present, must equal the folder.")
    session: Session = "main"
    sent_at: str | None = Field(default=None, description="UTC, RFC 3339; the host ignores it.")
    payload: dict[str, Any] = Field(default_factory=dict)


class ErrorBody(Result):
    code: ErrorCode
    message: str
    field: str | None = None
    retry_after_seconds: float | None = None


class Reply(BaseModel):
    """The host's answer. `ok` with a `seq` means durable."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, defer_build=True)

    v: int
    id: str
    ok: bool
    seq: int | None = Field(default=None, description="Position in the journal; only when something was changed.")
    result: dict[str, Any] | None = None
    error: ErrorBody | None = None


def parse_request(data: bytes, stem: str) -> Envelope:
    """Return the envelope of a request file.

    Args:
        data: content of the file; if a member appears twice, the last one counts.
        stem: the file's name without `.json`.
    Raises:
        NotARequest: not a JSON object, or a member of the envelope is missing or has the wrong type.
        Refusal: the host cannot serve the envelope.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise NotARequest(f"not JSON: {error}", is_unfinished=_ends_too_early(data, error.pos)) from None
    if not isinstance(value, dict):
        raise NotARequest("not a JSON object, which a request is")
    version = value.get("v")
    if type(version) is int and version != PROTOCOL:
        raise Refusal(
            "invalid", f"v is {str(version)[:20]}; this host speaks version {PROTOCOL}: send v: {PROTOCOL}", field="v"
        )
    try:
        request = Envelope.model_validate(value)
    except ValidationError as error:
        refusal = refusal_of(error)
        if error.errors(include_url=False, include_input=False)[0]["type"] in ("string_pattern_mismatch", "must_be"):
            raise refusal from None  # right type, wrong value
        raise NotARequest(f"not a request: {refusal.message}") from None
    if request.id != stem:
        raise Refusal("invalid", f"id must equal the file's name without .json, which is {stem!r}", field="id")
    return request


def parse_payload(request: Envelope, types: Mapping[str, type[Request[Any]]] = REQUEST_TYPES) -> Request[Any]:
    """Return the payload of `request` as the model of its type.

    Args:
        types: request types that its folder takes.
    Raises:
        Refusal: names the member.
    """
    kind = types.get(request.type)
    if kind is None:
        raise Refusal(
            "invalid",
            f"type {request.type[:60]!r} is unknown; {nearest(request.type, types)}",
            field="type",
        )
    return parse_members(kind, request.payload)


def parse_members(kind: type[RequestT], members: Mapping[str, Any]) -> RequestT:
    """Return the members of a payload as the model of its type. Raises `Refusal`, naming the member."""
    known = _members(kind)
    if not members.keys() <= known.keys():  # before pydantic, which would report the missing member instead of the typo
        name = next(name for name in members if name not in known)
        field = f"payload.{shown_name(name)}"
        hint = nearest(name, known) if known else f"{kind.type_name} takes no members"
        raise Refusal("invalid", f"{field} is unknown; {hint}", field=field)
    try:
        return kind.model_validate(members)
    except ValidationError as error:
        raise refusal_of(error, "payload.") from None


@lru_cache
def _members(model: type[Wire]) -> Mapping[str, object]:
    return model.model_fields  # slow in pydantic


def dump_reply(request_id: str, result: Mapping[str, Any], seq: int | None = None) -> bytes:
    head: dict[str, Any] = {"v": PROTOCOL, "id": request_id, "ok": True}
    if seq is not None:
        head["seq"] = seq
    head["result"] = result
    return orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)


def dump_error(request_id: str, refusal: Refusal) -> bytes:
    told = {name: getattr(refusal, name) for name in ErrorBody.model_fields}
    error = {name: value for name, value in told.items() if value is not None}
    head = {"v": PROTOCOL, "id": request_id, "ok": False, "error": error}
    return orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)


def dump_request(
    request_id: str, type_name: str, payload: Wire | Mapping[str, Any], *, session: str | None = None
) -> bytes:
    """Return the bytes of a request; the same arguments give the same bytes, so that a retry is recognised.

    Raises TypeError if the payload is a mapping with a value that JSON cannot hold.
    """
    return orjson.dumps(
        {
            "v": PROTOCOL,
            "id": request_id,
            "type": type_name,
            "session": session or "main",
            "payload": payload.model_dump(exclude_none=True) if isinstance(payload, Wire) else payload,
        }
    )


def _ends_too_early(data: bytes, error_at: int) -> bool:
    """Return whether bytes that are not JSON could become it with more bytes after them.

    Args:
        error_at: offset at which the parser gave up, in characters.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return error_at >= len(text.rstrip(" \t\r\n"))
