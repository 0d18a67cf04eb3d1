"""The protocol's one escape for free names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent.escaping import escaped, unescaped
from honeybadger_agent.mailbox import SESSION
from honeybadger_agent.wire import CATEGORY, is_name

_ROW = re.compile(r"\| `(\".*\")` \| `(\S+)` \|")
PAGE = Path(__file__).parents[2] / "docs/protocol.md"
VECTORS = [(row[1], row[2]) for row in map(_ROW.fullmatch, PAGE.read_text().split("\n")) if row is not None]


def test_the_protocol_has_vectors() -> None:
    assert len(VECTORS) == 8


@pytest.mark.parametrize(("quoted", "text"), VECTORS)
def test_the_client_makes_each_vector_of_the_protocol(quoted: str, text: str) -> None:
    name = json.loads(quoted)
    assert escaped(name) == text
    assert unescaped(text) == (None if text.startswith("__") else name)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_name_survives_as_category_name_and_session(name: str) -> None:
    text = escaped(name)
    assert CATEGORY.fullmatch(text)
    assert SESSION.fullmatch(text)
    assert is_name(text)
    assert text == text.lower()  # categories do not tell upper and lower case
    assert unescaped(text) in ((None,) if text.startswith("__") else (name,))
