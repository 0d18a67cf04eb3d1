"""Files read by another process: the index is the same, and whatever becomes of that process, nothing is missing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from array import array
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from honeybadger_host.daemon import build
from honeybadger_host.domain import Turn
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.search import index as index_module
from honeybadger_host.search.frames import NoFrame, frame, take_frame
from honeybadger_host.search.index import Index
from honeybadger_host.search.index_db import IndexFile
from honeybadger_host.search.numbering import Glossary, Numbering
from honeybadger_host.search.parser import Reading, Task
from honeybadger_host.search.reading_process import ReadingFailed, ReadingProcess
from honeybadger_host.search.sources import Source
from honeybadger_host.settings import load_settings
from honeybadger_host.storage.home import make_home
from tests.hosting import wait_for

NOW = datetime(2026, 11, 21, 6, 5, tzinfo=UTC)
PYTHON = [sys.executable, "-I", "-c"]
OLD = "import os; from honeybadger_host.search.frames import frame; os.write(1, frame('0.0.0/0')); os.read(0, 1 << 20)"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few files be many: another process is used for 4 of them, in slices of 3."""
    monkeypatch.setattr(index_module, "_WORTH_A_PROCESS", 4)
    monkeypatch.setattr(index_module, "_AT_ONCE", 3)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "data").mkdir(parents=True)
    return folder


@pytest.fixture
def process(home: Path) -> Iterator[ReadingProcess]:
    """One that is ready."""
    process = ReadingProcess(home)
    begin(process)
    yield process
    process.end()


@pytest.fixture
def opened(home: Path) -> Iterator[Callable[..., Index]]:
    """Open indexes in memory, which are closed with the test."""
    indexes: list[Index] = []

    def opened(process: ReadingProcess | None = None) -> Index:
        indexes.append(Index(home, None, max_memory_bytes=1 << 24, process=process))
        return indexes[-1]

    yield opened
    for index in indexes:
        index.close()


def begin(process: ReadingProcess) -> None:
    process.start()
    wait_for(process.is_ready, 60)


def asked(process: ReadingProcess, source: Source) -> tuple[list[Reading], Glossary]:
    process.ask([Task(source)])
    answer = wait_for(lambda: process.take(1))
    assert answer is not None
    return answer


def put(home: Path, file: str, data: bytes | str) -> str:
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    os.utime(path, (1e9, 1e9))
    return file


def entry(home: Path, key: str, content: str, group: str = "main", **more: object) -> str:
    return put(home, f"groups/{group}/memory/food/{key}.json", orjson.dumps({"content": content, **more}))


def turns(*contents: str) -> bytes:
    return b"".join(dump_turn(Turn(n, NOW, "user", "ann", "front", c, 1), f"r{n}") for n, c in enumerate(contents, 1))


def fill(home: Path, count: int = 20) -> None:
    for number in range(count):
        entry(home, f"e{number}", f"number{number} of many")


def read_some(index: Index, process: ReadingProcess) -> int:
    """Read until something is indexed, and more is being read; return the number of the process."""
    while not index.documents:
        assert index.work()
    assert process.pid is not None
    return process.pid


def finish(index: Index) -> None:
    while index.work():
        pass


def rows(index: Index) -> list[Any]:
    """Return all documents with their terms as words, and all files, without the numbers that depend on the order."""
    words = dict(index._db.rows("SELECT number, term FROM terms"))
    columns = "file, kind, key, author, role, at, category, tags, length, known_by, digest, name, title, bytes, text"
    query = f"SELECT {columns}, terms FROM docs JOIN sources ON sources.number = source"
    documents = [(*row[:-1], [words[term] for term in array("I", row[-1])]) for row in index._db.rows(query)]
    files = index._db.rows("SELECT file, inode, mark, problem FROM sources")  # what is young has no size yet
    return sorted(documents, key=repr) + sorted(files)


def contents(index: Index) -> list[str]:
    return [text for (text,) in index._db.rows("SELECT text FROM docs ORDER BY text")]


