"""Three texts made one line by line, as an edit is undone: what both sides changed is refused, all else is kept."""

from __future__ import annotations

import pytest

from honeybadger_host.documents.merge import Overlapping, merge_lines


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
