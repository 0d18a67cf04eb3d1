"""The settings of a home with the origin of each value, and all other uses of the environment.

Order: command line flag, environment (`HONEYBADGER_IPC__SWEEP_SECONDS`), `config/honeybadger.toml`, default.
This is the only module that reads the environment and the configuration file.
"""

import os
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from honeybadger_agent.wording import HOST_EXTRA, meant
from honeybadger_host.errors import SettingsError
from honeybadger_host.settings import PREFIX, Section, Settings

CONFIG_FILE = "config/honeybadger.toml"
# Settings that are tables of names which people choose.
_TABLES = ("curation.groups", "curation.kinds", "memory.writes")
# Variables with the prefix that are no settings: those of clients, the home folder, and keys of models.
_NOT_SETTINGS = (
    *("HOME", "GROUP", "SENDER", "SESSION", "BOX"),
    *("MODEL_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_API_KEY"),
)


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
    Raises SettingsError if a name is unknown (the nearest known one is named) or a value is wrong.
    """
    path = home / CONFIG_FILE
    found = [(name, value, str(path)) for name, value in _flatten(_read_toml(path)).items()]
    for variable, text in os.environ.items():
        rest = variable.upper().removeprefix(PREFIX)
        if variable.upper().startswith(PREFIX) and rest not in _NOT_SETTINGS:
            found.append((rest.lower().replace("__", ".", 1), text, f"environment {variable}"))
    found += [(name, value, "--set") for name, value in (flags or {}).items()]
    origins = dict.fromkeys(_names(), "default")
    sections: dict[str, Any] = {}
    for name, value, origin in found:  # each may replace an earlier one
        if name not in origins:
            raise _unknown(name, origin)
        origins[name] = origin
        section, _, member = name.partition(".")
        sections.setdefault(section, {})[member] = value
    try:
        settings = Settings(**sections)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        origin = origins.get(".".join(name.split(".")[:2]), str(path))
        what = first["msg"].removeprefix("Value error, ")
        if first["type"] == "dict_type":
            what = "Input should be a table with a value for each group, as { main = … }"
        raise SettingsError(f"setting {name} ({origin}) is {first.get('input')!r}: {what}") from None
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
    """Return the key for a provider of models (empty: none is set), and the name of its variable.

    `HONEYBADGER_OPENAI_API_KEY` in the environment, or a credential of systemd (`LoadCredential=openai_api_key:FILE`);
    for the provider of `model.name` also `HONEYBADGER_MODEL_API_KEY` and `model_api_key`. No variable of other
    programs is read, because its key may be somebody else's.

    Args:
        is_own: it is the provider of `model.name`: a key goes to nobody else.
    Raises SettingsError if a credential is there and cannot be read.
    """
    names = [f"{provider}_api_key", *(["model_api_key"] if is_own else [])]
    for name in names:
        if key := os.environ.get(f"{PREFIX}{name.upper()}", "").strip():
            return key, f"{PREFIX}{name.upper()}"
        if folder := os.environ.get("CREDENTIALS_DIRECTORY"):
            path = Path(folder) / name
            try:
                return path.read_text().strip(), f"the credential {name}"
            except FileNotFoundError:
                pass
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(f"{path} cannot be read: {error}") from None
    return "", f"{PREFIX}{names[-1].upper()}"


def host_zone() -> str:
    """Return the IANA name of the host's time zone; UTC if the system names none or an unknown one."""
    name = os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, LookupError):
        return "UTC"


def check_targets(home: Path, settings: Settings) -> None:
    """Raise SettingsError if metrics cannot be written, or messages cannot be pushed, as the settings say."""
    if any(push.webhook for push in settings.messages.push):
        _check_installed("httpx2", "messages.push with webhook needs httpx2", "webhooks")
    if not settings.metrics.textfile:
        return
    _check_installed("prometheus_client", "metrics.textfile needs prometheus-client", "metrics")
    path = home / settings.metrics.textfile
    if path.suffix != ".prom":
        raise SettingsError(f"metrics.textfile {path} must end in .prom: node_exporter reads no other names")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        uid = os.geteuid()
        raise SettingsError(
            f"metrics.textfile {path}: {path.parent} is not a folder that uid {uid} may write to: make it, or choose "
            "another"
        )


def _check_installed(module: str, what: str, extra: str) -> None:
    """Raise SettingsError if a setting needs a package that is not installed."""
    if find_spec(module) is None:
        raise SettingsError(f"{what}: {HOST_EXTRA.format(extra)}")


def notify_socket() -> str | None:
    """Return systemd's notification socket, or None if systemd did not start this process."""
    return os.environ.get("NOTIFY_SOCKET") or None


def watchdog_seconds() -> float | None:
    """Return systemd's watchdog interval in seconds, or None if it has none."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1_000_000 if microseconds.isdigit() and int(microseconds) > 0 else None


def render_toml() -> str:
    """Return a configuration file with every setting at its default, commented out, with its meaning and unit.

    It declares no table, so that any table can be added at its end.
    """
    lines = [
        "# Honeybadger. Every setting with its default; take away the # to change one.",
        "# Add tables, such as [memory], at the end of this file.",
        "# A flag wins over the environment (HONEYBADGER_IPC__SWEEP_SECONDS=0.1), that over this file.",
        "# `honeybadger-host config` prints every value and where it came from. A name that is not known is an error.",
    ]
    for section, field in Settings.model_fields.items():
        model = field.annotation
        if not (isinstance(model, type) and issubclass(model, Section)):
            raise TypeError(f"{section} is not a section")
        lines += ["", *_comment(f"{section}: {model.__doc__}")]
        for name, setting in model.model_fields.items():
            lines += [*_comment(setting.description), f"#{section}.{name} = {_toml(setting.default)}"]
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


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        if path.is_symlink():  # its settings are on a disk that is not mounted: the defaults are no answer
            raise SettingsError(
                f"{path} is a link to {path.readlink()}, which is not there: mount or make it"
            ) from None
        return {}
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SettingsError(f"{path} cannot be read: {why}; make it a plain text file, or remove it") from None


def _unknown(name: str, where: str) -> SettingsError:
    names = _names()
    below, _, rest = name.partition(".")
    if rest in names:
        return SettingsError(f"{where}: {rest} stands below the table [{below}]: move it above all tables")
    if below in Settings.model_fields and not rest:
        members = [_spelled(known, where) for known in names if known.startswith(f"{below}.")]
        return SettingsError(f"{where}: {below} is a section, not a setting: name one of {', '.join(members)}")
    near = meant(name, names)
    if not near and below not in Settings.model_fields:
        near = meant(below, Settings.model_fields)
    hint = f"did you mean {_spelled(near, where)}?" if near else f"sections: {', '.join(Settings.model_fields)}"
    return SettingsError(f"{where}: there is no setting {name}; {hint}")


def _spelled(name: str, where: str) -> str:
    """Return the name of a setting as it is written in the environment, or elsewhere."""
    return PREFIX + name.upper().replace(".", "__") if where.startswith("environment") else name
