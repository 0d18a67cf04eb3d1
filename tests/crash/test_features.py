"""SIGKILL at the n-th call that changes the disk, and in recovery, while each feature is at work: once is once."""

import contextlib
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from honeybadger_agent.models.model import ModelSaid
from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.text.neutralise import estimate_tokens
from tests.crash.conftest import IS_LONG
from tests.crash.features import (
    CONSOLIDATED,
    DREAMT,
    ENTRIES,
    FEATURES,
    found_in,
    make_sleeper,
    make_talk,
    write_entries,
)
from tests.crash.hosts import Nursery, Point, Work, cut_again, ended, kill_again
from tests.endpoint import Answer, Asked, openai, served
from tests.hosting import HostProcess, RawSender, request, wait_for


@pytest.mark.parametrize("feature", FEATURES)
def test_killed_at_any_call_each_is_done_once(
    nursery: Nursery, work_of: Callable[[str], Work], tmp_path: Path, rng: random.Random, feature: str
) -> None:
    work = work_of(feature)
    assert kill_again(nursery, tmp_path, rng, work, stride=1 if IS_LONG else work.stride) > 1


@pytest.mark.parametrize("feature", ["forget", "removed_notes", "rewind"])
def test_a_power_cut_at_any_call_leaves_each_whole(
    nursery: Nursery, work_of: Callable[[str], Work], tmp_path: Path, rng: random.Random, feature: str
) -> None:
    work = work_of(feature)
    for _ in range(2 if IS_LONG else 1):
        cut_again(nursery, tmp_path, rng, work, 1 if IS_LONG else work.stride)


_ON_REQUEST = {**DREAMT, "dream.schedule": "", "model.curation": "offline"}


@pytest.mark.parametrize("point", ["committed", "kept", "replied"])
def test_a_killed_dream_request_is_answered_once(nursery: Nursery, tmp_path: Path, point: str) -> None:
    operator = RawSender(tmp_path / "home", sender="operator").make()
    make_sleeper(operator.home)
    operator.drop("d1", request("d1", "dream"))
    with ended(nursery.start(operator.home, _ON_REQUEST, kill=Point(point, 1))) as host:
        assert host.wait() == -signal.SIGKILL
    is_kept = point != "committed"  # else the receipt is not there yet, and the pass has another look
    more = dict.fromkeys(("bob1", "bob2"), "Bob plays chess.") if is_kept else {}
    write_entries(operator.home, more)
    with ended(nursery.start(operator.home, _ON_REQUEST)):
        operator.wait_until_taken("d1")
        assert [each["applied"] for each in operator.reply("d1")["result"]["proposals"]] == [1] * is_kept
    group = operator.home / "groups" / "main"
    assert len(list((group / "proposals").glob("*.json"))) == 1
    assert found_in(group / "archive/memory").keys() == {"tea1", "tea2"}
    assert len(found_in(group / "memory")) == len(ENTRIES) - 1 + len(more)


def test_each_kill_books_at_most_twice_the_cost(tmp_path: Path, rng: random.Random) -> None:
    home, paid = tmp_path / "home", Counter[str]()
    make_talk(home)

    def answering(asked: Asked) -> Answer:
        """Charge for the prompt and for each piece that is sent, then hang."""
        paid["tokens"] += estimate_tokens(asked.system) + estimate_tokens(str(asked.body["messages"][-1]["content"]))
        said = ["".join(rng.choices("abcdefgh ", k=rng.randint(4, 80))) for _ in range(rng.choice([0, 9, 90, 400]))]
        paid["tokens"] += estimate_tokens("".join(said))
        paid["sent"] += 1
        return openai(ModelSaid("".join(said)), pieces_of_text=said, then="hang")

    with served(answering) as endpoint:
        settings = {**CONSOLIDATED, **endpoint.settings, "model.curation": "openai:test"}
        for kill in range(1, 11 if IS_LONG else 5):
            with HostProcess(home, settings).launch() as host:
                wait_for(lambda: paid["sent"] == kill, what="a question")  # noqa: B023  called at once
                wait_for(lambda: booked(home) >= paid["tokens"], what=f"{paid} booked: {booked(home)}")
                host.kill()
            assert paid["tokens"] <= booked(home) <= 2 * paid["tokens"], (kill, paid)


def booked(home: Path) -> int:
    """Return the tokens that the journal has booked."""
    with contextlib.closing(sqlite3.connect(f"file:{home / JOURNAL_FILE}?mode=ro", uri=True)) as journal:
        return int(journal.execute("SELECT total(tokens) FROM spent").fetchone()[0])
