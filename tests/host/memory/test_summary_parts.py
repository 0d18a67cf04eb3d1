"""summary.md as parts of sessions."""

from honeybadger_host.memory.markdown.summary_parts import digest_of, part_of, with_part


def test_a_part_ends_where_a_heading_begins_a_line() -> None:
    body = "first\x0c## other\u2028## main\nsecond"
    text = with_part(with_part("", "main", body), "later", "third")
    assert (part_of(text, "main"), part_of(text, "other"), part_of(text, "later")) == (body, None, "third")


def test_a_formatter_does_not_make_a_part_a_persons() -> None:
    body = "(written by a model)\n  Ann moves in May.\n  The rest is as it was."
    text = with_part("We are a family.\n", "main", body)
    formatted = "\n".join(line.strip() for line in text.replace("\n\n", "\n\n\n").split("\n"))
    assert part_of(formatted, "main") != body
    assert digest_of(part_of(formatted, "main") or "") == digest_of(body)
    assert digest_of(part_of(formatted.replace("May", "June"), "main") or "") != digest_of(body)
