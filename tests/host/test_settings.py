"""Settings: which one wins, and an error for everything that is not just right."""

import itertools
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from honeybadger_host.configuration import (
    CONFIG_FILE,
    environment_home,
    load_settings,
    notify_socket,
    render_toml,
    values,
    watchdog_seconds,
)
from honeybadger_host.errors import SettingsError
from honeybadger_host.settings import Life, Settings

ROOT = Path(__file__).parents[2]
DEFAULTS = dict(values(Settings()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / CONFIG_FILE
    path.write_text(text)
    return path


def refused(folder: Path, flags: dict[str, Any] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(folder, flags)
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_flags_beat_environment_file_and_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder, "[ipc]\nsweep_seconds = 1\nclosed = true\n[turns]\nsteps = 3\n")
    monkeypatch.setenv("HONEYBADGER_IPC__SWEEP_SECONDS", "10")
    monkeypatch.setenv("HONEYBADGER_IPC__CLOSED", "false")
    loaded = load_settings(folder, {"ipc.sweep_seconds": "0.5"})
    ipc, turns = loaded.settings.ipc, loaded.settings.turns
    assert (ipc.sweep_seconds, ipc.closed, turns.steps, turns.at_once) == (0.5, False, 3, 4)
    assert [loaded.origins[name] for name in ("ipc.sweep_seconds", "ipc.closed", "turns.steps", "turns.at_once")] == [
        "--set",
        "environment HONEYBADGER_IPC__CLOSED",
        str(path),
        "default",
    ]


OTHER_WORDS = {"auto": "json", "info": "error", "redact": "refuse", "off": "multilingual", "copied": "review"}


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_setting_can_be_set_from_each_place(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    section, _, leaf = name.partition(".")
    match DEFAULTS[name]:
        case bool(default):
            other: Any = not default
        case str(default):
            other = OTHER_WORDS.get(default, "elsewhere")
        case dict():
            other = {"main": "review"} if name == "memory.writes" else {"dream": 9}
        case list():
            other = [{"command": ["tell"], "webhook": "", "key_file": "", "groups": ["main"]}]
        case default:
            other = default * 2 or 9
    pairs = ",".join(f"{key}={each}" for key, each in other.items()) if isinstance(other, dict) else ""
    written = pairs or (str(other).lower() if isinstance(other, bool) else str(other))
    if isinstance(other, list):
        written = '[{"command": ["tell"], "groups": ["main"]}]'

    def value(flags: dict[str, Any] | None = None) -> Any:
        return dict(values(load_settings(folder, flags).settings))[name]

    assert value({name: written}) == other
    monkeypatch.setenv(f"HONEYBADGER_{section}__{leaf}".upper(), written)
    assert value() == other
    monkeypatch.undo()
    written = written.replace('": ', '" = ')
    in_toml = json.dumps(other) if isinstance(other, str) else written
    if isinstance(other, dict):
        in_toml = f"{{ {', '.join(f'{key} = {json.dumps(each)}' for key, each in other.items())} }}"
    write(folder, f"[{section}]\n{leaf} = {in_toml}")
    assert value() == other


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[icp]\nclosed = true", "there is no setting icp.closed; did you mean ipc.closed?"),
        ("[ipc]\nsweep_secnds = 1", "there is no setting ipc.sweep_secnds; did you mean ipc.sweep_seconds?"),
        ("sweep_seconds = 1", "there is no setting sweep_seconds; did you mean ipc.sweep_seconds?"),
        ("[context]\nbudget = 1", "there is no setting context.budget; did you mean context.budget_tokens?"),
        ("[ipc.closed]\nyes = 1", "there is no setting ipc.closed.yes; did you mean ipc.closed?"),
        ("[ipc.extra]", "there is no setting ipc.extra; sections: ipc, memory, "),
        ("[lmits]\nx = 1", "there is no setting lmits.x; did you mean limits?"),
        ("[zzz]\nx = 1", "there is no setting zzz.x; sections: ipc, memory, conversation, history, consolidation"),
        ("ipc = 1", "ipc is a section, not a setting: name one of ipc.closed, ipc."),
        ("[[ipc]]\nclosed = true", "ipc is a section, not a setting: name one of ipc.closed, ipc."),
        ("[memory]\n\n[ipc]\n[memory]\n", "Cannot declare ('memory',) twice (at line 4"),
        ("[memory]\nipc.closed = true\n", "ipc.closed stands below the table [memory]: move it above all tables"),
    ],
)
def test_a_wrong_name_or_table_is_named_with_its_file(folder: Path, text: str, says: str) -> None:
    path = write(folder, text)
    message = refused(folder)
    assert message.startswith(str(path))
    assert says in message


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("HONEYBADGER_IPC__SWEEP", "there is no setting ipc.sweep; did you mean HONEYBADGER_IPC__SWEEP_SECONDS?"),
        ("HONEYBADGER_SWEEP_SECONDS", "did you mean HONEYBADGER_IPC__SWEEP_SECONDS?"),
        ("HONEYBADGER_LOG_LEVEL", "did you mean HONEYBADGER_LOG__LEVEL?"),
        ("HONEYBADGER_IPC", "ipc is a section, not a setting: name one of HONEYBADGER_IPC__CLOSED, HONEYBADGER_IPC__"),
        ("HONEYBADGER_HISTORY__BUDGET__TOKENS", "did you mean HONEYBADGER_HISTORY__BUDGET_TOKENS?"),
        ("honeybadger_ipc__close", "did you mean HONEYBADGER_IPC__CLOSED?"),
    ],
)
def test_an_unknown_variable_suggests_the_nearest(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, says: str
) -> None:
    monkeypatch.setenv(variable, "1")
    message = refused(folder)
    assert message.startswith(f"environment {variable}: ")
    assert says in message


