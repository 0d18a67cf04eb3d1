"""Backups: what is in one, that a damaged or hostile one changes nothing, that a full disk leaves no part of one."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from honeybadger_host.errors import Damaged, HomeError, HostError, JournalError, NotFound
from honeybadger_host.files.home import HomeLock, read_holder
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.opening import read_position
from honeybadger_host.journal.schema import Row
from honeybadger_host.ops.archive import open_backup, restore
from honeybadger_host.ops.backup import back_up
from tests.commands import cli_error
from tests.hosting import little_space

NOW = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def full_home(home: Path) -> Path:
    """A home that was served, with something of everything and a journal at 3."""
    journal = Journal.open(home / "data/journal.db")
    journal.commit([Row(seq, seq, "main", "bee", f"r{seq}", "note", "f", 0, b"x") for seq in (1, 2, 3)], [])
    journal.mark_projected(2)
    journal.close()
    lock = HomeLock(home)
    lock.sign(journal.identity)
    lock.close()
    files = {
        "AGENT.md": "Global.\n",
        "config/senders.json": "{}",
        "config/directives/tone.md": "Be brief.\n",
        "groups/main/MEMORY.md": "\n## Notes (bee, 2026-11-21 06:00)\n- tea ☕\n",
        "groups/main/memory/facts/1.json": "{}",
        "groups/main/empty.md": "",
        "data/sessions/main/main.jsonl": "{}\n",
        "data/dead/main/bee/x.reason.json": "{}",
        "data/context/main/main.json": "{}",
        "data/ipc/main/bee/requests/r4.json": "{}",
        "data/ipc/main/bee/turns/t1.json": "{}",
    }
    for name, text in (files | dict.fromkeys(LEFT_OUT, "left out")).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "groups/main/MEMORY.md").chmod(0o640)
    os.utime(home / "groups/main/MEMORY.md", ns=(10**18, 10**18 + 123_456_789))
    return home


LEFT_OUT = (
    *("README.md", ".git/HEAD", "data/index.db", "data/journal.db.before-11", "data/status.json"),
    *("data/ipc/main/bee/replies/r1.json", "data/ipc/main/bee/tmp/r5.tmp", "data/ipc/main/bee/requests/.r6.json"),
    *("data/ipc/main/bee/requests/README", "groups/main/.MEMORY.md.77.tmp"),
)


def _empty(tmp_path: Path) -> Path:
    """Return a new folder."""
    return Path(tempfile.mkdtemp(dir=tmp_path))


def tree(folder: Path) -> dict[str, tuple[int, int, bytes | None]]:
    """Return name -> (mode, mtime in tenths of seconds, bytes), None for a folder, of everything below a folder."""
    found: dict[str, tuple[int, int, bytes | None]] = {}
    for path in sorted(folder.rglob("*")):
        if path.name.startswith("journal.db-"):
            continue  # made by whoever reads the journal
        status = path.lstat()
        is_file = stat.S_ISREG(status.st_mode)
        found[str(path.relative_to(folder))] = (
            stat.S_IMODE(status.st_mode),
            status.st_mtime_ns // 10**8 if is_file else 0,
            path.read_bytes() if is_file else None,
        )
    return found


def test_a_restore_equals_the_packed_home(full_home: Path, tmp_path: Path) -> None:
    archive, copy = tmp_path / "b.tar.gz", tmp_path / "deep/copy"
    before = tree(full_home)
    packed = back_up(full_home, archive, now=NOW)
    assert (packed.seq, packed.left_out) == (3, [])
    assert tree(full_home) == before
    restored = restore(archive, copy)
    assert restored[1] == packed.files
    expected = {
        name: value
        for name, value in before.items()
        if name not in (*LEFT_OUT, ".git", "data/journal.db", "data/host.lock")
    }
    found = tree(copy)
    found.pop("data/journal.db")
    found.pop("data/host.lock")
    assert found == expected
    assert read_position(copy / "data/journal.db") == read_position(full_home / "data/journal.db")
    assert read_holder(copy).journal == read_position(full_home / "data/journal.db").identity
    assert read_holder(copy).pid is None


def test_an_archive_is_its_owners_alone(full_home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    old = os.umask(0)
    try:
        back_up(full_home, folder / "b.tar.gz", now=NOW)
    finally:
        os.umask(old)
    assert os.listdir(folder) == ["b.tar.gz"]
    assert stat.S_IMODE((folder / "b.tar.gz").stat().st_mode) == 0o600
    assert open_backup(folder / "b.tar.gz", _empty(tmp_path))[0].made_at == "2026-11-21T06:00:00Z"


def test_irregular_files_are_left_out_and_named(full_home: Path, tmp_path: Path) -> None:
    box = full_home / "data/ipc/main/bee/requests"
    (box / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(box / "fifo.json")
    (box / "folder.json/inner.json").mkdir(parents=True)
    os.truncate(os.open(box / "huge.json", os.O_CREAT | os.O_WRONLY), 1 << 40)
    (full_home / "groups/main/link.md").symlink_to("/etc/passwd")
    (full_home / "data/ipc/main/root").symlink_to("/")
    os.mkdir(os.fsencode(full_home / "groups") + b"/caf\xe9")
    assert sorted(back_up(full_home, tmp_path / "b.tar.gz", now=NOW).left_out) == [
        "data/ipc/main/bee/requests/fifo.json: a FIFO",
        "data/ipc/main/bee/requests/huge.json: too large for a request",
        "data/ipc/main/bee/requests/link.json: a link",
        "data/ipc/main/root: a link",
        "groups/main/link.md: a link",
    ]
    restore(tmp_path / "b.tar.gz", tmp_path / "copy")
    assert os.listdir(tmp_path / "copy/data/ipc/main") == ["bee"]
    assert sorted(os.listdir(tmp_path / "copy/data/ipc/main/bee/requests")) == ["folder.json", "r4.json"]
    assert os.listdir(tmp_path / "copy/data/ipc/main/bee/requests/folder.json") == []
    assert b"caf\xe9" in os.listdir(os.fsencode(tmp_path / "copy/groups"))


def test_a_part_linked_to_another_disk_is_packed(full_home: Path, tmp_path: Path) -> None:
    (full_home / "groups/main/.MEMORY.md.77.tmp").unlink()
    (full_home / "groups").rename(tmp_path / "other-disk")
    (full_home / "groups").symlink_to(tmp_path / "other-disk")
    back_up(full_home, tmp_path / "b.tar.gz", now=NOW)
    restore(tmp_path / "b.tar.gz", tmp_path / "copy")
    assert tree(tmp_path / "copy/groups") == tree(tmp_path / "other-disk")


@needs_root
def test_a_restore_gives_files_back_to_their_owners(full_home: Path, tmp_path: Path) -> None:
    for path in (full_home, *full_home.rglob("*")):
        os.chown(path, 4001, 4001)
    box = full_home / "data/ipc/main/bee/requests"
    os.chown(box, 4002, 4002)
    os.chown(box / "r4.json", 4002, 4002)
    back_up(full_home, tmp_path / "b.tar.gz", now=NOW)
    restore(tmp_path / "b.tar.gz", tmp_path / "same")
    (tmp_path / "moved").mkdir()
    os.chown(tmp_path / "moved", 5001, 5005)
    restore(tmp_path / "b.tar.gz", tmp_path / "moved")
    for copy, host in ((tmp_path / "same", (4001, 4001)), (tmp_path / "moved", (5001, 5005))):
        for path in (copy, *copy.rglob("*")):
            status = path.stat()
            is_box = str(path).endswith(("bee/requests", "r4.json"))
            assert (status.st_uid, status.st_gid) == ((4002, 4002) if is_box else host), path


def test_an_existing_file_is_not_replaced_by_a_backup(full_home: Path, tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_text("yesterday's")
    with pytest.raises(HostError, match="exists and is not replaced"):
        back_up(full_home, tmp_path / "b.tar.gz", now=NOW)
    assert (tmp_path / "b.tar.gz").read_text() == "yesterday's"


def test_a_backup_inside_its_home_is_refused(full_home: Path) -> None:
    (full_home.parent / "link").symlink_to(full_home / "groups")
    for target in (full_home / "data/b.tar.gz", full_home.parent / "link/b.tar.gz"):
        with pytest.raises(HostError, match="would lie in what it is a backup of"):
            back_up(full_home, target, now=NOW)
    back_up(full_home, full_home / "b.tar.gz", now=NOW)  # the home folder may be a project's: that one is no part


def test_a_folder_that_is_no_home_is_not_packed(tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="is not a Honeybadger home"):
        back_up(tmp_path, tmp_path / "b.tar.gz", now=NOW)
    assert os.listdir(tmp_path) == []


def test_a_damaged_or_missing_journal_gets_no_backup(full_home: Path, tmp_path: Path) -> None:
    journal = full_home / "data/journal.db"
    identity = read_position(journal).identity
    data = bytearray(journal.read_bytes())
    data[4096:8192] = os.urandom(4096)
    journal.write_bytes(data)
    for extra in ("-wal", "-shm"):
        Path(f"{journal}{extra}").unlink(missing_ok=True)
    with pytest.raises(JournalError, match=r"damaged|malformed|cannot (read|copy)"):
        back_up(full_home, tmp_path / "b.tar.gz", now=NOW)
    journal.unlink()
    (full_home / "data/host.lock").write_bytes(orjson.dumps({"journal": identity}))
    with pytest.raises(JournalError, match="is missing, and this home had one"):
        back_up(full_home, tmp_path / "b.tar.gz", now=NOW)
    for command in (("log", "main"), ("export", "main", "--to", tmp_path / "main.tar.gz")):
        assert "is missing, and this home had one" in cli_error(*command, home=full_home, code=6)
    assert os.listdir(tmp_path) == ["home"]


def test_a_home_with_files_is_not_restored_over(full_home: Path, tmp_path: Path) -> None:
    back_up(full_home, tmp_path / "b.tar.gz", now=NOW)
    (full_home / "groups/main/MEMORY.md").write_text("newer\n")
    before = tree(full_home)
    with pytest.raises(HomeError, match=r"has data, groups, AGENT.md, config: restore into another home"):
        restore(tmp_path / "b.tar.gz", full_home)
    assert tree(full_home) == before


def refused(archive: Path, home: Path, *, says: str | None = None) -> None:
    """Check that an archive is refused, and that a new and an empty home stay as they are."""
    empty = _empty(home.parent)
    for target in (empty, home.parent / "new"):
        with pytest.raises(Damaged, match=says):
            restore(archive, target)
    empty.rmdir()
    assert not (home.parent / "new").exists()


def test_a_flipped_bit_anywhere_is_noticed_or_changes_nothing(full_home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "b.tar.gz"
    back_up(full_home, archive, now=NOW)
    good = archive.read_bytes()
    manifest = open_backup(archive, _empty(tmp_path))[0]
    noticed = 0
    offsets = range(0, len(good), max(1, len(good) // 200))
    for offset in offsets:
        archive.write_bytes(good[:offset] + bytes([good[offset] ^ 1 << offset % 8]) + good[offset + 1 :])
        try:
            assert open_backup(archive, _empty(tmp_path))[0] == manifest
            assert gzip.decompress(archive.read_bytes()) == gzip.decompress(good)  # the same bytes, packed otherwise
        except Damaged:
            noticed += 1
    assert noticed > len(offsets) * 0.8
    archive.write_bytes(good[:2000] + bytes([good[2000] ^ 255]) + good[2001:])
    refused(archive, full_home)


def test_a_cut_archive_is_refused(full_home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "b.tar.gz"
    back_up(full_home, archive, now=NOW)
    good = archive.read_bytes()
    for length in (0, 1, 9, 10, 100, len(good) // 2, len(good) - 9, len(good) - 8, len(good) - 1):
        archive.write_bytes(good[:length])
        with pytest.raises(Damaged):
            open_backup(archive, _empty(tmp_path))
    refused(archive, full_home)


def test_what_is_no_archive_is_refused(full_home: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        restore(tmp_path / "nowhere", tmp_path / "new")
    for data in (b"not gzip", gzip.compress(b"not tar"), gzip.compress(bytes(10240))):
        (tmp_path / "b").write_bytes(data)
        refused(tmp_path / "b", full_home)


class Forger:
    """Makes archives with good checksums and anything in them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members: list[tuple[tarfile.TarInfo, bytes]] = []
        self.manifest: dict[str, Any] = {
            "format": 1,
            "version": "0.1.0",
            "made_at": "2026-11-21T06:00:00Z",
            "home": {"name": ".", "mode": 0o700, "uid": 0, "gid": 0},
            "files": [],  # as earlier versions wrote it
        }

    def folder(self, name: str) -> Forger:
        return self.member(name, kind=tarfile.DIRTYPE)

    def file(self, name: str, data: bytes = b"x") -> Forger:
        return self.member(name, data)

    def member(self, name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "") -> Forger:
        info = tarfile.TarInfo(name)
        info.type, info.size, info.linkname, info.mode = kind, len(data), link, 0o700
        self.members.append((info, data))
        return self

    def write(self) -> Path:
        with tarfile.open(self.path, "w:gz") as tar:
            for info, data in self.members:
                tar.addfile(info, io.BytesIO(data))
            data = orjson.dumps(self.manifest)
            info = tarfile.TarInfo("manifest.json")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        return self.path


