"""Every setting, with its default and its meaning: one frozen tree. `configuration` reads it."""

from __future__ import annotations

import json
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "HONEYBADGER_"

SecretsMode: TypeAlias = Literal["redact", "refuse", "off"]
# The last two are of earlier versions and mean `copied`.
CurationMode: TypeAlias = Literal["copied", "review", "gated", "lossless"]
CuratedKind: TypeAlias = Literal["consolidation", "enrichment", "dream", "preferences"]


class Section(BaseModel):
    """One table of the configuration file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _table(value: object) -> object:
    """Read the text of a flag or a variable: main=100000,other=50000."""
    is_text = isinstance(value, str) and "=" in value
    return dict(part.split("=", 1) for part in str(value).split(",")) if is_text else value


_AtLeastOne: TypeAlias = Annotated[int, Field(ge=1)]


class Ipc(Section):
    """The inboxes and the path of a request."""

    closed: bool = Field(False, description="true: only folders made by `honeybadger-host sender add` are served.")
    sweep_seconds: float = Field(
        0.25,
        ge=0.01,
        le=60,
        description="Seconds between two sweeps of all inboxes. With file events it is four times as long, and longer "
        "with over 100 groups; a request whose event was lost is found that late.",
    )
    watch: bool = Field(
        True, description="false: no file events, the sweep finds everything (for network file systems)."
    )
    reply_ttl_seconds: float = Field(
        3600, ge=1, description="Seconds after which a reply nobody collected or an unfinished file in tmp/ is removed."
    )


class Limits(Section):
    """Limits of one sender in one group; requests above them are answered with rate_limited. 0: no limit."""

    requests_per_second: float = Field(0, ge=0, description="Requests of a sender in a second, on average.")


class Memory(Section):
    """Notes and the files of a group."""

    writes: Annotated[dict[str, Literal["direct", "review"]], BeforeValidator(_table)] = Field(
        {},
        description="Groups whose notes and entries wait for `honeybadger-host review` before they are written: "
        'writes = { main = "review" }.',
    )


class Conversation(Section):
    """Turns in memory; the log of a session is never cut."""

    enabled: bool = Field(
        True, description="false: no turn is kept or replayed; append_turn and get_history are answered with invalid."
    )


class History(Section):
    """The recent conversation."""

    replayed_turns: int = Field(
        20, ge=1, le=10_000, description="Newest turns that a context replays; get_history has the whole window."
    )
    budget_tokens: int = Field(8000, ge=0, description="Estimated tokens of the recent conversation; 0 means no limit.")


class Consolidation(Section):
    """Consolidation of turns beyond the window: an entry of HISTORY.md, a part of summary.md, notes."""

    memory_window: int = Field(
        50,
        ge=0,
        le=10_000,
        description="Turns of a session after which the older ones are consolidated; 0: never, and a context replays "
        "the newest ten.",
    )

    @property
    def kept_turns(self) -> int:
        """Newest turns of a session that are kept in memory: history is made of them."""
        return max(50, self.memory_window)


class Curation(Section):
    """Curation of memory in the background; see docs/curation.md."""

    apply: CurationMode = Field(
        "copied",
        description="copied: copies of people's words are applied without a person; "
        "review: everything waits for `honeybadger-host review`.",
    )
    prose: bool = Field(
        False,
        description="true: a model writes paragraphs of HISTORY.md and summary.md, marked as its own and unchecked; "
        "MEMORY.md stays copied.",
    )
    enrichment: bool = Field(
        True,
        description="false: no model is asked which sentences of a saved text are separate facts.",
    )
    tokens_per_day: int = Field(
        500_000,
        ge=0,
        description="Input and output tokens that curation may use in a day (UTC), over all groups; 0: no limit.",
    )
    groups: Annotated[dict[str, _AtLeastOne], BeforeValidator(_table)] = Field(
        {}, description="Tokens per day of single groups, within tokens_per_day: groups = { main = 100000 }."
    )
    kinds: Annotated[dict[CuratedKind, _AtLeastOne], BeforeValidator(_table)] = Field(
        {}, description="Tokens per day of consolidation, enrichment, dream or preferences: kinds = { dream = 50000 }."
    )


class Dream(Section):
    """Passes over all memory of a group: `honeybadger-host dream`."""

    schedule: str = Field(
        "",
        description="When groups dream: a cron line in the host's time zone, such as 30 3 * * *. A group without new "
        "memory does not dream. Empty: only on request.",
    )
    preferences: bool = Field(True, description="false: no preferences are inferred from people's turns.")


class Context(Section):
    """The whole context."""

    budget_tokens: int = Field(
        32_000, ge=0, description="Estimated tokens of a whole context; persona and message are never cut; 0: no limit."
    )
    kept_days: int = Field(
        30, ge=0, le=3650, description="Days that served contexts are kept, for why and --as-of; 0: none is kept."
    )


class Working(Section):
    """Working memory: scratch entries of a session that expire."""

    enabled: bool = Field(True, description="false: no working memory; its requests are answered with invalid.")


class Document(Section):
    """Session documents."""

    in_context: bool = Field(True, description="false: its facts, summary and running tasks are not in a context.")


class Recall(Section):
    """Long-term memory: search, and recall into contexts."""

    enabled: bool = Field(True, description="false: nothing is recalled into contexts; search works nevertheless.")
    vectors: Literal["off", "multilingual"] = Field(
        "off",
        description="multilingual: search by meaning, too, with a local model; needs the extra "
        "honeybadger-host[vectors].",
    )
    budget_tokens: int = Field(
        2000,
        ge=0,
        description="Estimated tokens of recalled text, at most half of a small context; 0 means no limit.",
    )
    max_memory_bytes: int = Field(
        268_435_456,
        ge=0,
        description="Bytes of search structures kept in memory, over all groups, about 60 for each document. A group "
        "that needs more leaves memory after a minute without a search.",
    )


class Security(Section):
    """Texts that must not become memory."""

    secrets: SecretsMode = Field(
        "redact",
        description="Credentials in texts: redact removes them, refuse answers the request with invalid, off keeps "
        "them.",
    )


class Model(Section):
    """The model that answers turns. Its key is not a setting: see docs/models.md."""

    name: str = Field(
        "offline",
        min_length=1,
        description="offline: a built-in that only remembers and recalls; openai:NAME, anthropic:NAME, ollama:NAME "
        "need the extra honeybadger-host[llm]; scripted:FILE for tests.",
    )
    curation: str = Field(
        "",
        description="The model of curation; empty: model.name. offline: none, summaries keep people's newest turns.",
    )
    base_url: str = Field(
        "", description="Address of the model's server, if it speaks OpenAI's protocol; empty: the provider's own."
    )
    timeout_seconds: float = Field(
        120, gt=0, le=3600, description="Seconds of silence after which a model is given up."
    )
    max_output_tokens: int = Field(4096, ge=1, description="Tokens of one answer of the model.")


class Turns(Section):
    """Turns of agents: the messages in turns/."""

    agent: str = Field(
        "assistant",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        description="Agent that answers if a message names none; it needs no file in config/agents/.",
    )
    at_once: int = Field(
        4, ge=1, le=256, description="Turns that run at the same time; within a group it is always one."
    )
    steps: int = Field(12, ge=1, le=1000, description="How often the model may be asked in one turn.")
    total_tokens: int = Field(0, ge=0, description="Input and output tokens of all steps of a turn; 0: no limit.")
    seconds: float = Field(
        300,
        ge=0,
        description="Seconds after which a turn no longer asks its model; an answer being written may take as long "
        "again; 0: no limit.",
    )


class Tasks(Section):
    """Scheduled tasks of agents: groups/<group>/tasks/."""

    least_seconds: float = Field(
        60, ge=1, le=86_400, description="Least seconds between two runs; less than a minute is for trials."
    )


class Push(Section):
    """A `[[messages.push]]`: a program or a webhook that gets each message."""

    command: list[Annotated[str, Field(min_length=1)]] = []
    webhook: str = ""
    key_file: str = ""
    groups: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]] = []

    @model_validator(mode="after")
    def _check(self) -> Push:
        if bool(self.command) == bool(self.webhook):
            raise ValueError("give either command or webhook")
        if self.webhook:
            _check_webhook(self.webhook)
        elif self.key_file:
            raise ValueError("key_file signs what is sent to a webhook; there is none")
        return self


def _check_webhook(url: str) -> None:
    """Raise ValueError for an address that is neither HTTPS nor loopback."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if (
        not host
        or parts.username is not None
        or not url.isascii()
        or not url.isprintable()
        or " " in url
        or parts.port == 0
    ):
        raise ValueError("webhook must be an address as https://example.org/hook, without a user")
    if parts.scheme != "https" and (parts.scheme != "http" or host not in ("127.0.0.1", "::1", "localhost")):
        raise ValueError("webhook must begin with https://, or with http:// on this machine")


