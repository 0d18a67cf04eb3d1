"""The help of both programs, and how a mistyped command is answered."""

import os
import re
import sys
from pathlib import Path

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_host.cli import ALIASES, SECTIONS, Commands
from tests.commands import finished
from tests.conftest import HostFactory
from tests.hosting import run_agent, run_cli

NARROW = {"COLUMNS": "80"}


@pytest.mark.parametrize("run", [run_cli, run_agent])
def test_each_command_is_listed_in_one_whole_line(run: type) -> None:
    shown = run("--help", env=NARROW).stdout
    assert "..." not in shown.partition("options:")[0].replace("COMMAND ...", "").replace("[ARGS]...", "")
    assert max(map(len, shown.splitlines())) <= 80
    assert re.search(r"^ +(ask|log) +\S", shown, re.MULTILINE)


@pytest.mark.parametrize("command", ["honeybadger_host config", "honeybadger_agent.cli uninstall gemini --dry-run"])
def test_closed_and_full_streams_give_no_traceback(home: Path, command: str) -> None:
    environment = {**os.environ, "HONEYBADGER_HOME": str(home)}
    program = f"exec {sys.executable} -m {command}"
    assert finished(["sh", "-c", f"{program} <&- >&- 2>&-"], env=environment).returncode == 0
    ran = finished(["sh", "-c", f"{program} >/dev/full"], env=environment)
    assert (ran.returncode > 0, ran.stderr.count("\n"), "No space left" in ran.stderr) == (True, 1, True), ran.stderr


def test_the_help_lists_each_command_in_its_words() -> None:
    for section in SECTIONS.values():
        for name, (_, help_) in section.items():
            command = Commands(name="honeybadger-host").get_command(None, name)
            assert command.get_short_help_str(100) == help_


def test_each_command_of_the_host_stands_in_one_group() -> None:
    shown = run_cli("--help", env=NARROW).stdout
    names = [name for section in SECTIONS.values() for name in section]
    assert len(names) == len(set(names))
    assert re.findall(r"^  ([a-z][a-z-]+)  ", shown, re.MULTILINE) == names


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_its_command(alias: str) -> None:
    assert (
        run_cli(alias, "--help").stdout.split("\n", 2)[2:]
        == run_cli(ALIASES[alias], "--help").stdout.split("\n", 2)[2:]
    )


def test_a_mistyped_command_names_the_one_that_is_meant() -> None:
    refused = run_cli("contxt", "main")
    assert refused.returncode == 2
    assert "Did you mean 'context'?" in refused.stderr


def test_search_and_recall_are_the_same_in_both_programs(make_host: HostFactory, home: Path) -> None:
    make_host().start()
    SyncClient(home=home).update_memory("The boat has a red sail")
    for run, group in ((run_cli, ("main",)), (run_agent, ())):
        found = [run(name, *group, "red sail", home=home).stdout for name in ("search", "recall")]
        assert "The boat has a red sail" in found[0]
        assert found[0] == found[1]


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    refused = run_agent("remeber", "x")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there is no 'remeber'; did you mean remember?" in refused.stderr
    assert "did you mean" not in run_agent("xyzzy").stderr


def test_groups_are_listed_with_and_without_a_host(make_host: HostFactory, home: Path) -> None:
    host = make_host().start()
    scout = SyncClient(home=home, sender="scout")
    scout.update_memory("a note")
    scout.save_memory("an entry")
    scout.save_memory("another entry")
    running = run_cli("groups", home=home).stdout
    assert re.search(r"^main +1 +2 ", running, re.MULTILINE)
    assert running.splitlines()[1].endswith("scout")
    host.stop()
    stopped = orjson.loads(run_cli("groups", "--json", home=home).stdout)
    assert [row["group"] for row in stopped["groups"]] == ["main"]
    assert run_cli("groups", "--json", "nosuch", home=home).returncode == 0


def test_a_home_without_groups_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "groups").mkdir()
    refused = run_cli("groups", home=tmp_path)
    assert refused.returncode in (4, 9)
    assert "init" in refused.stderr
