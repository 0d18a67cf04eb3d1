"""Work of hosts that are killed, one feature each: how it begins, when it is done, and what must hold then."""

import contextlib
import functools
import json
import os
import re
import shutil
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from honeybadger_host.curation.consolidation import SECTIONS
from honeybadger_host.files.home import JOURNAL_FILE, make_home
from honeybadger_host.journal.edits import digest_of, edit_of, hunks_of
from honeybadger_host.journal.reader import LogFilter, read_log
from honeybadger_host.journal.schema import Row
from honeybadger_host.memory.entries.entry import Entry, dump_entry, entry_file
from honeybadger_host.memory.turn_log import dump_turn, turns_file
from honeybadger_host.memory.turn_log_store import Watermark, dreamt_file, dump_watermark, inferred_file, watermark_file
from honeybadger_host.search.notes import notes_of
from honeybadger_host.text.turn import Turn
from tests.crash.hosts import RECORDED_AT_ONCE, Nursery, Work
from tests.flows.test_agents import agent
from tests.flows.test_push import configure
from tests.flows.world import put_task, records
from tests.hosting import HostProcess, RawSender, request, turns_of, wait_for
from tests.people import edits_in, newest_edit, settle, wait_until_looked_at

_MANY_ATTEMPTS = {"model.name": "scripted:script.json", "spool.turn_queue.ATTEMPTS": 50}
_ONE_BY_ONE = {"spool.pipeline.BATCH_REQUESTS": 1}


def copied(home: Path) -> Callable[[Path], object]:
    """Return what begins with a copy of a home."""
    return functools.partial(shutil.copytree, home, symlinks=True)


def reply_of(home: Path, name: str) -> bytes | None:
    """Return the reply to `sender/request` of `main`; None: there is none, or a power cut took a part of it."""
    sender, stem = name.split("/")
    data = RawSender(home, sender=sender).peek(stem)
    return data if data is not None and data.endswith(b"\n") else None


def is_answered(home: Path, *names: str) -> bool:
    return all(reply_of(home, name) is not None for name in names)


def ask(home: Path, requests: Mapping[str, bytes]) -> None:
    """Ask, as `sender/request` of `main`, for all that has no whole reply."""
    for name, data in requests.items():
        if reply_of(home, name) is None:
            sender, stem = name.split("/")
            RawSender(home, sender=sender).make().drop(stem, data)


def asked_of(
    home: Path,
    requests: Mapping[str, bytes],
    settings: Mapping[str, object],
    check: Callable[[Path, str], None],
    stride: int,
) -> Work:
    """Return the work of answering some requests in copies of a home; an end before one is removed leaves it."""

    def begin(copy: Path) -> None:
        copied(home)(copy)
        ask(copy, requests)

    def is_done(copy: Path) -> bool:
        is_waiting = any((copy / "data/ipc/main").glob("*/requests/*.json"))
        return is_answered(copy, *requests) and not is_waiting

    return Work(settings, begin, is_done, check, ask=lambda copy: ask(copy, requests), stride=stride)


HOURS = 3  # runs of one task that are due at the start, all to be made up for; of the other it is one
_SLOW_CLOCK = f"""
from datetime import UTC, datetime, timedelta
from honeybadger_host import compose
compose.wall_clock = lambda: datetime.now(UTC) - timedelta(hours={HOURS})
"""


