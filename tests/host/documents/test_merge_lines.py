"""Three texts made one line by line, as an edit is undone: what both sides changed is refused, all else is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.documents.merge import Overlapping, merge_lines

_TEXTS = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n"]), max_size=12).map(b"".join)


@given(_TEXTS, _TEXTS)
def test_a_side_that_changed_nothing_takes_the_other(base: bytes, other: bytes) -> None:
    assert merge_lines(base, base, other) == other
    assert merge_lines(base, other, base) == other
    assert merge_lines(base, other, other) == other


@pytest.mark.parametrize(
    ("base", "newest", "saved", "merged"),
    [
        (b"a\nb\nc\n", b"a\nb\nC\n", b"A\nb\nc\n", b"A\nb\nC\n"),
        (b"a\n", b"a\nnote\n", b"a\nback\n", b"a\nback\nnote\n"),
        (b"a\n", b"a\nback\nnote\n", b"a\nback\n", b"a\nback\nnote\n"),
        (b"a\nlast", b"a\nlast\nnote\n", b"a\n", b"a\nnote\n"),
        (b"", b"\nnote\n", b"\nback\n", b"\nback\n\nnote\n"),
        (b"a\nb\n", b"a\nc\n", b"a\n", None),
        (b"a\nb\n", b"a\n", b"a\nc\n", None),
    ],
)
def test_what_only_one_side_changed_is_taken(base: bytes, newest: bytes, saved: bytes, merged: bytes | None) -> None:
    if merged is not None:
        assert merge_lines(base, newest, saved) == merged
        return
    with pytest.raises(Overlapping) as refused:
        merge_lines(base, newest, saved)
    assert refused.value.line == 1


def test_a_blank_line_is_no_anchor_between_changed_notes() -> None:
    """A typed line is taken out although the note above it went and one came below it."""
    base = b"\n## One\n- a\n\n## Two\n- b\n- typed\n"
    newest = b"\n## One\n- a\n- typed\n\n## Three\n- c\n"
    assert merge_lines(base, newest, base.replace(b"- typed\n", b"")) == newest.replace(b"- typed\n", b"")
