"""Text as a page shows it."""

import re
import time
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.curation.proposal import Operation
from honeybadger_host.files.home import make_home
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.reader import CHANGE_KINDS, LogFilter
from honeybadger_host.journal.schema import connect
from honeybadger_host.ops.gist import WORDS
from honeybadger_host.text.neutralise import HIDDEN
from honeybadger_host.web.looking_back import look_back, newest_seq, note_history
from honeybadger_host.web.markdown import markdown
from honeybadger_host.web.needs import needs_of
from honeybadger_host.web.rendering import first_words
from honeybadger_host.web.review import gist_of_operation
from honeybadger_host.web.visits import Home


class _Read(HTMLParser):
    """Reads HTML as a browser does: its elements with their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, list[str]]] = []
        self.open: list[str] = []
        self.text_is_code = False  # of a character that hides
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, [name for name, _ in attributes]))
        self.text_is_code = ("class", "hidden-character") in attributes
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.text_is_code = False

    def handle_data(self, data: str) -> None:
        if not self.text_is_code:
            self.text += data


_TAGS = re.compile("p|br|ul|ol|li|blockquote|pre|code|hr|table|thead|tbody|tr|t[hd]|strong|em|s|span")
_MARKS = "`*_~|-#> 1.[]()!\\\n<script>&\"' a\u202e"


@given(st.text(st.sampled_from(_MARKS), max_size=120) | st.text(max_size=80))
def test_text_becomes_only_markdown_and_loses_no_word(text: str) -> None:
    read = _Read()
    read.feed(str(markdown(text)))
    read.close()
    assert read.open == []
    assert [tag for tag, _ in read.elements if not _TAGS.fullmatch(tag)] == []
    assert {name for _, names in read.elements for name in names} <= {"class", "start", "scope"}
    letters = {each for each in text if each.isalpha()} - {*HIDDEN.findall(text)}  # numbers of lists are attributes
    assert letters <= {*read.text}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **b** *c* `d <e>`", "<p>a <strong>b</strong> <em>c</em> <code>d &lt;e&gt;</code></p>"),
        ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
        ("# Title", '<p class="heading">Title</p>'),
        ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("> a\n> b", "<blockquote><p>a<br>b</p></blockquote>"),
        ("```sh\n**x**\n```\ny", '<p class="muted">sh</p><pre><code>**x**</code></pre><p>y</p>'),
        ("[x](javascript:y)", "<p>[x](javascript:y)</p>"),
        ("![x](http://e)", "<p>![x](http://e)</p>"),
        ("2 * 3 * 4 and snake_case_name and \\*no\\*", "<p>2 * 3 * 4 and snake_case_name and *no*</p>"),
        ("---", "<hr>"),
    ],
)
def test_markdown_is_shown_as_people_write_it(text: str, html: str) -> None:
    assert str(markdown(text)).replace("\n", "") == html


@pytest.mark.parametrize("text", ["[" * 20_000, ">" * 300 + " evil", "- " * 10_000, "*" * 20_000])
def test_a_slow_text_is_shown_plain_and_soon(text: str) -> None:
    begun = time.process_time()
    shown = str(markdown(text))
    assert time.process_time() - begun < 1.0
    assert "evil" in shown or "evil" not in text


@given(st.lists(st.text("abc,", min_size=1, max_size=40), min_size=1, max_size=40))
def test_first_words_end_between_two_words(words: list[str]) -> None:
    line = " ".join(words)
    shown = first_words(line)
    assert len(shown) <= 160
    if shown != line:
        kept = shown.removesuffix("…")
        assert line.startswith(kept)
        assert line[len(kept)] in " ,"


def test_a_nearly_spent_budget_comes_after_faults(tmp_path: Path) -> None:
    make_home(tmp_path)
    home = Home(tmp_path, True)
    budgets = [{"setting": name, "used": used, "limit": 1000} for name, used in (("near", 800), ("far", 799))]
    told = needs_of(home, {"curation": {"budgets": budgets}, "files_behind": ["groups/main/MEMORY.md"]})
    assert [(need.kind, need.text) for need in told] == [
        ("problem", "cannot be written now: groups/main/MEMORY.md"),
        ("budget", "near: 800 of 1,000 tokens are used"),
    ]
    assert needs_of(home, {}) == []


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with a note of `rare`, then 45,000 turns of `busy`."""
    path = tmp_path_factory.mktemp("journal") / "journal.db"
    Journal.open(path).close()
    turn = b'{"turn": 1, "sender": "ann", "content": "hello"}'
    with closing(connect(path)) as connection:
        rows = [(1, 1000, "rare", "cook", "r1", "note", "groups/rare/MEMORY.md", 0, b"\n## Notes (cook, x)\n- tea\n")]
        rows += [
            (seq, 1000 + seq, "busy", "ann", f"t{seq}", "turn", "data/sessions/busy/main.jsonl", 0, turn)
            for seq in range(2, 45_002)
        ]
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", rows)
        connection.execute("COMMIT")
    return path


def test_a_look_ends_and_resumes_where_it_ended(journal: Path) -> None:
    assert newest_seq(journal) == 45_001
    looks = [look_back(journal, LogFilter("rare"))]
    while not looks[-1].lines:
        looks.append(look_back(journal, LogFilter("rare", before=looks[-1].down_to)))
    assert [look.down_to for look in looks] == [25_002, 5_002, 0]
    (line,) = looks[-1].lines
    assert (line.seq, line.sender) == (1, "cook")
    assert note_history(journal, "rare", "## Notes (cook, x)\n- tea") == []  # it is not among the last changes


def test_every_kind_of_change_has_words() -> None:
    assert WORDS.keys() == CHANGE_KINDS


def test_a_proposed_note_is_named_by_its_text() -> None:
    note = Operation(n=1, op="add", result="Ann moves to Lisbon.", title="Dates")
    assert gist_of_operation(note) == "add: Ann moves to Lisbon."
