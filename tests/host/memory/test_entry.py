"""Entries and their files: what a person may write, what the host writes, and when two texts are the same."""

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent import wire
from honeybadger_host.memory.entries.entry import (
    KINDS,
    Entry,
    Origin,
    dump_entry,
    entry_file,
    entry_id,
    parse_entry,
    place_of,
)
from honeybadger_host.text.labels import each_once, folded

FILE = "groups/main/memory/user-preferences/look/k3v9x2m4q7p1.json"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

texts = st.text(st.characters(exclude_categories=["Cs"]))
visible = texts.filter(lambda text: text.strip() != "")
once = st.lists(visible, max_size=4).map(each_once)
json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json, max_size=4)
times = st.none() | st.datetimes(timezones=st.just(UTC))
entries = st.builds(
    Entry,
    id=st.just("k3v9x2m4q7p1"),
    category=st.just("user-preferences/look"),
    content=visible,
    tags=once,
    created=times,
    updated=times,
    metadata=objects,
    by=st.none() | st.just("researcher"),
    title=st.none() | visible,
    aliases=once,
    reinforced=st.integers(0, 2**53 - 1),
    pinned=st.booleans(),
    origin=st.none() | st.builds(Origin, st.sampled_from(sorted(KINDS)), st.booleans(), st.none() | visible),
    more=objects.map(lambda more: {f"x-{name}": value for name, value in more.items()}),
)


@given(entries)
def test_a_written_entry_is_read_back_equal(entry: Entry) -> None:
    data = dump_entry(entry)
    assert parse_entry(data, FILE) == entry
    assert dump_entry(parse_entry(data, FILE)) == data
    assert data.startswith(b'{\n  "id": "k3v9x2m4q7p1",\n  "content": ')
    assert data.endswith(b"\n}\n")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("2026-11-21T12:00:00Z", NOON),
        ("2026-11-21T13:45:00+01:45", NOON),
        ("2026-11-21 12:00", NOON),
    ],
)
def test_a_person_may_write_a_time_in_several_ways(written: str, read: datetime) -> None:
    entry = parse_entry(orjson.dumps({"content": "x", "created": written}), FILE)
    assert entry.created == read
    assert entry.created.tzinfo is UTC
    assert entry.updated is None


def test_a_byte_order_mark_and_nulls_are_ignored() -> None:
    data = (
        b'\xef\xbb\xbf{"content": "x", "tags": null, "metadata": null, "title": null, "by": null, "reinforced": null}'
    )
    assert parse_entry(data, FILE) == Entry("k3v9x2m4q7p1", "user-preferences/look", "x")


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("groups/main/memory/a/my note.json", "is not an id"),
        ("groups/main/memory/a/.json", "is not an id"),
        ("groups/main/memory/a/x.txt", "is not an id"),
        ("groups/main/memory/été/x.json", "is not a category"),
        ("groups/main/memory/a//x.json", "is not a category"),
        ("groups/main/memory/../x.json", "is not a category"),
        ("groups/main/memory/" + "a/" * 9 + "x.json", "is not a category"),
        ("groups/main/MEMORY.md", "not in"),
        ("data/sessions/main/x.jsonl", "not in"),
    ],
)
def test_a_file_in_another_place_is_no_entry(file: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        place_of(file)


names = st.text("abcXYZ019-_", min_size=1, max_size=8)


@given(st.lists(names, min_size=1, max_size=8))
def test_letters_digits_dashes_and_slashes_are_a_category(parts: list[str]) -> None:
    category = "/".join(parts)
    assert wire.SaveMemory.model_validate({"content": "x", "category": category}).category == category
    assert place_of(entry_file("main", category, "x")) == ("main", category, "x")


@given(st.text("ab-_/.\\ ~é\n\0", max_size=12))
def test_no_category_leads_out_of_its_groups_folder(category: str) -> None:
    """Source: AM3."""
    try:
        wire.SaveMemory.model_validate({"content": "x", "category": category})
    except ValueError:
        return
    assert ".." not in category
    assert category.strip("/") == category
    assert "//" not in category
    assert set(category) <= set("ab-_/")


@pytest.mark.parametrize(
    "text",
    [
        "user prefers DARK mode",
        "  User prefers\n dark\tmode ",
        "Ｕser prefers dark mode",
        "User\u00a0prefers dark mode",
    ],
)
def test_case_width_and_white_space_make_no_other_text(text: str) -> None:
    assert folded(text) == folded("User prefers dark mode")


@given(texts)
def test_what_is_normalised_stays_so(text: str) -> None:
    assert folded(folded(text)) == folded(text)


def test_an_id_is_the_same_on_every_machine() -> None:
    assert entry_id("general", "user prefers dark mode") == "q9e4vbhapmx0"
    assert entry_id("Look", "x") == entry_id("look", "x")
