"""`honeybadger-host undo` of what a person did with an editor: the old lines come back, and nobody else's go."""

import threading
from pathlib import Path

import pytest

from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.journal.reader import LogFilter, read_log
from tests.commands import cli_error, cli_json
from tests.conftest import HostFactory
from tests.hosting import AT_ONCE, HostProcess, RawSender, request, run_cli, wait_for
from tests.people import edits_in, grow_old, looking, newest_edit, settle


@pytest.fixture
def stood(home: Path, make_host: HostFactory, stranger: RawSender) -> HostProcess:
    host = looking(make_host(AT_ONCE))
    for number, text in enumerate(("likes tea", "likes cake")):
        stranger.do(f"n{number}", content=text)
    settle(home)
    return host


def undone(home: Path, *seqs: int) -> str:
    result = run_cli("undo", *seqs, home=home)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def test_an_edit_is_undone_beside_newer_notes(stood: HostProcess, stranger: RawSender) -> None:
    home, before = stood.home, stranger.memory_text()
    edited = before.replace("likes tea", "likes green tea") + "Mine.\n"
    stranger.memory.write_text(edited)
    edit = newest_edit(home, "MEMORY.md")
    stranger.do("n2", content="likes milk")
    milk = stranger.memory_text().removeprefix(edited)
    printed = undone(home, edit.seq)
    assert printed == f"groups/main/MEMORY.md: put back; change {edit.seq + 2} undoes {edit.seq}\n"
    assert stranger.memory_text() == before + milk
    row = read_log(home / JOURNAL_FILE, LogFilter("main"), 1)[0]
    assert (row.sender, row.kind, row.file) == ("operator", "edit_undone", "groups/main/MEMORY.md")
    settle(home)
    assert "put back" in undone(home, row.seq)
    assert stranger.memory_text() == edited + milk
    settle(home)
    stood.restart()
    assert stranger.memory_text() == edited + milk
    (home / "groups" / "main" / "CLAUDE.md").write_text("The next edit.\n")
    newest_edit(home, "CLAUDE.md")
    assert len(edits_in(home / JOURNAL_FILE, LogFilter(file="MEMORY.md"))) == 1  # nothing of it is theirs


def test_undoing_an_edit_during_writes_loses_no_note(stood: HostProcess, stranger: RawSender) -> None:
    home = stood.home
    stranger.memory.write_text(stranger.memory_text().replace("- likes cake\n", ""))
    edit = newest_edit(home, "MEMORY.md")
    is_over = threading.Event()
    sent: list[str] = []

    def write_notes() -> None:
        busy = RawSender(home, sender="busy").make()
        while not is_over.is_set():
            text = f"note {len(sent)}"
            busy.do(f"b{len(sent)}", content=text)
            sent.append(text)

    writer = threading.Thread(target=write_notes)
    writer.start()
    try:
        wait_for(lambda: len(sent) > 20)
        wait_for(lambda: run_cli("undo", edit.seq, home=home).returncode == 0, what="an undone edit")
        so_far = len(sent)
        wait_for(lambda: len(sent) > so_far + 20)
    finally:
        is_over.set()
        writer.join()
    settle(home)
    for text in ("likes tea", "likes cake", *sent):
        assert stranger.memory_text().count(f"- {text}\n") == 1, text
    stood.restart()
    for text in ("likes tea", "likes cake", *sent):
        assert stranger.memory_text().count(f"- {text}\n") == 1, text


def test_an_edit_changed_since_is_refused_by_name(stood: HostProcess, stranger: RawSender) -> None:
    home = stood.home
    stranger.memory.write_text(stranger.memory_text().replace("likes tea", "likes green tea"))
    first = newest_edit(home, "MEMORY.md")
    stranger.memory.write_text(stranger.memory_text().replace("green tea", "black tea"))
    text = stranger.memory_text()
    second = newest_edit(home, "MEMORY.md", 2)
    message = cli_error("undo", first.seq, home=home)
    assert f"change {first.seq} left as '- likes green tea', was changed since" in message
    assert f"(changes since: {second.seq} by human); nothing was changed" in message
    assert stranger.memory_text() == text
    printed = undone(home, first.seq, second.seq).splitlines()  # the newest first, then the other can be
    assert [line.rpartition(" ")[2] for line in printed] == [str(second.seq), str(first.seq)]
    assert "- likes tea\n" in stranger.memory_text()


