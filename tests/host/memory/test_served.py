"""Contexts are kept as they were served, and never given back as anything else."""

import sqlite3
import zlib
from pathlib import Path

import pytest

from honeybadger_host.journal.edits import digest_of
from honeybadger_host.memory import injection_ledger
from honeybadger_host.memory.injection_ledger import LEDGER_FILE, InjectionLedger, Served

DAY = 86_400.0


def ledger_of(home: Path, now: float = DAY) -> InjectionLedger:
    return InjectionLedger(home, lambda: now, kept_days=30)


def context(
    number: int, group: str = "main", session: str = "s", sender: str = "a", stable: str = "Be brief."
) -> Served:
    system = f"{stable}\n{number}: Ä ☕"
    result = {
        "system": system,
        "hash": digest_of(system.encode()).hex(),
        "stable_hash": digest_of(stable.encode()).hex(),
        "stable_characters": len(stable),
        "seq": number,
        "sections": [],
    }
    return Served(group, session, sender, 1000 * number, result)


def hash_of(served: Served) -> str:
    return str(served.result["hash"])


def found(ledger: InjectionLedger, *wanted: Served) -> list[bool]:
    return [ledger.result_of(hash_of(one)) == one.result for one in wanted]


def test_a_context_is_found_by_hash_and_moment(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    told = [context(1), context(2, sender="b"), context(3, session="other"), context(4, group="second")]
    for one in told:
        ledger.note(one)
    again = ledger_of(tmp_path)  # as another process reads them
    assert found(again, *told) == [True] * 4
    by_hash = again.served("main", hash_of(told[1])[:12])
    assert by_hash is not None
    assert (by_hash.hash, by_hash.seq, by_hash.at) == (hash_of(told[1]), 2, 2000)
    assert again.served("main", hash_of(told[3])) is None
    for seq, at, sender, wanted in ((9, 9000, None, 2), (9, 9000, "a", 1), (9, 1999, None, 1)):
        newest = again.served_until("main", "s", seq, at, sender)
        assert newest is not None
        assert newest.seq == wanted
    assert again.served_until("main", "s", 1, 9000, "b") is None


@pytest.mark.parametrize("table", ["rest", "stable"])
def test_a_damaged_context_is_not_returned(tmp_path: Path, table: str) -> None:
    ledger, one = ledger_of(tmp_path), context(1)
    ledger.note(one)
    ledger.close()
    with sqlite3.connect(tmp_path / LEDGER_FILE) as db:
        (whole,) = db.execute(f"SELECT packed FROM {table}").fetchone()
    for torn in (whole[:-5], b"", whole[:9] + b"\0" + whole[10:], zlib.compress(b'{"system":"else"}')):
        with sqlite3.connect(tmp_path / LEDGER_FILE) as db:
            db.execute(f"UPDATE {table} SET packed = ?", (torn,))
        assert ledger_of(tmp_path).result_of(hash_of(one)) is None


def test_old_contexts_are_removed(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    told = [context(1, stable="old"), context(40 * 86_400)]
    for one in told:
        ledger.note(one)
    ledger.prune()
    assert found(ledger, *told) == [True, True]
    later = ledger_of(tmp_path, 31 * DAY)
    later.prune()
    assert found(later, *told) == [False, True]
    with sqlite3.connect(tmp_path / LEDGER_FILE) as db:
        assert db.execute("SELECT count(*) FROM stable").fetchone() == (1,)


def test_none_is_kept_when_none_is_to_be(tmp_path: Path) -> None:
    ledger = InjectionLedger(tmp_path)
    ledger.note(context(1))
    assert ledger.served("main", hash_of(context(1))) is None


def test_of_too_many_contexts_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection_ledger, "MAX_BYTES", 200_000)
    ledger = ledger_of(tmp_path)
    told = [context(number, stable=f"{number} " + "".join(map(str, range(number, 2000)))) for number in range(100)]
    for one in told:
        ledger.note(one)
    known = found(ledger, *told)
    assert known == sorted(known)
    assert 10 < sum(known) < 100
    assert (tmp_path / LEDGER_FILE).stat().st_size < 300_000


def test_a_loaded_group_has_no_earlier_contexts(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    told = [context(1), context(2, group="second")]
    for one in told:
        ledger.note(one)
    ledger.take_in("main", [])
    assert ledger.served("main", hash_of(told[0])) is None
    assert ledger.served("second", hash_of(told[1])) is not None
