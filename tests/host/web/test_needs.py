"""Work that waits for the operator, found in the status of the host."""

from __future__ import annotations

from pathlib import Path

from honeybadger_host.curation.proposal_files import WaitingProposals
from honeybadger_host.files.home import make_home
from honeybadger_host.web.asking import Home
from honeybadger_host.web.needs import needs_of


def test_a_nearly_spent_budget_comes_after_faults(tmp_path: Path) -> None:
    make_home(tmp_path)
    home = Home(tmp_path, True, WaitingProposals(tmp_path))
    budgets = [{"setting": name, "used": used, "limit": 1000} for name, used in (("near", 800), ("far", 799))]
    told = needs_of(home, {"curation": {"budgets": budgets}, "files_behind": ["groups/main/MEMORY.md"]})
    assert [(need.kind, need.text) for need in told] == [
        ("problem", "cannot be written now: groups/main/MEMORY.md"),
        ("budget", "near: 800 of 1,000 tokens are used"),
    ]
    assert needs_of(home, {}) == []