@pytest.fixture
def forger(tmp_path: Path) -> Forger:
    return Forger(tmp_path / "forged.tar.gz").folder("groups").folder("groups/main")


def test_a_forged_archive_that_is_right_is_restored(forger: Forger, tmp_path: Path) -> None:
    """Else the refusals below would show nothing."""
    restore(forger.file("groups/main/MEMORY.md").write(), tmp_path / "new")
    assert (tmp_path / "new/groups/main/MEMORY.md").read_bytes() == b"x"


@pytest.mark.parametrize(
    "name",
    [
        *("../outside", "groups/../../outside", "groups/main/../../../outside", "/tmp/outside", "groups\\..\\..\\x"),
        *("/groups/x", "./groups/x", "groups//x", "groups/./x", "groups/main/", "manifest.json/x"),
        *("", ".", "..", "outside", ".git/hooks/post-checkout", "data/host.lock"),
    ],
)
def test_a_name_that_leaves_the_home_is_refused(name: str, forger: Forger, full_home: Path) -> None:
    names = tree(full_home.parent).keys()
    refused(forger.file(name).write(), full_home)
    assert tree(full_home.parent).keys() - names == {"forged.tar.gz"}


def _special(kind: bytes) -> Callable[[Forger], Forger]:
    return lambda forger: forger.member("groups/main/x", kind=kind, link="/etc/passwd")


