"""A backup that is taken while agents write: what is restored from it has everything once."""

import itertools
import os
from pathlib import Path

import pytest

from honeybadger_host.journal.opening import read_position
from honeybadger_host.ops.archive import open_backup
from tests.commands import cli_text
from tests.conftest import HostFactory
from tests.crash.story import BOXES, Story, producing
from tests.hosting import RawSender, wait_for


@pytest.mark.timeout(300)
def test_a_backup_under_load_has_all_acknowledged_once(make_host: HostFactory, home: Path, tmp_path: Path) -> None:
    # so much to copy behind MEMORY.md and the log that the journal calls many changes projected meanwhile
    (home / "groups/zz").mkdir()
    (home / "groups/zz/pictures.bin").write_bytes(os.urandom(4 << 20))
    settings: dict[str, object] = {"ops.maintenance.CHECKPOINT_SECONDS": 0.1, "log.level": "warning"}
    host = make_host(settings).start()
    story = Story(home)

    def acknowledged() -> dict[str, bytes]:
        story.look()
        return dict(story.acknowledged)

    with producing(story, BOXES, 0.01):
        wait_for(lambda: len(acknowledged()) > 40, 100, what="everybody writes")
        for number in itertools.count():
            archive = tmp_path / f"backup-{number}.tar.gz"
            before = acknowledged()
            seq_before = read_position(home / "data/journal.db")
            cli_text("backup", archive, home=home)
            seq_after = read_position(home / "data/journal.db")
            (tmp_path / f"unpacked-{number}").mkdir()
            open_backup(archive, tmp_path / f"unpacked-{number}")
            if (
                read_position(tmp_path / f"unpacked-{number}/data/journal.db").committed_seq > seq_before.committed_seq
                and seq_after.marks.projected_seq > seq_before.marks.projected_seq
            ):
                break  # else nothing was written meanwhile, and this shows nothing
    host.stop()

    copy = tmp_path / "copy"
    cli_text("restore", archive, home=copy)
    there = Story(copy)
    there.sent, there.acknowledged = story.sent, before
    there.retry()  # as senders do that never saw their replies; some were served before the backup
    again = make_host(settings, home=copy).start()
    wait_for(lambda: not there.is_waiting(), 100, what="everything is served")
    again.stop()
    there.look()
    verdict = there.check(may_replies_vanish=True)  # replies are not packed
    assert verdict.is_good, str(verdict)


def test_a_backup_has_the_requests_nobody_has_served_yet(
    make_host: HostFactory, home: Path, stranger: RawSender, tmp_path: Path
) -> None:
    stranger.note("waits-1", "dropped before the backup")
    (stranger.requests.parent / "turns").mkdir(exist_ok=True)
    (stranger.requests.parent / "turns/t1.json").write_bytes(b"{}")
    (stranger.replies / "old.json").write_bytes(b"{}")
    (stranger.root / "tmp/half.tmp").write_bytes(b"{")
    cli_text("backup", tmp_path / "b.tar.gz", home=home)
    copy = RawSender(tmp_path / "copy")
    cli_text("restore", tmp_path / "b.tar.gz", home=copy.home)
    assert (copy.root / "turns/t1.json").read_bytes() == b"{}"
    assert os.listdir(copy.replies) == []
    assert os.listdir(copy.root / "tmp") == []
    make_host(home=copy.home).start()
    assert copy.reply("waits-1")["ok"] is True
    assert copy.memory_text().count("- dropped before the backup\n") == 1
