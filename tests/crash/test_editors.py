"""SIGKILL at random moments, settings at their defaults, editors that save MEMORY.md in every way they have."""

import contextlib
import itertools
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_host.errors import JournalError
from honeybadger_host.files.home import JOURNAL_FILE, make_home
from honeybadger_host.journal.opening import read_position
from tests.crash.chains import Figures, live, rounds, storms
from tests.crash.conftest import IS_LONG
from tests.crash.hosts import Nursery, ended, is_up
from tests.crash.story import Sent, Story, producing, read
from tests.hosting import wait_for
from tests.people import save, settle

KILLS = int(os.environ.get("HB_EDITOR_KILLS", "2000"))
SENDERS = (("alpha", "ann"), ("alpha", "bob"))
_AT_ONCE = 4
_PAUSE_SECONDS = 0.05
_LONG_PAUSE_SECONDS = 3.5  # in which notes settle, where no host is killed meanwhile
# An older text is not saved: a note that came meanwhile may have settled, and would be deleted for good.
_OLDEST_TEXT_SECONDS = 1.0


class Editor:
    """Somebody who reads MEMORY.md again and again, changes it and saves it: one person, one text at a time."""

    def __init__(self, story: Story, rng: random.Random) -> None:
        self._story = story
        self._rng = rng
        self._path = story.memory("alpha")
        self.is_over = threading.Event()
        self.saves = 0

    def run(self) -> None:
        while not self.is_over.wait(self._rng.choice((self._rng.uniform(0, 0.6), _LONG_PAUSE_SECONDS))):
            for _ in range(self._rng.randint(1, 6)):
                self.edit()

    def edit(self) -> None:
        read_at = time.monotonic()
        text = self._read()
        taken_out = self._one_that_settled(text) if self._rng.random() < 0.5 else None
        if taken_out is not None:
            text = text.replace(note_of(taken_out, text), b"", 1)
        if self._rng.random() < 0.3:
            self.is_over.wait(self._rng.uniform(0, 0.6))  # thinking
        line = b"An editor wrote line %d." % len(self._story.kept_lines["alpha"])
        text = line + b"\n" + text if self._rng.random() < 0.5 else text + line + b"\n"
        if time.monotonic() - read_at > _OLDEST_TEXT_SECONDS:
            return
        self._story.kept_lines["alpha"].append(line)
        if taken_out is not None:
            self._story.taken_out.add(taken_out.request_id)
        self._save(text)
        saved_at = time.monotonic()
        while self._rng.random() < 0.4:  # once more, from the same buffer
            self.is_over.wait(self._rng.uniform(0, 0.5))
            if time.monotonic() - saved_at > _OLDEST_TEXT_SECONDS:
                break
            self._save(text)

    def _read(self) -> bytes:
        """Return the text, not one that is being written."""
        while (text := read(self._path)) != read(self._path):
            pass
        return text

    def _save(self, text: bytes) -> None:
        self.saves += 1
        if self._rng.random() < 0.4:
            save(self._path, text)
            return
        cuts = sorted(self._rng.randint(0, len(text)) for _ in range(self._rng.randint(0, 3)))
        with self._path.open("wb", buffering=0) as file:
            for start, end in itertools.pairwise([0, *cuts, len(text)]):
                self.is_over.wait(self._rng.choice((0, 0.003, 0.3)))
                file.write(text[start:end])

    def _one_that_settled(self, text: bytes) -> Sent | None:
        """Return a note of the text that the journal says has settled.

        Never the newest: a save that lacks it and has another line may have been made before it came.
        """
        try:
            first = read_position(self._story.home / JOURNAL_FILE).marks.first_unsettled("groups/alpha/MEMORY.md")
        except JournalError:
            return None  # the host makes it just now
        settled = [
            sent
            for sent in self._story.sent
            if sent.kind == "note"
            and (reply := self._story.acknowledged.get(sent.request_id)) is not None
            and orjson.loads(reply)["seq"] < first
            and sent.request_id not in self._story.taken_out
            and 0 <= text.find(note_of(sent, text)) < text.rfind(b"\n## ")
        ]
        return self._rng.choice(settled) if settled else None


def note_of(sent: Sent, text: bytes) -> bytes:
    """Return the bytes of a note in a text; some that are not there when it lacks the note."""
    end = text.find(b"\n- %s\n" % sent.content.encode())
    start = text.rfind(b"\n## ", 0, end + 1)
    return text[start : end + len(sent.content) + 4] if 0 <= start < end else b"\0"


@contextlib.contextmanager
def at_work(editor: Editor) -> Iterator[None]:
    editing = threading.Thread(target=editor.run, daemon=True)
    editing.start()
    try:
        yield
    finally:
        editor.is_over.set()
        editing.join()


def storm(nursery: Nursery, folder: Path, rng: random.Random, kills: int, faults: Sequence[str] = ()) -> Figures:
    """Kill hosts of one home while people write and edit; return what the files say in the end."""
    home = folder / "home"
    folder.mkdir(parents=True)
    make_home(home)
    story = Story(home)
    story.memory("alpha").parent.mkdir()
    editor = Editor(story, random.Random(rng.getrandbits(64)))

    of_host: dict[str, Any] = {"base": {"log.level": "warning"}, "faults": faults}
    with producing(story, SENDERS, _PAUSE_SECONDS, alike=1), at_work(editor):
        for _ in range(kills):
            live(nursery, home, rng, story.look, at_calls=IS_LONG, **of_host)
    with ended(nursery.start(home, **of_host)) as host:
        wait_for(lambda: is_up(host, home) and not story.is_waiting(), 60, what="every box empty")
        settle(home)
        story.look()
    figures = Figures(Counter(kills=kills, notes=len(story.acknowledged), saves=editor.saves))
    figures.counts["deletions"] = len(story.taken_out)
    figures.verdict = story.check(is_ordered=False)
    if not figures.verdict.is_good:
        figures.bad.append(f"{figures.verdict} ({folder})")
    return figures


def test_random_kills_under_editors_keep_notes_once(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    total = storms(partial(storm, nursery, kills=3), tmp_path, rng, 2)
    assert total.is_good, str(total)


def test_an_impatient_host_loses_notes_under_editors(nursery: Nursery, tmp_path: Path, rng: random.Random) -> None:
    """The control: the same check sees what settling is for."""
    for number in range(10):
        hopeless = partial(storm, nursery, kills=2, faults=("--without-patience",))
        verdict = storms(hopeless, tmp_path / str(number), rng, 3).verdict
        if verdict.lost or verdict.doubled:
            return
    raise AssertionError("nothing was lost or doubled")


@pytest.mark.skipif(not IS_LONG, reason="the long form: HB_CRASH_LONG=1")
@pytest.mark.timeout(4 * 3600)
def test_two_thousand_kills_under_editors(
    nursery: Nursery, tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    total = Figures()
    for number in rounds(total, "kills", KILLS, capsys):
        total.add(storms(partial(storm, nursery, kills=25), tmp_path / str(number), rng, _AT_ONCE))
    assert total.counts["deletions"]
