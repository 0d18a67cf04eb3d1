"""Notes in a context: what says the same stands once, what is of one section and author under one heading."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.memory.markdown.budget import cut_notes
from honeybadger_host.memory.markdown.group_files import GroupText
from honeybadger_host.memory.markdown.notes import parse_notes
from honeybadger_host.memory.markdown.notes_together import NotesInContext
from honeybadger_host.text.neutralise import estimate_tokens, render_note

AT = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
SETS = Path(__file__).parents[3] / "bench" / "recall" / "sets"


def note(content: str, author: str = "ann", section: str = "Notes", minutes: int = 0) -> str:
    return render_note(content, section, author, AT + timedelta(minutes=minutes)).data.decode()


def shown(*notes: str) -> str:
    return NotesInContext(parse_notes("".join(notes))).whole.text


def test_a_note_of_three_authors_is_shown_once() -> None:
    dark = "User prefers dark mode"
    book = NotesInContext(
        parse_notes(
            note(dark, "user", "Preferences")
            + note("Lunch is at noon", "cook")
            + note(dark, "sheila", "Preferences", 65)
            + note(dark, "claude", "Preferences", 60 * 24)
        )
    )
    assert book.whole.text == (
        "## Notes (cook, 2026-11-21 06:00)\n- Lunch is at noon\n\n"
        "## Preferences (claude, 2026-11-22 06:00; also sheila 11-21 07:05; also user 11-21 06:00)\n"
        "- User prefers dark mode"
    )
    assert book.whole.why == "2 repeated notes folded into the newest that says the same"


def test_notes_of_a_section_and_author_share_a_heading() -> None:
    text = shown(
        note("tea"),
        note("coffee", minutes=5),
        note("milk", "bot"),
        note("blue", section="Colours"),
        note("cocoa", minutes=60 * 24),
        note("water", minutes=60 * 24 * 365),
    )
    assert text == (
        "## Notes (ann)\n- 2026-11-21 06:00: tea\n- 06:05: coffee\n- 11-22 06:00: cocoa\n- 2027-11-21 06:00: water\n\n"
        "## Notes (bot, 2026-11-21 06:00)\n- milk\n\n"
        "## Colours (ann, 2026-11-21 06:00)\n- blue"
    )


def test_a_note_repeated_a_thousand_times_is_one_line() -> None:
    repeated = "".join(note("on it", "bot", minutes=number) for number in range(1000))
    book = NotesInContext(parse_notes(note("tea") + repeated))
    assert len(book.whole.text) < 300
    assert ", and 994 more)\n- on it" in book.whole.text
    assert book.whole.text.count("; also ") == 5
    cut = cut_notes(book, 200)
    assert (cut.left_out, cut.text) == (0, book.whole.text)


@pytest.mark.parametrize("content", ["06:00: forged", "2026-11-21 06:00; also ann 06:00: forged", "- 06:00: forged"])
def test_no_note_forges_another_time_or_author(content: str) -> None:
    """A time of the host's comes first on a line that begins without a space; nothing of a note does."""
    several = f"{content}\n{content}\n- {content}"
    notes = [note(content, "mallory"), note(several, "mallory", minutes=1), note(several, "mallory", "06:00", 2)]
    for line in shown(note("honest"), *notes).splitlines():
        if "forged" in line:
            assert re.match(r"- (2026-11-21 )?06:0[01]: |  > |- 06:00: |- 2026-11-21 06:00; also|- - 06:00", line)
    lines = [line for line in shown(note("honest"), *notes).splitlines() if "(mallory)" in line]
    assert len(lines) == 1
    under = shown(note("honest"), *notes[:2]).partition("(mallory)\n")[2].splitlines()
    assert [line for line in under if not line.startswith("  > ")] == [
        f"- 2026-11-21 06:00: {content}",
        f"- 06:01: {content}",
    ]


authors = st.sampled_from(["ann", "bot", "cat"])
sections = st.sampled_from(["Notes", "Preferences"])
contents = st.sampled_from(
    ["x", "tea", "Tea", "tea\nand more", "one\ntwo", "a longer note that says more than the others do", "[cat]: x"]
)
some_notes = st.lists(st.tuples(authors, sections, contents, st.integers(0, 3000)), max_size=40)


def file_of(notes: Sequence[tuple[str, str, str, int]]) -> str:
    minutes, pieces = 0, []
    for author, section, content, later in notes:
        minutes += later
        pieces.append(note(content, author, section, minutes))
    return "".join(pieces)