def tasks(nursery: Nursery, folder: Path) -> Work:
    """Two tasks run that were due while no host ran."""
    home, wanted = folder / "due", {"hourly": HOURS, "once": 1}
    make_home(home)
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=1)
    cron = f"{minute.minute} * * * *"
    put_task(home, "hourly", schedule_type="cron", cron_expression=cron, time_zone="UTC", missed="all")
    put_task(home, "once", schedule_type="once", run_at=(minute - timedelta(hours=1)).isoformat())
    with HostProcess(home, {"model.name": "offline"}, source=_SLOW_CLOCK) as host:
        host.start()
        wait_for(lambda: len(records(home, "scheduled")) == 2)
        host.stop()

    def write_script(home: Path, run: int) -> None:
        def answers(task: str) -> list[dict[str, Any]]:
            note = {"content": f"Did {task}, said in run {run}"}
            return [{"calls": [{"name": "update_memory", "arguments": note}]}, {"text": f"Done in run {run}."}]

        turns = [{"when": f"remember {task}", "answers": answers(task)} for task in wanted]
        (home / "script.json").write_text(json.dumps({"turns": turns}))

    def check(home: Path, where: str) -> None:
        done = Counter((record["task"], record["run"]) for record in records(home, "done"))
        assert set(done.values()) == {1}, f"{where}: {done}"
        assert Counter(task for task, _ in done) == wanted, f"{where}: {done}"
        assert records(home, "failed") == records(home, "missed") == [], where
        notes = RawSender(home).memory_text()
        assert Counter(re.findall(r"- Did (\w+), said in run", notes)) == wanted, f"{where}: {notes}"
        turns = Counter(turn["request"] for turn in turns_of(home))
        assert turns == dict.fromkeys(turns, 2), f"{where}: {turns}"
        told = (home / "data/messages/main.jsonl").read_text().splitlines()
        assert Counter(json.loads(line)["request"] for line in told) == dict.fromkeys(turns, 1), where
        left = [path.name for path in (home / "groups/main/tasks").iterdir()]
        assert left == ["hourly.json"], where

    def is_done(home: Path) -> bool:
        return len(records(home, "done")) >= HOURS + 1

    return Work(_MANY_ATTEMPTS, copied(home), is_done, check, write_script, stride=397, later=250)


SPECIALISTS = {"cook": "a menu", "buyer": "a list"}


def write_scripts(home: Path, run: int) -> None:
    """Give a router and its specialists other words than they had before."""

    def write(name: str, *answers: dict[str, Any]) -> None:
        (home / f"{name}.json").write_text(json.dumps({"turns": [{"answers": answers}]}))

    calls = [
        {"name": "delegate_to_agent", "arguments": {"agent": name, "task": f"{task}, said in run {run}"}}
        for name, task in SPECIALISTS.items()
    ]
    write("router", {"calls": calls}, {"text": f"Planned in run {run}."})
    for name, task in SPECIALISTS.items():
        note = {"content": f"{name} makes {task}, said in run {run}"}
        write(name, {"calls": [{"name": "update_memory", "arguments": note}]}, {"text": f"{name} in run {run}."})


def make_router(home: Path) -> None:
    """Make a home with a router and its specialists."""
    make_home(home)
    agent(home, "router", model="scripted:router.json", delegates_to=[*SPECIALISTS])
    for name in SPECIALISTS:
        agent(home, name, model=f"scripted:{name}.json")


def delegation(nursery: Nursery, folder: Path) -> Work:
    """A router asks two specialists; their models never say the same again."""

    def begin(home: Path) -> None:
        make_router(home)
        RawSender(home).make().say("a1", "Plan the party", agent="router")

    def is_done(home: Path) -> bool:
        sender = RawSender(home)
        return sender.peek("a1") is not None and not list(sender.turns.iterdir())

    def check(home: Path, where: str) -> None:
        sender = RawSender(home)
        result = json.loads(sender.peek("a1") or b"{}")["result"]
        summaries = [tool["summary"] for tool in result["tools"]]
        runs = [re.fullmatch(r"(\w+), done: \1 in run \d\.", summary) for summary in summaries]
        assert [found and found[1] for found in runs] == [*SPECIALISTS], f"{where}: {result}"
        notes = sender.memory_text()
        for name, task in SPECIALISTS.items():
            assert len(re.findall(f"- {name} makes {task}, said in run", notes)) == 1, f"{where}: {notes}"
        told = {path.stem: turns_of(home, path.stem) for path in (home / "data/sessions/main").iterdir()}
        asked = [(turn["sender"], turn["content"]) for turn in told.pop("main")]
        assert asked == [("stranger", "Plan the party"), ("router", result["content"])], f"{where}: {asked}"
        assert len(told) == 2, f"{where}: {told}"
        for given, answer in told.values():
            assert given["content"].startswith(SPECIALISTS[answer["sender"]]), f"{where}: {given}"
            assert f"{answer['sender']}, done: {answer['content']}" in summaries, f"{where}: {answer}"
        left = list((home / "data/ipc").rglob("requests/*.json"))
        assert not left, f"{where}: {left}"

    return Work(_MANY_ATTEMPTS, begin, is_done, check, write_scripts, stride=397, later=250)


