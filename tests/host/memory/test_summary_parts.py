"""summary.md as parts of sessions."""

from __future__ import annotations

from honeybadger_host.memory.markdown.summary_parts import part_of, with_part


def test_a_part_ends_at_a_heading_that_begins_a_line() -> None:
    body = "first\x0c## other\u2028## main\nsecond"
    text = with_part(with_part("", "main", body), "later", "third")
    assert (part_of(text, "main"), part_of(text, "other"), part_of(text, "later")) == (body, None, "third")
