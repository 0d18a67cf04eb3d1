"""Text as a page shows it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.text.neutralise import HIDDEN
from honeybadger_host.web.rendering import visible

_ODD = "ab 9#<\n\t\x01\u00e4\u0905\u094d\u200c\u200d\u202e\ufe0f\u180b\u1820\u00a9\U000e0041"


@given(st.text(st.sampled_from(_ODD)) | st.text())
def test_every_character_that_hides_something_is_shown_by_its_number_wherever_it_stands(text: str) -> None:
    shown = re.findall(r'<span class="hidden-character">U\+([0-9A-F]{4,6})</span>', str(visible(text)))
    assert shown == [f"{ord(found):04X}" for found in HIDDEN.findall(text)]