def pushed(home: Path) -> list[dict[str, Any]]:
    """Return what the program was given; a kill of the host may have cut it off in a line."""
    found = []
    for line in (home / "pushed").read_text().splitlines() if (home / "pushed").is_file() else []:
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def messages(nursery: Nursery, folder: Path) -> Work:
    """Messages are sent, waited for, and pushed to a program."""
    seen, texts = folder / "seen", [f"number {number}" for number in range(4)]
    settings = {"work.push.FIRST_PAUSE_SECONDS": 0.01}
    make_home(seen)
    configure(seen, command=["sh", "-c", "exec cat >> pushed"])
    with nursery.serving(seen, settings):
        pass  # what is sent from now on is pushed

    def begin(home: Path) -> None:
        copied(seen)(home)
        waiting = request("w1", "get_messages", payload={"after": 0, "wait_seconds": 300})
        RawSender(home, sender="reader").make().drop("w1", waiting)
        sender = RawSender(home, sender="sender").make()
        for number, text in enumerate(texts):
            sender.drop(f"m{number}", request(f"m{number}", "send_message", payload={"content": text}))

    def is_done(home: Path) -> bool:
        is_waiting = any(path.suffix == ".json" for path in (home / "data/ipc").rglob("requests/*"))
        given = [message["content"] for message in pushed(home)]
        return not is_waiting and is_answered(home, "reader/w1") and texts[-1] in given

    def check(home: Path, where: str) -> None:
        kept = [json.loads(line) for line in (home / "data/messages/main.jsonl").read_text().splitlines()]
        assert [message["content"] for message in kept] == texts, where
        numbers = [message["seq"] for message in kept]
        assert numbers == sorted(set(numbers)), where
        sender = RawSender(home, sender="sender")
        replies = [json.loads(sender.peek(f"m{number}") or b"{}") for number in range(len(texts))]
        assert [reply["result"]["seq"] for reply in replies] == [reply["seq"] for reply in replies] == numbers, where
        told = json.loads(RawSender(home, sender="reader").peek("w1") or b"{}")["result"]["messages"]
        assert [message["content"] for message in told] == texts[: len(told)] != [], where
        assert list(dict.fromkeys(message["content"] for message in pushed(home))) == texts, where

    return Work(settings, begin, is_done, check, stride=61, later=60)


FACT = "I am Ann, and I move to Lisbon on 12 March."
_CURATED = {
    "model.curation": "scripted:script.json",
    "curation.runner.LOOK_SECONDS": 0.02,
    "curation.runner.FIRST_PAUSE_SECONDS": 0.1,
}
CONSOLIDATED = {**_CURATED, "consolidation.memory_window": 10}


def make_talk(home: Path) -> None:
    """Make a home with a conversation over its window, as a host that was killed leaves it."""
    make_home(home)
    path = home / turns_file("main", "main")
    path.parent.mkdir(parents=True, exist_ok=True)
    at = datetime.now(UTC).replace(microsecond=0)
    said = [FACT, *(f"This is message number {n}." for n in range(2, 12))]
    turns = [Turn(n, at, "user" if n % 2 else "assistant", "user", "ann", text, 9) for n, text in enumerate(said, 1)]
    path.write_bytes(b"".join(dump_turn(turn, f"r{turn.number}") for turn in turns))


