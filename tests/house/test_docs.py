"""The documents show what happens: the tour and the clients of the README are run."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from honeybadger_agent.wire import REQUEST_TYPES
from honeybadger_host.curation import enrichment, passes
from honeybadger_host.curation.proposal import GateName
from honeybadger_host.documents.in_use import MAX_BYTES
from honeybadger_host.memory import turn_log_store
from honeybadger_host.settings import Consolidation, History
from tests.commands import finished
from tests.hosting import HostProcess

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def steps(page: str) -> Iterator[tuple[str, str]]:
    """Yield (command, expected output) of every console block."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            yield command, expected


def matches(expected: str, printed: str) -> bool:
    pattern = re.escape(expected.rstrip("\n")).replace("…", "(?:.|\n)*")
    return re.fullmatch(pattern, printed.rstrip("\n")) is not None


@pytest.mark.timeout(300)
def test_every_command_of_the_tour_prints_its_output(tmp_path: Path) -> None:
    commands = list(steps("docs/tour.md"))
    assert len(commands) > 20
    mark = "--- end of step ---"
    script = "".join(f"{command}\nprintf '%s\\n' '{mark}'\n" for command, _ in commands)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HONEYBADGER_")}
    run = subprocess.run(
        ["bash", "-c", script + 'kill -9 "$host" 2>/dev/null; true'],
        cwd=tmp_path,
        env=environment | {"PATH": f"{BIN}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(tmp_path / "config")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=290,
        check=False,
    )
    printed = run.stdout.split(f"{mark}\n")
    assert len(printed) == len(commands) + 1, run.stdout
    for (command, expected), output in zip(commands, printed, strict=False):
        assert matches(expected, output), f"$ {command}\nexpected:\n{expected}\nprinted:\n{output}"


def test_the_first_commands_of_the_readme_run(host: HostProcess) -> None:
    (script,) = [block for block in blocks("README.md", "sh") if "remember" in block]
    shell = ["sh", "-eu", "-c", script.replace("$PWD/.venv/bin", str(BIN))]
    run = finished(shell, cwd=host.home, stdin=subprocess.DEVNULL)
    assert (run.returncode, run.stderr) == (0, "")
    saved, *found = run.stdout.splitlines()
    assert saved == "saved in MEMORY.md, section Preferences"
    assert "User prefers dark mode" in found[1]
    assert "## Remembered Facts groups/main/MEMORY.md" in " ".join(run.stdout.split())


def test_the_readme_begins_with_sentence_picture_and_start() -> None:
    screen = (ROOT / "README.md").read_text().splitlines()[:25]
    assert screen[2].count(".") == 1
    assert screen[4].startswith("![")
    assert {"make run", "honeybadger-agent remember"} <= {
        start for start in ("make run", "honeybadger-agent remember") if any(line.startswith(start) for line in screen)
    }


def test_the_recorded_demo_holds_what_it_checks() -> None:
    demo = (ROOT / "docs/demo/demo.py").read_text()
    held = re.findall(r"^   held +(.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(held) == 4
    assert [line for line in held if line not in demo] == []


def test_the_readmes_shell_client_saves_its_note(host: HostProcess) -> None:
    (script,) = [block for block in blocks("README.md", "sh") if "box=" in block]
    run = finished(["sh", "-eu", "-c", script], cwd=host.home)
    assert run.returncode == 0, run.stderr
    assert '"ok":true' in run.stdout
    assert "## Preferences (sheila, " in (host.home / "groups/main/MEMORY.md").read_text()


def test_the_python_client_of_the_readme_prints_a_context(host: HostProcess) -> None:
    (program,) = blocks("README.md", "python")
    run = finished([sys.executable, "-c", program], cwd=host.home)
    assert run.returncode == 0, run.stderr
    assert "User prefers tea without sugar" in run.stdout
    assert run.stdout.count("What do I like?") == 1  # in the messages, not in the system text as well
    assert "## Remembered Facts groups/main/MEMORY.md" in run.stdout


def test_the_protocol_page_has_every_type_with_every_member() -> None:
    page = (ROOT / "docs/protocol.md").read_text()
    for name, kind in REQUEST_TYPES.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", page, re.MULTILINE)
        for member in (*kind.model_fields, *kind.result_type.model_fields):
            assert f"`{member}`" in row, f"{name}: {member}"


def test_the_projects_persona_is_the_one_of_init() -> None:
    assert (ROOT / "groups/main/CLAUDE.md").read_text() == (ROOT / "honeybadger_host/templates/CLAUDE.md").read_text()


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("curation.md", f"turns of a session ({Consolidation().memory_window}) are not consolidated"),
        ("curation.md", f"`history.budget_tokens` of them ({History().budget_tokens:,}), all but the newest ten"),
        ("curation.md", f"at least {enrichment.MIN_CHARACTERS} characters in three sentences"),
        ("curation.md", f"the {passes.MAX_ENTRIES:,} entries that changed last"),
        ("looking-back.md", f"in a file over {MAX_BYTES >> 20} MiB, or in a save"),
    ],
)
def test_a_pages_figure_is_that_of_the_code(page: str, told: str) -> None:
    assert told in " ".join((ROOT / "docs" / page).read_text().split())


def test_the_newest_ten_turns_or_half_a_window_stay() -> None:
    assert [turn_log_store.kept_turns(window) for window in (1, 4, 19, 20, 50)] == [2, 2, 9, 10, 10]
    assert enrichment.MIN_SENTENCES == 3


def test_the_pages_gates_are_those_of_the_code() -> None:
    table = (ROOT / "docs/curation.md").read_text().partition("| gate | refuses |")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == get_args(GateName)


def test_every_link_between_the_documents_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_documented_log_event_is_in_the_code() -> None:
    page = (ROOT / "docs/operating.md").read_text()
    code = "".join(path.read_text() for path in (ROOT / "honeybadger_host").rglob("*.py"))
    table = page.partition("| event | when |")[2].partition("##")[0]
    events = {
        event
        for line in table.splitlines()
        for event in re.findall(r"`([a-z_]+\.[a-z_]+)`", line.split("|")[1] if "|" in line else "")
    }
    assert events
    assert not {event for event in events if f'"{event}"' not in code}
    written = set(re.findall(r'log\.(?:info|warning|error)\(\s*"([a-z_]+\.[a-z_]+)"', code))
    assert written - {"request.answered"} <= events  # that one is shown whole, above the table


def test_every_file_that_the_architecture_page_names_is_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    named = {name.rstrip("/") for name in re.findall(r"`?([\w/]+(?:/|\.py|\.md))`?", page) if "/" in name}
    tops = ("", "docs", "honeybadger_host", "honeybadger_agent")
    shown = {name for name in named if name.endswith((".py", ".md")) or name.split("/")[0].startswith("honeybadger_")}
    assert {"spool/answers.py", "honeybadger_host/search"} <= shown
    made = {"groups/main/MEMORY.md"}
    assert [name for name in sorted(shown - made) if not any((ROOT / top / name).exists() for top in tops)] == []
