"""`honeybadger-host forget`: what is forgotten stands in no byte below the home, and nothing else goes."""

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from honeybadger_host.files.home import JOURNAL_FILE, make_home
from honeybadger_host.journal.forgetting import read_tombstones
from honeybadger_host.journal.schema import connect
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory
from tests.crash.story import read
from tests.flows.test_consolidation import SOON, TEXTS, Talk, scripted
from tests.flows.world import needs_mount, script, use_up_space
from tests.hosting import AT_ONCE, HostProcess, RawSender, files_with, request, run_cli, wait_for
from tests.people import looking, newest_edit, settle

PHRASE = "Käse fondue \N{SNOWFLAKE} geheim"
PLANTED = 200
FORMS = (
    PHRASE,
    PHRASE.upper(),
    unicodedata.normalize("NFD", PHRASE),
    PHRASE.replace(" ", "  "),
    PHRASE.replace(" ", "\t"),
    PHRASE.replace("geheim", "GeHeim"),
    PHRASE.replace("fondue", "fon\u00addue").replace("geheim", "ge\u200bhe\u2060im"),
)
_ESCAPES = (
    {"ä": "\\u00e4"},
    {"ä": "\\u00E4", " ": "\\u0020"},
    {"geheim": "g\\u0065heim", "\N{SNOWFLAKE}": "\\u2744"},
    {"ä": "\\\\u00e4"},
    {" ": "\\n"},
    {" ": "\\\\t", "ä": "a\\u0308"},
)
KEPT = "The garden gate stays shut"


class Planting:
    """Numbers what is planted, so that what is left can be named."""

    def __init__(self) -> None:
        self.count = 0

    def text(self, form: str | None = None) -> str:
        """Return the next text; its number stands in the same line."""
        self.count += 1
        return f"plant{self.count:03d}x {form or FORMS[self.count % len(FORMS)]} end"

    def escaped(self) -> str:
        """Return the next one as it may stand in JSON."""
        text = PHRASE
        for old, new in _ESCAPES[self.count % len(_ESCAPES)].items():
            text = text.replace(old, new)
        return self.text(text)

    def wide(self, encoding: str) -> bytes:
        return self.text(FORMS[self.count % 3]).encode(encoding)


def plant_by_requests(sender: RawSender, planting: Planting) -> None:
    """Let an agent say it in every way there is."""
    asked = 0

    def ask(type_name: str, **payload: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return sender.do(f"q{asked}", type_name, **payload)

    for _ in range(25):
        ask("update_memory", content=planting.text(), section="Cheese")
    for _ in range(10):
        ask("update_memory", content=f"First\n{planting.text()}\n# {planting.text()}")
    for _ in range(4):
        ask("update_memory", content=f"{'x' * random.Random(planting.count).randint(3500, 9000)} {planting.text()}")
    for number in range(24):
        text = planting.text()
        title, alias, why = (planting.text() for _ in range(3))
        more: list[dict[str, Any]] = [{"title": title}, {"aliases": [alias]}, {"metadata": {"why": why}}]
        saved = ask("save_memory", content=f"{text} {number}", category="food/cheese", **more[number % 3])
        if number % 4 == 1:
            ask("edit_memory", id=saved["id"], content=f"Likes nothing {number}", title="t", aliases=[], metadata={})
        elif number % 4 == 2:
            ask("delete_memory", id=saved["id"])
    for number in range(16):
        ask("append_turn", role="user" if number % 2 else "assistant", content=planting.text())
    for _ in range(8):
        ask("send_message", content=planting.text())
        ask("record_feedback", kind="complaint", content=planting.text())
    for number in range(6):
        ask("save_to_working_memory", key=f"k{number}", data=planting.text(), ttl_minutes=60)
    ask("update_session", add_facts=[planting.text() for _ in range(4)], long_term_summary=planting.text())
    ask("search_memory", query="geheim")
    ask("get_context", message="geheim")
    ask("update_memory", content=KEPT)
    for number in range(8):
        stem = f"bad{number}"
        sender.drop(stem, b'{"v": 1, "id": 7, "x": "' + planting.escaped().encode() + b'"}')
        sender.reply(stem)
    for number, encoding in enumerate(("utf-16-le", "utf-16-be", "utf-16")):
        sender.drop(f"wide{number}", planting.wide(encoding))
        sender.reply(f"wide{number}")


def plant_by_editors(home: Path, planting: Planting) -> None:
    """Let a person type it into files and take it out again."""
    folder = home / "groups" / "main"
    for name in ("CLAUDE.md", "summary.md", "HISTORY.md"):
        path = folder / name
        before = path.read_text() if path.exists() else ""
        path.write_text(f"{before}\nMine.\n{planting.text()}\n- {planting.text()}\nAlso mine.\n")
        newest_edit(home, name)
        text = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in text if not line.startswith("- plant")))
        newest_edit(home, name, 2)
    entry = folder / "memory" / "mine" / "typed.json"
    entry.parent.mkdir(parents=True)
    entry.write_text(f'{{\n    "content": "{planting.escaped()}",\n    "tags": ["{planting.escaped()}"]\n}}\n')
    newest_edit(home, "typed")