def test_an_empty_removed_section_is_no_error(folder: Path) -> None:
    write(folder, '[tokens]\n#counter = "estimate"\n\n[life]\ngrace_seconds = 3\n')
    assert load_settings(folder).settings == Settings(life=Life(grace_seconds=3))


def test_a_value_of_an_earlier_version_names_those_of_now(folder: Path) -> None:
    assert "'off' or 'multilingual'" in refused(folder, {"recall.vectors": "english"})


@pytest.mark.parametrize(("name", "near"), [("log.levl", "log.level"), ("sweep", "ipc.sweep_seconds")])
def test_an_unknown_flag_suggests_the_nearest(folder: Path, name: str, near: str) -> None:
    message = refused(folder, {name: "1"})
    assert message.startswith(f"--set: there is no setting {name}; did you mean {near}")


def test_a_wrong_value_names_setting_file_and_value(folder: Path) -> None:
    path = write(folder, "[ipc]\nsweep_seconds = 0\n")
    assert refused(folder) == f"setting ipc.sweep_seconds ({path}) is 0: Input should be greater than or equal to 0.01"


@pytest.mark.parametrize("value", ["nan", "1e400"])
@pytest.mark.parametrize(
    "name",
    [name for name, value in DEFAULTS.items() if isinstance(value, (int, float)) and not isinstance(value, bool)],
)
def test_no_number_is_endless_or_none(folder: Path, name: str, value: str) -> None:
    assert f"setting {name} (--set) is" in refused(folder, {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("turns.at_once", 257),
        ("turns.at_once", 1.5),
        ("life.grace_seconds", 10**9),
        ("history.budget_tokens", -1),
        ("context.budget_tokens", ""),
        ("life.grace_seconds", [1]),
    ],
)
def test_values_out_of_range_or_type_are_refused(folder: Path, name: str, value: object) -> None:
    assert f"setting {name} (--set) is {value!r}: " in refused(folder, {name: value})


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"[ipc\n", "is not TOML: "), (b"[ipc]\nclosed = maybe\n", "is not TOML: "), (b"# \xe4\n", "cannot be read: ")],
)
def test_a_file_that_is_no_toml_names_the_place(folder: Path, data: bytes, says: str) -> None:
    (folder / CONFIG_FILE).write_bytes(data)
    assert refused(folder).startswith(f"{folder / CONFIG_FILE} {says}")


def test_a_link_to_nothing_is_not_an_absent_file(folder: Path) -> None:
    (folder / CONFIG_FILE).symlink_to("/nowhere/honeybadger.toml")
    assert "is a link to /nowhere/honeybadger.toml, which is not there" in refused(folder)


def test_a_table_of_names_is_one_setting(folder: Path) -> None:
    path = write(folder, "[curation.groups]\nmain = 1000\nwork = 20\n[curation.kinds]\ndream = 5\n")
    loaded = load_settings(folder)
    assert (loaded.settings.curation.groups, loaded.settings.curation.kinds) == (
        {"main": 1000, "work": 20},
        {"dream": 5},
    )
    assert loaded.origins["curation.groups"] == str(path)
    assert "setting curation.groups.main (--set) is 'a': " in refused(folder, {"curation.groups": "main=a"})
    write(folder, "[curation]\nkinds = { dreams = 5 }\n")
    assert "curation.kinds.dreams" in refused(folder)
    assert "'consolidation', 'enrichment', 'dream' or 'preferences'" in refused(folder)


def test_targets_of_messages_are_tables_of_the_file(folder: Path) -> None:
    first = '[[messages.push]]\ncommand = ["notify-send", "honeybadger"]\ngroups = ["main"]\n'
    second = '[[messages.push]]\nwebhook = "https://example.org/hook"\nkey_file = "config/push.key"\n'
    write(folder, first + second + '[[messages.push]]\nwebhook = "http://[::1]:8000/"\n')
    pushes = load_settings(folder).settings.messages.push
    assert [(push.command, push.webhook, push.key_file, push.groups) for push in pushes] == [
        (["notify-send", "honeybadger"], "", "", ["main"]),
        ([], "https://example.org/hook", "config/push.key", []),
        ([], "http://[::1]:8000/", "", []),
    ]


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ('command = ["a"]\ngroups = ["../main"]', "messages.push.0.groups.0"),
        ("groups = []", ": give either command or webhook"),
        ('command = ["a"]\nwebhook = "https://b"', "give either command or webhook"),
        ('command = ["a"]\nkey_file = "k"', "there is none"),
        ('command = "a b"', "valid list"),
        ('webhook = "http://example.org/"', "must begin with https://, or with http:// on this machine"),
        ('webhook = "ftp://127.0.0.1/"', "must begin with https://"),
        ('webhook = "https://user:pw@example.org/"', "without a user"),
        ('webhook = "https://example.org/\\r\\nX: y"', "must be an address"),
        ('webhook = "https://example.org:99999/"', "messages.push"),
        ('webhook = "nowhere"', "must be an address"),
        ('webhok = "https://b"', "messages.push.0"),
    ],
)
def test_a_wrong_message_target_is_refused_with_its_fault(folder: Path, members: str, says: str) -> None:
    write(folder, f"[[messages.push]]\n{members}\n")
    assert says in refused(folder)