def test_another_process_makes_the_same_index(
    home: Path, opened: Callable[..., Index], process: ReadingProcess
) -> None:
    fill(home)
    entry(home, "full", "Likes tea\u00e4 \u2013 \u5c0f", tags=["Tea", "B"], title="Tee", updated="2026-05-03T10:00:00Z")
    entry(home, "named", "a document", name="a.md", metadata={"a": 1}, by="ann", aliases=["x y"])
    entry(home, "else", "of another group", group="kitchen")
    put(home, "groups/main/memory/food/bad.json", "{")
    put(home, "groups/main/memory/food/blank.json", '{"content": " "}')
    put(home, "groups/main/memory/food/surrogate.json", b'{"content": "\\ud800"}')
    put(home, "groups/main/memory/food/deep.json", '{"content": "a", "b": ' + "[" * 300 + "]" * 300 + "}")
    put(home, "groups/main/memory/food/large.json", b'{"content": "' + b"x " * (1 << 20) + b'"}')
    put(home, "groups/main/memory/food/name of none.json", '{"content": "a"}')
    put(home, "groups/main/memory/food/" + os.fsdecode(b"\xff.json"), '{"content": "a"}')
    put(home, "groups/main/MEMORY.md", "before\n\n## Notes (ann, 2026-11-21 06:05)\n- one\n\n## Notes\n- two\n")
    put(home, "groups/main/HISTORY.md", "[2026-05-03] first\n\nsecond\n")
    put(home, "data/sessions/main/main.jsonl", turns("hello", "again") + b"no turn\n" + turns("more") + b'{"turn')
    put(home, "data/sessions/main/long.jsonl", turns(*(f"turn{n} " + "word " * 400 for n in range(300))))
    (home / "groups/main/memory/food/link.json").symlink_to("full.json")
    os.mkfifo(home / "groups/main/memory/food/pipe.json")
    (home / "groups/main/memory/food/broken.json").symlink_to("/nowhere")
    here, there = opened(), opened(process)
    for index in (here, there):
        assert sum(index.compare(group) for group in ("main", "kitchen")) == 36
    pid = process.pid
    with capture_logs() as logs:
        finish(there)
    elsewhere = {(each["event"], each["file"]) for each in logs}
    assert pid is not None
    assert process.pid is None, "it ends when nothing is left"
    with capture_logs() as logs:
        finish(here)
    assert {(each["event"], each["file"]) for each in logs} == elsewhere
    assert rows(here) == rows(there)
    assert here.lookups.problems() == there.lookups.problems()
    assert [file.rpartition("/")[2] for file, _ in there.lookups.problems()] == [
        *("bad.json", "blank.json", "broken.json", "deep.json", "large.json", "link.json", "name of none.json"),
        *("pipe.json", "surrogate.json"),
    ]
    assert len(contents(there)) == 20 + 3 + 3 + 2 + 3 + 300


def test_what_was_indexed_is_followed_by_another_process(
    home: Path, opened: Callable[..., Index], process: ReadingProcess
) -> None:
    fill(home, 10)
    log = put(home, "data/sessions/main/main.jsonl", turns("hello", "again"))
    index = opened(process)
    index.compare("main")
    finish(index)
    for number in range(5):
        entry(home, f"e{number}", f"changed{number}")
    (home / "groups/main/memory/food/e9.json").unlink()
    with (home / log).open("ab") as file:
        file.write(dump_turn(Turn(3, NOW, "user", "ann", "front", "third", 1), "r3"))
    begin(process)
    index._group("main").backlog.update({f"groups/main/memory/food/e{n}.json": None for n in range(10)} | {log: None})
    assert index.waiting == 11
    finish(index)
    fresh = opened()
    fresh.compare("main")
    finish(fresh)
    assert rows(index) == rows(fresh)
    assert index.documents == len(contents(index)) == 9 + 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_dies_costs_no_file_and_none_is_indexed_twice(
    home: Path, opened: Callable[..., Index], process: ReadingProcess, number: signal.Signals
) -> None:
    fill(home)
    index = opened(process)
    index.compare("main")
    pid = read_some(index, process)
    os.kill(pid, number)
    with capture_logs() as logs:
        finish(index)
    assert [each["error"] for each in logs if each["event"] == "index.process_failed"] == [
        f"it was ended by {number.name}"
    ]
    assert contents(index) == sorted(f"number{number} of many" for number in range(20))
    assert process.pid is None
    assert index.waiting == 0


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/nowhere/python"], "it cannot be started: "),
        ([*PYTHON, "print('hello')"], "it answered nonsense: b'hello\\n'"),
        ([*PYTHON, "import no_such_module"], "it ended with code 1: ModuleNotFoundError: No module named 'no_such_m"),
        ([*PYTHON, "import os; os.close(1); os.read(0, 1 << 20); os.read(0, 1)"], "it closed its pipe"),
        ([*PYTHON, f"import sys; sys.path[:] = {sys.path!r}; {OLD}"], "it is '0.0.0/0', this host is "),
    ],
    ids=["no program", "nonsense", "an error", "closed", "another version"],
)
def test_without_a_process_that_answers_the_host_reads_itself_and_says_so_once(
    home: Path, opened: Callable[..., Index], command: list[str], why: str
) -> None:
    process = ReadingProcess(home, command=command, rest_seconds=1000)
    index = opened(process)
    fill(home)
    backlog = index._group("main").backlog
    files = {f"groups/main/memory/food/e{number}.json": None for number in range(20)}

    def has_failed() -> bool:
        backlog.update(files)
        index.work()
        return process.pid is None and not process.may_start

    with capture_logs() as logs:
        wait_for(has_failed, 60)
        for _ in range(3):
            backlog.update(files)
            finish(index)
    failed = [each["error"] for each in logs if each["event"] == "index.process_failed"]
    assert len(failed) == 1
    assert failed[0].startswith(why)
    assert len(contents(index)) == 20


