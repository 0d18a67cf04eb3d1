"""Candidates: duplicates are found, what only looks like one is not, and many entries take neither time nor memory."""

from __future__ import annotations

import pytest

from honeybadger_host.curation.candidates import alike


def items(*texts: str) -> dict[str, str]:
    return {f"e{n}": text for n, text in enumerate(texts)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User prefers dark mode in the editor.", "The user prefers dark mode in the editor!"),
        ("Der Hund von Anna heißt Bello.", "Bello heißt der Hund, ein Dackel."),
        ("家賃は二万円です。駅の近く。", "家賃は2万円です。駅の近くです。"),
        ("Le loyer est de 950 euros.", "Depuis mai, le loyer est de 990 euros par mois."),
        ("预算是四千欧元。", "第一组的预算是五千欧元。"),
        ("Ann moved to Graz.", "In March Ann moved to Graz with her dog Bello and the firm Silva."),
    ],
)
def test_texts_that_mostly_contain_another_are_found(one: str, other: str) -> None:
    (pair,) = alike(items(one, "Something else about boats.", other, "Tomorrow it rains in Rome."))
    assert pair.ids == ("e0", "e2")


def test_a_real_duplicate_is_found_among_templates() -> None:
    many = [f"Setting {n} of the oven is for thing {n * 7}." for n in range(3000)]
    found = alike(items(*many, "User likes warm bread in the morning.", "In the morning the user likes warm bread."))
    assert ("e3000", "e3001") in [pair.ids for pair in found]
    assert len(found) <= 500
