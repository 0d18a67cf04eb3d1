"""The story that producers dropped and saw, and whether the files tell the same one in the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from honeybadger_agent.mailbox import Mailbox, new_id
from honeybadger_agent.wire import GENERAL
from honeybadger_host.memory.entries.entry import entry_id
from honeybadger_host.text.labels import folded

Kind: TypeAlias = Literal["note", "turn", "entry", "move", "forget", "program"]
SESSION = "talk"  # of each group: what is said goes there
KEYED = "keyed"  # session of the turns with keys
BOXES = (("alpha", "ann"), ("alpha", "bob"), ("beta", "ann"), ("beta", "cid"))
_ENTRY = re.compile(rb"\n## Notes \((?P<by>[\w-]+), \d{4}-\d\d-\d\d \d\d:\d\d\)\n- (?P<body>[^\n]*(?:\n  [^\n]*)*)\n")


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as its sender knows it."""

    group: str
    sender: str
    request_id: str
    kind: Kind
    content: str
    data: bytes

    @property
    def name(self) -> str:
        return f"{self.group}/{self.sender}/{self.request_id} ({self.content[:30]!r})"


@dataclass(slots=True)
class Verdict:
    """The findings of the check; all empty: every request stands exactly once where it belongs."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)

    def add(self, other: Verdict) -> None:
        self.lost += other.lost
        self.doubled += other.doubled
        self.wrong += other.wrong

    def __str__(self) -> str:
        return "\n".join(
            f"{kind} {len(found)}: " + "; ".join(found[:5])
            for kind, found in (("lost", self.lost), ("doubled", self.doubled), ("wrong", self.wrong))
            if found
        )


class Story:
    """Requests dropped into a home and the replies seen so far."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.sent: list[Sent] = []
        self.acknowledged: dict[str, bytes] = {}
        """Request id -> bytes of the reply with ok:true; from then on a power cut must not take it."""
        self.refused: dict[str, bytes] = {}
        self.kept_lines: defaultdict[str, list[bytes]] = defaultdict(list)
        """Group -> lines an editor added to MEMORY.md."""
        self.taken_out: set[str] = set()
        """Notes, by their request, that a person deleted after they had settled."""
        self.gone: set[str] = set()
        """Requests whose removal is durable."""
        self._boxes = {box: Mailbox.of(home, *box) for box in BOXES}
        for mailbox in self._boxes.values():
            mailbox.create()

    def memory(self, group: str) -> Path:
        return self.home / "groups" / group / "MEMORY.md"

    def log(self, group: str, session: str = SESSION) -> Path:
        return self.home / "data" / "sessions" / group / f"{session}.jsonl"

    def drop(self, box: tuple[str, str], kind: Kind, content: str) -> Sent:
        """Publish one request as `Mailbox` does: written, fsynced, renamed."""
        request_id = new_id()
        request: dict[str, Any] = {"v": 1, "id": request_id}
        if kind == "note":
            request |= {"type": "update_memory", "payload": {"content": content}}
        elif kind == "entry":
            request |= {"type": "save_memory", "payload": {"content": content}}
        elif kind == "move":
            payload = {"id": entry_id(GENERAL, folded(content)), "category": "moved", "name": "group.md"}
            request |= {"type": "edit_memory", "payload": payload | {"content": f"{content}, edited"}}
        elif kind == "forget":
            request |= {"type": "delete_memory", "payload": {"id": entry_id(GENERAL, folded(content))}}
        elif kind == "program":
            request |= {"session": KEYED, **orjson.loads(content)}
        else:
            payload = {"role": "user", "content": content}
            request |= {"type": "append_turn", "session": SESSION, "payload": payload}
        sent = Sent(*box, request_id, kind, content, orjson.dumps(request))
        self.sent.append(sent)
        self._boxes[box].publish(request_id, sent.data)
        return sent

    def drop_some(self, rounds: int, *, may_forget: bool = False) -> None:
        """Drop a note and a turn of every sender in each round: some identical, some of several lines.

        In the first one, too, what all senders of a group know: one entry of it, said again by each.

        Args:
            may_forget: the entry of `beta` is removed in the second round, that of `alpha` is edited and moved, and
                programs keep turns and documents; only where nothing changes the order.
        """
        for number in range(rounds):
            for box in BOXES:
                text = "The same again." if number % 2 else f"{box[1]} says {number} in {box[0]}"
                self.drop(box, "note", text + ("\nand a second line" if number % 3 == 2 else ""))
                self.drop(box, "turn", f"{box[1]} asks {number}")
                if number == 0:
                    self.drop(box, "entry", f"{box[0]} is a group")
            if number == 1 and may_forget:
                self.drop(BOXES[-1], "forget", f"{BOXES[-1][0]} is a group")
                self.drop(BOXES[0], "move", f"{BOXES[0][0]} is a group")
                self._drop_programs(BOXES[0])
                self._drop_programs(BOXES[-1])

    def _drop_programs(self, box: tuple[str, str]) -> None:
        """Drop what a program sends that keeps turns by key and documents by name; see `_check_programs`."""

        def put(name: str, content: str) -> dict[str, Any]:
            return {"category": "store/docs", "name": name, "content": content, "replace": True}

        turns = [{"key": key, "role": "user", "content": f"turn {key}"} for key in "abcd"]
        gone = {"type": "delete_memory", "payload": {"category": "store/docs", "name": "gone"}}
        for type_name, payload in (
            ("append_turns", {"turns": turns[:2]}),
            ("append_turns", {"turns": turns[:3]}),
            ("withdraw_turns", {"from_turn": 3}),
            ("append_turns", {"turns": turns}),
            ("save_memory", put("one", "first")),
            ("save_memory", put("one", "last")),
            ("change_many", {"operations": [{"type": "save_memory", "payload": put("gone", "x")}]}),
            ("change_many", {"operations": [gone, {"type": "save_memory", "payload": put("two", "last")}]}),
        ):
            self.drop(box, "program", orjson.dumps({"type": type_name, "payload": payload}).decode())

    def look(self) -> None:
        """See the replies that came. One that cannot be read yet is none (a power cut may leave it empty)."""
        for mailbox in self._boxes.values():
            try:
                names = os.listdir(mailbox.root / "replies")
            except FileNotFoundError:
                continue
            for name in names:
                request_id = name.removesuffix(".json")
                if not name.endswith(".json") or request_id in self.acknowledged or request_id in self.refused:
                    continue
                data = mailbox.reply(request_id)
                if data is not None and is_reply(data):
                    (self.acknowledged if orjson.loads(data)["ok"] else self.refused)[request_id] = data

    def is_waiting(self) -> bool:
        """Return whether a request still lies in a box."""
        return any(os.listdir(mailbox.root / "requests") for mailbox in self._boxes.values())

    def retry(self) -> None:
        """Ask again, with the same bytes, for what has no reply and is not in its box: as the protocol allows."""
        for sent in self.sent:
            if sent.request_id not in self.acknowledged:
                mailbox = self._boxes[sent.group, sent.sender]
                if not mailbox.is_waiting(sent.request_id):
                    mailbox.publish(sent.request_id, sent.data)

    def bring_back(self, rng: random.Random) -> None:
        """Put a part of the removed requests back, as a power cut does that took the removal."""
        for sent in self.sent:
            mailbox = self._boxes[sent.group, sent.sender]
            if sent.request_id in self.gone or mailbox.is_waiting(sent.request_id):
                continue
            if rng.random() < 0.3:
                mailbox.publish(sent.request_id, sent.data)
            else:
                self.gone.add(sent.request_id)

    def check(self, *, is_ordered: bool = True, may_replies_vanish: bool = False) -> Verdict:
        """Compare all files with what was sent.

        Args:
            is_ordered: the notes of a sender stand in the order it sent them (an editor's save may break that).
            may_replies_vanish: the host wrote each reply, and a power cut may have taken it.
        """
        verdict = Verdict()
        for group in sorted({sent.group for sent in self.sent} | set(self.kept_lines)):
            self._check_notes(group, verdict, is_ordered=is_ordered)
            self._check_turns(group, verdict)
            self._check_entries(group, verdict)
            self._check_programs(group, verdict)
        self._check_replies(verdict, may_vanish=may_replies_vanish)
        self._check_journal(verdict)
        if self.is_waiting():
            verdict.wrong.append("a request was left in its box")
        dead = [str(path) for path in (self.home / "data" / "dead").rglob("*") if path.is_file()]
        verdict.wrong += [f"buried: {path}" for path in dead]
        return verdict

    def _check_notes(self, group: str, verdict: Verdict, *, is_ordered: bool) -> None:
        wanted = [
            (sent.sender, sent.content.replace("\n", "\n  "))
            for sent in self.sent
            if sent.kind == "note" and sent.group == group and sent.request_id not in self.taken_out
        ]
        found, lines = parse_memory(read(self.memory(group)), self.kept_lines[group], verdict.wrong)
        _count(f"{group}: note", wanted, found, verdict)
        for line, count in Counter(lines).items():
            if count != 1:
                verdict.doubled.append(f"{group}: line of the editor {line!r}: {count} times")
        verdict.wrong += [
            f"{group}: line of the editor lost: {line!r}" for line in self.kept_lines[group] if line not in lines
        ]
        if is_ordered and Counter(found) == Counter(wanted):
            _check_order(f"{group}: notes", wanted, found, verdict)

    def _check_turns(self, group: str, verdict: Verdict) -> None:
        sent_turns = {sent.request_id: sent for sent in self.sent if sent.kind == "turn" and sent.group == group}
        wanted = [(sent.sender, sent.request_id) for sent in sent_turns.values()]
        found: list[tuple[str, str]] = []
        numbers: list[int] = []
        text = read(self.log(group))
        if text and not text.endswith(b"\n"):
            verdict.wrong.append(f"{group}: the log does not end in a line end")
        for line in text.splitlines():
            try:
                turn = orjson.loads(line)
                sent = sent_turns[turn["request"]]
            except (orjson.JSONDecodeError, KeyError):
                verdict.wrong.append(f"{group}: torn or foreign line {line[:80]!r}")
                continue
            numbers.append(turn["turn"])
            found.append((turn["by"], turn["request"]))
            if turn["content"] != sent.content:
                verdict.wrong.append(f"{group}: turn {turn['turn']} has another text")
            reply = self.acknowledged.get(sent.request_id)
            if reply is not None and orjson.loads(reply)["result"]["turn"] != turn["turn"]:
                verdict.wrong.append(f"{group}: {sent.name} was told another number than {turn['turn']}")
        _count(f"{group}: turn", wanted, found, verdict)
        if numbers != list(range(1, len(numbers) + 1)):
            verdict.wrong.append(f"{group}: turns are numbered {numbers}")
        if Counter(found) == Counter(wanted):
            _check_order(f"{group}: turns", wanted, found, verdict)

    def _check_entries(self, group: str, verdict: Verdict) -> None:
        said = Counter(sent.content for sent in self.sent if sent.kind == "entry" and sent.group == group)
        forgotten = {sent.content for sent in self.sent if sent.kind == "forget" and sent.group == group}
        moved = {sent.content for sent in self.sent if sent.kind == "move" and sent.group == group}
        texts = {f"{content}, edited" if content in moved else content: content for content in said}
        wanted = [(group, text) for text, content in texts.items() if content not in forgotten]
        found: list[tuple[str, str]] = []
        for path in sorted((self.home / "groups" / group / "memory").rglob("[!.]*.json")):
            try:
                entry = orjson.loads(path.read_bytes())
            except orjson.JSONDecodeError:
                verdict.wrong.append(f"{path} is torn")
                continue
            if entry.get("name") in ("one", "two", "gone"):
                continue  # see `_check_programs`
            found.append((group, entry["content"]))
            content = texts.get(entry["content"], "")
            if content in moved and (path.parent.name, entry["name"]) != ("moved", "group.md"):
                verdict.wrong.append(f"{path} was not moved")
            if entry["reinforced"] != said[content] - 1:
                verdict.wrong.append(f"{group}: {entry['content']!r} was reinforced {entry['reinforced']} times")
        _count(f"{group}: entry", wanted, found, verdict)

    def _check_programs(self, group: str, verdict: Verdict) -> None:
        """Check that each turn is there once, in order, and of each document its last text."""
        sent = [sent for sent in self.sent if sent.kind == "program" and sent.group == group]
        if not sent:
            return
        lines = [orjson.loads(line) for line in read(self.log(group, KEYED)).splitlines()]
        keys = [line["key"] for line in lines if "key" in line]
        _count(f"{group}: turn with a key", [(group, key) for key in "abcd"], [(group, key) for key in keys], verdict)
        if keys != sorted(keys):
            verdict.wrong.append(f"{group}: turns with keys are in the order {keys}")
        if (withdrawn := [line["withdrawn"] for line in lines if "withdrawn" in line]) != [[[3, 3]]]:
            verdict.wrong.append(f"{group}: turns withdrawn are {withdrawn}")
        replies = [self.acknowledged.get(one.request_id) for one in sent]
        results = [orjson.loads(reply)["result"] for reply in replies if reply]
        added = [result["added"] for result in results if "added" in result]
        if len(results) == len(sent) and added != [2, 1, 1]:
            verdict.wrong.append(f"{group}: a program was told that {added} turns were new")
        paths = (self.home / "groups" / group / "memory" / "store").rglob("[!.]*.json")
        entries = [orjson.loads(path.read_bytes()) for path in paths]
        documents = sorted((entry["name"], entry["content"]) for entry in entries)
        _count(f"{group}: document", [("one", "last"), ("two", "last")], documents, verdict)

    def _check_replies(self, verdict: Verdict, *, may_vanish: bool) -> None:
        sequence: list[int] = []
        for sent in self.sent:
            seen = self.acknowledged.get(sent.request_id)
            data = self._boxes[sent.group, sent.sender].reply(sent.request_id)
            if sent.request_id in self.refused:
                verdict.wrong.append(f"{sent.name} was refused: {self.refused[sent.request_id]!r}")
            elif seen is None or (data is None and not may_vanish):
                verdict.wrong.append(f"{sent.name} has no reply")
            elif data is not None and data != seen and (is_reply(data) or not may_vanish):
                verdict.wrong.append(f"{sent.name} was answered twice: {seen!r}, then {data!r}")
            if seen is not None:
                sequence.append(orjson.loads(seen)["seq"])
        if len(set(sequence)) != len(sequence):
            verdict.wrong.append("two replies have one seq")

    def _check_journal(self, verdict: Verdict) -> None:
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.home}/data/journal.db?mode=ro", uri=True)) as journal:
                receipts = {row[0]: row[1] for row in journal.execute("SELECT request, reply FROM receipts")}
                # a turn may compact, too; people's edits have no request, and may be several of one file
                changes = Counter(journal.execute("SELECT request, file FROM changes WHERE request <> ''"))
                problems = journal.execute("PRAGMA integrity_check").fetchone()[0]
        except sqlite3.Error as error:
            verdict.wrong.append(f"journal: {error}")
            return
        if problems != "ok":
            verdict.wrong.append(f"journal: {problems}")
        for request_id, reply in self.acknowledged.items():
            if receipts.get(request_id) != reply:
                verdict.wrong.append(f"the receipt of {request_id} is not what its sender was told")
        verdict.doubled += [
            f"journal: {name} changed {file} {count} times"
            for (name, file), count in changes.items()
            if count > 1 and not file.endswith(f"/{KEYED}.jsonl")  # a request appends several turns there
        ]