def test_a_process_that_never_becomes_ready_is_ended(home: Path) -> None:
    process = ReadingProcess(home, command=[*PYTHON, "import time; time.sleep(60)"], answer_seconds=0.2)
    process.start()
    pid = process.pid
    assert pid is not None
    with pytest.raises(ReadingFailed, match="did not answer for"):
        wait_for(process.is_ready, 30)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_hangs_is_ended_and_its_files_are_read_here(home: Path, opened: Callable[..., Index]) -> None:
    process = ReadingProcess(home, answer_seconds=30)
    begin(process)
    process._answer_seconds = 0.5
    fill(home)
    index = opened(process)
    index.compare("main")
    pid = read_some(index, process)
    os.kill(pid, signal.SIGSTOP)
    with capture_logs() as logs:
        finish(index)
    assert [each["error"] for each in logs] == ["it did not answer for 0.5 s"]
    assert len(contents(index)) == 20
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_answer_that_makes_no_sense_is_not_taken(home: Path, process: ReadingProcess) -> None:
    entry(home, "one", "text")
    source = Source("groups/main/memory/food/one.json", "entry", "main")
    readings, glossary = asked(process, source)
    assert readings[0].found[0][0].text == "text"
    process._received += frame((len(glossary.words), [], [(None, 0, [])]))  # what nobody asked for
    with pytest.raises(ReadingFailed, match="nonsense: nobody asked for that"):
        process.take(1)
    assert process.pid is None
    assert not process.may_start


def test_a_file_changed_while_it_is_read_elsewhere_is_found_as_it_is_now(
    home: Path, opened: Callable[..., Index], process: ReadingProcess
) -> None:
    fill(home)
    index = opened(process)
    index.compare("main")
    index._group("main").backlog.update(dict.fromkeys(index._group("main").fresh))
    index._group("main").fresh.clear()
    read_some(index, process)
    sent = list(index._group("main").sent)
    assert sent, "a slice is being read"
    for file in sent:
        put(home, file, '{"content": "edited"}')
        index.touch(file)
    _, is_complete = index.search("main", len)  # reads what was touched, here
    assert not is_complete
    assert contents(index).count("edited") == len(sent)
    finish(index)  # the older answer comes behind it
    assert contents(index).count("edited") == len(sent)
    assert index.documents == len(contents(index)) == 20


def test_a_search_does_not_wait_for_another_process_and_says_what_is_missing(
    home: Path, opened: Callable[..., Index], process: ReadingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "_NOW", 5)  # more than that is read in the background
    fill(home)
    index = opened(process)
    index.compare("main")
    pid = read_some(index, process)
    os.kill(pid, signal.SIGSTOP)
    found, is_complete = index.search("main", len)
    assert found == index.documents
    assert not is_complete
    assert not index.is_idle
    os.kill(pid, signal.SIGCONT)
    finish(index)
    assert index.search("main", len) == (20, True)
    assert index.is_idle


