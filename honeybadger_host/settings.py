"""Every setting: one frozen tree, and where each value came from.

Order: command line flag, environment (`HONEYBADGER_IPC__SWEEP_SECONDS`), `config/honeybadger.toml`, default.
This is the only module that reads the environment and the configuration file.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from honeybadger_host.errors import SettingsError

SecretsMode: TypeAlias = Literal["redact", "refuse", "off"]
VectorsChoice: TypeAlias = Literal["off", "multilingual"]
CurationMode: TypeAlias = Literal["lossless", "review", "gated"]

CONFIG_FILE: Final = "config/honeybadger.toml"
_PREFIX: Final = "HONEYBADGER_"
_TABLES: Final = ("curation.groups", "curation.kinds", "memory.writes")
"""Settings that are tables of names which people choose."""
_KEPT_TURNS: Final = 50
_NOT_SETTINGS: Final = (
    *("HOME", "GROUP", "SENDER", "SESSION", "BOX"),
    *("MODEL_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_API_KEY"),
)
"""Variables of the clients, the home folder itself, and keys, that share the prefix."""

REMOVED: Final = {
    **dict.fromkeys(("recall.k1", "recall.b"), "the ranking has one pair, measured over all kinds of texts"),
    **dict.fromkeys(("recall.floor_coverage", "recall.floor_rarity"), "what a context recalls is measured, not set"),
    "recall.reading_process": "the host itself reads the files that wait for the index",
    "life.status_seconds": "data/status.json is written every second",
    "metrics.http_port": "set metrics.textfile, which node_exporter's textfile collector reads",
    "limits.group_requests_per_second": "limits.requests_per_second bounds each sender; groups are served in turn",
    "limits.burst_seconds": "ten seconds of limits.requests_per_second may be used at once",
    "limits.notes_per_day": "limits.requests_per_second and limits.pending_files bound a sender",
    "limits.pending_bytes": "it is 1 GiB; limits.pending_files bounds an inbox",
    "limits.kept_replies": "it is 100,000; ipc.reply_ttl_seconds removes replies earlier",
    "limits.kept_reply_bytes": "it is 256 MiB; ipc.reply_ttl_seconds removes replies earlier",
    "ipc.batch_requests": "up to 512 requests share a commit",
    "ipc.unfinished_seconds": "a file that ends too early is waited for during two seconds",
    "ipc.full_disk_seconds": "a batch waits five seconds for space, then it is answered with unavailable",
    "ipc.queries_at_once": "four queries read at the same time",
    "ipc.receipt_days": "receipts are kept for seven days of service",
    "ipc.dead_max_bytes": "data/dead/ is kept below 1 GiB",
    "memory.max_note_chars": "a note has at most the protocol's 32,768 characters",
    "memory.max_cache_bytes": "32 MiB of group files are kept in memory",
    "memory.settle_seconds": "an appended note is looked at again after two seconds",
    "conversation.idle_seconds": "an unused session leaves memory after an hour",
    "conversation.max_sessions": "1,024 sessions are kept in memory",
    "working.max_ttl_minutes": "an entry may live for a day; working.default_ttl_minutes is for those that say nothing",
    "working.max_entries": "a session holds 50 entries",
    "working.max_data_bytes": "an entry's data has at most 128 KiB",
    "document.max_entries": "a document keeps 50 messages, 30 after it is compacted",
    "document.keep_entries": "a document keeps 50 messages, 30 after it is compacted",
    "document.max_tokens": "a document is compacted above 100,000 tokens",
    "document.max_summary_characters": "a summary has at most 8,000 characters; the log has all",
    "document.finished_task_seconds": "a task that ended stays for a day",
    "document.write_out_seconds": "the document on disk has the last turn after two seconds",
    "model.retries": "a model is asked again twice after a failure that may pass",
    "conversation.window_turns": "history is made of the newest 50 turns, or of consolidation.memory_window if more",
    "recall.newest": "a session that begins with nothing that matches is shown the five newest entries",
    "recall.compare_seconds": "files are compared with the index every minute",
    "turns.attempts": "a turn that the host's end cuts short is begun three times",
    "tokens.counter": "budgets count characters / 4, and one for each character that is not ASCII",
}
"""Settings of earlier versions, and what is so without them."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _table(value: object) -> object:
    """Read the text of a flag or a variable: main=100000,other=50000."""
    is_text = isinstance(value, str) and "=" in value
    return dict(part.split("=", 1) for part in str(value).split(",")) if is_text else value


