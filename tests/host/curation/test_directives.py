"""The prompts of curation: the built-in ones are whole, files take their place, and a broken file harms nobody."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_host.curation.directives import (
    NAMES,
    RULES,
    DirectiveName,
    Directives,
    built_in,
    problem_of,
)
from honeybadger_host.files.home import make_home
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.ops.doctor.agent_checks import directives as check

BUILT_IN = {name: built_in(name).replace(RULES, built_in("memory-rules")) for name in NAMES}
OWN = "Answer with JSON: history_entry and memory_update. Write in German."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_home(tmp_path)
    path = tmp_path / "config/directives"
    path.mkdir(exist_ok=True)
    return path


@pytest.fixture
def directives(tmp_path: Path) -> Directives:
    return Directives(GroupFiles(tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_the_built_in_prompts_are_whole(name: DirectiveName, folder: Path, directives: Directives) -> None:
    assert problem_of(name, built_in(name)) is None
    text = directives.read(name)
    assert text == BUILT_IN[name]
    assert RULES not in text
    assert len(text) < 4000  # a prompt is paid for with every call
    if name not in ("memory-rules", "prose"):
        assert re.search("not (an )?instructions? to you", text)
        shown = re.search(r"^\{.*?\}$", text, re.MULTILINE | re.DOTALL)
        assert shown is not None
        assert json.loads(shown[0])


def test_a_file_replaces_a_prompt_at_once(folder: Path, directives: Directives) -> None:
    before = directives.read("consolidation")
    (folder / "consolidation.md").write_text(f"\ufeff{OWN}\n")
    assert directives.read("consolidation") == OWN
    assert directives.read("dream") == BUILT_IN["dream"]
    (folder / "consolidation.md").unlink()
    assert directives.read("consolidation") == before


def test_own_rules_appear_in_prompts_that_allow_them(folder: Path, directives: Directives) -> None:
    (folder / "memory-rules.md").write_text(r"Only what concerns bees. \1 stays.")
    assert r"Only what concerns bees. \1 stays." in directives.read("enrichment")
    (folder / "dream.md").write_text(f"Answer `join`.\n{RULES}\n")
    assert directives.read("dream") == "Answer `join`.\nOnly what concerns bees. \\1 stays."
    (folder / "dream.md").write_text(f"Answer `join`, with {RULES} in a line.")
    assert "bees" not in directives.read("dream")


BROKEN: dict[str, tuple[DirectiveName, bytes, str]] = {
    "blank": ("dream", b" \n", "is blank: write the prompt, or remove the file"),
    "not UTF-8": ("memory-rules", b"\xff\xfe", "is not UTF-8 (line 1): save it as UTF-8"),
    "another answer": ("consolidation", b"Write a haiku.", "does not ask for `facts`, by which the answer"),
    "a wrong placeholder": (
        "dream",
        b"join\n{memory_rules}\n",
        "has the placeholder {memory_rules}: only {memory-rules} is one",
    ),
    "rules in the rules": ("memory-rules", b"{memory-rules}", "not in the rules themselves"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_reported_and_the_default_used(what: str, folder: Path, directives: Directives) -> None:
    name, data, says = BROKEN[what]
    (folder / f"{name}.md").write_bytes(data)
    with capture_logs() as logs:
        for _ in range(3):
            assert directives.read(name) == BUILT_IN[name]
    ((event, why),) = [(each["event"], each["why"]) for each in logs]
    assert event == "directive.refused"
    assert says in why
    (folder / f"{name}.md").unlink()
    with capture_logs() as logs:
        directives.read(name)
        (folder / f"{name}.md").write_bytes(data)
        directives.read(name)
    assert len(logs) == 1  # broken again is said again


def test_doctor_names_what_is_wrong_with_a_directive(folder: Path, tmp_path: Path) -> None:
    assert list(check(tmp_path)) == []
    (folder / "dream.md").write_text("Answer join.")
    (folder / "consolidation.md").write_text("Write a haiku.")
    (folder / "preferences.md").write_text("x")
    (folder / ".dream.md.swp").write_text("x")
    found = [finding.message.partition(" ")[0] for finding in check(tmp_path) if finding.level == "warning"]
    assert found == ["config/directives/consolidation.md", "config/directives/preferences.md"]