@contextlib.contextmanager
def producing(
    story: Story, boxes: Sequence[tuple[str, str]], pause: float, words: str = "", *, alike: int = 2
) -> Iterator[None]:
    """Let each sender drop notes and turns, some alike, with pauses of some seconds, while the block lasts."""
    is_over = threading.Event()

    def produce(box: tuple[str, str]) -> None:
        for number in itertools.count():
            if is_over.wait(pause):
                return
            story.drop(box, "turn" if number % 4 == 0 else "note", f"{box[1]} says {number // alike}{words}")

    threads = [threading.Thread(target=produce, args=(box,), daemon=True) for box in boxes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def read(path: Path) -> bytes:
    """Return the bytes of a file; of one that is not there, none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def is_reply(data: bytes) -> bool:
    """Return whether it is a whole reply: a power cut may leave an empty file, or a part of one."""
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return data.endswith(b"\n")


def parse_memory(
    text: bytes, kept_lines: Sequence[bytes], torn: list[str]
) -> tuple[list[tuple[str, str]], list[bytes]]:
    """Return the notes as (author, body) and the editor's lines; what is neither goes to `torn`."""
    notes: list[tuple[str, str]] = []
    lines: list[bytes] = []
    at = 0
    while at < len(text):
        if match := _ENTRY.match(text, at):
            notes.append((match["by"].decode(), match["body"].decode()))
            at = match.end()
            continue
        end = text.find(b"\n", at) + 1 or len(text)
        line = text[at:end]
        if line.strip() in kept_lines:
            lines.append(line.strip())
            if text.startswith(b"## ", end):
                end -= 1  # an older text ended within the note's own line end: nothing but the blank line is missing
        else:
            end = text.find(b"\n## ", at + 1)
            end = len(text) if end < 0 else end
            torn.append(f"torn: {text[at:end][:120]!r}")
        at = end
    return notes, lines


def _count(what: str, wanted: Iterable[tuple[str, str]], found: Iterable[tuple[str, str]], verdict: Verdict) -> None:
    expected, there = Counter(wanted), Counter(found)
    verdict.lost += [f"{what} of {by}: {text[:60]!r}" for by, text in (expected - there).elements()]
    verdict.doubled += [f"{what} of {by}: {text[:60]!r}" for by, text in (there - expected).elements()]


def _check_order(
    what: str, wanted: Sequence[tuple[str, str]], found: Sequence[tuple[str, str]], verdict: Verdict
) -> None:
    for sender in {by for by, _ in wanted}:
        if [item for item in found if item[0] == sender] != [item for item in wanted if item[0] == sender]:
            verdict.wrong.append(f"{what} of {sender} are out of order")
