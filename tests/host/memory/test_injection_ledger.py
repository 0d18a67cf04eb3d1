"""Memory that was shown to a model is known as long as it is in view, whatever becomes of the index."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_host.memory import injection_ledger
from honeybadger_host.memory.injection_ledger import LEDGER_FILE, InjectionLedger, Served
from tests.host.indexes import ledger_of


@pytest.fixture
def ledger(tmp_path: Path) -> InjectionLedger:
    return ledger_of(tmp_path)


def injection(session: str, *entries: str, turn: int = 1) -> Served:
    return Served("main", session, "a", 1, {}, [(entry, None) for entry in entries], turn)


def seen(ledger: InjectionLedger, session: str, oldest: int = 1, current: int = 100) -> dict[str, int]:
    return {id_: turn for id_, (turn, _) in ledger.in_view("main", session, oldest=oldest, current=current).items()}


def test_an_entry_is_in_view_like_its_turn(ledger: InjectionLedger) -> None:
    for turn, entry in {3: "scrolled", 4: "oldest", 7: "middle", 9: "asked_again"}.items():
        ledger.note(injection("s", entry, turn=turn))
    assert seen(ledger, "s", oldest=4, current=9) == {"oldest": 4, "middle": 7}


def test_the_ledger_survives_a_restart(ledger: InjectionLedger, tmp_path: Path) -> None:
    ledger.note(injection("s", "a", "b", turn=3))
    ledger.note(injection("s", "b", turn=5))
    ledger.note(injection("other", "c"))
    ledger.close()
    again = ledger_of(tmp_path)
    assert seen(again, "s") == {"a": 3, "b": 5}
    again.note(injection("s", "d", turn=9))
    assert seen(again, "s", oldest=4) == {"b": 5, "d": 9}
    assert seen(again, "main") == {}


def test_the_oldest_are_forgotten_when_there_are_too_many(
    ledger: InjectionLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injection_ledger, "MAX_BYTES", 100_000)
    for number in range(2000):
        ledger.note(injection(f"s{number}", "a"))
    are_known = [bool(seen(ledger, f"s{number}")) for number in range(2000)]
    assert are_known == sorted(are_known)
    assert 100 < sum(are_known) < 2000


@pytest.mark.parametrize("damage", [b"no database at all" * 100, b""], ids=["damaged", "emptied"])
def test_a_damaged_ledger_is_begun_again(ledger: InjectionLedger, tmp_path: Path, damage: bytes) -> None:
    ledger.note(injection("s", "a"))
    ledger.close()
    (tmp_path / LEDGER_FILE).write_bytes(damage)
    assert seen(ledger, "s") == {}
    ledger.note(injection("s", "b"))
    assert seen(ledger, "s") == {"b": 1}


def test_no_text_of_an_earlier_versions_ledger_is_kept(ledger: InjectionLedger, tmp_path: Path) -> None:
    file = tmp_path / LEDGER_FILE
    file.parent.mkdir()
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE shown (id TEXT)")
        db.execute("INSERT INTO shown VALUES ('the cellar code is 4711')")
        db.commit()
    ledger.note(injection("s", "a"))
    assert seen(ledger, "s") == {"a": 1}
    assert not any(b"cellar" in path.read_bytes() for path in file.parent.iterdir())


def test_an_unwritable_ledger_is_logged_once(ledger: InjectionLedger, tmp_path: Path) -> None:
    (tmp_path / LEDGER_FILE).mkdir(parents=True)
    with capture_logs() as logs:
        for _ in range(3):
            ledger.note(injection("s", "a"))
            assert seen(ledger, "s") == {}
    assert [line["event"] for line in logs] == ["ledger.failed"]
    (tmp_path / LEDGER_FILE).rmdir()
    ledger.note(injection("s", "a"))
    assert seen(ledger, "s") == {"a": 1}