def consolidation(nursery: Nursery, folder: Path) -> Work:
    """A session is consolidated by a model that chooses other sentences each time; the first answer counts."""
    mark_file = watermark_file("main", "main")

    def write_script(home: Path, run: int) -> None:
        chosen = [f"{2 * run - 1}.1"]
        answer = {"history": chosen, "summary": chosen, "facts": [{"take": ["1.1"], "section": SECTIONS[run]}]}
        (home / "script.json").write_text(json.dumps({"turns": [{"answers": [{"text": json.dumps(answer)}]}]}))

    def check(home: Path, where: str) -> None:
        group = home / "groups" / "main"
        history, summary, memory = ((group / name).read_text() for name in ("HISTORY.md", "summary.md", "MEMORY.md"))
        told = re.findall(r"^\[[^\]]+\] ann: (.*)$", history, re.MULTILINE)
        assert len(told) == 1, f"{where}: {history}"
        assert f"ann: {told[0]}" in summary, f"{where}: {told} {summary}"
        section = SECTIONS[1 + [FACT, "This is message number 3.", "This is message number 5."].index(told[0])]
        assert f"## {section} (ann via consolidator, " in memory, where
        assert (summary.count("## main"), memory.count(f"- {FACT}\n")) == (1, 1), f"{where}: {summary}"
        (proposal,) = [json.loads(path.read_text()) for path in (group / "proposals").glob("*.json")]
        assert {each["state"] for each in proposal["operations"]} == {"applied"}, where
        mark = json.loads((home / mark_file).read_text())
        assert (mark["turn"], mark["proposal"]) == (6, proposal["id"]), where

    def is_done(home: Path) -> bool:
        return (home / mark_file).exists()

    return Work(CONSOLIDATED, make_talk, is_done, check, write_script, stride=167, later=60)


_RENT = "The rent of the flat is 950 EUR a month, to Mr Glanz."
_ALWAYS = f"{_RENT[:-1]}, always."
_TEA = "Ann prefers green tea over coffee."
ENTRIES = {"rent1": _RENT, "rent2": _ALWAYS, "tea1": _TEA, "tea2": _TEA}
DREAMT = {**_CURATED, "dream.schedule": "0 0 1 1 *"}


def write_entries(home: Path, entries: Mapping[str, str]) -> None:
    for name, content in entries.items():
        path = home / entry_file("main", "home", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dump_entry(Entry(name, "home", content, by="bee", created=datetime(2026, 11, 1, tzinfo=UTC))))


def make_sleeper(home: Path) -> None:
    """Leave a group that dreamt long ago, and has something to dream of."""
    make_talk(home)
    write_entries(home, ENTRIES)
    mark = home / dreamt_file("main")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_bytes(dump_watermark(Watermark(turn=0, at=datetime(2024, 12, 31, tzinfo=UTC))))
    os.utime(mark, (0, 0))


def found_in(folder: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in folder.rglob("*.json")}


def dream(nursery: Nursery, folder: Path) -> Work:
    """A group dreams with a model that chooses other labels each time."""

    def write_script(home: Path, run: int) -> None:
        choice = {"join": [["E1", "E2"]], "refine": [{"of": "E3", "aliases": [f"run {run}"]}]}
        likes = {"preferences": [{"take": ["main#1"], "strength": "strong"}]}
        answers = {"## Candidates": choice, "": likes}
        turns = [{"when": when, "answers": [{"text": json.dumps(answer)}]} for when, answer in answers.items()]
        (home / "script.json").write_text(json.dumps({"turns": turns, "piece_characters": 1000}))

    def is_done(home: Path) -> bool:
        """The first pass is over; an end of the host behind it leaves the second one to the next dream."""
        return bool(json.loads((home / dreamt_file("main")).read_text())["proposal"])

    def check(home: Path, where: str) -> None:
        likes = [FACT] if (home / inferred_file("main")).exists() else []
        group = home / "groups" / "main"
        contents = sorted(each["content"] for each in found_in(group / "memory").values())
        assert contents == sorted([f"{_RENT}\n{_ALWAYS}", _TEA, *likes]), f"{where}: {contents}"
        archived = {name: each["content"] for name, each in found_in(group / "archive/memory").items()}
        assert archived == ENTRIES, f"{where}: {archived}"
        proposals = [*found_in(group / "proposals").values()]
        assert sorted(each["kind"] for each in proposals) == ["dream", *(["preferences"] if likes else [])], where
        assert {op["state"] for one in proposals for op in one["operations"]} == {"applied"}, f"{where}: {proposals}"
        mark = json.loads((home / dreamt_file("main")).read_text())
        assert mark["proposal"] in {each["id"] for each in proposals if each["kind"] == "dream"}, f"{where}: {mark}"

    return Work(DREAMT, make_sleeper, is_done, check, write_script, stride=227, later=80)


