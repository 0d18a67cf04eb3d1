"""One question to a model: what counts as an attempt, what is booked, and what an answer costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from honeybadger_agent.models.model import ModelSaid
from honeybadger_agent.models.scripted import ScriptedModel
from honeybadger_host.curation.asking import ATTEMPTS, Asker, Question, TooOften
from honeybadger_host.errors import WorldFailed
from honeybadger_host.storage.journal import Journal

QUESTION = Question("main", "dream-1", "dream", "Tidy up.", "Two notes say the same.")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    (tmp_path / "data").mkdir()
    opened = Journal.open(tmp_path / "data" / "journal.db")
    yield opened
    opened.close()


def asker(journal: Journal, sleep: Callable[[float], Awaitable[None]] | None = None) -> Asker:
    """Return what asks a model that answers at once, or sleeps first."""
    model = ScriptedModel([ModelSaid("{}", input_tokens=7, output_tokens=2)])
    if sleep is not None:
        model.delay_seconds, model.sleep = 1.0, sleep

    async def opened() -> ScriptedModel:
        return model

    slot = anyio.CapacityLimiter(1)
    return Asker(journal, lambda: slot, opened, str, tokens_per_day=0, max_output_tokens=10)


def test_a_question_that_the_host_stops_in_order_is_asked_again_however_often(journal: Journal) -> None:
    async def stopped() -> None:
        with anyio.CancelScope() as scope:

            async def cancel(seconds: float) -> None:
                scope.cancel()
                await anyio.sleep_forever()

            await asker(journal, cancel).ask(QUESTION)

    async def answered() -> str:
        return (await asker(journal).ask(QUESTION)).text

    for _ in range(ATTEMPTS + 1):
        anyio.run(stopped)
    assert anyio.run(answered) == "{}"


def test_a_question_that_a_full_disk_stops_is_asked_again_however_often(journal: Journal) -> None:
    pages = journal._writer.execute("PRAGMA page_count").fetchone()[0]
    long = Question("main", "dream-2", "dream", "Tidy up.", "A note. " * 20_000)

    async def asked() -> str:
        return (await asker(journal).ask(long)).text

    for _ in range(ATTEMPTS + 1):
        journal._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(WorldFailed, match="no space"):
            anyio.run(asked)
    journal._writer.execute("PRAGMA max_page_count = 1000000")
    assert anyio.run(asked) == "{}"


def test_a_question_that_kills_cut_short_is_given_up(journal: Journal) -> None:
    for _ in range(ATTEMPTS):
        journal.begin_turn(QUESTION.key, QUESTION.digest)

    async def asked() -> None:
        await asker(journal).ask(QUESTION)

    with pytest.raises(TooOften):
        anyio.run(asked)