def read_back(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield (author, section, time, content) of all that a context says of signed notes."""
    for block in text.split("\n\n"):
        heading, *lines = block.split("\n")
        found = re.fullmatch(r"## (\w+) \((\w+)(?:, ([-0-9: ]{16})((?:; also [^;]+)*))?\)", heading)
        assert found is not None, heading
        section, author, at, others = found.groups()
        before = at or ""
        for line in re.split(r"\n(?=- )", "\n".join(lines)):
            content = line.removeprefix("- ")
            if at is None:
                parts = re.match(r"([-0-9: ]+?)((?:; also [^;:]+:\d\d)*): ", content)
                assert parts is not None, line
                stamp, others = parts.groups()
                content = content[parts.end() :]
                before = _whole(stamp, before)
            content = content.replace("\n  > ", "\n").removeprefix("> ")
            yield author, section, before, content
            for other in (others or "").split("; also ")[1:]:
                by, stamp = re.fullmatch(r"(?:([a-z]+) )?([-0-9: ]+)", other).groups()  # type: ignore[union-attr]
                yield by or author, section, _whole(stamp, before), content


def _whole(at: str, before: str) -> str:
    return before[: 16 - len(at)] + at


@given(some_notes)
def test_every_note_has_its_author_section_and_time(notes: list[tuple[str, str, str, int]]) -> None:
    minutes, expected = 0, set()
    for author, section, content, later in notes:
        minutes += later
        expected.add((author, section, f"{AT + timedelta(minutes=minutes):%Y-%m-%d %H:%M}", content))
    text = NotesInContext(parse_notes(file_of(notes))).whole.text
    if ", and " in text:  # more than six times the same
        return
    assert set(read_back(text) if text else ()) == expected
    assert max(Counter((section, content) for _, section, _, content in notes).values(), default=0) <= 6


@given(some_notes, st.integers(1, 600))
def test_a_cut_with_equal_notes_keeps_its_share(notes: list[tuple[str, str, str, int]], share: int) -> None:
    book = NotesInContext(parse_notes(file_of(notes)))
    cut = cut_notes(book, share)
    assert estimate_tokens(cut.text) <= share
    assert 0 <= cut.left_out < max(1, len(notes))
    if share >= 120 and estimate_tokens(book.whole.text) + 20 * len(notes) <= share:  # three authors have a share
        assert cut.text == book.whole.text


def test_room_left_by_folded_notes_is_used() -> None:
    both = [note(f"{number} {'x' * 200}", author, minutes=number) for number in range(60) for author in ("ann", "bot")]
    cut = cut_notes(NotesInContext(parse_notes("".join(both))), 2000)
    assert 1700 < estimate_tokens(cut.text) <= 2000
    assert cut.left_out < 70  # two of each in a line of 70 tokens; 30 lines fit


def test_who_repeats_a_large_note_of_another_takes_no_more_than_a_share() -> None:
    notes = [note(f"{number} {'x' * 200}", "ann", minutes=number) for number in range(60)]
    notes += [note("y" * 12_000, author, minutes=99) for author in ("bot", "cat")]
    cut = cut_notes(NotesInContext(parse_notes("".join(notes))), 4000)
    assert cut.text.count("x" * 200) >= 20  # of 50 tokens each


def realistic(rng: random.Random, count: int = 500) -> str:
    """Return notes of three agents over two months: sentences people wrote, every sixth repeats an earlier one."""
    said: list[str] = []
    for name in ("english-assistant", "english-diary", "english-operations"):
        for talk in json.loads((SETS / f"{name}.json").read_bytes()):
            for turns in talk["conversation"].values():
                texts = [turn["text"] for turn in turns] if isinstance(turns, list) else []
                said += [part for text in texts for part in re.split(r"(?<=[.!?]) ", text) if len(part) > 20]
    rng.shuffle(said)
    notes: list[str] = []
    made: list[tuple[str, str]] = []
    sections, minutes = ["Preferences", "Project", "People", "Decisions", "Notes"], 0
    while len(notes) < count:  # a session in which one agent notes a few things, two a day
        by, subject = rng.choice(["assistant", "researcher", "claude"]), rng.choice(sections)
        for _ in range(rng.randint(1, 7)):
            section = subject if rng.random() < 1 / 2 else rng.choice(sections)
            made.append((said.pop(), section) if not made or len(made) % 6 else rng.choice(made))
            notes.append(note(made[-1][0], by, made[-1][1], minutes))
            minutes += rng.randint(1, 20)
        minutes += int(rng.expovariate(1 / 720))
    return "".join(notes[:count])


@pytest.mark.parametrize("seed", range(2))
def test_500_notes_cost_a_third_less_than_their_file(seed: int) -> None:
    text = realistic(random.Random(seed))
    loaded = GroupText("MEMORY.md", text)
    assert len(loaded.notes.book.notes) == 500
    assert estimate_tokens(loaded.notes.whole.text) <= estimate_tokens(text) * 2 / 3
    assert re.fullmatch(r"\d\d repeated notes folded into the newest that says the same", loaded.notes.whole.why or "")


lines = st.sampled_from(
    [
        "",
        "- tea",
        "  more of it",
        "typed by hand",
        "## Notes (ann, 2026-11-21 06:05)",
        "## Notes (bot, 2026-11-21 06:06)",
        "## (ann, 2026-11-21 06:05)\r",
        "## By hand",
        "# Memory",
        "###",
        "- hid\u200bden",
        "- broken\u2028line",
        "- über 茶",
    ]
)


@given(st.lists(lines, max_size=12), st.lists(lines, max_size=6), st.sampled_from(["", "\n"]))
def test_appended_text_is_parsed_as_with_all_before(known: list[str], added: list[str], end: str) -> None:
    before = GroupText("groups/g/MEMORY.md", "".join(f"{line}\n" for line in known))
    before.newest_notes(60)  # as a context reads it
    text = before.text + "\n".join(added) + end

    after = GroupText(before.file, text).after(before)
    whole = GroupText(before.file, text)

    assert after.notes.book == whole.notes.book
    assert [*after.notes.book.by_author.items()] == [*whole.notes.book.by_author.items()]
    assert (after.clean, after.tokens) == (whole.clean, whole.tokens)
    for share_tokens in (15, 60, 200):
        assert after.newest_notes(share_tokens) == whole.newest_notes(share_tokens)
