"""The doctor's findings about a home, and how a command looks on a terminal."""

import os
from pathlib import Path

import pytest

from honeybadger_agent.wire import Undo
from honeybadger_host.files.home import HomeLock, make_home
from honeybadger_host.ops import operator_client
from honeybadger_host.ops.doctor import examine
from honeybadger_host.ops.findings import Finding, faults_in
from tests.commands import cli_error, cli_text
from tests.conftest import HostFactory
from tests.hosting import AT_ONCE, HostProcess, RawSender, run_cli, wait_for


def _found(home: Path, check: str) -> Finding:
    return next(finding for finding in examine(home) if finding.check == check)


def test_a_journal_is_healthy_at_any_path(tmp_path: Path) -> None:
    home = tmp_path / "a#b 50%20? ä" / "home"
    make_home(home)
    with HostProcess(home) as host:
        host.start()
        sender = RawSender(home).make()
        sender.note("a", "a.")
        assert sender.reply("a")["ok"] is True
        host.stop()
    before = sorted(path for path in tmp_path.rglob("*") if "-shm" not in path.name and "-wal" not in path.name)
    journal = _found(home, "journal")
    assert (journal.level, journal.message.partition(",")[0]) == ("ok", "1 change")
    assert run_cli("log", "main", home=home).returncode == 0
    assert run_cli("backup", tmp_path / "copy.tar.gz", home=home).returncode == 0
    (tmp_path / "copy.tar.gz").unlink()
    assert sorted(path for path in tmp_path.rglob("*") if "-shm" not in path.name and "-wal" not in path.name) == before
    bare = tmp_path / "bare"
    (bare / "groups").mkdir(parents=True)
    assert _found(bare, "home").level == "ok"
    assert os.listdir(bare) == ["groups"], "it only looks"


def test_a_request_without_json_suffix_is_named(home: Path) -> None:
    sender = RawSender(home).make()
    (sender.requests / "good.json").touch()
    assert _found(home, "boxes").level == "ok"
    (sender.requests / "note.JSON").touch()
    found = _found(home, "boxes")
    assert found.level == "warning"
    assert found.message == f"{sender.requests} has 1 file never served: 'note.JSON' first"


def test_a_sender_that_closed_mode_does_not_know_is_named(home: Path) -> None:
    (home / "config/honeybadger.toml").write_text("[ipc]\nclosed = true\n")
    cli_text("sender", "add", "main", "ann", home=home)
    for sender in ("ann", "bob", "operator", "assistant"):
        (RawSender(home, sender=sender).make().requests / "1.json").touch()
    told = [finding.message for finding in examine(home) if finding.check == "senders"]
    assert told == ["closed mode serves 1 sender", "closed mode does not serve main/bob, which sent 1 request"]


def test_a_folder_with_a_forbidden_group_name_is_named(home: Path) -> None:
    for name in (".git", "fine-1", "our team"):
        (home / "groups" / name).mkdir()
    found = _found(home, "group files")
    assert found.level == "warning"
    assert found.message == f"{home}/groups/our team is not a group's name: nothing in it is served"


@pytest.mark.parametrize(
    ("file", "members", "fault"),
    [
        ("Größe/x.json", "", "its folder 'Größe' is not a category: names of A-Z a-z 0-9 - _, up to 8 deep"),
        ("general/Müll.json", "", "its name 'Müll.json' is not an id: 1-64 characters of A-Z a-z 0-9 - _, then .json"),
        ("general/x.json", ', "pinned": "yes"', "pinned must be true or false: it is not used"),
        (
            "general/x.json",
            ', "valid_until": "May"',
            "valid_until must be a time, as 2026-11-21T06:00:00Z or 2026-11-21: it is not used",
        ),
    ],
)
def test_an_entrys_fault_is_named_as_typed(file: str, members: str, fault: str, home: Path) -> None:
    path = home / "groups/main/memory" / file
    path.parent.mkdir(parents=True)
    path.write_text(f'{{"content": "The bins go out on Tuesday", "tags": []{members}}}')
    (path.parent / ".hidden").mkdir()
    (path.parent / ".hidden/x.json").write_text("an editor's")
    found = _found(home, "entries")
    assert (found.level, found.message) == ("warning", f"groups/main/memory/{file}: {fault}")