def test_what_the_next_search_must_know_is_not_waited_for_elsewhere(
    home: Path, opened: Callable[..., Index], process: ReadingProcess
) -> None:
    fill(home)
    index = opened(process)
    index.compare("main")  # few enough for the next search
    pid = read_some(index, process)
    os.kill(pid, signal.SIGSTOP)
    assert index.search("main", len) == (20, True)
    os.kill(pid, signal.SIGCONT)
    finish(index)
    assert len(contents(index)) == 20


def test_an_index_made_anew_while_files_are_read_elsewhere_has_all_of_them(
    home: Path, opened: Callable[..., Index], process: ReadingProcess
) -> None:
    fill(home)
    index = opened(process)
    index.compare("main")
    while index.documents < 6:
        assert index.work()
    index._db.make_anew("a test")
    index.compare("main")
    finish(index)
    fresh = opened()
    fresh.compare("main")
    finish(fresh)
    assert rows(index) == rows(fresh)


def test_signals_from_a_terminal_or_a_service_manager_do_not_end_it(home: Path, process: ReadingProcess) -> None:
    entry(home, "one", "text")
    assert process.pid is not None
    assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process.pid, number)
    readings, glossary = asked(process, Source("groups/main/memory/food/one.json", "entry", "main"))
    said, terms = readings[0].found[0]
    assert said.text == "text"
    assert isinstance(terms, bytes)
    assert glossary.terms(terms) == ["text", "food"]


def test_a_corpus_in_memory_is_told_what_another_process_read(
    home: Path, opened: Callable[..., Index], process: ReadingProcess
) -> None:
    entry(home, "first", "first")
    index = opened(process)
    assert index.search("main", len) == (1, True)
    fill(home)
    index._group("main").backlog.update({f"groups/main/memory/food/e{number}.json": None for number in range(20)})
    finish(index)
    frequency = index.search("main", lambda corpus: len(corpus.postings(corpus.vocabulary["number7"])))
    assert frequency == (1, True)


def test_words_are_numbered_again_when_there_are_too_many() -> None:
    numbering, glossary = Numbering(most_words=2), Glossary()
    for terms in (["a", "b", "a"], ["b", "c"], ["d", "a"], []):
        numbers = numbering.numbers(terms)
        first, words = numbering.news()
        if first == 0:
            glossary = Glossary()
        assert first == len(glossary.words)
        glossary.words += words
        assert glossary.terms(numbers) == terms
        numbering.shorten()


def test_a_number_of_a_word_that_was_not_kept_is_looked_up_again() -> None:
    file, glossary = IndexFile(None, lambda: None), Glossary()
    glossary.words += ["tea", "milk"]
    text = array("I", [1, 0, 1]).tobytes()
    with contextlib.suppress(InterruptedError), file.transaction() as db:
        assert file.renumbered(db, glossary, [text]) == file.packed(db, [["milk", "tea", "milk"]])
        raise InterruptedError
    with file.transaction() as db:
        db.execute("INSERT INTO terms VALUES (1, 'another'), (2, 'word')")
    with file.transaction() as db:
        glossary.words.append("sugar")
        text = array("I", [2, 0, 1]).tobytes()
        assert file.renumbered(db, glossary, [text]) == file.packed(db, [["sugar", "tea", "milk"]])
    numbers = dict(file.rows("SELECT term, number FROM terms"))
    assert sorted(numbers) == ["another", "milk", "sugar", "tea", "word"]
    assert glossary.numbers == [numbers[word] for word in glossary.words]
    file.close()


class Called:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.getpid, ()


def test_only_whole_frames_of_plain_values_are_taken() -> None:
    value = ("caf\u00e9", os.fsdecode(b"\xff"), "\ud800", 1.5, None, b"\0", [(-1, 1 << 63)])
    whole = frame(value) + frame("next")
    received = bytearray()
    taken = []
    for byte in whole:
        received.append(byte)
        if (found := take_frame(received)) is not None:
            taken.append(found)
    assert taken == [value, "next"]
    assert not received
    for wrong in (b"hello", b"HBR2" + bytes(20), frame("x")[:-1] + b"y", frame(Called()), b"HBR1" + b"\xff" * 20):
        with pytest.raises(NoFrame):
            take_frame(bytearray(wrong))


def test_an_operator_can_switch_it_off(tmp_path: Path) -> None:
    home = tmp_path / "served"
    make_home(home)
    for is_on in (True, False):
        host = build(home, load_settings(home, {"recall.reading_process": is_on}).settings)
        assert (host.index._process is not None) == is_on
        host.close()
