"""The senders of closed mode: the file, the folders, and who owns them."""

import os
import stat
from pathlib import Path

import pytest

from honeybadger_agent.mailbox import BadName
from honeybadger_host.errors import SettingsError
from honeybadger_host.spool.senders import SENDERS_FILE, add_sender, load_senders

is_root = os.geteuid() == 0
needs_root = pytest.mark.skipif(not is_root, reason="only root can give folders away")
AGENT = 4711


def _write(home: Path, text: str) -> None:
    (home / SENDERS_FILE).write_text(text)


def test_adding_again_changes_the_uid_and_keeps_the_others(home: Path) -> None:
    add_sender(home, "main", "alice", None)
    add_sender(home, "garden", "bob", os.geteuid())
    add_sender(home, "main", "alice", os.geteuid())
    assert load_senders(home) == {("main", "alice"): os.geteuid(), ("garden", "bob"): os.geteuid()}


@pytest.mark.parametrize(("group", "sender"), [("..", "a"), ("a/b", "c"), ("main", ""), ("global", "a"), ("main", "é")])
def test_a_forbidden_name_is_refused_and_makes_nothing(home: Path, group: str, sender: str) -> None:
    before = sorted(home.rglob("*"))
    with pytest.raises(BadName):
        add_sender(home, group, sender, None)
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"main": {}}', '{"main/a": {"uid": "7"}}', '{"main/a/b": {}}', '{"../a": {}}', '{"a/b": true}'],
)
def test_a_damaged_file_is_an_error_that_names_it(home: Path, text: str) -> None:
    _write(home, text)
    with pytest.raises(SettingsError, match=r"senders\.json"):
        load_senders(home)


@needs_root
def test_folders_are_the_senders_and_parents_the_hosts(home: Path) -> None:
    root = add_sender(home, "main", "alice", AGENT)
    for folder in root.iterdir():
        assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (AGENT, 0o700)
    for folder in (root, root.parent, root.parent.parent, home / "data", home):
        assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (0, 0o711)
    home.chmod(0o750)
    add_sender(home, "main", "alice", AGENT)
    assert stat.S_IMODE(home.stat().st_mode) == 0o751


@needs_root
def test_open_mode_folders_are_taken_over(home: Path) -> None:
    root = home / "data" / "ipc" / "main" / "alice"
    (root / "requests").mkdir(parents=True, mode=0o777)
    for folder in (root / "requests", root):
        os.chown(folder, AGENT, -1)
        folder.chmod(0o777)
    add_sender(home, "main", "alice", AGENT)
    assert (root.stat().st_uid, stat.S_IMODE(root.stat().st_mode)) == (0, 0o711)
    assert stat.S_IMODE((root / "requests").stat().st_mode) == 0o700


@pytest.mark.parametrize("what", ["requests", "replies", "tmp", "."])
def test_a_senders_link_is_refused(home: Path, tmp_path: Path, what: str) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o755)
    root = home / "data" / "ipc" / "main" / "mallory"
    root.mkdir(parents=True)
    if what == ".":
        root.rmdir()
        root.symlink_to(precious)
    else:
        (root / what).symlink_to(precious)
    before = precious.stat()
    with pytest.raises(OSError, match=r"link.*mallory"):
        add_sender(home, "main", "mallory", AGENT if is_root else os.geteuid())
    after = precious.stat()
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    assert load_senders(home) == {}
