"""Edits are undone, a group is rewound, a note is edited, while a note comes, and the host dies at a call of that."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from honeybadger_host.curation.notes import notes_of
from honeybadger_host.files.home import JOURNAL_FILE, make_home
from honeybadger_host.journal.edits import hunks_of
from honeybadger_host.journal.reader import LogFilter, read_log
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import RECORDED_AT_ONCE, Nursery, Work, kill_again, struck
from tests.hosting import RawSender, request
from tests.people import newest_edit, settle, wait_until_looked_at

_ONE_BY_ONE: Final = {"spool.pipeline.BATCH_REQUESTS": 1}
_UNDO: Final = {"u1": "operator", "n1": "ann", "u2": "operator"}
_REWIND: Final = {"m1": "operator", "n1": "ann"}
_EDIT: Final = {"e1": "operator", "n1": "ann"}


@pytest.fixture(scope="module")
def edited(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int], bytes, bytes]:
    """A home with two edits that are recorded, their numbers, and the files before them."""
    home = tmp_path_factory.mktemp("edited") / "home"
    make_home(home)
    memory, persona = (home / "groups" / "main" / name for name in ("MEMORY.md", "CLAUDE.md"))
    ann = RawSender(home, sender="ann").make()
    with nursery.serving(home, RECORDED_AT_ONCE):
        wait_until_looked_at(home)
        for number in range(2):
            ann.do(f"a{number}", content=f"note {number}")
        settle(home)
        before = memory.read_bytes(), persona.read_bytes()
        memory.write_bytes(b"Above.\n" + before[0].replace(b"note 1", b"nothing"))
        persona.write_bytes(b"Be kind.\n")
        seqs = {name: newest_edit(home, name).seq for name in ("MEMORY.md", "CLAUDE.md")}
    return home, seqs, *before


@pytest.mark.parametrize("sent", [_UNDO, _REWIND], ids=["undo", "rewind"])
def test_killed_at_two_calls_edits_are_undone_once(
    nursery: Nursery,
    edited: tuple[Path, dict[str, int], bytes, bytes],
    tmp_path: Path,
    rng: random.Random,
    sent: dict[str, str],
) -> None:
    settled, seqs, memory, persona = edited

    def begin(home: Path) -> None:
        shutil.copytree(settled, home)
        operator, ann = (RawSender(home, sender=name).make() for name in ("operator", "ann"))
        if sent is _REWIND:
            operator.drop("m1", request("m1", "rewind", payload={"to": "2"}))
        else:
            operator.drop("u1", request("u1", "undo", payload={"seq": seqs["MEMORY.md"]}))
            operator.drop("u2", request("u2", "undo", payload={"seq": seqs["CLAUDE.md"]}))
        ann.drop("n1", request("n1", content="note 2"))

    def check(home: Path, where: str) -> None:
        where = f"{where}: {struck(home)}"
        rows = read_log(home / JOURNAL_FILE, LogFilter("main"), 99)
        by_operator = sorted((row.kind, row.file) for row in rows if row.sender == "operator")
        assert by_operator == [("edit_undone", "groups/main/MEMORY.md"), ("text", "groups/main/CLAUDE.md")], where
        (note,) = (row.data for row in rows if row.request == "n1")
        folder = home / "groups" / "main"
        assert (folder / "MEMORY.md").read_bytes() == memory + note, where
        assert (folder / "CLAUDE.md").read_bytes() == persona, where
        assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == [], where

    work = Work(_ONE_BY_ONE, begin, lambda home, run: None, lambda home: _is_answered(home, sent), check)
    assert kill_again(nursery, tmp_path, rng, work, stride=1 if IS_LONG else 59, later=60) > 1


def test_killed_at_two_calls_a_note_is_edited_once(
    nursery: Nursery, edited: tuple[Path, dict[str, int], bytes, bytes], tmp_path: Path, rng: random.Random
) -> None:
    settled = edited[0]
    held = (settled / "groups" / "main" / "MEMORY.md").read_bytes()
    id_, place = next(iter(notes_of("main", held).items()))

    def begin(home: Path) -> None:
        shutil.copytree(settled, home)
        operator, ann = (RawSender(home, sender=name).make() for name in ("operator", "ann"))
        operator.drop("e1", request("e1", "edit_note", payload={"id": id_, "content": "another text"}))
        ann.drop("n1", request("n1", content="note 2"))

    def check(home: Path, where: str) -> None:
        where = f"{where}: {struck(home)}"
        rows = read_log(home / JOURNAL_FILE, LogFilter("main"), 99)
        (row,) = (row for row in rows if row.sender == "operator")
        assert row.kind == "note_edited", where
        (hunk,) = hunks_of(row)
        new = b"".join(hunk.added)
        assert re.fullmatch(rb"## Notes \(operator, [\d :-]{16}\)\n- another text\n", new), where
        (note,) = (row.data for row in rows if row.request == "n1")
        folder = home / "groups" / "main"
        begin_, end = place.span
        assert (folder / "MEMORY.md").read_bytes() == held[:begin_] + b"\n" + new + held[end:] + note, where
        assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == [], where

    work = Work(_ONE_BY_ONE, begin, lambda home, run: None, lambda home: _is_answered(home, _EDIT), check)
    assert kill_again(nursery, tmp_path, rng, work, stride=1 if IS_LONG else 41, later=60) > 1


def _is_answered(home: Path, sent: dict[str, str]) -> bool:
    boxes = home / "data" / "ipc" / "main"
    return all((boxes / who / "replies" / f"{stem}.json").exists() for stem, who in sent.items())