FORGED: dict[str, tuple[Callable[[Forger], Forger], str | None]] = {
    "a folder that leads out": (lambda forger: forger.folder("../outside").folder("../outside/deep"), None),
    "a link": (_special(tarfile.SYMTYPE), None),
    "a hard link": (_special(tarfile.LNKTYPE), None),
    "a FIFO": (_special(tarfile.FIFOTYPE), None),
    "a device": (_special(tarfile.CHRTYPE), None),
    "a file with holes": (_special(tarfile.GNUTYPE_SPARSE), None),
    "a file as a folder": (
        lambda it: it.file("groups/main/x").file("groups/main/x/y"),
        "groups/main/x/y is in it twice",
    ),
    "twice the same": (lambda it: it.file("groups/main/x").file("groups/main/x", b"y"), "groups/main/x is in it twice"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_hostile_archive_is_refused(what: str, forger: Forger, full_home: Path) -> None:
    forge, says = FORGED[what]
    refused(forge(forger).write(), full_home, says=says)


def test_an_archive_of_a_later_format_is_refused(forger: Forger, tmp_path: Path) -> None:
    forger.manifest |= {"format": 2, "version": "9.0.0"}
    with pytest.raises(HostError, match=r"has format 2, this version reads 1: use version 9\.0\.0"):
        restore(forger.write(), tmp_path / "new")


@pytest.mark.parametrize("where", ["archive", "journal"])
def test_a_backup_without_space_leaves_no_part_of_one(where: str, full_home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    if where == "archive":
        (full_home / "groups/main/large.bin").write_bytes(os.urandom(400_000))
    else:
        with contextlib.closing(Journal.open(full_home / "data/journal.db")) as journal:
            journal.commit([Row(4, 4, "main", "bee", "r4", "note", "f", 0, bytes(400_000))], [])
    with little_space(200_000), pytest.raises(HostError, match=r"cannot write .*; there is no backup"):
        back_up(full_home, folder / "b.tar.gz", now=NOW)
    assert os.listdir(folder) == []
    back_up(full_home, folder / "b.tar.gz", now=NOW)


def test_a_restore_without_space_changes_nothing(full_home: Path, tmp_path: Path) -> None:
    (full_home / "groups/main/large.bin").write_bytes(os.urandom(200_000))
    back_up(full_home, tmp_path / "b.tar.gz", now=NOW)
    empty = _empty(tmp_path)
    for target in (empty, tmp_path / "new"):
        with little_space(100_000), pytest.raises(HostError, match=r"cannot restore to .*; nothing was changed"):
            restore(tmp_path / "b.tar.gz", target)
    assert os.listdir(empty) == []
    assert not (tmp_path / "new").exists()
    with pytest.raises(HostError, match="Not a directory; nothing was changed"):
        restore(tmp_path / "b.tar.gz", tmp_path / "b.tar.gz" / "home")
