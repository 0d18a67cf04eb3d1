"""A group's export: another home has the same group from it, and a damaged or hostile one changes nothing."""

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from honeybadger_host.documents.in_use import MAX_BYTES
from honeybadger_host.files.home import make_home
from honeybadger_host.journal.forgetting import bury, read_forgetting
from honeybadger_host.journal.schema import connect, transaction
from honeybadger_host.transfer.loading import load_export
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory
from tests.hosting import AT_ONCE, HostProcess, RawSender, request, run_cli, status_of, wait_for
from tests.people import grow_old, looking, newest_edit, save, settle, wait_until_looked_at

FORGOTTEN = ("likes cake", "turn 3", "has a dog")


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose group has something of everything, also what was removed and undone, and no host."""
    home = tmp_path_factory.mktemp("life") / "home"
    make_home(home)
    stranger = RawSender(home).make()
    with looking(HostProcess(home, AT_ONCE)) as host:
        stranger.ask("n1", request("n1", content="likes tea ☕"))
        stranger.ask("n2", request("n2", content="likes cake"))
        stranger.do("c1", "get_context")
        saved = stranger.ask("e1", request("e1", "save_memory", payload={"content": "has a cat", "name": "cat"}))
        gone = stranger.do("e2", "save_memory", content="has a dog", tags=["pets"])
        stranger.do("d1", "delete_memory", id=gone["id"])
        for number in range(5):
            role = "user" if number % 2 == 0 else "assistant"
            stranger.do(f"t{number}", "append_turn", role=role, content=f"turn {number}")
        stranger.do("w1", "save_to_working_memory", key="plan", data="go north")
        stranger.do("m1", "send_message", content="done")
        stranger.do("f1", "record_feedback", kind="praise", content="good")
        settle(home)
        text = stranger.memory_text().replace("- likes cake\n", "- likes cake\nOnly on Sundays.\n")
        stranger.memory.write_text(text)
        newest_edit(home, "MEMORY.md")
        (home / "groups/main/CLAUDE.md").write_bytes("Be brief.\r\nNo ÿ here.\n".encode())
        newest_edit(home, "CLAUDE.md")
        session = home / "data/context/main/main.json"
        session.write_text(session.read_text().replace('"facts": []', '"facts": ["Is 40"]'))
        newest_edit(home, "main.json")
        older = stranger.memory_text()
        for name in ("figs", "plums"):
            stranger.do(name, content=f"likes {name}")
        settle(home)
        grow_old()
        save(stranger.memory, older)  # as by an editor that was left open
        newest_edit(home, "MEMORY.md", 2)
        host.stop()
    printed(home, "undo", saved["seq"])
    printed(home, "context", "main")
    return home


@pytest.fixture
def lived(life: Path, tmp_path: Path) -> Path:
    """A copy of that home."""
    return shutil.copytree(life, tmp_path / "lived")


@pytest.fixture(scope="module")
def forgetful(life: Path) -> Path:
    """A copy of it in which the texts of `FORGOTTEN` were forgotten."""
    home = shutil.copytree(life, life.parent / "forgetful")
    for text in FORGOTTEN:
        printed(home, "forget", "main", "--text", text.upper())
    return home


@pytest.fixture(scope="module")
def archive(life: Path) -> Path:
    """Its group, exported."""
    exported(life, life.parent / "a.tar.gz")
    return life.parent / "a.tar.gz"


def new_home(folder: Path) -> Path:
    make_home(folder)
    return folder


def loaded(archive: Path, folder: Path) -> Path:
    """Return a new home with the group of an export."""
    printed(new_home(folder), "import", "main", archive)
    return folder


def printed(home: Path, *arguments: object) -> str:
    return cli_text(*arguments, home=home)


def untimed(text: str) -> str:
    """Return a context without when working memory expires: that is told from now on."""
    return re.sub(r'expires in \w+|"hash": "\w+"', "expires", text)


def exported(home: Path, target: Path, group: str = "main") -> bytes:
    printed(home, "export", group, "--to", target)
    return target.read_bytes()


def test_import_and_export_again_gives_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    other = loaded(archive, tmp_path / "other")
    assert exported(other, tmp_path / "b.tar.gz") == archive.read_bytes()
    printed(other, "export", "main", "--to", tmp_path / "folder")
    again = loaded(tmp_path / "folder", tmp_path / "again")
    assert exported(again, tmp_path / "c.tar.gz") == archive.read_bytes()


def test_log_blame_context_and_search_survive_an_import(lived: Path, archive: Path, tmp_path: Path) -> None:
    other = loaded(archive, tmp_path / "other")
    for words in (
        ("log", "main", "--json", "--limit", 1000),
        ("blame", "main", "MEMORY.md", "--json"),
        ("blame", "main", "CLAUDE.md"),
        ("show", "main/MEMORY.md", "--as-of", 2),
        ("context", "main", "--message", "what does the user like?", "--json"),
        ("search", "main", "likes", "--json"),
        ("search", "main", "turn", "--scope", "turns", "--json"),
    ):
        assert untimed(printed(other, *words)) == untimed(printed(lived, *words)), words
    told = cli_json("log", "main", "--limit", 1000, home=other)
    assert {"human", "operator", "stranger"} <= {one["sender"] for one in told}


def test_an_imported_group_has_no_edits_and_lives_on(archive: Path, home: Path, make_host: HostFactory) -> None:
    host = looking(make_host(AT_ONCE))
    host.stop()
    printed(home, "import", "kitchen", archive)
    before = cli_json("log", "kitchen", "--limit", 1000, home=home)
    host.start()
    assert "stop that host, import" in cli_error("import", "twin", archive, home=home, code=5)
    bee = RawSender(home, "kitchen", "stranger").make()
    seq = bee.ask("n9", request("n9", content="likes jam"))["seq"]
    assert bee.ask("n1", request("n1", content="likes tea ☕"))["seq"] < seq  # its receipt came along
    bee.memory.write_text(bee.memory_text() + "And more.\n")
    assert newest_edit(home, "MEMORY.md", 3).seq == seq + 1
    assert cli_json("log", "kitchen", "--limit", 1000, home=home)[2:] == before
    assert bee.memory_text().count("likes tea") == 1


def test_edits_before_an_export_are_noticed_after_import(lived: Path, tmp_path: Path, make_host: HostFactory) -> None:
    memory, claude = lived / "groups/main/MEMORY.md", lived / "groups/main/CLAUDE.md"
    memory.write_text(memory.read_text().replace("likes tea", "likes coffee"))
    claude.unlink()
    first = exported(lived, tmp_path / "a.tar.gz")
    other = loaded(tmp_path / "a.tar.gz", tmp_path / "other")
    assert not (other / "groups/main/CLAUDE.md").exists()
    assert exported(other, tmp_path / "b.tar.gz") == first
    make_host(AT_ONCE, home=other).start()
    assert newest_edit(other, "MEMORY.md", 3).kind == "edit"
    assert newest_edit(other, "CLAUDE.md", 2).kind == "edit_removed"


def test_a_broken_file_with_waiting_changes_is_not_exported(home: Path, tmp_path: Path, make_host: HostFactory) -> None:
    looking(make_host(AT_ONCE))
    stranger = RawSender(home).make()
    stranger.do("n1", content="likes Käse")
    settle(home)
    other = stranger.memory_text().encode("latin-1")
    stranger.memory.write_bytes(other)
    wait_for(lambda: "groups/main/MEMORY.md" in (status_of(home).get("damaged") or ()), what="the file is named")
    stranger.do("n2", content="likes tea")
    said = cli_error("export", "main", "--to", tmp_path / "a.tar.gz", home=home)
    assert "groups/main/MEMORY.md is no UTF-8, and changes wait for it: mend it" in said
    stranger.memory.write_text(other.decode("latin-1"))
    wait_for(lambda: "likes tea" in stranger.memory_text(), what="the note is written")
    exported(home, tmp_path / "a.tar.gz")


def test_an_older_export_keeps_forgotten_texts_out(forgetful: Path, archive: Path, tmp_path: Path) -> None:
    home = shutil.copytree(forgetful, tmp_path / "home")
    assert cli_json("import", "twin", archive, "--dry-run", home=home)["forgotten"] == 3
    told = printed(home, "import", "twin", archive)
    assert "3 texts of it, forgotten in this home: are left out" in told
    assert "LEFT" not in told
    files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert not [path for path, data in files.items() if any(text.encode() in data for text in FORGOTTEN)]
    for words in (("context",), ("search", "likes"), ("search", "turn", "--scope", "turns"), ("log", "--limit", 1000)):
        text = printed(home, words[0], "twin", *words[1:])
        assert not [gone for gone in FORGOTTEN if gone in text], text
    memory = (home / "groups/twin/MEMORY.md").read_text()
    assert ("likes tea" in memory, "Only on Sundays." in memory) == (True, True)
    assert "likes cake" in (loaded(archive, tmp_path / "other") / "groups/main/MEMORY.md").read_text()


def test_a_forgotten_text_is_found_anywhere_in_a_file(lived: Path, tmp_path: Path) -> None:
    long = '{"content": "%s"}\n{"content": "she LIKES cheese"}\n' % ("x" * (MAX_BYTES - 32))
    (lived / "groups/main/long.jsonl").write_text(long)
    printed(lived, "export", "main", "--to", tmp_path / "folder")
    home = loaded(tmp_path / "folder", tmp_path / "home")
    with closing(connect(home / "data/journal.db")) as writer, transaction(writer, home) as connection:
        bury(connection, "twin", ["she likes cheese"], [])
    assert cli_json("import", "twin", tmp_path / "folder", "--dry-run", home=home)["forgotten"] == 1


def test_a_killed_load_is_finished_at_the_next_start(
    forgetful: Path, archive: Path, tmp_path: Path, make_host: HostFactory
) -> None:
    home = shutil.copytree(forgetful, tmp_path / "home-that-forgets")
    load_export(home, "twin", archive)  # as the command does, which is killed behind it
    memory = home / "groups/twin/MEMORY.md"
    assert "likes cake" in memory.read_text()
    make_host(AT_ONCE, home=home).start()
    wait_for(lambda: "likes cake" not in memory.read_text(), what="it is forgotten again")
    wait_for(lambda: read_forgetting(home / "data/journal.db") is None, what="all of it is done")
    assert "likes cake" not in printed(home, "show", "twin/MEMORY.md", "--as-of", "2999-01-01")


def test_numbers_are_shifted_and_a_used_group_refused(lived: Path, archive: Path, make_host: HostFactory) -> None:
    assert "name one that is not there yet" in cli_error("import", "main", archive, home=lived)
    dry = cli_json("import", "twin", archive, "--dry-run", home=lived)
    assert not (lived / "groups/twin").exists()
    told = cli_json("import", "twin", archive, home=lived)
    assert told == {**dry, "dry_run": False}
    ours, twins = (cli_json("log", name, "--limit", 1000, home=lived) for name in ("main", "twin"))
    assert [one["seq"] + told["shift"] for one in ours] == [one["seq"] for one in twins]
    assert [one["at"] for one in ours] == [one["at"] for one in twins]
    ours_, twins_ = (untimed(printed(lived, "context", name)) for name in ("main", "twin"))
    assert twins_ == ours_.replace("main", "twin")
    make_host(AT_ONCE, home=lived).start()
    save(lived / "groups/twin/MEMORY.md", "And more.\n")
    newest_edit(lived, "groups/twin/MEMORY.md", 3)
    assert cli_json("log", "twin", "--limit", 1000, home=lived)[1:] == twins


def test_an_export_during_writes_has_everything_acknowledged(
    home: Path, make_host: HostFactory, stranger: RawSender, tmp_path: Path
) -> None:
    host = make_host(AT_ONCE).start()
    for number in range(20):
        stranger.do(f"n{number}", content=f"note {number}")
    stranger.note("n20", "note 20")  # perhaps during it
    exported(home, tmp_path / "a.tar.gz")
    host.stop()
    other = loaded(tmp_path / "a.tar.gz", tmp_path / "other")
    make_host(AT_ONCE, home=other).start()
    wait_until_looked_at(other)
    text = (other / "groups/main/MEMORY.md").read_text()
    assert all(text.count(f"- note {number}\n") == 1 for number in range(20))
    assert {one["kind"] for one in cli_json("log", "main", "--limit", 100, home=other)} == {"note"}


def test_the_markdown_export_can_be_read_by_people(lived: Path, tmp_path: Path) -> None:
    save = {"content": "Ada is a cat.\nShe is black.", "title": "The cat: Ada", "tags": ["pets"], "name": "ada.txt"}
    (lived / "groups/main/memory/pets").mkdir(parents=True)
    (lived / "groups/main/memory/pets/ada.json").write_text(json.dumps(save))
    printed(lived, "export", "main", "--markdown", "--to", tmp_path / "notes")
    assert (tmp_path / "notes/memory/pets/ada.txt.md").read_text() == (
        '---\ntitle: "The cat: Ada"\ntags: ["pets"]\nid: "ada"\ncategory: "pets"\nname: "ada.txt"\n'
        "pinned: false\nreinforced: 0\n---\n\nAda is a cat.\nShe is black.\n"
    )
    assert (tmp_path / "notes/MEMORY.md").read_bytes() == (lived / "groups/main/MEMORY.md").read_bytes()
    conversation = (tmp_path / "notes/conversations/main.md").read_text()
    assert [line for line in conversation.splitlines() if line.startswith("turn")] == [f"turn {n}" for n in range(5)]
    assert run_cli("export", "main", "--markdown", "--to", tmp_path / "notes", home=lived).returncode == 1

    (lived / "data/sessions/main/linked.jsonl").symlink_to("main.jsonl")
    refused = run_cli("export", "main", "--markdown", "--to", tmp_path / "linked", home=lived)
    (lived / "data/sessions/main/linked.jsonl").unlink()
    assert refused.returncode == 1
    assert (
        "linked.jsonl is a link where the host needs a file: put a plain file in its place; there is no export"
        in refused.stderr
    )
    assert not (tmp_path / "linked").exists()


def repacked(source: Path, target: Path, change: Callable[[dict[str, bytes]], object], more: Any = ()) -> Path:
    """Pack an export again, after a change of its files, with further members."""
    with tarfile.open(source) as tar:
        files = {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}  # type: ignore[union-attr]
    change(files)
    with tarfile.open(target, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info, data in more:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return target


def relisted(files: dict[str, bytes], name: str, old: bytes, new: bytes) -> None:
    """Change a list, and let the manifest say that it is so."""
    assert old in files[name]
    files[name] = files[name].replace(old, new)
    manifest = json.loads(files["export.json"])
    manifest["lists"][name] = hashlib.sha256(files[name]).hexdigest()
    files["export.json"] = json.dumps(manifest).encode()


def member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


HOSTILE = {
    "a way out": [(member("../../out"), b"x")],
    "a way out below files": [(member("files/../../out"), b"x")],
    "an absolute name": [(member("/tmp/out"), b"x")],
    "a link": [(member("files/group/link", tarfile.SYMTYPE, "/etc/passwd"), b"")],
    "a hard link": [(member("files/group/link", tarfile.LNKTYPE, "export.json"), b"")],
    "a device": [(member("files/group/zero", tarfile.CHRTYPE), b"")],
    "a fifo": [(member("files/group/pipe", tarfile.FIFOTYPE), b"")],
    "a hidden file": [(member("files/group/.git/hooks/post-commit"), b"x")],
    "a member twice": [(member("export.json"), b"{}")],
    "a bomb": [(member("files/group/big"), b"\0" * (80 << 20))],
}
DAMAGED: dict[str, Callable[[dict[str, bytes]], object]] = {
    "a list cut": lambda files: files.update({"journal.jsonl": files["journal.jsonl"][:-20]}),
    "a file changed": lambda files: files.update({"files/group/MEMORY.md": b"other"}),
    "a file missing": lambda files: files.pop("files/sessions/main.jsonl"),
    "a file without its time": lambda files: relisted(
        files, "files.jsonl", re.findall(rb'"mtime_ns":\d+', files["files.jsonl"])[0], b'"mtime_ns":null'
    ),
    "no manifest": lambda files: files.pop("export.json"),
    "a change of another place": lambda files: relisted(
        files, "journal.jsonl", b'"group/MEMORY.md"', b'"../config/honeybadger.toml"'
    ),
    "a file of another place": lambda files: relisted(files, "files.jsonl", b'"sessions/main', b'"../../main'),
    **{
        f"a {kind} that is none": partial(relisted, name="journal.jsonl", old=b'"note"', new=f'"{kind}"'.encode())
        for kind in ("spell", "task_record", "note_removed", "turn")
    },
    "changes out of order": lambda files: relisted(files, "journal.jsonl", b'"seq":2,', b'"seq":1,'),
    "a receipt without a digest": lambda files: relisted(files, "receipts.jsonl", b'"digest":"', b'"digest":"zz'),
    "a later format": lambda files: files.update(
        {"export.json": files["export.json"].replace(b'"format": 2', b'"format": 3')}
    ),
}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was opened once, which nothing changes."""
    home = new_home(tmp_path_factory.mktemp("other") / "home")
    printed(home, "context", "main")
    return home


