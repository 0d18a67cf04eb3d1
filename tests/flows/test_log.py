"""What `honeybadger-host log` shows of a group, and of all groups, when somebody wants only some of it."""

from __future__ import annotations

from pathlib import Path

from tests.commands import cli_json, cli_text
from tests.conftest import HostFactory
from tests.flows.test_edits import edits
from tests.hosting import AT_ONCE, RawSender, request, run_cli
from tests.people import looking


def test_the_log_shows_only_what_was_asked_for(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    for group in ("main", "other"):
        (home / "groups" / group).mkdir(exist_ok=True)
    looking(make_host(AT_ONCE))
    ann, bob = RawSender(home, sender="ann").make(), RawSender(home, "other", "bob").make()
    assert ann.ask("a1", request("a1", content="likes tea"))["seq"] == 1
    saved = ann.ask("a2", request("a2", "save_memory", payload={"content": "likes cake", "name": "cake"}))
    assert bob.ask("b1", request("b1", content="likes milk"))["seq"] == 3
    assert stranger.ask("s1", request("s1", content="likes tea, too"))["seq"] == 4
    (home / "groups" / "main" / "summary.md").write_text("Be brief.\n")
    edits(home, 1)

    def seqs(*arguments: object) -> list[int]:
        return [row["seq"] for row in cli_json("log", *arguments, home=home)]

    assert seqs() == [5, 4, 3, 2, 1]
    assert seqs("main") == [5, 4, 2, 1]
    assert (seqs("--by", "ann"), seqs("--by", "human"), seqs("other", "--by", "ann")) == ([2, 1], [5], [])
    assert (seqs("--kind", "note"), seqs("main", "--kind", "entry")) == ([4, 3, 1], [2])
    assert seqs("--kind", "edit_new") == [5]
    assert (seqs("--kind", "edit"), seqs("--kind", "edit_removed")) == ([], [])
    assert seqs("--file", "MEMORY.md") == [4, 3, 1]
    assert seqs("--file", "groups/other/MEMORY.md") == [3]
    assert seqs("main", "--file", "EMORY.md") == []
    assert seqs("--file", saved["result"]["id"]) == [2]
    third = next(row["at"] for row in cli_json("log", home=home) if row["seq"] == 3)
    assert set(seqs("--since", third)) >= {3, 4, 5}
    assert (seqs("--since", "yesterday"), seqs("--since", "2999-01-01")) == ([5, 4, 3, 2, 1], [])
    assert seqs("main", "--by", "ann", "--since", "yesterday", "--limit", 1) == [2]
    assert cli_json("log", "--by", "ann", home=home)[1]["request"] == "a1"
    assert cli_text("log", "--by", "nobody", home=home) == "no change is like that\n"
    for arguments, says in (
        (("--kind", "notes"), "there is no kind 'notes' of changes; there are: archived, archived_removed"),
        (("--since", "soon"), "'soon' is not a time: write 2026-11-21"),
    ):
        refused = run_cli("log", *arguments, home=home)
        assert (refused.returncode, says in " ".join(refused.stderr.replace("│", " ").split())) == (2, True), refused
