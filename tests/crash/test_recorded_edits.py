"""What people edited while no host ran is recorded once, at whatever call the host dies that records it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Final

import pytest

from honeybadger_host.files.home import JOURNAL_FILE, make_home
from honeybadger_host.journal.edits import digest_of, edit_of
from honeybadger_host.journal.reader import LogFilter
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import RECORDED_AT_ONCE, Kill, Nursery, When, deaths, ended
from tests.hosting import wait_for
from tests.people import edits_in, wait_until_looked_at

_BEFORE: Final = {"CLAUDE.md": b"Be brief.\n", "summary.md": None, "MEMORY.md": b"# Ours\n"}
_AFTER: Final = {"CLAUDE.md": b"Be kind.\nBe brief.\n", "summary.md": b"Tea.\n", "MEMORY.md": None}


def save(home: Path, texts: dict[str, bytes | None]) -> None:
    for name, text in texts.items():
        path = home / "groups" / "main" / name
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_bytes(text)


def is_recorded(home: Path) -> bool:
    return len(edits_in(home / JOURNAL_FILE, LogFilter("main"))) >= len(_AFTER)


@pytest.fixture(scope="module")
def looked_at(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was looked at, and edited since."""
    home = tmp_path_factory.mktemp("looked") / "home"
    make_home(home)
    save(home, _BEFORE)
    with nursery.serving(home, RECORDED_AT_ONCE):
        wait_until_looked_at(home)
    save(home, _AFTER)
    return home


@pytest.mark.parametrize("when", ["before", "after", "torn"])
def test_killed_at_the_journal_an_edit_is_recorded_once(
    nursery: Nursery, looked_at: Path, tmp_path: Path, rng: random.Random, when: When
) -> None:
    def live(home: Path, kill: Kill) -> bool:
        with ended(nursery.start(home, RECORDED_AT_ONCE, kill=kill)) as host:
            wait_for(lambda: host.poll() is not None or is_recorded(home), what="an end or a record")
            return host.poll() is not None

    def begin(home: Path) -> None:
        shutil.copytree(looked_at, home)

    stride = 1 if IS_LONG else 7
    for home, where in deaths(tmp_path, rng, stride, begin, live, when=when, path="journal.db"):
        with nursery.serving(home, RECORDED_AT_ONCE):
            wait_for(lambda: is_recorded(home), what="a record")  # noqa: B023
        recorded = edits_in(home / JOURNAL_FILE, LogFilter("main"))
        found = {edit.file.removeprefix("groups/main/"): edit for edit in recorded}
        assert len(recorded) == len(_AFTER), where
        for name, edit in found.items():
            before, after = (None if text is None else digest_of(text) for text in (_BEFORE[name], _AFTER[name]))
            assert (edit_of(edit)[1:3], edit.sender) == ((before, after), "human"), where
