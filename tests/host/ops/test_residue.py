"""Files below a home that are searched for what was forgotten, and files that are only named."""

import os
from pathlib import Path

import anyio

from honeybadger_host.ops.residue import backups_in, scan, scan_apart
from honeybadger_host.text.phrases import Phrases

SECRET = "cheese fondue"


def test_a_name_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    for name in (b"b\xe4r.txt", b"b\xe4r.zip"):
        (tmp_path / os.fsdecode(name)).write_text(f"a {SECRET}\n")
    assert [one.file for one in anyio.run(scan_apart, tmp_path, [SECRET], [])] == ["b\\xe4r.txt", "b\\xe4r.zip"]
    assert backups_in(tmp_path) == ["b\\xe4r.zip"]


def test_a_checkouts_packages_and_git_packs_are_skipped(tmp_path: Path) -> None:
    looked = ("notes.txt", ".git/COMMIT_EDITMSG", "groups/main/MEMORY.md", "groups/main/env/a.md", "src/objects/a.txt")
    not_looked = (".venv/lib/a.py", ".git/objects/ab/cd", "groups/.git/objects/pack/a.pack", "old/venv/b.py")
    for name in (*looked, *not_looked, "export.tar.gz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"a {SECRET}\n")
    for name in (".venv", "old/venv", "groups/main/env"):
        (tmp_path / name / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "groups/.git/HEAD").write_text("ref: refs/heads/main\n")
    assert {one.file for one in scan(tmp_path, Phrases([SECRET]), [])} == {*looked, "export.tar.gz"}
    for link in ("groups/main/memory", "groups/main/MEMORY.md.old", "groups/linked", ".venv/lib64"):
        (tmp_path / link).symlink_to(tmp_path / "src")
    assert backups_in(tmp_path) == [
        *(".git/", "export.tar.gz", "groups/.git/", "groups/main/MEMORY.md.old", "groups/main/memory")
    ]