@pytest.mark.parametrize("name", ["MEMORY.md", "CLAUDE.md"])
def test_deleted_lines_come_back_once_however_often_undone(stood: HostProcess, name: str) -> None:
    home, file = stood.home, stood.home / "groups" / "main" / name
    if name == "CLAUDE.md":
        file.write_text("Be kind.\nBe brief.\nBe kind.\n")
        newest_edit(home, name)
    before = file.read_text()
    kept = before.replace("- likes tea\n", "").removeprefix("Be kind.\n")  # of two equal lines one
    file.write_text(kept)
    edit = newest_edit(home, name, 1 if name == "MEMORY.md" else 2)
    undone(home, edit.seq)
    assert file.read_text() == before
    settle(home)
    message = cli_error("undo", edit.seq, home=home)
    assert f"nothing of change {edit.seq} is left to be undone in groups/main/{name} (changes since: " in message
    assert file.read_text() == before


def test_a_deleted_changed_or_new_file_is_undone(stood: HostProcess, stranger: RawSender) -> None:
    home, folder = stood.home, stood.home / "groups" / "main"
    memory = stranger.memory.read_bytes()
    persona = (folder / "CLAUDE.md").read_bytes()
    stranger.do("e", "save_memory", content="likes cake", name="cake")
    (entry,) = (folder / "memory" / "general").iterdir()
    saved = entry.read_bytes()
    settle(home)
    grow_old()
    stranger.memory.unlink()
    (folder / "CLAUDE.md").write_bytes(persona + b"Be kind.")
    (folder / "summary.md").write_text("Tea.\n")
    entry.write_bytes(saved.replace(b"likes cake", b"loves cake"))
    places = ["MEMORY.md", "CLAUDE.md", "summary.md", entry.name]
    found = [newest_edit(home, file) for file in places]
    assert [edit.kind for edit in found] == ["edit_removed", "edit", "edit_new", "edit"]
    printed = "".join(undone(home, edit.seq) for edit in found)
    assert [line.partition(";")[0] for line in printed.splitlines()] == [
        "groups/main/MEMORY.md: restored",
        "groups/main/CLAUDE.md: put back",
        "groups/main/summary.md: removed",
        f"groups/main/memory/general/{entry.name}: put back",
    ]
    assert (stranger.memory.read_bytes(), (folder / "CLAUDE.md").read_bytes()) == (memory, persona)
    assert (entry.read_bytes(), (folder / "summary.md").exists()) == (saved, False)
    rows = [row for row in read_log(home / JOURNAL_FILE, LogFilter(by="operator"), 9)[::-1] if row.kind != "note"]
    assert [row.kind for row in rows] == ["text", "text_removed", "entry"]
    for row in rows:
        undone(home, row.seq)
    assert (folder / "CLAUDE.md").read_bytes() == persona + b"Be kind."
    assert (folder / "summary.md").read_text() == "Tea.\n"
    assert b"loves cake" in entry.read_bytes()
    stood.stop()
    stood.start()
    assert len(edits_in(home / JOURNAL_FILE, LogFilter())) == len(places)


def test_an_edited_session_document_is_shown_and_undone(stood: HostProcess, stranger: RawSender) -> None:
    home, file = stood.home, "data/context/main/main.json"
    payload = {"add_facts": ["likes tea", "has a dog"]}
    assert stranger.ask("s", request("s", "update_session", payload=payload))["ok"]
    before = (home / file).read_bytes()
    settle(home)
    (home / file).write_bytes(before.replace(b"likes tea", b"likes cake"))
    edit = newest_edit(home, file)
    lines = {one["member"]: one["author"] for one in cli_json("blame", "main", file, home=home)}
    assert (lines["facts"], lines["system_state"]) == ("human", "stranger")
    assert run_cli("show", "main", file, "--as-of", edit.seq - 1, home=home).stdout == before.decode()
    assert undone(home, edit.seq) == f"{file}: put back; change {edit.seq + 1} undoes {edit.seq}\n"
    assert (home / file).read_bytes() == before


@pytest.mark.parametrize("file", ["config/agents/ada/soul.md", "groups/global/CLAUDE.md"])
def test_an_edit_of_a_global_file_is_undone(stood: HostProcess, file: str) -> None:
    home = stood.home
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("For all.\n")
    newest_edit(home, file)
    path.write_text("For all of us.\nAnd kindly.\n")
    edit = newest_edit(home, file, 2)
    told = cli_json("undo", edit.seq, home=home)
    assert told == {"seq": edit.seq + 1, "group": "global", "file": file, "did": "put_back"}
    assert path.read_text() == "For all.\n"
    rows = cli_json("log", "global", home=home)
    assert [(row["sender"], row["kind"], row["file"]) for row in rows[:1]] == [("operator", "text", file)]
    assert undone(home, told["seq"]).startswith(f"{file}: put back; change ")
    assert path.read_text() == "For all of us.\nAnd kindly.\n"
