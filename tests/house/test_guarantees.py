"""Every promise of docs/guarantees.md names the tests that hold it, and they are there."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "guarantees.md").read_text()
_TEST = re.compile(r"`tests/([\w/]+\.py)::(\w+)`")
_SEPARATOR = re.compile(r"\|(?:-+\|)+")


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file, read and not run."""
    path = TESTS / file
    text = path.read_text() if path.is_file() else ""
    return frozenset(re.findall(r"^(?: {4})?(?:async )?def (test_\w+)\(", text, re.MULTILINE))


def promises(page: str) -> Iterator[tuple[str, str]]:
    """Yield (promise, its cell of tests) of every table whose last column is `tests`."""
    is_table = False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            is_table = False
        elif cells[-1] == "tests":
            is_table = True
        elif is_table and not _SEPARATOR.fullmatch(line):
            yield cells[0], cells[-1]


def problems(page: str) -> list[str]:
    """Return what is wrong with the tables of a page."""
    found = []
    for promise, cell in promises(page):
        tests = _TEST.findall(cell)
        if not tests or _TEST.sub("", cell).strip(", "):
            found.append(f"{promise}: names no test, or something else: {cell!r}")
        found += [f"{promise}: there is no {file}::{name}" for file, name in tests if name not in names_in(file)]
    return found


def test_every_promise_names_tests_that_are_there() -> None:
    assert len(list(promises(PAGE))) > 50
    assert problems(PAGE) == []


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("", "names no test"),
        ("all of them", "names no test"),
        ("`tests/house/test_guarantees.py::test_gone`", "there is no house/test_guarantees.py::test_gone"),
        ("`tests/house/test_gone.py::test_gone`", "there is no house/test_gone.py::test_gone"),
        ("`house/test_docs.py::test_x`", "names no test"),
        ("`tests/house/test_guarantees.py::test_every_promise_names_tests_that_are_there`, and more", "something else"),
    ],
)
def test_a_promise_that_nothing_holds_is_noticed(cell: str, says: str) -> None:
    """The control."""
    page = f"| fault | what holds | tests |\n|---|---|---|\n| the moon falls | all | {cell} |\n"
    (problem,) = problems(page)
    assert problem.startswith("the moon falls: ")
    assert says in problem


def test_the_page_says_what_is_not_promised() -> None:
    assert PAGE.partition("\n## Not promised\n")[2].count("\n- **") >= 10
    assert "(docs/guarantees.md)" in (TESTS.parent / "README.md").read_text()