@pytest.mark.parametrize("what", [*HOSTILE, *DAMAGED])
def test_a_damaged_or_hostile_export_changes_nothing(what: str, archive: Path, other: Path, tmp_path: Path) -> None:
    before = tree(other)
    bad = repacked(archive, tmp_path / "bad.tar.gz", DAMAGED.get(what, lambda files: None), HOSTILE.get(what, ()))
    said = cli_error("import", "main", bad, home=other)
    assert "nothing was changed" in said or "format 3" in said
    assert tree(other) == before
    assert not (tmp_path / "out").exists()
    assert not (other.parent / "out").exists()


def test_a_folder_with_links_in_it_is_no_export(lived: Path, tmp_path: Path) -> None:
    printed(lived, "export", "main", "--to", tmp_path / "folder")
    memory = tmp_path / "folder/files/group/MEMORY.md"
    shutil.move(memory, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", memory)
    assert "a link" in cli_error("import", "main", tmp_path / "folder", home=new_home(tmp_path / "other"))


def tree(home: Path) -> dict[str, bytes]:
    """Return what people and the host keep, by name; not SQLite's own."""
    skipped = ("journal.db", "index.db", "recalled.db", "host.lock")
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not path.name.startswith(skipped)
    }


def test_an_export_into_another_kind_of_archive_is_refused(other: Path, tmp_path: Path) -> None:
    result = run_cli("export", "main", "--to", tmp_path / "main.zip", home=other)
    assert (result.returncode, result.stdout) == (2, "")
    assert "main.zip is neither a folder nor a .tar.gz" in result.stderr
    assert not [*tmp_path.iterdir()]