def plant_below(home: Path, planting: Planting) -> None:
    """Leave it where nobody looks: freed pages, steps of turns, files that were set aside. No host runs."""
    boxes = home / "data" / "ipc" / "main" / "stranger" / "replies"
    for number in range(6):
        (boxes / f"old{number}.json").write_text(f'{{"ok": true, "result": {{"a": ["{planting.escaped()}"]}}}}')
        (boxes / f"old{number}.stream").write_text(f'{{"text": "{planting.escaped()}"}}\n')
    context, sessions = (home / "data" / name / "main" for name in ("context", "sessions"))
    (context / "main.json.corrupt-20261122T000000Z").write_text(f'{{"facts": ["{planting.escaped()}"')
    (sessions / "main.jsonl.set-aside").write_text(f'{{"line": "{planting.escaped()}"}}\n')
    (home / "groups" / "main" / "MEMORY, saved over change 3.md").write_text(f"- {planting.text()}\n")
    proposals = home / "groups" / "main" / "proposals"
    proposals.mkdir(exist_ok=True)
    (proposals / "broken.json").write_text(f'{{"operations": [{{"result": "{planting.escaped()}"}}]}}')
    with closing(sqlite3.connect(home / JOURNAL_FILE, isolation_level=None)) as journal:
        for number in range(6):
            steps = b'{"text": "%s"}\n' % planting.escaped().encode()
            turn = ("main", "stranger", f"turn{number}", b"", 1, 1, steps * 2)
            journal.execute("INSERT INTO turns VALUES (?,?,?,?,?,?,?)", turn)
    for name in (JOURNAL_FILE, "data/index.db", "data/recalled.db"):
        with closing(sqlite3.connect(home / name, isolation_level=None)) as database:
            database.execute("CREATE TABLE freed (n INTEGER PRIMARY KEY, data BLOB)")
            for _ in range(5 if name != "data/recalled.db" else 0):
                size = random.Random(planting.count).choice((10, 2000, 9000))
                data = b"y" * size + planting.text().encode()
                database.execute("INSERT INTO freed (data) VALUES (?)", (data,))
            database.execute("DELETE FROM freed WHERE n > 1")
            database.execute("UPDATE freed SET data = x''")
            database.execute("DROP TABLE freed")
    while planting.count < PLANTED:
        with (home / "data" / "tasks" / "main.jsonl").open("a") as tasks:
            tasks.write(
                f'{{"task": "t", "event": "failed", "at": "2026-11-22T00:00:00Z", "why": "{planting.escaped()}"}}\n'
            )