_BEFORE = {"CLAUDE.md": b"Be brief.\n", "summary.md": None, "MEMORY.md": b"# Ours\n"}
_AFTER = {"CLAUDE.md": b"Be kind.\nBe brief.\n", "summary.md": b"Tea.\n", "MEMORY.md": None}


def recorded_edits(nursery: Nursery, folder: Path) -> Work:
    """Edits that people made while no host ran are recorded."""
    home = folder / "looked-at"

    def save(texts: Mapping[str, bytes | None]) -> None:
        for name, text in texts.items():
            path = home / "groups" / "main" / name
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_bytes(text)

    make_home(home)
    save(_BEFORE)
    with nursery.serving(home, RECORDED_AT_ONCE):
        wait_until_looked_at(home)
    save(_AFTER)

    def is_done(home: Path) -> bool:
        return len(edits_in(home / JOURNAL_FILE, LogFilter("main"))) >= len(_AFTER)

    def check(home: Path, where: str) -> None:
        recorded = edits_in(home / JOURNAL_FILE, LogFilter("main"))
        found = {edit.file.removeprefix("groups/main/"): edit for edit in recorded}
        assert len(recorded) == len(found) == len(_AFTER), where
        for name, edit in found.items():
            before, after = (None if text is None else digest_of(text) for text in (_BEFORE[name], _AFTER[name]))
            assert (edit_of(edit)[1:3], edit.sender) == ((before, after), "human"), where

    return Work(RECORDED_AT_ONCE, copied(home), is_done, check, stride=47, later=20)