class Ipc(_Section):
    """The inboxes and the path of a request."""

    closed: bool = Field(False, description="true: only folders made by `honeybadger-host sender add` are served.")
    sweep_seconds: float = Field(
        0.25,
        ge=0.01,
        le=60,
        description="Seconds between two looks into all inboxes; a lost file event costs at most this, four times this "
        "in turns/.",
    )
    watch: bool = Field(
        True, description="false: no file events, the sweep finds everything (for network file systems)."
    )
    max_request_bytes: int = Field(
        262_144, ge=1024, le=16_777_216, description="Bytes of one request file; more is answered with too_large."
    )
    reply_ttl_seconds: float = Field(3600, ge=1, description="Seconds after which a reply nobody removed is removed.")


class Limits(_Section):
    """Shares of one sender in one group; over them it is answered with rate_limited. 0: no limit."""

    requests_per_second: float = Field(0, ge=0, description="Requests of a sender in a second, on average.")
    pending_files: int = Field(
        200_000, ge=0, description="Requests that may wait in an inbox; those behind them are refused."
    )


class Memory(_Section):
    """Notes and the files of a group."""

    max_group_file_bytes: int = Field(
        1_048_576,
        ge=1024,
        description="Bytes of a group file that are served; of a larger MEMORY.md the newest notes.",
    )
    writes: dict[str, Literal["direct", "review"]] = Field(
        {},
        description="Groups whose notes and entries wait for `honeybadger-host review` before they are written: "
        'writes = { main = "review" }.',
    )

    @field_validator("writes", mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        return _table(value)


class Conversation(_Section):
    """Turns in memory; the log of a session is never cut."""

    enabled: bool = Field(
        True, description="false: no turn is kept or replayed; append_turn and get_history are answered with invalid."
    )


class History(_Section):
    """The recent conversation."""

    replayed_turns: int = Field(
        20, ge=1, le=10_000, description="Newest turns that a context replays; get_history has the whole window."
    )
    budget_tokens: int = Field(8000, ge=0, description="Estimated tokens of the recent conversation; 0 means no limit.")


class Consolidation(_Section):
    """What becomes of a conversation beyond its window: an entry of HISTORY.md, a part of summary.md, notes."""

    memory_window: int = Field(
        50,
        ge=0,
        le=10_000,
        description="Turns of a session after which the older ones are consolidated; 0: never, a context replays ten.",
    )

    @property
    def kept_turns(self) -> int:
        """Newest turns of a session that are kept in memory: history is made of them."""
        return max(_KEPT_TURNS, self.memory_window)


class Curation(_Section):
    """What looks after memory in the background; see docs/curation.md."""

    apply: CurationMode = Field(
        "lossless",
        description="lossless: what passes every gate and loses nothing is applied by itself; gated: whatever passes; "
        "review: everything waits for `honeybadger-host review`.",
    )
    enrichment: bool = Field(
        True,
        description="false: no entry is written for each fact of a text that an agent saved, neither by a model nor, "
        "without one, by rules.",
    )
    tokens_per_day: int = Field(
        500_000,
        ge=0,
        description="Tokens in and out that models may cost in a day (UTC), over all groups; 0: no limit.",
    )
    groups: dict[str, Annotated[int, Field(ge=1)]] = Field(
        {}, description="Tokens a day of single groups, within that: groups = { main = 100000 }."
    )
    kinds: dict[Literal["consolidation", "enrichment", "dream", "preferences"], Annotated[int, Field(ge=1)]] = Field(
        {}, description="Tokens a day of consolidation, enrichment, dream or preferences: kinds = { dream = 50000 }."
    )

    @field_validator("groups", "kinds", mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        return _table(value)


class Dream(_Section):
    """Passes over all that a group remembers: `honeybadger-host dream`."""

    schedule: str = Field(
        "",
        description="When groups dream by themselves: a cron line in the host's time zone, as 30 3 * * *; a group that "
        "is not quiet then does so after 30 s without a change, one with nothing new leaves it out. Empty: never.",
    )
    preferences: bool = Field(True, description="false: no preferences are inferred from what people said.")


class Context(_Section):
    """The whole context."""

    budget_tokens: int = Field(
        32_000, ge=0, description="Estimated tokens of a whole context; persona and message are never cut; 0: no limit."
    )


class Working(_Section):
    """Working memory: scratch entries of a session that expire."""

    enabled: bool = Field(True, description="false: no working memory; its requests are answered with invalid.")
    default_ttl_minutes: float = Field(5, gt=0, le=1440, description="Minutes an entry lives when it says nothing.")


class Document(_Section):
    """Session documents."""

    in_context: bool = Field(True, description="false: its facts, summary and running tasks are not in a context.")


class Recall(_Section):
    """Long-term memory: what is found, and what is put into a context by itself."""

    enabled: bool = Field(True, description="false: no entry is put into a context; searching works all the same.")
    results: int = Field(8, ge=1, le=100, description="Entries recalled for one message, at most.")
    vectors: VectorsChoice = Field(
        "off",
        description="multilingual: search by meaning, too, with a local model; needs the extra "
        "honeybadger-host[vectors].",
    )
    budget_tokens: int = Field(1500, ge=0, description="Estimated tokens of what is recalled; 0 means no limit.")
    max_memory_bytes: int = Field(
        268_435_456,
        ge=0,
        description="Bytes of search structures kept in memory, over all groups, about 230 for each document. A group "
        "whose words need more than a quarter of it is searched from a temporary file in data/, with about 80 in "
        "memory for each document; a larger group leaves memory when nobody searched it for a minute.",
    )

    @field_validator("vectors", mode="before")
    @classmethod
    def _is_there(cls, value: object) -> object:
        if value == "english":
            raise ValueError(
                "the English model is not part of Honeybadger any more: set multilingual, which is as good in English, "
                "or off"
            )
        return value


class Security(_Section):
    """What must not become memory."""

    secrets: SecretsMode = Field(
        "redact",
        description="What is done with what looks like a credential: redact takes it out, refuse answers with invalid, "
        "off keeps it.",
    )


class Model(_Section):
    """The model that answers turns. Its key is not a setting: see docs/models.md."""

    name: str = Field(
        "offline",
        min_length=1,
        description="offline: a built-in that only remembers and recalls; openai:NAME, anthropic:NAME, ollama:NAME "
        "need the extra honeybadger-host[llm]; scripted:FILE for tests.",
    )
    curation: str = Field(
        "", description="The model that consolidates and curates; empty: the same. offline: none, rules do it."
    )
    base_url: str = Field(
        "", description="Where the model is served, for any server that speaks like OpenAI; empty: the provider's own."
    )
    timeout_seconds: float = Field(
        120, gt=0, le=3600, description="Seconds without a sign from the model after which it is given up."
    )
    max_output_tokens: int = Field(4096, ge=1, description="Tokens of one answer of the model.")


class Turns(_Section):
    """Turns of agents: what waits in turns/."""

    agent: str = Field(
        "assistant",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        description="Agent that answers when none is asked for; it needs no file in config/agents/.",
    )
    at_once: int = Field(4, ge=1, le=256, description="Turns that run at the same time; of a group it is always one.")
    steps: int = Field(12, ge=1, le=1000, description="How often the model may be asked in one turn.")
    total_tokens: int = Field(0, ge=0, description="Tokens in and out, over the steps of a turn; 0: no limit.")
    seconds: float = Field(
        300,
        ge=0,
        description="Seconds after which a turn asks its model no more; an answer being written has as long again; "
        "0: no limit.",
    )


class Tasks(_Section):
    """What agents do by themselves: groups/<group>/tasks/."""

    per_group: int = Field(100, ge=0, description="Tasks that a group may have; 0: none may be scheduled.")
    least_seconds: float = Field(
        60, ge=1, le=86_400, description="Seconds that must lie between two runs; less than a minute is for trials."
    )


class Push(_Section):
    """A `[[messages.push]]`: who is told of each message, by a program or a webhook."""

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
    """Raise ValueError for what is neither HTTPS nor loopback."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or parts.username is not None or not url.isascii() or any(not letter.isprintable() for letter in url):
        raise ValueError("webhook must be an address as https://example.org/hook, without a user")
    if parts.port == 0 or " " in url:
        raise ValueError("webhook is not an address")
    if parts.scheme == "https":
        return
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    if parts.scheme != "http" or not is_here:
        raise ValueError("webhook must begin with https://, or with http:// on this machine")


class Messages(_Section):
    """Messages to people."""

    push: list[Push] = Field(
        [],
        description="Who is told of each: [[messages.push]] with command (a list) or webhook, key_file, groups (all).",
    )

    @field_validator("push", mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        """Read the text of a flag or a variable: JSON."""
        try:
            return json.loads(value) if isinstance(value, str) else value
        except json.JSONDecodeError:
            return value


class Log(_Section):
    """What the daemon prints, on standard error."""

    format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto: console when a terminal looks on, else json."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug also prints what a context was cut from and to."
    )
    requests: bool = Field(True, description="One line for each request, with outcome and milliseconds.")


class Life(_Section):
    """Start and stop."""

    grace_seconds: float = Field(10, ge=0, le=600, description="Seconds that open work gets at SIGTERM.")


class Metrics(_Section):
    """Numbers for Prometheus, without text and without names. They need the extra honeybadger-host[metrics]."""

    textfile: str = Field("", description="File (*.prom) to replace every second, for node_exporter; empty: none.")


class Web(_Section):
    """The operators' page, `honeybadger-host web`. It needs the extra honeybadger-host[web]."""

    enabled: bool = Field(False, description="true: the host starts the page beside itself; it only reads then.")
    port: int = Field(7337, ge=0, le=65_535, description="Port of the loopback; 0: any that is free.")
    socket: str = Field("", description="A unix socket instead, such as data/page.sock below the home; empty: none.")


class Settings(BaseSettings):
    """All settings. Build it with `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, enable_decoding=False
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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *others: object,
        **more: object,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # `load_settings` joins the sources, and says where each value came from


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings with the origin of each value.

    Args:
        origins: `ipc.sweep_seconds` -> `--set`, `environment HONEYBADGER_…`, the file's path, or `default`.
    """

    settings: Settings
    origins: Mapping[str, str]


def load_settings(home: Path, flags: Mapping[str, Any] | None = None) -> Loaded:
    """Return the settings of a home folder.

    Args:
        flags: dotted name -> value, as `{"log.level": "debug"}`.
    Raises SettingsError: a name is unknown (the nearest known one is named) or a value is wrong.
    """
    path = home / CONFIG_FILE
    origins = dict.fromkeys(_names(), "default")
    from_file = _read_toml(path)
    for name in _flatten(from_file):
        if name not in origins:
            raise _unknown(name, str(path))
        origins[name] = str(path)
    for variable in os.environ:
        if not variable.upper().startswith(_PREFIX):
            continue
        rest = variable[len(_PREFIX) :]
        if rest.upper() in _NOT_SETTINGS:
            continue
        name = rest.lower().replace("__", ".", 1)
        if name not in origins:
            raise _unknown(name, f"environment variable {variable}", environment=True)
        origins[name] = f"environment {variable}"
    for name in flags or {}:
        if name not in origins:
            raise _unknown(name, "--set")
        origins[name] = "--set"
    try:
        from_environment = EnvSettingsSource(Settings)()
        settings = Settings(**_merge(_merge(from_file, from_environment), _nest(flags or {})))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        origin = origins.get(".".join(name.split(".")[:2]), path)
        raise SettingsError(f"setting {name} ({origin}) is {first.get('input')!r}: {first['msg']}") from None
    return Loaded(settings, origins)


def environment_home() -> Path | None:
    value = os.environ.get("HONEYBADGER_HOME")
    return Path(value) if value else None


def user_folders() -> tuple[Path, Path]:
    """Return the caller's home folder and the folder of its configuration (XDG)."""
    home = Path.home()
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return home, Path(config) if config.startswith("/") else home / ".config"


def model_key(provider: str, *, is_own: bool) -> tuple[str, str]:
    """Return the key for a provider of models, empty when there is none, and what a person sets it with.

    `HONEYBADGER_OPENAI_API_KEY` in the environment, or a credential of systemd (`LoadCredential=openai_api_key:FILE`);
    for the provider of `model.name` also `HONEYBADGER_MODEL_API_KEY` and `model_api_key`. No variable of other
    programs is read: what is in it may be somebody else's.

    Args:
        is_own: it is the provider of `model.name`: a key goes to nobody else.
    Raises SettingsError: a credential is there and cannot be read.
    """
    names = [f"{provider}_api_key", *(["model_api_key"] if is_own else [])]
    for name in names:
        if key := os.environ.get(f"{_PREFIX}{name.upper()}", "").strip():
            return key, f"{_PREFIX}{name.upper()}"
        if folder := os.environ.get("CREDENTIALS_DIRECTORY"):
            path = Path(folder) / name
            try:
                return path.read_text().strip(), f"the credential {name}"
            except FileNotFoundError:
                pass
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(f"{path} cannot be read: {error}") from None
    return "", f"{_PREFIX}{names[-1].upper()}"


def host_zone() -> str:
    """Return the IANA name of the host's time zone; UTC when the system does not say one that is known."""
    name = os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, LookupError):
        return "UTC"


def notify_socket() -> str | None:
    """Return systemd's notification socket, or None when systemd did not start us."""
    return os.environ.get("NOTIFY_SOCKET") or None


def watchdog_seconds() -> float | None:
    """Return how often systemd wants to hear from us at least, or None."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1_000_000 if microseconds.isdigit() and int(microseconds) > 0 else None


def render_toml() -> str:
    """Return a configuration file with every setting at its default, commented out, with its meaning and unit."""
    lines = [
        "# Honeybadger. Every setting with its default; take away the # to change one.",
        "# A flag wins over the environment (HONEYBADGER_IPC__SWEEP_SECONDS=0.1), that over this file.",
        "# `honeybadger-host config` prints every value and where it came from. A name that is not known is an error.",
    ]
    for section, field in Settings.model_fields.items():
        model = field.annotation
        if not (isinstance(model, type) and issubclass(model, _Section)):
            raise TypeError(f"{section} is not a section")
        lines += ["", *_comment(model.__doc__), f"[{section}]"]
        for name, setting in model.model_fields.items():
            lines += [*_comment(setting.description), f"#{name} = {_toml(setting.default)}"]
    return "\n".join(lines) + "\n"


def _comment(text: str | None) -> list[str]:
    return textwrap.wrap(
        text or "", 120, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


def values(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield every setting as (dotted name, value), in the order of the file."""
    yield from _flatten(settings.model_dump()).items()


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


@cache
def _names() -> tuple[str, ...]:
    return tuple(_flatten(Settings.model_construct().model_dump()))


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and (value or not prefix) and f"{prefix}{name}" not in _TABLES:
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        section, _, leaf = name.partition(".")
        tree.setdefault(section, {})[leaf] = value
    return tree


def _merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    merged = {name: dict(value) for name, value in low.items()}
    for section, values_ in high.items():
        merged.setdefault(section, {}).update(values_)
    return merged


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            tree = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from None
    for name, value in list(tree.items()):
        if name in Settings.model_fields:
            if not isinstance(value, dict):
                raise SettingsError(f"{path}: {name} is a section: write [{name}] and its settings below")
        elif value == {} and any(removed.startswith(f"{name}.") for removed in REMOVED):
            del tree[name]  # `init` of an earlier version wrote its head
        else:
            first = next(iter(_flatten({name: value}))) if value else name
            raise _unknown(first if first in REMOVED else name, str(path), [*Settings.model_fields, *_names()])
    return tree


def _unknown(name: str, where: str, known: Sequence[str] | None = None, *, environment: bool = False) -> SettingsError:
    if name in REMOVED:
        return SettingsError(f"{where}: {name} is not a setting any more, take it away: {REMOVED[name]}")
    names = known or _names()
    near = [one for one in names if name in one] or difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    shown = near[0] if near else ""
    if environment and shown:
        shown = _PREFIX + shown.upper().replace(".", "__")
    hint = f"did you mean {shown}?" if near else f"sections: {', '.join(Settings.model_fields)}"
    return SettingsError(f"{where}: there is no setting {name}; {hint}")