def test_an_agent_with_nobody_to_delegate_to_is_named(home: Path) -> None:
    (home / "config" / "agents").mkdir(parents=True, exist_ok=True)
    (home / "config" / "agents" / "chief.json").write_text('{"delegates_to": ["cook", "chief2"]}')
    (home / "config" / "agents" / "cook.json").write_text("{}")
    found = _found(home, "agents")
    assert found.level == "warning"
    assert found.message.endswith("chief.json: delegates_to names chief2, and there is no such agent")


@pytest.mark.parametrize(
    ("lines", "check", "fault"),
    [
        ('[dream]\nschedule = "daily"', "settings", "setting dream.schedule: cron line 'daily' cannot be read"),
        ('[metrics]\ntextfile = "/gone/x.prom"', "settings", "metrics.textfile /gone/x.prom: /gone is not a folder"),
        ('[model]\nname = "ollama:x"\nbase_url = "home:1"', "model", "model.name: ollama:x: base_url must be"),
    ],
)
def test_a_setting_of_its_type_can_be_a_problem(lines: str, check: str, fault: str, home: Path) -> None:
    (home / "config" / "honeybadger.toml").write_text(lines)
    problems = [finding for finding in examine(home) if finding.level == "problem"]
    assert [finding.check for finding in problems] == [check]
    assert problems[0].message.startswith(fault)


def test_the_running_hosts_settings_are_the_checked_ones(home: Path) -> None:
    with HostProcess(home, {"model.name": "scripted:gone.json"}) as host:
        host.start()
        wait_for((home / "data" / "status.json").exists)
        findings = [*examine(home)]
        host.stop()
    (other,) = (finding for finding in findings if (finding.check, finding.level) == ("settings", "warning"))
    assert "the running host was started with other values: " in other.message
    assert "model.name = scripted:gone.json" in other.message
    (model,) = (finding for finding in findings if finding.check == "model")
    assert (model.level, model.message) == ("problem", "scripted:gone.json (model.name): there is no such file")


def test_an_unanswered_command_says_what_becomes_of_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_client, "WAIT_SECONDS", 0.05)
    lock = HomeLock(home)  # as of a host that hangs
    with pytest.raises(operator_client.NoAnswer, match="what was asked is taken back"):
        operator_client.ask(home, "main", Undo(seq=1), serve=lambda _: pytest.fail("somebody serves it"))
    lock.close()
    assert list((home / "data/ipc/main/operator/requests").iterdir()) == []


def test_a_file_in_the_way_of_a_command_is_named(home: Path) -> None:
    (home / "data/ipc/main").mkdir()
    (home / "data/ipc/main/operator").touch()
    assert f"File exists: '{home}/data/ipc/main/operator'" in cli_error("search", "main", "x", home=home)


def test_a_file_name_that_is_not_utf8_stops_no_report(home: Path, make_host: HostFactory) -> None:
    make_host(AT_ONCE).start()
    (home / "config" / "agents").mkdir()
    Path(os.fsdecode(os.fsencode(home) + b"/config/agents/b\xe4r.json")).write_text("{}")
    wait_for(lambda: "agent file is not used" in cli_text("status", home=home), what="the status names it")
    assert "is not an agent's" in cli_text("doctor", home=home)


def test_a_watcher_that_has_not_begun_is_no_fault() -> None:
    off = {"watcher": {"is_alive": False}, "sweeps": 0}
    assert [*faults_in(off)] == []
    assert "the watcher is off" in next(faults_in({**off, "sweeps": 1})).message


def test_dead_letters_are_in_the_status(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    make_host(AT_ONCE).start()
    stranger.drop("a", b"no json")
    assert stranger.reply("a")["ok"] is False
    told = cli_text("status", home=home)
    assert "1 request could not be served" in told
    assert "honeybadger-host dead list" in told