def _pushes(value: object) -> object:
    """Read the text of a flag or a variable: JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        return value


class Messages(Section):
    """Messages to people."""

    push: Annotated[list[Push], BeforeValidator(_pushes)] = Field(
        [],
        description="Targets of each message: [[messages.push]] with command (a list) or webhook, key_file, groups "
        "(all).",
    )


class Log(Section):
    """The daemon's log, on standard error."""

    format: Literal["auto", "json", "console"] = Field("auto", description="auto: console on a terminal, else json.")
    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="info has a line for each request; debug also logs what contexts were cut from and to."
    )


class Life(Section):
    """Start and stop."""

    grace_seconds: float = Field(10, ge=0, le=600, description="Seconds that open work may take after SIGTERM.")


class Metrics(Section):
    """Numbers for Prometheus, without text and without names. They need the extra honeybadger-host[metrics]."""

    textfile: str = Field("", description="File (*.prom) to replace every second, for node_exporter; empty: none.")


class Cluster(Section):
    """A home on several machines; needs honeybadger-host[cluster] and NATS servers."""

    servers: str = Field(
        "",
        description="The servers, as tls://a:4222,tls://b:4222,tls://c:4222; empty: the home is on this machine only.",
    )
    credentials: str = Field("", description="File with the credentials for the servers; empty: they need none.")

    @property
    def urls(self) -> list[str]:
        return [url.strip() for url in self.servers.split(",") if url.strip()]


class Web(Section):
    """The operators' page, `honeybadger-host web`. It needs the extra honeybadger-host[web]."""

    enabled: bool = Field(False, description="true: the host starts the page, too; it is then read-only.")
    port: int = Field(7337, ge=0, le=65_535, description="Port on the loopback; 0: any free port.")


class Settings(BaseSettings):
    """All settings. Build it with `configuration.load_settings`, which also notes where each value came from."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, enable_decoding=False
    )

    ipc: Ipc = Ipc()
    memory: Memory = Memory()
    conversation: Conversation = Conversation()
    history: History = History()
    consolidation: Consolidation = Consolidation()
    curation: Curation = Curation()
    dream: Dream = Dream()
    context: Context = Context()
    working: Working = Working()
    document: Document = Document()
    recall: Recall = Recall()
    limits: Limits = Limits()
    security: Security = Security()
    model: Model = Model()
    turns: Turns = Turns()
    tasks: Tasks = Tasks()
    messages: Messages = Messages()
    log: Log = Log()
    life: Life = Life()
    metrics: Metrics = Metrics()
    web: Web = Web()
    cluster: Cluster = Cluster()
