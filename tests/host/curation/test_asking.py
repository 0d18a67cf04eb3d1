"""One question to a model: what counts as an attempt, what is booked, and what an answer costs."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import pytest

from honeybadger_agent.models.model import ModelSaid, OnText, Prompt
from honeybadger_agent.models.scripted import ScriptedModel
from honeybadger_host.curation.asking import Asker, Budgets, OverBudget, Question
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import Spent

QUESTION = Question("main", "dream-1", "dream", "Tidy up.", "Two notes say the same.")


# -------------------------------------------------------------------------------------------------------------- budgets


def test_a_used_up_budget_stops_its_group_or_kind() -> None:
    budgets = Budgets(10_000, {"main": 1000}, {"dream": 500})
    spent = [Spent("2026-12-31", "main", "consolidation", 800), Spent("2026-12-31", "work", "dream", 300)]
    limits = [
        ("main", "consolidation", 200, "curation.groups.main is 1000: it waits until 2027-01-01 00:00 UTC"),
        ("work", "dream", 200, "curation.kinds.dream is 500: it waits until 2027-01-01"),
        ("work", "consolidation", 8900, "curation.tokens_per_day is 10000: it waits until 2027-01-01"),
        ("main", "dream", 200, "800 tokens were used today, this needs up to 201, and curation.groups.main"),
    ]
    for group, kind, left, says in limits:
        assert budgets.refusal(spent, Spent("2026-12-31", group, kind, left)) is None
        assert says in str(budgets.refusal(spent, Spent("2026-12-31", group, kind, left + 1)))
    assert [each[1:] for each in budgets.used(spent)] == [(1100, 10_000), (800, 1000), (300, 500)]
    assert Budgets().refusal(spent, Spent("2026-12-31", "main", "dream", 10**9)) is None


def test_a_cost_is_booked_before_and_settled_after(journal: Journal) -> None:
    booked: list[list[Spent]] = []
    slot = anyio.CapacityLimiter(1)

    class Watched(ScriptedModel):
        async def answer(self, prompt: Prompt, on_text: OnText) -> ModelSaid:
            booked.append(journal.spent(spent.day))
            with pytest.raises(OverBudget, match=r"curation\.groups\.main is 30: it waits until 2"):
                await asking.ask(Question("main", "dream-2", "dream", "Tidy up.", "Two notes say the same."))
            return await ScriptedModel.answer(self, prompt, on_text)

    async def opened() -> ScriptedModel:
        return Watched([ModelSaid("{}", input_tokens=7, output_tokens=2)])

    asking = Asker(journal, lambda: slot, opened, str, Budgets(groups={"main": 30}), max_output_tokens=10)
    spent = Spent(datetime.now(UTC).date().isoformat(), "main", "dream", 14)
    anyio.run(asking.ask, QUESTION)
    assert booked == [[spent]]
    assert asking.spent_today == [spent._replace(tokens=9)]