class Edited:
    """A home with two notes and two edits that are recorded, and the files before them."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self.home = folder / "edited"
        make_home(self.home)
        memory, persona = (self.home / "groups" / "main" / name for name in ("MEMORY.md", "CLAUDE.md"))
        ann = RawSender(self.home, sender="ann").make()
        with nursery.serving(self.home, RECORDED_AT_ONCE):
            wait_until_looked_at(self.home)
            for number in range(2):
                ann.do(f"a{number}", content=f"note {number}")
            settle(self.home)
            self.memory, self.persona = memory.read_bytes(), persona.read_bytes()
            memory.write_bytes(b"Above.\n" + self.memory.replace(b"note 1", b"nothing"))
            persona.write_bytes(b"Be kind.\n")
            self.seqs = {name: newest_edit(self.home, name).seq for name in ("MEMORY.md", "CLAUDE.md")}
        self.held = memory.read_bytes()

    def work(self, asked: Mapping[str, bytes], check: Callable[[Path, list[Row], bytes, str], None]) -> Work:
        """Return the work in which the operator asks for something while a note comes."""
        requests = {f"operator/{stem}": data for stem, data in asked.items()} | {
            "ann/n1": request("n1", content="note 2")
        }

        def check_all(home: Path, where: str) -> None:
            rows = read_log(home / JOURNAL_FILE, LogFilter("main"), 99)
            (note,) = (row.data for row in rows if row.request == "n1")
            check(home, [row for row in rows if row.sender == "operator"], note, where)
            left = [path.name for path in (home / "groups" / "main").iterdir() if path.name.startswith(".")]
            assert left == [], where

        return asked_of(self.home, requests, _ONE_BY_ONE, check_all, stride=113)


_edited = functools.cache(Edited)


def _undone(edited: Edited, asked: Mapping[str, bytes]) -> Work:
    def check(home: Path, rows: list[Row], note: bytes, where: str) -> None:
        changed = sorted((row.kind, row.file) for row in rows)
        assert changed == [("edit_undone", "groups/main/MEMORY.md"), ("text", "groups/main/CLAUDE.md")], where
        folder = home / "groups" / "main"
        assert (folder / "MEMORY.md").read_bytes() == edited.memory + note, where
        assert (folder / "CLAUDE.md").read_bytes() == edited.persona, where

    return edited.work(asked, check)


def undone_edits(nursery: Nursery, folder: Path) -> Work:
    """Two edits are undone."""
    edited = _edited(nursery, folder)
    seqs = [edited.seqs[name] for name in ("MEMORY.md", "CLAUDE.md")]
    return _undone(edited, {f"u{seq}": request(f"u{seq}", "undo", payload={"seq": seq}) for seq in seqs})


def rewind(nursery: Nursery, folder: Path) -> Work:
    """A group is brought back to what it was before two edits."""
    return _undone(_edited(nursery, folder), {"m1": request("m1", "rewind", payload={"to": "2"})})


def edited_note(nursery: Nursery, folder: Path) -> Work:
    """A note gets another text."""
    edited = _edited(nursery, folder)
    id_, place = next(iter(notes_of("main", edited.held).items()))

    def check(home: Path, rows: list[Row], note: bytes, where: str) -> None:
        (row,) = rows
        (hunk,) = hunks_of(row)
        new = b"".join(hunk.added)
        assert row.kind == "note_edited", where
        assert re.fullmatch(rb"## Notes \(operator, [\d :-]{16}\)\n- another text\n", new), where
        start, end = place.span
        held = edited.held[:start] + b"\n" + new + edited.held[end:] + note
        assert (home / "groups/main/MEMORY.md").read_bytes() == held, where

    asked = request("e1", "edit_note", payload={"id": id_, "content": "another text"})
    return edited.work({"e1": asked}, check)


SECRET = "the cellar key hangs behind the third barrel"
FORGETTING = {"ops.maintenance.CHECKPOINT_SECONDS": 0.05, "ops.forget.SETTLE_LOOK_SECONDS": 0.02}


def tell(home: Path) -> None:
    """Have four notes, entries and turns; the secret is in every other one."""
    ann = RawSender(home, sender="ann").make()
    for number in range(4):
        content = f"note {number}" if number % 2 else f"note {number}: {SECRET}"
        ann.do(f"n{number}", content=content)
        ann.do(f"e{number}", "save_memory", content=content, category="home")
        ann.do(f"t{number}", "append_turn", role="user", content=content)


def left_in(home: Path) -> list[str]:
    """Return the files in which the secret is, but for the request that names it."""
    files = [path for path in home.rglob("*") if path.is_file() and path.name != "f1.json"]
    return [str(path) for path in files if any(SECRET.encode() in text.lower() for text in _texts_in(path))]


def _texts_in(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, and every text that is compressed in it."""
    data = path.read_bytes()
    yield data
    for packed in re.finditer(rb"\x78\x01", data):
        with contextlib.suppress(zlib.error):
            yield zlib.decompressobj().decompress(data[packed.start() :])


TO_FORGET = {"operator/f1": request("f1", "forget", payload={"text": SECRET.upper()})}


def forget(nursery: Nursery, folder: Path) -> Work:
    """Something is forgotten that was said, written down and typed."""
    told = folder / "told"
    make_home(told)
    with nursery.serving(told, RECORDED_AT_ONCE):
        wait_until_looked_at(told)
        tell(told)
        (told / "groups/main/CLAUDE.md").write_text(f"Be kind.\n{SECRET}\nBe brief.\n")
        newest_edit(told, "CLAUDE.md")
        settle(told)

    def check(home: Path, where: str) -> None:
        reply = json.loads(reply_of(home, "operator/f1") or b"{}")
        assert reply["ok"], f"{where}: {reply}"
        assert reply["result"]["left"] == [], f"{where}: {reply}"
        assert left_in(home) == [], where
        rows = [row for row in read_log(home / JOURNAL_FILE, LogFilter("main"), 99) if row.sender == "ann"]
        assert [row.seq for row in rows] == list(range(13, 0, -1)), where
        group = home / "groups" / "main"
        memory = (group / "MEMORY.md").read_text()
        assert [memory.count(f"note {number}") for number in range(4)] == [0, 1, 0, 1], f"{where}: {memory}"
        assert "[forgotten]" not in memory, where
        assert (group / "CLAUDE.md").read_text() == "Be kind.\nBe brief.\n", where
        assert len(found_in(group / "memory" / "home")) == 2, where
        people = [edit.file for edit in edits_in(home / JOURNAL_FILE, LogFilter("main"))]
        assert people == ["groups/main/CLAUDE.md"], f"{where}: {people}"
        counts = {"meta WHERE key = 'forgetting'": 0, "tombstones": 1, "receipts WHERE sender = 'ann'": 12}
        with contextlib.closing(sqlite3.connect(home / JOURNAL_FILE)) as journal:
            for rows_of, count in counts.items():
                assert journal.execute(f"SELECT count(*) FROM {rows_of}").fetchone() == (count,), f"{where}: {rows_of}"
            kept = journal.execute("SELECT reply FROM receipts WHERE sender = 'operator' AND request = 'f1'").fetchall()
        assert [json.loads(data) for (data,) in kept] == [reply], where

    return asked_of(told, TO_FORGET, FORGETTING, check, stride=331)