def left_in(home: Path) -> dict[str, set[str]]:
    """Return what is left of all that was planted, by place, found by other means than the host's."""
    found: dict[str, set[str]] = {}
    number = re.compile(r"plant\d{3}x", re.IGNORECASE)

    def look(where: str, data: bytes) -> None:
        for encoding in ("latin-1", "utf-16-le", "utf-16-be"):
            for start in (0, 1):
                found.setdefault(where, set()).update(number.findall(data[start:].decode(encoding, "replace")))

    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        look(str(path.relative_to(home)), read(path))  # the host may replace one just now
        if path.suffix == ".db":
            for table, value in values_of(path):
                look(f"{path.name}/{table}", value)
    return {where: some for where, some in found.items() if some}


def values_of(path: Path) -> Iterator[tuple[str, bytes]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for row in database.execute(f"SELECT * FROM {table}"):
                for value in row:
                    data = value.encode() if isinstance(value, str) else value
                    if isinstance(data, bytes):
                        yield table, data
                        if data[:2] == b"\x78\x01":
                            with suppress(zlib.error):  # else a digest that begins like compressed text
                                yield table, zlib.decompress(data)


def forget(home: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    told: dict[str, Any] = cli_json("forget", "main", *arguments, home=home, code=code)
    return told


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home, with no host, in which 200 texts stand in every place there is."""
    home, planting = tmp_path_factory.mktemp("planted") / "home", Planting()
    make_home(home)
    with HostProcess(home, AT_ONCE) as host:
        looking(host)
        plant_by_requests(RawSender(home).make(), planting)
        plant_by_editors(home, planting)
        settle(home)
        host.stop()
    plant_below(home, planting)
    assert planting.count >= PLANTED
    assert len(set.union(*left_in(home).values())) > 0.9 * PLANTED
    return home


@pytest.fixture
def planted(full: Path, home: Path) -> Path:
    """A copy of that home."""
    shutil.rmtree(home)
    shutil.copytree(full, home)
    return home


def test_of_200_forgotten_texts_nothing_is_left(planted: Path, make_host: HostFactory, stranger: RawSender) -> None:
    shutil.copyfile(planted / "data/journal.db", planted / "data/journal.db.before-10")  # kept by an earlier version
    host = make_host(home=planted).start()
    would = forget(planted, "--text", PHRASE, "--dry-run")
    assert would["changes"]["note"] >= 35
    assert left_in(planted)
    result = forget(planted, "--text", PHRASE)
    assert result["left"] == []
    assert result["changes"] == would["changes"]
    assert left_in(planted) == {}
    memory = stranger.memory_text()
    assert KEPT in memory
    assert "- First\n" in memory
    assert "[forgotten]" not in memory
    for name in ("CLAUDE.md", "summary.md"):
        assert "\nMine.\nAlso mine.\n" in (planted / "groups" / "main" / name).read_text()
    log = cli_json("log", "main", "--limit", 9999, home=planted)
    notes = [row for row in log if row["kind"] == "note"]
    assert len(notes) == 40
    assert {row["sender"] for row in notes} == {"stranger"}
    repeated = request("q1", payload={"content": Planting().text(), "section": "Cheese"})
    for path in stranger.replies.glob("q1.json"):
        path.unlink()
    assert stranger.ask("q1", repeated)["seq"] == 1
    assert stranger.again("q1", request("q1", content="something else"))["error"]["code"] == "conflict"
    assert stranger.ask("new", request("new", content="said after it"))["seq"] > max(row["seq"] for row in log)
    settle(planted)
    host.restart()
    assert "said after it" in stranger.memory_text()
    host.stop()
    assert left_in(planted) == {}


# A context waits, after it was made, until the ledger has forgotten, two seconds at most.
_HELD_CONTEXT = """
import os, threading
from pathlib import Path
from honeybadger_host.context.maker import ContextMaker
from honeybadger_host.memory.injection_ledger import InjectionLedger
is_forgotten, make, forget = threading.Event(), ContextMaker.make, InjectionLedger.forget
def hold(self, *arguments):
    made = make(self, *arguments)
    Path(os.environ["HOME_OF_TEST"], "made").touch()
    is_forgotten.wait(2)
    return made
def let_go(self, *arguments):
    forget(self, *arguments)
    is_forgotten.set()
ContextMaker.make, InjectionLedger.forget = hold, let_go
"""


def test_a_context_made_before_a_forget_is_forgotten(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    make_host(AT_ONCE, env={"HOME_OF_TEST": str(home)}, source=_HELD_CONTEXT).start()
    stranger.do("t1", "append_turn", role="user", content=f"plant001x {PHRASE}")
    stranger.drop("c1", request("c1", "get_context"))
    wait_for((home / "made").exists, what="a context is made")
    assert forget(home, "--text", PHRASE)["left"] == []
    stranger.wait_until_taken("c1")
    assert left_in(home) == {}


def test_without_the_vacuum_something_is_left(planted: Path, make_host: HostFactory, stranger: RawSender) -> None:
    """Notes of many pages: all that is freed is not written over by chance."""
    source = "from honeybadger_host.journal.journal import Journal\nJournal.vacuum = lambda self: None"
    make_host(home=planted, source=source).start()
    for number in range(5):
        stranger.do(f"long{number}", content=f"{number} {PHRASE} " * 1200)
    settle(planted)
    result = forget(planted, "--text", PHRASE, code=1)
    assert {one["file"] for one in result["left"]} & {"data/journal.db", "data/journal.db-wal"}


def test_the_past_shows_that_something_was_forgotten(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    looking(make_host(AT_ONCE))
    for number, text in enumerate(("likes tea", f"hides the {PHRASE}", "likes cake"), 1):
        assert stranger.ask(f"n{number}", request(f"n{number}", content=text))["seq"] == number
    settle(home)
    persona = home / "groups" / "main" / "CLAUDE.md"
    first = persona.read_text()
    persona.write_text(f"{first}Mine.\n{PHRASE}\nMine, too.\n")
    edit = newest_edit(home, "CLAUDE.md")
    stranger.memory.write_text(stranger.memory_text().replace("likes tea", "likes green tea"))
    newest_edit(home, "MEMORY.md")
    before = stranger.memory_text()
    assert forget(home, "--text", PHRASE)["left"] == []
    settle(home)
    shown = cli_text("show", "main/MEMORY.md", "--as-of", edit.seq, home=home)
    assert shown == before.replace("green ", "").replace(f"hides the {PHRASE}", "[forgotten]")
    shown = cli_text("show", "main/CLAUDE.md", "--as-of", edit.seq, home=home)
    assert shown == f"{first}Mine.\n[forgotten]\nMine, too.\n"
    assert persona.read_text() == f"{first}Mine.\nMine, too.\n"
    blamed = cli_json("blame", "main", "MEMORY.md", home=home)
    whose = {line["text"]: (line["author"], line["seq"]) for line in blamed if line["text"].startswith("- ")}
    assert whose["- likes cake"] == ("stranger", 3)
    assert whose["- likes green tea"][0] == "human"
    for seq in (2, edit.seq):
        assert "was forgotten, and that is for good" in cli_error("undo", seq, home=home)
    assert "put back" in cli_text("undo", edit.seq + 1, home=home)
    assert "likes tea" in stranger.memory_text()


def test_an_entry_a_sender_and_a_session_are_forgotten(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    make_host(AT_ONCE).start()
    other = RawSender(home, sender="other").make()
    saved: dict[str, dict[str, Any]] = {}
    for sender, words in ((stranger, "walnut planks"), (other, "copper nails")):
        for number in range(3):
            content = f"{sender.sender} ordered {number} {words}"
            payload = {"content": content, "category": "shop", "tags": ["wood"], "title": f"order {number}"}
            saved[content] = sender.do(f"e{number}", "save_memory", **payload)
            sender.do(f"n{number}", content=f"{content}, noted")
            said = {"role": "user", "content": content}
            turn = request(f"t{number}", "append_turn", session=f"s{number}", payload=said)
            assert sender.ask(f"t{number}", turn)["ok"]
    settle(home)
    entry = saved["other ordered 1 copper nails"]["id"]
    assert forget(home, "--id", entry)["left"] == []
    found = texts_of(home)
    assert not any("other ordered 1 copper nails" in text for text in found)
    assert sum("other ordered" in text for text in found) == 6
    assert "it was forgotten already" in cli_error("forget", "main", "--id", entry, home=home, code=9)
    stranger.do("two", content="A drill from the harbour\nordered with walnut shavings")
    settle(home)
    forget(home, "--text", "drill from the harbour")  # the rest of the note is still to be forgotten
    assert forget(home, "--sender", "stranger")["left"] == []
    assert files_with(home, b"walnut shavings") == []
    found = texts_of(home)
    assert not any("walnut" in text for text in found)
    assert sum("copper" in text for text in found) == 6
    result = forget(home, "--session", "s0")
    assert "data/sessions/main/s0.jsonl" in result["files"]
    assert not any("other ordered 0" in text for text in texts_of(home))
    assert "it was forgotten already" in cli_error("forget", "main", "--session", "s0", home=home, code=9)
    assert sum("other ordered 2" in text for text in texts_of(home)) == 3
    tombstones = read_tombstones(home / JOURNAL_FILE, "main")
    assert tombstones.knows("I heard that STRANGER ordered 2  walnut planks, noted.")
    assert not tombstones.knows("other ordered 2 copper nails")


def test_a_host_starts_after_any_record_is_forgotten(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    looking(host := make_host(AT_ONCE))
    other = RawSender(home, sender="other").make()
    daily = {"schedule_type": "cron", "cron_expression": "0 7 * * *"}
    asked: list[tuple[str, dict[str, Any]]] = [
        *(("append_turn", {"role": "user", "content": f"Planks number {number}"}) for number in range(3)),
        ("withdraw_turns", {"from_turn": 3}),
        ("update_memory", {"content": "Walnut planks"}),
        ("save_memory", {"content": "Oak planks", "category": "c", "valid_until": "2099-01-01T00:00:00Z"}),
        ("record_feedback", {"kind": "complaint", "content": "Too many planks", "turn": 1}),
        ("send_message", {"content": "The planks are here"}),
        ("save_to_working_memory", {"key": "k", "data": "Planks of today", "ttl_minutes": 60}),
        ("update_session", {"add_facts": ["Likes planks"], "system_state": {"planks": 3}}),
        ("schedule_task", {"name": "Bins", "description": "Take the planks out", **daily}),
        ("pause_task", {"task": "bins", "why": "no planks"}),
    ]
    for sender in (stranger, other):
        for number, (type_name, payload) in enumerate(asked):
            data = request(f"q{number}", type_name, session=sender.sender, payload=payload)
            assert sender.ask(f"q{number}", data)["ok"]
    other.do("own", "schedule_task", name="Dustbins", description="Empty them", **daily)
    other.do("off", "pause_task", task="dustbins", why="no space left")
    settle(home)
    log = cli_json("log", "main", home=home)
    numbers = {row["kind"]: str(row["seq"]) for row in log if row["sender"] == "stranger"}
    for which in (*(["--id", number] for number in numbers.values()), ["--id", "bins"], ["--sender", "other"]):
        run_cli("forget", "main", *which, home=home)  # one of them may have gone with another
    assert files_with(home / "data", b"no space", b"Dustbins") == []
    for is_older in (False, True):
        host.stop()
        if is_older:  # such rows as an earlier version left
            made = 'replace(data, \'"until":"2\', \'"until":"[forgotten]\')'
            with closing(connect(home / JOURNAL_FILE)) as journal:
                journal.execute(f"UPDATE changes SET data = CAST({made} AS BLOB) WHERE kind = 'task_record'")
        host.start()
        for type_name in ("list_tasks", "get_history", "get_turns", "get_messages", "load_session", "get_context"):
            assert stranger.ask(f"{type_name}{is_older}", request(f"{type_name}{is_older}", type_name))["ok"]
        skipped = [line["event"] for line in host.log_lines() if str(line["event"]).endswith(".skipped")]
        assert skipped == ["task.skipped"] * 3 * is_older
    cli_text("export", "main", "--to", home.parent / "export", home=home)
    host.stop()
    cli_text("import", "again", home.parent / "export", home=home)
    host.start()


_NOTE = {"name": "update_memory", "arguments": {"content": "Wants planks of walnut, says the customer"}}
NOTING = {
    "when": "remember",
    "answers": [{"text": "Let me note that.", "calls": [_NOTE]}, {"text": "Noted."}],
}


def test_what_came_of_a_senders_words_is_forgotten_too(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    make_host(AT_ONCE | SOON | script(home, NOTING, delay_seconds=0.001) | {"model.curation": "offline"}).start()
    other = RawSender(home, sender="other").make()
    for number in range(1, 40):
        sender, words = ((stranger, "walnut planks"), (other, "copper nails"))[number % 2]
        text = f"We decided to order {words} {number}. That was no {number} of many sentences."
        turn = request(f"t{number:02}", "append_turn", session="talk", payload={"role": "user", "content": text})
        assert sender.ask(f"t{number:02}", turn)["ok"]
    history = home / "groups/main/HISTORY.md"
    wait_for(lambda: history.exists() and "walnut" in history.read_text(), what="it is consolidated")
    state = {"wood": {"sort": "walnut", "many": 3}}
    put = {"add_facts": ["Walnut!"], "system_state": state, "long_term_summary": "Walnut."}
    for sender, facts in ((other, {"add_facts": ["Copper is the metal"]}), (stranger, put)):
        update = request("u", "update_session", session="talk", payload=facts)
        assert sender.ask("u", update)["ok"]
    task = {"id": "a", "description": "Saw walnut", "status": "Pending", "progress": 0}
    assert stranger.ask("u2", request("u2", "update_session", session="talk", payload={"active_tasks": [task]}))["ok"]
    document = home / "data/context/main/talk.json"
    for word in ("Walnut!", "Walnut.", "Saw walnut", "copper nails 1"):
        assert word in document.read_text()
    assert stranger.chat("chat1", "Please remember that I want walnut")["ok"]
    assert "planks of walnut" in stranger.memory_text()
    stranger.do("q", "get_context")
    settle(home)
    (home / "script.json").unlink()
    assert forget(home, "--sender", "stranger")["left"] == []
    assert os.listdir(stranger.replies) == []
    kept = [path for path in files_with(home, b"alnut") if path.suffix != ".json" or "ipc" not in path.parts]
    assert kept == []
    for path, words in ((document, "Copper is the metal"), (document, "copper nails 1."), (history, "copper nails")):
        assert words in path.read_text(), path


def test_notes_from_a_conversation_go_with_its_session(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    make_host(AT_ONCE | script(home, NOTING, delay_seconds=0.001)).start()
    assert stranger.chat("chat1", "Please remember that I want walnut")["ok"]
    assert "planks of walnut" in stranger.memory_text()
    facts = {"add_facts": ["The workshop smells of wax"]}
    assert stranger.ask("u", request("u", "update_session", session="main", payload=facts))["ok"]
    assert stranger.ask("n", request("n", content="The workshop smells of wax"))["ok"]
    settle(home)
    (home / "script.json").unlink()
    assert forget(home, "--session", "main")["left"] == []
    assert files_with(home, b"alnut", b"smells of wax") == []


@pytest.mark.parametrize("is_removed", [False, True])
def test_derived_texts_go_if_their_proposal_is_unreadable(home: Path, make_host: HostFactory, is_removed: bool) -> None:
    make_host(AT_ONCE | scripted(home, TEXTS) | {"curation.prose": True}).start()
    talk = Talk(home)
    talk.fill(11, up_to=6)
    assert TEXTS["history_entry"] in talk.file("HISTORY.md")
    settle(home)
    path = home / f"groups/main/proposals/{talk.mark['proposal']}.json"
    if is_removed:
        path.unlink()
        newest_edit(home, path.name)
    else:
        path.write_text(path.read_text().replace("{", "{{", 1))
    (home / "curation.json").unlink()
    assert forget(home, "--session", "main")["left"] == []
    assert files_with(home, *(text.encode() for text in TEXTS.values())) == []


def test_a_missing_target_is_not_found(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    looking(make_host(AT_ONCE))
    stranger.do("n1", content="the harvester ordered walnut planks")
    for options in ((), ("--id=a", "--session=b")):
        assert "one of --id, --text, --sender and --session" in cli_error("forget", "main", *options, home=home, code=2)
    for option, what in (("--id", "entry, task or change"), ("--sender", "sender"), ("--session", "session")):
        assert f"main has no {what} 'nobody'" in cli_error("forget", "main", option, "nobody", home=home, code=9)
    assert "no entry, task or change" in cli_error("forget", "main", "--id=7", "--dry-run", home=home, code=9)
    settle(home)
    persona = home / "groups" / "main" / "CLAUDE.md"
    persona.write_text(f"{persona.read_text()}The cellar key hangs behind the third barrel.\n")
    edit = newest_edit(home, "CLAUDE.md")
    assert forget(home, "--id", str(edit.seq))["edits"] == 1
    assert files_with(home, b"third barrel") == []
    RawSender(home, sender="listener").make()
    assert forget(home, "--sender", "listener")["changes"] == {}
    assert "walnut" in stranger.memory_text()


def test_names_in_metadata_are_forgotten_with_an_entry(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    looking(make_host(AT_ONCE))
    entry = {"content": "It is in the cellar", "category": "home", "metadata": {"safe of tim": "blue wren"}}
    saved = stranger.do("e1", "save_memory", **entry)
    stranger.do("e2", "edit_memory", id=saved["id"], metadata={"vault of tim": "red wren"})
    settle(home)
    path = home / "groups" / "main" / saved["file"]
    path.write_text(path.read_text().replace('"vault of tim"', '"chest of tim"'))
    newest_edit(home, saved["id"])
    assert forget(home, "--id", saved["id"])["left"] == []
    assert files_with(home, b"of tim") == files_with(home, b" wren") == []


def test_links_do_not_stop_forgetting(home: Path, make_host: HostFactory, stranger: RawSender, tmp_path: Path) -> None:
    make_host(AT_ONCE).start()
    stranger.do("n1", content="the harvester ordered walnut planks")
    settle(home)
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"content": "walnut planks"}')
    for folder in ("tasks", "memory", "proposals"):
        (home / "groups" / "main" / folder).mkdir(exist_ok=True)
        (home / "groups" / "main" / folder / "link.json").symlink_to(elsewhere)
        (home / "groups" / "main" / folder / "broken.json").symlink_to(tmp_path / "nothing")
    for selector in (["--id", "1"], ["--text", "walnut planks"]):
        assert forget(home, *selector)["left"] == []
    assert elsewhere.read_text() == '{"content": "walnut planks"}'


def test_what_every_group_reads_is_forgotten(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    looking(make_host(AT_ONCE))
    stranger.do("n1", content="likes tea")
    files = ["AGENT.md", "groups/global/CLAUDE.md", "config/agents/bob/profile.md", "groups/main/AGENT.md"]
    for file in files:
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text("Be kind.\nThe cellar key hangs behind the third barrel.\n")
    entry = home / "groups/global/memory/house/key.json"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(json.dumps({"id": "key", "content": "The key is behind the third barrel."}).encode())
    for file in files:
        newest_edit(home, file)
    newest_edit(home, "key.json")
    settle(home)
    (home / files[0]).write_text("Be kind.\n")  # the journal knows what it was
    newest_edit(home, files[0], 2)
    settle(home)
    stranger.do("c", "get_context")
    forget_global = ("forget", "global", "--text", "third barrel")
    would = cli_text(*forget_global, "--dry-run", home=home)
    assert "would go: " in would
    assert "would be rewritten: groups/global/memory/house/key.json" in would
    left = cli_text("forget", "main", "--text", "third barrel", home=home, code=1)
    left = left.replace("LEFT: data/journal.db-wal", "")
    assert left.count("LEFT: ") == 5, left  # not main's
    assert cli_json(*forget_global, home=home)["left"] == []
    assert files_with(home, b"third barrel") == []
    assert [(home / file).read_text() for file in files] == ["Be kind.\n"] * 4
    assert not entry.exists()
    cli_error("forget", "global", "--id", "nobody", home=home, code=9)


def test_a_group_whose_folder_is_gone_is_forgotten(home: Path, make_host: HostFactory) -> None:
    host = looking(make_host(AT_ONCE))
    gone = RawSender(home, group="old").make()
    gone.do("n1", content="the harvester ordered walnut planks")
    gone.do("e1", "save_memory", content="walnut planks are in the cellar")
    settle(home)
    host.stop()
    shutil.rmtree(home / "groups" / "old")
    host.start()
    for option, what in (("--text", "walnut planks"), ("--sender", gone.sender)):
        found = cli_json("forget", "old", option, what, home=home)
        assert (found["left"], files_with(home, b"alnut")) == ([], [])


def texts_of(home: Path) -> Sequence[str]:
    """Return the lines of what the group remembers: notes, entries and turns."""
    folder = home / "groups" / "main"
    paths = [folder / "MEMORY.md", *folder.glob("memory/**/*.json"), *(home / "data/sessions/main").glob("*.jsonl")]
    return [line for path in paths for line in path.read_text().splitlines() if "ordered" in line]


def test_forgetting_works_without_a_host_one_at_a_time(home: Path, make_host: HostFactory, stranger: RawSender) -> None:
    host = make_host(AT_ONCE).start()
    for number in range(6):
        stranger.do(f"n{number}", content=f"the number of safe {number} is secret")
    settle(home)
    host.stop()
    assert forget(home, "--text", "number of safe 0")["changes"] == {"note": 1}
    host.start()
    with ThreadPoolExecutor() as threads:
        results = [threads.submit(forget, home, "--text", f"number of safe {number}") for number in (1, 2, 3)]
        for number in range(20):  # others are answered meanwhile
            stranger.do(f"w{number}", content=f"while {number}")
    assert [result.result()["changes"] for result in results] == [{"note": 1}] * 3
    assert [result.result()["left"] for result in results] == [[]] * 3
    memory = stranger.memory_text()
    assert [f"safe {n}" in memory for n in range(6)] == [False] * 4 + [True] * 2
    assert memory.count("while ") == 20


@needs_mount
def test_a_full_disk_leaves_it_to_be_finished(disk: Path, cramped: HostProcess) -> None:
    host, home = cramped.start(), cramped.home
    sender = RawSender(home).make()
    for number in range(12):
        sender.do(f"n{number}", content=f"{number} {'filling ' * 1000}" if number else f"zero: {PHRASE}")
    settle(home)
    operator = RawSender(home, sender="operator").make()
    os.kill(host.pid, signal.SIGSTOP)
    operator.drop("f1", request("f1", "forget", payload={"text": PHRASE}))
    (disk / "spare").write_bytes(b"x" * 150_000)
    (filler,) = use_up_space(disk)
    (disk / "spare").unlink()
    os.kill(host.pid, signal.SIGCONT)
    wait_for(lambda: host.events("pipeline.reply_failed") or operator.peek("f1"), what="an end of the space")
    filler.unlink()
    operator.reply("f1", timeout=100)
    sender.do("more", content="said meanwhile")
    assert forget(home, "--text", PHRASE)["left"] == []
    assert files_with(home, PHRASE.encode()) == []
    assert sender.memory_text().count("filling ") == 11_000
    assert "said meanwhile" in sender.memory_text()
    settle(home)
    host.restart()
    with closing(sqlite3.connect(home / JOURNAL_FILE)) as journal:
        assert journal.execute("SELECT count(*) FROM meta WHERE key = 'forgetting'").fetchone() == (0,)
