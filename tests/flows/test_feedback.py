"""Feedback through a real host: kept once over kills and repetitions, shown in the log, a person's to delete."""

import json
from pathlib import Path

from honeybadger_agent import SyncClient
from tests.commands import cli_text
from tests.conftest import HostFactory
from tests.hosting import AT_ONCE, RawSender, request, run_cli, wait_for
from tests.people import settle


def lines(home: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / "data/feedback/main.jsonl").read_text().splitlines()]


def test_feedback_survives_kills_and_can_be_deleted(make_host: HostFactory, home: Path, stranger: RawSender) -> None:
    host = make_host({**AT_ONCE, "ops.maintenance.CHECKPOINT_SECONDS": 600}).start()  # nothing counts as written
    agent = SyncClient(home, "main", "ann")
    agent.append_turn("user", "Which file says it?")
    agent.append_turn("assistant", "search_files found nothing")
    asked = request("f1", "record_feedback", payload={"kind": "correction", "content": "use grep"})
    first = stranger.ask("f1", asked)
    host.kill()
    (home / "data/feedback/main.jsonl").unlink(missing_ok=True)  # as if the kill came before it was written
    del host.settings["ops.maintenance.CHECKPOINT_SECONDS"]
    host.start()
    wait_for(lambda: (home / "data/feedback/main.jsonl").exists(), what="the line again")
    stranger.replies.joinpath("f1.json").unlink(missing_ok=True)
    assert stranger.ask("f1", asked)["result"] == first["result"] == {"turn": 2}
    agent.record_feedback("praise", turn=2)
    assert [(one["kind"], one["by"], one["turn"]) for one in lines(home)] == [
        ("correction", "stranger", 2),
        ("praise", "ann", 2),
    ]

    log = cli_text("log", "main", home=home)
    assert "stranger feedback data/feedback/main.jsonl correction use grep" in " ".join(log.split())
    seq = str(first["seq"])
    refused = run_cli("undo", seq, home=home)
    assert refused.returncode != 0
    assert "(feedback) cannot be undone" in refused.stderr

    settle(home)
    (home / "data/feedback/main.jsonl").write_text("")
    agent.record_feedback("complaint", "too long")
    assert [one["kind"] for one in lines(home)] == ["complaint"]
