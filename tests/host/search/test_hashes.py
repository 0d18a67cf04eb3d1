"""A hash table of few bytes answers as a dict does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.search.hashes import Hashes

KEYS = st.integers(0, 60).map(lambda number: (number << 17 | 1 << 63).to_bytes(8))  # some of them want the same place


@given(st.lists(st.tuples(KEYS, st.integers(0, 9)), max_size=200))
def test_it_answers_as_a_dict_does(steps: list[tuple[bytes, int]]) -> None:
    table, plain = Hashes(), dict[bytes, int]()
    for key, number in steps:
        if number:
            table.put(key, number)
            plain[key] = number
        else:
            assert table.pop(key) == plain.pop(key, 0)
        assert table.get(key) == plain.get(key, 0)
    assert sorted(table.numbers()) == sorted(plain.values())