_ARCHIVED = re.compile(
    rb"\n## Notes \(ann, [\d :-]{16}\)\n- note 1\n> Archived [\dTZ:-]{20} by operator: change 2 was undone\n"
    rb"\n## Notes \(ann, [\d :-]{16}\)\n- note 3\n> Archived [\dTZ:-]{20} by operator: change 4 was undone\n"
)


def removed_notes(nursery: Nursery, folder: Path) -> Work:
    """Two notes leave MEMORY.md for the archive while one comes."""
    home = folder / "four-notes"
    make_home(home)
    with nursery.serving(home, RECORDED_AT_ONCE):
        for number in range(4):
            RawSender(home, sender="ann").make().do(f"n{number}", content=f"note {number}")
        settle(home)
    requests = {
        "operator/u1": request("u1", "undo", payload={"seq": 2}),
        "ann/n4": request("n4", content="note 4"),
        "operator/u3": request("u3", "undo", payload={"seq": 4}),
    }

    def check(home: Path, where: str) -> None:
        group = home / "groups" / "main"
        notes = re.findall(rb"\n## Notes \(ann, [\d :-]{16}\)\n- (note \d)\n", (group / "MEMORY.md").read_bytes())
        assert notes == [b"note 0", b"note 2", b"note 4"], f"{where}: {(group / 'MEMORY.md').read_bytes()!r}"
        archive = (group / "archive" / "MEMORY.md").read_bytes()
        assert _ARCHIVED.fullmatch(archive), f"{where}: {archive!r}"
        assert [path.name for path in group.iterdir() if path.name.startswith(".")] == [], where
        assert all(json.loads(reply_of(home, name) or b"{}")["ok"] for name in requests), where

    return asked_of(home, requests, _ONE_BY_ONE, check, stride=61)


def contexts(nursery: Nursery, folder: Path) -> Work:
    """Contexts are served while notes come and the persona changes; each is shown again as it was served."""
    home, count = folder / "served", 3
    make_home(home)
    requests: dict[str, bytes] = {}
    for number in range(count):
        requests[f"ann/{number}c"] = request(f"{number}c", "get_context", payload={"message": f"Which note {number}?"})
        requests[f"ann/{number}n"] = request(f"{number}n", content=f"note {number}")

    def check(home: Path, where: str) -> None:
        served = [json.loads(reply_of(home, f"ann/{number}c") or b"{}")["result"] for number in range(count)]
        (home / "groups" / "main" / "CLAUDE.md").write_text("Be kind.\n")
        with nursery.serving(home):
            for number, shown in enumerate(served):
                again = RawSender(home, sender="ann").do(f"{number}a", "get_context", as_of=shown["hash"])
                assert again["system"] == shown["system"], where

    return asked_of(home, requests, _ONE_BY_ONE, check, stride=127)


FEATURES: Mapping[str, Callable[[Nursery, Path], Work]] = {
    made.__name__: made
    for made in (
        *(tasks, delegation, messages, consolidation, dream, forget, removed_notes),
        *(recorded_edits, undone_edits, rewind, edited_note, contexts),
    )
}
