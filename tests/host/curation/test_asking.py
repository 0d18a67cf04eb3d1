"""One question to a model: what counts as an attempt, what is booked, and what an answer costs."""

import json
import re
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_host.curation.asking import (
    NAMES,
    RULES,
    DirectiveName,
    OverBudget,
    Question,
    budgets_used,
    built_in,
    check_budgets,
    read_directive,
)
from honeybadger_host.files.home import make_home
from honeybadger_host.journal.schema import Spent
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.ops.doctor.checks import directives as check
from honeybadger_host.settings import Curation

QUESTION = Question("main", "dream-1", "dream", "Tidy up.", "Two notes say the same.")


def test_a_used_up_budget_stops_its_group_or_kind() -> None:
    budgets = Curation(tokens_per_day=10_000, groups={"main": 1000}, kinds={"dream": 500})
    spent = [Spent("2026-12-31", "main", "consolidation", 800), Spent("2026-12-31", "work", "dream", 300)]
    limits = [
        ("main", "consolidation", 200, "curation.groups.main is 1000: it waits until 2027-01-01 00:00 UTC"),
        ("work", "dream", 200, "curation.kinds.dream is 500: it waits until 2027-01-01"),
        ("work", "consolidation", 8900, "curation.tokens_per_day is 10000: it waits until 2027-01-01"),
        ("main", "dream", 200, "800 tokens were used today, this needs up to 201, and curation.groups.main"),
    ]
    for group, kind, left, says in limits:
        check_budgets(budgets, spent, Spent("2026-12-31", group, kind, left))
        with pytest.raises(OverBudget, match=says):
            check_budgets(budgets, spent, Spent("2026-12-31", group, kind, left + 1))
    assert [each[1:] for each in budgets_used(budgets, spent)] == [(1100, 10_000), (800, 1000), (300, 500)]
    check_budgets(Curation(tokens_per_day=0), spent, Spent("2026-12-31", "main", "dream", 10**9))


BUILT_IN = {name: built_in(name).replace(RULES, built_in("memory-rules")) for name in NAMES}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_home(tmp_path)
    path = tmp_path / "config/directives"
    path.mkdir(exist_ok=True)
    return path


@pytest.fixture
def directives(tmp_path: Path) -> GroupFiles:
    return GroupFiles(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_the_built_in_prompts_are_whole(name: DirectiveName, folder: Path, directives: GroupFiles) -> None:
    text = read_directive(directives, name)
    assert text == BUILT_IN[name]
    assert len(text) < 4000  # a prompt is paid for with every call
    if name not in ("memory-rules", "prose"):
        assert re.search("not (an )?instructions? to you", text)
        shown = re.search(r"^\{.*?\}$", text, re.MULTILINE | re.DOTALL)
        assert shown is not None
        assert json.loads(shown[0])


def test_files_replace_a_prompt_and_its_rules_at_once(folder: Path, directives: GroupFiles) -> None:
    (folder / "dream.md").write_text(f"\ufeffAnswer `join`.\n{RULES}\n")
    (folder / "memory-rules.md").write_text(r"Only what concerns bees. \1 stays.")
    assert read_directive(directives, "dream") == "Answer `join`.\nOnly what concerns bees. \\1 stays."
    assert r"Only what concerns bees. \1 stays." in read_directive(directives, "enrichment")
    (folder / "memory-rules.md").unlink()
    (folder / "dream.md").unlink()
    assert read_directive(directives, "dream") == BUILT_IN["dream"]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("dream", b" \n", "is blank: write the prompt, or remove the file"),
        ("memory-rules", b"\xff\xfe", "is not UTF-8 (line 1): save it as UTF-8"),
    ],
)
def test_a_broken_file_is_reported_and_the_default_used(
    name: DirectiveName, data: bytes, says: str, folder: Path, directives: GroupFiles
) -> None:
    (folder / f"{name}.md").write_bytes(data)
    with capture_logs() as logs:
        assert read_directive(directives, name) == BUILT_IN[name]
    ((event, why),) = {(each["event"], each["why"]) for each in logs}
    assert event == "directive.refused"
    assert says in why


def test_doctor_names_what_is_wrong_with_a_directive(folder: Path, tmp_path: Path) -> None:
    assert list(check(tmp_path)) == []
    (folder / "dream.md").write_text("Answer join.")
    (folder / "consolidation.md").write_text("\n")
    (folder / "preferences.md").write_text("x")
    (folder / ".dream.md.swp").write_text("x")
    found = [finding.message.partition(" ")[0] for finding in check(tmp_path) if finding.level == "warning"]
    assert found == ["config/directives/consolidation.md", "config/directives/preferences.md"]
