"""The journal in stretches: a page never reads all of it, and says how far it looked."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.reader import CHANGE_KINDS, LogFilter
from honeybadger_host.journal.schema import connect
from honeybadger_host.ops.gist import WORDS
from honeybadger_host.web.looking_back import look_back, newest_seq, note_history


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with a note of `rare`, then 45,000 turns of `busy`."""
    path = tmp_path_factory.mktemp("journal") / "journal.db"
    Journal.open(path).close()
    turn = b'{"turn": 1, "sender": "ann", "content": "hello"}'
    with closing(connect(path)) as connection:
        rows = [(1, 1000, "rare", "cook", "r1", "note", "groups/rare/MEMORY.md", 0, b"\n## Notes (cook, x)\n- tea\n")]
        rows += [
            (seq, 1000 + seq, "busy", "ann", f"t{seq}", "turn", "data/sessions/busy/main.jsonl", 0, turn)
            for seq in range(2, 45_002)
        ]
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", rows)
        connection.execute("COMMIT")
    return path


def test_a_look_ends_and_resumes_where_it_ended(journal: Path) -> None:
    assert newest_seq(journal) == 45_001
    looks = [look_back(journal, LogFilter("rare"))]
    while not looks[-1].lines:
        looks.append(look_back(journal, LogFilter("rare", before=looks[-1].down_to)))
    assert [look.down_to for look in looks] == [25_002, 5_002, 0]
    (line,) = looks[-1].lines
    assert (line.seq, line.sender) == (1, "cook")
    assert note_history(journal, "rare", "## Notes (cook, x)\n- tea") == []  # it is not among the last changes


def test_every_kind_of_change_has_words() -> None:
    assert WORDS.keys() == CHANGE_KINDS
