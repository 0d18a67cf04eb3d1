"""What is known of a context that was served, also when files are torn, full, or of an older version."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from honeybadger_host.domain import Served
from honeybadger_host.memory import served as served_contexts
from honeybadger_host.memory.served import EARLIER_FILE, SERVED_FILE
from tests.host.indexes import ledger_of


def context(number: int, group: str = "main", session: str = "s", sender: str = "a") -> Served:
    files = {"groups/main/MEMORY.md": "f" * 32, "AGENT.md": None}
    text = (f"{number:032x}", group, session, sender, number, 1000 * number, '{"a":1}', '{"text":"Ä"}')
    return Served(*text, 9, None, 3, True, files, [["e", "new", 1, 7]], False)  # type: ignore[list-item]


def test_at_least_as_many_contexts_are_known_by_their_hash_as_the_page_says(tmp_path: Path) -> None:
    files = {f"groups/{'g' * 20}/{name}.md": "f" * 32 for name in ("CLAUDE", "MEMORY", "summary", "a", "b")}
    recalled = [["e" * 12, "newest", 1000, 2**31]] * 8 + [[f"{'s' * 20}#1000", "new", 1000, 2**31]] * 83
    full = replace(context(10**6), files=files, recalled=recalled)  # type: ignore[arg-type]
    ledger = ledger_of(tmp_path)
    ledger.note(full)
    (*_, line) = (tmp_path / SERVED_FILE).read_bytes().splitlines()
    page = (Path(__file__).parents[3] / "docs" / "looking-back.md").read_text()
    assert "At least the newest 6,000 contexts of a home are known by their hash" in page
    assert served_contexts.MOST_BYTES // len(line + b"\n\n") >= 6_000


def test_a_context_is_found_by_the_beginning_of_its_hash_in_its_group_and_by_its_moment(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    told = [context(1), context(2, sender="b"), context(3, session="other"), context(4, group="second")]
    for one in told:
        ledger.note(one)
    again = ledger_of(tmp_path)  # as another process reads them
    assert again.served("main", f"{2:032x}"[:31] + "2") == told[1]
    assert again.served("main", "0" * 12) == told[2]  # the newest of those that begin so
    assert again.served("main", f"{4:032x}") is None
    assert again.served_until("main", "s", 9, 9000, None) == told[1]
    assert again.served_until("main", "s", 9, 9000, "a") == told[0]
    assert again.served_until("main", "s", 1, 9000, "b") is None
    assert again.served_until("main", "s", 9, 1999, None) == told[0]
    assert [*again.every_served("main")] == told[:3]


def test_what_a_power_cut_tore_hides_no_other_context(tmp_path: Path) -> None:
    ledger_of(tmp_path).note(context(1))
    path = tmp_path / SERVED_FILE
    whole = path.read_bytes()
    ledger_of(tmp_path).note(context(2))
    second = path.read_bytes().removeprefix(whole)
    for torn in (second[:-20], b"\0" * 100, second.replace(b"null", b"")):
        path.write_bytes(whole + torn)
        ledger_of(tmp_path).note(context(3))
        again = ledger_of(tmp_path)
        assert [*again.every_served("main")] == [context(1), context(3)]
        assert again.served("main", f"{2:032x}") is None


def test_of_many_contexts_the_newest_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_contexts, "MOST_BYTES", 4000)
    ledger = ledger_of(tmp_path)
    for number in range(100):
        ledger.note(context(number))
    kept = [*ledger_of(tmp_path).every_served("main")]
    assert kept == [context(number) for number in range(100 - len(kept), 100)]  # with their settings and identities
    assert 8 < len(kept) < 30
    assert max((tmp_path / file).stat().st_size for file in (SERVED_FILE, EARLIER_FILE)) < 5000


def test_contexts_of_a_group_that_is_loaded_replace_its_own_and_leave_those_of_others(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    for one in (context(1), context(2, group="second")):
        ledger.note(one)
    ledger.take_in("main", [], [], [context(3), context(4)])
    ledger.note(context(5))
    assert [*ledger.every_served("main")] == [context(3), context(4), context(5)]
    assert [*ledger.every_served("second")] == [context(2, group="second")]


def test_contexts_that_an_older_version_kept_in_the_database_are_known(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with sqlite3.connect(tmp_path / "data" / "recalled.db") as old:
        old.execute(
            "CREATE TABLE served (number INTEGER PRIMARY KEY, hash TEXT, grp TEXT, session TEXT, sender TEXT, "
            "seq INTEGER, at INTEGER, settings BLOB, identity BLOB, made TEXT)"
        )
        old.execute("CREATE TABLE made_with (hash BLOB PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID")
        old.execute("INSERT INTO made_with VALUES (x'01', '{\"a\":1}'), (x'02', '{\"text\":\"Ä\"}')")
        made = (
            '{"budget_tokens":9,"message_tokens":null,"most_turns":3,"skips_newest":true,'
            '"files":{"groups/main/MEMORY.md":"ffffffffffffffffffffffffffffffff","AGENT.md":null},'
            '"recalled":[["e","new",1,7]],"is_torn":false}'
        )
        row = "INSERT INTO served VALUES (NULL, ?, 'main', 's', 'a', ?, ?, ?, ?, ?)"
        old.execute(row, (f"{1:032x}", 1, 1000, b"\1", b"\2", made))
        old.execute(row, (f"{2:032x}", 2, 2000, b"\1", b"gone", made))
    old.close()
    for _ in range(2):
        ledger = ledger_of(tmp_path)
        assert ledger.served("main", f"{1:032x}") == context(1)
        assert [*ledger.every_served("main")] == [context(1), replace(context(2), identity="")]
        ledger.close()