def test_the_file_of_this_repository_is_the_rendered_one() -> None:
    assert (ROOT / CONFIG_FILE).read_text() == render_toml()


def test_the_rendered_file_sets_nothing(folder: Path) -> None:
    write(folder, render_toml())
    assert set(load_settings(folder).origins.values()) == {"default"}
    uncommented = re.sub(r"^#(\w+\.\w+ = )", r"\1", render_toml(), flags=re.MULTILINE)
    flat = {
        f"{section}.{name}": value
        for section, tree in tomllib.loads(uncommented).items()
        for name, value in tree.items()
    }
    assert flat == DEFAULTS
    path = write(folder, uncommented)
    loaded = load_settings(folder)
    assert set(loaded.origins.values()) == {str(path)}
    assert dict(values(loaded.settings)) == DEFAULTS


def test_every_setting_has_meaning_and_unit() -> None:
    lines = render_toml().splitlines()
    units = {"_seconds": "second", "_bytes": "byte", "_days": "day", "_tokens": "token", "_turns": "turn"}
    for name, default in DEFAULTS.items():
        leaf = name.partition(".")[2]
        (number,) = [number for number, line in enumerate(lines) if line.startswith(f"#{name} = ")]
        above = itertools.takewhile(lambda line: line.startswith("# "), reversed(lines[:number]))
        description = " ".join(line.removeprefix("# ") for line in [*above][::-1])
        assert len(description) > 18
        assert len(lines[number - 1]) <= 120
        for suffix, unit in units.items():
            if leaf.endswith(suffix):
                assert unit in description.lower(), name
        if isinstance(default, float):
            assert math.isfinite(default)


TABLES = {
    "memory": 'writes = { main = "review" }',
    "cluster": 'servers = "nats://127.0.0.1:4222"',
    "model": 'name = "ollama:llama3.2:3b"',
    "metrics": 'textfile = "/run/honeybadger/honeybadger.prom"',
}


def test_any_table_can_be_added_to_the_rendered_file(folder: Path) -> None:
    tables = "".join(f"\n[{name}]\n{line}\n" for name, line in TABLES.items())
    path = write(folder, render_toml() + tables + '[[messages.push]]\ncommand = ["true"]\n')
    loaded = load_settings(folder)
    assert loaded.settings.memory.writes == {"main": "review"}
    assert loaded.settings.model.name == "ollama:llama3.2:3b"
    assert len(loaded.settings.messages.push) == 1
    assert loaded.origins["cluster.servers"] == loaded.origins["metrics.textfile"] == str(path)
    for name in Settings.model_fields:
        write(folder, f"{render_toml()}\n[{name}]\n")
        assert set(load_settings(folder).origins.values()) == {"default"}, name


def test_every_setting_that_a_document_names_is_known() -> None:
    sections = "|".join(Settings.model_fields)
    modules = set((ROOT / "honeybadger_host").rglob("*.py")) - {ROOT / "honeybadger_host" / "configuration.py"}
    events = {name for path in modules for name in re.findall(r"\"([a-z_]+\.[a-z_]+)\"", path.read_text())}
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        named = re.findall(rf"`((?:{sections})\.[a-z_]+)`", page.read_text())
        named = [name for name in named if not name.endswith((".md", ".json", ".jsonl"))]
        assert {*named} <= {*DEFAULTS, *events}, page


def test_what_else_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (environment_home(), notify_socket(), watchdog_seconds()) == (None, None, None)
    monkeypatch.setenv("HONEYBADGER_HOME", "/srv/badger")
    monkeypatch.setenv("NOTIFY_SOCKET", "@socket")
    monkeypatch.setenv("WATCHDOG_USEC", "2500000")
    assert (environment_home(), notify_socket(), watchdog_seconds()) == (Path("/srv/badger"), "@socket", 2.5)
    for empty, wrong in (("HONEYBADGER_HOME", ""), ("NOTIFY_SOCKET", ""), ("WATCHDOG_USEC", "0")):
        monkeypatch.setenv(empty, wrong)
    assert (environment_home(), notify_socket(), watchdog_seconds()) == (None, None, None)
    monkeypatch.setenv("WATCHDOG_USEC", "soon")
    assert watchdog_seconds() is None
