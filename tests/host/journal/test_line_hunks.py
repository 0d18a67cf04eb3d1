"""Differences of texts, line by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.journal import line_hunks
from honeybadger_host.journal.line_hunks import hunks_between, lines_of, reversed_hunks, text_with

_LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"", b"d"]), max_size=30).map(b"".join).map(lines_of)


@given(_LINES, _LINES, st.sampled_from([0, line_hunks._MAX_EQUAL_PAIRS]))
def test_hunks_make_one_text_of_the_other_and_back(before: list[bytes], after: list[bytes], pairs: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line_hunks, "_MAX_EQUAL_PAIRS", pairs)
        hunks = hunks_between(before, after)
    assert text_with(b"".join(before), hunks) == b"".join(after)
    assert text_with(b"".join(after), reversed_hunks(hunks)) == b"".join(before)
    assert bool(hunks) == (before != after)
